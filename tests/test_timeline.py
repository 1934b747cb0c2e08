"""Timelines saved and read again, files of several ranks joined, and the nesting of calls against a plain stack."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import shared_files
from events import MAIN, Profile
from hypothesis import given
from hypothesis import strategies as st

import gpuwhy
from gpuwhy.nesting import Nesting, nest
from gpuwhy.sources.compact import TABLES
from gpuwhy.timeline import Table, Timeline


def same_columns(one: Any, other: Any) -> None:
    for column in fields(one):
        a, b = getattr(one, column.name), getattr(other, column.name)
        if isinstance(a, np.ndarray):
            assert a.dtype == b.dtype, column.name
            assert np.array_equal(a, b), column.name


def same(one: Timeline, other: Timeline) -> None:
    for about in ("names", "origin_ns", "sources", "devices", "threads"):
        assert getattr(one, about) == getattr(other, about), about
    for name in TABLES:
        same_columns(getattr(one, name), getattr(other, name))
    same_columns(one.nesting, other.nesting)
    assert len(one.nesting.levels) == len(other.nesting.levels)


def small(
    shift: int = 0, base: int = 1_760_000_000_000_000_000, rank: int | None = None, name: str = "sgemm"
) -> Profile:
    """A step of 1000 ns; a stated rank goes into the header."""
    p = Ranked(base=base)
    p.rank = rank
    for i in range(3):
        t = shift + 1000 * i
        p.operator("aten::mm", t, t + 300)
        p.launch(t + 10, t + 20, t + 100, t + 900, name=name)
    return p


class Ranked(Profile):
    rank: int | None = None

    def text(self) -> str:
        about = f'{{"distributedInfo": {{"backend": "nccl", "rank": {self.rank}, "world_size": 2}}, '
        return super().text() if self.rank is None else about + super().text()[1:]


def files(folder: Path, *profiles: Profile) -> list[str]:
    return [str(p.write(folder / f"{i}.json")) for i, p in enumerate(profiles)]


# --- save and load ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [
        *shared_files("zoo/traces/l*.json.gz"),
        *shared_files("zoo/ranks/straggler.base.*.json.gz"),
        *shared_files("traces/pytorch__kineto/**/*.json.gz"),
        *shared_files("traces/AMD-AGI__TraceLens/evals/**/*.json"),
        *shared_files("traces/facebookresearch__HolisticTraceAnalysis/tests/data/critical_path/**/*.json.gz"),
    ],
)
def test_saved_and_read_again(path: Path, tmp_path: Path) -> None:
    timeline = gpuwhy.load(str(path))
    timeline.save(str(tmp_path / "saved.gpuwhy"))
    same(timeline, gpuwhy.load(str(tmp_path / "saved.gpuwhy")))


ODD_NAMES = [
    "",
    " ",
    "a\nb\tc\0d",
    '"quoted" \\ and /slashed/',
    "naïve 核 🚀",
    "\u202eleft\u202c",
    "\x1b[31mred",
    "x" * 70_000,
    "__proto__",
    "-1",
    "null",
]


@pytest.mark.parametrize("name", ODD_NAMES, ids=lambda name: repr(name[:20]))
def test_odd_names(name: str, tmp_path: Path) -> None:
    p = small(name=name)
    p.operator(name, 5000, 5001)
    timeline = gpuwhy.load(*files(tmp_path, p))
    kept = name[:10_000]  # longer ones are cut
    assert {timeline.names[code] for code in timeline.ops.name.tolist()} == {kept}
    assert kept in {timeline.names[code] for code in timeline.calls.name.tolist()}
    timeline.save(str(tmp_path / "saved"))
    same(timeline, gpuwhy.load(str(tmp_path / "saved")))
    assert gpuwhy.explain(str(tmp_path / "saved"), window="all").devices[0].busy_ns == 2400


@pytest.mark.parametrize("raw", [b'"\\ud83d"', b'"\\ud83d x \\udc00"', b'"caf\xe9"', b'"\xff\xfe"', b"17", b"null"])
def test_names_that_are_no_text(raw: bytes, tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    path.write_bytes(small(name="NAME").text().encode().replace(b'"NAME"', raw))
    timeline = gpuwhy.load(str(path))
    timeline.save(str(tmp_path / "saved"))
    same(timeline, gpuwhy.load(str(tmp_path / "saved")))


def test_saving_again_changes_nothing(tmp_path: Path) -> None:
    first = gpuwhy.load(*files(tmp_path, small(rank=0), small(rank=1)))
    first.save(str(tmp_path / "a"))
    gpuwhy.load(str(tmp_path / "a")).save(str(tmp_path / "b"))
    same(first, gpuwhy.load(str(tmp_path / "b")))


# --- several files ------------------------------------------------------------------------------------------


def ranks(timeline: Timeline) -> list[int]:
    for about in (timeline.devices, timeline.threads):
        assert {one.rank for one in about} <= {source.rank for source in timeline.sources}
    return [source.rank for source in timeline.sources]


def test_stated_ranks_are_kept_whatever_the_order(tmp_path: Path) -> None:
    a, b, c = files(tmp_path, small(rank=7, shift=40), small(rank=2, name="dgemm"), small(rank=3, base=10**18))
    wanted = gpuwhy.load(a, b, c)
    assert ranks(wanted) == [2, 3, 7]
    for order in ((a, c, b), (b, a, c), (b, c, a), (c, a, b), (c, b, a)):
        same(wanted, gpuwhy.load(*order))


@pytest.mark.parametrize("stated", [(None, None), (4, None), (None, 0), (1, 1)])
def test_other_files_are_ranks_in_order(stated: tuple[int | None, int | None], tmp_path: Path) -> None:
    a, b = files(tmp_path, small(rank=stated[0], name="first"), small(rank=stated[1], name="second"))
    for order in ((a, b), (b, a)):
        timeline = gpuwhy.load(*order)
        assert ranks(timeline) == [0, 1]
        assert [source.file for source in timeline.sources] == list(order)


@pytest.mark.parametrize("stated", ["-1", "true", '"0"', "1.5", "null"])
def test_a_rank_that_is_no_number(stated: str, tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    path.write_text(small(rank=5).text().replace('"rank": 5', f'"rank": {stated}'))
    assert ranks(gpuwhy.load(str(path), str(path))) == [0, 1]


def test_joined_files_can_be_joined_further(tmp_path: Path) -> None:
    a, b, c = files(tmp_path, small(), small(), small(name="third"))
    gpuwhy.load(a, b).save(str(tmp_path / "ab"))
    timeline = gpuwhy.load(str(tmp_path / "ab"), c)
    assert ranks(timeline) == [0, 1, 2]
    assert [device.rank for device in timeline.devices] == [0, 1, 2]


def test_one_clock(tmp_path: Path) -> None:
    """Two bases, 1 ms apart, and events 100 ns apart: all times count from the earliest event of all."""
    early, late = small(shift=50, base=10**18), small(shift=150, base=10**18 + 10**6)
    timeline = gpuwhy.load(*files(tmp_path, late, early))
    assert timeline.origin_ns == 10**18 + 50
    assert timeline.sources[0].start_ns == 10**6 + 100
    start = [int(timeline.ops.start[timeline.ops_of(device)][0]) for device in (0, 1)]
    assert start == [10**6 + 100 + 100, 100]
    assert [int(timeline.calls.start[timeline.calls_of(thread)][0]) for thread in (0, 1)] == [10**6 + 100, 0]


@pytest.mark.parametrize("base", ["-5", "1e30", "1000000000000000000000000000000", "true", "null", '"12"', "[]"])
def test_a_base_that_is_no_time(base: str, tmp_path: Path) -> None:
    odd = tmp_path / "odd.json"
    odd.write_text(small(base=777).text().replace('"baseTimeNanoseconds": 777', f'"baseTimeNanoseconds": {base}'))
    (fine,) = files(tmp_path, small())
    timeline = gpuwhy.load(fine, str(odd))
    assert timeline.origin_ns == 0
    assert len(timeline.ops) == 6


def test_same_names_have_one_code(tmp_path: Path) -> None:
    timeline = gpuwhy.load(*files(tmp_path, small(name="one"), small(name="two"), small(name="one")))
    assert len(set(timeline.names)) == len(timeline.names)
    found = [{timeline.names[c] for c in timeline.ops.name[timeline.ops_of(d)].tolist()} for d in range(3)]
    assert found == [{"one"}, {"two"}, {"one"}]


def test_links_and_ledgers_survive_joining(tmp_path: Path) -> None:
    profiles = [small(rank=0), small(rank=1, shift=170, name="dgemm")]
    profiles[1].launch(4000, 4010, 4020, 4100, thread=MAIN + 1, device=3, stream=9)
    paths = files(tmp_path, *profiles)
    timeline = gpuwhy.load(*paths)
    ops, calls = timeline.ops, timeline.calls
    assert (ops.launch >= 0).all()
    assert (calls.correlation[ops.launch] == ops.correlation).all()
    rank_of_op = np.array([d.rank for d in timeline.devices])[ops.device]
    rank_of_call = np.array([t.rank for t in timeline.threads])[calls.thread[ops.launch]]
    assert (rank_of_op == rank_of_call).all()
    joined = [(d.rank, d.device, d.ledger) for d in gpuwhy.explain(timeline, window="all").devices]
    alone = [(r, d.device, d.ledger) for r, p in enumerate(paths) for d in gpuwhy.explain(p, window="all").devices]
    assert joined == alone


def test_tables_join_row_by_row(tmp_path: Path) -> None:
    parts = [gpuwhy.load(path) for path in files(tmp_path, small(), small(shift=77))]
    whole = gpuwhy.load(*[str(tmp_path / f"{i}.json") for i in (0, 1)])
    for name in TABLES:
        tables: list[Table] = [getattr(part, name) for part in parts]
        assert len(getattr(whole, name)) == sum(map(len, tables))
    assert whole.ops.take(whole.ops_of(1)).start.tolist() == (parts[1].ops.start + 77).tolist()


# --- nesting ------------------------------------------------------------------------------------------------

Calls = list[tuple[int, int, int]]  # thread, start, end


def nested(calls: Calls) -> tuple[Calls, Nesting]:
    """The calls sorted as the timeline sorts them, and their nesting."""
    ordered = sorted(calls, key=lambda c: (c[0], c[1], -c[2]))
    thread, start, end = (np.array([c[i] for c in ordered], np.int64) for i in range(3))
    return ordered, nest(thread.astype(np.int32), start, end, 3)


def pieces_nest(found: Nesting) -> bool:
    inner = np.flatnonzero((found.parent >= 0) & (found.end > found.start))
    outer = found.parent[inner]
    inside = (found.start[outer] <= found.start[inner]) & (found.end[inner] <= found.end[outer])
    return bool(inside.all()) and bool((found.end >= found.start).all())


CALLS = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 30), st.integers(0, 12)).map(lambda c: (c[0], c[1], c[1] + c[2])),
    max_size=14,
)


@given(CALLS)
def test_nesting_is_what_a_stack_holds(calls: Calls) -> None:
    """At each instant the open pieces, from the innermost out, are the open calls, the last started first."""
    ordered, found = nested(calls)
    assert found.clipped == 0
    assert pieces_nest(found)
    for thread in range(3):
        for time in range(44):
            stack = [i for i, (own, start, end) in enumerate(ordered) if own == thread and start <= time < end]
            piece = int(found.open_at(np.array([thread]), np.array([time]))[0])
            walked = []
            while piece >= 0:
                assert found.start[piece] <= time < found.end[piece]
                walked.append(int(found.call[piece]))
                piece = int(found.parent[piece])
            assert walked == stack[::-1]


@given(CALLS)
def test_pieces_of_a_call_are_all_of_it(calls: Calls) -> None:
    ordered, found = nested(calls)
    for row, (_, start, end) in enumerate(ordered):
        mine = np.flatnonzero(found.call == row)
        bounds = sorted(zip(found.start[mine].tolist(), found.end[mine].tolist(), strict=True))
        assert [t for a, b in bounds for t in range(a, b)] == list(range(start, end))


@given(CALLS, st.data())
def test_marked_pieces_around(calls: Calls, data: st.DataObject) -> None:
    _, found = nested(calls)
    size = len(found.call)
    marked = np.array(data.draw(st.lists(st.booleans(), min_size=size, max_size=size)), bool)
    nearest, outermost = found.nearest(marked), found.outermost(marked)
    for piece in range(size):
        path = [piece]
        while found.parent[path[-1]] >= 0:
            path.append(int(found.parent[path[-1]]))
        hits = [one for one in path if marked[one]]
        assert nearest[piece] == (hits[0] if hits else -1)
        assert outermost[piece] == (hits[-1] if hits else -1)


def test_a_long_chain_without_nesting(tmp_path: Path) -> None:
    """Each of 300 calls overlaps all others: more than can be cut, so some are shortened (to nothing), and counted."""
    _, found = nested([(0, i, 1000 + i) for i in range(300)])
    assert found.clipped > 0
    assert pieces_nest(found)


def test_no_calls() -> None:
    _, found = nested([])
    assert found.open_at(np.array([0, 1]), np.array([5, 6])).tolist() == [-1, -1]


def test_taking_rows() -> None:
    table = gpuwhy.timeline.Flows(*(np.arange(4, dtype=t) for t in (np.int32, np.int64, np.int32, np.int64)))
    assert table.take(np.array([2, 0])).from_time.tolist() == [2, 0]
    assert len(replace(table, from_thread=table.from_thread[:4])) == 4
