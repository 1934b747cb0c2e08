"""What the judgement of busy time looks at: the operations of one device in one window, and their operators.

Times are ns, each operation's time is what the ledger charged to it (what was hidden costs nothing).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from gpuwhy.arrays import combined, unique
from gpuwhy.ledger.partition import Basis, Ledger
from gpuwhy.roofline.arguments import Arguments
from gpuwhy.roofline.ceilings import Ceilings
from gpuwhy.roofline.efficiency import Bound, Efficiency
from gpuwhy.roofline.operators import Work
from gpuwhy.roofline.work import OperationWork
from gpuwhy.timeline import DeviceOps, Timeline

Rows = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Group:
    """Operations of one operator with the same arguments: `rows` of the view, their calls and time."""

    name: str
    arguments: Arguments | None
    dims: str
    types: str
    rows: Rows
    calls: int
    ns: int


@dataclass(frozen=True, eq=False)
class View:
    """The operations of a device that ran in the window, by start.

    `ns` is what the ledger charged to each: 0 where it was hidden under another one all the time. `row` are their rows
    in the timeline's operations; columns of `work` are of the whole timeline; the others are parallel to `row`.
    `account` numbers `accounts`, `caller` is the call that an operation's work was taken from (for borrowed work the
    lender's), or -1.
    """

    timeline: Timeline
    ledger: Ledger
    ceilings: Ceilings | None
    work: OperationWork
    row: Rows
    ops: DeviceOps
    ns: NDArray[np.int64]
    account: NDArray[np.int16]
    accounts: list[str]
    caller: Rows
    flops: NDArray[np.float64]
    moved: NDArray[np.float64]
    dram: NDArray[np.float64]
    reachable: NDArray[np.float64]
    compute: NDArray[np.float64]
    memory: NDArray[np.float64]
    bound: NDArray[np.int8]
    precision: NDArray[np.int8]
    precisions: list[str]
    tensor_cores: NDArray[np.bool_]

    @property
    def window_ns(self) -> int:
        """Length of the window."""
        return self.ledger.window_ns

    @cached_property
    def length(self) -> NDArray[np.float64]:
        """Duration of each operation, at least 1 ns."""
        return np.asarray(np.maximum(self.ops.end - self.ops.start, 1), np.float64)

    @cached_property
    def share(self) -> NDArray[np.float64]:
        """The part of each operation that lies in the window: of its work, so much was done there."""
        start, end = self.ledger.window.start, self.ledger.window.end
        return np.asarray((np.minimum(self.ops.end, end) - np.maximum(self.ops.start, start)) / self.length)

    @cached_property
    def charged(self) -> NDArray[np.float64]:
        """The part of each operation's time that was charged to it."""
        return np.asarray(self.ns / self.length)

    @cached_property
    def groups(self) -> list[Group]:
        """All operators with recorded arguments, those that took most time first."""
        calls = self.timeline.calls
        rows = np.flatnonzero(self.caller >= 0)
        if not len(rows):
            return []
        caller = self.caller[rows]
        # A call is one call however many kernels it launched, and one more each time that a graph replays it.
        replay = self.work.replay[self.row[rows]]
        turn = np.where(self.work.lender[self.row[rows]] >= 0, self.row[rows], np.where(replay >= 0, replay, -1))
        _, once = combined([caller, turn])
        first, kind = combined([calls.name[caller], calls.signature[caller]])
        order = np.argsort(kind, kind="stable")
        found = []
        for some in np.split(order, np.flatnonzero(np.diff(kind[order])) + 1):
            call = int(caller[first[kind[some[0]]]])
            number = int(calls.signature[call])
            mine = rows[some]
            found.append(
                Group(
                    self.timeline.names[calls.name[call]],
                    self.work.arguments.get(number),
                    self.timeline.signatures[number].dims,
                    self.timeline.signatures[number].types,
                    mine,
                    len(unique(once[some])),
                    int(self.ns[mine].sum()),
                )
            )
        return sorted(found, key=lambda group: -group.ns)

    @cached_property
    def group_of(self) -> Rows:
        """For each operation the number of its group, -1 for none."""
        found = np.full(len(self.row), -1, np.int64)
        for number, group in enumerate(self.groups):
            found[group.rows] = number
        return found

    def work_of(self, row: int) -> Work | None:
        """The work of the whole call that an operation belongs to."""
        number = int(self.work.work[self.row[row]])
        return self.work.works[number] if number >= 0 else None

    def within(self, rows: Rows, column: NDArray[np.float64]) -> float:
        """The sum of a column (FLOPs, bytes, ns) over the parts of operations that lie in the window."""
        return float(np.nansum(column[rows] * self.share[rows]))

    def least(self, rows: Rows, column: NDArray[np.float64]) -> int:
        """The sum of ns that operations take at least, of the parts that were charged to them; each at most its own."""
        return int(np.nansum(np.minimum(column[rows], self.length[rows]) * self.charged[rows]))

    def is_account(self, *names: str) -> NDArray[np.bool_]:
        """Operations of some accounts."""
        table = np.array([name in names for name in self.accounts], bool)
        return np.asarray(table[self.account])

    def is_bound(self, bound: Bound) -> NDArray[np.bool_]:
        """Operations that one thing bounds."""
        return np.asarray(self.bound == bound)


def view(of: Basis, ledger: Ledger, work: OperationWork, judged: Efficiency, ceilings: Ceilings | None) -> View:
    """The view of one device's window."""
    timeline = of.timeline
    part = timeline.ops_of(ledger.device)
    ns = np.zeros(part.stop - part.start, np.int64)
    charged = ledger.busy.row >= 0
    np.add.at(ns, ledger.busy.row[charged], ledger.busy.ns[charged])
    ops = timeline.ops
    inside = (ops.start[part] < ledger.window.end) & (ops.end[part] > ledger.window.start)
    local = np.flatnonzero(inside & (ops.end[part] > ops.start[part]))
    row = local + part.start
    lender = work.lender[row]
    caller = np.where(lender >= 0, work.owner[lender], np.where(work.work[row] >= 0, work.owner[row], -1))
    return View(
        timeline=timeline,
        ledger=ledger,
        ceilings=ceilings,
        work=work,
        row=row,
        ops=timeline.ops.take(row),
        ns=ns[local],
        account=of.busy[row],
        accounts=of.accounts.names,
        caller=caller,
        flops=work.flops[row],
        moved=work.read[row] + work.written[row],
        dram=judged.dram[local],
        reachable=judged.reachable[local],
        compute=judged.compute[local],
        memory=judged.memory[local],
        bound=judged.bound[local],
        precision=judged.precision[local],
        precisions=judged.names,
        tensor_cores=judged.tensor_cores[local],
    )
