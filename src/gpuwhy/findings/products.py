"""Matrix products and convolutions in the wrong precision, or with dimensions that do not suit the hardware."""

from __future__ import annotations

import numpy as np

from gpuwhy.findings.base import Finding, Look
from gpuwhy.findings.waste import of_cause, of_waste, towards
from gpuwhy.roofline.efficiency import Bound
from gpuwhy.whatif.changes import Change, lasting_ns

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
    """All products in one precision: those in a slower one at its ceiling, or at the memory's for elements of its size;
    those in a faster one as many times as long as the ceilings differ; those in the same as they are.

    None where nothing is multiplied, or the ceiling is not known.
    """
    view, setting = look.setting.view, look.setting
    peak = view.ceilings.peak(precision) if view.ceilings is not None and precision in TYPES else None
    multiplies = np.flatnonzero((np.nan_to_num(view.flops) > 0) & ~view.is_bound(Bound.LATENCY))
    if peak is None or not len(multiplies):
        return None
    names = [view.precisions[one] if one >= 0 else "" for one in view.precision[multiplies].tolist()]
    size = np.array([TYPES.get(name, 4.0) for name in names])
    compute, memory = (np.nan_to_num(column[multiplies]) for column in (view.compute, view.memory))
    new = np.maximum(view.flops[multiplies] / peak * 1e9, memory * TYPES[precision] / size)
    times = new / np.maximum(np.maximum(compute, memory), 1.0)
    now = setting.graph.duration[view.row[multiplies]]
    same, slower = np.array([name == precision for name in names]), times > 1

    def change(reached: float) -> Change:
        duration = setting.graph.duration.copy()
        later = np.where(slower, now * times, np.minimum(now, new / reached))
        duration[view.row[multiplies]] = np.where(same, now, later)
        return lasting_ns(setting.ops_of(multiplies), duration)

    return tuple(change(reached) for reached in REACHED)
