"""Pieces nest exactly, and the innermost open one at any instant is known, however calls overlap."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuwhy import nesting
from gpuwhy.nesting import Nesting, nest

Call = tuple[int, int, int]

calls_of_any_kind = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 12), st.integers(0, 8)), max_size=14)


def nested(calls: list[Call]) -> tuple[list[Call], Nesting]:
    """Calls as (thread, start, end), in the order that `nest` wants, and their nesting."""
    rows = sorted(((t, s, s + length) for t, s, length in calls), key=lambda c: (c[0], c[1], -c[2]))
    thread, start, end = (np.array([row[i] for row in rows], np.int64) for i in range(3))
    return rows, nest(thread.astype(np.int32), start, end, 3)


def open_pieces(found: Nesting, thread: int, time: int) -> list[int]:
    part = found.of_thread(thread)
    return [i for i in range(part.start, part.stop) if found.start[i] <= time < found.end[i]]


def check(rows: list[Call], found: Nesting) -> None:
    for thread in range(3):
        own, piece = found.own_time(thread)
        assert (own.end > own.start).all()
        assert (own.start[1:] >= own.end[:-1]).all()
        for time in range(-1, 24):
            pieces = open_pieces(found, thread, time)
            innermost = pieces[-1] if pieces else -1
            walk, at = [], innermost
            while at >= 0:
                walk.append(at)
                at = int(found.parent[at])
            assert walk == pieces[::-1]
            assert [int(found.depth[p]) for p in pieces] == list(range(len(pieces)))
            assert found.open_at(np.array([thread]), np.array([time])).tolist() == [innermost]
            assert [p for p, s, e in zip(piece, own.start, own.end, strict=True) if s <= time < e] == pieces[-1:]
    assert all(found.end > found.start)
    for p, call in enumerate(found.call.tolist()):
        thread, start, end = rows[call]
        assert found.of_thread(thread).start <= p < found.of_thread(thread).stop
        assert start <= found.start[p] <= found.end[p] <= end


@given(calls_of_any_kind)
def test_pieces_nest_and_the_innermost_is_the_call_that_started_last(calls: list[Call]) -> None:
    rows, found = nested(calls)
    check(rows, found)
    if found.clipped:
        return
    for thread in range(3):
        for time in range(24):
            started = [i for i, (t, s, e) in enumerate(rows) if t == thread and s <= time < e]
            innermost = int(found.open_at(np.array([thread]), np.array([time]))[0])
            assert (int(found.call[innermost]) if innermost >= 0 else None) == (started[-1] if started else None)


@given(calls_of_any_kind, st.integers(0, 2))
@settings(max_examples=200)
def test_pieces_nest_where_calls_overlap_too_often_to_be_cut(calls: list[Call], rounds: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nesting, "MAX_ROUNDS", rounds)
        rows, found = nested(calls)
    check(rows, found)


@given(calls_of_any_kind)
def test_a_deep_search_finds_what_a_short_one_finds(calls: list[Call]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nesting, "FEW_ROUNDS", 0)
        check(*nested(calls))


def test_a_call_that_was_never_closed_takes_nothing_from_what_comes_after_it() -> None:
    """Deep in a stack a frame starts whose end the profiler missed: it crosses the end of every frame around it."""
    deep, later = 200, 300
    stack = [(0, depth, 1_000 - 2 * depth) for depth in range(deep)]  # (thread, start, length): each inside the last
    unclosed = [(0, deep, 10**6), (0, deep + 1, 10**6 - 1)]
    after = [(0, 2_000 + 10 * i, 5) for i in range(later)]
    rows, found = nested(stack + unclosed + after)
    assert not found.clipped
    starts = np.array([start for _, start, _ in after])
    innermost = found.open_at(np.zeros(later, np.int64), starts)
    assert [rows[found.call[piece]][1] for piece in innermost.tolist()] == starts.tolist()


def test_what_crosses_too_often_is_shortened_and_nothing_else_is_lost() -> None:
    """Every call crosses every other (an attack); a thread beside them is as if they were not there."""
    crossing = [(0, i, 5_000) for i in range(2_000)]
    tidy = [(1, 10 * i, 5) for i in range(500)]
    rows, found = nested(crossing + tidy)
    assert found.clipped
    assert len(set(found.call.tolist())) == len(rows)
    part = found.of_thread(1)
    assert part.stop - part.start == len(tidy)
