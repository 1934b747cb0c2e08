"""Charges: time of one account, owed to one row (an operation, or a piece of a host call), step by step."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpuwhy.intervals import Intervals, Rows, Times, overlap


@dataclass(frozen=True, eq=False)
class Charges:
    """Rows of (account, row, bin, ns).

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

    def by_account(self, accounts: int) -> Times:
        """The sum of each account."""
        sums = np.zeros(accounts, np.int64)
        np.add.at(sums, self.account, self.ns)
        return sums

    def by_step(self, accounts: Rows, bins: int) -> NDArray[np.int64]:
        """The sums of some accounts as an array (bins, accounts); the others have no charges."""
        column = np.zeros(int(self.account.max(initial=-1)) + 1, np.int64)
        column[accounts] = np.arange(len(accounts))
        sums = np.zeros(bins * len(accounts), np.int64)
        np.add.at(sums, self.bin * len(accounts) + column[self.account], self.ns)
        return sums.reshape(bins, len(accounts))


def charge_intervals(of: Intervals, account: NDArray[np.int32], row: Rows, edge: Times) -> Charges:
    """Charge disjoint intervals, cut at the edges, each to its account and row."""
    bins = Intervals(edge[:-1], edge[1:])
    which, place, start, end = overlap(of, bins)
    return Charges(account[which], row[which], place, end - start)
