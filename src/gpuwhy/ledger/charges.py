"""Spans: stretches of time that one account owns, owed to one row (an operation, or a piece of a host call). Charges:
the same, added up step by step.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpuwhy.intervals import Intervals, Rows, Times, overlap


@dataclass(frozen=True, eq=False)
class Spans:
    """Disjoint stretches of time, each with its account and row; `row` is -1 where nothing is named."""

    account: NDArray[np.int32]
    row: Rows
    start: Times
    end: Times

    @staticmethod
    def of(time: Intervals, account: NDArray[np.int32] | int, row: Rows | int = -1) -> Spans:
        """Spans of a set; one account and one row are those of all."""
        return Spans(
            np.broadcast_to(np.asarray(account, np.int32), len(time)),
            np.broadcast_to(np.asarray(row, np.int64), len(time)),
            time.start,
            time.end,
        )

    @staticmethod
    def join(parts: list[Spans]) -> Spans:
        """All spans of several lists, which share no time, in ascending order."""
        columns = [np.concatenate([getattr(p, f) for p in parts]) for f in ("account", "row", "start", "end")]
        order = np.argsort(columns[2], kind="stable")
        return Spans(*(column[order] for column in columns))

    def charged(self, edge: Times) -> Charges:
        """What they add up to between edges, which ascend; a span that crosses some is cut there."""
        which, place, start, end = overlap(Intervals(self.start, self.end), Intervals(edge[:-1], edge[1:]))
        return Charges(self.account[which], self.row[which], place, end - start)


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
