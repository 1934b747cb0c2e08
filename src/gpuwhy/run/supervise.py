"""What gpuwhy's own process does while the program runs: samples counters, and asks for further profiles.

All of it in one thread beside the one that waits for the program: a driver that hangs must not keep that from ending.
NumPy is not imported here: the program would start later, and NumPy's own threads would take signals that are for it.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import time
from array import array
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from gpuwhy.run.folder import KEPT, socket_address
from gpuwhy.run.gpus import find_gpus
from gpuwhy.run.watch import Watch

EVERY_S = 0.5
ENDING_S = 2.0
"""How long the thread is waited for at the end."""
MOST_DETAILED = 16
"""Processes whose threads are looked at."""
SPAN_S = 30.0
"""Throughput is compared over spans of so long."""
FALLEN = 0.9
"""Throughput below this part of its best is worth another profile."""
LEAST_STEPS = 20
NICE = 10
"""Of the thread that samples: it waits for cores rather than the program does."""


class Supervisor:
    """`with Supervisor(folder, pid, again_s): …` for as long as the program runs."""

    def __init__(self, folder: Path, pid: int, again_s: float) -> None:
        self.folder, self.pid, self.again_s = folder, pid, again_s
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self._run, name="gpuwhy-supervisor", daemon=True)
        self.asked_at = time.monotonic()
        self.asked = 0
        self.problem: str | None = None

    def __enter__(self) -> Supervisor:
        with _no_signals():
            self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stopping.set()
        self.thread.join(ENDING_S)

    def _run(self) -> None:
        try:
            self._supervise()
        except Exception as error:  # nothing of it may show in the program's output
            self.problem = self.problem or f"{type(error).__name__}: {error}"

    def _supervise(self) -> None:
        _give_way()
        gpus, _ = find_gpus()
        listening = _listen(self.folder)
        speed = Speed()
        with Watch(self.folder / "counters.jsonl", self.pid, gpus) as watch:
            while True:
                watch.sample(self._detailed())
                self.problem = watch.problem
                if listening is not None and _is_asked(listening):
                    self.ask()
                if speed.has_fallen(self.folder) and time.monotonic() - self.asked_at > self.again_s:
                    self.ask()
                    speed = Speed()
                _forget_old(self.folder / "profiles")
                if self.stopping.wait(EVERY_S):
                    break
            watch.sample(self._detailed())
        if listening is not None:
            listening.close()
            with suppress(OSError):
                (self.folder / "socket").unlink()
        if gpus is not None:
            gpus.close()

    def ask(self) -> None:
        """Have every watched process record another profile."""
        self.asked += 1
        self.asked_at = time.monotonic()
        with suppress(OSError), open(self.folder / "control", "r+b") as file:  # not anew: the probe has it mapped
            file.write(self.asked.to_bytes(8, "little"))

    def _detailed(self) -> list[int]:
        """The processes that make steps."""
        names = sorted(path.name for path in (self.folder / "processes").glob("*.steps"))
        pids = [name.partition("-")[0] for name in names]
        return [int(pid) for pid in pids if pid.isdecimal()][:MOST_DETAILED]


def _give_way() -> None:
    """Where cores are scarce, the program's threads come before this one (on Linux a thread has a priority of its own).

    A sample takes some ms of a core twice a second.
    """
    if sys.platform == "linux":
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICE)


@contextmanager
def _no_signals() -> Iterator[None]:
    """Threads that are started take no signals: those are for the one that waits for the program."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class Speed:
    """Steps a second of the run's busiest process, span by span."""

    def __init__(self) -> None:
        self.begun = time.monotonic_ns()
        self.best = 0.0

    def has_fallen(self, folder: Path) -> bool:
        """Whether the last span was slower than the best one by much; asked at any time, judged once a span."""
        now = time.monotonic_ns()
        if now - self.begun < SPAN_S * 1e9:
            return False
        since, self.begun = self.begun, now
        rate = rate_of(_latest_steps(folder), since)
        if rate is None:
            return False
        fallen = rate < FALLEN * self.best
        self.best = max(self.best, rate)
        return fallen


def rate_of(steps: Sequence[int], since: int) -> float | None:
    """Steps a second since a time, by the last step that was seen; None of too few to tell. `steps` ascend."""
    first = bisect_left(steps, since)
    count = len(steps) - first
    if count < LEAST_STEPS or steps[-1] <= steps[first]:
        return None
    return (count - 1) / ((steps[-1] - steps[first]) / 1e9)


def _latest_steps(folder: Path, most: int = 1_000_000) -> array[int]:
    """The latest steps of the process that made most."""
    steps = array("q")
    with suppress(OSError, ValueError):  # ValueError: there is none
        largest = max((folder / "processes").glob("*.steps"), key=lambda path: path.stat().st_size)
        with open(largest, "rb") as file:
            size = file.seek(0, os.SEEK_END) // 8
            file.seek(max(size - most, 0) * 8)
            data = file.read(min(size, most) * 8)
            steps.frombytes(data[: len(data) - len(data) % 8])
    return steps


def _listen(folder: Path) -> socket.socket | None:
    """A socket on which another profile can be asked for; none where there can be none (on some shared disks, say)."""
    if not hasattr(socket, "AF_UNIX"):
        return None
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with socket_address(folder) as address:
            listening.bind(address)
        os.chmod(folder / "socket", 0o600)
        listening.listen(4)
        listening.setblocking(False)
    except OSError:
        listening.close()
        return None
    return listening


def _is_asked(listening: socket.socket) -> bool:
    """Whether somebody has asked; all who have are answered."""
    asked = False
    while True:
        try:
            connection, _ = listening.accept()
        except OSError:
            return asked
        asked = True
        with connection, suppress(OSError):
            connection.sendall(b"asked\n")


def _forget_old(profiles: Path) -> None:
    """Keep the newest few profiles of each process."""
    kept: dict[str, list[tuple[int, Path]]] = {}
    for path in profiles.glob("*.json"):
        process, _, number = path.stem.rpartition(".")
        if number.isdecimal():
            kept.setdefault(process, []).append((int(number), path))
    for some in kept.values():
        for _, path in sorted(some)[:-KEPT]:
            with suppress(OSError):
                path.unlink()
