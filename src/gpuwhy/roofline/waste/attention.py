"""Attention written out: scores in memory, with a softmax between two matrix products.

A fused kernel keeps the scores on the chip. What it then moves are the queries, keys, values and the output; it
computes the same products.
"""

from __future__ import annotations

import numpy as np

from gpuwhy.arrays import unique
from gpuwhy.roofline.view import Group, View
from gpuwhy.roofline.waste.base import Waste, concerned

SOFTMAX = ("aten::_softmax", "aten::_softmax_backward_data", "aten::_safe_softmax", "aten::_masked_softmax")
PRODUCTS = ("aten::bmm", "aten::baddbmm", "aten::matmul")
PREPARING = ("aten::copy_", "aten::mul", "aten::mul_", "aten::div", "aten::div_")
HEADED = 4
"""Dimensions of a tensor of heads: batch, heads, length, width."""
LEAST_KEYS = 16
"""Shorter rows are something else's softmax (experts, classes)."""


def attention(view: View) -> list[Waste]:
    """One entry for all attention that is written out."""
    softmax = {shape for g in view.groups if g.name in SOFTMAX and (shape := _scores(g)) is not None}
    products = [g for g in view.groups if g.name in PRODUCTS and g.arguments is not None]
    shapes = {shape for shape in softmax if any(_is_product_of(g, shape, view) for g in products)}
    if not shapes:
        return []
    factors = {count for g in products for shape in shapes if _is_product_of(g, shape, view) for count in _factors(g)}
    some = [g for g in view.groups if any(_touches(g, shape, view) for shape in shapes) or _prepares(g, factors)]
    rows = unique(np.concatenate([g.rows for g in some]))
    best = max(view.ceilings.flops.get(p, 0.0) for p in ("bf16", "fp16", "fp32")) if view.ceilings else np.inf
    compute = np.nan_to_num(view.flops[rows]) / best * 1e9
    fused_bytes = sum(view.within(g.rows, view.moved) - _score_bytes(g, shapes, view) for g in products if g in some)
    memory = fused_bytes / view.ceilings.dram_bytes_per_s * 1e9 if view.ceilings else 0.0
    return [
        Waste(
            "attention",
            "attention written out: the scores of all pairs go through memory",
            "torch.nn.functional.scaled_dot_product_attention (is_causal=True in place of a causal mask)",
            rows,
            int(view.ns[rows].sum()),
            int(max((compute * view.share[rows]).sum(), memory)),
            concerned(view.groups, view, rows),
            bytes=int(view.within(rows, view.moved)),
            least_bytes=int(max(fused_bytes, 0)),
        )
    ]


def _scores(group: Group) -> tuple[int, int, int] | None:
    """(elements, queries, keys) of a softmax over the last dimension of scores."""
    tensor = group.arguments.tensor(0) if group.arguments is not None else None
    if tensor is None or len(tensor.dims) < 3 or tensor.dims[-1] < LEAST_KEYS:
        return None
    return tensor.count, tensor.dims[-2], tensor.dims[-1]


def _is_product_of(group: Group, shape: tuple[int, int, int], view: View) -> bool:
    """Whether a product makes such scores, or multiplies them."""
    work = view.work_of(int(group.rows[0]))
    if work is None or work.matmul is None:
        return False
    m = work.matmul
    count, queries, keys = shape
    made = (m.batch * m.m * m.n, m.m, m.n), (m.batch * m.m * m.k, m.m, m.k), (m.batch * m.k * m.n, m.k, m.n)
    return any(one in ((count, queries, keys), (count, keys, queries)) for one in made)


def _touches(group: Group, shape: tuple[int, int, int], view: View) -> bool:
    if group.name in PRODUCTS:
        return _is_product_of(group, shape, view)
    if group.arguments is None:
        return False
    return any(
        tensor.count == shape[0] and tensor.dims[-2:] in (shape[1:], shape[:0:-1])
        for tensor in group.arguments.tensors()
        if len(tensor.dims) > 2
    )


def _factors(group: Group) -> list[int]:
    """Elements of a product's factors."""
    return [tensor.count for tensor in group.arguments.tensors()] if group.arguments is not None else []


def _prepares(group: Group, factors: set[int]) -> bool:
    """Whether an operator copies or scales queries, keys or values, as batches of heads, for the products."""
    if group.arguments is None or group.name not in PREPARING:
        return False
    return any(len(tensor.dims) >= HEADED and tensor.count in factors for tensor in group.arguments.tensors())


def _score_bytes(group: Group, shapes: set[tuple[int, int, int]], view: View) -> float:
    """Bytes of scores that a product reads or writes in the window."""
    work = view.work_of(int(group.rows[0]))
    if work is None or work.matmul is None or not work.read + work.written:
        return 0.0
    counts = {shape[0] for shape in shapes}
    m = work.matmul
    item = work.written / max(m.batch * m.m * m.n, 1)
    part = sum(item * n for n in (m.batch * m.m * m.k, m.batch * m.k * m.n, m.batch * m.m * m.n) if n in counts)
    return view.within(group.rows, view.moved) * min(part / (work.read + work.written), 1.0)
