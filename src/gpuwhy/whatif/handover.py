"""Work that one thread hands to another and waits for: the backward pass on autograd's own thread.

Whatever the other thread did while the main thread stood still in one place was done for it: the main thread goes on
when that is over.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpuwhy.intervals import Times
from gpuwhy.ledger.host import ROLES
from gpuwhy.ledger.partition import Basis
from gpuwhy.timeline import CallKind, Table


@dataclass(frozen=True, eq=False)
class Handovers(Table):
    """Thread `main` waits for thread `other` from `start` to `end`."""

    main: NDArray[np.int32]
    other: NDArray[np.int32]
    start: Times
    end: Times

    @staticmethod
    def none() -> Handovers:
        """Nothing is handed over."""
        none = np.empty(0, np.int64)
        return Handovers(none.astype(np.int32), none.astype(np.int32), none, none)


def handovers(of: Basis) -> Handovers:
    """All handings over."""
    role, found = of.host.role, [Handovers.none()]
    moves: dict[int, Times] = {}
    for other in np.flatnonzero(role == ROLES.index("backward")).tolist():
        for main in of.host.family[other]:
            if role[main] == ROLES.index("main"):
                if main not in moves:
                    moves[main] = _moves(of, main)
                found.append(_between(of, main, other, moves[main]))
    return Handovers.concatenate(found)


def _between(of: Basis, main: int, other: int, moves: Times) -> Handovers:
    """The other thread's outermost operators, joined where the main thread did not move between them."""
    nesting, calls = of.timeline.nesting, of.timeline.calls
    part = nesting.of_thread(other)
    outermost = nesting.outermost(calls.kind[nesting.call] == CallKind.OPERATOR)[part]
    top = np.flatnonzero(outermost == np.arange(part.start, part.stop)) + part.start
    if not len(top):
        return Handovers.none()
    start, end = nesting.start[top], nesting.end[top]
    # The main thread stands still from its last move before an outermost operator to its next one.
    place = np.searchsorted(moves, start, side="right")
    until = np.append(moves, np.iinfo(np.int64).max)[place]
    first = np.flatnonzero(np.diff(place, prepend=-1))
    last = np.append(first[1:], len(place)) - 1
    whole = np.full(len(first), main, np.int32), np.full(len(first), other, np.int32)
    return Handovers(*whole, start[first], np.minimum(end[last], until[first]))


def _moves(of: Basis, thread: int) -> Times:
    """When calls of a thread begin and end."""
    nesting = of.timeline.nesting
    part = nesting.of_thread(thread)
    return np.sort(np.concatenate((nesting.start[part], nesting.end[part])))
