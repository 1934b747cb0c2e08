"""The recorded time of host threads in slices, with the waits that edges explain taken out."""

from __future__ import annotations

import numpy as np

from gpuwhy.arrays import unique
from gpuwhy.intervals import Intervals, Times, complement, union
from gpuwhy.ledger.partition import Basis
from gpuwhy.whatif.graph import HostTime


def host_time(of: Basis, waits: dict[int, Intervals], start: int, end: int) -> HostTime:
    """The slices of some threads from `start` to `end` of the recording; their `waits` take no time of their own."""
    parts = [_slices(of, thread, wait, start, end) for thread, wait in sorted(waits.items())]
    return HostTime.concatenate([HostTime.empty(), *parts])


def _slices(of: Basis, thread: int, wait: Intervals, start: int, end: int) -> HostTime:
    own, piece = of.host.own_time(thread)
    limits = np.array([start, end], np.int64)
    cut = unique(np.concatenate((limits, own.start, own.end, wait.start, wait.end)))
    cut = cut[(cut >= start) & (cut <= end)]
    begin = cut[:-1]
    inside, waits = _covering(own, begin), _covering(wait, begin)
    return HostTime(
        np.full(len(begin), thread, np.int32),
        begin,
        cut[1:],
        np.append(piece, np.int32(-1))[inside].astype(np.int32),
        np.where(waits >= 0, 0.0, 1.0),
    )


def _covering(of: Intervals, time: Times) -> Times:
    """The interval of a set that each time lies in, or -1."""
    place = np.searchsorted(of.start, time, side="right") - 1
    return np.where((place >= 0) & (np.append(of.end, 0)[place] > time), place, -1)


def joined(*parts: tuple[Times, Times]) -> Intervals:
    """The union of intervals in any order."""
    start, end = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.argsort(start, kind="stable")
    return union(start[order], end[order])


def outside(of: Intervals, start: int, end: int) -> tuple[Times, Times]:
    """What a set leaves free, as two columns."""
    free = complement(of, start, end)
    return free.start, free.end
