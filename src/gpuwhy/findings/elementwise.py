"""Chains of small operators that pass through memory one by one."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpuwhy.findings.base import Finding, Look
from gpuwhy.findings.waste import of_cause, of_waste, towards
from gpuwhy.roofline.waste import Waste
from gpuwhy.roofline.waste.elementwise import TITLE as CHAINS
from gpuwhy.whatif.changes import Change, composed, lasting, without_host_time, without_ops
from gpuwhy.whatif.setting import Ops, Setting

FUSED = 0.5, 0.65, 0.35
"""How far a compiler comes from the time now (0) towards the least (1), on a logarithmic scale: expected, at best, at
worst. Between is what the backward pass needs later, which a profile does not tell."""
GENERATED = 2.0
"""Launching a generated kernel takes the host so many times as long as launching an eager one: it is done in Python."""
PASSES = 0.7, 0.9, 0.55
"""Part of the memory's bandwidth that a fused optimizer reaches."""

__all__ = ["CHAINS", "elementwise", "fused"]


def elementwise(look: Look) -> list[Finding]:
    """Chains that a compiler fuses, casts that undo each other, and optimizers that take several passes."""
    setting, found = look.setting, []
    for waste in of_cause(look, "elementwise"):
        if waste.title == CHAINS:
            changes = fused(setting, waste)
        elif waste.least_ns:
            changes = tuple(towards(setting, waste, part) for part in PASSES)
        else:
            ops = setting.ops_of(waste.rows)
            changes = (composed([without_ops(ops), without_host_time(setting.launching(ops))]),)
        found.append(of_waste(look, waste, changes))
    return found


def fused(setting: Setting, waste: Waste, only: Ops | None = None) -> tuple[Change, ...]:
    """Chains of kernels become one kernel each; `only`: those among these operations."""
    ops, rest = setting.ops_of(waste.rows), setting.ops_of(_not_first(setting, waste.rows))
    if only is not None:
        ops, rest = ops & only, rest & only
    first = ops & ~rest
    share = max(waste.least_ns, 1) / max(waste.ns, 1)
    duration = setting.graph.duration
    scale = float(duration[ops].sum() / max(duration[first].sum(), 1.0))
    # A generated kernel ends where something is summed: those operators are launched still.
    sums = setting.busy("normalization", "reduction", "softmax")
    host = composed(
        [
            without_host_time(setting.launching(rest & ~sums)),
            without_host_time(setting.launching(first | (rest & sums)), GENERATED),
        ]
    )
    return tuple(composed([lasting(first, scale * share**part), without_ops(rest), host]) for part in FUSED)


def _not_first(setting: Setting, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Rows that follow another of them on their stream with nothing in between."""
    ops = setting.view.ops
    order = np.lexsort((ops.start, ops.stream))
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    mine = np.sort(place[rows])
    follows = np.append(False, (np.diff(mine) == 1) & (ops.stream[order[mine[1:]]] == ops.stream[order[mine[:-1]]]))
    found: NDArray[np.int64] = order[mine[follows]]
    return found
