"""Calls that return when the device is done with something: which operation each waited for."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpuwhy.arrays import quantiles
from gpuwhy.intervals import Rows, Times
from gpuwhy.ledger.classes import RUNTIME, classify
from gpuwhy.timeline import CallKind, Table, Timeline
from gpuwhy.whatif.graph import Why
from gpuwhy.whatif.launches import Launches

ROUNDING_NS = 20_000
"""A call may return so long before the recorded end of what it waited for: two clocks are compared."""
ROUNDING = 0.05
"""… or, when memory is staged in pieces, by this part of its own length."""
RETURN_NS = 3_500
"""From the end of an operation to the return of a call that waits for it, where the recording has none to look at
(H200, PyTorch 2.11: medians of 3.1 to 3.9 µs)."""
AT_ONCE = re.compile(r"DtoD|DeviceToDevice|PtoP|PeerToPeer|\bPinned\b")
LOOK_BACK = 16
"""Operations that are looked at for the one that a call waited for, the latest first."""


@dataclass(frozen=True, eq=False)
class Blocked(Table):
    """One row a call: it returns at `at`, `lag` after operation `awaited` ends; it began to wait at `since`.

    `awaited` is -1 where the operation was over before the recording of the device began.
    """

    thread: NDArray[np.int32]
    since: Times
    at: Times
    awaited: Rows
    lag: NDArray[np.int64]
    kind: NDArray[np.int8]


def blocking(timeline: Timeline, found: Launches) -> Blocked:
    """All blocking calls."""
    label = _labels(timeline)
    return Blocked.concatenate(
        [_copies(timeline, found, label), _syncs(timeline, label), _full_queues(timeline, found)]
    )


def _copies(timeline: Timeline, found: Launches, label: NDArray[np.int8]) -> Blocked:
    """Copy calls that last until their own copy is over."""
    ops, calls = timeline.ops, timeline.calls
    copies = np.flatnonzero(found.of_op >= 0)
    call = found.call[found.of_op[copies]]
    start, end, over = calls.start[call], calls.end[call], ops.end[copies]
    late = np.maximum(ROUNDING_NS, (ROUNDING * (end - start)).astype(np.int64))
    blocks = (label[call] == _COPY) & (over > start) & (over <= end + late) & (end - start > 2 * found.usual_ns)
    blocks &= ~_returns_at_once(timeline)[ops.name[copies]]
    copies, call = copies[blocks], call[blocks]
    at = np.maximum(calls.end[call], ops.end[copies])
    since = found.at[found.of_op[copies]]
    return Blocked(calls.thread[call], since, at, copies, at - ops.end[copies], _all(Why.BLOCKING, call))


def _returns_at_once(timeline: Timeline) -> NDArray[np.bool_]:
    """Names of copies that no call waits for of itself: within a device, between devices, with pinned memory."""
    return np.array([AT_ONCE.search(name) is not None for name in timeline.names], bool)


def _syncs(timeline: Timeline, label: NDArray[np.int8]) -> Blocked:
    """Synchronizing calls, and those that free memory: they wait for all that was enqueued before."""
    calls = timeline.calls
    call = np.flatnonzero((label == _SYNC) | (label == _FREE))
    awaited = _latest_before(timeline, call, calls.end[call] + ROUNDING_NS)
    call, awaited = call[awaited >= 0], awaited[awaited >= 0]
    over = timeline.ops.end[awaited]
    syncs, waited = label[call] == _SYNC, over > calls.start[call]
    # What a call that frees memory does after it has waited is work of its own.
    at = np.where(waited & ~syncs, over, np.maximum(calls.end[call], over))
    since = np.where(waited, calls.start[call], at)
    late = at - over
    # A call that came too late to wait would take as long as the others to return, had it come in time.
    usual = int(quantiles(late[waited & syncs], (0.5,))[0]) if (waited & syncs).any() else RETURN_NS
    lag = np.where(waited, late, np.where(syncs, np.minimum(late, usual), 0))
    return Blocked(calls.thread[call], since, at, awaited, lag, _all(Why.BLOCKING, call))


def _full_queues(timeline: Timeline, found: Launches) -> Blocked:
    """Launches that waited for room: some operation was over just before.

    A host far ahead waits for operations that ran before the device was recorded: none of those can be named.
    """
    calls, ops = timeline.calls, timeline.ops
    rows = np.flatnonzero(found.waits)
    call = found.call[rows]
    awaited = _latest_before(timeline, call, calls.end[call])
    unseen = (awaited < 0) & (calls.end[call] < ops.end.min(initial=np.iinfo(np.int64).max))
    good = unseen | ((awaited >= 0) & (ops.end[awaited] > calls.start[call]))
    call, awaited, at = call[good], awaited[good], found.at[rows[good]]
    since = np.minimum(calls.start[call] + found.usual_ns, at)
    lag = np.where(awaited >= 0, np.maximum(at - ops.end[awaited], 0), 0)
    return Blocked(calls.thread[call], since, at, awaited, lag, _all(Why.QUEUE_FULL, call))


def _all(kind: Why, like: Rows) -> NDArray[np.int8]:
    return np.full(len(like), kind, np.int8)


def _latest_before(timeline: Timeline, call: Rows, until: Times) -> Rows:
    """Of the operations of its rank that were enqueued before each call, the last to end by a time; -1 for none."""
    ops, calls = timeline.ops, timeline.calls
    result = np.full(len(call), -1, np.int64)
    if not len(ops) or not len(call):
        return result
    rank = np.array([thread.rank for thread in timeline.threads], np.int64)[calls.thread[call]]
    order = np.argsort(ops.end, kind="stable")
    owner = np.array([device.rank for device in timeline.devices], np.int64)[ops.device[order]]
    # What has no launch in the recording was enqueued before it began.
    enqueued = np.where(ops.launch[order] >= 0, calls.start[ops.launch[order]], np.iinfo(np.int64).min)
    place = np.searchsorted(ops.end[order], until, side="right") - 1
    open_ = np.arange(len(call))
    for _ in range(LOOK_BACK):
        open_ = open_[place[open_] >= 0]
        at = place[open_]
        fits = (enqueued[at] < calls.start[call[open_]]) & (owner[at] == rank[open_])
        result[open_[fits]] = order[at[fits]]
        open_ = open_[~fits]
        place[open_] -= 1
    return result


_OTHER, _SYNC, _FREE, _COPY = range(4)
_NUMBER = {"sync": _SYNC, "copy_call": _COPY, "allocator": _FREE}


def _labels(timeline: Timeline) -> NDArray[np.int8]:
    """What each runtime call is."""
    calls = timeline.calls
    label = np.full(len(calls), _OTHER, np.int8)
    rows = np.flatnonzero(calls.kind == CallKind.RUNTIME)
    found = classify(calls.name[rows], timeline.names, RUNTIME, lambda name: _NUMBER.get(name, _OTHER))
    label[rows] = np.maximum(found, _OTHER).astype(np.int8)
    frees = np.array(["free" in name.lower() or "unmap" in name.lower() for name in timeline.names], bool)
    label[(label == _FREE) & ~frees[calls.name]] = _OTHER
    return label
