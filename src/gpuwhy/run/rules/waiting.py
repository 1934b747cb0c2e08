"""The loop waits for its data loader."""

from __future__ import annotations

import math

from gpuwhy.reports.findings_model import FindingInfo, Interval
from gpuwhy.run.seen import Seen

AHEAD = 1.05
"""A device that takes so many times as long as the host is still at work when the host waits: that costs nothing."""


def _enough(own: float) -> int:
    """Workers that make a batch in the time that is left of a step, if the loop makes them in this part of it now."""
    return math.ceil(own / max(1 - own, 0.01)) + 1


def input_wait(seen: Seen) -> FindingInfo | None:
    """Time within the loader's `__next__`, in the thread of the loop."""
    steps, steady = seen.steps, seen.steps.steady
    host, length = (float(ns[steady].sum()) for ns in (steps.host_ns, steps.length))
    own = min(float(steps.waited_ns[steady].sum()) / host, 0.99)
    if not own or length > AHEAD * host:
        return None
    told = {note.get("workers") for note in seen.journal.noted("loader")}
    workers = told.pop() if len(told) == 1 else None  # of several loaders it is not known which one was waited for
    waits = ", while the device waits" if seen.journal.noted("device") else ""
    title = f"the loop makes its batches itself{waits}" if workers == 0 else "the loop waits for its data loader"
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
            f"let {'worker' if workers == 0 else 'more worker'} processes make the batches, each with a core of its "
            f"own: at best the waiting is gone",
            f"DataLoader(..., num_workers={_enough(own) if workers == 0 else '…'}, pin_memory=True, "
            f"persistent_workers=True)",
        ),
        Interval(low=1 - own, mid=1 - own, high=1 - own / 2),
    )
