"""The loop waits for its data loader."""

from __future__ import annotations

from gpuwhy.reports.findings_model import FindingInfo, Interval
from gpuwhy.run.seen import Seen


def input_wait(seen: Seen) -> FindingInfo | None:
    """Time within the loader's `__next__`, in the thread of the loop."""
    steps, steady = seen.steps, seen.steps.steady
    own = float(steps.waited_ns[steady].sum()) / max(float(steps.host_ns[steady].sum()), 1.0)
    if not own:
        return None
    settings = seen.journal.noted("loader")
    workers = settings[-1].get("workers") if settings else None
    makes = workers == 0
    title = (
        "the loop makes its batches itself, while the device waits" if makes else "the loop waits for its data loader"
    )
    evidence = [f"{seen.of_step(own)} pass in the loader's __next__"]
    if isinstance(workers, int):
        evidence.append(f"the loader has {workers or 'no'} worker processes")
    return seen.finding(
        "input",
        title,
        evidence,
        "a step that is as long with batches made beforehand",
        (
            "loader_workers",
            "let (more) worker processes make the batches, each with a core of its own",
            "DataLoader(..., num_workers=…, pin_memory=True, persistent_workers=True)",
        ),
        Interval(low=1 - own, mid=1 - own, high=1 - own / 2),
    )
