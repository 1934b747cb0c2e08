"""Which host call lies inside which: from sorted calls to a forest of pieces.

Calls of one thread nearly always nest. Where two overlap without nesting (clock rounding, asynchronous annotations),
the later one is cut at the end of the earlier one, so that the *pieces* nest exactly and the innermost open piece at
any instant belongs to the open call that started last. Zero-length calls own no time and have no piece.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from gpuwhy.arrays import by_value
from gpuwhy.intervals import Intervals, Rows, Times

MAX_ROUNDS = 40
"""Rounds of cutting; each resolves one level of overlap. What is left after them is clipped (and counted)."""
FEW_ROUNDS = 64
"""Steps outwards that are taken one by one; a deeper search takes the way by `own_time`."""


@dataclass(frozen=True, eq=False)
class Nesting:
    """Pieces of calls, ordered by (thread, start), an outer one before its inner ones.

    `call` is the row of the call; `parent` the row of the piece around it, or -1; `depth` how many are around it;
    `levels` the rows of the pieces of each depth from the outermost on; `first_piece[thread] … first_piece[thread + 1]`
    are a thread's pieces; `clipped` counts pieces that had to be shortened because too many calls overlapped without
    nesting.
    """

    start: Times
    end: Times
    call: NDArray[np.int32]
    parent: NDArray[np.int32]
    depth: NDArray[np.int32]
    levels: tuple[Rows, ...]
    first_piece: Rows
    clipped: int

    def nearest(self, marked: NDArray[np.bool_]) -> NDArray[np.int32]:
        """For each piece the innermost piece around or at it that is marked, or -1."""
        found = np.where(marked, np.arange(len(marked), dtype=np.int32), np.int32(-1))
        for rows in self.levels[1:] if marked.any() else ():
            unset = rows[found[rows] < 0]
            found[unset] = found[self.parent[unset]]
        return found

    def outermost(self, marked: NDArray[np.bool_]) -> NDArray[np.int32]:
        """For each piece the outermost piece around or at it that is marked, or -1."""
        found = np.where(marked, np.arange(len(marked), dtype=np.int32), np.int32(-1))
        for rows in self.levels[1:] if marked.any() else ():
            above = found[self.parent[rows]]
            found[rows] = np.where(above >= 0, above, found[rows])
        return found

    def of_thread(self, thread: int) -> slice:
        """The pieces of one thread."""
        return slice(int(self.first_piece[thread]), int(self.first_piece[thread + 1]))

    def own_time(self, thread: int) -> tuple[Intervals, NDArray[np.int32]]:
        """The time in which a piece of the thread is the innermost open one, and which one that is."""
        part = self.of_thread(thread)
        start, end, depth, parent = self.start[part], self.end[part], self.depth[part], self.parent[part]
        time, piece = np.empty(2 * len(start), np.int64), np.empty(2 * len(start), np.int32)
        # Before a start there are the other starts above it and the ends of what is not around it; so too for an end.
        row = np.arange(len(start))
        at_start, at_end = 2 * row - depth, 2 * np.searchsorted(start, end, side="left") - 1 - depth
        time[at_start], time[at_end] = start, end
        piece[at_start], piece[at_end] = row + part.start, parent
        owned = np.flatnonzero((np.diff(time) > 0) & (piece[:-1] >= 0))
        return Intervals(time[owned], time[owned + 1]), piece[owned]

    def open_at(self, thread: Rows, time: Times) -> NDArray[np.int32]:
        """The innermost piece open at each time on each thread, or -1."""
        found = np.full(len(time), -1, np.int32)
        for one, rows in by_value(thread):
            part = self.of_thread(one)
            last = np.searchsorted(self.start[part], time[rows], side="right") - 1
            found[rows] = np.where(last >= 0, last + part.start, -1)
        over = np.flatnonzero(found >= 0)
        for _ in range(FEW_ROUNDS):
            over = over[self.end[found[over]] <= time[over]]
            if not len(over):
                return found
            found[over] = self.parent[found[over]]
            over = over[found[over] >= 0]
        for one, rows in by_value(thread[over]):
            own, piece = self.own_time(one)
            at = time[over[rows]]
            last = np.searchsorted(own.start, at, side="right") - 1
            found[over[rows]] = np.where((last >= 0) & (own.end[last] > at), piece[last], -1)
        return found


def nest(thread: NDArray[np.int32], start: Times, end: Times, threads: int) -> Nesting:
    """Nest calls that are sorted by (thread, start, outer before inner)."""
    call = np.flatnonzero(end > start).astype(np.int32)
    start, end, owner = start[call], end[call], thread[call]
    clipped = 0
    for remaining in range(MAX_ROUNDS, -1, -1):
        depth, parent = _parents(owner, start, end, threads)
        over = _overlapping(start, end, parent)
        if not len(over):
            break
        room = 2 * len(thread) + 1000 - len(call)
        row, cut = _cuts(over, start, end, parent, room)
        if not remaining or len(cut) > room:
            clipped = len(over)
            end = _clipped(owner, start, end)
            depth, parent = _parents(owner, start, end, threads)
            break
        start, end, call, owner = _cut(start, end, call, owner, row, cut)
    return Nesting(
        start,
        end,
        call,
        parent,
        depth,
        _levels(depth),
        np.searchsorted(owner, np.arange(threads + 1)).astype(np.int64),
        clipped,
    )


def _parents(
    owner: NDArray[np.int32], start: Times, end: Times, threads: int
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Depth and parent of each piece. Right wherever pieces nest; where not, some parent ends before its child."""
    bounds = np.searchsorted(owner, np.arange(threads + 1))
    depth = np.empty(len(start), np.int32)
    parent = np.full(len(start), -1, np.int32)
    for low, high in pairwise(bounds.tolist()):
        part = slice(low, high)
        ended = np.searchsorted(np.sort(end[part], kind="stable"), start[part], side="right")
        depth[part] = np.arange(high - low) - ended
        rows = _levels(depth[part])
        for above, below in pairwise(rows):
            parent[below + low] = above[np.searchsorted(above, below) - 1] + low
    return depth, parent


def _levels(depth: NDArray[np.int32]) -> tuple[Rows, ...]:
    """The rows of each depth, ascending."""
    if not len(depth):
        return ()
    deepest = int(depth.max())
    narrow = depth.astype(np.int16) if deepest < np.iinfo(np.int16).max else depth
    order = np.argsort(narrow, kind="stable")
    return tuple(np.split(order, np.cumsum(np.bincount(depth, minlength=deepest + 1))[:-1]))


def _overlapping(start: Times, end: Times, parent: NDArray[np.int32]) -> Rows:
    """Pieces that end after the piece in which they start."""
    limit = np.where(parent >= 0, end[parent], np.iinfo(np.int64).max)
    return np.flatnonzero((end > limit) & (start < limit))


def _cuts(over: Rows, start: Times, end: Times, parent: NDArray[np.int32], room: int) -> tuple[Rows, Times]:
    """Where to cut overlapping pieces: at the end of each piece around them that ends before they do.

    More than `room` cuts are too many, and then not all are looked for.
    """
    rows: list[Rows] = []
    cuts: list[Times] = []
    around = parent[over]
    while len(over) and sum(len(cut) for cut in cuts) <= room:
        later = end[around] > start[over]  # while pieces do not nest yet, what counts as around may have ended before
        rows.append(over[later])
        cuts.append(end[around[later]])
        around = parent[around]
        inner = (around >= 0) & (end[around] < end[over])
        over, around = over[inner], around[inner]
    row, cut = np.concatenate(rows), np.concatenate(cuts)
    order = np.lexsort((cut, row))
    row, cut = row[order], cut[order]
    new = np.append(True, (np.diff(row) != 0) | (np.diff(cut) != 0))
    return row[new], cut[new]


def _cut(
    start: Times, end: Times, call: NDArray[np.int32], owner: NDArray[np.int32], row: Rows, cut: Times
) -> tuple[Times, Times, NDArray[np.int32], NDArray[np.int32]]:
    """The pieces after cutting rows at times that ascend within each row, sorted again."""
    last = np.append(row[1:] != row[:-1], True)
    rest_end = np.where(last, end[row], np.append(cut[1:], 0))
    end = end.copy()
    first = np.append(True, row[1:] != row[:-1])
    end[row[first]] = cut[first]
    start, end = np.concatenate((start, cut)), np.concatenate((end, rest_end))
    call, owner = np.concatenate((call, call[row])), np.concatenate((owner, owner[row]))
    order = np.lexsort((call, start, owner))
    return start[order], end[order], call[order], owner[order]


def _clipped(owner: NDArray[np.int32], start: Times, end: Times) -> Times:
    """Ends, none later than that of the piece in which it starts: the rest of a call is given up.

    One by one, since only files that are damaged or hostile come here.
    """
    found = end.tolist()
    open_: list[int] = []
    last = -1
    for row, (thread, begin) in enumerate(zip(owner.tolist(), start.tolist(), strict=True)):
        if thread != last:
            open_, last = [], thread
        while open_ and open_[-1] <= begin:
            open_.pop()
        if open_ and found[row] > open_[-1]:
            found[row] = open_[-1]
        open_.append(found[row])
    return np.array(found, np.int64)
