"""How much of a profile its page may hold, and text made fit to be shown.

A page is passed around and opened in a browser, so that it has a size that no profile exceeds: what is too small to be
seen is summed up, and the page says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TypeVar

import msgspec

from gpuwhy.reports.words import clean, kernel_name, shorten

MOST_BYTES = 1_950_000
"""Of a page, more than half of them the library that draws."""

LONGEST_READ = 5_000
"""Characters of a kernel's name that are looked at: what is longer was made to be."""

T = TypeVar("T")


@dataclass(frozen=True)
class Limits:
    """How much a page holds at most."""

    boxes: int = 9_000
    """In all drawings together: about 40 bytes each."""
    name: int = 160
    """Characters of a name."""
    names: int = 150_000
    """Characters of all names in the drawings together; the longest boxes have theirs first."""
    calls: int = 60_000
    """Of all call paths in the drawings together."""
    text: int = 2_000
    """Characters of a sentence."""
    rows: int = 150
    """Of a table."""
    parts: int = 40
    """Of an account of the ledger."""
    accounts: int = 200
    """Of a drawing."""
    steps: int = 500
    """Bars; more steps are joined."""
    devices: int = 16
    drawn: int = 4
    """Devices with drawings and tables."""
    lines: int = 100
    """Of a list of sentences."""

    def tighter(self) -> Limits:
        """A third of everything, for profiles whose names are all long and all different."""
        return Limits(**{one.name: max(getattr(self, one.name) // 3, 4) for one in fields(self)})


def plain(text: str, most: int) -> str:
    """A name that is shown as it is: controls, changes of direction and halves of characters become `�`."""
    return clean(shorten(text, most))


def plain_kernel(name: str, most: int) -> str:
    """A kernel's name without its noise."""
    return plain(kernel_name(name[:LONGEST_READ]), most)


def plain_all(value: T, most: int) -> T:
    """A struct with all its text plain; code keeps its lines."""

    def made(one: object) -> object:
        if isinstance(one, str):
            return "\n".join(map(clean, shorten(one, most).split("\n")))
        if isinstance(one, list):
            return [made(part) for part in one]
        if isinstance(one, dict):
            return {made(key): made(part) for key, part in one.items()}
        return one

    return msgspec.convert(made(msgspec.to_builtins(value)), type(value))


def some(values: Sequence[T], most: int) -> tuple[list[T], int]:
    """The first of many, and how many are left."""
    return list(values[:most]), max(len(values) - most, 0)
