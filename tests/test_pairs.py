"""Two programs in turns: real processes, whose steps are known to be alike, or to differ."""

from __future__ import annotations

import os
import sys
import textwrap
from pathlib import Path

import pytest

from gpuwhy.errors import GpuwhyError
from gpuwhy.experiments.blocks import PIPES, seconds_of, serve
from gpuwhy.experiments.pairs import Comparison, Plan, Round, compare, judge

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="pipes are handed on as on POSIX systems")

PROGRAM = """
import sys, time
from gpuwhy.experiments.blocks import serve
if sys.argv[2] == "at once":
    sys.exit(3)
count = 0
def step():
    global count
    count += 1
    if sys.argv[2] == "later" and count == 3:
        sys.exit(4)
    time.sleep(float(sys.argv[1]))
print("its own output")
serve(step)
print("done after", count)
"""
QUICK = Plan(rounds=25, same=0.2, block_s=0.02, warm_s=0.02, start_s=30)


@pytest.fixture
def program(tmp_path: Path) -> list[str]:
    path = tmp_path / "program.py"
    path.write_text(textwrap.dedent(PROGRAM))
    return [sys.executable, str(path)]


def test_a_program_that_sleeps_half_as_long_again_is_slower(
    program: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    seen: list[Comparison] = []
    found = compare([*program, "0.004", ""], [*program, "0.006", ""], QUICK, seen.append)
    assert found.answer == "differ"
    assert 1.2 < found.ratio.low <= found.ratio.mid <= found.ratio.high < 2
    assert len(seen) == len(found.rounds) <= 25
    assert seen[0].answer == "cannot tell"
    assert 0.004 <= found.step_s < 0.006
    assert capfd.readouterr().out.count("done after") == 2  # both were asked to end, and did


def test_programs_that_sleep_alike_do_not_differ(program: list[str]) -> None:
    found = compare([*program, "0.004", ""], [*program, "0.004", ""], Plan(rounds=30, same=0.3, block_s=0.02, warm_s=0))
    assert found.answer == "same"


@pytest.mark.parametrize(("when", "status"), [("at once", 3), ("later", 4)])
def test_a_program_that_ends_is_named_with_its_status(program: list[str], when: str, status: int) -> None:
    with pytest.raises(GpuwhyError, match=f"ended with status {status}"):
        compare([*program, "0.001", ""], [*program, "0.001", when], QUICK)


def test_a_program_that_is_not_there_is_named() -> None:
    with pytest.raises(GpuwhyError, match=r"no-such-program.* cannot be started: .*No such file"):
        compare(["no-such-program"], ["no-such-program"], QUICK)


def test_a_program_that_does_not_answer_is_given_up() -> None:
    sleeps = [sys.executable, "-c", "import time; time.sleep(60)"]
    with pytest.raises(GpuwhyError, match=r"no answer in 0\.2 s"):
        compare(sleeps, sleeps, Plan(start_s=0.2))


def test_a_program_that_is_started_by_anyone_else_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(PIPES, raising=False)
    with pytest.raises(RuntimeError, match=r"pairs\.compare"):
        serve(lambda: None)


def test_no_pipe_is_left_open(program: list[str]) -> None:
    before = len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").is_dir() else 0
    compare([*program, "0.001", ""], [*program, "0.001", ""], Plan(rounds=1, block_s=0.002, warm_s=0))
    after = len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").is_dir() else 0
    assert after == before


def test_what_drifts_evenly_over_a_round_falls_out_of_it() -> None:
    """Each block is 10 % longer than the one before, and B takes 1.5 times as long as A."""
    drift = [1.1**place for place in range(4)]
    assert Round((drift[0], 1.5 * drift[1], 1.5 * drift[2], drift[3])).ratio == pytest.approx(1.5)


def test_the_answer_is_same_only_where_the_whole_interval_is_near_enough() -> None:
    rounds = [Round((1.0, 1.0 + i / 1e4, 1.0, 1.0)) for i in range(-20, 20)]
    assert judge(rounds, 1, Plan(same=0.01)).answer == "same"
    assert judge(rounds, 1, Plan(same=1e-5)).answer == "cannot tell"
    assert judge(rounds[:4], 1, Plan(same=0.01)).answer == "cannot tell"


def test_without_torch_a_block_is_timed_by_the_hosts_clock() -> None:
    taken = []
    assert seconds_of(lambda: taken.append(1), 5) >= 0
    assert len(taken) == 5


ANSWERS = """
import os, sys, time
asked, answers = map(int, os.environ["GPUWHY_BLOCKS"].split(","))
os.write(answers, eval(sys.argv[1]))
while os.read(asked, 99):
    os.write(answers, eval(sys.argv[2]))
    if sys.argv[3]:
        os.close(answers)
        time.sleep(60)
"""


@pytest.mark.parametrize(
    ("first", "then", "closes", "told"),
    [
        ("b'hello\\n'", "b''", "", "said 'hello' where 'ready' was expected"),
        ("b'ready\\n'", "b'nan\\n'", "", "answered 'nan', which is no time"),
        ("b'ready\\n'", "b'inf\\n'", "", "answered 'inf'"),
        ("b'ready\\n'", "b'0.0\\n'", "", "answered '0.0'"),
        ("b'ready\\n'", "b'1.0\\n2.0\\n'", "", "which is no time"),
        ("b'ready\\n'", "b'\\xff\\xfe\\n'", "", "which is no time"),
        ("b'ready\\n'", "b'1' * 9999", "", "no answer"),
        ("b'ready\\n'", "b'1'", "", "no answer in 2 s"),
        ("b'ready\\n'", "b'1'", "closes", "closed its pipe"),
    ],
)
def test_a_program_that_misbehaves_is_named_and_ended(
    program: list[str], first: str, then: str, closes: str, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpuwhy.experiments.pairs.ENDING_S", 0.5)
    other = [sys.executable, "-c", ANSWERS, first, then, closes]
    with pytest.raises(GpuwhyError, match=told):
        compare([*program, "0.001", ""], other, Plan(rounds=1, block_s=0.002, warm_s=0, start_s=2))


@pytest.mark.parametrize("command", [[], ["a\0b"]])
def test_what_is_no_command_is_named(command: list[str]) -> None:
    with pytest.raises(GpuwhyError, match="cannot be started"):
        compare(command, command, QUICK)
