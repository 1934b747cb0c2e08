"""Kernels that are over before the device is full."""

from __future__ import annotations

import numpy as np

from gpuwhy.roofline.efficiency import Bound
from gpuwhy.roofline.view import View
from gpuwhy.roofline.waste.base import Waste, waste
from gpuwhy.timeline import OpKind


def small_kernels(view: View) -> list[Waste]:
    """Time in kernels that are over before the device is full."""
    rows = np.flatnonzero(view.is_bound(Bound.LATENCY) & (view.ops.kind == OpKind.KERNEL))
    if not len(rows):
        return []
    return [
        waste(
            view,
            "device_latency",
            "kernels too small to fill the device",
            "a larger batch, or fewer and larger kernels (torch.compile, fused=True or foreach=True optimizers)",
            rows,
            view.least(rows, view.reachable),
        )
    ]
