"""How well a device's busy time was used: the last stage of the roofline, a ledger's window → `Roofline`.

Times are ns within the window, rates are per second of the window. MFU is that of PaLM (Chowdhery et al. 2022,
appendix B): FLOPs of matrix products, convolutions and attention that the model needs, so without those that were
computed again, over what the device could do at its published dense peak in the precision in which most of them were
done. MBU is that of Databricks (2023): bytes that had to move over the published bandwidth of the device's memory.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpuwhy.arrays import by_value
from gpuwhy.ledger.partition import Basis, Ledger
from gpuwhy.roofline import published
from gpuwhy.roofline.ceilings import Ceilings, peak
from gpuwhy.roofline.efficiency import Bound, efficiency
from gpuwhy.roofline.unknown import unknown
from gpuwhy.roofline.view import Group, Rows, View, view
from gpuwhy.roofline.waste import Waste, wastes
from gpuwhy.roofline.work import OperationWork
from gpuwhy.timeline import CallKind

MOST_OPERATORS = 20
"""Operators that are listed, those with most time."""
LEAST_KNOWN = 0.5
"""MFU, MBU and other sums are given if the work of at least this part of the busy time is known."""


@dataclass(frozen=True)
class Use:
    """How some operations were used: their time, work, and share of what they could reach.

    `efficiency` is the time that their work takes at the ceilings over their own, of those whose work and ceiling are
    known (`known_ns`), and None if none are. `bounds` has the ns of each bound.
    """

    ns: int
    known_ns: int
    efficiency: float | None
    bounds: dict[str, int]
    flops: float
    bytes: float
    dram_bytes: float
    """What passes through the device's memory for it, as `traffic` estimates it."""

    @property
    def bound(self) -> str:
        """What bounds most of the time."""
        return max(self.bounds, key=lambda name: self.bounds[name]) if self.bounds else "unknown"


@dataclass(frozen=True)
class OperatorUse:
    """One operator with one set of arguments. `precision` is None where nothing is multiplied."""

    name: str
    dims: str
    types: str
    calls: int
    precision: str | None
    use: Use


@dataclass(frozen=True)
class Peaks:
    """What MFU and MBU divide by; precision and FLOP/s are None where nothing is multiplied."""

    precision: str | None
    flops: float | None
    bytes_per_s: float
    source: str


@dataclass(frozen=True, eq=False)
class Roofline:
    """How well one device's busy time was used.

    `work_known_ns` is the busy time of operations with known work, whether or not their ceiling is known; `unknown`
    says why something is not known of how many ns. `mfu` and `mbu` leave out what is not known: they are lower bounds
    where that is not all. `view` is what it was all judged by.
    """

    view: View
    ceilings: Ceilings | None
    peaks: Peaks | None
    use: Use
    accounts: dict[str, Use]
    operators: list[OperatorUse]
    work_known_ns: int
    tensor_core_ns: int
    recomputed_flops: float
    mfu: float | None
    mbu: float | None
    wastes: list[Waste]
    unknown: list[tuple[str, int]]
    operators_recorded: bool
    shapes_recorded: bool


def judge(of: Basis, ledger: Ledger, work: OperationWork, ceilings: Ceilings | None) -> Roofline:
    """Judge the busy time of one device's window."""
    looked = view(of, ledger, work, efficiency(of.timeline, ledger.device, work, ceilings), ceilings)
    everything = np.arange(len(looked.row))
    found = wastes(looked)
    recomputed = sum(looked.within(w.rows, looked.flops) for w in found if w.cause == "recompute")
    use = _use(looked, everything)
    peaks = _peaks(looked)
    seconds = looked.window_ns / 1e9
    work_ns = int(looked.ns[np.isfinite(looked.moved) & np.isfinite(looked.flops)].sum())
    known = work_ns >= LEAST_KNOWN * use.ns and peaks is not None
    return Roofline(
        view=looked,
        ceilings=ceilings,
        peaks=peaks,
        use=use,
        accounts={of.accounts.names[number]: _use(looked, rows) for number, rows in by_value(looked.account)},
        operators=[_operator(looked, group) for group in looked.groups[:MOST_OPERATORS]],
        work_known_ns=work_ns,
        tensor_core_ns=int(looked.ns[looked.tensor_cores].sum()),
        recomputed_flops=recomputed,
        mfu=(use.flops - recomputed) / seconds / peaks.flops if known and peaks is not None and peaks.flops else None,
        mbu=use.bytes / seconds / peaks.bytes_per_s if known and peaks is not None else None,
        wastes=found,
        unknown=unknown(looked),
        operators_recorded=bool((of.timeline.calls.kind == CallKind.OPERATOR).any()),
        shapes_recorded=bool((of.timeline.calls.signature >= 0).any()),
    )


def _use(looked: View, rows: Rows) -> Use:
    ns = looked.ns[rows]
    by_bound = np.bincount(looked.bound[rows], ns, len(Bound)).astype(np.int64)
    known = rows[np.isfinite(looked.reachable[rows])]
    known_ns = int(looked.ns[known].sum())
    reachable = np.minimum(looked.reachable[known], looked.length[known])
    least = float((reachable * looked.charged[known]).sum())
    return Use(
        ns=int(ns.sum()),
        known_ns=known_ns,
        efficiency=least / known_ns if known_ns else None,
        bounds={one.name.lower(): int(by_bound[one]) for one in Bound if by_bound[one]},
        flops=looked.within(rows, looked.flops),
        bytes=looked.within(rows, looked.moved),
        dram_bytes=looked.within(rows, looked.dram),
    )


def _operator(looked: View, group: Group) -> OperatorUse:
    precision = int(looked.precision[group.rows[0]])
    name = looked.precisions[precision] if precision >= 0 else None
    return OperatorUse(group.name, group.dims, group.types, group.calls, name, _use(looked, group.rows))


def _peaks(looked: View) -> Peaks | None:
    """The published peaks in the precision of most FLOPs, else the ceilings that were measured."""
    device, ceilings = looked.timeline.devices[looked.ledger.device], looked.ceilings
    if ceilings is None:
        return None
    row = published.find(device.name, device.sm_count)
    flops = np.nan_to_num(looked.flops) * looked.share
    by_precision = {
        name: float(flops[looked.precision == number].sum()) for number, name in enumerate(looked.precisions)
    }
    precision = max(by_precision, key=lambda name: by_precision[name])
    multiplied = precision if by_precision[precision] else None
    flops_per_s = peak(row.flops if row is not None else ceilings.flops, multiplied) if multiplied else None
    bandwidth = row.dram_bytes_per_s if row is not None else ceilings.dram_bytes_per_s
    source = f"published for the {row.name}" if row is not None else ceilings.source
    return Peaks(multiplied, flops_per_s, bandwidth, source)
