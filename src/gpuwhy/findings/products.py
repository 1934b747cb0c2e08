"""Matrix products and convolutions in the wrong precision, or with dimensions that do not suit the hardware."""

from __future__ import annotations

import numpy as np

from gpuwhy.findings.base import Finding, Look
from gpuwhy.findings.waste import of_cause, of_waste, towards
from gpuwhy.roofline.efficiency import Bound
from gpuwhy.whatif.changes import Change, lasting

REACHED = 0.73, 0.84, 0.62
"""Part of a ceiling of compute that large products reach: expected, at best, at worst (H200, bf16 and fp16)."""


TYPES = {"bf16": 2.0, "fp16": 2.0, "tf32": 4.0, "fp32": 4.0, "fp8": 1.0, "fp64": 8.0}
"""Bytes an element."""


def products(look: Look) -> list[Finding]:
    """Precision and shape."""
    return [
        of_waste(look, waste, cause, [towards(look.setting, waste, part) for part in REACHED])
        for cause in ("precision", "shape")
        for waste in of_cause(look, cause)
    ]


def in_precision(look: Look, precision: str) -> tuple[Change, ...] | None:
    """All products in one precision: at its ceiling, or at the memory's for elements of its size.

    None where nothing is multiplied, or the ceiling is not known.
    """
    view, setting = look.setting.view, look.setting
    peak = view.ceilings.peak(precision) if view.ceilings is not None and precision in TYPES else None
    multiplies = np.flatnonzero((np.nan_to_num(view.flops) > 0) & ~view.is_bound(Bound.LATENCY))
    if peak is None or not len(multiplies):
        return None
    size = np.array([TYPES.get(view.precisions[one], 4.0) if one >= 0 else 4.0 for one in view.precision[multiplies]])
    memory = np.nan_to_num(view.memory[multiplies]) * TYPES[precision] / size
    ops = setting.ops_of(multiplies)
    changes = []
    for reached in REACHED:
        least = np.maximum(view.flops[multiplies] / peak * 1e9 / reached, memory / reached)
        duration = setting.graph.duration.copy()
        duration[view.row[multiplies]] = np.minimum(duration[view.row[multiplies]], least)
        changes.append(lasting(ops, duration))
    return tuple(changes)
