"""What the boxes of a drawing are called, and the calls around them: each text once, and no more than there is room."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpuwhy.intervals import Rows
from gpuwhy.ledger.partition import Owned
from gpuwhy.reports.callpaths import call_path, callers
from gpuwhy.reports.html.limits import Limits, plain, plain_kernel
from gpuwhy.timeline import Timeline

MOST_CALLERS = 8
NOTHING, OPERATION, PIECE = range(3)
"""What the row of a box counts: nothing, the device's operations, or pieces of host calls."""


class Names:
    """Names and call paths of boxes."""

    def __init__(self, timeline: Timeline, owned: Owned, limits: Limits, share: int) -> None:
        self.timeline, self.ops = timeline, owned.ops
        self.longest = limits.name
        self.room = limits.names // share
        self.calls = limits.calls // share
        self.names: list[str] = []
        self.paths: list[list[int]] = []
        self.number: dict[str, int] = {}
        self.known: dict[tuple[int, ...], int] = {}
        self.name_at: dict[tuple[int, int], int] = {}
        self.path_at: dict[int, int] = {}
        self.nameless = 0

    def of_boxes(self, of: NDArray[np.int64], rows: Rows, ns: list[int]) -> tuple[list[int], list[int]]:
        """The numbers of each box's name and path, -1 for none."""
        timeline = self.timeline
        launch = self.ops.launch[np.where(of == OPERATION, rows, 0)] if len(self.ops) else np.zeros(len(rows), np.int64)
        launched = timeline.piece_at(np.maximum(launch, 0)) if len(timeline.calls) else np.full(len(rows), -1)
        launched = np.where(launch >= 0, launched, -1)
        names, paths = [-1] * len(rows), [-1] * len(rows)
        for box in np.argsort(-np.array(ns, np.int64), kind="stable").tolist():
            row = int(rows[box])
            if of[box] == OPERATION:
                names[box] = self._name_of(OPERATION, int(self.ops.name[row]))
                paths[box] = self._path(int(launched[box]))
            elif of[box] == PIECE:
                names[box] = self._name_of(PIECE, int(timeline.calls.name[timeline.nesting.call[row]]))
                paths[box] = self._path(int(timeline.nesting.parent[row]))
            self.nameless += names[box] < 0 and of[box] != NOTHING
        return names, paths

    def notes(self) -> list[str]:
        """What there was no room for."""
        if not self.nameless:
            return []
        return [f"there are too many names: {self.nameless:,} of the shortest boxes show only their account"]

    def _name_of(self, kind: int, name: int) -> int:
        if (kind, name) not in self.name_at:
            text = self.timeline.names[name]
            short = plain_kernel(text, self.longest) if kind == OPERATION else plain(text, self.longest)
            self.name_at[kind, name] = self._number(short)
        return self.name_at[kind, name]

    def _number(self, text: str) -> int:
        if text not in self.number:
            if len(text) > self.room:
                return -1
            self.room -= len(text)
            self.number[text] = len(self.names)
            self.names.append(text)
        return self.number[text]

    def _path(self, piece: int) -> int:
        """The calls around a piece and itself, -1 where there is none or no room for it."""
        if piece < 0:
            return -1
        if piece not in self.path_at:
            found = callers(call_path(self.timeline, piece), "")[-MOST_CALLERS:]
            numbers = (self._number(plain(name, self.longest)) for name in found)
            self.path_at[piece] = self._path_number(tuple(number for number in numbers if number >= 0))
        return self.path_at[piece]

    def _path_number(self, around: tuple[int, ...]) -> int:
        if around not in self.known:
            if not around or len(around) > self.calls:
                return -1
            self.calls -= len(around)
            self.known[around] = len(self.paths)
            self.paths.append(list(around))
        return self.known[around]
