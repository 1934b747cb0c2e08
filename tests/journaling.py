"""Folders of runs, written by hand as the probe and `gpuwhy run` write them: 40 bytes a record, 8 a step, JSON notes.

Times are ms (floats are fine) from the start of the run, which lies at `BEGUN`.
"""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

from gpuwhy.run.journals import Journal, read
from gpuwhy.run.steps import Steps, steps_of

MS = 1_000_000
BEGUN = 5_000_000_000_000
LOOP, OTHER = 0x1111, 0x2222
"""Threads."""
PID, TID = 4100, 4100

DEVICE, LOADER, FORWARD, GENERATE, COLLECTION, CHECKPOINT, COMPILE, EVALUATION, PROFILE, LOCK = range(2, 12)
REPLAY, CALL, BATCH, TOKEN, OPTIMIZER, USER = range(1, 7)
TRAINS = 1


def at(ms: float) -> int:
    """A time of the run."""
    return BEGUN + round(ms * MS)


class Process:
    """The journal of a process that is being made up."""

    def __init__(self, pid: int = PID, rank: int | None = None) -> None:
        self.name = f"{pid}-{BEGUN}"
        self.steps: list[int] = []
        self.records = b""
        self.lines: list[dict[str, Any]] = []
        self.note("process", 1, pid=pid, rank=None if rank is None else str(rank))

    def note(self, kind_of: str, ms: float, /, **values: Any) -> Process:
        self.lines.append({"t": at(ms), "note": kind_of, **values})
        return self

    def anchored(self, kind: int, ms: float = 1, thread: int = LOOP) -> Process:
        """From here on steps are told by this anchor."""
        return self.note("anchor", ms, kind=kind, what=None, step=len(self.steps), thread=thread, tid=TID)

    def stepped(self, *times: float) -> Process:
        self.steps += [at(ms) for ms in times]
        return self

    def every(self, ms: float, count: int, since: float = 0) -> Process:
        """`count` steps of the same length, which have one mark more."""
        return self.stepped(*(since + ms * number for number in range(count + 1)))

    def record(
        self,
        kind: int,
        start: float,
        end: float,
        value: int = 0,
        more: int = 0,
        flags: int = 0,
        detail: int = 0,
        thread: int = LOOP,
    ) -> Process:
        return self.raw(kind, flags, detail, thread, at(start), at(end), value, more)

    def raw(self, *values: int) -> Process:
        self.records += struct.pack("<BBHIqqqq", *values)
        return self

    def device(self, step: int, ms: float, steps: int = 1) -> Process:
        """Steps from this number on took so much together on the device."""
        return self.raw(DEVICE, 0, 0, 0, steps, steps, step, round(ms * MS))

    def write(self, folder: Path) -> Process:
        processes = folder / "processes"
        processes.mkdir(parents=True, exist_ok=True)
        (processes / f"{self.name}.notes.jsonl").write_text("".join(json.dumps(line) + "\n" for line in self.lines))
        (processes / f"{self.name}.steps").write_bytes(struct.pack(f"<{len(self.steps)}q", *self.steps))
        (processes / f"{self.name}.records").write_bytes(self.records)
        return self


def write_run(folder: Path, *processes: Process, wall: float | None = 1_000, **changes: Any) -> Path:
    """The folder of a run of so many ms."""
    folder.mkdir(parents=True, exist_ok=True)
    told = {
        **{"version": "0", "command": ["python", "train.py"], "folder": str(folder)},
        **{"begun_ns": BEGUN, "begun_time_ns": 1_700_000_000 * 10**9},
        **({} if wall is None else {"ended_ns": at(wall), "exit_status": 0}),
        **changes,
    }
    (folder / "run.json").write_text(json.dumps(told))
    for process in processes:
        process.write(folder)
    return folder


def journal_of(folder: Path, process: Process) -> Journal:
    """The process as it is read again, alone."""
    process.write(folder)
    (journal,) = read(folder)
    return journal


def steps_in(folder: Path, process: Process) -> Steps:
    """Its steps."""
    steps = steps_of(journal_of(folder, process))
    assert steps is not None
    return steps
