"""Processes and threads as /proc shows them: real ones whose work is known, and files of /proc made by hand."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpuwhy.run import processes as module
from gpuwhy.run.processes import ProcessSample, Tree, cores, host_pids, processes, threads

linux = pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")

NAMING = """
import ctypes, os, subprocess, sys, threading, time
def name(text):
    ctypes.CDLL(None).prctl(15, ctypes.c_char_p(text), 0, 0, 0)  # PR_SET_NAME, of the calling thread
def burn(seconds):
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass
def say(*values):
    print(*values, flush=True)
"""


@contextmanager
def program(text: str, *arguments: str) -> Iterator[tuple[subprocess.Popen[str], IO[str], IO[str]]]:
    """A Python program, the pipe it reads and the pipe it writes; ended with all its children."""
    started = subprocess.Popen(
        [sys.executable, "-c", NAMING + textwrap.dedent(text), *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert started.stdin is not None
    assert started.stdout is not None
    try:
        yield started, started.stdin, started.stdout
    finally:
        started.stdin.close()  # each program here ends when its input does
        started.wait(20)
        started.stdout.close()


def until(condition: Callable[[], Any]) -> Any:
    """Wait for what another process is about to do."""
    end = time.monotonic() + 10
    while not (found := condition()) and time.monotonic() < end:
        time.sleep(0.01)
    return found


@linux
def test_cpu_time_of_a_process_and_of_its_named_threads() -> None:
    text = """
    def work(text, seconds):
        name(text)
        burn(seconds)
        used[text] = time.thread_time()
        done.wait()
        go.wait()
    used, done, go = {}, threading.Barrier(3), threading.Event()
    for each in ((b"loader", 0.3), (b"pin \\xff) S (1", 0.1)):
        threading.Thread(target=work, args=each, daemon=True).start()
    done.wait()
    times = os.times()
    say(used[b"loader"], used[b"pin \\xff) S (1"], times.user + times.system)
    sys.stdin.read()
    """
    with program(text) as (child, _, out):
        loader, pin, total = map(float, out.readline().split())
        (found,) = processes(child.pid, {child.pid})
        (without,) = processes(child.pid)
        for _ in range(300):  # it has spoken, and goes on to read: on a busy machine a little later
            (later,) = processes(child.pid, {child.pid})
            if {thread.state for thread in later.threads or []} == {"S"}:
                break
            time.sleep(0.01)
    by_name = {thread.name: thread for thread in found.threads or []}
    assert by_name.keys() == {found.command, "loader", "pin \ufffd) S (1"}
    assert by_name["loader"].cpu_s == pytest.approx(loader, abs=0.02)
    assert by_name["pin \ufffd) S (1"].cpu_s == pytest.approx(pin, abs=0.02)
    assert found.cpu_s == pytest.approx(total, abs=0.05)  # ticks of 10 ms, and the last line of the program
    assert {thread.state for thread in later.threads or []} == {"S"}
    assert without.threads is None
    assert found.rss is not None
    assert 5e6 < found.rss < 5e8


@linux
def test_a_thread_that_always_wants_a_core_runs_or_waits_for_one() -> None:
    text = """
    os.sched_setaffinity(0, {int(sys.argv[1])})
    other = os.fork()
    if not other:
        burn(10)
    say(other)
    while True:
        pass
    """
    core = min(os.sched_getaffinity(0))
    with program(text, str(core)) as (child, _, out):
        other = int(out.readline())
        try:
            assert cores(child.pid) == 1.0
            times = [time.monotonic()]
            first = processes(child.pid)[0]
            times.append(time.monotonic())
            time.sleep(0.8)
            times.append(time.monotonic())
            last = processes(child.pid)[0]
            times.append(time.monotonic())
        finally:
            os.kill(other, 9)
            child.kill()
    assert first.wait_s is not None
    assert last.wait_s is not None
    ran, waited = (last.cpu_s or 0) - (first.cpu_s or 0), last.wait_s - first.wait_s
    assert times[2] - times[1] - 0.1 < ran + waited < times[3] - times[0] + 0.1
    assert waited > 0.2  # two programs on one core, and perhaps others'


@linux
def test_descendants_with_their_parents_even_after_a_parent_has_ended() -> None:
    text = """
    child = subprocess.Popen([sys.executable, "-c",
        "import subprocess, sys; p = subprocess.Popen(['sleep', '60']); print(p.pid, flush=True); sys.stdin.read()"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    say(child.pid, child.stdout.readline())
    sys.stdin.readline()
    child.stdin.close()
    child.wait()
    say("ended")
    sys.stdin.read()
    """
    with program(text) as (root, to, out):
        child, grandchild = map(int, out.readline().split())
        try:
            tree = Tree(root.pid)
            expected = {root.pid: os.getpid(), child: root.pid, grandchild: child}
            assert {process.pid: process.parent for process in tree.sample()} == expected
            assert {process.pid: process.parent for process in processes(root.pid)} == expected
            assert until(lambda: tree.sample()[-1].command == "sleep" or tree.sample()[1].command == "sleep")
            to.write("\n")
            to.flush()
            out.readline()
            assert out.readline() == "ended\n"
            assert [process.pid for process in tree.sample()] == sorted([root.pid, grandchild])
            assert [process.pid for process in processes(root.pid)] == [root.pid]  # it has no way to know
        finally:
            os.kill(grandchild, 9)


@linux
@pytest.mark.parametrize("name", [b"a b", b"a) R (", b"((", b"\n1 2 3\n", b"\xff\xfe", b""])
def test_a_process_may_have_any_name(name: bytes) -> None:
    with program("name(bytes.fromhex(sys.argv[1])); say(); sys.stdin.read()", name.hex()) as (child, _, out):
        out.readline()
        (found,) = processes(child.pid)
    assert found.command == name.decode("utf-8", "replace")
    assert found.parent == os.getpid()


@linux
def test_when_a_process_started() -> None:
    before = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    with program("say(); sys.stdin.read()") as (child, _, out):
        out.readline()
        after = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        (found,) = processes(child.pid)
    tick = 10_000_000
    assert found.started is not None
    assert before - tick <= found.started <= after


def test_a_process_that_is_gone_has_no_descendants() -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    assert processes(child.pid, {child.pid}) == []
    assert threads(child.pid) is None


@linux
def test_a_process_that_has_ended_but_was_not_waited_for_is_left_out() -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    try:
        assert until(lambda: " Z " in Path(f"/proc/{child.pid}/stat").read_text())
        assert processes(child.pid) == []
    finally:
        child.wait()


def test_without_proc_nothing_is_known(tmp_path: Path) -> None:
    assert Tree(1, str(tmp_path / "none")).sample({1}) == []
    assert host_pids(str(tmp_path)) is None


def stat(
    proc: Path, pid: int, parent: int, started: int = 100, name: str = "x", ticks: int = 0, state: str = "S"
) -> None:
    """A process in a /proc made by hand: the 52 fields of proc(5)."""
    fields = ["0"] * 50
    fields[0], fields[1], fields[11], fields[17], fields[19], fields[21] = (
        state,
        str(parent),
        str(ticks),
        "1",
        str(started),
        "3",
    )
    folder = proc / str(pid)
    folder.mkdir(exist_ok=True)
    (folder / "stat").write_text(f"{pid} ({name}) " + " ".join(fields) + "\n")


def test_a_number_that_is_given_again_is_another_process(tmp_path: Path) -> None:
    for pid, parent in ((1, 0), (50, 1), (60, 50), (70, 1)):
        stat(tmp_path, pid, parent)
    tree = Tree(50, str(tmp_path))
    assert [process.pid for process in tree.sample()] == [50, 60]
    stat(tmp_path, 60, 1, started=999)
    assert [process.pid for process in tree.sample()] == [50]
    stat(tmp_path, 50, 1, started=999)
    assert tree.sample() == []


def test_other_processes_are_looked_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for pid in range(100, 400):
        stat(tmp_path, pid, 1)
    for pid, parent in ((50, 1), (51, 50), (52, 51)):
        stat(tmp_path, pid, parent)
    looks: list[str] = []
    look = module._stat
    monkeypatch.setattr(module, "_stat", lambda path: (looks.append(path), look(path))[1])
    tree = Tree(50, str(tmp_path))
    tree.sample()
    assert len(looks) == 303
    looks.clear()
    stat(tmp_path, 53, 52)
    assert [process.pid for process in tree.sample()] == [50, 51, 52, 53]
    assert len(looks) == 4


def test_values_of_a_process_in_their_units(tmp_path: Path) -> None:
    stat(tmp_path, 50, 7, started=250, ticks=300)
    (tmp_path / "50" / "schedstat").write_text("1500000000 250000000 12\n")
    (found,) = Tree(50, str(tmp_path)).sample()
    tick_s, page = 1 / os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")
    assert found == ProcessSample(50, 7, "x", int(250 * tick_s * 1e9), 3 * page, 300 * tick_s, 0.25)


@pytest.mark.parametrize("content", [None, "", "0 0 0\n", "1 2\n", "a b c\n"])
def test_waiting_that_the_kernel_does_not_count_is_not_zero(tmp_path: Path, content: str | None) -> None:
    stat(tmp_path, 50, 1)
    if content is not None:
        (tmp_path / "50" / "schedstat").write_text(content)
    assert Tree(50, str(tmp_path)).sample()[0].wait_s is None


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=80) | st.builds(lambda name, rest: b"50 (" + name + b") " + rest, st.binary(), st.binary()))
def test_no_content_of_a_stat_file_does_harm(tmp_path: Path, content: bytes) -> None:
    folder = tmp_path / "50"
    folder.mkdir(exist_ok=True)
    (folder / "stat").write_bytes(content)
    assert Tree(50, str(tmp_path)).sample({50}) == []


def groups(tmp_path: Path, own: str, files: dict[str, str]) -> float:
    """Cores that this process may use in control groups made by hand."""
    (tmp_path / "proc" / "self").mkdir(parents=True)
    (tmp_path / "proc" / "self" / "cgroup").write_text(own)
    for name, content in files.items():
        path = tmp_path / "cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return cores(0, str(tmp_path / "proc"), str(tmp_path / "cgroup"))


@pytest.mark.parametrize(
    ("own", "files", "expected"),
    [
        ("", {}, 64.0),
        ("0::/a/b\n", {"a/b/cpu.max": "max 100000\n"}, 64.0),
        ("0::/a/b\n", {"a/b/cpu.max": "350000 100000\n"}, 3.5),
        ("0::/a/b\n", {"a/cpu.max": "200000 100000\n", "a/b/cpu.max": "350000 100000\n"}, 2.0),
        ("0::/\n", {"cpu.max": "50000 100000\n"}, 0.5),  # in a container
        ("0::/../../x\n", {"cpu.max": "800000 100000\n"}, 8.0),  # in a container, of a group outside
        ("0::/a\n", {"a/cpu.max": "9900000 100000\n"}, 64.0),  # more than there are
        ("0::/a\n", {"a/cpu.max": "garbage\n"}, 64.0),
        ("0::/a\n", {"a/cpu.max": "0 0\n"}, 64.0),
        ("4:cpu,cpuacct:/d\n0::/\n", {"cpu,cpuacct/d/cpu.cfs_quota_us": "-1\n"}, 64.0),
        (
            "4:cpu,cpuacct:/d\n3:cpuset:/d\n",
            {"cpu,cpuacct/d/cpu.cfs_quota_us": "600000\n", "cpu,cpuacct/d/cpu.cfs_period_us": "100000\n"},
            6.0,
        ),
        ("1:cpu:/docker/1\n", {"cpu/cpu.cfs_quota_us": "150000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 1.5),
        ("2:cpuset:/d\n", {"cpuset/d/cpu.cfs_quota_us": "1\n", "cpuset/d/cpu.cfs_period_us": "100000\n"}, 64.0),
    ],
)
def test_cores_are_the_least_of_affinity_and_quotas(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own: str, files: dict[str, str], expected: float
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(64)), raising=False)
    assert groups(tmp_path, own, files) == expected


def test_cores_of_a_process_that_has_ended_are_the_machine_s(tmp_path: Path) -> None:
    assert cores(2**22 + 1, str(tmp_path), str(tmp_path)) == os.cpu_count()
