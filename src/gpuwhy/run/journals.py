"""The journals of the watched processes → columns of records, and notes."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuwhy.probe.format import COLUMNS, LAST_KIND

LONGEST_NOTE = 100_000
LAYOUT = np.dtype(list(COLUMNS))
STEP = np.dtype("<i8")


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
        """The rank that the process was started as."""
        told = next(iter(self.noted("process")), {}).get("rank")
        return int(told) if isinstance(told, str) and told.isdigit() and len(told) < 8 else None


def read(folder: Path) -> list[Journal]:
    """All journals of a run, by rank, then by name. Never raises: what is damaged says so."""
    found = sorted((folder / "processes").glob("*.notes.jsonl"))
    journals = [_read(path) for path in found]
    return sorted(journals, key=lambda journal: (journal.rank is None, journal.rank or 0, journal.name))


def _read(path: Path) -> Journal:
    name = path.name.removesuffix(".notes.jsonl")
    notes, bad = _notes(path)
    damage = f"{bad} notes could not be read" if bad else None
    try:
        steps, records = (
            _column(path.with_name(f"{name}.{end}"), of) for end, of in (("steps", STEP), ("records", LAYOUT))
        )
    except OSError as error:
        steps, records, damage = np.empty(0, STEP), np.empty(0, LAYOUT), f"it cannot be read: {error.strerror}"
    known = (records["kind"] >= 1) & (records["kind"] <= LAST_KIND) & (records["end"] >= records["start"])
    if not known.all():
        damage = f"{int((~known).sum())} records are damaged"
        records = records[known]
    return Journal(name, _pid(name), steps, records, notes, damage)


def _column(path: Path, of: np.dtype[Any]) -> NDArray[Any]:
    """A file's items, without one that is cut; none where there is no file."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        data = b""
    return np.frombuffer(data[: len(data) - len(data) % of.itemsize], of)


def _pid(name: str) -> int:
    first = name.partition("-")[0]
    return int(first) if first.isdigit() and len(first) < 12 else 0


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
                    notes.append(note)
                else:
                    bad += 1
    except OSError:
        bad += 1
    return notes, bad
