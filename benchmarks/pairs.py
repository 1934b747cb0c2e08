"""Two variants of a loop: timed in turns without a profiler, then recorded. Shared by the scripts that plant faults.

A host of a shared machine is up to three times slower at one hour than at another: only ratios of neighbours count.
"""

from __future__ import annotations

import gzip
import os
import shutil
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from medians import interval_of_median
from torch.profiler import ProfilerActivity, profile, schedule

Step = Callable[[], Any]

PAIRS = 7
SECONDS, MOST_STEPS, LEAST_STEPS = 0.4, 40, 3
"""How long a round is, in seconds and in steps."""
WARM = 4


def steps_of(step: Step) -> int:
    """Steps of a round, after warming up."""
    for _ in range(WARM):
        step()
    return max(LEAST_STEPS, min(MOST_STEPS, int(SECONDS / max(timed(step, LEAST_STEPS), 1e-5))))


def timed(step: Step, steps: int) -> float:
    """Seconds a step, the device drained before and after."""
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(steps):
        step()
    torch.cuda.synchronize()
    return (time.perf_counter() - start) / steps


def in_turns(base: Step, mended: Step, samples: float = 1.0) -> dict[str, Any]:
    """Ratios of the time a sample, mended over base; `samples` are those of a mended step for each of a base step."""
    variants = (base, mended)
    count = [steps_of(step) for step in variants]
    rounds: tuple[list[float], list[float]] = ([], [])
    for pair in range(PAIRS):
        for which in (0, 1) if pair % 2 == 0 else (1, 0):
            rounds[which].append(timed(variants[which], count[which]))
    ratios = [after / before / samples for before, after in zip(*rounds, strict=True)]
    return {
        "after_over_before": statistics.median(ratios),
        "ci95": interval_of_median(ratios),
        "base_step_s": statistics.median(rounds[0]),
        "mended_step_s": statistics.median(rounds[1]),
        "samples": samples,
    }


class Rows(torch.utils.data.Dataset):
    """Items that are made after so many ms of `work`, or of waiting, as for a disk."""

    def __init__(
        self,
        make: Callable[[], torch.Tensor],
        ms: float,
        waits: bool = False,
        work: Callable[[], Any] = lambda: None,
    ) -> None:
        self.make, self.seconds, self.waits, self.work = make, ms / 1e3, waits, work

    def __len__(self) -> int:
        return 10**8

    def __getitem__(self, index: int) -> torch.Tensor:
        begun = time.perf_counter()
        if self.waits:
            time.sleep(self.seconds)
        while time.perf_counter() - begun < self.seconds:
            self.work()
        return self.make()


def copied(host: torch.Tensor, ahead: bool) -> Callable[[], torch.Tensor]:
    """A batch that is copied in for each step, from pageable memory; or from pinned memory, a step ahead on a stream of
    its own.
    """
    if not ahead:
        return host.cuda
    host, side = host.pin_memory(), torch.cuda.Stream()
    box: dict[str, torch.Tensor] = {}

    def fetch() -> None:
        with torch.cuda.stream(side):
            box["x"] = host.to("cuda", non_blocking=True)

    def batch() -> torch.Tensor:
        if "x" not in box:
            fetch()
        torch.cuda.current_stream().wait_stream(side)
        x = box.pop("x")
        x.record_stream(torch.cuda.current_stream())
        fetch()
        return x

    return batch


def record(step: Step, path: str, steps: int, **options: Any) -> None:
    """Write a profile of a few steps, with shapes."""
    for _ in range(WARM):
        step()
    raw = path.removesuffix(".gz")
    with profile(
        activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA],
        schedule=schedule(wait=1, warmup=3, active=steps, repeat=1),
        on_trace_ready=lambda p: p.export_chrome_trace(raw),
        record_shapes=True,
        **options,
    ) as prof:
        for _ in range(4 + steps):
            step()
            prof.step()
        torch.cuda.synchronize()
    with open(raw, "rb") as plain, gzip.open(path, "wb", 9) as packed:
        shutil.copyfileobj(plain, packed)
    os.remove(raw)
