"""What is wrong with busy time: the value that each rule gives."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpuwhy.roofline.view import Rows, View

WORTH = 0.03
"""Part of the window that a mend must be able to save to be worth naming."""
MOST_OPERATORS = 16


@dataclass(frozen=True)
class Concerned:
    """One operator of a waste: its name, shapes and types of its arguments, calls and ns in the window."""

    name: str
    dims: str
    types: str
    calls: int
    ns: int


@dataclass(frozen=True, eq=False)
class Waste:
    """Busy time that goes to the wrong thing.

    `rows` of the view take `ns` now. `least_ns` is what the same result takes at least when done right, so that
    `ns - least_ns` bounds what the mend can bring, and does not predict it. `bytes` and `least_bytes` are what moves
    now and then (None where bytes are not the point).
    """

    cause: str
    title: str
    mend: str
    rows: Rows
    ns: int
    least_ns: int
    operators: list[Concerned]
    bytes: int | None = None
    least_bytes: int | None = None

    @property
    def most_saved_ns(self) -> int:
        """An upper bound of what the mend saves."""
        return max(self.ns - self.least_ns, 0)

    def is_worth(self, window_ns: int) -> bool:
        """Whether the mend could save enough of the window to be worth naming."""
        return self.most_saved_ns >= WORTH * window_ns


def waste(
    view: View,
    cause: str,
    title: str,
    mend: str,
    rows: Rows,
    least_ns: int,
    bytes: int | None = None,
    least_bytes: int | None = None,
) -> Waste:
    """A waste of some rows: what they take now, and the operators concerned."""
    ns = int(view.ns[rows].sum())
    return Waste(cause, title, mend, rows, ns, least_ns, _concerned(view, rows), bytes, least_bytes)


def _concerned(view: View, rows: Rows) -> list[Concerned]:
    """The operators that have most time among some rows."""
    number = view.group_of[rows]
    rows, number = rows[number >= 0], number[number >= 0]
    ns, count = np.bincount(number, view.ns[rows]), np.bincount(number)
    found = []
    for place in np.argsort(-ns, kind="stable")[:MOST_OPERATORS].tolist():
        if ns[place]:
            group = view.groups[place]
            calls = max(group.calls * int(count[place]) // len(group.rows), 1)
            found.append(Concerned(group.name, group.dims, group.types, calls, int(ns[place])))
    return found
