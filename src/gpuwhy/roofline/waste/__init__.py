"""What is wrong with the busy time: one rule a file, the general first, so that no operation is named twice for it."""

from __future__ import annotations

import numpy as np

from gpuwhy.roofline.view import View
from gpuwhy.roofline.waste.attention import attention
from gpuwhy.roofline.waste.base import WORTH, Concerned, Waste
from gpuwhy.roofline.waste.casts import round_trips
from gpuwhy.roofline.waste.elementwise import elementwise
from gpuwhy.roofline.waste.latency import small_kernels
from gpuwhy.roofline.waste.layout import copies, layout
from gpuwhy.roofline.waste.optimizer import unfused_optimizer
from gpuwhy.roofline.waste.precision import precision
from gpuwhy.roofline.waste.recompute import recompute
from gpuwhy.roofline.waste.shape import shape

__all__ = ["WORTH", "Concerned", "Waste", "wastes"]


def wastes(view: View) -> list[Waste]:
    """All that is wrong with a window's busy time, what could save most first."""
    found = [*attention(view), *recompute(view), *layout(view), *round_trips(view), *unfused_optimizer(view)]
    taken = np.zeros(len(view.row), bool)
    for waste in found:
        taken[waste.rows] = True
    for waste in copies(view, taken):
        taken[waste.rows] = True
        found.append(waste)
    found += [*elementwise(view, taken), *precision(view), *shape(view), *small_kernels(view)]
    return sorted(found, key=lambda waste: -waste.most_saved_ns)
