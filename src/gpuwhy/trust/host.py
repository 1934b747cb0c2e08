"""Checks of what is known of the host: how much of the idle time is explained, and how recording distorts it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gpuwhy.ledger.accounts import HOST_BOUND
from gpuwhy.ledger.partition import Ledger
from gpuwhy.timeline import CallKind, Timeline
from gpuwhy.trust.limits import CPU_ADVICE, STACK_ADVICE, Check, level_of, percent

WORKERS = re.compile(r"MultiProcessingDataLoaderIter|torch/utils/data/dataloader\.py\(\d+\): _(try_)?get_data$")
"""Calls of a data loader with worker processes."""
DISTORTION = (1.05, 2.5)
"""How much PyTorch's profiler slowed one and the same host-bound loop (measured on H200 hosts)."""


def host_known(timeline: Timeline, ledgers: Sequence[Ledger]) -> Check:
    """How much of the window the recording cannot explain."""
    worst = max(ledgers, key=lambda ledger: ledger.unknown_ns / ledger.window_ns)
    share = worst.unknown_ns / worst.window_ns
    device = timeline.devices[worst.device]
    where = f" on rank {device.rank}, GPU {device.number} (the least known)" if len(ledgers) > 1 else ""
    level = level_of("host_known", share)
    has_operators = bool((timeline.calls.kind == CallKind.OPERATOR).any())
    has_frames = bool((timeline.calls.kind == CallKind.PYTHON).any())
    advice = None if level == "ok" else (STACK_ADVICE if has_operators and not has_frames else None)
    if level != "ok" and not has_operators:
        advice = CPU_ADVICE
    return Check(
        "host_known",
        level,
        f"{percent(share)} of the window{where} is idle time that the recording cannot explain "
        "(untraced, or outside operators without Python frames)",
        advice,
    )


def profiler_distortion(timeline: Timeline, ledgers: Sequence[Ledger]) -> Check | None:
    """Recording slows the host, not the device and not the loader's workers: say so where it matters."""
    has_operators = bool((timeline.calls.kind == CallKind.OPERATOR).any())
    host = sum(ledger.of(*HOST_BOUND) + ledger.of("idle/host_compute") for ledger in ledgers)
    share = host / max(sum(ledger.window_ns for ledger in ledgers), 1)
    if not has_operators or level_of("profiler_distortion", share) == "ok":
        return None
    loads = any(WORKERS.search(name) for name in timeline.names)
    hides = (
        " It does not slow the loader's workers: part of the wait for the loader hides behind the slowed host."
        if loads
        else ""
    )
    return Check(
        "profiler_distortion",
        "note",
        f"the profiler slows the host (by {DISTORTION[0]} to {DISTORTION[1]} times where we measured it), not the "
        f"device: the host-bound share is overstated.{hides}",
        "tell the step time of an unprofiled run (--step-time)",
        ("exact shares of host-bound time",),
    )
