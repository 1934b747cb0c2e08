"""Matrix products: 2 · m · n · k operations a product of (m, k) by (k, n)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gpuwhy.roofline.arguments import ITEM_SIZES, SCALAR_TYPES, Arguments, Tensor
from gpuwhy.roofline.operators.base import Formula, Matmul, Work, product


def _matrices(a: Tensor | None, b: Tensor | None) -> Matmul | None:
    """The product of two matrices or of two batches of them."""
    if a is None or b is None or len(a.dims) != len(b.dims) or len(a.dims) not in (2, 3):
        return None
    batch = a.dims[0] if len(a.dims) == 3 else 1
    m, k = a.dims[-2:]
    if b.dims[-2] != k or (len(b.dims) == 3 and b.dims[0] != batch):
        return None
    return Matmul(batch, m, b.dims[-1], k)


def _work(shape: Matmul, read: Sequence[Tensor | None], a: Tensor, item: int) -> Work:
    return Work(
        2.0 * shape.batch * shape.m * shape.n * shape.k,
        sum(tensor.bytes for tensor in read if tensor is not None),
        float(shape.batch * shape.m * shape.n * item),
        a.type,
        matmul=shape,
    )


def _product(first: int, added: int | None = None) -> Formula:
    """The tensors at `first` and after it are multiplied; the one at `added` is added."""

    def formula(of: Arguments, _: int | None) -> Work | None:
        a, b = of.tensor(first), of.tensor(first + 1)
        shape = _matrices(a, b)
        if shape is None or a is None:
            return None
        bias = of.tensor(added) if added is not None else None
        return _work(shape, [a, b, bias], a, a.item)

    return formula


def _summed(of: Arguments, _: int | None) -> Work | None:
    """`addbmm(x, a, b)`: the products of all pairs of matrices are added to one matrix."""
    x, a = of.tensor(0), of.tensor(1)
    shape = _matrices(a, of.tensor(2))
    if shape is None or a is None:
        return None
    work = _work(shape, [a, of.tensor(2), x], a, a.item)
    return replace(work, written=float(shape.m * shape.n * a.item))


def _scaled(of: Arguments, _: int | None) -> Work | None:
    """`_scaled_mm(a, b, scale_a, scale_b, bias, scale_result, out_dtype, …)`; before 2.5 `(a, b, bias, out_dtype, …)`.

    Narrow factors, a wide result; without a type it is as narrow as they are.
    """
    a, b = of.tensor(0), of.tensor(1)
    shape = _matrices(a, b)
    if shape is None or a is None:
        return None
    if a.type == "c10::Float4_e2m1fn_x2":  # two values a byte, along k
        shape = Matmul(shape.batch, shape.m, shape.n, 2 * shape.k)
    of_place = next((place for place in (6, 3) if isinstance(of.value(place), int)), None)
    out = of.tensor(len(of.items) - 1)
    given = out if out is not None and out.dims == (shape.m, shape.n) else None
    name = given.type if given else a.type if of_place is None else SCALAR_TYPES[of.value(of_place)]
    return _work(shape, [t for t in of.tensors() if t is not given], a, ITEM_SIZES[name])


def _int(of: Arguments, _: int | None) -> Work | None:
    a, b = of.tensor(0), of.tensor(1)
    shape = _matrices(a, b)
    return None if shape is None or a is None else _work(shape, [a, b], a, 4)


def _vector(first: int, added: int | None = None) -> Formula:
    """A matrix at `first` times the vector after it, or two vectors."""

    def formula(of: Arguments, _: int | None) -> Work | None:
        a, x = of.tensor(first), of.tensor(first + 1)
        if a is None or x is None or len(x.dims) != 1 or not a.dims or a.dims[-1] != x.dims[0]:
            return None
        shape = Matmul(1, product(a.dims[:-1]), 1, x.dims[0])
        return _work(shape, [a, x, of.tensor(added) if added is not None else None], a, a.item)

    return formula


def _linear(of: Arguments, _: int | None) -> Work | None:
    """`linear(x, weight, bias)`, where it is not split into the product and the rest."""
    x, weight = of.tensor(0), of.tensor(1)
    if x is None or weight is None or len(weight.dims) != 2 or not x.dims or x.dims[-1] != weight.dims[1]:
        return None
    shape = Matmul(1, product(x.dims[:-1]), weight.dims[0], weight.dims[1])
    return _work(shape, [x, weight, of.tensor(2)], x, x.item)


def _matmul(of: Arguments, _: int | None) -> Work | None:
    """`matmul`: batches are broadcast, a vector counts as a matrix of one row or column."""
    a, b = of.tensor(0), of.tensor(1)
    if a is None or b is None or not a.dims or not b.dims:
        return None
    left = a.dims if len(a.dims) > 1 else (1, *a.dims)
    right = b.dims if len(b.dims) > 1 else (*b.dims, 1)
    if left[-1] != right[-2]:
        return None
    long, short = sorted((left[:-2], right[:-2]), key=len, reverse=True)
    short = (1,) * (len(long) - len(short)) + short
    if any(x != y and 1 not in (x, y) for x, y in zip(long, short, strict=True)):
        return None
    batch = product(max(x, y) if x and y else 0 for x, y in zip(long, short, strict=True))
    return _work(Matmul(batch, left[-2], right[-1], left[-1]), [a, b], a, a.item)


def _grouped(of: Arguments, _: int | None) -> Work | None:
    """`_grouped_mm(a, b, offsets)` of rows that are split among experts: every row meets one expert's matrix.

    For the gradient of the experts' matrices the common dimension is what is split: a result an expert.
    """
    a, b = of.tensor(0), of.tensor(1)
    if a is None or b is None or len(a.dims) != 2 or len(b.dims) not in (2, 3) or a.dims[1] != b.dims[-2]:
        return None
    work = _work(Matmul(1, a.dims[0], b.dims[-1], a.dims[1]), of.tensors(), a, 2 if a.item == 1 else a.item)
    if len(b.dims) == 3:
        return work
    offsets = next((t for t in of.tensors()[2:] if t.type in ("int", "long int")), None)
    return None if offsets is None else replace(work, written=work.written * offsets.count)


def _recurrent(weights: int | slice, both_at: int | None = None, backward: bool = False) -> Formula:
    """A recurrent network: each step multiplies each sequence's state by all weight matrices.

    The input stands first; `both_at` is where a flag asks for both directions. Backward reads the output and its
    gradient besides, and multiplies twice. Biases and first states are left out.
    """

    def formula(of: Arguments, item: int | None) -> Work | None:
        x = of.tensor(0)
        if isinstance(weights, slice):
            found = [t for t in of.items[weights] if isinstance(t, Tensor)]
        else:
            found = of.several(weights) or []
        square = [tensor for tensor in found if len(tensor.dims) == 2]
        matrices = sum(tensor.count for tensor in square)
        if x is None or len(x.dims) != 3 or len(square) < 2:
            return None
        steps = x.dims[0] * x.dims[1]
        directions = 2 if both_at is not None and of.flag(both_at) else 1
        out = steps * square[1].dims[1] * directions * x.item  # the second matrix maps the state
        flops = 2.0 * steps * matrices * (2 if backward else 1)
        held = matrices * x.item
        if backward:
            return Work(flops, x.bytes + held + 2.0 * out, float(x.count * x.item + held), x.type)
        return Work(flops, float(x.bytes + held), float(out), x.type)

    return formula


FORMULAS: dict[str, Formula] = {
    "mm": _product(0),
    "bmm": _product(0),
    **dict.fromkeys(("addmm", "addmm_"), _product(1, added=0)),
    "_addmm_activation": _product(1, added=0),
    **dict.fromkeys(("baddbmm", "baddbmm_"), _product(1, added=0)),
    **dict.fromkeys(("addbmm", "addbmm_"), _summed),
    "_scaled_mm": _scaled,
    "_int_mm": _int,
    "_grouped_mm": _grouped,
    "_scaled_grouped_mm": _grouped,
    "mv": _vector(0),
    **dict.fromkeys(("addmv", "addmv_"), _vector(1, added=0)),
    "dot": _vector(0),
    "vdot": _vector(0),
    "linear": _linear,
    "mkldnn_linear": _linear,
    "_mkldnn_linear_pointwise": _linear,
    "matmul": _matmul,
    "_cudnn_rnn": _recurrent(1, 13),
    "_cudnn_rnn_backward": _recurrent(1, 17, backward=True),
    "miopen_rnn": _recurrent(1, 11),
    "mkldnn_rnn_layer": _recurrent(slice(1, 3)),
    "mkldnn_rnn_layer_backward": _recurrent(slice(1, 3), backward=True),
}
