"""Collectives matched across ranks: each ends for all of them when the last one has come and the data are there.

A collective's operation on one rank lasts from that rank's coming to the common end. What it takes by itself is the
time from the last start to the end; the rest is the wait for the late rank, and an edge stands for it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpuwhy.arrays import quantiles
from gpuwhy.intervals import Rows
from gpuwhy.timeline import Timeline
from gpuwhy.whatif.graph import Edges, Why

COMMON_END = re.compile(r"(nccl|rccl).*(AllReduce|ReduceScatter|AllGather|AllToAll|AlltoAll)", re.IGNORECASE)
"""Kernels of collectives that end on all ranks at once; broadcasts, and sends and receives, do not."""
CANDIDATES = 16
"""Ways to lay the collectives of two ranks against each other that are tried."""
LEAST_SHARED = 0.5
"""Part of the shorter rank's collectives that the other one must have, too."""
TOGETHER_NS = 200_000
"""Ends of one collective on several ranks lie within this in the median, if their clocks are one."""
LEAST_NS = 1_000


@dataclass(frozen=True, eq=False)
class Collectives:
    """One row a collective, one column a rank (of `ranks`): the operations; and how long the data take, in ns."""

    ranks: tuple[int, ...]
    op: NDArray[np.int64]
    transfer: NDArray[np.int64]


def collectives(timeline: Timeline) -> Collectives | None:
    """The collectives that all ranks recorded; None for a single rank, or where they do not fit together."""
    lines = {rank: _of_rank(timeline, rank) for rank in sorted({device.rank for device in timeline.devices})}
    if len(lines) < 2 or any(not len(line) for line in lines.values()):
        return None
    first, *others = lines.values()
    columns, low, high = [first], 0, len(first)
    shifts = [0]
    for line in others:
        shift = _shift(timeline.ops.end[first], timeline.ops.end[line])
        if shift is None:
            return None
        columns.append(line)
        shifts.append(shift)
        low, high = max(low, -shift), min(high, len(line) - shift)
    rows = np.arange(low, high)
    op = np.stack([line[rows + shift] for line, shift in zip(columns, shifts, strict=True)], axis=1)
    ops = timeline.ops
    transfer = (ops.end[op] - ops.start[op]).min(axis=1)
    return Collectives(tuple(lines), op, np.maximum(transfer, LEAST_NS))


def _of_rank(timeline: Timeline, rank: int) -> Rows:
    """Collectives of a rank, by end."""
    ops = timeline.ops
    devices = [number for number, device in enumerate(timeline.devices) if device.rank == rank]
    rows = np.flatnonzero(np.isin(ops.device, devices) & timeline.names_like(COMMON_END)[ops.name])
    return rows[np.argsort(ops.end[rows], kind="stable")]


def _shift(one: NDArray[np.int64], other: NDArray[np.int64]) -> int | None:
    """By how many rows the other rank's ends are behind, so that they lie closest; None where they never do.

    One rank may have recorded more at the beginning, which says nothing: its device had older work to do.
    """
    nearest = np.clip(np.searchsorted(other, one), 1, len(other) - 1) if len(other) > 1 else np.zeros(len(one), int)
    nearest -= (len(other) > 1) & (one - other[nearest - 1] < other[nearest] - one)
    shifts, count = np.unique(nearest - np.arange(len(one)), return_counts=True)
    best: tuple[float, int] | None = None
    for shift in shifts[np.argsort(-count, kind="stable")][:CANDIDATES].tolist():
        low, high = max(0, -shift), min(len(one), len(other) - shift)
        if high - low < max(LEAST_SHARED * min(len(one), len(other)), 1):
            continue
        apart = float(quantiles(np.abs(one[low:high] - other[low + shift : high + shift]), (0.5,))[0])
        best = min(best or (apart, shift), (apart, shift))
    return best[1] if best is not None and best[0] <= TOGETHER_NS else None


def waiting_edges(edges: Edges, found: Collectives) -> Edges:
    """For each rank's part of a collective: it cannot end before what the other ranks' parts had to wait for.

    `edges` are those of operations, by rows of the timeline's operations.
    """
    order = np.argsort(edges.target, kind="stable")
    target = edges.target[order]
    parts = []
    count = len(found.ranks)
    for one in range(count):
        for other in range(count):
            if one == other:
                continue
            low, high = (np.searchsorted(target, found.op[:, other], side=side) for side in ("left", "right"))
            rows = np.repeat(np.arange(len(found.op)), high - low)
            edge = order[np.concatenate([np.arange(a, b) for a, b in zip(low, high, strict=True)] or [low[:0]])]
            lag = edges.lag[edge]
            parts.append(Edges.of(edges.source[edge], found.op[rows, one], lag, Why.COLLECTIVE))
    return Edges.concatenate(parts)


def durations(duration: NDArray[np.float64], found: Collectives) -> NDArray[np.float64]:
    """Durations without the wait for other ranks."""
    alone: NDArray[np.float64] = duration.copy()
    alone[found.op] = found.transfer[:, None]
    return alone
