"""Where steps come from when nobody marked them, and what is not taken for a step."""

from __future__ import annotations

from pathlib import Path

import pytest
from events import Profile

import gpuwhy
from gpuwhy.steps import Selection, Steps, Window, device_steps, window
from gpuwhy.timeline import Timeline

ADAM, SGD = "Optimizer.step#Adam.step", "Optimizer.step#SGD.step"


def load(profile: Profile, folder: Path) -> Timeline:
    return gpuwhy.load(str(profile.write(folder / "profile.json")))


def steps(profile: Profile, folder: Path) -> Steps | None:
    return device_steps(load(profile, folder), 0)


def judged(profile: Profile, folder: Path) -> Window:
    found = window(load(profile, folder), 0, Selection())
    assert found is not None
    return found


# --- marks of the optimizer ---------------------------------------------------------------------------------


def trained(count: int, optimizer: str = ADAM) -> Profile:
    """Step i = [1000 i, 1000 i + 1000): a launch at 100, its kernel [200, 900), the optimizer's step [800, 900)."""
    p = Profile()
    for i in range(count):
        t = 1000 * i
        p.launch(t + 100, t + 110, t + 200, t + 900, name="forward")
        p.annotation(optimizer, t + 800, t + 900)
        p.launch(t + 820, t + 830, t + 900, t + 1000, name="update")
    return p


def test_steps_end_with_the_optimizer(tmp_path: Path) -> None:
    found = judged(trained(6), tmp_path)
    # The origin is the first launch, at 100. Step i begins with its forward kernel, at 1000 i + 200.
    assert found.how == "Optimizer.step"
    assert found.steps is not None
    assert found.steps.edge.tolist() == [100, 1100, 2100, 3100, 4100, 5100]
    assert found.steps.number.tolist() == [1, 2, 3, 4, 5]
    assert found.left_out == 6


def test_what_is_launched_after_the_last_optimizer_step_belongs_to_none(tmp_path: Path) -> None:
    p = trained(3)
    p.launch(2_950, 2_960, 3_000, 9_000, name="checkpoint")
    found = steps(p, tmp_path)
    assert found is not None
    assert found.edge.tolist() == [100, 1100, 2100, 2900]  # the last one ends with its own last kernel


def test_of_several_optimizers_the_rarest_tells(tmp_path: Path) -> None:
    p = trained(8, SGD)
    for i in (1, 3, 5, 7):
        p.annotation(ADAM, 1000 * i + 910, 1000 * i + 990)
    found = steps(p, tmp_path)
    assert found is not None
    assert found.edge.tolist() == [100, 2100, 4100, 6100, 7900]


def test_the_profilers_own_marks_come_first(tmp_path: Path) -> None:
    p = trained(6)
    for i in range(3):
        p.step(40 + i, 2000 * i, 2000 * i + 1999)
    found = steps(p, tmp_path)
    assert found is not None
    assert (found.how, found.number.tolist()) == ("ProfilerStep", [40, 41, 42])


# --- repetition ---------------------------------------------------------------------------------------------


def sequence(*names: str, length: int = 90) -> Profile:
    """Kernels one each 100 ns, launched one after the other."""
    p = Profile()
    for i, name in enumerate(names):
        p.launch(100 * i, 100 * i + 10, 100 * i + 10, 100 * i + 10 + length, name=name)
    return p


def repeated(*body: str, times: int) -> list[str]:
    return [*body] * times


def test_steps_from_repetition(tmp_path: Path) -> None:
    found = steps(sequence(*repeated("a", "b", "c", times=5)), tmp_path)
    assert found is not None
    assert (found.how, found.recorded, found.open_ended) == ("repetition", 5, True)
    assert found.edge.tolist() == [10, 310, 610, 910, 1210, 1500]


def test_a_start_that_does_not_repeat(tmp_path: Path) -> None:
    found = steps(sequence("init", "seed", *repeated("a", "b", "c", times=4)), tmp_path)
    assert found is not None
    assert found.edge.tolist() == [210, 510, 810, 1110, 1400]


def test_a_last_step_that_was_cut(tmp_path: Path) -> None:
    found = steps(sequence(*repeated("a", "b", "c", times=5), "a"), tmp_path)
    assert found is not None
    assert len(found) in (5, 6)
    assert set(found.length[:4].tolist()) == {300}


@pytest.mark.parametrize("times", [1, 2, 3])
def test_too_few_repetitions(tmp_path: Path, times: int) -> None:
    assert steps(sequence(*repeated("a", "b", "c", times=times)), tmp_path) is None


@pytest.mark.parametrize("layers", [4, 12, 48])
@pytest.mark.parametrize("passes", [4, 9])
def test_layers_within_steps_are_not_the_steps(tmp_path: Path, layers: int, passes: int) -> None:
    body = ["embed", *repeated("norm", "attend", "mlp", times=layers), "head", "loss"]
    found = steps(sequence(*repeated(*body, times=passes)), tmp_path)
    assert found is not None
    assert len(found) == passes
    assert set(found.length[:-1].tolist()) == {100 * (3 * layers + 3)}


@pytest.mark.parametrize("layers", [4, 12, 48])
@pytest.mark.parametrize("passes", [1, 2, 3])
@pytest.mark.parametrize("tail", [["head"], ["norm", "head"], ["norm", "head", "loss"]])
def test_layers_of_few_passes_are_no_steps(tmp_path: Path, layers: int, passes: int, tail: list[str]) -> None:
    """A single forward pass repeats its layers; the head behind them tells that they are no steps."""
    body = ["embed", *repeated("norm", "attend", "mlp", times=layers), *tail]
    assert steps(sequence(*repeated(*body, times=passes)), tmp_path) is None


def test_a_short_loop_within_a_program_is_no_step(tmp_path: Path) -> None:
    p = sequence(*repeated("a", "b", times=50))  # 10,000 ns, at the end of the program
    p.launch(-20_000, -19_990, -19_980, -1_000, name="solve")
    assert steps(p, tmp_path) is None
    p = sequence(*repeated("a", "b", times=50), "solve", "gather")  # nor one that others follow
    assert steps(p, tmp_path) is None


def test_irregular_work_has_no_steps(tmp_path: Path) -> None:
    names = ["a" if i % 3 else f"b{(i * 7) % 5}" for i in range(60)]
    assert steps(sequence(*names, "end"), tmp_path) is None
