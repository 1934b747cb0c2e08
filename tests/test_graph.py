"""The slices of host time that a graph's threads have: sums over stretches against a count of every nanosecond."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuwhy.whatif.graph import HostTime


def host(*threads: tuple[int, list[int], list[float]]) -> HostTime:
    """Threads with the limits of their slices and what each slice's time counts."""
    rows = [
        (thread, start, end, factor)
        for thread, limits, factors in threads
        for start, end, factor in zip(limits[:-1], limits[1:], factors, strict=True)
    ]
    thread, start, end, factor = zip(*rows, strict=True)
    piece = np.arange(len(rows), dtype=np.int32)
    times = np.array(start, np.int64), np.array(end, np.int64)
    return HostTime(np.array(thread, np.int32), *times, piece, np.array(factor))


TWO = host((0, [0, 10, 15, 40], [1.0, 0.0, 0.5]), (3, [5, 25, 30], [2.0, 1.0]))
"""Thread 0: 10 ns as recorded, a wait of 5, 25 ns that take half as long. Thread 3: 20 ns that count twice, then 5."""


def over(of: HostTime, thread: int, start: int, end: int) -> float:
    column = np.array([start], np.int64), np.array([end], np.int64)
    (found,) = of.over(of.spans(np.array([thread], np.int32), *column))
    return float(found)


@pytest.mark.parametrize(
    ("thread", "start", "end", "takes"),
    [
        (0, 0, 40, 10 + 0 + 25 / 2),
        (0, 4, 10, 6),  # up to the end of a slice
        (0, 10, 15, 0),  # a wait
        (0, 8, 17, 2 + 0 + 2 / 2),
        (0, 20, 24, 4 / 2),  # within one
        (0, 7, 7, 0),
        (3, 5, 30, 2 * 20 + 5),
        (3, 24, 26, 2 + 1),
        (3, 0, 6, 2),  # before the first slice of a thread there is nothing
        (0, 39, 90, 1 / 2),  # nor is there behind the last one
    ],
)
def test_a_stretch_takes_what_its_parts_of_slices_count(thread: int, start: int, end: int, takes: float) -> None:
    assert over(TWO, thread, start, end) == takes


def test_scaled_slices_count_so_many_times_more_wherever_a_stretch_begins() -> None:
    """12.5 ns from 15 on become 37.5, and those of the other thread stay."""
    chosen = np.array([False, True, True, False, False])
    times = TWO.scaled(chosen, 3.0)
    assert over(times, 0, 0, 40) == 10 + 0 + 3 * 25 / 2
    assert over(times, 0, 20, 24) == 3 * 4 / 2
    assert over(times, 3, 5, 30) == over(TWO, 3, 5, 30) == 45
    assert over(times.scaled(chosen, 0.0), 0, 0, 40) == 10


def test_slices_within_bounds_are_cut_and_those_outside_are_gone() -> None:
    """Thread 0 from 4 to 12, thread 3 from 25 on: it has only its last slice then; 1 and 2 have none anyway."""
    found = TWO.within(np.array([4, 0, 0, 25]), np.array([12, 0, 0, 99]))
    assert found.thread.tolist() == [0, 0, 3]
    assert found.start.tolist() == [4, 10, 25]
    assert found.end.tolist() == [10, 12, 30]
    assert found.piece.tolist() == [0, 1, 4]
    assert found.factor.tolist() == [1.0, 0.0, 1.0]
    assert over(found, 0, 0, 40) == 6


@dataclass
class Thread:
    """A thread's slices, and every ns of it by another way: what each counts."""

    limits: list[int]
    factors: list[float]

    def takes(self, start: int, end: int) -> float:
        ns = [
            factor
            for low, high, factor in zip(self.limits[:-1], self.limits[1:], self.factors, strict=True)
            for _ in range(max(0, min(high, end) - max(low, start)))
        ]
        return sum(ns)


@st.composite
def threads(draw: st.DrawFn) -> Thread:
    limits = sorted(draw(st.sets(st.integers(-20, 40), min_size=2, max_size=6)))
    factors = draw(st.lists(st.sampled_from([0.0, 0.25, 1.0, 3.0]), min_size=len(limits) - 1, max_size=len(limits) - 1))
    return Thread(limits, factors)


@given(st.lists(threads(), min_size=1, max_size=3), st.data())
def test_over_any_stretch_it_is_the_sum_of_every_nanosecond(some: list[Thread], data: st.DataObject) -> None:
    of = host(*((2 * number, one.limits, one.factors) for number, one in enumerate(some)))
    number = data.draw(st.integers(0, len(some) - 1))
    start, end = sorted(data.draw(st.tuples(st.integers(-25, 45), st.integers(-25, 45))))
    assert over(of, 2 * number, start, end) == some[number].takes(start, end)
    chosen = of.thread == 2 * number
    assert over(of.scaled(chosen, 2.0), 2 * number, start, end) == 2 * some[number].takes(start, end)
    begin, finish = (np.full(2 * len(some), time) for time in (start, end))
    within = of.within(begin, finish)
    left = over(within, 2 * number, -25, 45) if (within.thread == 2 * number).any() else 0
    assert left == some[number].takes(start, end)
