"""Kernels that a compiler generated (Triton): the bytes of their inputs and outputs.

All tensors that a kernel reads or writes are its arguments, so their sum is its traffic. A table of which only some
rows are looked up counts at most as many elements as the kernel has threads' work for (`xnumel` times `r0_numel`,
the numbers among its arguments).
"""

from __future__ import annotations

import re

from gpuwhy.roofline.arguments import Arguments
from gpuwhy.roofline.operators.base import Work

TEMPLATE = re.compile(r"triton_(tem_|mm|bmm|.*flex_attention)")
"""Kernels from templates (matrix products, attention): their operations are not known."""


def work(name: str, of: Arguments) -> Work | None:
    """The work of a generated kernel by its arguments."""
    tensors = of.tensors()
    if not tensors:
        return None
    sizes = [value for place in range(len(of.items)) if isinstance(value := of.value(place), int)]
    domain = _domain(name, [size for size in sizes if size > 0])
    total = 0.0
    for tensor in tensors:
        total += min(tensor.stored, domain or tensor.stored) * tensor.item
    flops = None if TEMPLATE.match(name) else 0.0
    return Work(flops, total, 0.0)


def _domain(name: str, sizes: list[int]) -> int | None:
    """Elements that the kernel goes over: `xnumel` (and `ynumel`), for reductions times the reduced length."""
    if not sizes:
        return None
    if re.match(r"triton_(per|red)", name):
        return sizes[-1] * sizes[-2] if len(sizes) > 1 else None
    return sizes[-1] if len(sizes) == 1 else max(sizes[-1], sizes[-1] * sizes[-2])
