"""`gpuwhy run` is to its caller what the program would be: exit status, signals, standard input, open files."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gpuwhy.reports import model
from gpuwhy.run.folder import _program, compress, make, read

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals and open files are POSIX's")

GPUWHY = [sys.executable, "-m", "gpuwhy", "run"]
COUNTING = """
import signal, sys, time
numbers = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGQUIT, signal.SIGWINCH]
signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
print("ready", flush=True)
got = []
wait = 20
while (one := signal.sigtimedwait(numbers, wait)) is not None:
    got.append(signal.Signals(one.si_signo).name)
    wait = 0.7
print(*got, flush=True)
sys.exit(11)
"""
"""Tells each signal that it gets, until none has come for a while."""


def run(folder: Path, *words: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """`gpuwhy run`, with its runs kept in this folder."""
    command = [*GPUWHY, "--folder", str(folder / "runs"), *words]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=60, **options)


def runs(folder: Path) -> list[Path]:
    home = folder / "runs"
    return sorted(path for path in home.iterdir() if path.is_dir()) if home.exists() else []


# --- Exit status -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "command",
    [
        ["true"],
        ["sh", "-c", "exit 7"],
        ["sh", "-c", "kill -TERM $$"],
        ["sh", "-c", "kill -9 $$"],
        ["sh", "-c", "exit 143"],
    ],
    ids=" ".join,
)
def test_a_program_ends_as_it_does_without_gpuwhy(command: list[str], tmp_path: Path) -> None:
    alone = subprocess.run(command, capture_output=True, text=True, check=False)
    found = run(tmp_path, "-q", "--", *command)
    assert (found.returncode, found.stdout, found.stderr) == (alone.returncode, alone.stdout, alone.stderr)
    (folder,) = runs(tmp_path)
    told = read(folder)
    assert told.command == command
    assert told.exit_status == (alone.returncode if alone.returncode >= 0 else 128 - alone.returncode)
    assert told.signal == (-alone.returncode if alone.returncode < 0 else None)


def test_what_the_program_writes_is_all_that_is_on_standard_output(tmp_path: Path) -> None:
    found = run(tmp_path, "--", "sh", "-c", "printf out; printf err >&2; exit 3")
    assert found.stdout == "out"
    assert found.stderr.startswith("err")
    assert "nothing was seen of the program" in found.stderr
    assert found.returncode == 3


@pytest.mark.parametrize(
    ("command", "status"), [("no-such-program-anywhere", 127), ("./a-folder", 126), ("./text", 126)]
)
def test_what_cannot_be_started_has_the_status_that_a_shell_gives_it(command: str, status: int, tmp_path: Path) -> None:
    (tmp_path / "a-folder").mkdir()
    (tmp_path / "text").write_text("#!/bin/sh\n")
    alone = subprocess.run(["sh", "-c", command], cwd=tmp_path, capture_output=True, check=False)
    found = run(tmp_path, "--", command, cwd=tmp_path)
    assert found.returncode == alone.returncode == status
    assert found.stderr.startswith(f"gpuwhy: {command}: ")
    assert found.stdout == ""
    assert runs(tmp_path) == []


def test_a_script_that_is_not_there_is_not_started(tmp_path: Path) -> None:
    found = run(tmp_path, "train.py", cwd=tmp_path)
    assert found.returncode == 127
    assert "train.py: no such file" in found.stderr


@pytest.mark.parametrize("where", ["file/runs", "file"])
def test_where_no_folder_can_be_made_nothing_is_started(where: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    command = [*GPUWHY, "--folder", str(tmp_path / where), "--", "touch", str(tmp_path / "started")]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert found.returncode == 2
    assert "a folder for the run cannot be made" in found.stderr
    assert "--folder" in found.stderr
    assert not (tmp_path / "started").exists()


def test_without_a_program_gpuwhy_says_how_to_name_one(tmp_path: Path) -> None:
    found = run(tmp_path)
    assert found.returncode == 2
    assert "no program given" in found.stderr
    assert runs(tmp_path) == []


def test_a_number_that_is_no_open_file_stops_before_the_program(tmp_path: Path) -> None:
    found = run(tmp_path, "--report-fd", "91", "--", "touch", str(tmp_path / "started"))
    assert found.returncode == 2
    assert "91" in found.stderr
    assert not (tmp_path / "started").exists()


# --- What the program inherits ------------------------------------------------------------------------------------


def test_standard_input_is_the_programs(tmp_path: Path) -> None:
    found = run(tmp_path, "-q", "--", "cat", input="one\ntwo\n")
    assert (found.returncode, found.stdout) == (0, "one\ntwo\n")


def test_files_that_are_open_are_open_for_the_program(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    try:
        found = run(tmp_path, "-q", "--", "sh", "-c", f"printf through > /dev/fd/{writing}", pass_fds=[writing])
        assert found.returncode == 0
        assert os.read(reading, 100) == b"through"
    finally:
        os.close(reading)
        os.close(writing)


def test_the_programs_environment_is_its_own_but_for_the_probe(tmp_path: Path) -> None:
    found = run(tmp_path, "-q", "--", "env", env={**os.environ, "PYTHONPATH": "mine", "SOME": "thing"})
    told = dict(line.split("=", 1) for line in found.stdout.splitlines() if "=" in line)
    assert told["SOME"] == "thing"
    assert told["PYTHONPATH"].split(os.pathsep)[1:] == ["mine"]
    assert Path(told["GPUWHY_RUN"]) == runs(tmp_path)[0]


def test_a_python_program_runs_as_it_does_alone(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import sys; print(sys.argv, sys.path[0]); sys.exit(5)")
    script = str(tmp_path / "train.py")
    alone = subprocess.run([sys.executable, script, "--lr", "-q"], capture_output=True, text=True, check=False)
    found = run(tmp_path, "-q", script, "--lr", "-q")
    assert (found.returncode, found.stdout, found.stderr) == (alone.returncode, alone.stdout, alone.stderr)
    assert runs(tmp_path)[0].name.endswith("-train")


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (["python", "-m", "package.train", "--lr", "3e-4"], "package.train"),
        (["torchrun", "--nproc-per-node", "8", "/a/b/train.py", "-m", "x"], "train"),
        (["torchrun", "-m", "package.train"], "package.train"),
        (["/usr/bin/true"], "true"),
        (["python", "-m"], "python"),
        (["python", "-m", "package", "other.py"], "package"),
    ],
    ids=str,
)
def test_a_run_is_named_after_its_script_or_module(command: list[str], name: str) -> None:
    assert _program(command) == name


# --- Where the report goes -----------------------------------------------------------------------------------------


def test_the_report_goes_to_a_file(tmp_path: Path) -> None:
    report = tmp_path / "report.txt"
    found = run(tmp_path, "-o", str(report), "--", "true")
    assert (found.stdout, found.stderr) == ("", "")
    assert "nothing was seen of the program" in report.read_text()


def test_the_report_goes_to_an_open_file_as_json_and_is_kept(tmp_path: Path) -> None:
    with (tmp_path / "report.json").open("w") as file:
        number = file.fileno()
        found = run(tmp_path, "--report-fd", str(number), "--json", "--", "true", pass_fds=[number])
    assert (found.stdout, found.stderr, found.returncode) == ("", "", 0)
    text = (tmp_path / "report.json").read_text()
    report = msgspec.json.decode(text, type=model.Report)
    assert report.run is not None
    assert report.run.exit_status == 0
    assert (runs(tmp_path)[0] / "report.json").read_text() == text


def test_a_report_that_cannot_be_written_changes_no_status(tmp_path: Path) -> None:
    (tmp_path / "none").mkdir()
    program = ["sh", "-c", f"rmdir '{tmp_path}/none'; exit 4"]
    found = run(tmp_path, "-o", str(tmp_path / "none" / "report.txt"), "--", *program)
    assert found.returncode == 4
    assert "the report cannot be written" in found.stderr
    assert json.loads((runs(tmp_path)[0] / "report.json").read_text())["run"]["exit_status"] == 4


# --- Signals ---------------------------------------------------------------------------------------------------------


def counting(folder: Path, before: list[str] | None = None, **options: Any) -> subprocess.Popen[str]:
    """A program that counts signals, when it is ready for them."""
    (folder / "counting.py").write_text(COUNTING)
    program = [sys.executable, "-I", "-S", str(folder / "counting.py")]
    process = subprocess.Popen(
        [*(before or []), *GPUWHY, "-q", "--folder", str(folder / "runs"), "--", *program],
        stdout=subprocess.PIPE,
        text=True,
        **options,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def waits(process: subprocess.Popen[str]) -> None:
    """Until gpuwhy has taken up its waiting for signals."""
    state = Path(f"/proc/{process.pid}/wchan")
    end = time.monotonic() + 0.5
    while time.monotonic() < end and "sigtimedwait" not in (state.read_text() if state.exists() else ""):
        time.sleep(0.02)


@pytest.mark.parametrize("name", ["SIGTERM", "SIGUSR1", "SIGHUP", "SIGINT", "SIGQUIT"])
def test_a_signal_that_is_sent_to_gpuwhy_reaches_the_program_once(name: str, tmp_path: Path) -> None:
    process = counting(tmp_path)
    waits(process)
    process.send_signal(getattr(signal, name))
    told, _ = process.communicate(timeout=20)
    assert (told, process.returncode) == (f"{name}\n", 11)


def test_gpuwhy_may_be_stopped_and_continued_while_its_program_runs(tmp_path: Path) -> None:
    """As `kill -STOP` does, or a debugger; some systems then tell whoever waits of a signal that is none."""
    process = counting(tmp_path)
    waits(process)
    for _ in range(5):
        process.send_signal(signal.SIGSTOP)
        time.sleep(0.05)
        process.send_signal(signal.SIGCONT)
        time.sleep(0.05)
    process.send_signal(signal.SIGUSR1)
    told, _ = process.communicate(timeout=20)
    assert (told, process.returncode) == ("SIGUSR1\n", 11)


def test_signals_that_come_close_together_all_arrive_and_none_ends_gpuwhy(tmp_path: Path) -> None:
    """Of one kind several may become one, as always; of two kinds none gets lost."""
    process = counting(tmp_path)
    waits(process)
    for _ in range(300):
        process.send_signal(signal.SIGUSR1)
        process.send_signal(signal.SIGHUP)
    told, _ = process.communicate(timeout=20)
    assert set(told.split()) == {"SIGUSR1", "SIGHUP"}
    assert process.returncode == 11


def test_an_interrupt_from_the_terminal_reaches_the_program_once(tmp_path: Path) -> None:
    """The terminal sends it to gpuwhy and to the program: both are in its foreground."""
    import fcntl
    import pty
    import termios

    master, terminal = pty.openpty()
    try:
        process = counting(
            tmp_path,
            stdin=terminal,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(terminal, termios.TIOCSCTTY, 0),
        )
        waits(process)
        assert os.tcgetpgrp(master) == process.pid
        os.write(master, b"\x03")
        told, _ = process.communicate(timeout=20)
        assert (told, process.returncode) == ("SIGINT\n", 11)
    finally:
        os.close(master)
        os.close(terminal)


def test_what_is_ignored_in_the_background_stays_ignored(tmp_path: Path) -> None:
    """As nohup starts it: a hang-up ends neither gpuwhy nor the program."""
    command = [*GPUWHY, "-q", "--folder", str(tmp_path / "runs"), "--", "sh", "-c", "echo ready; sleep 1; exit 9"]
    deaf = ["sh", "-c", 'trap "" HUP; exec "$@"', "sh"]
    process = subprocess.Popen([*deaf, *command], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGHUP)
    process.communicate(timeout=20)
    assert process.returncode == 9


def test_the_program_blocks_no_signal_that_its_caller_does_not(tmp_path: Path) -> None:
    found = run(tmp_path, "-q", "--", "sh", "-c", "grep SigBlk /proc/self/status || echo SigBlk: 0")
    assert int(found.stdout.split()[1], 16) == 0


def test_a_signal_as_soon_as_the_program_is_there_leaves_nobody_behind(tmp_path: Path) -> None:
    for _ in range(4):
        program = ["sh", "-c", "echo $$; exec sleep 20"]
        command = [*GPUWHY, "-q", "--folder", str(tmp_path / "runs"), "--", *program]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            pid = int(process.stdout.readline())
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=20)
        assert process.returncode == -signal.SIGTERM
        assert not Path(f"/proc/{pid}").exists()


def test_a_status_that_looks_like_an_interrupt_is_the_programs_own(tmp_path: Path) -> None:
    done = run(tmp_path, "-q", "--", "sh", "-c", "exit 130")
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_profiles_are_compressed_and_what_cannot_be_is_left_as_it_is(tmp_path: Path) -> None:
    folder, _ = make(["train.py"], {}, str(tmp_path))
    (folder / "profiles" / "1-2.0.json").write_text('{"traceEvents": []}')
    (folder / "profiles" / "1-2.1.json").write_text("[]")
    (folder / "profiles" / "1-2.1.json.gz").mkdir()
    compress(folder)
    assert gzip.decompress((folder / "profiles" / "1-2.0.json.gz").read_bytes()) == b'{"traceEvents": []}'
    assert sorted(path.name for path in (folder / "profiles").iterdir()) == [
        "1-2.0.json.gz",
        "1-2.1.json",
        "1-2.1.json.gz",
    ]


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT", "SIGHUP", "SIGUSR1"])
def test_a_signal_to_the_whole_group_reaches_the_program_once(name: str, tmp_path: Path) -> None:
    """As `timeout` and service managers send it."""
    process = counting(tmp_path, start_new_session=True)
    waits(process)
    os.killpg(process.pid, getattr(signal, name))
    told, _ = process.communicate(timeout=20)
    assert (told, process.returncode) == (f"{name}\n", 11)


def test_signals_to_the_group_and_to_gpuwhy_in_turns_all_arrive(tmp_path: Path) -> None:
    process = counting(tmp_path, start_new_session=True)
    waits(process)
    for send in (os.killpg, os.kill, os.killpg, os.kill):
        send(process.pid, signal.SIGUSR1)
        time.sleep(0.15)
    told, _ = process.communicate(timeout=20)
    assert told.split() == ["SIGUSR1"] * 4


def test_whatever_stands_beside_the_program_ends_with_what_started_it(tmp_path: Path) -> None:
    process = counting(tmp_path, start_new_session=True)
    process.kill()  # gpuwhy alone: the program goes on, and whatever gpuwhy had beside it ends
    process.wait(timeout=20)
    end = time.monotonic() + 5
    while (left := _in_session(process.pid, b"gpuwhy")) and time.monotonic() < end:
        time.sleep(0.1)
    assert left == []
    (program,) = _in_session(process.pid, b"counting.py")
    os.kill(program, signal.SIGKILL)
    process.communicate(timeout=20)


def _in_session(session: int, word: bytes) -> list[int]:
    """Processes of a session whose command has this word."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if os.getsid(int(path.name)) == session and word in (path / "cmdline").read_bytes():
                found.append(int(path.name))
        except OSError:
            continue
    return found


@pytest.mark.parametrize("words", [["--lr", "3e-4", "-q"], ["x", "-o", "y"], ["--", "-m"], []])
def test_what_follows_a_module_is_its_own(words: list[str], tmp_path: Path) -> None:
    (tmp_path / "tells.py").write_text("import sys; print(sys.argv[1:])")
    done = run(tmp_path, "-q", "-m", "tells", *words, cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{words}\n", "")


def test_an_executable_is_run_as_what_it_is(tmp_path: Path) -> None:
    script = tmp_path / "tells"
    script.write_text("#!/bin/sh\necho shell $1\n")
    script.chmod(0o755)
    assert run(tmp_path, "-q", str(script), "one").stdout == "shell one\n"
    assert run(tmp_path, "-q", "./tells", "two", cwd=tmp_path).stdout == "shell two\n"


def test_where_the_report_cannot_go_is_said_before_the_program_runs(tmp_path: Path) -> None:
    program = ["--", "touch", str(tmp_path / "ran")]
    for options in (["-o", str(tmp_path / "none" / "x")], ["-o", str(tmp_path / "x"), "--report-fd", "1"]):
        assert run(tmp_path, *options, *program).returncode == 2
    assert not (tmp_path / "ran").exists()
