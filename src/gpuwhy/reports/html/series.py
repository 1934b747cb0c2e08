"""A watched run → its throughput, counters and memory over time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import msgspec
import numpy as np
from numpy.typing import NDArray

from gpuwhy.explained import Watched
from gpuwhy.probe import format as kinds
from gpuwhy.reports.html.scene import Line, RunScene
from gpuwhy.run.gpus import GpuSample
from gpuwhy.run.seen import Seen
from gpuwhy.run.throughput import rates
from gpuwhy.run.watch import Sample

MOST_POINTS = 400
MOST_GPUS = 4
MOST_MARKS = 200
COUNTERS: list[tuple[str, str, Callable[[GpuSample], float | None]]] = [
    ("utilization counter", "fraction", lambda gpu: gpu.utilization),
    ("SM active", "fraction", lambda gpu: gpu.sm),
    ("tensor cores active", "fraction", lambda gpu: gpu.tensor),
    ("DRAM active", "fraction", lambda gpu: gpu.dram),
    ("memory used", "bytes", lambda gpu: gpu.memory_used),
    ("power", "W", lambda gpu: gpu.power_w),
]
MARKS = {
    kinds.CHECKPOINT: "checkpoint",
    kinds.EVALUATION: "evaluation",
    kinds.COMPILE: "compilation",
    kinds.COLLECTION: "garbage collection",
}


def run_scene(watched: Watched) -> RunScene:
    """The run over time, of the first process that made steps; times in seconds since the program was started."""
    first = watched.seen[0] if watched.seen else None
    middle, rate = _throughput(first, watched.begun_ns) if first is not None else ([], [])
    samples = watched.samples
    step = max(-(-len(samples) // MOST_POINTS), 1)
    lines = _counters(samples) + _host(samples)
    return RunScene(
        step_s=middle,
        steps_per_s=rate,
        counter_s=[(sample.t - watched.begun_ns) / 1e9 for sample in samples[step - 1 :: step]],
        counters=[msgspec.structs.replace(line, values=_means(line.values, step)) for line in lines],
        marks=_marks(first, watched.begun_ns) if first is not None else [],
    )


def _means(values: Sequence[float | None], step: int) -> list[float | None]:
    """The mean of what is known of each `step` values: a counter tells of the time since the value before."""
    groups = [values[end - step : end] for end in range(step, len(values) + 1, step)]
    known = [[value for value in group if value is not None] for group in groups]
    return [sum(group) / len(group) if group else None for group in known]


def _throughput(seen: Seen, begun_ns: int) -> tuple[list[float], list[float | None]]:
    """Steps a second in equal stretches of time, from the first step to the last."""
    edge = seen.steps.edge
    if len(edge) < 2:
        return [], []
    points = int(min(MOST_POINTS, max((len(edge) - 1) // 2, 1)))
    bounds, rate = rates(edge, points)
    middle = (bounds[:-1] + bounds[1:]) / 2
    return [float(x) for x in (middle - begun_ns) / 1e9], list(rate)


def _counters(samples: Sequence[Sample]) -> list[Line]:
    indices = sorted({gpu.index for sample in samples for gpu in sample.gpus if gpu.index is not None})[:MOST_GPUS]
    lines = []
    for index in indices:
        own = [next((gpu for gpu in sample.gpus if gpu.index == index), None) for sample in samples]
        for label, unit, value in COUNTERS:
            values = [None if gpu is None else value(gpu) for gpu in own]
            if any(one is not None for one in values):
                name = f"GPU {index}: {label}" if len(indices) > 1 else label
                lines.append(Line(label=name, unit=unit, values=values))
    return lines


def _host(samples: Sequence[Sample]) -> list[Line]:
    """Cores that the program kept busy, and its memory, all processes together."""
    cores: list[float | None] = [None]
    for before, after in pairwise(samples):
        cores.append(_cores(before, after))
    memory = [_sum([process.rss for process in sample.processes]) for sample in samples]
    lines = []
    if any(value is not None for value in cores):
        lines.append(Line(label="CPU cores busy", unit="cores", values=cores[: len(samples)]))
    if any(value is not None for value in memory):
        lines.append(Line(label="host memory", unit="bytes", values=memory))
    return lines


def _cores(before: Sample, after: Sample) -> float | None:
    seconds = (after.t - before.t) / 1e9
    earlier = {process.pid: process.cpu_s for process in before.processes}
    spent = [
        process.cpu_s - start
        for process in after.processes
        if process.cpu_s is not None and (start := earlier.get(process.pid)) is not None
    ]
    return max(sum(spent), 0.0) / seconds if spent and seconds > 0 else None


def _sum(values: Sequence[int | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(sum(known)) if known else None


def _marks(seen: Seen, begun_ns: int) -> list[tuple[float, float, str]]:
    """What is worth to be seen beside the curves."""
    steps = seen.steps
    found = _stretches(steps.edge, steps.startup, "start-up") + _stretches(steps.edge, steps.profiled, "profile")
    for kind, label in MARKS.items():
        found += [(start, end, label) for start, end in seen.spans(kind, everywhere=True).tolist()]
    longest = sorted(found, key=lambda mark: mark[0] - mark[1])[:MOST_MARKS]
    return [((start - begun_ns) / 1e9, (end - begun_ns) / 1e9, label) for start, end, label in sorted(longest)]


def _stretches(edge: NDArray[np.int64], chosen: NDArray[np.bool_], label: str) -> list[tuple[int, int, str]]:
    """Runs of chosen steps."""
    change = np.diff(np.concatenate(([False], chosen, [False])).astype(np.int8))
    begins, ends = np.flatnonzero(change == 1), np.flatnonzero(change == -1)
    return [(int(edge[a]), int(edge[b]), label) for a, b in zip(begins.tolist(), ends.tolist(), strict=True)]
