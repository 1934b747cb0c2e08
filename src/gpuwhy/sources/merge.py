"""Timelines of several files → one, on one clock, with one table of names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from gpuwhy.nesting import nest
from gpuwhy.timeline import (
    DeviceOps,
    Flows,
    HostCalls,
    MemoryEvents,
    Syncs,
    Timeline,
)


def merge(parts: Sequence[Timeline]) -> Timeline:
    """Join files. Ranks that the files state are kept if they differ; otherwise files count as ranks in order."""
    if len(parts) == 1:
        return parts[0]
    parts = _ranked(parts)
    origin = min(part.origin_ns for part in parts)
    names: list[str] = []
    number: dict[str, int] = {}
    ops, calls, syncs, flows, memory = [], [], [], [], []
    devices, threads, sources = [], [], []
    for part in parts:
        code = np.array([number.setdefault(name, len(number)) for name in part.names], np.int32)
        shift = part.origin_ns - origin
        first_call = sum(len(c) for c in calls)
        first_thread, first_device = len(threads), len(devices)

        def moved(thread: NDArray[np.int32], by: int = first_thread) -> NDArray[np.int32]:
            return np.where(thread < 0, thread, thread + by).astype(np.int32)

        launch = part.ops.launch
        ops.append(
            replace(
                part.ops,
                start=part.ops.start + shift,
                end=part.ops.end + shift,
                name=code[part.ops.name],
                device=part.ops.device + np.int32(first_device),
                launch=np.where(launch < 0, launch, launch + np.int32(first_call)).astype(np.int32),
            )
        )
        calls.append(
            replace(
                part.calls,
                start=part.calls.start + shift,
                end=part.calls.end + shift,
                name=code[part.calls.name],
                thread=moved(part.calls.thread),
            )
        )
        syncs.append(
            replace(
                part.syncs,
                start=part.syncs.start + shift,
                end=part.syncs.end + shift,
                name=code[part.syncs.name],
            )
        )
        flows.append(
            Flows(
                moved(part.flows.from_thread),
                part.flows.from_time + shift,
                moved(part.flows.to_thread),
                part.flows.to_time + shift,
            )
        )
        memory.append(replace(part.memory, time=part.memory.time + shift, thread=moved(part.memory.thread)))
        devices.extend(part.devices)
        threads.extend(part.threads)
        sources.extend(
            replace(source, start_ns=source.start_ns + shift, end_ns=source.end_ns + shift)
            for source in part.sources
        )
    names = list(number)
    all_calls = HostCalls.concatenate(calls)
    return Timeline(
        names=names,
        origin_ns=origin,
        sources=tuple(sources),
        devices=tuple(devices),
        threads=tuple(threads),
        ops=DeviceOps.concatenate(ops),
        calls=all_calls,
        syncs=Syncs.concatenate(syncs),
        flows=Flows.concatenate(flows),
        memory=MemoryEvents.concatenate(memory),
        nesting=nest(all_calls.thread, all_calls.start, all_calls.end, len(threads)),
    )


def _ranked(parts: Sequence[Timeline]) -> list[Timeline]:
    """The parts in the order of their ranks, renumbered by order if a rank is unknown or taken twice."""
    ranks = [source.rank for part in parts for source in part.sources]
    known = all(source.metadata.get("rank_known") for part in parts for source in part.sources)
    if known and len(set(ranks)) == len(ranks):
        return sorted(parts, key=lambda part: part.sources[0].rank)
    return [_as_rank(part, rank) for rank, part in enumerate(parts)]


def _as_rank(part: Timeline, rank: int) -> Timeline:
    return replace(
        part,
        sources=tuple(replace(source, rank=rank) for source in part.sources),
        devices=tuple(replace(device, rank=rank) for device in part.devices),
        threads=tuple(replace(thread, rank=rank) for thread in part.threads),
    )
