"""The order of operations on a stream, and what lets an operation of one stream wait for one of another.

Runtime calls do not tell their streams and profiles rarely hold the driver's own record of waits, so that most of this
is inferred from times: an edge is drawn where an operation was held up and another one's end explains it.
"""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from gpuwhy.arrays import by_value
from gpuwhy.intervals import Rows, Times
from gpuwhy.timeline import CallKind, Timeline

LOOK_BACK = 64
"""Operations that are looked at for the one that was waited for, the latest first."""
STREAM_WAIT = re.compile(r"(cudaStreamWaitEvent|cuStreamWaitEvent|hipStreamWaitEvent)")
NEVER = np.iinfo(np.int64).min // 2


def stream_order(timeline: Timeline) -> Rows:
    """For each operation the one of its stream that ended last before it did; -1 for the first.

    Where two overlap on one stream, the later one to end follows the earlier.
    """
    ops = timeline.ops
    before = np.full(len(ops), -1, np.int64)
    order = np.lexsort((ops.start, ops.end, ops.stream, ops.device))
    same = (ops.stream[order[1:]] == ops.stream[order[:-1]]) & (ops.device[order[1:]] == ops.device[order[:-1]])
    before[order[1:][same]] = order[:-1][same]
    return before


def event_waits(timeline: Timeline) -> Rows:
    """For operations launched behind a wait for an event: the one of another stream that it can have stood for, or -1.

    A wait is taken to be that of the next operation that its thread launches on any one stream, for the last operation
    to end before that starts among those enqueued before the wait.
    """
    ops, calls = timeline.ops, timeline.calls
    result = np.full(len(ops), -1, np.int64)
    rows, until = _behind_waits(timeline)
    for device, which in by_value(ops.device[rows]):
        part = timeline.ops_of(device)
        some = np.flatnonzero(ops.launch[part] >= 0) + part.start
        some = some[np.argsort(ops.end[some], kind="stable")]
        enqueued = calls.start[ops.launch[some]]
        mine, limit = rows[which], until[which]
        place = np.searchsorted(ops.end[some], ops.start[mine], side="right") - 1
        open_ = np.arange(len(mine))
        for _ in range(LOOK_BACK):
            open_ = open_[place[open_] >= 0]
            candidate = some[place[open_]]
            fits = (enqueued[place[open_]] < limit[open_]) & (ops.stream[candidate] != ops.stream[mine[open_]])
            result[mine[open_[fits]]] = candidate[fits]
            open_ = open_[~fits]
            place[open_] -= 1
    return result


def _behind_waits(timeline: Timeline) -> tuple[Rows, Times]:
    """Operations with a wait between their launch and the one before on their stream, and when its call began."""
    ops, calls = timeline.ops, timeline.calls
    wait = np.flatnonzero(timeline.names_like(STREAM_WAIT)[calls.name] & (calls.kind == CallKind.RUNTIME))
    known = np.flatnonzero(ops.launch >= 0)
    launch = ops.launch[known]
    order = known[np.lexsort((launch, ops.stream[known], ops.device[known], calls.thread[launch]))]
    at, thread = calls.start[ops.launch[order]], calls.thread[ops.launch[order]]
    new = np.ones(len(order), bool)
    columns = (thread, ops.stream[order], ops.device[order])
    new[1:] = np.any([column[1:] != column[:-1] for column in columns], axis=0)
    previous = np.where(new, NEVER, np.append(NEVER, at[:-1])[: len(at)])
    last = np.full(len(order), NEVER)
    for one, rows in by_value(thread):
        times = calls.start[wait[calls.thread[wait] == one]]
        place = np.searchsorted(times, at[rows]) - 1
        last[rows] = np.where(place >= 0, np.append(times, NEVER)[place], NEVER)
    waits = last > previous
    return order[waits], last[waits]


def just_over(timeline: Timeline, late: Rows, most: NDArray[np.int64]) -> Rows:
    """For operations that were held up: the one of another stream of the device whose end let them go, or -1."""
    ops = timeline.ops
    found = np.full(len(late), -1, np.int64)
    for device, which in by_value(ops.device[late]):
        part = timeline.ops_of(device)
        order = np.argsort(ops.end[part], kind="stable") + part.start
        rows = late[which]
        place = np.searchsorted(ops.end[order], ops.start[rows], side="right") - 1
        candidate = order[np.maximum(place, 0)]
        good = (place >= 0) & (ops.start[rows] - ops.end[candidate] <= most[which])
        good &= ops.stream[candidate] != ops.stream[rows]
        found[which[good]] = candidate[good]
    return found


def beside(timeline: Timeline, held: Rows, until: Times, before: Rows) -> Rows:
    """For operations that waited while one of another stream filled the device: what that one came after, or -1.

    It began by `until` and was not over when the held one started. `before` is the order of streams.
    """
    ops = timeline.ops
    found = np.full(len(held), -1, np.int64)
    open_ = np.arange(len(held))
    place = held.copy()  # operations are sorted by (device, start): those before it started no later
    for _ in range(LOOK_BACK):
        place[open_] -= 1
        row = np.maximum(place[open_], 0)
        mine = held[open_]
        there = (place[open_] >= 0) & (ops.device[row] == ops.device[mine])
        fits = there & (ops.end[row] > ops.start[mine]) & (ops.stream[row] != ops.stream[mine])
        fits &= (ops.start[row] <= until[open_]) & (before[row] >= 0)
        found[open_[fits]] = before[row[fits]]
        open_ = open_[there & ~fits]
    return found
