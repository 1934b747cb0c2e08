"""What a run's steady steps come to, by hand."""

from __future__ import annotations

from pathlib import Path

import pytest
from journaling import CHECKPOINT, OPTIMIZER, Process, at, journal_of, steps_in

from gpuwhy.run.throughput import throughput, usual_step

PROFILE_AT = {"first": 30}


def test_throughput_over_time_tells_a_program_that_slows_down(tmp_path: Path) -> None:
    """A first step of 10 ms, 100 of 10 ms, then 50 of 20 ms: two seconds, the second of them at half the speed."""
    process = Process().anchored(OPTIMIZER).every(10, 101)
    process.stepped(*(1010 + 20 * step for step in range(1, 51)))
    of = throughput([steps_in(tmp_path, process)])
    assert of.by_time == pytest.approx([100] * 10 + [50] * 10)
    assert of.steps_per_s == pytest.approx(150 / 2)


def test_a_few_steps_have_no_throughput_over_time(tmp_path: Path) -> None:
    assert throughput([steps_in(tmp_path, Process().anchored(OPTIMIZER).every(10, 20))]).by_time == []


def test_a_rare_checkpoint_is_no_part_of_the_usual_step(tmp_path: Path) -> None:
    """Steps of 10 ms, and one of 210 with a checkpoint of 200: the usual one takes 10."""
    process = Process().anchored(OPTIMIZER).every(10, 40).stepped(*(610 + 10 * step for step in range(40)))
    process.record(CHECKPOINT, 405, 605)
    steps = steps_in(tmp_path, process)
    assert usual_step(journal_of(tmp_path, process), steps, PROFILE_AT) == pytest.approx(0.010)
    assert steps.length.max() == at(210) - at(0)


def test_a_checkpoint_at_every_step_is(tmp_path: Path) -> None:
    process = Process().anchored(OPTIMIZER).every(30, 60)
    for step in range(60):
        process.record(CHECKPOINT, 30 * step + 5, 30 * step + 25)
    assert usual_step(journal_of(tmp_path, process), steps_in(tmp_path, process), PROFILE_AT) == pytest.approx(0.030)


@pytest.mark.parametrize("note", [{}, {"first": None}, {"first": "30"}])
def test_a_profile_that_does_not_say_where_it_lies_calibrates_nothing(note: dict[str, object], tmp_path: Path) -> None:
    process = Process().anchored(OPTIMIZER).every(10, 40)
    assert usual_step(journal_of(tmp_path, process), steps_in(tmp_path, process), note) is None
