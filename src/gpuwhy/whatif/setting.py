"""What changes look at: one device's steady state with all that is known of its operations and host time."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from gpuwhy.ledger.host import ROLES
from gpuwhy.ledger.partition import Basis
from gpuwhy.roofline.view import View
from gpuwhy.timeline import CallKind, Timeline
from gpuwhy.whatif.graph import Graph
from gpuwhy.whatif.period import Period

Slices = NDArray[np.bool_]
"""Which slices of the graph's host time."""
Ops = NDArray[np.bool_]
"""Which of the timeline's operations."""


@dataclass(frozen=True, eq=False)
class Setting:
    """One device in its steady state: the period's graph, and the view of the window's busy time."""

    of: Basis
    view: View
    period: Period

    @property
    def timeline(self) -> Timeline:
        """What was recorded."""
        return self.of.timeline

    @property
    def graph(self) -> Graph:
        """The graph of a turn, as recorded."""
        return self.period.graph

    @property
    def steps(self) -> int:
        """Steps in a turn of the period."""
        return self.period.steps

    @cached_property
    def account(self) -> NDArray[np.int32]:
        """The idle account that each slice would be charged to if the device waited for it."""
        host, of = self.graph.host, self.of.host
        piece = np.maximum(host.piece, 0)
        role = np.array([self.of.accounts.number(f"idle/outside_operators/{name}") for name in ROLES], np.int32)
        own = np.append(of.role, 0)[np.minimum(host.thread, len(of.role))]
        if not len(of.decided):
            return np.asarray(role[own])
        found = np.where(of.decided[piece] >= 0, of.decided[piece], of.framed[piece])
        return np.where((host.piece >= 0) & (found >= 0), found, role[own]).astype(np.int32)

    @cached_property
    def judged_ops(self) -> Ops:
        """This device's operations within the period."""
        found = np.zeros(len(self.timeline.ops), bool)
        op = self.graph.nodes.op
        found[op[op >= 0]] = True
        mine = np.zeros(len(found), bool)
        mine[self.timeline.ops_of(self.view.ledger.device)] = True
        return found & mine

    @cached_property
    def own(self) -> Slices:
        """Slices of this rank's threads."""
        rank = self.timeline.devices[self.view.ledger.device].rank
        mine = np.array([thread.rank == rank for thread in self.timeline.threads], bool)
        return np.append(mine, np.zeros(len(mine), bool))[self.graph.host.thread]

    def link(self, name: str) -> float | None:
        """Measured bytes/s of a link between host and device, if there is such a measurement."""
        ceilings = self.view.ceilings
        spread = getattr(ceilings.details.links, name) if ceilings is not None and ceilings.details else None
        return spread.mid if spread is not None else None

    def slices_of(self, *accounts: str) -> Slices:
        """Slices of some idle accounts (or of those within them)."""
        account = self.account  # this numbers accounts, too
        names = self.of.accounts.names
        table = np.array([any(f"{n}/".startswith(f"idle/{a}/") for a in accounts) for n in names], bool)
        return np.asarray(table[account]) & self.own

    def long(self, ns: int) -> Slices:
        """Slices of at least so long."""
        return np.asarray(self.graph.host.end - self.graph.host.start >= ns)

    @property
    def producing(self) -> Slices:
        """Time in which a loader's workers make batches."""
        return np.asarray(self.graph.host.thread >= len(self.timeline.threads))

    def slices_in(self, pieces: NDArray[np.bool_]) -> Slices:
        """Slices within any of the marked pieces."""
        at = self.timeline.nesting.nearest(pieces)
        host = self.graph.host
        if not len(at):
            return np.zeros(len(host), bool)
        return np.asarray((host.piece >= 0) & (at[np.maximum(host.piece, 0)] >= 0))

    def pieces(self, pattern: re.Pattern[str]) -> NDArray[np.bool_]:
        """Pieces of calls whose name begins with a match."""
        return np.asarray(self.timeline.names_like(pattern)[self.timeline.calls.name][self.timeline.nesting.call])

    def host_ns(self, slices: Slices) -> float:
        """What some slices take a step, as recorded, without waits."""
        return float(self.graph.host.now[slices].sum()) / self.steps

    def waited_ns(self, *accounts: str) -> float:
        """What some slices waited a step, in waits that edges explain, as recorded."""
        host = self.graph.host
        some = self.slices_of(*accounts) & (host.factor == 0)
        return float((host.end - host.start)[some].sum()) / self.steps

    def ops_in(self, pieces: NDArray[np.bool_]) -> Ops:
        """Operations launched within any of the marked pieces."""
        ops = self.timeline.ops
        found = np.zeros(len(ops), bool)
        known = np.flatnonzero(ops.launch >= 0)
        at = self.timeline.piece_at(ops.launch[known])
        marked = self.timeline.nesting.nearest(pieces)
        inside = np.flatnonzero(at >= 0)
        found[known[inside]] = marked[at[inside]] >= 0
        return found

    def launching(self, ops: Ops) -> Slices:
        """Host time in the outermost operators that launch these operations and no others."""
        timeline = self.timeline
        nesting, calls = timeline.nesting, timeline.calls
        known = np.flatnonzero(timeline.ops.launch >= 0)
        at = timeline.piece_at(timeline.ops.launch[known])
        known, at = known[at >= 0], at[at >= 0]
        operator = calls.kind[nesting.call] == CallKind.OPERATOR
        inner = nesting.nearest(operator)[at]
        mine, others = (np.zeros(len(nesting.call), bool) for _ in range(2))
        mine[inner[(inner >= 0) & ops[known]]] = True
        others[inner[(inner >= 0) & ~ops[known]]] = True
        for rows in reversed(nesting.levels[1:]):
            others[nesting.parent[rows[others[rows]]]] = True
            around = nesting.parent[rows[mine[rows]]]
            mine[around[operator[around]]] = True
        return self._with_gaps(self.slices_in(mine & ~others))

    def following(self, ops: Ops, ns: int) -> Slices:
        """Long host time outside operators between the launches of these operations and the next launch."""
        timeline, host = self.timeline, self.graph.host
        launch = np.unique(timeline.ops.launch[timeline.ops.launch >= 0])
        chosen = np.isin(launch, timeline.ops.launch[ops])
        thread, start = timeline.calls.thread[launch], timeline.calls.start[launch]
        found = np.zeros(len(host), bool)
        for one in np.unique(thread[chosen]).tolist():
            mine = thread == one
            at, of_ops = start[mine], chosen[mine]
            low, high = np.searchsorted(host.thread, [one, one + 1])
            place = np.searchsorted(at, host.start[low:high], side="right") - 1
            found[low:high] = (place >= 0) & of_ops[np.maximum(place, 0)]
        return found & self.slices_of("outside_operators") & self.long(ns)

    def _with_gaps(self, slices: Slices) -> Slices:
        """Slices, and what lies outside operators between two of them."""
        host = self.graph.host
        outside = self.slices_of("outside_operators") & ~slices
        rank = np.arange(len(slices))
        left = np.maximum.accumulate(np.where(~outside, rank, -1))
        right = np.minimum.accumulate(np.where(~outside, rank, len(rank))[::-1])[::-1]
        there = (left >= 0) & (right < len(rank))
        left, right = np.maximum(left, 0), np.minimum(right, len(rank) - 1)
        same = (host.thread[left] == host.thread) & (host.thread[right] == host.thread)
        return np.asarray(slices | (outside & there & same & slices[left] & slices[right]))

    def ops_of(self, rows: NDArray[np.int64]) -> Ops:
        """Rows of the view as operations of the timeline."""
        found = np.zeros(len(self.timeline.ops), bool)
        found[self.view.row[rows]] = True
        return found

    def busy(self, *accounts: str) -> Ops:
        """Operations of busy accounts of this device."""
        found = np.zeros(len(self.timeline.ops), bool)
        part = self.timeline.ops_of(self.view.ledger.device)
        found[part] = self.busy_anywhere(*accounts)[part]
        return found

    def busy_anywhere(self, *accounts: str) -> Ops:
        """Operations of busy accounts, of all devices."""
        names = self.of.accounts.names
        table = np.array([any(f"{n}/".startswith(f"busy/{a}/") for a in accounts) for n in names], bool)
        return np.asarray(table[self.of.busy])
