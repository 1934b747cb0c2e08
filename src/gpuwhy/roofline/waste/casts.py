"""Casts from one type to another and back."""

from __future__ import annotations

import numpy as np

from gpuwhy.arrays import unique
from gpuwhy.roofline.view import View
from gpuwhy.roofline.waste.base import Waste, waste


def round_trips(view: View) -> list[Waste]:
    """Casts that the next cast undoes: from one type to another and back, on one stream."""
    kinds: dict[tuple[tuple[int, ...], str, str], int] = {}
    kind, undone = np.full(len(view.row), -1), np.full(len(view.row), -2)
    for group in view.groups:
        of = group.arguments
        target, source = (of.tensor(0), of.tensor(1)) if of is not None else (None, None)
        if group.name == "aten::copy_" and target is not None and source is not None and target.type != source.type:
            kind[group.rows] = kinds.setdefault((target.dims, target.type, source.type), len(kinds))
            undone[group.rows] = kinds.setdefault((target.dims, source.type, target.type), len(kinds))
    order = np.lexsort((view.ops.start, view.ops.stream))
    one, other = order[:-1], order[1:]
    back = (kind[other] == undone[one]) & (view.ops.stream[one] == view.ops.stream[other])
    some = unique(np.concatenate([one[back], other[back]]))
    if not len(some):
        return []
    return [
        waste(
            view,
            "elementwise",
            "casts that the next cast undoes",
            "keep the tensor in one type",
            some,
            0,
        )
    ]
