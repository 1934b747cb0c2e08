"""Optimizers that go through memory once for each operation of their formula."""

from __future__ import annotations

import numpy as np

from gpuwhy.arrays import unique
from gpuwhy.roofline.view import View
from gpuwhy.roofline.waste.base import Waste, concerned

READ_AND_WRITTEN = 2
"""Tensors that the lightest operation on all parameters moves."""
LEAST_PASSES = 3
"""A fused step reads at least parameters and gradients, and writes parameters."""
LEAST_CALLS = 3
"""Calls a step below which an optimizer is fused, or as good as."""


def unfused_optimizer(view: View) -> list[Waste]:
    """Time of an optimizer that goes over all parameters once for each operation of its formula."""
    account = view.is_account("busy/optimizer")
    groups = [g for g in view.groups if account[g.rows[0]] and not g.name.startswith("aten::_fused_")]
    if not groups:
        return []
    rows = np.concatenate([g.rows for g in groups])
    rows = rows[account[rows] & np.isfinite(view.moved[rows])]
    calls = unique(view.caller[rows])
    steps = max(len(view.ledger.window.steps) if view.ledger.window.steps is not None else 1, 1)
    largest = max((view.within(g.rows, view.moved) / READ_AND_WRITTEN for g in groups), default=0.0)
    if len(calls) < LEAST_CALLS * steps or view.ceilings is None:
        return []
    least = LEAST_PASSES * largest
    return [
        Waste(
            "elementwise",
            "an optimizer that goes through memory once for each operation of its formula",
            "fused=True in the optimizer's constructor",
            rows,
            int(view.ns[rows].sum()),
            int(least / view.ceilings.dram_bytes_per_s * 1e9),
            concerned(groups, view, rows),
            bytes=int(view.within(rows, view.moved)),
            least_bytes=int(least),
        )
    ]
