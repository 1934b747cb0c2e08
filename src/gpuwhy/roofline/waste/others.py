"""Layouts, optimizers that are not fused, kernels that cannot fill the device, casts and copies for nothing."""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from gpuwhy.arrays import unique
from gpuwhy.roofline.efficiency import Bound
from gpuwhy.roofline.view import Group, View
from gpuwhy.roofline.waste.base import Waste, concerned

READ_AND_WRITTEN = 2
"""Tensors that the lightest operation on all parameters moves."""
LEAST_PASSES = 3
"""A fused step reads at least parameters and gradients, and writes parameters."""
LEAST_CALLS = 3
"""Calls a step below which an optimizer is fused, or as good as."""

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
    least = np.where(turned[rows], 0.0, np.nan_to_num(view.reachable[rows]))
    return [
        Waste(
            "layout",
            "tensors are turned from channels-first to channels-last and back around convolutions",
            "model.to(memory_format=torch.channels_last), and the inputs too",
            rows,
            int(view.ns[rows].sum()),
            int((np.minimum(least, view.length[rows]) * view.share[rows]).sum()),
            concerned(view.groups, view, rows),
        )
    ]


def _is_image(group: Group) -> bool:
    tensor = group.arguments.tensor(0) if group.arguments is not None else None
    return tensor is not None and len(tensor.dims) in (4, 5)


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


def small_kernels(view: View) -> list[Waste]:
    """Time in kernels that are over before the device is full."""
    rows = np.flatnonzero(view.is_bound(Bound.LATENCY))
    if not len(rows):
        return []
    return [
        Waste(
            "device_latency",
            f"{len(rows):,} kernels too small to fill the device",
            "a larger batch, or fewer and larger kernels (torch.compile, fused=True or foreach=True optimizers)",
            rows,
            int(view.ns[rows].sum()),
            int(view.within(rows, view.reachable)),
            concerned(view.groups, view, rows),
        )
    ]


def round_trips(view: View) -> list[Waste]:
    """Casts that the next cast undoes: from one type to another and back, on one stream."""
    kinds: dict[tuple[int, str, str], int] = {}
    kind, undone = np.full(len(view.row), -1), np.full(len(view.row), -2)
    for group in view.groups:
        of = group.arguments
        target, source = (of.tensor(0), of.tensor(1)) if of is not None else (None, None)
        if group.name == "aten::copy_" and target is not None and source is not None and target.type != source.type:
            kind[group.rows] = kinds.setdefault((target.count, target.type, source.type), len(kinds))
            undone[group.rows] = kinds.setdefault((target.count, source.type, target.type), len(kinds))
    order = np.lexsort((view.ops.start, view.ops.stream))
    one, other = order[:-1], order[1:]
    back = (kind[other] == undone[one]) & (view.ops.stream[one] == view.ops.stream[other])
    some = unique(np.concatenate([one[back], other[back]]))
    if not len(some):
        return []
    return [
        Waste(
            "elementwise",
            "casts that the next cast undoes",
            "keep the tensor in one type",
            some,
            int(view.ns[some].sum()),
            0,
            concerned(view.groups, view, some),
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
