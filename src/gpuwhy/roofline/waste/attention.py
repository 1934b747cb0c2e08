"""Attention written out: scores in memory, with a softmax between two matrix products.

A fused kernel keeps the scores on the chip. What it then moves are the queries, keys, values and the output; it
computes the same products.
"""

from __future__ import annotations

import numpy as np

from gpuwhy.arrays import unique
from gpuwhy.roofline.ceilings import Ceilings
from gpuwhy.roofline.view import Group, Rows, View
from gpuwhy.roofline.waste.base import Waste, waste

SOFTMAX = ("aten::_softmax", "aten::_softmax_backward_data", "aten::_safe_softmax", "aten::_masked_softmax")
PRODUCTS = ("aten::bmm", "aten::baddbmm", "aten::matmul")
PRECISIONS = ("bf16", "fp16", "fp32")
PREPARING = ("aten::copy_", "aten::mul", "aten::mul_", "aten::div", "aten::div_")
HEADED = 4
"""Dimensions of a tensor of heads: batch, heads, length, width."""
LEAST_KEYS = 16
"""Shorter rows are something else's softmax (experts, classes)."""


Scores = tuple[int, int, int]
"""Elements of a tensor of scores, and its last two dimensions in ascending order."""


def attention(view: View) -> list[Waste]:
    """One entry for all attention that is written out."""
    softmax = {scores for group in view.groups if group.name in SOFTMAX for scores in _scores(group)}
    products = [(group, found) for group in view.groups if group.name in PRODUCTS and (found := _matrices(group, view))]
    shapes = softmax & {found[0] for _, found in products} & {factor for _, found in products for factor in found[1:]}
    if not shapes or view.ceilings is None:
        return []
    some = [group for group, found in products if shapes.intersection(found)]
    factors = {tensor.count for group in some if group.arguments for tensor in group.arguments.tensors()}
    around = [g for g in view.groups if g.name not in PRODUCTS and (_touches(g, shapes) or _prepares(g, factors))]
    rows = unique(np.concatenate([group.rows for group in some + around]))
    fused_bytes = sum(_bytes_without(group, shapes, view) for group in some)
    return [
        waste(
            view,
            "attention",
            "attention written out: the scores of all pairs go through memory",
            "torch.nn.functional.scaled_dot_product_attention (is_causal=True in place of a causal mask)",
            rows,
            _least_ns(view, view.ceilings, rows, fused_bytes),
            bytes=int(view.within(rows, view.moved)),
            least_bytes=int(fused_bytes),
        )
    ]


def _least_ns(view: View, ceilings: Ceilings, rows: Rows, fused_bytes: float) -> int:
    """The products' FLOPs in the fastest precision of attention, or the bytes that remain."""
    best = max((ceilings.flops.get(precision, 0.0) for precision in PRECISIONS), default=0.0)
    compute = view.least(rows, view.flops / best * 1e9) if best else 0
    return max(compute, int(fused_bytes / ceilings.dram_bytes_per_s * 1e9))


def _shape(count: int, rows: int, columns: int) -> Scores:
    return count, min(rows, columns), max(rows, columns)


def _scores(group: Group) -> set[Scores]:
    """The scores that a softmax over the last dimension of batches of heads goes over."""
    tensor = group.arguments.tensor(0) if group.arguments is not None else None
    if tensor is None or len(tensor.dims) < 3 or tensor.dims[-1] < LEAST_KEYS:
        return set()
    return {_shape(tensor.count, *tensor.dims[-2:])}


def _matrices(group: Group, view: View) -> list[Scores]:
    """The result and the factors of a batched product."""
    work = view.work_of(int(group.rows[0]))
    if work is None or work.matmul is None:
        return []
    m = work.matmul
    return [_shape(m.batch * rows * columns, rows, columns) for rows, columns in ((m.m, m.n), (m.m, m.k), (m.k, m.n))]


def _touches(group: Group, shapes: set[Scores]) -> bool:
    """Whether an operator works on scores."""
    tensors = group.arguments.tensors() if group.arguments is not None else []
    return any(len(t.dims) > 2 and _shape(t.count, *t.dims[-2:]) in shapes for t in tensors)


def _prepares(group: Group, factors: set[int]) -> bool:
    """Whether an operator copies or scales queries, keys or values, as batches of heads, for the products."""
    tensors = group.arguments.tensors() if group.arguments is not None and group.name in PREPARING else []
    return any(len(tensor.dims) >= HEADED and tensor.count in factors for tensor in tensors)


def _bytes_without(group: Group, shapes: set[Scores], view: View) -> float:
    """Bytes of a product in the window, without those of scores that it reads or writes."""
    work = view.work_of(int(group.rows[0]))
    moved = view.within(group.rows, view.moved)
    if work is None or work.matmul is None or not work.read + work.written:
        return moved
    item = work.written / max(work.matmul.batch * work.matmul.m * work.matmul.n, 1)
    scores = sum(count * item for count, *_ in shapes.intersection(_matrices(group, view)))
    return moved * max(1 - scores / (work.read + work.written), 0.0)
