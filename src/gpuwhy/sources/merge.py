"""Timelines of several files → one, on one clock, with one table of names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from gpuwhy.errors import GpuwhyError
from gpuwhy.nesting import nest
from gpuwhy.timeline import (
    LATEST_NS,
    DeviceOps,
    Flows,
    HostCalls,
    MemoryEvents,
    Syncs,
    Timeline,
)

Timed = TypeVar("Timed", DeviceOps, HostCalls, Syncs)


def merge(parts: Sequence[Timeline]) -> Timeline:
    """Join files. Ranks that the files state are kept if they differ; otherwise files count as ranks in order."""
    if len(parts) == 1:
        return parts[0]
    parts = _ranked(parts)
    origin = min(part.origin_ns for part in parts)
    if max(part.origin_ns - origin + _end(part) for part in parts) > LATEST_NS:
        raise GpuwhyError(
            "the clocks of these files lie centuries apart",
            hint="explain each file by itself: they are not of one run",
        )
    number: dict[str, int] = {}
    moved = []
    calls = threads = devices = signatures = 0
    for part in parts:
        code = np.array([number.setdefault(name, len(number)) for name in part.names], np.int32)
        moved.append(_moved(part, part.origin_ns - origin, code, calls, threads, devices, signatures))
        calls, threads, devices = calls + len(part.calls), threads + len(part.threads), devices + len(part.devices)
        signatures += len(part.signatures)
    all_calls = HostCalls.concatenate([part.calls for part in moved])
    return Timeline(
        names=list(number),
        signatures=[signature for part in parts for signature in part.signatures],
        origin_ns=origin,
        sources=tuple(source for part in moved for source in part.sources),
        devices=tuple(device for part in moved for device in part.devices),
        threads=tuple(thread for part in moved for thread in part.threads),
        ops=DeviceOps.concatenate([part.ops for part in moved]),
        calls=all_calls,
        syncs=Syncs.concatenate([part.syncs for part in moved]),
        flows=Flows.concatenate([part.flows for part in moved]),
        memory=MemoryEvents.concatenate([part.memory for part in moved]),
        nesting=nest(all_calls.thread, all_calls.start, all_calls.end, threads),
    )


def _end(part: Timeline) -> int:
    return max(int(table.end.max(initial=0)) for table in (part.ops, part.calls, part.syncs))


def _moved(
    part: Timeline, shift: int, code: NDArray[np.int32], calls: int, threads: int, devices: int, signatures: int
) -> Timeline:
    """A part with its times shifted, and its names and row numbers those of the whole."""

    def after(rows: NDArray[np.int32], first: int) -> NDArray[np.int32]:
        return np.where(rows < 0, rows, rows + first).astype(np.int32)

    def timed(table: Timed) -> Timed:
        return replace(table, start=table.start + shift, end=table.end + shift, name=code[table.name])

    flows, memory = part.flows, part.memory
    return replace(
        part,
        sources=tuple(replace(s, start_ns=s.start_ns + shift, end_ns=s.end_ns + shift) for s in part.sources),
        ops=replace(timed(part.ops), device=after(part.ops.device, devices), launch=after(part.ops.launch, calls)),
        calls=replace(
            timed(part.calls),
            thread=after(part.calls.thread, threads),
            signature=after(part.calls.signature, signatures),
        ),
        syncs=timed(part.syncs),
        flows=Flows(
            after(flows.from_thread, threads),
            flows.from_time + shift,
            after(flows.to_thread, threads),
            flows.to_time + shift,
        ),
        memory=replace(memory, time=memory.time + shift, thread=after(memory.thread, threads)),
    )


def _ranked(parts: Sequence[Timeline]) -> list[Timeline]:
    """The parts in the order of their ranks, renumbered by order if a rank is unknown or taken twice."""
    ranks = [source.rank for part in parts for source in part.sources]
    known = all(source.metadata.get("rank_known") for part in parts for source in part.sources)
    if known and len(set(ranks)) == len(ranks):
        return sorted(parts, key=lambda part: part.sources[0].rank)
    renumbered, count = [], 0
    for part in parts:
        own = sorted({source.rank for source in part.sources})
        renumbered.append(_as_ranks(part, {rank: count + i for i, rank in enumerate(own)}))
        count += len(own)
    return renumbered


def _as_ranks(part: Timeline, rank: dict[int, int]) -> Timeline:
    return replace(
        part,
        sources=tuple(replace(source, rank=rank[source.rank]) for source in part.sources),
        devices=tuple(replace(device, rank=rank[device.rank]) for device in part.devices),
        threads=tuple(replace(thread, rank=rank[thread.rank]) for thread in part.threads),
    )
