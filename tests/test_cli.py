"""The command line: options, exit statuses, what goes to which stream, terminals and pipes."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from events import Profile

import gpuwhy
from gpuwhy.__main__ import main
from gpuwhy.commands import output
from gpuwhy.version import __version__

ROOT = Path(__file__).resolve().parents[1]
DEMO = Path(gpuwhy.__file__).parent / "data" / "demo.pt.trace.json.gz"
MS = 1_000_000
ESCAPE = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs `gpuwhy …` in this process: exit status, stdout, stderr."""

    def run(*arguments: str | Path) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["gpuwhy", *map(str, arguments)])
        code: Any = 0
        try:
            main()
        except SystemExit as leaving:
            code = leaving.code
        return (code or 0, *capsys.readouterr())

    return run


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Steps 0 to 9 of one millisecond, a tenth of it busy on device 0; device 1 works twice as long."""
    profile = Profile()
    for i in range(10):
        at = i * MS
        profile.step(i, at, at + MS)
        profile.operator("aten::mm", at + 10_000, at + 200_000)
        profile.launch(at + 20_000, at + 30_000, at + 100_000, at + 200_000)
        profile.launch(at + 40_000, at + 50_000, at + 100_000, at + 300_000, device=1)
        profile.runtime("cudaDeviceSynchronize", at + 210_000, at + 900_000)
    return str(profile.write(tmp_path_factory.mktemp("cli") / "p.json.gz"))


def document(run: Run, *arguments: str | Path) -> dict[str, Any]:
    code, out, err = run("explain", *arguments, "--json")
    assert code == 0, err
    assert not err
    found: dict[str, Any] = json.loads(out)
    return found


# ---- Help, version, completion ----


def test_version_is_the_packages(run: Run) -> None:
    assert run("--version") == (0, f"gpuwhy {__version__}\n", "")


@pytest.mark.parametrize("option", ["--help", "-h"])
def test_help_lists_the_verbs(run: Run, option: str) -> None:
    code, out, _ = run(option)
    assert code == 0
    assert "explain" in out
    assert "demo" in out


def test_without_arguments_help_is_shown(run: Run) -> None:
    code, out, err = run()
    assert code in (0, 2)
    assert "explain" in out + err


@pytest.mark.parametrize(
    ("verb", "words"),
    [
        ("explain", ["--json"]),
        ("demo", ["--json"]),
        ("run", ["Examples:", "Exit status:"]),
        ("profile", ["Examples:", "Exit status:"]),
        ("compare", ["Examples:", "Exit status:"]),
    ],
)
def test_help_of_a_verb_fits_a_terminal_and_says_what_there_is(
    run: Run, monkeypatch: pytest.MonkeyPatch, verb: str, words: list[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    code, out, _ = run(verb, "--help")
    assert code == 0
    assert all(word in out for word in words)
    assert all(len(line) <= 80 for line in out.splitlines())


def test_help_of_explain_has_examples_and_exit_statuses(run: Run) -> None:
    _, out, _ = run("explain", "--help")
    assert "Examples:" in out
    assert "gpuwhy explain profile.json --steps 4-6 --top 10" in out
    assert re.search(r"Exit status:\s+0\s+explained", out)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_completion_script_can_be_shown(shell: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "gpuwhy"],
        env={**os.environ, "_GPUWHY_COMPLETE": f"source_{shell}"},
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0
    assert b"_GPUWHY_COMPLETE" in done.stdout


# ---- Usage errors ----

USAGE = [
    ["explain"],
    ["explain", "FILE", "--no-such-option"],
    ["explain", "FILE", "--top", "-1"],
    ["explain", "FILE", "--top", "many"],
    ["explain", "FILE", "--device", "first"],
    ["explain", "FILE", "--output"],
    ["no-such-verb"],
    ["demo", "more"],
]
WRONG = [
    (["--steps", "4-"], "not a range of steps"),
    (["--steps", "x"], "not a range of steps"),
    (["--steps", "-3"], "not a range of steps"),
    (["--steps", "9" * 30], "not a range of steps"),
    (["--steps", "6-4"], "the first is after the last"),
    (["--steps", "50-60"], "not in this profile"),
    (["--window", "5"], "not a range of times"),
    (["--window", "1ms-2h"], "not a range of times"),
    (["--window", "1furlong-2ms"], "not a range of times"),
    (["--window", "3ms-2ms"], "the start must lie before the end"),
    (["--window", "1ms-" + "9" * 4000 + "s"], "the start must lie before the end"),
    (["--window", "100s-101s"], "no GPU work in that window"),
    (["--steps", "1-2", "--all"], "exclude each other"),
    (["--steps", "1-2", "--window", "1ms-2ms"], "exclude each other"),
    (["--device", "7"], "device 7 ran nothing in this profile"),
]


@pytest.mark.parametrize("arguments", USAGE, ids=" ".join)
def test_usage_errors_leave_with_2(run: Run, path: str, arguments: list[str]) -> None:
    code, out, err = run(*(path if a == "FILE" else a for a in arguments))
    assert code == 2
    assert not out
    assert "Traceback" not in err


@pytest.mark.parametrize(("arguments", "words"), WRONG, ids=[" ".join(a)[:40] for a, _ in WRONG])
def test_wrong_values_leave_with_2_and_one_line(run: Run, path: str, arguments: list[str], words: str) -> None:
    code, out, err = run("explain", path, *arguments)
    assert code == 2
    assert not out
    assert err.startswith("gpuwhy: ")
    assert words in err
    assert len(err.splitlines()) <= 2


# ---- Choosing what is judged ----


def test_steps_choose_the_window(run: Run, path: str) -> None:
    report = document(run, path, "--steps", "3-5", "--device", "0")
    assert report["window"]["steps"] == [3, 5]
    assert report["devices"][0]["window_ns"] == 3 * MS
    assert [step["number"] for step in report["devices"][0]["steps"]] == [3, 4, 5]
    assert document(run, path, "--steps", "4")["window"]["steps"] == [4, 4]


@pytest.mark.parametrize(
    "window", ["2ms-4ms", "2-4ms", "2-4", "2000us-4000us", "2000µs-4ms", "2000000ns-0.004s", " 2.0 ms - 4.0 ms "]
)
def test_a_window_can_be_given_in_any_unit(run: Run, path: str, window: str) -> None:
    device = document(run, path, "--window", window, "--device", "0")["devices"][0]
    assert (device["window_start_ns"], device["window_ns"], device["busy_ns"]) == (2 * MS, 2 * MS, 200_000)


def test_all_judges_from_the_first_operation_to_the_last(run: Run, path: str) -> None:
    report = document(run, path, "--all", "--device", "0")
    assert report["window"]["how"] == "all"
    assert report["devices"][0]["window_ns"] == 9 * MS + 100_000
    assert document(run, path, "--device", "0")["devices"][0]["window_ns"] == 9 * MS


def test_device_chooses_one(run: Run, path: str) -> None:
    assert [d["device"] for d in document(run, path)["devices"]] == [0, 1]
    assert [d["device"] for d in document(run, path, "--device", "1")["devices"]] == [1]


def test_top_limits_what_is_listed(run: Run) -> None:
    def most(top: int) -> int:
        weights = document(run, DEMO, "--top", str(top))["devices"][0]["weights"]
        accounts = [weight["account"] for weight in weights]
        return max(map(accounts.count, accounts), default=0)

    assert most(0) == 0
    assert most(1) == 1
    assert most(5) == 5


# ---- Reports ----


def test_json_holds_to_the_schema(run: Run, path: str) -> None:
    schema = ROOT / "docs" / "report.schema.json"
    if not schema.exists():
        pytest.skip("no docs/report.schema.json")
    validator = __import__("jsonschema").Draft202012Validator(json.loads(schema.read_text()))
    for arguments in ([path], [path, path], [DEMO], [path, "--all"], [path, "--steps", "2"], [path, "--top", "0"]):
        validator.validate(document(run, *arguments))
    code, out, _ = run("demo", "--json")
    assert code == 0
    validator.validate(json.loads(out))


def test_every_ledger_in_the_json_sums_to_its_window(run: Run, path: str) -> None:
    for arguments in ([path], [DEMO], [path, "--window", "1.5-3.25"], [path, "--all"]):
        for device in document(run, *arguments)["devices"]:
            assert sum(entry["ns"] for entry in device["ledger"]) == device["window_ns"]


def test_a_piped_report_has_no_escape_codes_and_no_long_lines(run: Run, path: str) -> None:
    for arguments in (["explain", path], ["explain", path, path], ["explain", str(DEMO)], ["demo"]):
        code, out, err = run(*arguments)
        assert code == 0
        assert not err
        assert "\x1b" not in out
        assert all(len(line) <= output.FILE_WIDTH for line in out.splitlines())


def test_output_goes_to_a_file_and_nowhere_else(run: Run, path: str, tmp_path: Path) -> None:
    page, data = tmp_path / "report.txt", tmp_path / "report.json"
    assert run("explain", path, "--output", page) == (0, "", "")
    assert run("explain", path, "--json", "-o", data) == (0, "", "")
    assert page.read_text() == run("explain", path)[1]
    assert json.loads(data.read_text()) == document(run, path)
    assert run("explain", path, "--output", "-")[1] == page.read_text()
    assert run("demo", "--json", "-o", data) == (0, "", "")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["report.json", "report.txt"]


@pytest.mark.parametrize("source", ["small", "demo"])
def test_a_saved_timeline_explains_itself_as_the_profile_does(run: Run, path: str, tmp_path: Path, source: str) -> None:
    saved = tmp_path / "kept.gpuwhy"
    first = document(run, path if source == "small" else DEMO, "--save-timeline", saved)
    again = document(run, saved)
    assert {**again, "source": None} == {**first, "source": None}
    assert again["source"]["events"] == first["source"]["events"]


def test_two_files_are_two_ranks(run: Run, path: str) -> None:
    report = document(run, path, path)
    assert [(d["rank"], d["device"]) for d in report["devices"]] == [(0, 0), (0, 1), (1, 0), (1, 1)]


def test_an_unsound_ledger_leaves_with_3(run: Run, tmp_path: Path) -> None:
    """Half of the kernels have no usable time."""
    profile = Profile()
    for i in range(20):
        profile.launch(i * 1000, i * 1000 + 10, i * 1000 + 20, i * 1000 + (500 if i % 2 else -5))
    file = profile.write(tmp_path / "p.json")
    code, out, err = run("explain", file)
    assert (code, err) == (3, "")
    assert "no usable time" in " ".join(out.split())
    code, out, _ = run("explain", file, "--json")
    assert code == 3
    assert any(item["what"] == "ledger" for item in json.loads(out)["withheld"])


def test_the_demo_explains_and_says_how_to_go_on(run: Run) -> None:
    code, out, err = run("demo")
    assert (code, err) == (0, "")
    assert out.startswith("A real profile")
    assert out.rstrip().endswith("gpuwhy explain profile.json.gz")


# ---- Terminals ----


def on_terminal(
    arguments: list[str], columns: int, environment: dict[str, str] | None = None, stdout: Any = None
) -> tuple[int, str]:
    """Runs `gpuwhy …` on a terminal of that width; exit status and what the terminal got."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    keep = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR")}
    running = subprocess.Popen(
        [sys.executable, "-m", "gpuwhy", *arguments],
        stdin=slave,
        stdout=stdout or slave,
        stderr=slave,
        env={**keep, "TERM": "xterm-256color", **(environment or {})},
    )
    os.close(slave)
    got = b""
    while True:
        try:
            if not select.select([master], [], [], 60)[0] or not (data := os.read(master, 65536)):
                break
        except OSError:  # the other end is closed
            break
        got += data
    os.close(master)
    return running.wait(60), got.decode()


@pytest.mark.parametrize("columns", [60, 80, 200])
def test_a_report_fits_the_terminal(path: str, columns: int) -> None:
    for arguments in (["explain", path], ["explain", str(DEMO)]):
        code, shown = on_terminal(arguments, columns)
        assert code == 0
        lines = ESCAPE.sub("", shown).splitlines()
        assert max(map(len, lines)) <= columns
        assert "\x1b[" in shown


def test_a_narrow_terminal_gets_its_report(path: str) -> None:
    code, shown = on_terminal(["explain", path], 40)
    assert code == 0
    assert "GPU 0" in shown


@pytest.mark.parametrize(
    ("arguments", "environment"), [([], {"NO_COLOR": "1"}), (["--no-color"], {}), ([], {"TERM": "dumb"})]
)
def test_colours_can_be_refused(path: str, arguments: list[str], environment: dict[str, str]) -> None:
    code, shown = on_terminal(["explain", path, *arguments], 80, environment)
    assert code == 0
    assert not re.search(r"\x1b\[[0-9;]*3[0-7]", shown)


def test_colours_can_be_asked_for(run: Run, path: str, tmp_path: Path) -> None:
    assert "\x1b[" in run("explain", path, "--color")[1]
    run("explain", path, "--color", "-o", tmp_path / "page")
    assert "\x1b[" in (tmp_path / "page").read_text()


def slow_pipe(path: Path, seconds: float) -> subprocess.Popen[bytes]:
    """A named pipe into which a small profile flows for so long."""
    os.mkfifo(path)
    script = (
        "import sys, time, gzip\n"
        f"data = gzip.open({str(DEMO)!r}).read()\n"
        f"with open({str(path)!r}, 'wb') as end:\n"
        "    for i in range(20):\n"
        "        end.write(data[i * len(data) // 20:(i + 1) * len(data) // 20])\n"
        "        end.flush()\n"
        f"        time.sleep({seconds} / 20)\n"
    )
    return subprocess.Popen([sys.executable, "-c", script], stderr=subprocess.DEVNULL)


def test_progress_is_shown_on_a_terminal_only(tmp_path: Path) -> None:
    writer = slow_pipe(tmp_path / "pipe", 3)
    code, shown = on_terminal(["explain", str(tmp_path / "pipe"), "--json"], 80, stdout=subprocess.DEVNULL)
    writer.wait(30)
    assert code == 0
    assert "reading" in shown
    writer = slow_pipe(tmp_path / "other", 2)
    done = subprocess.run(
        [sys.executable, "-m", "gpuwhy", "explain", str(tmp_path / "other"), "--json"],
        capture_output=True,
        check=False,
        timeout=60,
    )
    writer.wait(30)
    assert done.returncode == 0
    assert not done.stderr


def test_interrupting_a_load_leaves_with_130_and_one_line(tmp_path: Path) -> None:
    writer = slow_pipe(tmp_path / "pipe", 60)
    with subprocess.Popen(
        [sys.executable, "-m", "gpuwhy", "explain", str(tmp_path / "pipe")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as running:
        time.sleep(2)
        running.send_signal(signal.SIGINT)
        assert running.wait(30) == 130
        assert running.stdout is not None
        assert running.stderr is not None
        assert running.stdout.read() == b""
        assert running.stderr.read() == b"gpuwhy: interrupted\n"
    writer.kill()
    writer.wait()
