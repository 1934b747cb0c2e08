"""Algebra of half-open integer intervals, as pairs of int64 arrays (starts, ends).

A *set* is sorted and disjoint: `ends[i] <= starts[i + 1]` and `starts[i] < ends[i]`. All functions are exact and
linear but for sorting.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Times = NDArray[np.int64]
Rows = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Intervals:
    """A set of disjoint intervals in ascending order."""

    start: Times
    end: Times

    def __len__(self) -> int:
        return len(self.start)

    @property
    def total(self) -> int:
        """Summed length."""
        return int((self.end - self.start).sum())


EMPTY = Intervals(np.empty(0, np.int64), np.empty(0, np.int64))


def running_end(end: Times) -> Times:
    """For each row the latest end of all rows before it (the smallest int64 for the first)."""
    before = np.empty_like(end)
    if len(end):
        before[0] = np.iinfo(np.int64).min
        np.maximum.accumulate(end[:-1], out=before[1:])
    return before


def union(start: Times, end: Times) -> Intervals:
    """The set covered by intervals whose starts ascend; empty ones add nothing, touching ones are joined."""
    keep = end > start
    if not keep.all():
        start, end = start[keep], end[keep]
    if not len(start):
        return EMPTY
    first = start > running_end(end)
    last = np.append(np.flatnonzero(first)[1:] - 1, len(start) - 1)
    return Intervals(start[first], np.maximum.accumulate(end)[last])


def complement(of: Intervals, start: int, end: int) -> Intervals:
    """What of `[start, end)` the set leaves free."""
    starts = np.concatenate(([start], np.clip(of.end, start, end)))
    ends = np.concatenate((np.clip(of.start, start, end), [end]))
    keep = ends > starts
    return Intervals(starts[keep], ends[keep])


def overlap(a: Intervals, b: Intervals) -> tuple[Rows, Rows, Times, Times]:
    """All pieces in which an interval of `a` meets one of `b`: (row of a, row of b, starts, ends), ascending."""
    first = np.searchsorted(b.end, a.start, side="right")
    last = np.searchsorted(b.start, a.end, side="left")
    count = np.maximum(last - first, 0)
    row_a = np.repeat(np.arange(len(a)), count)
    row_b = ranges(first, count)
    return row_a, row_b, np.maximum(a.start[row_a], b.start[row_b]), np.minimum(a.end[row_a], b.end[row_b])


def ranges(first: Rows, count: Rows) -> Rows:
    """`first[i], first[i] + 1, …` (`count[i]` of them) for each i, one after the other."""
    total = int(count.sum())
    offset = np.repeat(np.cumsum(count) - count, count)
    return np.repeat(first, count) + np.arange(total) - offset


def difference(a: Intervals, b: Intervals) -> Intervals:
    """What of `a` is not in `b`."""
    if not len(a) or not len(b):
        return a
    _, _, start, end = overlap(a, complement(b, int(a.start[0]), int(a.end[-1])))
    return Intervals(start, end)
