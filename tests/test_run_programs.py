"""Real programs (tests/programs/), with `gpuwhy run` and without: what they do is the same, and the report is right.

What a report must say was counted by hand: the numbers of steps and samples stand in the programs. Steps run from one
step of the optimizer (batch, call) to the next, so that there is one less than there were of these. Programs of torch
are skipped where it is not installed, and so are those of the libraries on top of it.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import pytest

PROGRAMS = Path(__file__).parent / "programs"
LONGEST_S = 240
OF_KINETO = re.compile(rb"^USDT:.*\n", re.MULTILINE)
"""Lines with a time and a process in them, which some versions of torch write when a profiler starts."""


def needing(name: str) -> pytest.MarkDecorator:
    """A test that is skipped where a module is not installed."""
    return pytest.mark.skipif(find_spec(name) is None, reason=f"{name} is not installed")


needs_torch = needing("torch")


class Ran(NamedTuple):
    """What a program did."""

    out: bytes
    err: bytes
    status: int
    files: dict[str, bytes]


class Running:
    """A program of tests/programs/, or a command, in a folder of its own; with options, watched."""

    def __init__(
        self,
        place: Path,
        command: Sequence[str],
        options: Sequence[str] | None = None,
        stdin: bytes = b"",
        variables: Mapping[str, str] | None = None,
    ) -> None:
        watched = options is not None
        self.place = place / ("watched" if watched else "plain")
        self.work = self.place / "work"
        self.work.mkdir(parents=True)
        self.report = self.place / "report.json"
        words = [str(PROGRAMS / command[0]), *command[1:]] if command[0].endswith(".py") else list(command)
        if watched:
            kept = ["--json", "-o", str(self.report), "--folder", str(self.place / "runs")]
            words = ["-m", "gpuwhy", "run", *kept, *(options or ()), *words]
        usual = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        own = {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "HF_HUB_OFFLINE": "1", **(variables or {})}
        is_python = watched or words[0].endswith(".py") or words[0] == "-m"
        self.process = subprocess.Popen(
            [sys.executable, *words] if is_python else words,
            cwd=self.work,
            env={**usual, **own},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        self.stdin = stdin

    def end(self) -> Ran:
        """Wait for its end."""
        try:
            out, err = self.process.communicate(self.stdin, timeout=LONGEST_S)
        finally:
            if self.process.poll() is None:
                os.killpg(self.process.pid, signal.SIGKILL)
        files = {
            path.relative_to(self.work).as_posix(): path.read_bytes()
            for path in sorted(self.work.rglob("*"))
            if path.is_file()
        }
        return Ran(out, OF_KINETO.sub(b"", err), self.process.returncode, files)

    def told(self) -> dict[str, Any]:
        """The report."""
        report: dict[str, Any] = json.loads(self.report.read_bytes())
        run = report["run"]
        assert sum(phase["ns"] for phase in run["ledger"]) == run["wall_ns"]
        return report


def watch(place: Path, *command: str, options: Sequence[str] = (), **more: Any) -> tuple[Ran, dict[str, Any]]:
    """Run a program watched."""
    running = Running(place, command, options, **more)
    ran = running.end()
    return ran, running.told()["run"]


def compare(place: Path, *command: str, options: Sequence[str] = (), **more: Any) -> tuple[Ran, dict[str, Any]]:
    """Run a program both ways, at once, and see that it does the same."""
    plain = Running(place, command, None, **more)
    watched = Running(place, command, options, **more)
    expected, ran = plain.end(), watched.end()
    assert ran.out == expected.out
    assert ran.err == expected.err
    assert ran.status == expected.status
    assert sorted(ran.files) == sorted(expected.files)
    for name, content in ran.files.items():
        assert content == expected.files[name], name
    return ran, watched.told()["run"]


def check(run: dict[str, Any], steps_by: str, steps: int, samples: float | None) -> None:
    """What is said of the steps."""
    throughput = run["throughput"]
    assert (throughput["steps_by"], throughput["steps"]) == (steps_by, steps)
    if samples is not None:
        assert throughput["samples_per_step"] == samples


def count(run: dict[str, Any], account: str) -> int:
    """How often there was something."""
    return next((int(phase["count"]) for phase in run["ledger"] if phase["account"] == account), 0)


# --- Without torch --------------------------------------------------------------------------------------------


def write(place: Path, name: str, text: str) -> str:
    path = place / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return str(path)


def test_a_program_without_torch_is_left_as_it_is(tmp_path: Path) -> None:
    script = write(
        tmp_path,
        "plain.py",
        "import os, random, sys, threading\n"
        "print(sys.argv, sys.stdin.read(), sys.path, sys.flags, threading.active_count())\n"
        "print('sitecustomize' in sys.modules, os.open(os.devnull, os.O_RDONLY), random.Random(1).random())\n"
        "sys.exit(5)\n",
    )
    ran, run = compare(tmp_path, script, "--flag", "value", stdin=b"some\ninput")
    assert ran.status == 5
    assert (run["ended"], run["exit_status"], run["throughput"]) == ("failed", 5, None)


SHOWN = "import sitecustomize\nprint(sitecustomize.MARK, sitecustomize.__file__)\n"


def test_the_sitecustomize_of_the_program_is_imported(tmp_path: Path) -> None:
    write(tmp_path, "own/sitecustomize.py", "MARK = 'mine'\n")
    compare(tmp_path, write(tmp_path, "shown.py", SHOWN), variables={"PYTHONPATH": str(tmp_path / "own")})


def test_where_there_is_none_none_is_found(tmp_path: Path) -> None:
    script = write(
        tmp_path, "shown.py", "try:\n    import sitecustomize\nexcept ImportError as error:\n    print(error)\n"
    )
    ran, _ = compare(tmp_path, script)
    assert ran.out in {b"No module named 'sitecustomize'\n", b""}  # some systems have one


def test_one_that_fails_fails_as_ever(tmp_path: Path) -> None:
    """Of gpuwhy's own Python, too, which the environment is as well."""
    write(tmp_path, "own/sitecustomize.py", "raise ValueError('mine')\n")
    script = write(tmp_path, "plain.py", "print('there')\n")
    variables = {"PYTHONPATH": str(tmp_path / "own")}
    plain, watched = (Running(tmp_path, [script], options, variables=variables) for options in (None, ()))
    expected, ran = plain.end(), watched.end()
    assert ran.out == expected.out == b"there\n"
    assert ran.err == 2 * expected.err


def test_modules_and_commands_are_run(tmp_path: Path) -> None:
    write(tmp_path, "own/package/__init__.py", "")
    write(tmp_path, "own/package/main.py", "import sys\nprint(__name__, sys.argv[1:], sys.path[1:])\nsys.exit(7)\n")
    variables = {"PYTHONPATH": str(tmp_path / "own")}
    ran, _ = compare(tmp_path / "module", "-m", "package.main", "x", variables=variables)
    assert ran.status == 7
    line = f"echo one; {sys.executable} -m package.main -y | tr a-z A-Z; exit 9"
    plain = Running(tmp_path / "command", ["bash", "-c", line], variables=variables).end()
    watched = Running(tmp_path / "command", ["--", "bash", "-c", line], (), variables=variables)
    assert watched.end() == plain
    assert watched.told()["run"]["exit_status"] == plain.status == 9


ALARMS = """\
import gc, signal, time

class Alarm(Exception):
    pass

def alarmed(*_):
    raise Alarm

signal.signal(signal.SIGALRM, alarmed)
many = [[number] for number in range(200_000)]
lost = 0
for _ in range(20):
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.02)
        begun = time.monotonic()
        while time.monotonic() - begun < 0.5:
            gc.collect()
        lost += 1
    except Alarm:
        pass
print("lost", lost)
"""


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="this system has no alarms")
def test_what_a_signal_handler_raises_during_a_collection_is_not_lost(tmp_path: Path) -> None:
    ran, _ = compare(tmp_path, write(tmp_path, "alarms.py", ALARMS))
    assert ran.out == b"lost 0\n"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_fork_is_as_quiet_as_ever(tmp_path: Path) -> None:
    """Python 3.12 and later warn of a fork where there are other threads."""
    text = "import os, sys\nif os.fork():\n    print(os.wait()[1])\nelse:\n    sys.exit(3)\n"
    ran, _ = compare(tmp_path, write(tmp_path, "forks.py", text), variables={"PYTHONWARNINGS": "always"})
    assert ran.out == b"768\n"


def test_options_after_a_module_are_the_modules(tmp_path: Path) -> None:
    write(tmp_path, "own/package/__init__.py", "")
    write(tmp_path, "own/package/main.py", "import sys\nprint(sys.argv[1:])\n")
    ran, _ = compare(tmp_path, "-m", "package.main", "-q", "--lr", "3", variables={"PYTHONPATH": str(tmp_path / "own")})
    assert ran.out == b"['-q', '--lr', '3']\n"


# --- Training -------------------------------------------------------------------------------------------------


@needs_torch
def test_a_training_with_evaluations_and_checkpoints(tmp_path: Path) -> None:
    ran, run = compare(tmp_path, "training.py", "evaluated")
    assert sorted(ran.files) == ["epoch0.pt", "epoch1.pt", "epoch2.pt"]
    check(run, "optimizer", 3 * 50 - 1, 8)
    assert 0 < run["throughput"]["input_wait"] < 1
    assert count(run, "evaluation") == 3
    assert count(run, "checkpoint") == 3
    assert (run["ended"], run["exit_status"], run["processes"][0]["notes"]) == ("ended", 0, [])


LOOPS = {
    "accumulated": (60 - 1, 4 * 5, True),
    "accumulated_without_loader": (60 - 1, 4 * 5, False),
    "adversarial": (80 - 1, 6, True),
    "one_after_the_other": (2 * 50 - 1, 16, False),
}


@pytest.mark.parametrize("name", LOOPS)
@needs_torch
def test_a_step_is_one_of_the_optimizer(name: str, tmp_path: Path) -> None:
    steps, samples, loads = LOOPS[name]
    ran, run = watch(tmp_path, "training.py", name)
    assert (ran.status, ran.err) == (0, b"")
    check(run, "optimizer", steps, samples)
    assert (run["throughput"]["input_wait"] is not None) == loads


@needs_torch
def test_a_loop_over_a_loader_has_a_step_for_each_batch(tmp_path: Path) -> None:
    """Workers, which call a model for each item, are no processes with steps; nor has the end of an epoch one."""
    _, run = compare(tmp_path, "inference.py", "epochs")
    check(run, "loader", 3 * 50 - 1, 7)
    assert [process["rank"] for process in run["processes"]] == [None]


@needs_torch
def test_calls_from_threads_are_all_counted(tmp_path: Path) -> None:
    ran, run = watch(tmp_path, "inference.py", "threads")
    assert (ran.status, ran.err) == (0, b"")
    check(run, "forward", 4 * 200 - 1, 8)


@pytest.mark.parametrize("part", ["processes", "profiles"])
@needs_torch
def test_a_program_outlives_the_folder_of_its_run(part: str, tmp_path: Path) -> None:
    ran, _ = watch(tmp_path, "spoiling.py", part, options=["--at-step", "10"])
    assert (ran.out, ran.err, ran.status) == (b"done\n", b"", 0)


@needs_torch
def test_a_program_ends_as_it_would_though_its_run_has_no_folder_any_more(tmp_path: Path) -> None:
    ran = Running(tmp_path, ["spoiling.py", ""], ()).end()
    assert (ran.out, ran.status) == (b"done\n", 0)


# --- Ends -----------------------------------------------------------------------------------------------------


@needs_torch
def test_tracebacks_and_warnings_are_the_same(tmp_path: Path) -> None:
    ran, run = compare(tmp_path, "errors.py")
    assert b"gpuwhy" not in ran.err
    for told in (b"broken item", b"failing model", b"not to be saved", b"closure", b"use_cuda", b"ZeroDivisionError"):
        assert told in ran.err
    assert (run["ended"], run["exit_status"]) == ("failed", 1)
    assert run["processes"][0]["notes"] == ["no profile was recorded: the program has a profiler of its own"]


@needs_torch
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_files_forks_and_a_sudden_end_are_the_same(tmp_path: Path) -> None:
    ran, run = compare(tmp_path, "processes.py", stdin=b"some\ninput")
    assert ran.files == {"first.txt": b"of the childof the parent", "second.txt": b"the second"}
    assert (ran.status, run["ended"], run["exit_status"]) == (3, "failed", 3)
    check(run, "optimizer", 30 + 60 + 20 + 1 - 1, 16)


@needs_torch
@pytest.mark.skipif(not hasattr(signal, "sigtimedwait"), reason="signals are not passed on here")
def test_signals_reach_the_program_and_a_kill_is_passed_back(tmp_path: Path) -> None:
    running = Running(tmp_path, ["signals.py"], ())
    out = running.process.stdout
    assert out is not None
    assert out.readline() == b"lost 0\n"
    assert out.readline() == b"ready\n"
    for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT, signal.SIGHUP):
        running.process.send_signal(number)
        time.sleep(0.3)
    ran = running.end()
    assert (ran.out, ran.err, ran.status) == (b"True\n", b"", -signal.SIGKILL)
    run = running.told()["run"]
    assert (run["ended"], run["signal"]) == ("killed", signal.SIGKILL)
    assert run["throughput"]["steps"] > 60 - 40  # 250 ms of steps of over 10 ms can be lost


# --- Other tools ----------------------------------------------------------------------------------------------

OF_THE_PROGRAM = "no profile was recorded: the program has a profiler of its own"
COUNTED = b"{'aten::addmm': 40, 'aten::relu': 20, 'Optimizer.step#SGD.step': 20}\n"
COUNTED_TOO = b"{'aten::addmm': 20, 'aten::relu': 10, 'Optimizer.step#SGD.step': 10}\n"


@needs_torch
def test_the_programs_own_profiler_goes_first(tmp_path: Path) -> None:
    """Its trace holds all of its 20 steps, with two products in each. (The trace itself has times in it.)"""
    running = [Running(tmp_path, ["profiled.py", "0"], options) for options in (None, ["--at-step", "10"])]
    plain, watched = (one.end() for one in running)
    assert watched[:3] == plain[:3]
    assert watched.out.startswith(COUNTED + COUNTED_TOO)
    run = running[1].told()["run"]
    check(run, "optimizer", 40 + 10 + 30 - 1, 16)
    assert run["processes"][0]["notes"] == [OF_THE_PROGRAM]
    assert run["processes"][0]["profiles"] == []


@needs_torch
def test_a_profiler_that_comes_later_is_complete_as_well(tmp_path: Path) -> None:
    ran, run = watch(tmp_path, "profiled.py", "60", options=["--at-step", "10", "--profile-steps", "4"])
    assert ran.out.startswith(COUNTED + COUNTED_TOO)
    assert ran.err.count(b"\n") <= 2  # torch's own, of cycles
    check(run, "optimizer", 60 + 40 + 10 + 30 - 1, 16)
    (process,) = run["processes"]
    assert process["notes"] == [OF_THE_PROGRAM]
    (profile,) = process["profiles"]
    assert list(Path(run["folder"]).glob(f"{profile}*"))
    assert run["throughput"]["profiled_steps"] == 2 + 4 + 1 + 2  # to warm up, asked for, the last, and saving


@needs_torch
def test_graphs_of_models_are_the_same(tmp_path: Path) -> None:
    variables = {"TORCH_LOGS": "-all"}  # its lines have times in them
    _, run = compare(tmp_path, "graphs.py", variables=variables)
    assert run["throughput"]["steps_by"] == "optimizer"
    assert count(run, "compile") >= 3


# --- Several processes ----------------------------------------------------------------------------------------


@needs_torch
def test_each_rank_is_watched(tmp_path: Path) -> None:
    started = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    ran, run = watch(tmp_path, "--", *started, str(PROGRAMS / "ranks.py"))
    assert ran.status == 0, ran.err
    check(run, "optimizer", 60 - 1, 8)
    assert [process["rank"] for process in run["processes"]] == [0, 1]
    throughput = run["throughput"]
    assert throughput["samples_per_s"] == pytest.approx(2 * 8 * throughput["steps_per_s"], rel=0.2)


@needs_torch
def test_processes_that_torch_spawns_are_watched(tmp_path: Path) -> None:
    ran, run = watch(tmp_path, "spawning.py")
    assert (ran.out, ran.err, ran.status) == (b"done\n", b"", 0)
    check(run, "forward", 60 - 1, 16)


# --- Libraries on top of torch --------------------------------------------------------------------------------


@needing("transformers")
@needing("accelerate")
def test_a_trainer_of_hugging_face(tmp_path: Path) -> None:
    running = [Running(tmp_path, ["hugging_face.py", "train"], options) for options in (None, ())]
    plain, watched = (one.end() for one in running)
    wanted = [line for line in plain.out.splitlines() if line.startswith((b"trained", b"random", b"numpy"))]
    assert [line for line in watched.out.splitlines() if line in wanted] == wanted
    assert (watched.err, watched.status) == (plain.err, plain.status)
    run = running[1].told()["run"]
    check(run, "optimizer", 50 - 1, None)
    assert count(run, "evaluation") == 3


@needing("transformers")
def test_tokens_that_a_language_model_generates(tmp_path: Path) -> None:
    """Four times 20 calls of the model, each of which makes a token for each of three texts."""
    ran, run = watch(tmp_path, "hugging_face.py", "generate")
    assert (ran.status, ran.err) == (0, b"")
    check(run, "generate", 4 * 20 - 1, None)
    throughput = run["throughput"]
    assert throughput["tokens_per_s"] == pytest.approx(3 * throughput["steps_per_s"], rel=0.1)


@needing("lightning")
def test_a_trainer_of_lightning(tmp_path: Path) -> None:
    """What is validated with is no sample of a step."""
    _, run = compare(tmp_path, "with_lightning.py")
    check(run, "optimizer", 2 * 50 - 1, 4)
    assert count(run, "evaluation") == 2


@needing("accelerate")
def test_a_loop_of_accelerate(tmp_path: Path) -> None:
    """It takes a batch ahead, so that the last step is seen to take one less."""
    _, run = compare(tmp_path, "accelerated.py")
    check(run, "optimizer", 50 - 1, None)
    assert run["throughput"]["samples_per_step"] == pytest.approx(8, rel=0.02)
