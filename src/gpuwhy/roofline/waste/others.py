"""Smaller wrongs: layout conversions around convolutions, kernels that cannot fill the device, round-trip casts."""

from __future__ import annotations

import re

import numpy as np

from gpuwhy.roofline.efficiency import Bound
from gpuwhy.roofline.view import View
from gpuwhy.roofline.waste.base import Waste, concerned

CONVERSION = re.compile(
    r"(?i)nchwtonhwc|nhwctonchw|(batched_)?transpose_?(nchw|nhwc|cnhw)|SubTensorOpWithCastTensor|nchw2nhwc|nhwc2nchw"
)
"""Kernels of cuDNN and MIOpen that turn tensors of one layout into the other."""


def layout(view: View) -> list[Waste]:
    """Time in which tensors are turned from one layout into the other around convolutions."""
    table = np.array([CONVERSION.search(name) is not None for name in view.timeline.names], bool)
    rows = np.flatnonzero(table[view.ops.name])
    if not len(rows):
        return []
    return [
        Waste(
            "layout",
            "tensors are turned from channels-first to channels-last and back around convolutions",
            "model.to(memory_format=torch.channels_last), and the inputs too",
            rows,
            int(view.ns[rows].sum()),
            0,
            concerned(view.groups, view, rows),
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
    some = np.unique(np.concatenate([one[back], other[back]]))
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
