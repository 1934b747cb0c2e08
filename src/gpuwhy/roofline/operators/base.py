"""What an operator call has to do, and the bytes of its arguments."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from gpuwhy.roofline.arguments import ITEM_SIZES, Arguments, Tensor


@dataclass(frozen=True)
class Matmul:
    """A batch of matrix products: `batch` of (m, k) by (k, n). What a matrix unit works on."""

    batch: int
    m: int
    n: int
    k: int


@dataclass(frozen=True)
class Work:
    """What one call must do at least.

    `flops` counts two for each multiply–add of matrix products, convolutions and attention, and nothing else: 0 where
    there are none of these, None where their number is not known. `read` and `written` are bytes, each element of
    memory once. `again` are bytes that the known kernels of this operator move besides (second passes, sums in fp32).
    `type` is the type of the elements that are multiplied.
    """

    flops: float | None
    read: float
    written: float
    type: str | None = None
    again: float = 0.0
    matmul: Matmul | None = None


Formula = Callable[[Arguments, int | None], Work | None]
"""From the arguments, and the bytes an element as the kernel's name tells them (None: it does not), to the work;
None where they do not say enough."""


def moved(read: Iterable[Tensor | None], written: float) -> Work:
    """Work that is only traffic: the tensors that are read, and bytes written."""
    return Work(0.0, sum(tensor.bytes for tensor in read if tensor is not None), written)


def broadcast(tensors: Iterable[Tensor]) -> tuple[int, ...] | None:
    """The common shape of tensors, None where they have none."""
    shape: list[int] = []
    for tensor in tensors:
        dims = list(tensor.dims)
        longer, shorter = (dims, shape) if len(dims) > len(shape) else (shape, dims)
        shape = list(longer)
        for place in range(1, len(shorter) + 1):
            one, other = longer[-place], shorter[-place]
            if one != other and 1 not in (one, other):
                return None
            shape[-place] = other if one == 1 else one
    return tuple(shape)


FLOATING = ("double", "float", "c10::BFloat16", "c10::Half")


def promoted(tensors: list[Tensor], to_float: bool = False) -> str:
    """The type of a result, as PyTorch promotes types: tensors without dimensions count only by their kind."""
    kinds = {tensor.type for tensor in tensors if tensor.dims} or {tensor.type for tensor in tensors}
    complexes = sorted(t for t in kinds if "complex" in t)
    if complexes:
        return complexes[-1]
    floating = [t for t in FLOATING if t in kinds]
    if {"c10::BFloat16", "c10::Half"} <= kinds:
        return "double" if "double" in kinds else "float"
    if floating:
        return floating[0]
    if to_float or any(t.type in FLOATING for t in tensors):
        return "float"
    if kinds == {"bool"}:  # with a number
        return "long int" if any(t.type != "bool" for t in tensors) else "bool"
    return max(kinds, key=lambda t: ITEM_SIZES[t])


def product(sizes: Iterable[int]) -> int:
    """The number of elements of a shape."""
    return math.prod(sizes)
