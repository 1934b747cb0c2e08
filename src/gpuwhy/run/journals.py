"""The journals of the watched processes → columns of records, and notes.

Whatever lies in the files, what comes out of here is sound: times are in [0, 2^62], steps ascend, numbers and texts of
notes are numbers and texts. What is not is left out, and counted.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuwhy.probe.format import COLUMNS, DEVICE, LAST_KIND

LONGEST_NOTE = 100_000
LAYOUT = np.dtype(list(COLUMNS))
STEP = np.dtype("<i8")
MOST = 1 << 62
"""Of any number: sums and differences of two do not overflow."""
BACK_NS = 1_000_000
"""Two threads that note steps at the same time may do so in the other order; what goes back further is damaged."""
NUMBERS = {
    *("t", "begun", "stopped", "kind", "step", "steps", "first", "thread", "tid", "pid", "parent", "index", "workers"),
    *("num_alloc_retries", "num_device_alloc", "allocated_bytes.all.peak", "reserved_bytes.all.peak"),
}
TEXTS = {"note", "name", "uuid", "version", "file", "error", "why", "what", "rank", "co_name", "co_filename"}


@dataclass(frozen=True, eq=False)
class Journal:
    """What one process noted. `records` is a structured array (`probe/format.py`), in the order of writing."""

    name: str
    pid: int
    steps: NDArray[np.int64]
    """When each step began."""
    records: NDArray[Any]
    notes: list[dict[str, Any]]
    damage: str | None = None

    def of(self, kind: int) -> NDArray[Any]:
        """Records of one kind."""
        found: NDArray[Any] = self.records[self.records["kind"] == kind]
        return found

    def noted(self, what: str) -> list[dict[str, Any]]:
        """Notes of one kind, in their order."""
        return [note for note in self.notes if note.get("note") == what]

    @property
    def rank(self) -> int | None:
        """The rank that the process was started as, or took."""
        told = next(iter(self.noted("rank") or self.noted("process")), {}).get("rank")
        return int(told) if isinstance(told, str) and told.isdecimal() and len(told) < 8 else None


def read(folder: Path) -> list[Journal]:
    """All journals of a run, by rank, then by name. Never raises: what is damaged says so."""
    found = sorted((folder / "processes").glob("*.notes.jsonl"))
    journals = [_read(path) for path in found]
    return sorted(journals, key=lambda journal: (journal.rank is None, journal.rank or 0, journal.name))


def _read(path: Path) -> Journal:
    name = path.name.removesuffix(".notes.jsonl")
    notes, bad = _notes(path)
    damage = [f"{bad} notes could not be read"] if bad else []
    try:
        steps, records = (
            _column(path.with_name(f"{name}.{end}"), of) for end, of in (("steps", STEP), ("records", LAYOUT))
        )
    except OSError as error:
        steps, records = np.empty(0, STEP), np.empty(0, LAYOUT)
        damage.append(f"it cannot be read: {error.strerror}")
    whole, known = _ascending(steps), records[_are_sound(records)]
    if len(whole) < len(steps):
        damage.append(f"steps after the first {len(whole):,} are damaged")
    if len(known) < len(records):
        damage.append(f"{len(records) - len(known):,} records are damaged")
    return Journal(name, _pid(name), whole, known, notes, "; ".join(damage) or None)


def _ascending(steps: NDArray[np.int64]) -> NDArray[np.int64]:
    """Steps up to the first that cannot be right, in order."""
    wrong = (steps < 0) | (steps > MOST)
    wrong[1:] |= steps[1:] < np.maximum(steps[:-1], BACK_NS) - BACK_NS
    whole = steps[: int(np.argmax(wrong)) if wrong.any() else len(steps)]
    return np.maximum.accumulate(whole)


def _are_sound(records: NDArray[Any]) -> NDArray[np.bool_]:
    sound = (records["kind"] >= DEVICE) & (records["kind"] <= LAST_KIND)
    sound &= (records["start"] >= 0) & (records["end"] >= records["start"]) & (records["end"] <= MOST)
    for column in ("value", "more"):
        sound &= (records[column] >= -1) & (records[column] <= MOST)
    return np.asarray(sound)


def _column(path: Path, of: np.dtype[Any]) -> NDArray[Any]:
    """A file's items, without one that is cut; none where there is no file."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        data = b""
    return np.frombuffer(data[: len(data) - len(data) % of.itemsize], of)


def _pid(name: str) -> int:
    first = name.partition("-")[0]
    return int(first) if first.isdecimal() and len(first) < 12 else 0


def _notes(path: Path) -> tuple[list[dict[str, Any]], int]:
    notes, bad = [], 0
    try:
        with path.open("rb") as file:
            while line := file.readline(LONGEST_NOTE):
                try:
                    note = json.loads(line)
                except (ValueError, RecursionError):
                    note = None
                if isinstance(note, dict):
                    notes.append({name: value for name, value in note.items() if _is_sound(name, value)})
                else:
                    bad += 1
    except OSError:
        bad += 1
    return notes, bad


def _is_sound(name: str, value: object) -> bool:
    """Whether a value of a note is what one of this name can be."""
    if name in NUMBERS:
        return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST
    return name not in TEXTS or isinstance(value, str)
