"""More processes want to run than there are cores."""

from __future__ import annotations

from gpuwhy.reports.findings_model import FindingInfo, Interval
from gpuwhy.reports.words import counted
from gpuwhy.run.seen import Seen

WAITS = 0.1
"""Part of the time that workers, or the loop, must be ready to run without a core."""
FULL = 0.85
"""Part of the cores that must be in use."""
THEIRS = 0.5
"""Part of that use that must be the workers': else they wait for somebody else's work."""


def crowded_cores(seen: Seen) -> FindingInfo | None:
    """The loop waits for a core, though the program does not use those that it may."""
    summary, loop = seen.summary, seen.loop
    if summary is None or summary.cores is None or loop is None or loop.wait is None or loop.wait < WAITS:
        return None
    used = sum(one.cores or 0.0 for one in summary.processes)
    if used >= FULL * summary.cores:
        return None
    waits = min(loop.wait, 0.95)
    return seen.finding(
        "host_contention",
        "other programs take the cores that the loop needs",
        [
            f"the loop's thread was ready to run without a core {100 * waits:.0f} % of the time, though the program "
            f"uses {used:.1f} of the {summary.cores:g} cores that it may",
        ],
        "a loop as slow on a machine where nothing else runs",
        ("cores_of_its_own", "give the program cores of its own, or stop what else runs there", None),
        Interval(low=1 - waits, mid=1 - waits / 2, high=1.0),
    )


def too_many_workers(seen: Seen) -> FindingInfo | None:
    """The loader has more workers than cores, and they, or the loop, wait for a core."""
    summary, process = seen.summary, seen.process
    if summary is None or process is None or summary.cores is None:
        return None
    workers = [one for one in summary.processes if one.parent == seen.journal.pid]
    count = process.children  # at one time: each epoch may start its own
    used = sum(one.cores or 0.0 for one in summary.processes)
    working = sum(one.cores or 0.0 for one in workers)
    if not count or count + 1 <= summary.cores or used < FULL * summary.cores or working < THEIRS * used:
        return None
    loop = seen.loop
    waits = loop.wait if loop is not None and loop.wait is not None else process.wait
    theirs = sum(one.wait or 0.0 for one in workers) / count
    if waits is None or max(waits, theirs) < WAITS:
        return None
    after = Interval(low=max(1 - waits - theirs / 2, 0.05), mid=max(1 - waits, 0.05), high=1.0)
    fewer = max(int(summary.cores) - 1, 1)
    return seen.finding(
        "host_contention",
        "more loader workers than cores take turns with the loop",
        [
            f"{counted(count, 'worker')} and the loop share {summary.cores:g} cores, of which {used:.1f} are in use",
            f"the loop's thread was ready to run without a core {100 * waits:.0f} % of the time, each worker "
            f"{100 * theirs:.0f} %",
        ],
        "a loop as slow with as many workers as cores",
        ("fewer_workers", f"{fewer} workers, one core left for the loop", f"DataLoader(..., num_workers={fewer})"),
        after,
    )
