"""The loop stands still now and then: for a checkpoint, or for Python's garbage collection."""

from __future__ import annotations

from gpuwhy.probe import format as kinds
from gpuwhy.reports.findings_model import FindingInfo
from gpuwhy.reports.words import counted
from gpuwhy.run.seen import Seen
from gpuwhy.run.spans import Spans


def collections(seen: Seen) -> FindingInfo | None:
    """Long garbage collections within the steps."""
    return _pauses(
        seen,
        seen.spans(kinds.COLLECTION, everywhere=True),  # in another thread it holds Python's lock all the same
        "collection",
        "garbage_collection",
        "Python's garbage collection holds up the loop",
        "a loop as slow after gc.disable(), and without calls of gc.collect()",
        (
            "gc_off_loop",
            "collect between epochs, not in the loop",
            "gc.disable(); gc.freeze()   # and gc.collect() rarely",
        ),
    )


def checkpoints(seen: Seen) -> FindingInfo | None:
    """Saving, in the thread of the loop."""
    return _pauses(
        seen,
        seen.spans(kinds.CHECKPOINT),
        "save",
        "checkpoint",
        "checkpoints are written while the loop waits",
        "a run as long without its checkpoints",
        (
            "checkpoint_rarely",
            "write checkpoints rarely, or in the background",
            "torch.distributed.checkpoint.async_save(state, checkpoint_id=path)",
        ),
    )


def _pauses(
    seen: Seen, spans: Spans, one: str, cause: str, title: str, refuted_by: str, mend: tuple[str, str, str | None]
) -> FindingInfo | None:
    told = seen.saving(spans)
    if told is None:
        return None
    after, own = told
    steps = int(seen.steps.steady.sum())
    longest = int((spans[:, 1] - spans[:, 0]).max())
    evidence = [
        f"{counted(len(spans), one)} in the run, the longest of {longest / 1e6:,.0f} ms: they take "
        f"{seen.of_step(own)}, {100 * own:.1f} % of the time of {steps:,} steady steps",
    ]
    return seen.finding(cause, title, evidence, refuted_by, mend, after)
