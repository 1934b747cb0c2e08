"""Tensors that are turned from one layout into another, and copied for nothing else."""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from gpuwhy.arrays import unique
from gpuwhy.roofline.arguments import Tensor
from gpuwhy.roofline.view import Group, View
from gpuwhy.roofline.waste.base import Waste, waste

CONVERSION = re.compile(
    r"(?i)n(d?)chwto(folded)?n?d?hwc|n(d?)hwcto(folded)?n?d?chw|nc(d?)hw2n(d?)hwc|n(d?)hwc2nc(d?)hw|batched_transpose_\d"
)
"""Kernels of cuDNN and MIOpen that turn tensors of one layout into the other."""

COPIES = "copies within the device that change nothing but the layout of a tensor"
LEAST_CONVERSIONS = 0.01
"""Part of the window that conversions must take before norms are laid to them too."""


def layout(view: View) -> list[Waste]:
    """Time in which tensors are turned from one layout into the other around convolutions, and in batch norms
    of tensors as large.

    Those go along with the layout: channels-last ones read memory in one piece.
    """
    table = np.array([CONVERSION.search(name) is not None for name in view.timeline.names], bool)
    turned = table[view.ops.name]
    if not turned.any():
        return []
    converted = {t.count for g in view.groups if turned[g.rows].any() for t in _tensors(g)}
    norms = [g.rows for g in view.groups if "batch_norm" in g.name and _is_image(g, converted)]
    if view.ns[turned].sum() < LEAST_CONVERSIONS * view.window_ns:
        norms = []
    rows = unique(np.concatenate([np.flatnonzero(turned), *norms]))
    least = np.where(turned, 0.0, np.nan_to_num(view.reachable))
    return [
        waste(
            view,
            "layout",
            "tensors are turned from channels-first to channels-last and back around convolutions",
            "model.to(memory_format=torch.channels_last), and the inputs too",
            rows,
            view.least(rows, least),
        )
    ]


def copies(view: View, taken: NDArray[np.bool_]) -> list[Waste]:
    """Copies within the device that change nothing but the layout; `taken`: what another rule has named."""
    chosen = np.zeros(len(view.row), bool)
    for group in view.groups:
        of = group.arguments
        target, source = (of.tensor(0), of.tensor(1)) if of is not None else (None, None)
        if group.name == "aten::copy_" and target is not None and source is not None and _turns(target, source):
            chosen[group.rows] = ~taken[group.rows]
    rows = np.flatnonzero(chosen)
    if not len(rows):
        return []
    return [
        waste(
            view,
            "layout",
            COPIES,
            "views in place of .contiguous(), .clone() and .reshape() of transposed tensors",
            rows,
            0,
        )
    ]


def _turns(target: Tensor, source: Tensor) -> bool:
    """Whether a copy only puts the dimensions into another order: not a cast, an expansion, or a part of something."""
    if target.type != source.type or target.dims != source.dims or target.strides is None or source.strides is None:
        return False
    places = [place for place, size in enumerate(target.dims) if size > 1]
    if any(not source.strides[place] for place in places):
        return False

    def order(of: tuple[int, ...]) -> list[int]:
        return sorted(places, key=lambda place: (-of[place], place))

    return order(target.strides) != order(source.strides)


def _tensors(group: Group) -> list[Tensor]:
    return group.arguments.tensors() if group.arguments is not None else []


def _is_image(group: Group, sizes: set[int]) -> bool:
    """Whether an operator works on an image (or video) of one of these sizes; of any, where none is known."""
    return any(len(tensor.dims) in (4, 5) and (not sizes or tensor.count in sizes) for tensor in _tensors(group)[:1])
