"""Optimizers that go through memory once for each operation of their formula."""

from __future__ import annotations

import numpy as np

from gpuwhy.roofline.view import View
from gpuwhy.roofline.waste.base import Waste, concerned

MOST_MOVED = 4
"""Tensors that the heaviest operation on all parameters moves: three are read, one is written."""
LEAST_PASSES = 3
"""A fused step reads at least parameters and gradients, and writes parameters; fewer passes are as good as fused."""
WHOLE = 0.1
"""An operation goes over all parameters if it moves at least this part of what the heaviest one moves."""


def unfused_optimizer(view: View) -> list[Waste]:
    """Time of an optimizer that goes over all parameters once for each operation of its formula."""
    account = view.is_account("busy/optimizer") & np.isfinite(view.moved)
    groups = [g for g in view.groups if account[g.rows[0]] and not g.name.startswith("aten::_fused_")]
    moved: dict[str, float] = {}
    for group in groups:
        moved[group.name] = moved.get(group.name, 0.0) + view.within(group.rows, view.moved)
    heaviest = max(moved.values(), default=0.0)
    passes = sum(bytes_ >= WHOLE * heaviest for bytes_ in moved.values())
    if passes < LEAST_PASSES or view.ceilings is None:
        return []
    rows = np.sort(np.concatenate([group.rows for group in groups]))
    least = LEAST_PASSES * heaviest / MOST_MOVED
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
