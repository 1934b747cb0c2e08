"""The scanner's raw JSON tokens as texts, and numbers for threads: both looked at once a value, not once an event."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from gpuwhy.arrays import unique
from gpuwhy.timeline import Thread

LONGEST_NAME = 10_000
"""Longer names are cut, in characters; the longest that PyTorch writes (of template kernels) have about 5,000."""


class Texts:
    """The scanner's raw JSON tokens, decoded when asked for."""

    def __init__(self, raw: Sequence[bytes]) -> None:
        self.raw = raw

    def __len__(self) -> int:
        return len(self.raw)

    def __getitem__(self, code: int) -> str:
        """The text of a token; numbers and other values as they stand in the file. Very long ones are cut."""
        return "" if code < 0 else self._full(self.raw[code])[:LONGEST_NAME]

    def _full(self, raw: bytes) -> str:
        if not raw.startswith(b'"'):
            return raw.decode("utf-8", "replace")
        if b"\\" not in raw:
            return raw[1:-1].decode("utf-8", "replace")
        value = json_value(raw)
        return value if isinstance(value, str) else raw[1:-1].decode("utf-8", "replace")

    def where(self, codes: NDArray[np.int32], test: Any) -> NDArray[np.bool_]:
        """For each code whether its text passes `test`, asked once a text."""
        return self.lookup(codes, test, bool)

    def lookup(self, codes: NDArray[np.int32], function: Any, dtype: Any) -> NDArray[Any]:
        """`function(text)` for each code, asked once a text."""
        used = distinct(codes, len(self))
        table = np.zeros(len(self) + 1, dtype)
        for code in used.tolist():
            table[code] = function(self[code])
        table[-1] = function("")
        return table[codes]

    def keep(self, *columns_of: NDArray[np.int32]) -> list[str]:
        """Renumber name columns in place, from 0 without gaps; returns their texts."""
        used = np.zeros(len(self), bool)
        for codes in columns_of:
            used[codes[codes >= 0]] = True
        kept = np.flatnonzero(used)
        number = np.full(len(self) + 1, len(kept), np.int32)
        number[kept] = np.arange(len(kept), dtype=np.int32)
        for codes in columns_of:
            codes[:] = number[codes]
        return [*(self[code] for code in kept.tolist()), ""]


class Threads:
    """Numbers for (process, thread) pairs in the order of their texts."""

    def __init__(self, texts: Texts, rank: int) -> None:
        self.texts, self.rank = texts, rank
        self.known: list[Thread] = []
        self.number: dict[tuple[int, int], int] = {}

    def of(self, pid: NDArray[np.int32], tid: NDArray[np.int32], add: bool = False) -> NDArray[np.int32]:
        """The number of each pair, -1 for one that is not known and not to be added."""
        size = len(self.texts) + 1
        pids, tids = distinct(pid, size, missing=True), distinct(tid, size, missing=True)
        place = np.zeros(size + 1, np.int64)
        place[tids] = np.arange(len(tids))
        other = np.zeros(size + 1, np.int64)
        other[pids] = np.arange(len(pids))
        pair = other[pid] * len(tids) + place[tid]
        present, row = _numbered(pair, len(pids) * len(tids))
        keys = [(int(pids[i // len(tids)]), int(tids[i % len(tids)])) for i in present.tolist()]
        if add:
            new = sorted(set(keys) - self.number.keys(), key=lambda k: tuple(self.texts[c].zfill(20) for c in k))
            for key in new:
                self.number[key] = len(self.known)
                self.known.append(Thread(self.rank, self.texts[key[0]], self.texts[key[1]]))
        numbers: NDArray[np.int32] = np.array([self.number.get(key, -1) for key in keys], np.int32)[row]
        return numbers


def _numbered(codes: NDArray[np.int64], size: int) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """The different codes below `size`, ascending, and for each code its place among them."""
    if size > 10 * len(codes) + 10**6:
        present = unique(codes)
        return present, np.searchsorted(present, codes)
    present = np.flatnonzero(_seen(codes, size))
    place = np.zeros(size, np.int32)
    place[present] = np.arange(len(present))
    return present, place[codes]


def distinct(codes: NDArray[np.int32], size: int, missing: bool = False) -> NDArray[np.int64]:
    """The different codes below `size`, ascending, without sorting; -1 first if `missing` and present."""
    seen = _seen(codes[codes >= 0] if len(codes) and codes.min() < 0 else codes, size)
    found = np.flatnonzero(seen)
    return np.concatenate(([-1], found)) if missing and len(codes) and codes.min() < 0 else found


def _seen(codes: NDArray[Any], size: int) -> NDArray[np.bool_]:
    seen = np.zeros(size, bool)
    seen[codes] = True
    return seen


def json_value(raw: bytes) -> Any:
    """A value of the header, or None where it cannot be read (it is then as good as absent)."""
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
