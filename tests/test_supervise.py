"""What watches a program from outside: when it asks for another profile, what it leaves behind, and that it ends."""

from __future__ import annotations

import errno
import mmap
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from journaling import MS, Process, at

from gpuwhy.run import supervise
from gpuwhy.run.folder import make, socket_address
from gpuwhy.run.supervise import Speed, Supervisor, _forget_old, _latest_steps, rate_of
from gpuwhy.run.watch import read

S = 1_000
"""ms."""

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")


class Clock:
    """Time that stands still."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ms = 0.0
        monkeypatch.setattr(supervise, "time", self)

    def monotonic_ns(self) -> int:
        return at(self.ms)

    def monotonic(self) -> float:
        return at(self.ms) / 1e9


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a run."""
    monkeypatch.setattr(supervise, "EVERY_S", 0.02)
    monkeypatch.setattr(supervise, "find_gpus", lambda: (None, "none here"))
    folder, _ = make(["true"], {}, str(tmp_path / "runs"))
    return folder


def eventually(told: Callable[[], bool], seconds: float = 3) -> bool:
    end = time.monotonic() + seconds
    while not told():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


@on_linux
def test_the_thread_that_samples_gives_way_to_the_program(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And no other thread does: the report is made as fast as ever."""
    seen: list[int] = []
    found = supervise.Watch.sample

    def sample(watch: supervise.Watch, detailed: list[int]) -> None:
        seen.append(os.getpriority(os.PRIO_PROCESS, threading.get_native_id()))
        found(watch, detailed)

    own = os.getpriority(os.PRIO_PROCESS, 0)
    monkeypatch.setattr(supervise.Watch, "sample", sample)
    with Supervisor(run, os.getpid(), 1000):
        assert eventually(lambda: len(seen) > 1)
    assert set(seen) == {max(own, supervise.NICE)}
    assert os.getpriority(os.PRIO_PROCESS, threading.main_thread().native_id or 0) == own


# --- Speed -----------------------------------------------------------------------------------------------------


def test_a_rate_is_of_the_steps_since_a_time() -> None:
    """Twenty steps of 50 ms, then 30 of 100 ms: since 1 s ten a second."""
    process = Process().every(50, 20).every(100, 30, since=1_100)
    assert rate_of(process.steps, at(1_000)) == pytest.approx(10)
    assert rate_of(process.steps, at(1_100)) == pytest.approx(10)
    assert rate_of(process.steps, at(0)) == pytest.approx(51 / 4.1)


def test_of_too_few_steps_or_no_time_there_is_no_rate() -> None:
    steps = Process().every(100, 40).steps
    assert rate_of(steps, at(2_100)) == pytest.approx(10)  # 20 of them
    assert rate_of(steps, at(2_101)) is None
    assert rate_of([], at(0)) is None
    assert rate_of([at(5)] * 50, at(0)) is None


def spans(folder: Path, clock: Clock, rates: list[float]) -> list[bool]:
    """After each span of 30 s with so many steps a second: has throughput fallen?"""
    process, speed, told = Process(), Speed(), []
    for number, rate in enumerate(rates):
        since = 30 * S * number
        process.stepped(*(since + 1_000 * step / rate for step in range(round(30 * rate))))
        process.write(folder)
        clock.ms = since + 29 * S
        assert not speed.has_fallen(folder)
        clock.ms = since + 30 * S
        told.append(speed.has_fallen(folder))
    return told


def test_throughput_has_fallen_when_it_is_a_tenth_below_its_best(tmp_path: Path, clock: Clock) -> None:
    """The best so far, not the one before: three falls of 4 % are one of 11 %."""
    assert spans(tmp_path, clock, [10, 12, 11.5, 11.1, 10.7, 8, 12]) == [*[False] * 4, True, True, False]


def test_spans_with_too_few_steps_are_not_compared(tmp_path: Path, clock: Clock) -> None:
    assert spans(tmp_path, clock, [10, 0.5, 10, 0.1]) == [False] * 4


def test_without_any_steps_nothing_has_fallen(tmp_path: Path, clock: Clock) -> None:
    speed = Speed()
    clock.ms = 31 * S
    assert not speed.has_fallen(tmp_path)
    assert not speed.has_fallen(tmp_path / "none")


def test_the_busiest_process_counts_and_a_cut_step_does_not(tmp_path: Path) -> None:
    Process(pid=1).every(10, 50).write(tmp_path)
    busiest = Process(pid=2).every(10, 90).write(tmp_path)
    with (tmp_path / "processes" / f"{busiest.name}.steps").open("ab") as file:
        file.write(b"\x01\x02\x03")
    assert list(_latest_steps(tmp_path)) == busiest.steps
    assert list(_latest_steps(tmp_path, most=7)) == busiest.steps[-7:]


# --- Asking ------------------------------------------------------------------------------------------------------


def as_probe(folder: Path) -> memoryview:
    """What a probe sees: it has mapped the file before anybody asks."""
    with (folder / "control").open("rb") as file:
        return memoryview(mmap.mmap(file.fileno(), 8, access=mmap.ACCESS_READ))


def test_asking_raises_the_number_that_probes_look_at(run: Path) -> None:
    control = as_probe(run)
    supervisor = Supervisor(run, os.getpid(), 600)
    assert struct.unpack("<Q", control) == (0,)
    for number in (1, 2, 3):
        supervisor.ask()
        assert struct.unpack("<Q", control) == (number,)
    assert (run / "control").stat().st_size == 8


@pytest.mark.parametrize("name", ["run", pytest.param("x" * 120, marks=on_linux)])
def test_whoever_connects_to_the_socket_is_answered_and_has_asked(name: str, run: Path, tmp_path: Path) -> None:
    run = run.rename(tmp_path / name)
    control = as_probe(run)
    with Supervisor(run, os.getpid(), 600):
        assert eventually((run / "socket").exists)
        assert (run / "socket").stat().st_mode & 0o077 == 0
        for number in (1, 2):
            with socket.socket(socket.AF_UNIX) as asking:
                asking.settimeout(3)
                with socket_address(run) as address:
                    asking.connect(address)
                assert asking.recv(100) == b"asked\n"
            assert eventually(lambda number=number: struct.unpack("<Q", control) == (number,))  # type: ignore[misc]
        with socket.socket(socket.AF_UNIX) as rude, socket_address(run) as address:
            rude.connect(address)
        assert eventually(lambda: struct.unpack("<Q", control) == (3,))
    assert not (run / "socket").exists()


def test_a_disk_that_takes_no_socket_costs_only_the_socket(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def refuse(folder: Path) -> Iterator[str]:
        raise OSError(errno.EOPNOTSUPP, "no sockets here")
        yield

    monkeypatch.setattr(supervise, "socket_address", refuse)
    with Supervisor(run, os.getpid(), 600) as supervisor:
        assert eventually(lambda: len(read(run / "counters.jsonl")[0]) > 2)
    assert supervisor.problem is None
    assert not (run / "socket").exists()


@pytest.mark.parametrize(("again_s", "asked"), [(0.0, True), (600.0, False)])
def test_another_profile_is_asked_for_when_throughput_falls_and_the_last_was_long_ago(
    again_s: float, asked: bool, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Speed, "has_fallen", lambda *_: True)
    with Supervisor(run, os.getpid(), again_s) as supervisor:
        assert eventually(lambda: supervisor.asked > 0, 3 if asked else 0.3) is asked
    assert struct.unpack("<Q", as_probe(run))[0] == supervisor.asked


# --- What it leaves ----------------------------------------------------------------------------------------------


def test_the_newest_three_profiles_of_each_process_are_kept(tmp_path: Path) -> None:
    """By number, not by name: 10 is newer than 9."""
    names = [f"1-5.{number}.json" for number in range(11)] + ["2-5.0.json", "2-5.1.json"]
    others = ["1-5.0.json.part", "note.json", "1-5.x.json", "1-5.².json", "1-5.3.json.gz"]
    for name in names + others:
        (tmp_path / name).write_text("{}")
    _forget_old(tmp_path)
    kept = {"1-5.8.json", "1-5.9.json", "1-5.10.json", "2-5.0.json", "2-5.1.json"}
    assert {path.name for path in tmp_path.iterdir()} == kept | set(others)
    _forget_old(tmp_path / "none")


def test_processes_that_make_steps_are_looked_at_thread_by_thread(run: Path) -> None:
    Process(pid=os.getpid()).every(1, 1).write(run)
    (run / "processes" / "strange-name.steps").write_bytes(b"")
    with Supervisor(run, os.getpid(), 600) as supervisor:
        assert eventually(lambda: len(read(run / "counters.jsonl")[0]) > 2)
    assert supervisor.problem is None
    if sys.platform == "linux":
        samples, _ = read(run / "counters.jsonl")
        own = next(process for process in samples[-1].processes if process.pid == os.getpid())
        assert threading.get_native_id() in {thread.tid for thread in own.threads or []}


def test_a_folder_that_vanishes_does_no_harm(run: Path) -> None:
    with Supervisor(run, os.getpid(), 0) as supervisor:
        assert eventually((run / "counters.jsonl").exists)
        shutil.rmtree(run)
        supervisor.ask()
        time.sleep(0.1)
        assert supervisor.thread.is_alive()
    assert not supervisor.thread.is_alive()
    assert not run.exists()


def test_a_failure_in_the_thread_is_kept_and_not_printed(
    run: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def fails(_: object) -> bool:
        raise RuntimeError("out of order")

    monkeypatch.setattr(supervise, "_is_asked", fails)
    with Supervisor(run, os.getpid(), 600) as supervisor:
        assert eventually(lambda: supervisor.problem is not None)
    assert supervisor.problem == "RuntimeError: out of order"
    assert capfd.readouterr() == ("", "")


# --- How it ends --------------------------------------------------------------------------------------------------


def test_the_thread_ends_at_once_and_the_last_sample_is_of_the_end(run: Path) -> None:
    with Supervisor(run, os.getpid(), 600) as supervisor:
        assert eventually(lambda: len(read(run / "counters.jsonl")[0]) > 1)
        ended = time.monotonic_ns()
    assert time.monotonic_ns() - ended < 3_000 * MS
    assert not supervisor.thread.is_alive()
    assert read(run / "counters.jsonl")[0][-1].t > ended


def test_a_driver_that_hangs_keeps_nobody_waiting_for_over_three_seconds(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hanging = threading.Event()
    monkeypatch.setattr(supervise, "find_gpus", lambda: (hanging.wait(), None))
    monkeypatch.setattr(supervise, "ENDING_S", 0.2)
    begun = time.monotonic()
    with Supervisor(run, os.getpid(), 600):
        pass
    assert time.monotonic() - begun < 3
    hanging.set()


@pytest.mark.skipif(not hasattr(signal, "pthread_sigmask"), reason="no signals of threads on this system")
def test_no_signal_is_taken_by_the_thread(run: Path) -> None:
    """Else one that comes while the other thread is not waiting for it would end gpuwhy, and not the program."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    with Supervisor(run, os.getpid(), 600) as supervisor:
        assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == before
        if sys.platform == "linux":
            text = Path(f"/proc/self/task/{supervisor.thread.native_id}/status").read_text()
            blocked = int(next(line for line in text.splitlines() if line.startswith("SigBlk")).split()[1], 16)
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGCHLD):
                assert blocked >> (number - 1) & 1


def test_numpy_is_not_imported_before_the_program_has_ended() -> None:
    """Its import takes longer than all else that happens before the program starts."""
    text = "import sys, gpuwhy.commands.run, gpuwhy.run.launch, gpuwhy.run.supervise; print('numpy' in sys.modules)"
    told = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True).stdout
    assert told == "False\n"
