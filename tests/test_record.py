"""A run seen from outside: asked for another profile, explained again; and `gpuwhy.record()` within a program."""

from __future__ import annotations

import gzip
import json
import socket
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import gpuwhy
from gpuwhy.errors import GpuwhyError
from gpuwhy.notebook import load_ipython_extension, options

needs_torch = pytest.mark.skipif(find_spec("torch") is None, reason="needs torch: make test-torch")
LOOP = """
import sys, time, torch
model = torch.nn.Linear(64, 64)
optimizer = torch.optim.SGD(model.parameters(), 1e-3)
x = torch.randn(32, 64)

def train(steps, until=None):
    for step in range(steps):
        model(x).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        time.sleep(0.002)
"""
LONG = (
    LOOP + "\ntrain(100)\nprint('ready', flush=True)\nwhile not select.select([sys.stdin], [], [], 0)[0]: train(10)\n"
)
RECORDING = (
    LOOP
    + """
import gpuwhy, random
random.seed(1); torch.manual_seed(1)
for steps in (60, 45):
    with gpuwhy.record("runs", report=steps == 45) as folder:
        train(steps)
    print(folder)
print(random.random(), torch.rand(1).item(), len(__import__('threading').enumerate()))
"""
)


def gpuwhy_command(*arguments: str, **more: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "gpuwhy", *arguments]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=120, **more)


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str], subprocess.CompletedProcess[str]]:
    """The folder of a run that was asked for another profile, the new one, and what asking again said after its end."""
    home = tmp_path_factory.mktemp("asked")
    (home / "long.py").write_text("import select\n" + LONG)
    command = [sys.executable, "-m", "gpuwhy", "run", "-q", "--at-step", "15", "--folder", "runs", "long.py"]
    with subprocess.Popen(command, cwd=home, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == "ready\n"
        folder = next((home / "runs").glob("*/run.json")).parent
        told = gpuwhy_command("profile", str(folder), "--wait", "60")
        running.communicate("\n")
    assert (running.returncode, told.returncode, told.stderr) == (0, 0, "")
    return folder, told.stdout.split(), gpuwhy_command("profile", str(folder))


@needs_torch
def test_a_running_program_records_another_profile_when_asked(
    asked: tuple[Path, list[str], subprocess.CompletedProcess[str]],
) -> None:
    folder, new, _ = asked
    assert len(new) == 1
    kept = sorted(path.name for path in (folder / "profiles").iterdir())
    assert [name.partition(".")[2] for name in kept] == ["0.json.gz", "1.json.gz"]  # compressed at the end
    events = json.loads(gzip.decompress(Path(f"{new[0]}.gz").read_bytes()))["traceEvents"]
    marked = [event for event in events if str(event.get("name")).startswith("ProfilerStep#") and event["ph"] == "X"]
    assert len({event["name"] for event in marked}) == 7  # six, and one whose end is not judged


@needs_torch
def test_a_run_that_has_ended_cannot_be_asked(asked: tuple[Path, list[str], subprocess.CompletedProcess[str]]) -> None:
    _, _, again = asked
    assert again.returncode == 2
    assert "this run has ended" in again.stderr


@needs_torch
def test_a_run_is_explained_again_from_its_folder(
    asked: tuple[Path, list[str], subprocess.CompletedProcess[str]],
) -> None:
    folder, _, _ = asked
    report = gpuwhy.explain(str(folder))
    assert report.run is not None
    assert report.run.throughput is not None
    assert report.run.throughput.steps_by == "optimizer"
    assert sum(phase.ns for phase in report.run.ledger) == report.run.wall_ns
    assert "No GPU was used" in report.verdict.text
    assert "No GPU was used" in gpuwhy_command("explain", str(folder)).stdout.replace("\n", " ")


@needs_torch
def test_a_program_records_parts_of_itself(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(RECORDING)
    (tmp_path / "plain.py").write_text(
        RECORDING.replace("with gpuwhy.record(", "with nothing(").replace(
            "import gpuwhy, random",
            "import random, contextlib\nnothing = lambda *a, **k: contextlib.nullcontext('none')",
        )
    )
    done = [
        subprocess.run([sys.executable, name], check=False, capture_output=True, text=True, cwd=tmp_path, timeout=120)
        for name in ("own.py", "plain.py")
    ]
    own, plain = (one.stdout.splitlines() for one in done)
    assert done[0].returncode == 0, done[0].stderr
    assert own[2] == plain[2]  # random numbers, and threads
    assert "No GPU was used" in done[0].stderr.replace("\n", " ")
    steps = []
    for folder in own[:2]:
        report = gpuwhy.explain(folder)
        assert report.run is not None
        assert report.run.throughput is not None
        steps.append(report.run.throughput.steps)
        assert report.run.ended == "ended"
    assert steps == [59, 44]  # from one mark to the next


@needs_torch
def test_recording_within_a_run_that_is_watched_does_nothing(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(LOOP + "import gpuwhy\nwith gpuwhy.record() as folder: train(20)\nprint(folder)\n")
    done = gpuwhy_command("run", "-q", "--folder", "runs", "own.py", cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "None\n", "")


def test_a_step_that_nobody_watches_is_nothing() -> None:
    gpuwhy.step()
    gpuwhy.step(samples=3, tokens=5)


def test_asking_where_no_run_is_says_so(tmp_path: Path) -> None:
    nothing = gpuwhy_command("profile", cwd=tmp_path)
    assert (nothing.returncode, "no run is under way" in nothing.stderr) == (2, True)
    other = gpuwhy_command("profile", str(tmp_path))
    assert (other.returncode, "not the folder of a run" in other.stderr) == (2, True)


def test_a_run_whose_program_makes_no_steps_is_told_after_a_while(tmp_path: Path) -> None:
    """A run as `gpuwhy run` leaves it while it goes on, with a socket that answers."""
    from gpuwhy.run.folder import make, socket_address

    folder, _ = make(["train.py"], {}, str(tmp_path))
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
        with socket_address(folder) as address:
            listening.bind(address)
        listening.listen()
        with subprocess.Popen(
            [sys.executable, "-m", "gpuwhy", "profile", str(folder), "--wait", "0.5"], stderr=subprocess.PIPE, text=True
        ) as asking:
            connection, _ = listening.accept()
            connection.sendall(b"asked\n")
            connection.close()
            _, said = asking.communicate(timeout=60)
    assert (asking.returncode, "no profile came" in said) == (4, True)


def test_the_magic_takes_its_options() -> None:
    assert options("") == (True, 6)
    assert options(" --no-profile --profile-steps 12") == (False, 12)
    with pytest.raises(GpuwhyError, match="--profle"):
        options("--profle")


def test_the_magic_runs_the_cell_within_a_recording(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[object] = []

    class Recording:
        def __init__(self, **asked: object) -> None:
            told.append(asked)

        def __enter__(self) -> None:
            told.append("begin")

        def __exit__(self, *_: object) -> None:
            told.append("end")

    magics: dict[str, Any] = {}

    def run_cell(cell: str) -> SimpleNamespace:
        told.append(cell)
        return SimpleNamespace(raise_error=lambda: None)

    def register(function: Any, magic_kind: str, magic_name: str) -> None:
        magics[f"{magic_kind} {magic_name}"] = function

    monkeypatch.setattr("gpuwhy.run.record.record", Recording)
    load_ipython_extension(SimpleNamespace(register_magic_function=register, run_cell=run_cell))
    magics["cell gpuwhy"]("--no-profile", "train()")
    assert told == [{"profile": False, "profile_steps": 6}, "begin", "train()", "end"]
