"""The algebra of intervals against sets of integers: `[start, end)` is the set of the integers in it."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gpuwhy.intervals import Intervals, complement, difference, overlap, ranges, running_end, union

PAIRS = st.lists(st.tuples(st.integers(-20, 20), st.integers(0, 9)).map(lambda p: (p[0], p[0] + p[1])), max_size=12)


def points(pairs: list[tuple[int, int]]) -> set[int]:
    return {i for start, end in pairs for i in range(start, end)}


def pairs_of(one: Intervals) -> list[tuple[int, int]]:
    return list(zip(one.start.tolist(), one.end.tolist(), strict=True))


def as_set(pairs: list[tuple[int, int]]) -> Intervals:
    ordered = np.array(sorted(pairs), np.int64).reshape(-1, 2)
    return union(ordered[:, 0], ordered[:, 1])


def is_set(one: Intervals) -> bool:
    pairs = pairs_of(one)
    apart = all(a[1] <= b[0] for a, b in pairwise(pairs))
    return apart and all(start < end for start, end in pairs)


@given(PAIRS)
def test_union(pairs: list[tuple[int, int]]) -> None:
    found = as_set(pairs)
    assert is_set(found)
    assert points(pairs_of(found)) == points(pairs)
    assert found.total == len(points(pairs))
    # Touching intervals are joined: no two of the result could be one.
    assert all(a[1] < b[0] for a, b in pairwise(pairs_of(found)))


@given(PAIRS, st.integers(-25, 25), st.integers(0, 40))
def test_complement(pairs: list[tuple[int, int]], start: int, length: int) -> None:
    found = complement(as_set(pairs), start, start + length)
    assert is_set(found)
    assert points(pairs_of(found)) == set(range(start, start + length)) - points(pairs)


@given(PAIRS, PAIRS)
def test_difference(a: list[tuple[int, int]], b: list[tuple[int, int]]) -> None:
    found = difference(as_set(a), as_set(b))
    assert is_set(found)
    assert points(pairs_of(found)) == points(a) - points(b)


@given(PAIRS, PAIRS)
def test_overlap(a: list[tuple[int, int]], b: list[tuple[int, int]]) -> None:
    one, other = as_set(a), as_set(b)
    row_a, row_b, start, end = overlap(one, other)
    pieces = Intervals(start, end)
    assert is_set(pieces)
    assert points(pairs_of(pieces)) == points(a) & points(b)
    for i, j, piece in zip(row_a.tolist(), row_b.tolist(), pairs_of(pieces), strict=True):
        assert points([piece]) == points([pairs_of(one)[i]]) & points([pairs_of(other)[j]])


@given(st.lists(st.integers(-9, 9), max_size=9))
def test_running_end(ends: list[int]) -> None:
    nothing = np.iinfo(np.int64).min
    wanted = [max(ends[:i], default=nothing) for i in range(len(ends))]
    assert running_end(np.array(ends, np.int64)).tolist() == wanted


@given(st.lists(st.tuples(st.integers(-9, 9), st.integers(0, 4)), max_size=9))
def test_ranges(parts: list[tuple[int, int]]) -> None:
    first, count = np.array(parts, np.int64).reshape(-1, 2).T
    assert ranges(first, count).tolist() == [i for f, n in parts for i in range(f, f + n)]
