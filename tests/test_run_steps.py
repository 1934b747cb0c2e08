"""Steps of a run from journals that are written by hand: which they are, how long, of how many samples; and whatever
lies in a damaged folder, a report or a clear error."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from journaling import (
    BATCH,
    BEGUN,
    CALL,
    CHECKPOINT,
    COLLECTION,
    EVALUATION,
    FORWARD,
    GENERATE,
    LOADER,
    MS,
    OPTIMIZER,
    OTHER,
    PROFILE,
    REPLAY,
    TOKEN,
    TRAINS,
    USER,
    Process,
    at,
    journal_of,
    steps_in,
    write_run,
)

from gpuwhy.commands.output import text_for
from gpuwhy.errors import GpuwhyError
from gpuwhy.reports import model
from gpuwhy.reports.json import encode
from gpuwhy.run.analyse import explain_run
from gpuwhy.run.steps import steps_of

SLOW_FOLDERS = settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


def in_ms(values: Any) -> list[float]:
    return [value / MS if value >= 0 else -1 for value in values.tolist()]


def is_sound(folder: Path) -> model.Report:
    """The report of a folder: its ledger sums up, and it can be written and read again."""
    report = explain_run(folder).report
    assert report.run is not None
    assert sum(phase.ns for phase in report.run.ledger) == report.run.wall_ns
    assert all(phase.ns > 0 for phase in report.run.ledger)
    text = encode(report)
    assert msgspec.json.decode(text, type=model.Report) == report
    assert text_for(report, None, False)
    return report


# --- Which steps there are ------------------------------------------------------------------------------------


def test_steps_are_told_by_the_best_anchor_from_when_it_is_there(tmp_path: Path) -> None:
    """Three batches of a sanity check, then the optimizer's five steps of 10 ms."""
    process = Process().anchored(BATCH).stepped(0, 1, 2).anchored(OPTIMIZER).every(10, 5, since=100)
    steps = steps_in(tmp_path, process)
    assert steps.anchor == OPTIMIZER
    assert steps.number.tolist() == [3, 4, 5, 6, 7]
    assert in_ms(steps.host_ns) == [10] * 5
    assert int(steps.edge[0]) == at(100)


def test_one_mark_makes_no_step_and_none_no_steps(tmp_path: Path) -> None:
    assert steps_of(journal_of(tmp_path / "one", Process().anchored(OPTIMIZER).stepped(1))) is None
    assert steps_of(journal_of(tmp_path / "none", Process().anchored(OPTIMIZER))) is None
    assert steps_of(journal_of(tmp_path / "unanchored", Process().every(1, 9))) is None


def test_leading_steps_over_twice_the_median_are_startup_up_to_a_quarter(tmp_path: Path) -> None:
    """Medians are 10 ms. 21 is over twice that, 20 is not; of 12 steps at most three are start-up."""
    lengths = {
        "two": ([100, 21, 20, *[10] * 9], 2),
        "the first is always": ([10] * 12, 1),
        "at most a quarter": ([100, 90, 80, 70, *[10] * 8], 3),
        "a later one is not": ([10, 100, *[10] * 10], 1),
        "one step of one": ([10], 0),
    }
    for name, (each, startup) in lengths.items():
        edges = [sum(each[:number]) for number in range(len(each) + 1)]
        steps = steps_in(tmp_path / name, Process().anchored(CALL).stepped(*edges))
        assert steps.startup.tolist() == [number < startup for number in range(len(each))], name


def test_steps_of_a_profile_and_the_one_after_are_apart(tmp_path: Path) -> None:
    """The profiler starts within step 5 and its file is written within step 8: 5 to 9 are not the program's usual."""
    process = Process().anchored(OPTIMIZER).every(10, 20)
    process.record(PROFILE, 51, 53, value=1, thread=0).record(PROFILE, 84, 88, value=2, thread=0)
    steps = steps_in(tmp_path, process)
    assert np.flatnonzero(steps.profiled).tolist() == [5, 6, 7, 8, 9]
    assert np.flatnonzero(steps.steady).tolist() == [1, 2, 3, 4, *range(10, 20)]


def test_two_profiles_leave_what_lies_between_them_steady(tmp_path: Path) -> None:
    process = Process().anchored(OPTIMIZER).every(10, 30)
    for number, since in enumerate((50, 200)):
        process.record(PROFILE, since + 1, since + 2, value=1, more=number, thread=0)
        process.record(PROFILE, since + 11, since + 12, value=2, more=number, thread=0)
    steps = steps_in(tmp_path, process)
    assert np.flatnonzero(steps.profiled).tolist() == [5, 6, 7, 20, 21, 22]


def test_a_profile_that_was_never_written_lasts_until_it_was_given_up_or_to_the_end(tmp_path: Path) -> None:
    begun = Process().anchored(OPTIMIZER).every(10, 12).record(PROFILE, 51, 53, value=1, thread=0)
    assert np.flatnonzero(steps_in(tmp_path / "to the end", begun).profiled).tolist() == [*range(5, 12)]
    aside = begun.note("aside", 72, why="the program has a profiler of its own")
    assert np.flatnonzero(steps_in(tmp_path / "given up", aside).profiled).tolist() == [5, 6, 7, 8]


def test_a_profile_before_the_first_step_marks_only_that(tmp_path: Path) -> None:
    process = Process().record(PROFILE, 1, 2, value=1, thread=0).record(PROFILE, 5, 6, value=2, thread=0)
    steps = steps_in(tmp_path, process.anchored(OPTIMIZER).every(10, 5, since=100))
    assert np.flatnonzero(steps.profiled).tolist() == [0]


# --- How long they take ----------------------------------------------------------------------------------------


def test_device_time_counts_where_it_was_measured_and_is_shared_out_over_several_steps(tmp_path: Path) -> None:
    """Step 1 took 7 ms, steps 2 to 4 took 30 ms together; of the others only the host's 2 ms are known."""
    process = Process().anchored(OPTIMIZER).every(2, 6).device(1, 7).device(2, 30, steps=3)
    steps = steps_in(tmp_path, process)
    assert in_ms(steps.device_ns) == [-1, 7, 10, 10, 10, -1]
    assert steps.lumped.tolist() == [False, False, True, True, True, False]
    assert in_ms(steps.length) == [2, 7, 10, 10, 10, 2]
    assert in_ms(steps.spread) == [2, 7, 10, 10, 10, 2]
    assert np.flatnonzero(steps.steady).tolist() == [1, 2, 3, 4]


def test_the_host_tells_steps_apart_that_were_measured_together_while_it_keeps_pace(tmp_path: Path) -> None:
    """Steps of 10, 8, 12, 9 and 11 ms on the host's clock; the last four took 42 ms on the device, so that it does, or
    80 ms, so that the host runs ahead and says nothing of the device's steps."""
    for together, told in ((42, [10, 8, 12, 9, 11]), (80, [10, 20, 20, 20, 20])):
        process = Process().anchored(OPTIMIZER).stepped(0, 10, 18, 30, 39, 50)
        steps = steps_in(tmp_path / str(together), process.device(0, 10).device(1, together, steps=4))
        assert in_ms(steps.spread) == told


def test_steps_that_the_device_had_not_done_at_the_end_are_not_judged(tmp_path: Path) -> None:
    """Unless only start-up was measured: then the host's time is all there is."""
    process = Process().anchored(OPTIMIZER).every(2, 8)
    for step in range(5):
        process.device(step, 10)
    assert np.flatnonzero(steps_in(tmp_path / "five", process).steady).tolist() == [1, 2, 3, 4]
    first = Process().anchored(OPTIMIZER).every(2, 8).device(0, 3)
    assert np.flatnonzero(steps_in(tmp_path / "first", first).steady).tolist() == [*range(1, 8)]


def test_device_time_is_numbered_by_all_steps_and_not_by_those_of_the_anchor(tmp_path: Path) -> None:
    process = Process().anchored(CALL).stepped(0, 1).anchored(OPTIMIZER).every(10, 3, since=20)
    steps = steps_in(tmp_path, process.device(1, 50).device(2, 11).device(3, 12))
    assert in_ms(steps.device_ns) == [11, 12, -1]


def test_throughput_is_counted_over_steady_steps_on_the_devices_clock(tmp_path: Path) -> None:
    """40 steps: the first is start-up; 39 of 20 ms on the device, while the host is done with each in 1 ms."""
    process = Process().anchored(OPTIMIZER).every(1, 40)
    for step in range(40):
        process.device(step, 20).record(LOADER, step + 0.25, step + 0.5, value=32, more=-1, detail=1)
    report = is_sound(write_run(tmp_path, process))
    assert report.run is not None
    of = report.run.throughput
    assert of is not None
    assert (of.steps_by, of.clock, of.steps, of.steady_steps, of.startup_steps) == ("optimizer", "device", 40, 39, 1)
    assert of.step_ns.mean == of.step_ns.median == 20 * MS
    assert of.steps_per_s == pytest.approx(50)
    assert of.samples_per_s == pytest.approx(32 * 50)
    assert of.tokens_per_s is None
    assert of.input_wait == pytest.approx(0.25)


def test_ranks_are_added_up(tmp_path: Path) -> None:
    """Two ranks of 10 ms and 20 ms a step with 8 samples each: 800 + 400 a second."""
    ranks = []
    for rank, ms in ((0, 10), (1, 20)):
        process = Process(pid=100 + rank, rank=rank).anchored(BATCH).every(ms, 10)
        for step in range(10):
            process.record(LOADER, step * ms, step * ms + 1, value=8, more=-1)
        ranks.append(process)
    report = is_sound(write_run(tmp_path, *ranks))
    assert report.run is not None
    assert report.run.throughput is not None
    assert report.run.throughput.samples_per_s == pytest.approx(1_200)
    assert [process.rank for process in report.run.processes] == [0, 1]


def test_a_clock_that_stands_still_makes_no_step_of_no_time(tmp_path: Path) -> None:
    """As Windows' does between its ticks."""
    process = Process().anchored(CALL).stepped(*[0] * 20)
    steps = steps_in(tmp_path, process)
    assert steps.host_ns.tolist() == [1] * 19
    is_sound(write_run(tmp_path, process))


# --- Samples, tokens, waiting ----------------------------------------------------------------------------------


def test_samples_are_those_of_all_batches_of_a_step(tmp_path: Path) -> None:
    """Gradients of two batches make a step: 4 + 4 samples of 16 tokens each. The last one is smaller."""
    process = Process().anchored(OPTIMIZER).every(10, 4)
    for step in range(4):
        process.record(LOADER, 10 * step + 1, 10 * step + 2, value=4, more=64, detail=2)
        process.record(LOADER, 10 * step + 5, 10 * step + 8, value=3 if step == 3 else 4, more=64)
    steps = steps_in(tmp_path, process)
    assert steps.samples.tolist() == [8, 8, 8, 7]
    assert steps.tokens.tolist() == [128] * 4
    assert in_ms(steps.waited_ns) == [4] * 4
    assert steps.how_samples == "the first dimension of what the data loader gave"


def test_a_step_without_a_batch_has_as_many_as_all_others_and_none_if_they_differ(tmp_path: Path) -> None:
    process = Process().anchored(OPTIMIZER).every(10, 4)
    for step in (0, 1, 3):
        process.record(LOADER, 10 * step + 1, 10 * step + 2, value=8, more=-1)
    assert steps_in(tmp_path / "alike", process).samples.tolist() == [8] * 4
    process.record(LOADER, 35, 36, value=1, more=-1)
    assert steps_in(tmp_path / "not", process).samples.tolist() == [8, 8, -1, 9]


def test_waiting_in_another_thread_is_no_waiting_of_the_loop(tmp_path: Path) -> None:
    process = Process().anchored(OPTIMIZER).every(10, 4)
    for step in range(4):
        process.record(LOADER, 10 * step, 10 * step + 9, value=8, more=-1, thread=OTHER)
    steps = steps_in(tmp_path, process)
    assert in_ms(steps.waited_ns) == [0] * 4
    assert steps.samples.tolist() == [-1] * 4
    assert steps.how_samples is None


def test_a_loader_within_a_loader_is_waited_for_once(tmp_path: Path) -> None:
    process = Process().anchored(OPTIMIZER).every(10, 2).record(LOADER, 2, 5, value=1).record(LOADER, 1, 7, value=8)
    assert in_ms(steps_in(tmp_path, process).waited_ns) == [6, 0]


def test_batches_of_an_evaluation_are_no_samples_of_the_training(tmp_path: Path) -> None:
    """The model is evaluated from 22 to 28 ms, with two batches: neither is any part of the training step."""
    process = Process().anchored(OPTIMIZER).every(10, 4)
    for step in range(4):
        process.record(LOADER, 10 * step, 10 * step + 1, value=8, more=-1)
    process.record(EVALUATION, 22, 22, value=1).record(EVALUATION, 28, 28, value=0)
    process.record(LOADER, 23, 24, value=50, more=-1).record(LOADER, 25, 26, value=50, more=-1)
    steps = steps_in(tmp_path, process)
    assert steps.samples.tolist() == [8] * 4
    assert in_ms(steps.waited_ns) == [1, 1, 1, 1]
    assert in_ms(steps.host_ns) == in_ms(steps.length) == [10, 10, 4, 10]


def test_calls_before_the_first_step_of_the_optimizer_tell_the_samples_of_all(tmp_path: Path) -> None:
    """Two training calls of 6 make the first step; one without gradients is none of it, nor are later ones."""
    process = Process().anchored(CALL).stepped(0, 1, 2)
    process.record(FORWARD, 0, 0, value=99, more=-1).record(FORWARD, 1, 1, value=6, more=60, flags=TRAINS)
    process.record(FORWARD, 2, 2, value=6, more=60, flags=TRAINS)
    process.anchored(OPTIMIZER).every(10, 3, since=10).record(FORWARD, 15, 15, value=5, more=5, flags=TRAINS)
    steps = steps_in(tmp_path, process)
    assert steps.samples.tolist() == [12] * 3
    assert steps.tokens.tolist() == [120] * 3
    assert steps.how_samples == "the first dimension of the model's first argument"


def test_a_loader_whose_batches_hold_no_tensor_leaves_the_telling_to_the_model(tmp_path: Path) -> None:
    process = Process().anchored(CALL).stepped(0).record(FORWARD, 0, 0, value=6, more=-1, flags=TRAINS)
    process.anchored(OPTIMIZER).every(10, 3, since=10)
    for step in range(3):
        process.record(LOADER, 10 * step + 11, 10 * step + 12, value=-1, more=-1)
    assert steps_in(tmp_path, process).samples.tolist() == [6] * 3


def test_without_an_optimizer_only_the_model_that_tells_the_steps_tells_samples(tmp_path: Path) -> None:
    """A backbone is called at each mark with 4 images, its head 1 ms later with as many features."""
    process = Process().anchored(CALL).every(10, 3)
    for step in range(3):
        process.record(FORWARD, 10 * step, 10 * step, value=4, more=-1)
        process.record(FORWARD, 10 * step + 1, 10 * step + 1, value=4, more=-1)
    assert steps_in(tmp_path, process).samples.tolist() == [4] * 3


def test_what_the_program_says_itself_goes_before_all_else(tmp_path: Path) -> None:
    """gpuwhy.step(samples=n) ends a step: n belongs to the step before the mark."""
    process = Process().anchored(USER).every(10, 3)
    for step in range(3):
        process.record(LOADER, 10 * step + 1, 10 * step + 2, value=8, more=80)
    for mark, samples in enumerate((1, 16, 17, 18)):
        process.record(FORWARD, 10 * mark, 10 * mark, value=samples, more=-1, detail=USER)
    steps = steps_in(tmp_path, process)
    assert steps.samples.tolist() == [16, 17, 18]
    assert steps.tokens.tolist() == [-1] * 3
    assert steps.how_samples == "gpuwhy.step(samples=…)"


def test_new_tokens_of_generate_lie_evenly_over_its_steps(tmp_path: Path) -> None:
    """Three calls of the model for 2 × 4 tokens (in one call two came), then three for 6; the last has no end."""
    process = Process().anchored(TOKEN).every(10, 5)
    process.record(GENERATE, -1, 29, value=2, more=8).record(GENERATE, 29.5, 58, value=2, more=6)
    for step in range(6):
        process.record(FORWARD, 10 * step, 10 * step, value=2, more=200 if step in (0, 3) else 2)
    steps = steps_in(tmp_path, process)
    assert steps.tokens.tolist() == [3, 3, 2, 2, 2]
    assert steps.samples.tolist() == [-1] * 5


def test_a_graph_replayed_in_a_loop_has_steps_and_no_samples(tmp_path: Path) -> None:
    report = is_sound(write_run(tmp_path, Process().anchored(REPLAY).every(10, 30)))
    assert report.run is not None
    assert report.run.throughput is not None
    assert report.run.throughput.steps_by == "graph replay"
    assert report.run.throughput.samples_per_s is None


# --- Damaged folders ---------------------------------------------------------------------------------------------


def test_what_is_cut_off_costs_one_item(tmp_path: Path) -> None:
    process = Process().anchored(OPTIMIZER).every(10, 9).record(LOADER, 1, 2, 8).record(LOADER, 11, 12, 8)
    write_run(tmp_path, process)
    for end in ("steps", "records", "notes.jsonl"):
        path = tmp_path / "processes" / f"{process.name}.{end}"
        path.write_bytes(path.read_bytes()[:-1] if end != "notes.jsonl" else path.read_bytes() + b'{"t": 5, "no')
    report = is_sound(tmp_path)
    assert report.run is not None
    assert report.run.throughput is not None
    assert report.run.throughput.steps == 8
    assert report.run.processes[0].notes == ["1 notes could not be read"]


def test_damage_of_every_file_is_told(tmp_path: Path) -> None:
    process = Process().anchored(OPTIMIZER).every(10, 9).record(COLLECTION, 9, 8).raw(99, 0, 0, 0, 1, 2, 3, 4)
    process.steps[5] -= 30 * MS
    write_run(tmp_path, process)
    with (tmp_path / "processes" / f"{process.name}.notes.jsonl").open("a") as file:
        file.write("[1]\n")
    (told,) = is_sound(tmp_path).run.processes[0].notes  # type: ignore[union-attr]
    assert told == "1 notes could not be read; steps after the first 5 are damaged; 2 records are damaged"


def test_two_threads_that_note_steps_at_once_damage_nothing(tmp_path: Path) -> None:
    process = Process().anchored(BATCH).every(10, 9)
    process.steps[5], process.steps[6] = process.steps[6], process.steps[6] - 700
    steps = steps_in(tmp_path, process)
    assert len(steps) == 9
    assert steps.host_ns[5] == 1
    assert journal_of(tmp_path, process).damage is None


@pytest.mark.parametrize(
    "changes",
    [
        {"ended_ns": BEGUN - 1},
        {"begun_ns": -1},
        {"begun_ns": 2**63},
        {"ended_ns": 10**30},
        {"command": "train.py"},
        {"exit_status": "0"},
        {"signal": -3},
        {"cores": float("inf")},
    ],
    ids=str,
)
def test_a_run_json_that_makes_no_sense_is_a_clear_error(changes: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(GpuwhyError):
        explain_run(write_run(tmp_path, Process(), **changes))


@pytest.mark.parametrize("text", [b"", b"{", b"\xff\xfe", b"[" * 100_000, b"null", b"{}"], ids=repr)
def test_a_folder_without_a_run_json_is_none_of_a_run(text: bytes, tmp_path: Path) -> None:
    with pytest.raises(GpuwhyError):
        explain_run(tmp_path / "none")
    (tmp_path / "run.json").write_bytes(text)
    with pytest.raises(GpuwhyError):
        explain_run(tmp_path)


def test_a_run_without_any_process_is_explained(tmp_path: Path) -> None:
    report = is_sound(write_run(tmp_path))
    assert report.verdict.healthy is None
    assert report.run is not None
    assert [(phase.account, phase.ns) for phase in report.run.ledger] == [("not_watched", 1_000 * MS)]


def test_a_run_that_took_no_time_is_explained(tmp_path: Path) -> None:
    report = is_sound(write_run(tmp_path, Process().anchored(OPTIMIZER).every(10, 9), wall=0))
    assert report.run is not None
    assert report.run.ledger == []


def test_a_run_whose_end_is_not_known_ends_with_what_was_written_last(tmp_path: Path) -> None:
    process = Process().anchored(OPTIMIZER).every(10, 9).record(LOADER, 80, 88, 8)
    report = is_sound(write_run(tmp_path, process, wall=None))
    assert report.run is not None
    assert report.run.ended == "unknown"
    assert report.run.wall_ns >= 88 * MS


@SLOW_FOLDERS
@given(steps=st.binary(max_size=400), records=st.binary(max_size=2_000), notes=st.binary(max_size=500))
def test_random_bytes_make_a_report(steps: bytes, records: bytes, notes: bytes, tmp_path: Path) -> None:
    process = Process().anchored(OPTIMIZER).every(10, 9)
    write_run(tmp_path, process)
    home = tmp_path / "processes" / process.name
    for end, data in (("steps", steps), ("records", records), ("notes.jsonl", notes)):
        path = Path(f"{home}.{end}")
        path.write_bytes(path.read_bytes() + data)
    is_sound(tmp_path)


NUMBER = st.one_of(
    st.integers(-2, 40),
    st.integers(BEGUN - 10 * MS, BEGUN + 1_100 * MS),
    st.sampled_from([0, -1, 2**31, 2**32 - 1, 2**40, 2**53, 2**62, 2**62 + 1, 2**63 - 1, -(2**63)]),
)


@SLOW_FOLDERS
@given(
    anchor=st.integers(0, 7),
    first=NUMBER,
    steps=st.lists(NUMBER, max_size=8),
    records=st.lists(st.tuples(st.integers(0, 12), NUMBER, NUMBER, NUMBER, NUMBER), max_size=12),
    wall=st.sampled_from([None, 0, 1, 1_000]),
    regular=st.integers(0, 30),
)
def test_any_numbers_make_a_report(
    anchor: int,
    first: int,
    steps: list[int],
    records: list[tuple[int, ...]],
    wall: float | None,
    regular: int,
    tmp_path: Path,
) -> None:
    process = Process().every(10, regular).note("anchor", 1, kind=anchor, step=first % 5, thread=0x1111, tid=1)
    if first % 2:
        process.note("anchor", 1, kind=anchor, step=first, thread=first, tid=first)
    process.steps += steps
    for kind, *values in records:
        process.raw(kind, 1, 1, 0x1111, *values)
    is_sound(write_run(tmp_path, process, wall=wall))


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBER, st.floats(), st.text(max_size=3), st.just(10**30), st.just("²")),
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(st.text(max_size=2), inner, max_size=2)),
    max_leaves=3,
)
FIELDS = (
    *("t", "kind", "step", "thread", "tid", "rank", "pid", "begun", "version", "steps", "file", "first", "why"),
    *("error", "what", "workers", "uuid", "index", "name", "co_name", "co_filename", "co_firstlineno"),
    *("recompile_reason", "num_device_alloc", "reserved_bytes.all.peak", "allocated_bytes.all.peak"),
)
WHAT = (
    *("process", "begin", "torch", "anchor", "loader", "memory", "device", "thread", "failed", "aside", "missing"),
    *("compiled", "profile", "end"),
)


@SLOW_FOLDERS
@given(
    notes=st.lists(
        st.tuples(st.sampled_from(WHAT), st.dictionaries(st.sampled_from(FIELDS), JSON, max_size=8)), max_size=8
    ),
    before=st.booleans(),
)
def test_notes_of_any_types_make_a_report(
    notes: list[tuple[str, dict[str, Any]]], before: bool, tmp_path: Path
) -> None:
    process = Process().anchored(OPTIMIZER).every(10, 30)
    usual = process.lines
    process.lines = []
    for what, values in notes:
        process.note(what, 1, **{name: value for name, value in values.items() if name != "t"})
        if "t" in values:
            process.lines[-1]["t"] = values["t"]
    process.lines = process.lines + usual if before else usual + process.lines
    is_sound(write_run(tmp_path, process))


@pytest.mark.parametrize("what", ["no anchor", [], {}, 5.5, True, None, 2**62], ids=str)
def test_an_anchor_of_another_type_is_none(what: Any, tmp_path: Path) -> None:
    process = Process().every(10, 30)
    for name in ("kind", "step", "thread"):
        note = {"kind": OPTIMIZER, "step": 0, "thread": 1, name: what}
        process.note("anchor", 1, **note)
    write_run(tmp_path, process)
    is_sound(tmp_path)


def test_a_million_steps_are_read_in_seconds(tmp_path: Path) -> None:
    """With as many waits for batches, and records of the device in any lumps."""
    count = 1_000_000
    process = Process().anchored(OPTIMIZER)
    edges = BEGUN + 1_000 * np.arange(count + 1)
    process.steps = []
    write_run(tmp_path, process)
    home = tmp_path / "processes" / process.name
    Path(f"{home}.steps").write_bytes(edges.astype("<i8").tobytes())
    layout = np.dtype(
        [("k", "u1"), ("f", "u1"), ("d", "<u2"), ("th", "<u4"), *((name, "<i8") for name in ("s", "e", "v", "m"))]
    )
    loads, device = np.zeros(count, layout), np.zeros(count // 4, layout)
    loads["k"], loads["th"], loads["s"], loads["e"], loads["v"], loads["m"] = (
        3,
        0x1111,
        edges[:-1],
        edges[:-1] + 100,
        8,
        -1,
    )
    device["k"], device["s"], device["e"], device["v"], device["m"] = 2, 4, 4, 4 * np.arange(count // 4), 4_000
    Path(f"{home}.records").write_bytes(loads.tobytes() + device.tobytes())
    begun = time.perf_counter()
    report = is_sound(tmp_path)
    assert time.perf_counter() - begun < 10
    assert report.run is not None
    assert report.run.throughput is not None
    assert report.run.throughput.steady_steps == count - 1
    assert report.run.throughput.input_wait == pytest.approx(0.1)


def test_records_that_claim_all_of_memory_take_none_of_it(tmp_path: Path) -> None:
    """Each says that it is about 2^40 steps, or about all of them."""
    process = Process().anchored(OPTIMIZER).every(0.01, 20_000)
    for number in range(20_000):
        process.device(0, 1, steps=20_000).device(number, 1, steps=1 << 40)
    for number in range(3_000):
        process.record(PROFILE, 1, 100, more=number).record(CHECKPOINT, 0, 200)
    begun = time.perf_counter()
    is_sound(write_run(tmp_path, process))
    assert time.perf_counter() - begun < 5


def test_a_report_of_a_run_is_what_its_schema_says(tmp_path: Path) -> None:
    import jsonschema

    process = Process().anchored(OPTIMIZER).every(10, 60).note("torch", 5, version="2.9", begun=at(2))
    for step in range(60):
        process.record(LOADER, 10 * step, 10 * step + 5, value=8, more=80)
    report = is_sound(write_run(tmp_path, process, exit_status=143, signal=15))
    assert report.findings
    text = encode(report)
    assert msgspec.json.decode(text, type=model.Report) == report
    schema = json.loads((Path(__file__).parent.parent / "docs" / "report.schema.json").read_text())
    jsonschema.validate(json.loads(text), schema)
