"""Tensors that are turned from one layout into another, and copied for nothing else."""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from gpuwhy.arrays import unique
from gpuwhy.roofline.view import Group, View
from gpuwhy.roofline.waste.base import Waste, concerned

CONVERSION = re.compile(
    r"(?i)nchwtonhwc|nhwctonchw|(batched_)?transpose_?(nchw|nhwc|cnhw)|SubTensorOpWithCastTensor|nchw2nhwc|nhwc2nchw"
)
"""Kernels of cuDNN and MIOpen that turn tensors of one layout into the other."""


def layout(view: View) -> list[Waste]:
    """Time in which tensors are turned from one layout into the other around convolutions, and in batch norms.

    Those go along with the layout: channels-last ones read memory in one piece.
    """
    table = np.array([CONVERSION.search(name) is not None for name in view.timeline.names], bool)
    turned = table[view.ops.name]
    if not turned.any():
        return []
    norms = [g.rows for g in view.groups if "batch_norm" in g.name and _is_image(g)]
    rows = unique(np.concatenate([np.flatnonzero(turned), *norms]))
    least = np.where(turned, 0.0, np.nan_to_num(view.reachable))
    return [
        Waste(
            "layout",
            "tensors are turned from channels-first to channels-last and back around convolutions",
            "model.to(memory_format=torch.channels_last), and the inputs too",
            rows,
            int(view.ns[rows].sum()),
            view.least(rows, least),
            concerned(view.groups, view, rows),
        )
    ]


def copies(view: View, taken: NDArray[np.bool_]) -> list[Waste]:
    """Copies within the device that change nothing but the layout; `taken`: what another rule has named."""
    chosen = view.is_account("busy/copy/d2d") & ~taken
    for group in view.groups:
        of = group.arguments
        target, source = (of.tensor(0), of.tensor(1)) if of is not None else (None, None)
        if group.name == "aten::copy_" and target is not None and source is not None and target.type == source.type:
            chosen[group.rows] = ~taken[group.rows]
    rows = np.flatnonzero(chosen)
    if not len(rows):
        return []
    return [
        Waste(
            "layout",
            "copies within the device that change nothing but the layout of a tensor",
            "views in place of .contiguous(), .clone() and .reshape() of transposed tensors",
            rows,
            int(view.ns[rows].sum()),
            0,
            concerned(view.groups, view, rows),
        )
    ]


def _is_image(group: Group) -> bool:
    tensor = group.arguments.tensor(0) if group.arguments is not None else None
    return tensor is not None and len(tensor.dims) in (4, 5)
