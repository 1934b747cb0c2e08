"""What a recording of counters says of a stretch of time: how GPUs, processes and threads were used.

A counter's value tells of the time since the sample before, so that it weighs as much as of that time lies in the
stretch. What was seen fewer than twice in it is not known: None, never zero.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from gpuwhy.run.gpus import GpuSample
from gpuwhy.run.processes import ProcessSample
from gpuwhy.run.watch import Sample

LEAST_SAMPLES = 2


class Level(msgspec.Struct, frozen=True):
    """Values of a counter: their mean over time, and what a tenth and nine tenths of the samples lie below."""

    mean: float
    p10: float
    p90: float


class OtherProcess(msgspec.Struct, frozen=True, kw_only=True):
    """A process on the GPU that is not the program's."""

    pid: int
    memory_peak: int | None
    """Bytes."""
    sm: float | None
    """Mean fraction of time in which a kernel of it ran."""


class GpuSummary(msgspec.Struct, frozen=True, kw_only=True):
    """One GPU, or MIG instance, over a stretch of time."""

    index: int | None
    uuid: str | None
    name: str | None
    samples: int
    utilization: Level | None
    sm: Level | None
    tensor: Level | None
    dram: Level | None
    """Fractions, as in `GpuSample`."""
    power_w: float | None
    power_limit_w: float | None
    throttled: dict[str, float] | None
    """Share of samples in which each reason held clocks down; reasons that never did are left out."""
    sm_clock: float | None
    """SM clock over its maximum."""
    memory_peak: int | None
    memory_total: int | None
    """Bytes."""
    pcie_rx: float | None
    pcie_tx: float | None
    nvlink_rx: float | None
    nvlink_tx: float | None
    """Bytes/s."""
    others: list[OtherProcess] | None
    """Most memory first. None as well where the GPU's processes are numbered otherwise than the program's."""


class ThreadSummary(msgspec.Struct, frozen=True, kw_only=True):
    """One thread over the time in which its process's threads were looked at."""

    tid: int
    name: str | None
    cores: float | None
    """CPU time over time: 1 is one core kept busy."""
    wait: float | None
    """Share of time in which it was ready to run, but no core was free."""


class ProcessSummary(msgspec.Struct, frozen=True, kw_only=True):
    """One process over a stretch of time. Of one that lived in a part of it, shares are still of the whole stretch."""

    pid: int
    parent: int | None
    command: str | None
    started: int | None
    """ns since the machine started."""
    samples: int
    cores: float | None
    """CPU time of all its threads over time."""
    wait: float | None
    """Share of time in which its main thread was ready to run, but no core was free."""
    rss_peak: int | None
    """Bytes."""
    children: int
    """Child processes, the most at one time."""
    threads: list[ThreadSummary] | None
    """Busiest first. None where its threads were looked at fewer than twice."""


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """All that was recorded of a stretch of time."""

    seconds: float
    """From its first sample to its last."""
    samples: int
    cores: float | None
    """CPU cores that the program might use, the fewest at one time."""
    gpus: list[GpuSummary]
    """In order of index."""
    processes: list[ProcessSummary]
    """The busiest first."""


def summarize(
    samples: Sequence[Sample], start_ns: int, end_ns: int, uuids: Collection[str] | None = None
) -> Summary | None:
    """What `samples` (in ascending order of time) say of [start_ns, end_ns); None if fewer than two lie in it.

    With `uuids` only of these GPUs. A uuid may lack its `GPU-` or `MIG-`, as torch gives it.
    """
    times = [sample.t for sample in samples]
    first, last = bisect_left(times, start_ns), bisect_left(times, end_ns) - 1
    if last - first + 1 < LEAST_SAMPLES or times[first] == times[last]:
        return None
    chosen = samples[first : last + 1]
    # A process may have ended between a look at the GPUs and one at /proc: samples about the stretch know it.
    about = samples[max(first - 1, 0) : last + 2]
    own = {process.pid for sample in about for process in sample.processes}
    alike = _numbered_alike(about, own)
    before = times[first - 1 : last] if first else [times[0], *times[:last]]  # nothing is before the very first
    gpus: dict[str, list[_Seen]] = {}
    for sample, since in zip(chosen, before, strict=True):
        weight = (sample.t - max(since, start_ns)) / 1e9
        for gpu in sample.gpus:
            if uuids is None or _among(gpu.uuid, uuids):
                gpus.setdefault(gpu.uuid or f"index {gpu.index}", []).append(_Seen(gpu, weight))
    found = [_gpu(seen, own if alike else None) for seen in gpus.values()]
    return Summary(
        seconds=(times[last] - times[first]) / 1e9,
        samples=len(chosen),
        cores=min((sample.cores for sample in chosen if sample.cores is not None), default=None),
        gpus=sorted(found, key=lambda gpu: (gpu.index is None, gpu.index or 0)),
        processes=_processes(samples[max(first - 1, 0) : first], chosen),
    )


class _Seen(NamedTuple):
    gpu: GpuSample
    weight: float
    """Seconds."""


def _among(uuid: str | None, uuids: Collection[str]) -> bool:
    return uuid is not None and (uuid in uuids or uuid.partition("-")[2] in uuids)


def _numbered_alike(samples: Sequence[Sample], own: set[int]) -> bool:
    """Whether the GPUs' processes have the program's numbers: said by the system, or one of them is the program's."""
    return any(sample.host_pids for sample in samples) or any(
        process.pid in own for sample in samples for gpu in sample.gpus for process in gpu.processes or []
    )


def _gpu(seen: list[_Seen], own: set[int] | None) -> GpuSummary:
    gpu = seen[-1].gpu
    reasons = [one.gpu.throttle for one in seen if one.gpu.throttle is not None]
    throttled = {
        name: sum(name in each for each in reasons) / len(reasons)
        for name in sorted({n for each in reasons for n in each})
    }
    return GpuSummary(
        index=gpu.index,
        uuid=gpu.uuid,
        name=gpu.name,
        samples=len(seen),
        utilization=_level((one.gpu.utilization, one.weight) for one in seen),
        sm=_level((one.gpu.sm, one.weight) for one in seen),
        tensor=_level((one.gpu.tensor, one.weight) for one in seen),
        dram=_level((one.gpu.dram, one.weight) for one in seen),
        power_w=_mean((one.gpu.power_w, one.weight) for one in seen),
        power_limit_w=_mean((one.gpu.power_limit_w, one.weight) for one in seen),
        throttled=throttled if len(reasons) >= LEAST_SAMPLES else None,
        sm_clock=_mean((_ratio(one.gpu.sm_clock_mhz, one.gpu.sm_clock_max_mhz), one.weight) for one in seen),
        memory_peak=_most(one.gpu.memory_used for one in seen),
        memory_total=gpu.memory_total,
        pcie_rx=_mean((one.gpu.pcie_rx, one.weight) for one in seen),
        pcie_tx=_mean((one.gpu.pcie_tx, one.weight) for one in seen),
        nvlink_rx=_mean((one.gpu.nvlink_rx, one.weight) for one in seen),
        nvlink_tx=_mean((one.gpu.nvlink_tx, one.weight) for one in seen),
        others=_others(seen, own) if own is not None else None,
    )


def _others(seen: list[_Seen], own: set[int]) -> list[OtherProcess] | None:
    known = [one for one in seen if one.gpu.processes is not None]
    if len(known) < LEAST_SAMPLES:
        return None
    by_pid: dict[int, list[tuple[int | None, float | None, float]]] = {}
    for one in known:
        for process in one.gpu.processes or []:
            if process.pid not in own:
                by_pid.setdefault(process.pid, []).append((process.memory, process.sm, one.weight))
    others = [
        OtherProcess(
            pid=pid,
            memory_peak=max((memory for memory, _, _ in each if memory is not None), default=None),
            sm=_mean((sm, weight) for _, sm, weight in each),
        )
        for pid, each in by_pid.items()
    ]
    return sorted(others, key=lambda other: -(other.memory_peak or 0))


def _processes(before: Sequence[Sample], chosen: Sequence[Sample]) -> list[ProcessSummary]:
    """Each process of the chosen samples; `before` is the sample before them, if there is one."""
    seconds = (chosen[-1].t - chosen[0].t) / 1e9
    known = {_key(process) for sample in before for process in sample.processes}
    known |= {_key(process) for process in chosen[0].processes}
    seen: dict[tuple[int, int | None], list[tuple[int, ProcessSample]]] = {}
    children: dict[int, int] = {}
    for sample in chosen:
        now: dict[int, int] = {}
        for process in sample.processes:
            seen.setdefault(_key(process), []).append((sample.t, process))
            if process.parent is not None:
                now[process.parent] = now.get(process.parent, 0) + 1
        for pid, count in now.items():
            children[pid] = max(children.get(pid, 0), count)
    found = [
        _process([process for _, process in each], key not in known, seconds, children.get(key[0], 0), _threads(each))
        for key, each in seen.items()
    ]
    return sorted(found, key=lambda process: (-(process.cores or 0), process.pid))


def _key(process: ProcessSample) -> tuple[int, int | None]:
    """What names one process for good: a pid is given again."""
    return process.pid, process.started


def _process(
    each: list[ProcessSample], new: bool, seconds: float, children: int, threads: list[ThreadSummary] | None
) -> ProcessSummary:
    cpu_s, wait_s = (_gained(values, new) for values in ([p.cpu_s for p in each], [p.wait_s for p in each]))
    last = each[-1]
    return ProcessSummary(
        pid=last.pid,
        parent=last.parent,
        command=last.command,
        started=last.started,
        samples=len(each),
        cores=_ratio(cpu_s, seconds),
        wait=_ratio(wait_s, seconds),
        rss_peak=_most(process.rss for process in each),
        children=children,
        threads=threads,
    )


def _threads(each: list[tuple[int, ProcessSample]]) -> list[ThreadSummary] | None:
    """Each thread of a process, over the samples that have its threads."""
    looks = [(t, process.threads) for t, process in each if process.threads is not None]
    if len(looks) < LEAST_SAMPLES or looks[-1][0] == looks[0][0]:
        return None
    seconds = (looks[-1][0] - looks[0][0]) / 1e9
    old = {thread.tid for thread in looks[0][1]}
    seen: dict[int, list[tuple[str | None, float | None, float | None]]] = {}
    for _, threads in looks:
        for thread in threads:
            seen.setdefault(thread.tid, []).append((thread.name, thread.cpu_s, thread.wait_s))
    found = [
        ThreadSummary(
            tid=tid,
            name=values[-1][0],  # a thread is often named after it started
            cores=_ratio(_gained([cpu_s for _, cpu_s, _ in values], tid not in old), seconds),
            wait=_ratio(_gained([wait_s for _, _, wait_s in values], tid not in old), seconds),
        )
        for tid, values in seen.items()
    ]
    return sorted(found, key=lambda thread: (-(thread.cores or 0), thread.tid))


def _gained(values: Iterable[float | None], new: bool) -> float | None:
    """By how much a sum that grows has grown; all of it if what it counts is `new`, of the time since the first look.

    A sum that falls belongs to another process or thread of the same number: it began at zero.
    """
    known = [value for value in values if value is not None]
    if len(known) + new < LEAST_SAMPLES:
        return None
    steps = zip([0.0, *known] if new else known, known if new else known[1:], strict=False)
    return sum(later - earlier if later >= earlier else later for earlier, later in steps)


def _weighted(pairs: Iterable[tuple[float | None, float]]) -> tuple[list[float], list[float]] | None:
    """Values and weights of what is known; None if that is fewer than two values, or none that tells of the stretch."""
    known = [(value, weight) for value, weight in pairs if value is not None]
    telling = [(value, weight) for value, weight in known if weight > 0]
    if len(known) < LEAST_SAMPLES or not telling:
        return None
    return [value for value, _ in telling], [weight for _, weight in telling]


def _mean(pairs: Iterable[tuple[float | None, float]]) -> float | None:
    found = _weighted(pairs)
    return None if found is None else float(np.average(found[0], weights=found[1]))


def _level(pairs: Iterable[tuple[float | None, float]]) -> Level | None:
    found = _weighted(pairs)
    if found is None:
        return None
    values, weights = found
    low, high = np.quantile(values, [0.1, 0.9])
    return Level(mean=float(np.average(values, weights=weights)), p10=float(low), p90=float(high))


def _most(values: Iterable[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return max(known) if len(known) >= LEAST_SAMPLES else None


def _ratio(part: float | None, whole: float | None) -> float | None:
    """None as well where there is nothing to divide by: no time, or no clock."""
    return part / whole if part is not None and whole is not None and whole >= 1e-9 else None
