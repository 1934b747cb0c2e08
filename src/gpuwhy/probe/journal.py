"""Files that a process appends to: when steps began (int64, ns), records of fixed size (`format.py`), and notes, a
JSON object a line.

What is written is in the kernel's hands at once, so that it outlives a program that is killed; it is written a few
times a second, so that it costs little.
"""

from __future__ import annotations

import json
import os
import sys
import time
from array import array
from typing import Any

from .format import RECORD

EVERY_NS = 250_000_000
"""Records are written at most so often: what a killed program can lose."""
TEND_NS = 100_000_000
"""Events are put on the device's stream, and files written, no more often than this."""
MOST_RECORDS = 20_000_000
"""800 MB. Nothing is recorded after them, and the journal says so."""
MOST_NOTES = 20_000


class Journal:
    """The journal of one process. Its files appear with the first `flush`.

    They are opened anew each time: a number that is kept open can be closed by the program (daemons close all), and
    then belong to a file of its own.
    """

    def __init__(self, folder: str) -> None:
        self.path = os.path.join(folder, "processes", f"{os.getpid()}-{time.monotonic_ns()}")
        self.buffer = bytearray()
        self.steps = array("q")
        """When steps began, since the last `flush`."""
        self.steps_written = self.latest = 0
        self.several = False
        """Steps are told by several threads, which can overtake each other."""
        self.written = time.monotonic_ns()
        self.records = self.notes = 0
        self.waiting: list[bytes] = []

    @property
    def stepped(self) -> int:
        """How many steps have begun."""
        return self.steps_written + len(self.steps)

    def record(
        self, kind: int, flags: int, detail: int, thread: int, start: int, end: int, value: int, more: int
    ) -> None:
        """Append a record; it is written with the next `flush`."""
        self.buffer += RECORD.pack(kind, flags, detail, thread & 0xFFFFFFFF, start, end, value, more)

    def note(self, kind: str, /, **values: Any) -> None:
        """Append a note; it is written with the next `flush`."""
        self.notes += 1
        if self.notes <= MOST_NOTES:
            told = {"t": time.monotonic_ns(), "note": kind, **values}
            self.waiting.append(json.dumps(told, default=str).encode() + b"\n")

    def flush(self, now: int) -> None:
        """Write what was recorded and noted."""
        if not self.records and not os.path.exists(f"{self.path}.notes.jsonl"):
            self.waiting.insert(0, json.dumps(about(), default=str).encode() + b"\n")
        self.written = now
        if self.waiting:
            _append(f"{self.path}.notes.jsonl", b"".join(self.waiting))
            self.waiting.clear()
        if self.steps:
            steps, self.steps = self.steps, array("q")
            self.steps_written += len(steps)
            if self.several:
                steps = array("q", sorted(max(step, self.latest) for step in steps))
            self.latest = steps[-1]
            _append(f"{self.path}.steps", steps.tobytes())
        if self.buffer:
            buffer, self.buffer = self.buffer, bytearray()
            if self.records < MOST_RECORDS:
                _append(f"{self.path}.records", buffer)
            self.records += len(buffer) // RECORD.size


def about() -> dict[str, Any]:
    """What this process is, and how its clock relates to the time of day."""
    known = os.environ.get
    return {
        "note": "process",
        "t": time.monotonic_ns(),
        "time_ns": time.time_ns(),
        "pid": os.getpid(),
        "parent": os.getppid(),
        "argv": [str(part)[:200] for part in (getattr(sys, "argv", None) or [])[:50]],
        "python": sys.version.split()[0],
        "rank": known("RANK"),
        "local_rank": known("LOCAL_RANK"),
        "world_size": known("WORLD_SIZE"),
        "visible_devices": known("CUDA_VISIBLE_DEVICES"),
    }


def _append(path: str, data: bytes | bytearray) -> None:
    """All of it, in as few writes as there can be: what is cut short would shift every record after it."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_CLOEXEC", 0), 0o644)
    try:
        written = 0
        while written < len(data):
            written += os.write(file, data[written:])
    finally:
        os.close(file)
