"""The pass over a graph against slower ways, and recorded profiles: unchanged, they replay as they were recorded.

Loops made to measure are in test_replay_planted.py.
"""

from __future__ import annotations

import csv
import time
from dataclasses import dataclass
from pathlib import Path

import brute_force
import numpy as np
import pytest
from conftest import SHARED, needs_shared, shared_files
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from replaying import replay_of, steady

import gpuwhy
from gpuwhy.ledger.partition import basis
from gpuwhy.reports.model import DeviceReport
from gpuwhy.timeline import Timeline
from gpuwhy.whatif import replay
from gpuwhy.whatif.build import build
from gpuwhy.whatif.changes import not_paced

needs_compiled = pytest.mark.skipif(
    replay._library() is None, reason=f"{replay.LIBRARY.name} is not built: pip install -e . with a C compiler"
)

# --- One pass -----------------------------------------------------------------------------------------------

Edge = tuple[int, int, float]  # source, target, lag


@dataclass
class Drawn:
    """A graph: what `reached` takes, apart from where edges lie, and its edges by target."""

    edges: list[Edge]
    own: NDArray[np.float64]
    start: NDArray[np.float64]
    before: NDArray[np.float64]

    def columns(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
        source, target, lag = (np.array(column) for column in zip(*self.edges, strict=True)) if self.edges else [[]] * 3
        first = np.searchsorted(target, np.arange(len(self.own) + 1))
        return first, np.array(source, np.int64), np.array(lag, np.float64)

    def reached(self, before: NDArray[np.float64] | None = None) -> NDArray[np.float64]:
        first, source, lag = self.columns()
        return replay.reached(first, source, lag, self.own, self.start, self.before if before is None else before)

    def in_python(self) -> NDArray[np.float64]:
        first, source, lag = self.columns()
        return replay._in_python(first, source, lag, self.own, self.start, self.before)


WHOLE = st.integers(-1_000, 1_000).map(float)
"""Sums of these are exact."""
ANY = st.floats(-1e12, 1e12)


@st.composite
def graphs(draw: st.DrawFn, most: int, numbers: st.SearchStrategy[float]) -> Drawn:
    """Edges from earlier rows and from all rows of the pass before; some are cut, some rows have no start."""
    size = draw(st.integers(1, most))

    def column(values: st.SearchStrategy[float]) -> NDArray[np.float64]:
        return np.array(draw(st.lists(values, min_size=size, max_size=size)))

    edges: list[Edge] = []
    for target in range(size):
        some = st.tuples(st.integers(-size, target - 1), st.just(target), numbers | st.just(-np.inf))
        edges += draw(st.lists(some, max_size=4))
    return Drawn(edges, column(numbers), column(numbers | st.just(replay.NEVER)), column(numbers))


def by_all_ways(of: Drawn, turns: int) -> list[float]:
    """The last turn's times: along each way of edges through all turns, from each row that it can begin at."""
    size = len(of.own)
    into: dict[int, list[tuple[int, float]]] = {row: [] for row in range(size)}
    for source, target, lag in of.edges:
        into[target].append((source, lag))
    known: dict[tuple[int, int], float] = {}

    def longest(turn: int, row: int) -> float:
        if turn < 0:
            return float(of.before[row])
        if (turn, row) not in known:
            ways = [float(of.start[row])]
            for source, lag in into[row]:
                ways.append(lag + (longest(turn, source) if source >= 0 else longest(turn - 1, source + size)))
            known[turn, row] = float(of.own[row]) + sorted(ways)[-1]
        return known[turn, row]

    return [longest(turns - 1, row) for row in reversed(range(size))][::-1]


@needs_compiled
@given(graphs(25, ANY))
def test_compiled_and_python_agree_to_the_last_bit(graph: Drawn) -> None:
    assert graph.reached().tobytes() == graph.in_python().tobytes()


@given(graphs(10, WHOLE), st.integers(1, 4))
def test_a_row_is_reached_at_the_end_of_its_longest_way_through_all_turns(graph: Drawn, turns: int) -> None:
    found = graph.before
    for _ in range(turns):
        found = graph.reached(found)
    assert found.tolist() == by_all_ways(graph, turns)


@given(graph=graphs(10, WHOLE))
def test_without_the_library_it_is_the_same(graph: Drawn) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(replay, "_library", lambda: None)
        assert graph.reached().tolist() == by_all_ways(graph, 1)


@needs_compiled
def test_a_million_operations_replay_in_seconds() -> None:
    """The host launches one each 5 ns; it starts 2 after its launch, or 1 after the one before, and takes 3.

    Rows are a launch and an operation in turns: the host is slower, so that operation i is over at 5 i + 2 + 3.
    """
    count = 1_000_000
    launch, operation = 2 * np.arange(count), 2 * np.arange(count) + 1
    source = np.concatenate((launch[:-1], launch, operation[:-1]))
    target = np.concatenate((launch[1:], operation, operation[1:]))
    lag = np.repeat([5.0, 2.0, 1.0], (count - 1, count, count - 1))
    order = np.argsort(target, kind="stable")
    first = np.searchsorted(target[order], np.arange(2 * count + 1))
    own = np.tile([0.0, 3.0], count)
    start = np.full(2 * count, replay.NEVER)
    start[0] = 0.0
    begin = time.perf_counter()
    found = replay.reached(first, source[order], lag[order], own, start, np.empty(0))
    assert time.perf_counter() - begin < 5
    assert (found[launch] == 5 * np.arange(count)).all()
    assert (found[operation] == 5 * np.arange(count) + 5).all()


# --- Recorded profiles, unchanged ---------------------------------------------------------------------------

MOST_ERROR, MOST_UNEXPLAINED = 0.02, 0.05
LEAST_FAITHFUL = 0.9

ON_ITS_LEAD = {"eager_stacks.base.json.gz", "eager_stacks.fixed.json.gz", "naive_attention.base.json.gz"}
"""Here the host, slowed by the profiler, was slower than the device, and lived on the lead that it had when recording
began: that is used up sooner or later, so that the steady state is the host's and not what was recorded."""

BETWEEN_ITS_ENDS = {"eager_stacks.fixed.json.gz"}
"""A frame that stays open on autograd's thread hides there what that thread did: in between, the replay is ahead."""


def is_faithful(device: DeviceReport) -> bool:
    """A device replays within 2 %, and less than 5 % of its window is unexplained."""
    found = device.replay
    if found is None or found.error is None or found.unexplained is None:
        return False
    return abs(found.error) <= MOST_ERROR and found.unexplained < MOST_UNEXPLAINED


def worst(timeline: Timeline, of: DeviceReport) -> float:
    """By which part of the window any operation in it ends earlier or later than recorded, seen from the first one."""
    ops, graph = timeline.ops, build(basis(timeline))
    inside = (ops.start >= of.window_start_ns) & (ops.end <= of.window_start_ns + of.window_ns)
    off = (replay.once(graph)[graph.node_of_op] - ops.end)[inside]
    return float(np.abs(off - off[0]).max()) / of.window_ns


def host_step_ns(path: Path) -> float:
    """The mean time from one step mark to the next."""
    calls = brute_force.calls(brute_force.read(path))
    return float(np.diff(sorted(call["start"] for call in calls if brute_force.is_step_mark(call))).mean())


@pytest.mark.parametrize("path", [*shared_files("zoo/traces/*.json.gz"), *shared_files("zoo/ranks/*.json.gz")])
def test_a_recorded_window_replays_as_it_was(path: Path) -> None:
    timeline = gpuwhy.load(str(path))
    report = gpuwhy.explain(timeline)
    assert report.replay is not None
    assert report.replay.error == pytest.approx(0, abs=MOST_ERROR)
    assert report.replay.unexplained == pytest.approx(0, abs=MOST_UNEXPLAINED)
    assert "gains" not in [item.what for item in report.withheld]
    if path.name not in BETWEEN_ITS_ENDS:
        assert worst(timeline, report.devices[0]) <= MOST_ERROR


@pytest.mark.parametrize("path", shared_files("zoo/traces/*.json.gz"))
def test_repeated_it_settles_at_the_recorded_step_or_at_the_hosts_where_that_is_slower(path: Path) -> None:
    found = replay_of(gpuwhy.load(str(path)))
    assert found.recorded_ns is not None
    wanted = found.recorded_ns
    if path.name in ON_ITS_LEAD:
        wanted = host_step_ns(path)
        assert wanted > (1 + MOST_ERROR) * found.recorded_ns
    # A loader that had filled its queue before sets the pace later, but not in what was recorded.
    assert steady(found, not_paced) == pytest.approx(wanted, rel=MOST_ERROR)


@needs_shared
@pytest.mark.parametrize("name", ["straggler.fixed", "many_buckets.base"])
def test_both_ranks_of_a_recording_settle_at_the_slowest_of_their_hosts_and_devices(name: str) -> None:
    paths = [SHARED / f"zoo/ranks/{name}.rank{rank}.json.gz" for rank in (0, 1)]
    timeline = gpuwhy.load(*map(str, paths))
    found = [replay_of(timeline, device) for device in (0, 1)]
    recorded = [one.recorded_ns for one in found if one.recorded_ns is not None]
    wanted = max(*recorded, *map(host_step_ns, paths))
    for one in found:
        assert one.error == pytest.approx(0, abs=MOST_ERROR)
        assert one.unexplained == pytest.approx(0, abs=MOST_UNEXPLAINED)
        assert steady(one) == pytest.approx(wanted, rel=MOST_ERROR)


@needs_shared
def test_nine_of_ten_public_profiles_replay_as_they_were_and_the_others_say_why_not() -> None:
    with (SHARED / "traces/busy.tsv").open() as lines:
        files = sorted({line["file"] for line in csv.DictReader(lines, delimiter="\t")})
    counted, faithful = 0, 0
    for file in files:
        timeline = gpuwhy.load(str(SHARED / "traces" / file))
        if not (timeline.ops.launch >= 0).any():
            continue
        report = gpuwhy.explain(timeline)
        counted += 1
        if all(map(is_faithful, report.devices)):
            faithful += 1
        else:
            assert [item.why for item in report.withheld if item.what == "gains"], file
    assert faithful >= LEAST_FAITHFUL * counted > 0
