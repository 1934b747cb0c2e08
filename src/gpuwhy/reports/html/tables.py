"""What the device did, by kernel, and because of what place in the program, by call site."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpuwhy.arrays import combined
from gpuwhy.ledger.partition import Basis, Ledger
from gpuwhy.reports import model
from gpuwhy.reports.callpaths import LIBRARY
from gpuwhy.reports.html.limits import Limits, plain, plain_kernel
from gpuwhy.reports.html.scene import Kernel, Site, StepBars
from gpuwhy.roofline.efficiency import Bound
from gpuwhy.roofline.view import View
from gpuwhy.steps import STEP_MARK
from gpuwhy.timeline import CallKind, Timeline


def kernels(view: View, limits: Limits) -> tuple[list[Kernel], int]:
    """Operations by name and account, those with most time first, and how many names are not listed."""
    if not len(view.row):
        return [], 0
    first, kind = combined([view.ops.name, view.account])
    size = len(first)

    def total(values: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(np.bincount(kind, values, size), np.float64)

    ns, count = total(view.ns.astype(np.float64)), np.bincount(kind, minlength=size)
    known = np.isfinite(view.reachable)
    least = np.where(known, np.minimum(np.nan_to_num(view.reachable), view.length) * view.charged, 0.0)
    known_ns, least_ns = total(np.where(known, view.ns, 0.0)), total(least)
    longest = np.zeros(size)
    np.maximum.at(longest, kind, view.length)
    bounds = np.bincount(kind * len(Bound) + view.bound, view.ns.astype(np.float64), size * len(Bound))
    bound = bounds.reshape(size, len(Bound)).argmax(axis=1)
    order = np.argsort(-ns, kind="stable")
    mean = total(view.length) / count
    names = view.timeline.names
    rows = [
        Kernel(
            name=plain_kernel(names[view.ops.name[first[one]]], limits.name),
            account=view.accounts[view.account[first[one]]],
            count=int(count[one]),
            ns=int(ns[one]),
            mean_ns=float(mean[one]),
            longest_ns=int(longest[one]),
            share=float(ns[one] / view.window_ns),
            efficiency=float(least_ns[one] / known_ns[one]) if known_ns[one] else None,
            bound=Bound(int(bound[one])).name.lower(),
        )
        for one in order[: limits.rows].tolist()
    ]
    return rows, max(size - limits.rows, 0)


def sites(of: Basis, ledger: Ledger, limits: Limits) -> tuple[list[Site], int]:
    """Places of the program: the innermost of its own frames, or else the outermost operator or annotation."""
    timeline = of.timeline
    site = _site_of_pieces(timeline)
    part = timeline.ops_of(ledger.device)
    busy, idle = ledger.busy, ledger.idle
    launch = timeline.ops.launch[part][busy.row]
    piece = timeline.piece_at(np.maximum(launch, 0)) if len(timeline.calls) else np.full(len(launch), -1)
    busy_site = np.where((launch >= 0) & (piece >= 0), site[piece], -1) if len(site) else np.full(len(launch), -1)
    idle_site = np.where(idle.row >= 0, site[idle.row], -1) if len(site) else np.full(len(idle.row), -1)
    size = len(timeline.names) + 1
    busy_ns = np.bincount(busy_site + 1, busy.ns.astype(np.float64), size)
    idle_ns = np.bincount(idle_site + 1, idle.ns.astype(np.float64), size)
    first, _ = combined([busy_site, busy.row]) if len(busy_site) else (np.zeros(0, np.int64), busy_site)
    operations = np.bincount(busy_site[first] + 1, minlength=size)
    most = _most(idle_site, idle.account, idle.ns, size)
    found = [one for one in np.argsort(-(busy_ns + idle_ns), kind="stable").tolist() if busy_ns[one] + idle_ns[one]]
    rows = [
        Site(
            name=plain(timeline.names[one - 1], limits.name) if one else "(not known)",
            busy_ns=int(busy_ns[one]),
            idle_ns=int(idle_ns[one]),
            operations=int(operations[one]),
            idle=plain(of.accounts.names[most[one]], limits.name) if one in most else None,
        )
        for one in found[: limits.rows]
    ]
    return rows, max(len(found) - limits.rows, 0)


def _site_of_pieces(timeline: Timeline) -> NDArray[np.int64]:
    """For each piece the name of the place that it belongs to, or -1."""
    calls, nesting = timeline.calls, timeline.nesting
    kind = calls.kind[nesting.call]
    library = timeline.names_like(LIBRARY)[calls.name][nesting.call]
    mark = timeline.names_like(STEP_MARK)[calls.name][nesting.call]
    module = np.array([name.startswith("nn.Module: ") for name in timeline.names], bool)[calls.name][nesting.call]
    own = nesting.nearest((kind == CallKind.PYTHON) & ~library & ~module)
    outer = nesting.outermost(((kind == CallKind.OPERATOR) | (kind == CallKind.ANNOTATION)) & ~mark)
    innermost = np.where(own >= 0, own, np.where(outer >= 0, outer, np.arange(len(kind))))
    return np.asarray(calls.name[nesting.call[innermost]], np.int64)


def _most(site: NDArray[np.int64], account: NDArray[np.int32], ns: NDArray[np.int64], size: int) -> dict[int, int]:
    """The account with most idle time of each site (numbered from 1)."""
    if not len(site):
        return {}
    first, kind = combined([site, account])
    total = np.bincount(kind, ns.astype(np.float64), len(first))
    best: dict[int, int] = {}
    for one in np.argsort(-total, kind="stable").tolist():
        best.setdefault(int(site[first[one]]) + 1, int(account[first[one]]))
    return best


def step_bars(device: model.DeviceReport, most: int) -> StepBars:
    """The steps as at most `most` bars and one more: neighbours are joined, but start-up only with start-up."""
    joined = max(-(-len(device.steps) // max(most, 1)), 1)
    bars: list[list[model.StepTime]] = []
    for step in device.steps:
        if not bars or len(bars[-1]) == joined or bars[-1][0].startup != step.startup:
            bars.append([])
        bars[-1].append(step)
    return StepBars(
        first=[bar[0].number for bar in bars],
        last=[bar[-1].number for bar in bars],
        ns=[sum(step.ns for step in bar) // len(bar) for bar in bars],
        busy_ns=[
            None if bar[0].busy_ns is None else sum(step.busy_ns or 0 for step in bar) // len(bar) for bar in bars
        ],
        joined=joined,
    )
