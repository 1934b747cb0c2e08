"""What Linux says of a program's processes and threads, from outside (/proc). Elsewhere nothing is known.

A process may end between any two looks at it: what cannot be read is left out, and nothing here raises.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from typing import NamedTuple

import msgspec

from gpuwhy.run.values import Amount, Text, Whole

TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096
LONGEST_NAME = 64
MOST_BYTES = 1 << 16
"""More than any file holds that is read here, but the list of a program's controllers on odd systems."""
HOST_PIDS = 0xEFFFFFFC
"""Number of the host's own namespace of pids. Source: include/linux/proc_ns.h, PROC_PID_INIT_INO."""


class ThreadSample(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A thread at one time. Seconds are cumulative since it started."""

    tid: Whole
    name: Text | None = None
    cpu_s: Amount | None = None
    wait_s: Amount | None = None
    """Ready to run, but no core was free."""
    state: Text | None = None
    """`R` running or ready, `S` sleeping, `D` waiting for a disk or a driver, and the other letters of ps."""


class ProcessSample(msgspec.Struct, frozen=True, omit_defaults=True):
    """A process at one time. Seconds are cumulative since it started."""

    pid: Whole
    parent: Whole | None = None
    command: Text | None = None
    started: Whole | None = None
    """ns since the machine started, exact to a clock tick (10 ms). With the pid it names one process for good."""
    rss: Whole | None = None
    """Bytes of memory in use, which may be shared with other processes."""
    cpu_s: Amount | None = None
    """User and system time of all its threads, ended ones too, exact to a clock tick."""
    wait_s: Amount | None = None
    """Its main thread was ready to run, but no core was free. Linux keeps no sum over threads."""
    threads: list[ThreadSample] | None = None
    """Only where asked for."""


class _Stat(NamedTuple):
    """Some fields of /proc/PID/stat, which a thread has too."""

    name: str
    state: str
    parent: int
    cpu_s: float
    threads: int
    started: int
    rss: int


class Tree:
    """A process and all that descend from it.

    A descendant whose parent has ended belongs to another parent from then on, and stays a descendant here. Of the
    machine's other processes each is looked at once, when it is new: a machine has thousands. (A number that another
    process gets between two samples is missed; numbers are given out in turn, so that this takes thousands of starts.)
    """

    def __init__(self, root_pid: int, proc: str = "/proc") -> None:
        self.root, self.proc = root_pid, proc
        self.members: dict[int, int] = {}
        """When each started."""
        self.strangers: set[int] = set()

    def sample(self, detailed: Collection[int] = ()) -> list[ProcessSample]:
        """All of them now, in ascending order of pid; of those in `detailed` all threads as well."""
        stats = self._stats()
        return [
            ProcessSample(
                pid,
                stat.parent,
                stat.name,
                stat.started,
                stat.rss,
                stat.cpu_s,
                _scheduled(f"{self.proc}/{pid}/schedstat")[1],
                threads(pid, self.proc) if pid in detailed else None,
            )
            for pid, stat in sorted(stats.items())
        ]

    def _stats(self) -> dict[int, _Stat]:
        """What /proc/PID/stat says of the members, after new processes were told to be members or strangers."""
        pids = _numbers(self.proc)
        self.strangers.intersection_update(pids)
        stats = {pid: stat for pid in pids if pid not in self.strangers and (stat := _stat(f"{self.proc}/{pid}/stat"))}
        # Members as of before, unless their number is another process's now.
        members = {pid for pid, started in self.members.items() if pid in stats and stats[pid].started == started}
        if self.root in stats and self.members.get(self.root, stats[self.root].started) == stats[self.root].started:
            members.add(self.root)
        for pid in list(stats):
            line: list[int] = []
            while pid in stats and pid not in members and pid not in line:
                line.append(pid)
                pid = stats[pid].parent
            if pid in members:
                members.update(line)
        self.strangers.update(stats.keys() - members)
        self.members.update({pid: stats[pid].started for pid in members})
        for gone in self.members.keys() - members - {self.root}:  # the root's start is kept: it comes once
            del self.members[gone]
        # What has ended, and waits for its parent to notice, does nothing any more.
        return {pid: stats[pid] for pid in members if stats[pid].state not in "ZX" or stats[pid].threads > 1}


def processes(root_pid: int, detailed: Collection[int] = ()) -> list[ProcessSample]:
    """The process and all that descend from it now, with the threads of those in `detailed`."""
    return Tree(root_pid).sample(detailed)


def threads(pid: int, proc: str = "/proc") -> list[ThreadSample] | None:
    """All threads of a process, in ascending order; None where it has ended or is not to be read."""
    found = []
    for tid in sorted(_numbers(f"{proc}/{pid}/task")):
        stat = _stat(f"{proc}/{pid}/task/{tid}/stat")
        if stat:
            cpu_s, wait_s = _scheduled(f"{proc}/{pid}/task/{tid}/schedstat")
            found.append(ThreadSample(tid, stat.name, stat.cpu_s if cpu_s is None else cpu_s, wait_s, stat.state))
    return found or None


def host_pids(proc: str = "/proc") -> bool | None:
    """Whether processes have the numbers here that the host, and with it the GPU's driver, knows them by."""
    try:
        return os.stat(f"{proc}/self/ns/pid").st_ino == HOST_PIDS
    except OSError:
        return None


def cores(pid: int = 0, proc: str = "/proc", cgroups: str = "/sys/fs/cgroup") -> float:
    """How many CPU cores a process (0: this one) may use: its affinity, or its control group's quota if less."""
    limits = _quotas(f"{proc}/{pid or 'self'}/cgroup", cgroups)
    try:
        limits.append(float(len(os.sched_getaffinity(pid))))
    except (AttributeError, OSError):  # not on this system, or the process has ended
        limits.append(float(os.cpu_count() or 1))
    return min(limits)


def _quotas(own: str, cgroups: str) -> list[float]:
    """Cores of each quota that holds for the process, whose control groups stand in the file `own`."""
    limits: list[float] = []
    for line in _text(own).splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controllers and "cpu" not in controllers.split(","):
            continue
        mounts = [f"{cgroups}/{controllers}", f"{cgroups}/cpu"] if controllers else [cgroups, f"{cgroups}/unified"]
        # A quota holds for all groups within. In a container the path may be the host's, and only the top be there.
        names = [name for name in path.split("/") if name not in ("", "..")]
        folders = ["/".join([mount, *names[:depth]]) for mount in mounts for depth in range(len(names) + 1)]
        for folder in folders:
            if controllers:
                text = f"{_text(f'{folder}/cpu.cfs_quota_us')} {_text(f'{folder}/cpu.cfs_period_us')}"
            else:
                text = _text(f"{folder}/cpu.max")
            words = text.split()
            if len(words) == 2 and all(word.isdecimal() and int(word) > 0 for word in words):  # not `max`, not -1
                limits.append(int(words[0]) / int(words[1]))
    return limits


def _stat(path: str) -> _Stat | None:
    """A stat file's fields. The name stands in parentheses and may hold any bytes, of these and newlines too."""
    content = _read(path)
    begin, end = content.find(b"("), content.rfind(b")")
    fields = content[end + 1 :].split()
    try:
        return _Stat(
            name=content[begin + 1 : end].decode("utf-8", "replace")[:LONGEST_NAME],
            state=fields[0].decode(),
            parent=int(fields[1]),
            cpu_s=(int(fields[11]) + int(fields[12])) / TICKS,
            threads=int(fields[17]),
            started=int(fields[19]) * 1_000_000_000 // TICKS,
            rss=max(int(fields[21]), 0) * PAGE,
        )
    except (IndexError, ValueError):  # gone, or not Linux's format
        return None


def _scheduled(path: str) -> tuple[float | None, float | None]:
    """CPU time and time in the run queue of a thread, in seconds, from a schedstat file."""
    fields = _read(path).split()
    # A kernel that does not count this writes zeros: a thread that exists has been run at least once.
    if len(fields) < 3 or not all(field.isdigit() for field in fields) or int(fields[2]) == 0:
        return None, None
    return int(fields[0]) / 1e9, int(fields[1]) / 1e9


def _numbers(folder: str) -> list[int]:
    try:
        return [int(name) for name in os.listdir(folder) if name.isdecimal()]
    except OSError:
        return []


def _text(path: str) -> str:
    return _read(path).decode("utf-8", "replace")


def _read(path: str) -> bytes:
    """A small file of /proc in one read, which is how the kernel gives it consistently; empty where it cannot be."""
    try:
        file = os.open(path, os.O_RDONLY)
    except OSError:
        return b""
    try:
        return os.read(file, MOST_BYTES)
    except OSError:  # the process has ended since
        return b""
    finally:
        os.close(file)
