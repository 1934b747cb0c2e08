"""Sizes and strides off the tensor cores' grid: rows that do not start at multiples of 16 bytes.

Only kernels in which tensor cores are in play can suffer from it, and only those that are slower than the products
with aligned rows are named: that a size is odd proves nothing.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

import numpy as np

from gpuwhy.roofline.arguments import ITEM_SIZES, Arguments, Tensor
from gpuwhy.roofline.efficiency import Bound
from gpuwhy.roofline.view import Group, Rows, View
from gpuwhy.roofline.waste.base import Waste, waste

GRID_BYTES = 16
"""Loads of the tensor cores' operands, and TMA's strides, come in multiples of it (CUTLASS, cuBLAS: alignment)."""
PAD_TO = 64
"""Elements: a multiple that suits every tile."""
ADDING = re.compile(r"aten::_?add\w*mm|aten::baddbmm")
"""Their first argument is what is added."""
SLOWER = 0.8
"""A misaligned product is named if its efficiency is below this part of what aligned ones reach."""
USUAL = 0.6
"""What large aligned products reach of the ceiling, where the profile holds none to compare with."""


def shape(view: View) -> list[Waste]:
    """One entry for all products with misaligned rows."""
    tensor = view.tensor_cores & (view.compute >= view.memory) & (view.bound != Bound.LATENCY)
    odd: list[tuple[Group, list[Odd]]] = []
    taken = np.zeros(len(view.row), bool)
    for group in view.groups:
        if tensor[group.rows].any() and (bad := _odd(view, group)):
            odd.append((group, bad))
            taken[group.rows] = True
    aligned = np.flatnonzero(tensor & ~taken)
    usual = _efficiency(view, aligned) if len(aligned) else USUAL
    slow = [(group, bad) for group, bad in odd if _efficiency(view, group.rows) < SLOWER * usual]
    if not slow:
        return []
    rows = np.sort(np.concatenate([group.rows for group, _ in slow]))
    rows = rows[tensor[rows]]
    time: dict[int, int] = {}
    for group, bad in slow:
        for one in bad:
            time[one.step] = time.get(one.step, 0) + group.ns
    size = max(time, key=lambda step: time[step])
    group, bad = next((group, bad) for group, bad in slow if any(one.step == size for one in bad))
    which = " and ".join(one.tensor for one in bad if one.step == size)
    return [
        waste(
            view,
            "shape",
            f"matrix products off the tensor cores' grid: in {group.name} rows of {which} are {size} elements long, "
            f"no multiple of {GRID_BYTES} bytes",
            f"pad the dimension of {size} to {math.ceil(size / PAD_TO) * PAD_TO} (a multiple of {PAD_TO})",
            rows,
            view.least(rows, view.reachable),
        )
    ]


def _odd(view: View, group: Group) -> list[Odd]:
    work = view.work_of(int(group.rows[0]))
    if group.arguments is None:
        return []
    columns = work.matmul.n if work is not None and work.matmul else None
    return misaligned(group.arguments, columns, first=1 if ADDING.match(group.name) else 0)


@dataclass(frozen=True)
class Odd:
    """A tensor of a product whose rows do not start on the grid: `step` elements from one to the next."""

    tensor: str
    step: int


def misaligned(of: Arguments, columns: int | None, first: int = 0) -> list[Odd]:
    """The factors of a product (tensors from `first` on), and its result of so many columns, with rows off the grid."""
    factors = [tensor for tensor in of.tensors()[first:] if len(tensor.dims) in (2, 3)]
    found = []
    for name, tensor in zip(("the first factor", "the second factor"), factors, strict=False):
        step = row_step(tensor)
        if step > 1 and step * tensor.item % GRID_BYTES:
            found.append(Odd(name, step))
    if columns and columns > 1 and factors and columns * ITEM_SIZES[factors[0].type] % GRID_BYTES:
        found.append(Odd("the result", columns))
    return found


def row_step(tensor: Tensor) -> int:
    """Elements from one row (or column) of a matrix to the next, along the dimension that is not contiguous.

    0 where the strides are not recorded: a transposed matrix then looks like any other.
    """
    return max(tensor.strides[-2:]) if tensor.strides is not None else 0


def _efficiency(view: View, rows: Rows) -> float:
    known = rows[np.isfinite(view.reachable[rows])]
    time = float(view.length[known].sum())
    return float(view.reachable[known].sum()) / time if time else 1.0
