"""Another process computes on the same GPU."""

from __future__ import annotations

from gpuwhy.reports.findings_model import FindingInfo, Interval
from gpuwhy.reports.words import size
from gpuwhy.run.seen import Seen

BUSY = 0.05
"""Part of the time that kernels of other processes must run."""


def shared_device(seen: Seen) -> FindingInfo | None:
    """Kernels of processes that are not the program's."""
    gpu = seen.gpu
    if gpu is None or not gpu.others:
        return None
    busy = [other for other in gpu.others if (other.sm or 0.0) >= BUSY]
    if not busy:
        return None
    used = min(sum(other.sm or 0.0 for other in busy), 1.0)
    after = Interval(low=max(1 - used, 0.05), mid=1 - used / 2, high=1.0)
    who = ", ".join(
        f"process {other.pid} ({100 * (other.sm or 0.0):.0f} % of the time"
        + (f", {size(other.memory_peak)}" if other.memory_peak else "")
        + ")"
        for other in busy[:3]
    )
    return seen.finding(
        "shared_device",
        "the GPU is shared with another process",
        [f"kernels of others ran on it: {who}; processes without MPS take turns"],
        "a step as long while the other process stands still",
        ("gpu_of_its_own", "give each of them a GPU of its own, or run one after the other", None),
        after,
    )
