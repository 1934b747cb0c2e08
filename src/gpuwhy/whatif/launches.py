"""When a host thread had enqueued an operation: its launches, each call once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpuwhy.arrays import quantiles
from gpuwhy.intervals import Rows, Times
from gpuwhy.timeline import OpKind, Timeline
from gpuwhy.whatif.streams import NEVER, stream_order

USUAL_CALL_NS = 5_000
"""What a launch call takes where the recording has none to look at."""
STAGED_NS = 20_000
"""A copy that begins so long after all that it could wait for had its data put together first."""
LONG_CALL = 2.0
"""A launch call over so many usual ones waited for something, if the queue was full."""
MOST_SKEW_NS = 10_000_000
"""Where an operation starts before its launch, the clocks of host and device differ, by less than this."""
QUEUE = 256
"""A call can have waited for room in the launch queue if so many launches were pending. CUDA's queue has 1,024
entries on current drivers; several streams and drivers differ, so that the number is not relied on."""


@dataclass(frozen=True, eq=False)
class Launches:
    """One row a call that enqueued something: its thread, when it had done so, and how long the call usually takes.

    `of_op` is the row for each operation, or -1. `waits` marks calls that had to wait for room in the queue.
    """

    call: Rows
    thread: NDArray[np.int32]
    at: Times
    waits: NDArray[np.bool_]
    of_op: Rows
    usual_ns: int


def launches(timeline: Timeline) -> Launches:
    """All launches of a recording."""
    ops, calls = timeline.ops, timeline.calls
    known = np.flatnonzero(ops.launch >= 0)
    call, place = np.unique(ops.launch[known].astype(np.int64), return_inverse=True)
    of_op = np.full(len(ops), -1, np.int64)
    of_op[known] = place
    first = np.full(len(call), np.iinfo(np.int64).max)
    np.minimum.at(first, place, ops.start[known])
    kernel = np.zeros(len(call), bool)
    kernel[place] = ops.kind[known] != OpKind.COPY
    start, end = calls.start[call], calls.end[call]
    length = end - start
    pending = _pending(timeline, end)
    usual = _usual(length[kernel], pending[kernel])
    # A copy call may go on until its copy is over: it had enqueued the copy soon after its own start, or, where nothing
    # else held the copy up, when that began (memory that is not pinned is staged by the host before).
    before = stream_order(timeline)
    idle = np.full(len(call), NEVER)
    np.maximum.at(idle, place, np.where(before[known] >= 0, ops.end[before[known]], NEVER))
    staged = ~kernel & (first - np.maximum(idle, start + usual) > STAGED_NS)
    at = np.where(kernel | staged, end, np.minimum(end, start + usual))
    at = np.maximum(np.minimum(at, first), start - MOST_SKEW_NS)
    waits = kernel & (length > LONG_CALL * usual) & (pending >= QUEUE)
    return Launches(call, calls.thread[call], at, waits, of_op, usual)


def _usual(length: Times, pending: NDArray[np.int64]) -> int:
    """What a launch call takes when it waits for nothing: the median of those with room in the queue, if any had."""
    free = length[pending < QUEUE]
    if len(free):
        return int(quantiles(free, (0.5,))[0])
    return int(quantiles(length, (0.1,))[0]) if len(length) else USUAL_CALL_NS


def _pending(timeline: Timeline, time: Times) -> NDArray[np.int64]:
    """How many operations, enqueued before each time, were not over then.

    An operation without a launch was enqueued before the recording began.
    """
    ops = timeline.ops
    known = ops.launch >= 0
    enqueued = np.sort(timeline.calls.end[ops.launch[known]])
    ended = np.sort(ops.end)
    return (
        np.searchsorted(enqueued, time, side="right") + int((~known).sum()) - np.searchsorted(ended, time, side="right")
    )
