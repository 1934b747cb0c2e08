"""The partition of one device's window into accounts. Its sum is the window, or it is a bug."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from gpuwhy.intervals import Times, complement
from gpuwhy.ledger.accounts import HOST_BOUND, UNKNOWN, WAITING, Accounts, within
from gpuwhy.ledger.charges import Charges, Spans
from gpuwhy.ledger.device import busy_accounts, device_time, tiers
from gpuwhy.ledger.host import Host, host
from gpuwhy.ledger.idle import Gaps, after_sync, gaps, idle_time, next_to_copies
from gpuwhy.steps import Window
from gpuwhy.timeline import DeviceOps, Timeline

BUSY_SHARE = 0.9
"""Above this share of the window the largest loss is a busy account: the device is not waiting."""
MOST_CELLS = 1 << 24
"""Steps times accounts that are told apart (128 MiB); healthy profiles have less than a million."""


@dataclass(frozen=True, eq=False)
class Basis:
    """What the ledgers of all devices of a timeline share: what every call and operation means."""

    timeline: Timeline
    accounts: Accounts
    busy: NDArray[np.int16]
    host: Host


@dataclass(frozen=True)
class NextToCopy:
    """Idle ns of one account in gaps that a copy (of account `copy`) begins or ends; how many copies, their bytes."""

    account: str
    copy: str
    ns: int
    copies: int
    bytes: int | None


@dataclass(frozen=True, eq=False)
class Ledger:
    """Where the time of one device's window went; all times in ns.

    `accounts` lists leaves, `ns` their totals (int64), `by_step` (steps, accounts) the same step by step for the
    parts that `edge` cuts the window into. `busy` charges rows of the device's operations, `idle` pieces of host
    calls. `after_sync` holds idle time that follows a blocking call, by the call's row.
    """

    device: int
    window: Window
    operations: int
    accounts: list[str]
    ns: Times
    edge: Times
    by_step: NDArray[np.int64]
    hidden: dict[str, int]
    busy: Charges
    idle: Charges
    after_sync: dict[int, int]
    next_to_copy: list[NextToCopy]

    @property
    def window_ns(self) -> int:
        """Length of the window."""
        return self.window.end - self.window.start

    @property
    def busy_ns(self) -> int:
        """Time in which something ran."""
        return self.of("busy")

    def of(self, *groups: str) -> int:
        """Summed ns of all accounts within any of the groups."""
        return sum(
            int(ns) for name, ns in zip(self.accounts, self.ns, strict=True) if any(within(name, g) for g in groups)
        )

    @property
    def unknown_ns(self) -> int:
        """What the profile cannot explain. These are leaves: a frame from a folder `main/` is known."""
        return sum(int(ns) for name, ns in zip(self.accounts, self.ns, strict=True) if name in UNKNOWN)

    def largest_loss(self) -> tuple[str, int]:
        """The largest loss and its ns: `host-bound`, `waiting`, another idle account, or a busy account."""
        totals = dict(zip(self.accounts, self.ns.tolist(), strict=True))
        if self.busy_ns > BUSY_SHARE * self.window_ns:
            losses = {name: ns for name, ns in totals.items() if within(name, "busy")}
        else:
            losses = {"host-bound": self.of(*HOST_BOUND), "waiting": self.of(*WAITING)}
            grouped = (*HOST_BOUND, *WAITING)
            losses |= {
                name: ns
                for name, ns in totals.items()
                if within(name, "idle") and not any(within(name, group) for group in grouped)
            }
        return max(losses.items(), key=lambda item: item[1])


def basis(timeline: Timeline) -> Basis:
    """Judge every call and every operation once."""
    accounts = Accounts()
    return Basis(timeline, accounts, busy_accounts(timeline, accounts), host(timeline, accounts))


@dataclass(frozen=True, eq=False)
class Owned:
    """Who owns each instant of some time on one device: an operation (`busy`, rows of `ops`, which are the device's),
    or what the host did (`idle`, pieces of host calls). `account` is that of each operation.
    """

    ops: DeviceOps
    account: NDArray[np.int16]
    busy: Spans
    idle: Spans
    gaps: Gaps
    hidden: dict[int, int]


def owners(of: Basis, device: int, start: int, end: int) -> Owned:
    """Partition `[start, end)` of one device, to the nanosecond."""
    timeline, accounts = of.timeline, of.accounts
    part = timeline.ops_of(device)
    ops, account = timeline.ops.take(part), of.busy[part]
    tier = tiers(ops, account, accounts)
    time = device_time(ops, account, tier, start, end)
    busy = Spans.of(time.owned, account[time.row].astype(np.int32), time.row)
    found = gaps(complement(time.covered, start, end), ops, tier)
    return Owned(ops, account, busy, idle_time(timeline, of.host, ops, found, accounts), found, time.hidden)


def balance(of: Basis, device: int, window: Window) -> Ledger:
    """Partition the window of one device. Raises AssertionError if the sum is not the window (a bug in gpuwhy)."""
    timeline, accounts = of.timeline, of.accounts
    edge = _edges(window)
    owned = owners(of, device, window.start, window.end)
    ops, found = owned.ops, owned.gaps
    busy, idle = owned.busy.charged(edge), owned.idle.charged(edge)
    charges = Charges.join([busy, idle])
    total = charges.by_account(len(accounts.names))
    if int(total.sum()) != window.end - window.start:
        raise AssertionError(f"the ledger sums to {int(total.sum())} ns in a window of {window.end - window.start} ns")
    kept = np.flatnonzero(total)
    kept = kept[np.argsort(-total[kept], kind="stable")]
    if len(kept) * (len(edge) - 1) > MOST_CELLS:
        note = f"too many steps ({len(edge) - 1:,}) and accounts ({len(kept):,}) to tell each step apart"
        window, edge = replace(window, steps=None, startup=None, note=note), edge[[0, -1]]
        busy, idle, charges = (replace(c, bin=np.zeros_like(c.bin)) for c in (busy, idle, charges))
    inside = (ops.start < window.end) & (ops.end > window.start) | (
        (ops.start == ops.end) & (ops.start >= window.start) & (ops.start <= window.end)
    )
    return Ledger(
        device=device,
        window=window,
        operations=int(inside.sum()),
        accounts=[accounts.names[i] for i in kept.tolist()],
        ns=total[kept],
        edge=edge,
        by_step=charges.by_step(kept, len(edge) - 1),
        hidden={accounts.names[i]: ns for i, ns in sorted(owned.hidden.items(), key=lambda item: -item[1])},
        busy=busy,
        idle=idle,
        after_sync=after_sync(timeline, of.host, accounts.number("idle/sync"), found, ops),
        next_to_copy=_next_to_copy(of, owned, edge[[0, -1]]),
    )


def _next_to_copy(of: Basis, owned: Owned, window: Times) -> list[NextToCopy]:
    """What the idle time next to copies went to, the largest first."""
    ops, names = owned.ops, of.accounts.names
    is_copy = np.array([within(name, "busy/copy") for name in names], bool)
    result = []
    for copy, (gaps_of, rows) in next_to_copies(owned.gaps, ops, owned.account, is_copy).items():
        size = ops.bytes[rows]
        total = int(size.sum()) if size.min() >= 0 else None
        near = idle_time(of.timeline, of.host, ops, gaps_of, of.accounts)
        sums = near.charged(window).by_account(len(names))
        result += [
            NextToCopy(names[i], names[copy], int(sums[i]), len(rows), total) for i in np.flatnonzero(sums).tolist()
        ]
    return sorted(result, key=lambda one: -one.ns)


def _edges(window: Window) -> Times:
    """The bounds of the window's steps, or of the window itself."""
    inner = window.steps.edge if window.steps is not None else np.empty(0, np.int64)
    inner = inner[(inner > window.start) & (inner < window.end)]
    return np.concatenate(([window.start], inner, [window.end])).astype(np.int64)
