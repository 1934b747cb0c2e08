"""Another Python thread holds Python's lock while the loop needs it."""

from __future__ import annotations

import numpy as np

from gpuwhy.probe import format as kinds
from gpuwhy.reports.findings_model import FindingInfo, Interval
from gpuwhy.run.counters import ThreadSummary
from gpuwhy.run.seen import Seen

LONG_NS = 1_000_000
"""Giving the lock away takes microseconds where nobody wants it; a thread that computes keeps it for 5 ms."""
OFTEN = 0.3
"""Part of the times that the lock was given away that it must have come back late."""
BUSY = 0.1
"""Of a core that other Python threads must use."""


def busy_thread(seen: Seen) -> FindingInfo | None:
    """The lock comes back late, and another Python thread is busy."""
    lock = seen.spans(kinds.LOCK)
    if len(lock) < 2:
        return None
    took = lock[:, 1] - lock[:, 0]
    late = float((took >= LONG_NS).mean())
    others, own = _others(seen), seen.loop
    if late < OFTEN or not others or own is None or own.cores is None:
        return None
    used = sum(thread.cores or 0.0 for thread, _ in others)
    if used < BUSY:
        return None
    most, name = max(others, key=lambda pair: pair[0].cores or 0.0)
    # The loop runs while it has the lock: alone it needs about what it computes now. What the others use is all that it
    # can win.
    computes = max(own.cores, 0.02)
    mid = min(max(1 - used, computes), 1.0)
    after = Interval(low=min(0.8 * computes, mid), mid=mid, high=(1 + mid) / 2)
    return seen.finding(
        "host_contention",
        f"the thread '{name}' holds Python's lock while the loop waits for it",
        [
            f"thread '{name}' uses {most.cores:.2f} of a core, the loop's own thread {computes:.2f}: both run Python, "
            f"and only one can at a time",
            f"the loop gave Python's lock away {len(lock)} times to see, and {100 * late:.0f} % of the times it came "
            f"back only after {np.median(took[took >= LONG_NS]) / 1e6:.1f} ms",
        ],
        "a loop as slow without that thread",
        (
            "thread_to_process",
            "do that work in a process of its own, or less often",
            "multiprocessing.Process(target=…)",
        ),
        after,
    )


def _others(seen: Seen) -> list[tuple[ThreadSummary, str]]:
    """The other Python threads, with their names."""
    threads = seen.process.threads if seen.process is not None else None
    names = {note.get("tid"): str(note.get("name")) for note in seen.journal.noted("thread")}
    names.pop(seen.tid, None)
    return [(thread, names[thread.tid]) for thread in threads or [] if thread.tid in names and thread.cores]
