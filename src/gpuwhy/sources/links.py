"""Which host call enqueued which device operation.

By correlation id first; where a format has none, by the external id that both sides carry (AMD's old style); last by
the arrows that the file draws.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpuwhy.arrays import by_value, unique
from gpuwhy.intervals import Rows, Times, ranges
from gpuwhy.timeline import MISSING, CallKind, Device, DeviceOps, HostCalls

MOST_CANDIDATES = 8
"""Launches under one id that are all tried; an id with more (damage) is tried with as many of its last ones."""


@dataclass(frozen=True, eq=False)
class Arrows:
    """Arrows from a time on a host thread to the start of an operation on a device's stream."""

    thread: NDArray[np.int32]
    call_time: Times
    device: NDArray[np.int64]
    stream: NDArray[np.int64]
    op_time: Times


def link_launches(
    ops: DeviceOps, devices: Sequence[Device], calls: HostCalls, arrows: Callable[[], Arrows]
) -> tuple[NDArray[np.int32], int]:
    """The row of each operation's launch in `calls` (-1 where none is recorded), and how many ids are ambiguous.

    Where several calls carry an operation's id, its launch is the last one that starts before the operation does,
    else the first. An id is ambiguous if operations carry it and calls that do not lie within each other (a driver
    call within a runtime call has its id). `arrows` is asked for only if some operation is still without a launch.
    """
    runtime = np.flatnonzero(calls.kind == CallKind.RUNTIME)
    with_id = runtime[calls.correlation[runtime] != MISSING]
    launch, shared = _by_id(ops.correlation, ops.start, calls.correlation, calls, with_id)
    if (ops.correlation == MISSING).any():
        plain = runtime[(calls.correlation[runtime] == MISSING) & (calls.external_id[runtime] != MISSING)]
        wanted = np.where((launch < 0) & (ops.correlation == MISSING), ops.external_id, MISSING)
        found, more = _by_id(wanted, ops.start, calls.external_id, calls, plain)
        launch, shared = np.where(launch < 0, found, launch), shared + more
    without = np.flatnonzero((launch < 0) & (ops.correlation == MISSING))
    if len(without):
        launch[without] = _by_arrow(ops.take(without), devices, calls, arrows())
    return launch, shared


def _by_id(
    wanted: NDArray[np.int64], before: Times, id_of: NDArray[np.int64], calls: HostCalls, rows: Rows
) -> tuple[NDArray[np.int32], int]:
    """For each wanted id the row of the call (one of `rows`) that carries it, and how many ids are ambiguous."""
    ids = id_of[rows]
    order = np.argsort(ids, kind="stable") if (np.diff(ids) < 0).any() else np.arange(len(ids))
    ids, rows = ids[order], rows[order]
    start = calls.start[rows]
    first = np.searchsorted(ids, wanted, side="left")
    count = np.searchsorted(ids, wanted, side="right") - first
    count[wanted == MISSING] = 0
    found = np.full(len(wanted), -1, np.int32)
    one = count == 1
    found[one] = rows[first[one]]
    many = np.flatnonzero(count > 1)
    ambiguous = 0
    if len(many):
        some = np.minimum(count[many], MOST_CANDIDATES)
        candidate = ranges(first[many] + count[many] - some, some)
        owner = np.repeat(many, some)
        late = start[candidate] > before[owner]
        # early launches first, the last of them in front; then the late ones, the first of them in front
        best = np.lexsort((rows[candidate], np.where(late, 1, -1) * start[candidate], late, owner))
        head = np.append(True, owner[best][1:] != owner[best][:-1])
        found[owner[best][head]] = rows[candidate[best][head]]
        # rows ascend by (thread, start) under each id, so that a call within another directly follows it
        thread, end = calls.thread[rows], calls.end[rows]
        apart = (ids[1:] == ids[:-1]) & ((thread[1:] != thread[:-1]) | (start[1:] >= end[:-1]))
        ambiguous = int(np.isin(unique(ids[1:][apart]), wanted[many]).sum())
    return found, ambiguous


def _by_arrow(ops: DeviceOps, devices: Sequence[Device], calls: HostCalls, arrows: Arrows) -> NDArray[np.int32]:
    """The runtime call open where an arrow to the operation begins, or -1."""
    number = np.array([device.number for device in devices], np.int64)[ops.device]
    target = {
        key: i
        for i, key in enumerate(
            zip(arrows.op_time.tolist(), arrows.device.tolist(), arrows.stream.tolist(), strict=True)
        )
    }
    arrow = np.array(
        [target.get(k, -1) for k in zip(ops.start.tolist(), number.tolist(), ops.stream.tolist(), strict=True)],
        np.int64,
    )
    found = np.full(len(ops), -1, np.int32)
    hit = np.flatnonzero(arrow >= 0)
    runtime = np.flatnonzero(calls.kind == CallKind.RUNTIME)
    owner = calls.thread[runtime]
    for thread, which in by_value(arrows.thread[arrow[hit]]):
        low, high = np.searchsorted(owner, [thread, thread + 1])
        if thread < 0 or low == high:
            continue
        mine, time = runtime[low:high], arrows.call_time[arrow[hit[which]]]
        last = np.searchsorted(calls.start[mine], time, side="right") - 1
        row = mine[np.maximum(last, 0)]
        inside = (last >= 0) & (calls.end[row] >= time)
        found[hit[which[inside]]] = row[inside]
    return found


def pair_flows(ids: NDArray[np.int64], begins: NDArray[np.bool_], wanted: NDArray[np.bool_]) -> tuple[Rows, Rows]:
    """Rows of the two ends of each arrow: a begin and the finish with the same id (the first of each)."""
    begin, finish = np.flatnonzero(wanted & begins), np.flatnonzero(wanted & ~begins)
    unique, first = np.unique(ids[begin], return_index=True)
    finish_ids, finish_first = np.unique(ids[finish], return_index=True)
    both, left, right = np.intersect1d(unique, finish_ids, assume_unique=True, return_indices=True)
    keep = both != MISSING
    return begin[first[left[keep]]], finish[finish_first[right[keep]]]
