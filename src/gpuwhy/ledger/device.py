"""Device time: one operation owns each busy instant; what it does names the account."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from gpuwhy.arrays import unique
from gpuwhy.intervals import Intervals, Rows, complement, overlap, running_end, union
from gpuwhy.ledger.accounts import Accounts
from gpuwhy.ledger.classes import COPIES, KERNELS, OPERATORS, classify
from gpuwhy.steps import OPTIMIZER_STEP
from gpuwhy.timeline import CallKind, DeviceOps, OpKind, Timeline


class Tier(IntEnum):
    """What wins where several streams are active, the first first."""

    COMPUTE = 0
    COMMUNICATION = 1
    COPY = 2
    MEMSET = 3


@dataclass(frozen=True, eq=False)
class Busy:
    """Which operation owns which busy time of a window (`row`: within the device's operations), and what was hidden."""

    owned: Intervals
    row: Rows
    covered: Intervals
    hidden: dict[int, int]


def busy_accounts(timeline: Timeline, accounts: Accounts) -> NDArray[np.int16]:
    """The account of every operation of the timeline."""
    ops, names = timeline.ops, timeline.names

    def number(label: str) -> int:
        return accounts.number(f"busy/{label}")

    found = np.full(len(ops), number("other"), np.int16)
    kernel = np.flatnonzero(ops.kind == OpKind.KERNEL)
    by_name = classify(ops.name[kernel], names, KERNELS, number)
    by_call = _class_of_launch(timeline, kernel, number)
    decided = (by_name == number("communication")) | ((by_name == number("fused")) & (by_call != number("optimizer")))
    best = np.where(decided | (by_call < 0), by_name, by_call)
    found[kernel] = np.where(best < 0, number("other"), best)
    copy = np.flatnonzero(ops.kind == OpKind.COPY)
    found[copy] = classify(ops.name[copy], names, COPIES, number)
    found[ops.kind == OpKind.MEMSET] = number("memset")
    return found


def _class_of_launch(timeline: Timeline, rows: Rows, number: object) -> NDArray[np.int16]:
    """What the calls around each operation's launch say that it does, -1 for nothing."""
    calls, nesting = timeline.calls, timeline.nesting
    assert callable(number)
    said = np.full(len(calls), -1, np.int16)
    operator = np.flatnonzero(calls.kind == CallKind.OPERATOR)
    said[operator] = classify(calls.name[operator], timeline.names, OPERATORS, number)
    annotation = np.flatnonzero(calls.kind == CallKind.ANNOTATION)
    optimizer = classify(calls.name[annotation], timeline.names, [("optimizer", OPTIMIZER_STEP)], number)
    said[annotation] = optimizer
    by_piece = said[nesting.call]
    nearest = nesting.nearest(by_piece >= 0)
    in_optimizer = nesting.nearest(
        (by_piece == number("optimizer")) & (calls.kind[nesting.call] == CallKind.ANNOTATION)
    )
    launch = timeline.ops.launch[rows]
    piece = np.where(launch >= 0, timeline.piece_at(np.maximum(launch, 0)), -1) if len(calls) else launch
    answer = np.full(len(rows), -1, np.int16)
    inside = np.flatnonzero(piece >= 0)
    where = nearest[piece[inside]]
    answer[inside] = np.where(where >= 0, by_piece[where], -1)
    answer[inside[in_optimizer[piece[inside]] >= 0]] = number("optimizer")
    return answer


def tiers(ops: DeviceOps, account: NDArray[np.int16], accounts: Accounts) -> NDArray[np.int8]:
    """The tier of each operation."""
    tier = np.full(len(ops), Tier.COMPUTE, np.int8)
    tier[ops.kind == OpKind.COPY] = Tier.COPY
    tier[ops.kind == OpKind.MEMSET] = Tier.MEMSET
    tier[account == accounts.number("busy/communication")] = Tier.COMMUNICATION
    return tier


def device_time(ops: DeviceOps, account: NDArray[np.int16], tier: NDArray[np.int8], start: int, end: int) -> Busy:
    """Share out the busy time of `[start, end)` among operations that are sorted by start."""
    low, high = np.clip(ops.start, start, end), np.clip(ops.end, start, end)
    taken = Intervals(np.empty(0, np.int64), np.empty(0, np.int64))
    starts, ends, rows = [], [], []
    for one in Tier:
        mine = np.flatnonzero((tier == one) & (high > low))
        if not len(mine):
            continue
        own_start = np.maximum(low[mine], running_end(high[mine]))
        first = high[mine] > own_start
        own = Intervals(own_start[first], high[mine][first])
        which, _, free_start, free_end = overlap(own, complement(taken, start, end))
        starts.append(free_start)
        ends.append(free_end)
        rows.append(mine[first][which])
        taken = _join(taken, union(low[mine], high[mine]))
    if not starts:
        return Busy(taken, np.empty(0, np.int64), taken, {})
    all_starts, all_rows = np.concatenate(starts), np.concatenate(rows)
    order = np.argsort(all_starts, kind="stable")
    owned = Intervals(all_starts[order], np.concatenate(ends)[order])
    row = all_rows[order]
    return Busy(owned, row, taken, _hidden(account, owned, row, low, high))


def _join(a: Intervals, b: Intervals) -> Intervals:
    start, end = np.concatenate((a.start, b.start)), np.concatenate((a.end, b.end))
    order = np.argsort(start, kind="stable")
    return union(start[order], end[order])


def _hidden(
    account: NDArray[np.int16],
    owned: Intervals,
    row: Rows,
    low: NDArray[np.int64],
    high: NDArray[np.int64],
) -> dict[int, int]:
    """For each account the time in which it ran but another was charged."""
    charged = np.zeros(int(account.max(initial=0)) + 1, np.int64)
    np.add.at(charged, account[row], owned.end - owned.start)
    hidden = {}
    for one in unique(account[high > low]).tolist():
        mine = account == one
        rest = union(low[mine], high[mine]).total - int(charged[one])
        if rest:
            hidden[one] = rest
    return hidden
