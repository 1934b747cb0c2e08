"""Idle time: each gap is split among what the thread that ended it was doing (docs/ledger.md)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpuwhy.arrays import by_value, unique
from gpuwhy.intervals import Intervals, Rows, difference, overlap
from gpuwhy.ledger.accounts import Accounts
from gpuwhy.ledger.charges import Spans
from gpuwhy.ledger.host import ROLES, Host
from gpuwhy.timeline import DeviceOps, Timeline


@dataclass(frozen=True, eq=False)
class Gaps:
    """Stretches without work, each with the operation that ends it (a row of the device's operations, or -1)."""

    time: Intervals
    ended_by: Rows

    def launch(self, ops: DeviceOps) -> NDArray[np.int32]:
        """The host call that launched the operation behind each gap, or -1."""
        return np.where(self.ended_by >= 0, ops.launch[self.ended_by], np.int32(-1))


def gaps(idle: Intervals, ops: DeviceOps, tier: NDArray[np.int8]) -> Gaps:
    """Find the operation of positive length that ends each gap: the first to start at its end or later, or -1."""
    lasting = np.flatnonzero(ops.end > ops.start)
    start = ops.start[lasting]
    at = np.searchsorted(start, idle.end, side="left")
    ends = at < len(start)
    ended_by = np.full(len(idle), -1, np.int64)
    ended_by[ends] = lasting[at[ends]]
    together = np.searchsorted(start, ops.start[ended_by], side="right") - at
    for gap in np.flatnonzero(ends & (together > 1)).tolist():
        rivals = lasting[at[gap] : at[gap] + together[gap]]
        ended_by[gap] = rivals[np.argmin(tier[rivals])]
    return Gaps(idle, ended_by)


def idle_time(timeline: Timeline, host: Host, ops: DeviceOps, found: Gaps, accounts: Accounts) -> Spans:
    """Give every nanosecond of the gaps to an account, and to the piece of a host call that is to be named for it."""
    launch = found.launch(ops)
    spans = [Spans.of(_rows(found.time, launch < 0), accounts.number("idle/untraced"))]
    known = np.flatnonzero(launch >= 0)
    start, end, call = found.time.start[known], found.time.end[known], launch[known]
    until = np.clip(timeline.calls.end[call], start, end)
    after = Intervals(until[until < end], end[until < end])
    spans.append(Spans.of(after, accounts.number("idle/device")))
    waited = np.flatnonzero(until > start)
    for one, which in by_value(timeline.calls.thread[call[waited]]):
        mine = waited[which]
        spans += _on_thread(host, one, Intervals(start[mine], until[mine]), accounts)
    return Spans.join(spans)


def _on_thread(host: Host, thread: int, idle: Intervals, accounts: Accounts) -> list[Spans]:
    """Idle time before launches of one thread: by it, by the threads that it waits for, by frames, by role."""
    spans = []
    for account in (host.decided, host.framed):
        for one in host.family[thread]:
            if not len(idle):
                break
            own, piece = host.own_time(one)
            if not len(own) or own.start[0] >= idle.end[-1] or own.end[-1] <= idle.start[0]:
                continue
            _, place, start, end = overlap(idle, own)
            piece = piece[place]
            charged = np.flatnonzero(account[piece] >= 0)
            piece, spent = piece[charged], Intervals(start[charged], end[charged])
            spans.append(Spans.of(spent, account[piece], host.because[piece].astype(np.int64)))
            idle = difference(idle, spent)
    role = f"outside_operators/{ROLES[host.role[thread]]}" if host.known[thread] else "untraced"
    spans.append(Spans.of(idle, accounts.number(f"idle/{role}")))
    return spans


def next_to_copies(
    found: Gaps, ops: DeviceOps, account: NDArray[np.int16], is_copy: NDArray[np.bool_]
) -> dict[int, tuple[Gaps, Rows]]:
    """The gaps that a copy begins or ends, by its account (the one that begins a gap goes first), with the copies.

    `is_copy` says for each account number whether its operations are copies.
    """
    by_end = np.argsort(ops.end, kind="stable")
    place = np.searchsorted(ops.end[by_end], found.time.start, side="right") - 1
    before = by_end[np.maximum(place, 0)]
    begins = (place >= 0) & (ops.end[before] == found.time.start) & is_copy[account[before]]
    ends = (found.ended_by >= 0) & is_copy[account[found.ended_by]]
    copy = np.where(begins, before, np.where(ends, found.ended_by, -1))
    parts = {}
    for one in unique(account[copy[copy >= 0]]).tolist():
        mine = (copy >= 0) & (account[copy] == one)
        both = np.concatenate((copy[mine], found.ended_by[mine & ends]))
        parts[one] = Gaps(_rows(found.time, mine), found.ended_by[mine]), unique(both[account[both] == one])
    return parts


def after_sync(timeline: Timeline, host: Host, sync: int, found: Gaps, ops: DeviceOps) -> dict[int, int]:
    """Idle ns in gaps that began while the launching thread's family was in a blocking sync, by the call's row.

    `sync` is the number of the account `idle/sync`. Such a gap is there because the host let the device run dry and
    could enqueue the next work only after it was told.
    """
    total: dict[int, int] = {}
    launch = found.launch(ops)
    rows = np.flatnonzero(launch >= 0)
    waits_on = np.zeros(len(host.family), bool)
    waits_on[timeline.calls.thread[timeline.nesting.call[host.decided == sync]]] = True
    for one, which in by_value(timeline.calls.thread[launch[rows]]):
        mine = rows[which]
        time = found.time.start[mine]
        length = found.time.end[mine] - time
        open_sync = np.full(len(mine), -1, np.int64)
        for kin in (thread for thread in host.family[one] if waits_on[thread]):
            piece = timeline.nesting.open_at(np.full(len(mine), kin), time - 1)
            waits = np.flatnonzero((piece >= 0) & (open_sync < 0))
            waits = waits[host.decided[piece[waits]] == sync]
            open_sync[waits] = timeline.nesting.call[host.because[piece[waits]]]
        for row, ns in zip(open_sync[open_sync >= 0].tolist(), length[open_sync >= 0].tolist(), strict=True):
            total[row] = total.get(row, 0) + ns
    return total


def _rows(of: Intervals, mask: NDArray[np.bool_]) -> Intervals:
    return Intervals(of.start[mask], of.end[mask])
