"""Chains of small operators that pass through memory one by one."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpuwhy.findings.base import Finding, Look
from gpuwhy.findings.launching import entering_ns, of_model, ops_of_model
from gpuwhy.findings.waste import of_cause, of_waste, towards
from gpuwhy.roofline.efficiency import Bound
from gpuwhy.roofline.waste import Waste
from gpuwhy.roofline.waste.elementwise import FUSIBLE
from gpuwhy.roofline.waste.elementwise import TITLE as CHAINS
from gpuwhy.roofline.waste.layout import COPIES
from gpuwhy.roofline.waste.optimizer import SEVERAL_PASSES
from gpuwhy.whatif.changes import Change, as_it_is, composed, host_time, lasting, without_host_time, without_ops
from gpuwhy.whatif.setting import Ops, Setting

FUSED = 0.5, 0.6, 0.4
"""How far a compiler comes from the time now (0) towards the least (1), on a logarithmic scale: expected, at best, at
worst. Between is what the backward pass needs later, which a profile does not tell."""
LAUNCHING = 1.0, 0.75, 1.25
"""Host time for each operation that a compiled model launches, over that of the model as it is: expected, at best, at
worst (ten loops on H200s that the host limits: 0.8 to 1.4)."""
CONVOLVING = 1.8
"""… of convolutions, which it calls from Python, in another layout (three loops: 1.5 to 2.1)."""
COPIED = 0.5, 0.2, 1.0
"""Part of the copies that only change a layout which a compiler leaves."""
SMALLER = 0.8
"""Time of a kernel that is made of several small ones, over that of the first of them, at best."""
LEADS = 0.5
"""Part of a step that the device works for at most where the host is clearly the limit."""
PASSES = 0.34, 0.54, 0.28
"""The least time of an optimizer over what a fused one takes: it reaches 0.8 [0.9, 0.65] of the memory's bandwidth, and
the least is three passes over the parameters, where Adam takes seven [five with one state]."""


def elementwise(look: Look) -> list[Finding]:
    """Chains that a compiler fuses, casts that undo each other, and optimizers that take several passes."""
    found = []
    for waste in of_cause(look, "elementwise"):
        mend, changes = _mended(look, waste)
        found.append(of_waste(look, waste, mend, changes))
    return found


def _mended(look: Look, waste: Waste) -> tuple[str, tuple[Change, ...]]:
    """What mends a waste, and its changes."""
    setting = look.setting
    if waste.title == CHAINS:
        pairs = zip(fused(setting, waste), COPIED, strict=True)
        return "compile", tuple(composed([chains, lasting(_copied(look), left)]) for chains, left in pairs)
    if waste.title == SEVERAL_PASSES:
        return "fused_optimizer", tuple(towards(setting, waste, part) for part in PASSES)
    ops = setting.ops_of(waste.rows)
    return "one_type", (composed([without_ops(ops), without_host_time(setting.launching(ops))]),)


def _copied(look: Look) -> Ops:
    """Copies that only change a layout: a compiler takes in what it can."""
    setting = look.setting
    rows = [waste.rows for waste in look.wastes if waste.title == COPIES]
    return setting.ops_of(np.concatenate(rows)) if rows else np.zeros(len(setting.timeline.ops), bool)


def merged(setting: Setting) -> tuple[Change, Change, Change]:
    """Runs of kernels that are too small to fill the device, each as one kernel: as expected, at best, at worst."""
    view = setting.view
    small = np.flatnonzero(view.is_account(*FUSIBLE, "busy/indexing", "busy/copy/d2d") & view.is_bound(Bound.LATENCY))
    rest = setting.ops_of(_not_first(setting, small))
    first = setting.ops_of(small) & ~rest
    return without_ops(rest), composed([without_ops(rest), lasting(first, SMALLER)]), as_it_is


def fused(setting: Setting, waste: Waste) -> tuple[Change, ...]:
    """Chains of kernels become one kernel each, and the host launches what a compiler leaves."""
    rest = setting.ops_of(_not_first(setting, waste.rows))
    pairs = zip(fused_kernels(setting, waste), launched_by_compiler(setting, rest), strict=True)
    return tuple(composed([kernels, host]) for kernels, host in pairs)


def fused_kernels(setting: Setting, waste: Waste) -> list[Change]:
    """Chains of kernels become one kernel each: as expected, at best, at worst."""
    ops, rest = setting.ops_of(waste.rows), setting.ops_of(_not_first(setting, waste.rows))
    first = ops & ~rest
    share = max(waste.least_ns, 1) / max(waste.ns, 1)
    duration = setting.graph.duration
    scale = float(duration[ops].sum() / max(duration[first].sum(), 1.0))
    return [composed([lasting(first, scale * share**part), without_ops(rest)]) for part in FUSED]


def compiled_kernels(look: Look) -> list[Change]:
    """Of all kernels, a compiler makes one of each run of small ones, and of each chain.

    Where the device is nearly the limit, chains are what is wrong in the first place, and are told as that.
    """
    host_leads = look.device_ns is not None and look.device_ns <= LEADS * look.unprofiled_ns
    wastes = of_cause(look, "elementwise") if host_leads else []
    chains = [fused_kernels(look.setting, waste) for waste in wastes if waste.title == CHAINS]
    return [composed(list(each)) for each in zip(*chains, merged(look.setting), strict=True)]


def launched_by_compiler(setting: Setting, gone: Ops) -> list[Change]:
    """The host enters a compiled model, and launches what is left of its operations."""
    inside = of_model(setting)
    mine = setting.judged_ops & ops_of_model(setting)
    convolving = mine & setting.busy("convolution")
    left = float((mine & ~gone).sum() + (CONVOLVING - 1) * (convolving & ~gone).sum())
    part = left / max(float(mine.sum()), 1.0)

    def variant(ns: float, each: float) -> Change:
        return host_time(inside, lambda now: ns + each * part * now)

    return [variant(ns, each) for ns, each in zip(entering_ns(setting), LAUNCHING, strict=True)]


def _not_first(setting: Setting, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Rows that follow another of them on their stream with nothing in between."""
    ops = setting.view.ops
    order = np.lexsort((ops.start, ops.stream))
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    mine = np.sort(place[rows])
    if not len(mine):
        return mine
    follows = np.append(False, (np.diff(mine) == 1) & (ops.stream[order[mine[1:]]] == ops.stream[order[mine[:-1]]]))
    found: NDArray[np.int64] = order[mine[follows]]
    return found
