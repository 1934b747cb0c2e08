"""Sizes and strides off the tensor cores' grid: rows that do not start at multiples of 16 bytes.

Only kernels in which tensor cores are in play can suffer from it, and only those that are slower than the products
with aligned rows are named: that a size is odd proves nothing.
"""

from __future__ import annotations

import math

import numpy as np

from gpuwhy.roofline.arguments import ITEM_SIZES, Arguments, Tensor
from gpuwhy.roofline.efficiency import Bound
from gpuwhy.roofline.view import Group, View
from gpuwhy.roofline.waste.base import Waste, concerned

GRID_BYTES = 16
"""Loads of the tensor cores' operands, and TMA's strides, come in multiples of it (CUTLASS, cuBLAS: alignment)."""
PAD_TO = 64
"""Elements: a multiple that suits every tile."""
SLOWER = 0.8
"""A misaligned product is named if its efficiency is below this part of what aligned ones reach."""
USUAL = 0.6
"""What large aligned products reach of the ceiling, where the profile holds none to compare with."""


def shape(view: View) -> list[Waste]:
    """One entry for all products with misaligned rows."""
    tensor = view.tensor_cores & (view.compute >= view.memory) & (view.bound != Bound.LATENCY)
    odd = np.zeros(len(view.row), bool)
    sizes: dict[int, int] = {}
    for group in view.groups:
        if tensor[group.rows].any() and group.arguments is not None:
            work = view.work_of(int(group.rows[0]))
            bad = misaligned(group.arguments, work.matmul.n if work is not None and work.matmul else None)
            if bad:
                odd[group.rows] = True
                sizes |= {size: sizes.get(size, 0) + group.ns for size in bad}
    aligned = np.flatnonzero(tensor & ~odd)
    usual = _efficiency(view, aligned) if len(aligned) else USUAL
    rows = np.flatnonzero(tensor & odd)
    slow = [g for g in view.groups if odd[g.rows].all() and _efficiency(view, g.rows) < SLOWER * usual]
    if not slow:
        return []
    rows = np.sort(np.concatenate([g.rows for g in slow]))
    rows = rows[tensor[rows]]
    size = max(_sizes_of(slow, view), key=lambda s: sizes.get(s, 0))
    least = view.reachable[rows]
    return [
        Waste(
            "shape",
            f"matrix products with a size of {size}, off the tensor cores' grid",
            f"pad the dimension of {size} to {math.ceil(size / PAD_TO) * PAD_TO} (a multiple of {PAD_TO})",
            rows,
            int(view.ns[rows].sum()),
            int((np.minimum(least, view.length[rows]) * view.share[rows]).sum()),
            concerned(view.groups, view, rows),
        )
    ]


def _sizes_of(groups: list[Group], view: View) -> list[int]:
    found = []
    for group in groups:
        work = view.work_of(int(group.rows[0]))
        if group.arguments is not None:
            found += misaligned(group.arguments, work.matmul.n if work is not None and work.matmul else None)
    return found


def misaligned(of: Arguments, columns: int | None) -> list[int]:
    """The sizes (in elements) by which rows of the factors, or of a result of so many columns, follow each other."""
    factors = [tensor for tensor in of.tensors() if len(tensor.dims) in (2, 3)]
    found = []
    for tensor in factors[:2]:
        step = row_step(tensor)
        if step > 1 and step * tensor.item % GRID_BYTES:
            found.append(step)
    if columns and columns > 1 and factors and columns * ITEM_SIZES[factors[0].type] % GRID_BYTES:
        found.append(columns)
    return found


def row_step(tensor: Tensor) -> int:
    """Elements from one row (or column) of a matrix to the next, along the dimension that is not contiguous."""
    if tensor.strides is None:
        return tensor.dims[-1]
    return max(tensor.strides[-2:])


def _efficiency(view: View, rows: np.ndarray[tuple[int], np.dtype[np.int64]]) -> float:
    known = rows[np.isfinite(view.reachable[rows])]
    time = float(view.length[known].sum())
    return float(view.reachable[known].sum()) / time if time else 1.0
