"""Optimizers that go through memory once for each operation of their formula."""

from __future__ import annotations

import numpy as np

from gpuwhy.roofline.view import View
from gpuwhy.roofline.waste.base import Waste, waste

SEVERAL_PASSES = "an optimizer that goes through memory once for each operation of its formula"
LEAST_PASSES = 3
"""A fused step reads at least parameters and gradients, and writes parameters; fewer passes are as good as fused."""
WHOLE = 0.1
"""An operation goes over all parameters if it writes at least this part of what the heaviest one does."""


def unfused_optimizer(view: View) -> list[Waste]:
    """Time of an optimizer that goes over all parameters once for each operation of its formula."""
    account = view.is_account("busy/optimizer") & np.isfinite(view.moved)
    groups = [g for g in view.groups if account[g.rows].all() and not g.name.startswith("aten::_fused_")]
    written: dict[str, float] = {}
    for group in groups:
        written[group.name] = written.get(group.name, 0.0) + view.within(group.rows, view.work.written[view.row])
    most = max(written.values(), default=0.0)
    passes = [bytes_ for bytes_ in written.values() if bytes_ >= WHOLE * most]
    if len(passes) < LEAST_PASSES or view.ceilings is None:
        return []
    rows = np.sort(np.concatenate([group.rows for group in groups]))
    least = LEAST_PASSES * min(passes)  # the least: an operation may come more than once a step
    return [
        waste(
            view,
            "elementwise",
            SEVERAL_PASSES,
            "fused=True in the optimizer's constructor",
            rows,
            int(least / view.ceilings.dram_bytes_per_s * 1e9),
            bytes=int(view.within(rows, view.moved)),
            least_bytes=int(least),
        )
    ]
