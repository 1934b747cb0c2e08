"""Charges: time of one account, owed to one row (an operation, or a piece of a host call), step by step."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpuwhy.intervals import Intervals, Rows, Times, measure, overlap, ranges


@dataclass(frozen=True)
class Charges:
    """Rows of (account, row, bin, ns). `ns` may be negative: what an inner call takes from the one around it.

    `row` is -1 where nothing is named; `bin` counts the parts that the window is cut into (its steps).
    """

    account: NDArray[np.int32]
    row: NDArray[np.int64]
    bin: NDArray[np.int64]
    ns: Times

    @staticmethod
    def join(parts: list[Charges]) -> Charges:
        """All charges of several lists."""
        if not parts:
            empty = np.empty(0, np.int64)
            return Charges(empty.astype(np.int32), empty, empty, empty)
        return Charges(*(np.concatenate([getattr(p, f) for p in parts]) for f in ("account", "row", "bin", "ns")))

    def by_account(self, accounts: int, bins: int) -> NDArray[np.int64]:
        """Sums as an array (bins, accounts)."""
        sums = np.zeros(bins * accounts, np.int64)
        np.add.at(sums, self.bin * accounts + self.account, self.ns)
        return sums.reshape(bins, accounts)


def charge_intervals(of: Intervals, account: NDArray[np.int32], row: Rows, edge: Times) -> Charges:
    """Charge disjoint intervals, cut at the edges, each to its account and row."""
    bins = Intervals(edge[:-1], edge[1:])
    which, place, start, end = overlap(of, bins)
    return Charges(account[which], row[which], place, end - start)


def charge_nested(
    idle: Intervals,
    start: Times,
    end: Times,
    parent: Rows,
    account: NDArray[np.int32],
    row: Rows,
    edge: Times,
) -> Charges:
    """Charge what of `idle` lies in nested pieces, each instant to the innermost piece.

    `account` is -1 for pieces that are not charged; the pieces inside a charged one must be charged too. `parent` is
    the place of the piece around each, or -1.
    """
    covered = measure(idle, end) - measure(idle, start)
    hit = np.flatnonzero((covered > 0) & (account >= 0))
    first = np.clip(np.searchsorted(edge, start[hit], side="right") - 1, 0, len(edge) - 2)
    last = np.clip(np.searchsorted(edge, end[hit], side="left") - 1, 0, len(edge) - 2)
    count = last - first + 1
    piece, place = np.repeat(hit, count), ranges(first, count)
    ns = np.repeat(covered[hit], count)
    many = np.flatnonzero(np.repeat(count, count) > 1)
    if len(many):
        low = np.maximum(start[piece[many]], edge[place[many]])
        high = np.minimum(end[piece[many]], edge[place[many] + 1])
        ns[many] = measure(idle, high) - measure(idle, low)
    around = parent[piece]
    inner = np.flatnonzero((around >= 0) & (account[around] >= 0))
    return Charges.join(
        [
            Charges(account[piece], row[piece], place, ns),
            Charges(account[around[inner]], row[around[inner]], place[inner], -ns[inner]),
        ]
    )
