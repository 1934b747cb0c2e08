"""Fused attention: two matrix products of (queries, keys, width) a head forward, five backward.

Only the pairs of a query and a key that are not masked count: with a causal mask each query meets the keys up to its
own place. Keys and values may have fewer heads than queries (grouped-query attention): work follows the queries'
heads, bytes the keys' own.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpuwhy.roofline.arguments import Arguments
from gpuwhy.roofline.operators.base import Formula, Work


@dataclass(frozen=True)
class Layout:
    """Where an operator has its arguments.

    `q` is the position of the queries (keys and values follow), `causal` of the flag or type of a causal mask,
    `heads` the dimension of the heads (1: batch, heads, length, width; 2: batch, length, heads, width).
    `mask` is the position of a mask or bias that is added to the scores, `mask_grad` of a flag (or several, of which
    the last counts) that its gradient is wanted, `sums` of one that asks for a number a query (None: it is always
    written).
    `lengths` are the positions of cumulated lengths: where one is given the batch is packed, and its sequences'
    lengths are not recorded. `aligned_last`: the causal mask ends at the last key, not at the query's own number.
    `typed`: whether it does is told by a number instead of a flag. `windows`: numbers that let each query see only keys
    near it.
    """

    q: int
    causal: int
    heads: int = 1
    backward: bool = False
    mask: int | None = None
    lengths: tuple[int, ...] = ()
    aligned_last: bool = False
    sums: int | None = None
    typed: bool = False
    mask_grad: int | None = None
    windows: tuple[int, ...] = ()

    @property
    def out(self) -> int:
        """Position of the output, backward: it follows the values, or their mask."""
        return self.q + (4 if self.mask == self.q + 3 else 3)


def unmasked(queries: int, keys: int, causal: bool, aligned_last: bool) -> int:
    """Pairs of a query and a key that count, of one head."""
    if not causal:
        return queries * keys
    first = keys - queries + 1 if aligned_last else 1  # keys that the first query sees
    last = first + queries - 1
    low, high = max(first, 0), min(last, keys)
    whole = max(queries - max(high - first + 1, 0), 0) if last > keys else 0  # queries that see every key
    return (low + high) * (high - low + 1) // 2 + whole * keys if high >= low else whole * keys


def _formula(layout: Layout) -> Formula:
    def formula(of: Arguments, _: int | None) -> Work | None:
        q, k, v = (of.tensor(layout.q + place) for place in range(3))
        if q is None or k is None or v is None or any(len(t.dims) != 4 for t in (q, k, v)):
            return None
        if any(of.tensor(place) is not None for place in layout.lengths) or _windowed(of, layout):
            return None
        masking = _masking(of, layout)
        if masking is None:
            return None
        at, other = (1, 2) if layout.heads == 1 else (2, 1)
        last = layout.aligned_last or masking == FROM_THE_END
        pairs = q.dims[0] * q.dims[at] * unmasked(q.dims[other], k.dims[other], masking != 0, last)
        flops = 2.0 * pairs * (q.dims[3] + v.dims[3])
        out = float(q.count // max(q.dims[3], 1) * v.dims[3] * q.item)
        sums = 4.0 * q.count // max(q.dims[3], 1)  # one fp32 number a query
        mask = of.tensor(layout.mask) if layout.mask is not None else None
        inputs = float(q.bytes + k.bytes + v.bytes + (mask.bytes if mask is not None else 0))
        if not layout.backward:
            return Work(flops, inputs, out + (sums if _sums(of, layout) else 0.0), q.type)
        read = sum(float(t.bytes) if t is not None else out for t in (of.tensor(0), of.tensor(layout.out)))
        flags = of.value(layout.mask_grad) if layout.mask_grad is not None else None
        wanted = flags[-1:] == [True] if isinstance(flags, list) else flags is True
        bias = mask.count * mask.item if mask is not None and wanted else 0
        # The gradient of the queries is summed up in fp32 and cast, and a first kernel reads the output and its
        # gradient to sum up their products: so do the kernels of FlashAttention, cuDNN and CUTLASS.
        again = out * 2 + 4.0 * q.count * 3 + sums
        return Work(
            2.0 * pairs * (3 * q.dims[3] + 2 * v.dims[3]),
            inputs + read + sums,
            float(q.count * q.item + k.count * k.item + v.count * v.item + bias),
            q.type,
            again,
        )

    return formula


FROM_THE_END = 2
"""A causal mask that ends at the last key. 1 is one that begins at the first."""


def _masking(of: Arguments, layout: Layout) -> int | None:
    """0 for no mask."""
    value = of.value(layout.causal - (1 if _older(of, layout) else 0))
    return int(value) if isinstance(value, int) else None


def _windowed(of: Arguments, layout: Layout) -> bool:
    """Whether each query sees only keys near it: the window's sides are given, and are not -1."""
    sizes = [of.value(place) for place in layout.windows]
    return any(isinstance(size, int) and not isinstance(size, bool) and size >= 0 for size in sizes)


def _sums(of: Arguments, layout: Layout) -> bool:
    return layout.sums is None or of.flag(layout.sums - (1 if _older(of, layout) else 0)) is not False


def _older(of: Arguments, layout: Layout) -> bool:
    """Before `_efficient_attention_…` had an argument `max_seqlen_k` all after it stood one place earlier."""
    return layout.typed and isinstance(of.value(layout.causal), bool)


FORMULAS: dict[str, Formula] = {
    name: _formula(layout)
    for name, layout in {
        "scaled_dot_product_attention": Layout(0, 5, mask=3),
        "_scaled_dot_product_flash_attention": Layout(0, 4),
        "_scaled_dot_product_flash_attention_for_cpu": Layout(0, 4, mask=5),
        "_scaled_dot_product_efficient_attention": Layout(0, 6, mask=3, sums=4),
        "_scaled_dot_product_cudnn_attention": Layout(0, 6, mask=3, sums=4),
        "_scaled_dot_product_fused_attention_overrideable": Layout(0, 5, mask=3),
        "_flash_attention_forward": Layout(0, 8, heads=2, lengths=(3, 4), aligned_last=True, windows=(11, 12)),
        "_efficient_attention_forward": Layout(
            0, 9, heads=2, mask=3, lengths=(4, 5), sums=10, typed=True, windows=(13,)
        ),
        "_cudnn_attention_forward": Layout(0, 10, mask=3, lengths=(4, 5), sums=8),
        "_scaled_dot_product_flash_attention_backward": Layout(1, 11, backward=True, lengths=(6, 7)),
        "_scaled_dot_product_flash_attention_for_cpu_backward": Layout(1, 7, backward=True, mask=8),
        "_scaled_dot_product_efficient_attention_backward": Layout(1, 11, backward=True, mask=4, mask_grad=10),
        "_scaled_dot_product_cudnn_attention_backward": Layout(1, 14, backward=True, mask=8, lengths=(9, 10)),
        "_flash_attention_backward": Layout(
            1, 11, heads=2, backward=True, lengths=(6, 7), aligned_last=True, windows=(15, 16)
        ),
        "_efficient_attention_backward": Layout(
            1, 14, heads=2, backward=True, mask=4, lengths=(6, 7), typed=True, mask_grad=15, windows=(18,)
        ),
        "_cudnn_attention_backward": Layout(1, 14, backward=True, mask=8, lengths=(9, 10)),
    }.items()
}
