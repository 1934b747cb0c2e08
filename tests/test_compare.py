"""`gpuwhy compare`: what changed, whether that is more than noise, and the gate."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np
import pytest
from conftest import SHARED, needs_shared
from journaling import LOADER, OPTIMIZER, Process, write_run

import gpuwhy
from gpuwhy.compare.gate import CANNOT_TELL, HOLDS, HOLDS_NOT, parse
from gpuwhy.compare.noise import (
    FEWEST,
    difference_of_means,
    neighbours,
    ratio_of_means,
    ratio_of_medians,
    why_not,
    worth,
)
from gpuwhy.compare.whole import compared
from gpuwhy.errors import GpuwhyError
from gpuwhy.reports.compare_model import Comparison
from gpuwhy.reports.json import encode, schema_text
from gpuwhy.reports.model import Withheld

ROOT = Path(__file__).resolve().parents[1]
DEMO = ROOT / "src/gpuwhy/data/demo.pt.trace.json.gz"
ZOO = SHARED / "zoo/traces"


def steps(count: int, seed: int, alike: float = 0.0, noise: float = 0.03, spikes: float = 0.03) -> np.ndarray:
    """Step times in ns: an autoregression of their logarithms, with a few long steps in between."""
    chance = np.random.default_rng(seed)
    drawn = chance.normal(0, noise * math.sqrt(1 - alike**2), count)
    logs = np.zeros(count)
    logs[0] = chance.normal(0, noise)
    for i in range(1, count):
        logs[i] = alike * logs[i - 1] + drawn[i]
    return 10e6 * np.exp(logs) * np.where(chance.random(count) < spikes, chance.uniform(1.5, 4, count), 1)


def differs(before: np.ndarray, after: np.ndarray) -> bool:
    if why_not(before, after, min(len(before), len(after))) is not None:
        return False
    ratio = ratio_of_medians(before, after)
    return ratio.low > 1 or ratio.high < 1


# --- noise


@pytest.mark.parametrize("alike", [0.0, 0.3, 0.6])
def test_random_halves_of_one_steady_series_differ_in_at_most_a_tenth(alike: float) -> None:
    whole = steps(400, 1, alike)
    found = 0
    for seed in range(100):
        chance = np.random.default_rng(seed)
        begin = chance.integers(0, len(whole) - 100)
        part = whole[begin : begin + 100]
        one = np.sort(chance.choice(100, 50, replace=False))
        found += differs(part[one], np.delete(part, one))
    assert found <= 10


@pytest.mark.parametrize("name", ["item_every_step", "workers", "shared"])
def test_random_halves_of_a_series_that_was_recorded_differ_in_at_most_a_tenth(name: str) -> None:
    """Steps of three programs on an H200 as `gpuwhy run` kept them: neighbours alike by 0.5, 0 and 0.6."""
    rows = json.loads((ROOT / "tests/data/live/steps.json").read_text())["rows"]
    (whole,) = [np.array(row["blocks_ns"], np.float64) for row in rows if row["name"] == name]
    found = told = 0
    for seed in range(100):
        one = np.zeros(len(whole), bool)
        one[np.random.default_rng(seed).choice(len(whole), len(whole) // 2, replace=False)] = True
        found += differs(whole[one], whole[~one])
        told += why_not(whole[one], whole[~one], len(whole) // 2) is None
    assert found <= 10
    assert told >= 90


@pytest.mark.parametrize(("count", "alike"), [(FEWEST, 0.0), (50, 0.0), (50, 0.6), (200, 0.8)])
def test_two_series_of_one_kind_seldom_differ(count: int, alike: float) -> None:
    """Of those pairs of which one can tell."""
    pairs = [(steps(count, 2 * s, alike), steps(count, 2 * s + 1, alike)) for s in range(150)]
    judged = [pair for pair in pairs if why_not(*pair, count) is None]
    assert len(judged) > 20
    assert sum(differs(*pair) for pair in judged) <= 0.12 * len(judged)


@pytest.mark.parametrize("slower", [1.05, 1 / 1.05])
@pytest.mark.parametrize("alike", [0.0, 0.3])
def test_five_percent_are_found_with_fifty_steps_a_side(slower: float, alike: float) -> None:
    found = sum(differs(steps(50, 2 * s, alike), slower * steps(50, 2 * s + 1, alike)) for s in range(100))
    assert found >= 90


def test_below_twenty_steps_a_side_nobody_can_tell() -> None:
    few, many = steps(FEWEST - 1, 1), steps(200, 2)
    assert "19 steps" in (why_not(few, 3 * many, len(few)) or "")
    assert "19 steps" in (why_not(3 * many, few, 500) or "")
    assert why_not(steps(FEWEST, 3), 3 * many, FEWEST) is None


def test_steps_that_hang_together_are_worth_few_and_nobody_can_tell() -> None:
    """A host that changes its pace once: 60 steps, but two paces."""
    chance = np.random.default_rng(1)
    paced = np.concatenate([np.full(30, 10e6), np.full(30, 13e6)]) * chance.normal(1, 0.01, 60)
    assert worth(paced) < 10
    assert "hang together" in (why_not(paced, steps(60, 2), 60) or "")


def test_the_correlation_of_neighbours_is_that_of_the_series() -> None:
    for alike in (0.3, 0.6, 0.9):
        assert neighbours(steps(4000, 5, alike, spikes=0.0)) == pytest.approx(alike, abs=0.04)
    assert neighbours(np.full(50, 7.0)) == 0.0
    assert neighbours(np.array([1.0, 2.0])) == 0.0


def test_intervals_hold_the_figure_and_are_as_wide_as_independent_steps_make_them() -> None:
    one, other = steps(400, 1, spikes=0.0), 1.1 * steps(400, 2, spikes=0.0)
    mean = difference_of_means(one, other)
    assert mean.low < other.mean() - one.mean() < mean.high
    # The standard error of a difference of means, worked out by hand.
    error = math.sqrt(one.var() / 400 + other.var() / 400)
    assert (mean.high - mean.low) / 2 == pytest.approx(1.96 * error, rel=0.2)
    for ratio, exact in (
        (ratio_of_medians, np.median(other) / np.median(one)),
        (ratio_of_means, other.mean() / one.mean()),
    ):
        told = ratio(one, other)
        assert told.mid == pytest.approx(exact)
        assert told.low < told.mid < told.high


# --- runs and profiles


def run_of(folder: Path, lengths_ns: Sequence[float], samples: int | None = None) -> Path:
    """A run whose steps took so long, each of so many samples."""
    marks = np.concatenate(([2000.0], 2000 + np.cumsum(lengths_ns) / 1e6))
    process = Process().anchored(OPTIMIZER).stepped(*marks.tolist())
    for mark in marks.tolist() if samples is not None else ():
        process.record(LOADER, mark + 0.01, mark + 0.02, samples or 0)
    return write_run(folder, process, wall=float(marks[-1]) + 100)


def test_two_runs_are_compared_by_their_steps(tmp_path: Path) -> None:
    one, other = (run_of(tmp_path / name, f * steps(300, s, spikes=0)) for name, f, s in (("a", 1, 1), ("b", 1.1, 2)))
    found = compared(str(one), str(other))
    assert found.typical is not None
    assert found.typical.differs is True
    assert found.typical.ratio.low < 1.1 < found.typical.ratio.high
    assert found.before.steps >= 270
    same = compared(str(one), str(one))
    assert same.typical is not None
    assert (same.typical.differs, same.typical.ratio.mid) == (False, 1.0)
    assert "No difference" in same.verdict


def test_a_saved_report_of_a_run_is_as_good_as_its_folder(tmp_path: Path) -> None:
    one, other = (run_of(tmp_path / name, f * steps(300, s, spikes=0)) for name, f, s in (("a", 1, 1), ("b", 1.1, 2)))
    saved = tmp_path / "saved.json"
    saved.write_text(encode(gpuwhy.explain(str(other))))
    assert compared(str(one), str(saved)).typical == compared(str(one), str(other)).typical


@needs_shared
@pytest.mark.parametrize(
    ("case", "shrinks", "grows"),
    [
        ("loader_cpu", "idle/input", None),
        ("unfused_elementwise", "busy/elementwise", "busy/fused"),
        ("empty_cache", "idle/allocator", None),
        ("checkpoint_each_step", "idle/outside_operators", None),
        ("fp32_matmul", "busy/matmul", None),
        ("naive_attention", "busy/softmax", "busy/attention"),
        ("launch_bound_decode", "idle/dispatch", None),
        ("loop_optimizer", "idle/launch", None),
    ],
)
def test_what_a_mend_did_is_named(case: str, shrinks: str, grows: str | None) -> None:
    found = compared(str(ZOO / f"{case}.base.json.gz"), str(ZOO / f"{case}.fixed.json.gz"))
    truth = next(row for row in json.loads((SHARED / "zoo/truth.json").read_text()) if row["name"] == case)
    change = {row.account: row.after_ns - row.before_ns for row in found.accounts}
    family = {
        name: sum(ns for a, ns in change.items() if a.startswith(name)) for name in filter(None, (shrinks, grows))
    }
    assert family[shrinks] < 0
    largest = [row.account for row in found.accounts[:4]]
    assert any(account.startswith(shrinks) for account in largest)
    if grows is not None:
        assert family[grows] > 0
    assert found.typical is not None
    assert found.typical.ratio.mid < 1
    assert truth["after_over_before"] < 1
    assert found.before.cause == truth["cause"]
    assert f"First finding before: {truth['cause']};" in found.verdict or f"of both: {truth['cause']}." in found.verdict
    assert found.typical.differs is None  # five steps a side
    assert "nobody can tell" in found.verdict


@needs_shared
@pytest.mark.parametrize(
    "case", ["item_every_step", "naive_attention", "odd_vocab", "pageable_copy", "batch_too_small"]
)
def test_what_is_called_most_of_the_change_moves_as_the_step_does(case: str) -> None:
    found = compared(str(ZOO / f"{case}.base.json.gz"), str(ZOO / f"{case}.fixed.json.gz"))
    whole = sum(row.after_ns - row.before_ns for row in found.accounts)
    _, _, said = found.verdict.partition("Most of the change, a ")
    named = [row for row in found.accounts if f"{row.account} " in said]
    assert len(named) in (1, 2)
    assert all((row.after_ns - row.before_ns) * whole > 0 for row in named)


@needs_shared
def test_a_median_and_a_mean_that_go_apart_are_said_to() -> None:
    """After the mend one step of 41 ms among four of 12 to 17: the accounts, which are means, grow."""
    found = compared(str(ZOO / "loader_few_workers.base.json.gz"), str(ZOO / "loader_few_workers.fixed.json.gz"))
    assert found.typical is not None
    assert found.average is not None
    assert found.typical.ratio.mid < 0.8
    assert found.average.ratio.mid > 1
    assert "On average it went the other way" in found.verdict
    assert "Most of the change" not in found.verdict


@needs_shared
@pytest.mark.parametrize("case", ["loader_few_workers", "naive_attention", "checkpoint_each_step"])
def test_host_bound_profiles_come_with_what_steps_take_without_the_profiler(case: str) -> None:
    found = compared(str(ZOO / f"{case}.base.json.gz"), str(ZOO / f"{case}.fixed.json.gz"))
    truth = next(row for row in json.loads((SHARED / "zoo/truth.json").read_text()) if row["name"] == case)
    (note,) = [note for note in found.notes if "the profiler makes the host slower" in note]
    expected = float(note.rpartition("× ")[2].rstrip(")"))
    assert expected == pytest.approx(truth["after_over_before"], rel=0.2)


@needs_shared
def test_profiles_of_a_busy_device_come_without_that_note() -> None:
    found = compared(str(ZOO / "fp32_matmul.base.json.gz"), str(ZOO / "fp32_matmul.fixed.json.gz"))
    assert not [note for note in found.notes if "the profiler makes" in note]


@needs_shared
def test_accounts_sum_to_the_steps_of_both_sides() -> None:
    found = compared(str(ZOO / "unfused_elementwise.base.json.gz"), str(ZOO / "unfused_elementwise.fixed.json.gz"))
    for side, of in ((found.before, "before_ns"), (found.after, "after_ns")):
        assert sum(getattr(row, of) for row in found.accounts) == pytest.approx(side.mean_ns)
    assert msgspec.json.decode(encode(found), type=Comparison) == found
    kinds = {row.name: row.change for row in found.kernels}
    assert kinds["triton_poi_fused_add_mul_tanh_3"] == "appeared"
    assert any(name.endswith("‹tanh_kernel_cuda›") and change == "vanished" for name, change in kinds.items())


def test_a_profile_against_itself_has_no_changes() -> None:
    found = compared(str(DEMO), str(DEMO))
    assert {row.after_ns - row.before_ns for row in found.accounts} == {0.0}
    assert found.kernels == []
    assert found.typical is not None
    assert found.typical.ratio.mid == 1.0


def test_times_a_sample_are_compared_where_both_say_how_many() -> None:
    whole = compared(str(DEMO), str(DEMO), samples=(64, 128))
    assert whole.unit == "sample"
    assert whole.typical is not None
    assert whole.typical.ratio.mid == pytest.approx(0.5)
    assert whole.accounts[0].after_ns == pytest.approx(whole.accounts[0].before_ns / 2)


def test_kernels_of_a_saved_report_are_not_said_to_be_gone(tmp_path: Path) -> None:
    saved = tmp_path / "report.json"
    saved.write_text(encode(gpuwhy.explain(str(DEMO), top=1)))
    found = compared(str(DEMO), str(saved))
    assert not found.all_kernels
    assert {row.change for row in found.kernels}.isdisjoint({"appeared", "vanished"})
    assert any("saved report" in note for note in found.notes)


def test_a_side_without_a_ledger_is_not_taken_to_have_spent_nothing(tmp_path: Path) -> None:
    run = run_of(tmp_path / "a", steps(300, 1))
    found = compared(str(run), str(DEMO), [parse("idle/input > +1ms")])
    assert (found.accounts, found.kernels) == ([], [])
    assert any("no ledger" in note for note in found.notes)
    assert found.gates[0].outcome == CANNOT_TELL


def test_less_than_half_a_percent_is_no_difference(tmp_path: Path) -> None:
    one, other = (run_of(tmp_path / n, f * steps(300, 1, noise=1e-4, spikes=0)) for n, f in (("a", 1), ("b", 1.003)))
    found = compared(str(one), str(other))
    assert found.typical is not None
    assert found.typical.ratio.low > 1
    assert found.typical.differs is False


# --- gates


@pytest.mark.parametrize(
    ("condition", "factor", "outcome"),
    [
        ("step_time > +5%", 1.2, HOLDS),
        ("step_time > +5%", 1.0, HOLDS_NOT),
        ("step_time > +5%", 1.05, CANNOT_TELL),
        ("step_time < -5%", 0.8, HOLDS),
        ("step_time < −5%", 1.0, HOLDS_NOT),
        ("mean_step_time > +1ms", 1.2, HOLDS),
        ("mean_step_time > +3ms", 1.2, HOLDS_NOT),
        ("step_time > 100us", 1.2, HOLDS),
        ("throughput < -10%", 1.2, HOLDS),
        ("throughput < -10%", 1.0, HOLDS_NOT),
        ("throughput > +20%", 0.8, HOLDS),
    ],
)
def test_a_gate_holds_when_its_whole_interval_does(condition: str, factor: float, outcome: str, tmp_path: Path) -> None:
    one = run_of(tmp_path / "a", steps(300, 1, spikes=0))
    other = run_of(tmp_path / "b", factor * steps(300, 2, spikes=0))
    (gate,) = compared(str(one), str(other), [parse(condition)]).gates
    assert gate.outcome == outcome


@pytest.mark.parametrize(
    "text", ["", "step_time", "step_time > 5", "speed > 5%", "step_time >= 5%", "throughput < 3ms"]
)
def test_what_is_no_condition_is_refused(text: str) -> None:
    with pytest.raises(GpuwhyError, match="fail-if"):
        parse(text)


def gpuwhy_command(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "gpuwhy", "compare", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_exit_codes_and_formats(tmp_path: Path) -> None:
    one = str(run_of(tmp_path / "a", steps(300, 1, spikes=0)))
    slow = str(run_of(tmp_path / "b", 1.2 * steps(300, 2, spikes=0)))
    few = str(run_of(tmp_path / "c", steps(12, 2, spikes=0)))
    assert gpuwhy_command(one, slow).returncode == 0
    assert gpuwhy_command(one, one, "--fail-if", "step_time > +5%").returncode == 0
    assert gpuwhy_command(one, few, "--fail-if", "step_time > +5%").returncode == 3
    regressed = gpuwhy_command(one, slow, "--fail-if", "step_time > +5%", "--fail-if", "idle/input > +1ms")
    assert (regressed.returncode, "holds: step_time > +5%" in regressed.stdout) == (1, True)
    assert "cannot tell: idle/input > +1ms" in regressed.stdout
    told = gpuwhy_command(one, slow, "--json", "--fail-if", "step_time > +5%")
    assert msgspec.json.decode(told.stdout, type=Comparison).gates[0].outcome == HOLDS
    wrong = gpuwhy_command(one, slow, "--fail-if", "nonsense")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    missing = gpuwhy_command(one, str(tmp_path / "none"))
    assert (missing.returncode, "no such file" in missing.stderr) == (2, True)
    assert gpuwhy_command(one, slow, "--samples", "0").returncode == 2


def test_what_is_no_report_is_refused_as_what_it_is(tmp_path: Path) -> None:
    other = tmp_path / "other.json"
    other.write_text('{"schema": 7, "verdict": 5}')
    with pytest.raises(GpuwhyError, match="not a report of this version"):
        compared(str(DEMO), str(other))
    other.write_text('{"a": 1}')
    with pytest.raises(GpuwhyError, match="traceEvents"):
        compared(str(DEMO), str(other))


def test_the_schema_in_the_docs_is_that_of_a_comparison() -> None:
    assert (ROOT / "docs/comparison.schema.json").read_text() == schema_text("comparison")


# --- what a side withholds


def withholding(folder: Path, name: str, **changes: object) -> str:
    """A saved report of the demo that says less."""
    report = msgspec.structs.replace(gpuwhy.explain(str(DEMO)), **changes)
    (folder / name).write_text(encode(report))
    return str(folder / name)


@pytest.mark.parametrize("condition", ["busy/matmul > +1%", "idle/dispatch < -1ms", "idle > +1ms"])
def test_a_gate_judges_no_account_of_a_ledger_that_is_not_to_be_trusted(condition: str, tmp_path: Path) -> None:
    after = withholding(tmp_path, "after.json", withheld=[Withheld(what="ledger", why="events are missing")])
    (gate,) = compared(str(DEMO), after, [parse(condition)]).gates
    assert gate.outcome == CANNOT_TELL
    assert "not to be trusted" in (gate.why or "")


def test_a_gate_judges_no_cause_of_idle_time_where_a_side_withholds_them(tmp_path: Path) -> None:
    after = withholding(tmp_path, "after.json", withheld=[Withheld(what="idle causes", why="few launches are there")])
    found = compared(str(DEMO), after, [parse("idle/dispatch < -1ms"), parse("idle > +1ms")])
    one, whole = found.gates
    assert (one.outcome, whole.outcome != HOLDS) == (CANNOT_TELL, True)
    assert "few launches are there" in (one.why or "")
    assert "few launches" not in (whole.why or "")


def test_kernels_of_a_saved_report_that_share_a_short_name_are_added(tmp_path: Path) -> None:
    from gpuwhy.compare.sides import side
    from gpuwhy.ledger.accounts import within
    from gpuwhy.reports.words import kernel_name

    report = gpuwhy.explain(str(DEMO))
    saved = side(withholding(tmp_path, "one.json"))
    steps = sum(not step.startup for step in report.devices[0].steps)
    weights = [weight for weight in report.devices[0].weights if within(weight.account, "busy")]
    assert len({(kernel_name(weight.name), weight.account) for weight in weights}) <= len(weights)
    assert sum(kernel.ns for kernel in saved.kernels.values()) * steps == pytest.approx(
        sum(weight.ns for weight in weights)
    )
