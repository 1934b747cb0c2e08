"""Where the time of a whole run went: by hand, and against a painter that goes from one nanosecond to the next."""

from __future__ import annotations

import statistics
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from journaling import (
    BEGUN,
    CALL,
    CHECKPOINT,
    COLLECTION,
    COMPILE,
    EVALUATION,
    LOADER,
    LOOP,
    MS,
    OPTIMIZER,
    OTHER,
    PROFILE,
    Process,
    at,
    journal_of,
)

from gpuwhy.reports.run_model import Phase
from gpuwhy.run.phases import phases
from gpuwhy.run.steps import steps_of


def found(folder: Path, process: Process, wall: float = 1_000) -> list[Phase]:
    journal = journal_of(folder, process)
    return phases(journal, steps_of(journal), BEGUN, at(wall))


def in_ms(told: list[Phase]) -> dict[str, float]:
    return {phase.account: phase.ns / MS for phase in told}


def started() -> Process:
    """Python at 20 ms, torch from 50 to 400 ms, then six optimizer steps of 50 ms from 500 to 800 ms."""
    process = Process().note("begin", 20).note("torch", 400, version="2.9", begun=at(50))
    return process.anchored(OPTIMIZER).every(50, 6, since=500)


USUAL = {
    "start_up/before_python": 20,
    "start_up/before_torch": 30,
    "start_up/import_torch": 350,
    "start_up/set_up": 100,
    "warm_up": 50,
    "steady": 250,
    "shut_down": 200,
}


def test_a_run_goes_from_its_start_over_its_steps_to_its_end(tmp_path: Path) -> None:
    told = found(tmp_path, started())
    assert in_ms(told) == USUAL
    assert [phase.ns for phase in told] == sorted((phase.ns for phase in told), reverse=True)
    assert {phase.account: phase.count for phase in told if phase.count is not None} == {"steady": 5, "warm_up": 1}
    assert sum(phase.share for phase in told) == pytest.approx(1)


def test_without_a_journal_or_without_steps_the_rest_is_named_so(tmp_path: Path) -> None:
    assert in_ms(phases(None, None, BEGUN, at(7))) == {"not_watched": 7}
    unstepped = Process().note("begin", 20).note("torch", 400, version="2.9", begun=at(50))
    told = {name: ms for name, ms in USUAL.items() if name.startswith("start_up") and name != "start_up/set_up"}
    assert in_ms(found(tmp_path, unstepped)) == {**told, "no_steps": 600}


NESTED: dict[str, tuple[Process, dict[str, float]]] = {
    "a checkpoint within an evaluation": (
        started()
        .record(EVALUATION, 610, 610, value=1)
        .record(CHECKPOINT, 620, 625)
        .record(EVALUATION, 640, 640, value=0),
        {"evaluation": 25, "checkpoint": 5, "steady": 220},
    ),
    "an evaluation ends with the next step at the latest": (
        started().record(EVALUATION, 610, 610, value=1),
        {"evaluation": 40, "steady": 210},
    ),
    "an evaluation before the first step is setting up": (started().record(EVALUATION, 450, 450, value=1), {}),
    "compiling within the first step, and batches and garbage within that": (
        started().record(COMPILE, 505, 535).record(LOADER, 510, 520, 8).record(COLLECTION, 530, 540),
        {"warm_up": 15, "compile": 30, "gc": 5},
    ),
    "compiling while setting up, in another thread": (
        started().record(COMPILE, 410, 470, thread=OTHER),
        {"start_up/set_up": 40, "compile": 60},
    ),
    "gpuwhy's profiler on top of all": (
        started()
        .record(CHECKPOINT, 600, 640)
        .record(PROFILE, 610, 615, value=1, thread=0)
        .record(PROFILE, 660, 670, value=2, thread=0),
        {"checkpoint": 35, "profile": 15, "steady": 200},
    ),
    "garbage while waiting for a batch": (
        started().record(LOADER, 600, 630, 8).record(COLLECTION, 610, 612),
        {"input": 28, "gc": 2, "steady": 220},
    ),
    "a checkpoint and a loader beside the loop": (
        started().record(CHECKPOINT, 600, 640, thread=OTHER).record(LOADER, 600, 640, 8, thread=OTHER),
        {},
    ),
    "one loader within another": (
        started().record(LOADER, 610, 620, 8).record(LOADER, 605, 625, 8),
        {"input": 20, "steady": 230},
    ),
    "what lies outside of the run": (
        started().record(CHECKPOINT, -50, 10).record(CHECKPOINT, 950, 1_300),
        {"checkpoint": 60, "start_up/before_python": 10, "shut_down": 150},
    ),
}


@pytest.mark.parametrize("name", NESTED)
def test_what_lies_within_something_else(name: str, tmp_path: Path) -> None:
    process, changes = NESTED[name]
    told = in_ms(found(tmp_path, process))
    assert told == {**USUAL, **changes}
    assert sum(told.values()) == 1_000


def test_a_model_that_is_only_called_is_not_evaluated(tmp_path: Path) -> None:
    process = Process().anchored(CALL).every(100, 10).record(EVALUATION, 250, 250, value=1)
    assert in_ms(found(tmp_path, process)) == {"warm_up": 100, "steady": 900}


def spiky(*lengths: float) -> Process:
    edges = [sum(lengths[:number]) for number in range(len(lengths) + 1)]
    return Process().anchored(OPTIMIZER).stepped(*edges)


def test_what_a_step_takes_beyond_the_usual_is_a_spike(tmp_path: Path) -> None:
    """Twice the usual is none yet; 35 ms are 25 too many, wherever in the step they lie."""
    told = found(tmp_path, spiky(*[10] * 8, 35, 20, 10), wall=135)
    assert in_ms(told) == {"steady": 100, "warm_up": 10, "spike": 25}
    assert {phase.account: phase.count for phase in told}["spike"] == 1


@pytest.mark.parametrize("since", [80, 85, 90])
def test_a_checkpoint_makes_no_spike_wherever_in_its_step_it_lies(since: float, tmp_path: Path) -> None:
    process = spiky(*[10] * 8, 35, 10).record(CHECKPOINT, since, since + 25)
    assert in_ms(found(tmp_path, process, wall=125)) == {"steady": 90, "warm_up": 10, "checkpoint": 25}


@pytest.mark.parametrize("since", [80, 85, 90])
def test_a_spike_is_what_is_left_beside_a_checkpoint(since: float, tmp_path: Path) -> None:
    """Of 45 ms 25 are the checkpoint's, 10 are usual, and 10 nobody knows."""
    process = spiky(*[10] * 8, 45, 10).record(CHECKPOINT, since, since + 25)
    assert in_ms(found(tmp_path, process, wall=135)) == {"steady": 90, "warm_up": 10, "checkpoint": 25, "spike": 10}


def test_steps_of_a_host_that_runs_ahead_are_no_spikes(tmp_path: Path) -> None:
    """The host is done with most in 1 ms and then waits for the device, which takes 10 ms for each."""
    process = spiky(*[1] * 9, 91, *[1] * 9, 91)
    for step in range(20):
        process.device(step, 10)
    assert "spike" not in in_ms(found(tmp_path, process, wall=200))


def test_an_evaluation_after_the_last_step_lasts_as_long_as_batches_come(tmp_path: Path) -> None:
    """Steps end at 100 ms; from 110 on the model is evaluated, with a batch until 130 and one until 150."""
    process = spiky(*[10] * 10).record(EVALUATION, 110, 110, value=1)
    process.record(LOADER, 112, 130).record(LOADER, 140, 150)
    told = in_ms(found(tmp_path, process, wall=200))
    assert told == {"steady": 90, "warm_up": 10, "shut_down": 60, "evaluation": 40}


def test_where_one_step_in_five_is_long_that_is_how_the_loop_is(tmp_path: Path) -> None:
    told = in_ms(found(tmp_path, spiky(*[10, 10, 10, 10, 40] * 4), wall=320))
    assert told == {"steady": 310, "warm_up": 10}


# --- Against a painter ------------------------------------------------------------------------------------------

WALL = 400
"""ns. `at` takes ms: the records below are written in ns."""
KINDS = {LOADER: "input", COLLECTION: "gc", COMPILE: "compile", CHECKPOINT: "checkpoint", PROFILE: "profile"}
ORDER = ("input", "gc", "compile", "checkpoint", "profile")
TIME = st.integers(-20, WALL + 20)


def painted(process: Process, edges: list[int], records: list[tuple[int, int, int, int]]) -> dict[str, int]:
    """Each nanosecond of the run in a colour, one layer after the other."""
    canvas = ["other"] * WALL

    def paint(account: str, start: int, end: int) -> None:
        for ns in range(max(start, 0), min(end, WALL)):
            canvas[ns] = account

    probe, importing, imported = 10, 20, 60
    first = edges[0] if len(edges) > 1 else WALL
    paint("start_up/before_python", 0, probe)
    paint("start_up/before_torch", probe, importing)
    paint("start_up/import_torch", importing, imported)
    paint("start_up/set_up" if len(edges) > 1 else "no_steps", imported, first)
    layers = [
        (account, start, end)
        for wanted in ORDER
        for kind, start, end, thread in records
        if (account := KINDS[kind]) == wanted and (len(edges) < 2 or kind not in (LOADER, CHECKPOINT) or thread == LOOP)
    ]
    if len(edges) > 1:
        paint("shut_down", edges[-1], WALL)
        pairs = list(pairwise(edges))
        lengths = [end - start for start, end in pairs]
        apart = profiled(pairs, records)
        startup = leading(lengths, apart)
        for number, (start, end) in enumerate(pairs):
            paint("warm_up" if number < startup else "steady", start, end)
        steady = [number for number in range(startup, len(pairs)) if not apart[number]]
        if steady:
            usual = round(statistics.median(max(lengths[number], 1) for number in steady))
            taken = {ns for _, start, end in layers for ns in range(start, end)}
            free = {number: [ns for ns in range(*pairs[number]) if ns not in taken] for number in steady}
            long = [number for number in steady if lengths[number] > 2 * usual and len(free[number]) > usual]
            for number in long if len(long) <= max(len(steady) / 10, 1) else ():
                for ns in free[number][usual:]:
                    paint("spike", ns, ns + 1)
    for layer in layers:
        paint(*layer)
    return {account: canvas.count(account) for account in set(canvas)}


def leading(lengths: list[int], apart: list[bool]) -> int:
    """How many steps are start-up: the first, and up to a quarter that take over twice the median."""
    usual = [length for length, is_apart in zip(lengths, apart, strict=True) if not is_apart]
    if not usual:
        return 0
    slow = 0
    while slow < max(len(lengths) // 4, 1) and lengths[slow] > 2 * statistics.median(usual):
        slow += 1
    return max(slow, int(len(lengths) > 1))


def profiled(pairs: list[tuple[int, int]], records: list[tuple[int, int, int, int]]) -> list[bool]:
    """Steps that touch the one profile, and the one after it; here each record is of the same."""
    marks = [(start, end) for kind, start, end, _ in records if kind == PROFILE]
    if not marks:
        return [False] * len(pairs)
    begun, stopped = min(start for start, _ in marks), max(end for _, end in marks)
    if len(marks) == 1:
        stopped = max(pairs[-1][1], begun)
    edges = [pairs[0][0], *(end for _, end in pairs)]
    first = max(sum(edge <= begun for edge in edges) - 1, 0)
    last = sum(edge <= stopped for edge in edges) - 1
    return [first <= number <= last + 1 for number in range(len(pairs))]


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    edges=st.lists(st.integers(0, WALL + 20), max_size=9).map(sorted),
    records=st.lists(
        st.tuples(st.sampled_from(sorted(KINDS)), TIME, st.integers(0, 80), st.sampled_from([LOOP, OTHER])).map(
            lambda one: (one[0], one[1], one[1] + one[2], one[3])
        ),
        max_size=8,
    ),
)
def test_each_nanosecond_is_in_the_account_that_a_painter_gives_it(
    edges: list[int], records: list[tuple[int, int, int, int]], tmp_path: Path
) -> None:
    process = Process().anchored(OPTIMIZER)
    process.lines.append({"t": BEGUN + 10, "note": "begin"})
    process.lines.append({"t": BEGUN + 60, "note": "torch", "begun": BEGUN + 20})
    process.steps = [BEGUN + edge for edge in edges]
    for kind, start, end, thread in records:
        process.raw(kind, 0, 0, thread, BEGUN + start, BEGUN + end, 1, 0)
    journal = journal_of(tmp_path, process)
    told = phases(journal, steps_of(journal), BEGUN, BEGUN + WALL)
    assert {phase.account: phase.ns for phase in told} == painted(process, edges, records)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    edges=st.lists(st.integers(0, WALL), min_size=2, max_size=9).map(sorted),
    marks=st.lists(st.integers(0, WALL), max_size=9).map(sorted),
)
def test_an_evaluation_lasts_until_training_or_the_next_step(
    edges: list[int], marks: list[int], tmp_path: Path
) -> None:
    """Marks come in turns: into evaluation mode, and back. After the last step nothing ends it, and no batch comes."""
    process = Process().anchored(OPTIMIZER)
    process.steps = [BEGUN + edge for edge in edges]
    for number, mark in enumerate(marks):
        process.raw(EVALUATION, 0, 0, LOOP, BEGUN + mark, BEGUN + mark, (number + 1) % 2, 0)
    journal = journal_of(tmp_path, process)
    told = {phase.account: phase.ns for phase in phases(journal, steps_of(journal), BEGUN, BEGUN + WALL)}
    evaluated = np.zeros(WALL, bool)
    for number, mark in enumerate(marks):
        if number % 2 == 0 and edges[0] <= mark < edges[-1]:
            until = marks[number + 1] if number + 1 < len(marks) else WALL
            evaluated[mark : min([until, *(edge for edge in edges if edge > mark)])] = True
    assert told.get("evaluation", 0) == int(evaluated.sum())
    assert sum(told.values()) == WALL
