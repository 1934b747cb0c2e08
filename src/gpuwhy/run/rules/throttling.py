"""The GPU is held below its clock by heat or by its supply."""

from __future__ import annotations

from gpuwhy.reports.findings_model import FindingInfo, Interval
from gpuwhy.run.seen import Seen

HEAT = ("sw_thermal", "hw_thermal", "hw_slowdown", "hw_power_brake")
"""Reasons that a user can do away with. `power_cap` is how a busy GPU works."""
OFTEN = 0.1
"""Part of the samples that one of them must hold in."""


def throttling(seen: Seen) -> FindingInfo | None:
    """Clocks were held down, and were lower for it."""
    gpu = seen.gpu
    if gpu is None or not gpu.throttled or gpu.sm_clock is None:
        return None
    reasons = {reason: share for reason, share in gpu.throttled.items() if reason in HEAT and share >= OFTEN}
    if not reasons:
        return None
    clock = min(gpu.sm_clock, 1.0)
    busy = min(gpu.utilization.mean, 1.0) if gpu.utilization is not None else 1.0
    # The clock is an average over all samples: at other times other reasons, such as the power cap, may hold it down.
    lost = busy * (1 - clock)
    after = Interval(low=max(1 - lost, 0.05), mid=1 - lost * max(reasons.values()) / 2, high=1.0)
    told = ", ".join(f"{reason} in {100 * share:.0f} % of the samples" for reason, share in reasons.items())
    return seen.finding(
        "throttling",
        "the GPU's clock is held down by heat or power supply",
        [f"{told}; its clock was at {100 * clock:.0f} % of its maximum on average"],
        "a step as long at the full clock",
        ("cooling", "look at the machine's cooling and power supply (nvidia-smi -q -d PERFORMANCE)", None),
        after,
    )
