"""Stretches of time as rows of [start, end), in any order and overlapping, and how much of some time they cover."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuwhy.intervals import Intervals, overlap, union

Times = NDArray[np.int64]
Spans = NDArray[np.int64]
"""Rows of [start, end)."""


def spans_of(records: NDArray[Any]) -> Spans:
    """The stretches of records."""
    return np.stack([records["start"], records["end"]], axis=1).astype(np.int64)


def joined(spans: Spans) -> Intervals:
    """What the stretches cover: what lies within several of them counts once."""
    ordered = spans[np.argsort(spans[:, 0], kind="stable")]
    return union(ordered[:, 0], ordered[:, 1])


def common(one: Intervals, other: Intervals) -> Intervals:
    """What both cover."""
    _, _, start, end = overlap(one, other)
    return Intervals(start, end)


def covered_before(times: Times, of: Intervals) -> Times:
    """How much of the time before each of `times` is covered."""
    total = np.concatenate([[0], np.cumsum(of.end - of.start)])
    begun = np.searchsorted(of.start, times, side="left")
    ends = np.concatenate([[np.iinfo(np.int64).min], of.end])[begun]
    return np.asarray(total[begun] - np.where(ends > times, ends - times, 0), np.int64)


def covered(edge: Times, of: Intervals) -> Times:
    """How much of each step, from one edge to the next, is covered."""
    return np.diff(covered_before(edge, of))


def after_free(begin: Times, length: int, of: Intervals) -> Times:
    """When so much time has passed since each of `begin` that is not covered."""
    total = np.concatenate([[0], np.cumsum(of.end - of.start)])
    free_at = of.start - total[:-1]
    """Free time before each stretch."""
    free = begin - covered_before(begin, of) + length
    return np.asarray(free + total[np.searchsorted(free_at, free, side="left")], np.int64)
