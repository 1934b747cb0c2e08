"""Sums and their kin, softmax, norms, losses and pooling: they read their input once and write their result."""

from __future__ import annotations

from gpuwhy.roofline.arguments import ITEM_SIZES, SCALAR_TYPES, Arguments, Tensor
from gpuwhy.roofline.operators.base import FLOATING, Formula, Work, moved, product

OVER_DIMENSIONS = """sum mean nansum amax amin logsumexp prod any all std var norm linalg_vector_norm count_nonzero
argmax argmin max min median var_mean std_mean aminmax"""
TO_BOOL, TO_INDEX, TO_INDEX_TOO = ("any", "all"), ("argmax", "argmin", "count_nonzero"), ("max", "min", "median")
DIMENSIONS_AT = {"norm": 2, "linalg_vector_norm": 2}
"""Where the dimensions stand, if they do not follow the tensor."""
DIMENSIONS_BY_FOUR = ("sum", "mean", "prod", "nansum", "var", "std", "var_mean", "std_mean", "norm")
"""With fewer arguments there are no dimensions among them: a type stands there, or whether to correct a bias."""
TYPE_AT = {
    **{(name, 2): 1 for name in ("sum", "mean", "prod", "nansum")},
    **{(name, 4): 3 for name in ("sum", "mean", "prod", "nansum")},
    ("linalg_vector_norm", 5): 4,
    ("norm", 3): 2,
    ("norm", 5): 4,
}
"""Where a type for the result stands, by the number of arguments."""
TWICE = "cummax cummin sort"
"""They also write an index of eight bytes an element."""


def _kept(x: Tensor, dimensions: object) -> int | None:
    """Elements that are left when the dimensions are reduced: none of them named means all."""
    if dimensions in ([], None):
        return 1
    some = dimensions if isinstance(dimensions, list) else [dimensions]
    places = set()
    for one in some:
        if not isinstance(one, int) or isinstance(one, bool) or not -len(x.dims) <= one < max(len(x.dims), 1):
            return None
        places.add(one % max(len(x.dims), 1))
    return product(size for place, size in enumerate(x.dims) if place not in places)


def _reduced(name: str) -> Formula:
    at = DIMENSIONS_AT.get(name, 1)

    def formula(of: Arguments, _: int | None) -> Work | None:
        x = of.tensor(0)
        if x is None:
            return None
        second = of.tensor(1)
        if second is not None and name in ("max", "min"):  # the larger of two tensors
            return moved([x, second], float(max(x.count, second.count) * x.item))
        whole = len(of.items) <= at or (len(of.items) < 4 and name in DIMENSIONS_BY_FOUR)
        if not whole and (of.unrecorded(at) or (of.items[at] is None and x.strides is None)):
            return None  # before 2.1 lists were not written, and look like no list
        kept = 1 if whole else _kept(x, of.value(at))
        if kept is None:
            return None
        item = 1 if name in TO_BOOL else 8 if name in TO_INDEX else _item(x, name, of)
        if name in TO_INDEX_TOO and not whole:
            item += 8
        return moved([x], float(kept * item * (2 if name in ("var_mean", "std_mean", "aminmax") else 1)))

    return formula


def _item(x: Tensor, name: str, of: Arguments) -> int:
    """Bytes of a result: of the type that was asked for, else sums of small integers are wide."""
    out, number = of.tensor(len(of.items) - 1), of.value(TYPE_AT.get((name, len(of.items)), len(of.items)))
    if out is not None and len(of.items) > 1 and name not in TO_INDEX_TOO:
        return out.item
    if isinstance(number, int) and not isinstance(number, bool):
        return ITEM_SIZES[SCALAR_TYPES[number]]
    if x.type in FLOATING or "complex" in x.type or name in ("amax", "amin", "max", "min", "median", "aminmax"):
        return x.item
    return 8 if name in ("sum", "prod", "nansum") else 4


def _same(extra: int) -> Formula:
    def formula(of: Arguments, _: int | None) -> Work | None:
        x = of.tensor(0)
        return None if x is None else moved([x], float(x.count * (x.item + extra)))

    return formula


def _topk(of: Arguments, _: int | None) -> Work | None:
    """`topk(x, k, dim)`: values and indices."""
    x, k = of.tensor(0), of.value(1)
    dimension = of.value(2)
    if x is None or not x.dims or not isinstance(k, int):
        return None
    place = dimension if isinstance(dimension, int) and -len(x.dims) <= dimension < len(x.dims) else -1
    return moved([x], x.count / max(x.dims[place], 1) * k * (x.item + 8))


def _cumulated(of: Arguments, _: int | None) -> Work | None:
    """`cumsum(x, dim, dtype)`."""
    x, number = of.tensor(0), of.value(2)
    if x is None:
        return None
    wide = x.item if x.type in FLOATING or "complex" in x.type else 8
    return moved([x], float(x.count * (ITEM_SIZES[SCALAR_TYPES[number]] if isinstance(number, int) else wide)))


def _argsort(of: Arguments, _: int | None) -> Work | None:
    x = of.tensor(0)
    return None if x is None else moved([x], 8.0 * x.count)


def _softmax(of: Arguments, _: int | None) -> Work | None:
    """`_softmax(x, dim, half_to_float)`."""
    x, wide = of.tensor(0), of.flag(2)
    if x is None or (wide is None and x.item < 4):
        return None
    return moved([x], float(x.count * (4 if wide else x.item)))


def _softmax_backward(of: Arguments, _: int | None) -> Work | None:
    """`_softmax_backward_data(grad, output, dim, input_dtype)`; before 1.11 the last is the input."""
    grad, out, x, number = of.tensor(0), of.tensor(1), of.tensor(3), of.value(3)
    if grad is None or out is None or of.unrecorded(3):
        return None
    if x is not None:
        return moved([grad, out], float(grad.count * x.item))
    name = SCALAR_TYPES.get(number) if isinstance(number, int) else None
    return moved([grad, out], float(grad.count * (ITEM_SIZES[name] if name else grad.item)))


def _masked_softmax(of: Arguments, _: int | None) -> Work | None:
    x = of.tensor(0)
    return None if x is None else moved([x, of.tensor(1)], float(x.count * x.item))


def _rows(x: Tensor, last: int) -> int:
    return product(x.dims[: len(x.dims) - last])


def _layer_norm(of: Arguments, _: int | None) -> Work | None:
    """`native_layer_norm(x, shape, weight, bias, eps)`: also writes mean and 1/σ of each row."""
    x, shape = of.tensor(0), of.numbers(1)
    if x is None or shape is None:
        return None
    return moved([x, of.tensor(2), of.tensor(3)], float(x.count * x.item + 8 * _rows(x, len(shape))))


def _rms_norm(of: Arguments, _: int | None) -> Work | None:
    """`_fused_rms_norm(x, shape, weight, eps)`: also writes 1/rms of each row."""
    x, shape = of.tensor(0), of.numbers(1)
    if x is None or shape is None:
        return None
    return moved([x, of.tensor(2)], float(x.count * x.item + 4 * _rows(x, len(shape))))


def _norm_backward(weight_at: int, mask_at: int) -> Formula:
    """`…_backward(grad, x, …, mask)` of layer, group and RMS norm.

    Where the weight has a gradient, a second kernel reads the gradient and the input again.
    """

    def formula(of: Arguments, _: int | None) -> Work | None:
        grad, x = of.tensor(0), of.tensor(1)
        if grad is None or x is None:
            return None
        mask = of.value(mask_at)
        weight = of.tensor(weight_at)
        if not isinstance(mask, list) or not mask:
            return None
        wanted = mask[1:].count(True) if weight is not None else 0
        parameters = weight.bytes * wanted if weight is not None else 0
        work = moved(of.tensors(), float((x.count * x.item if mask[0] else 0) + parameters))
        again = float(grad.bytes + x.bytes) if wanted else 0.0
        return Work(work.flops, work.read, work.written, again=again)

    return formula


def _batch_norm(training_at: int | None) -> Formula:
    """`f(x, weight, bias, running_mean, running_var, …)`. While training the statistics take a pass of their own over
    the input, and are written: in fp32 for the backward pass, and into the running ones.
    """

    def formula(of: Arguments, _: int | None) -> Work | None:
        x = of.tensor(0)
        if x is None or len(x.dims) < 2:
            return None
        training = of.flag(training_at) if training_at is not None else True
        if training is None:
            return None
        small = [of.tensor(place) for place in range(1, 5)]
        running = sum(tensor.bytes for tensor in small[2:] if tensor is not None)
        statistics = 8 * x.dims[1] + running if training else 0
        work = moved([x, *small], float(x.count * x.item + statistics))
        return Work(work.flops, work.read, work.written, again=float(x.bytes) if training else 0.0)

    return formula


def _batch_norm_backward(first: int, second: int) -> Formula:
    """The two tensors are the input and the gradient; one pass sums them up, another writes the result."""

    def formula(of: Arguments, _: int | None) -> Work | None:
        x, grad = of.tensor(first), of.tensor(second)
        if x is None or grad is None:
            return None
        weight = of.tensor(2)
        parameters = 2 * weight.bytes if weight is not None else 0
        work = moved(map(of.tensor, range(7)), float(x.count * x.item + parameters))
        return Work(0.0, work.read, work.written, again=float(x.bytes + grad.bytes))

    return formula


def _group_norm(of: Arguments, _: int | None) -> Work | None:
    """`native_group_norm(x, weight, bias, N, C, HxW, groups, eps)`: also writes mean and 1/σ of each group."""
    x, batch, groups = of.tensor(0), of.value(3), of.value(6)
    if x is None or not isinstance(batch, int) or not isinstance(groups, int):
        return None
    work = moved([x, of.tensor(1), of.tensor(2)], float(x.count * x.item + 2 * batch * groups * x.item))
    return Work(work.flops, work.read, work.written, again=float(x.bytes))


def _read(*places: int, again: float = 0.0) -> Formula:
    """The tensors at these places are read; the result is small."""

    def formula(of: Arguments, _: int | None) -> Work | None:
        tensors = [of.tensor(place) for place in places]
        return None if tensors[0] is None else moved(tensors, again)

    return formula


def _loss(of: Arguments, _: int | None) -> Work | None:
    """`mse_loss(x, target, reduction)`: a number an element without reduction, else one."""
    x, target, reduction = of.tensor(0), of.tensor(1), of.value(2)
    if x is None or target is None or reduction is None:
        return None
    return moved([x, target], float(x.count * x.item if reduction == 0 else x.item))


def _loss_backward(of: Arguments, _: int | None) -> Work | None:
    """`mse_loss_backward(grad, x, target, reduction)`."""
    x = of.tensor(1)
    return None if x is None else moved([of.tensor(0), x, of.tensor(2)], float(x.count * x.item))


def _nll(of: Arguments, _: int | None) -> Work | None:
    """One element of each row is read (the rest of its 32-byte sector comes with it), and its target."""
    x, target, reduction = of.tensor(0), of.tensor(1), of.value(3)
    if x is None or target is None or reduction is None:
        return None
    results = target.count + 1 if reduction == 0 else 2  # and the sum of the weights
    return Work(0.0, float(target.bytes + 32 * target.count), float(results * x.item))


def _nll_backward(of: Arguments, _: int | None) -> Work | None:
    """One element of each row is written; that the others are zero is another operator's work."""
    grad, x, target = (of.tensor(place) for place in range(3))
    if grad is None or x is None or target is None:
        return None
    return Work(0.0, float(grad.bytes + target.bytes), float(32 * target.count))


def _pooled(count: int, dilation_at: int | None, ceil_at: int, index: int = 0) -> Formula:
    """`avg_pool2d(x, kernel, stride, padding, ceil, …)`; `max_pool2d_with_indices(x, …, dilation, ceil)` too, which
    also writes an index of eight bytes an element.
    """

    def formula(of: Arguments, _: int | None) -> Work | None:
        x, kernel = of.tensor(0), _spread(of.numbers(1), count)
        if x is None or kernel is None or len(x.dims) <= count or of.unrecorded(ceil_at):
            return None
        stride = _spread(of.numbers(2) or kernel, count)
        padding = _spread(of.numbers(3) or [0], count)
        dilation = _spread((of.numbers(dilation_at) if dilation_at is not None else None) or [1], count)
        if stride is None or padding is None or dilation is None or min(stride) < 1:
            return None
        rows = zip(x.dims[-count:], kernel, stride, padding, dilation, strict=True)
        up = of.flag(ceil_at) is True
        places = product(_windows(n, (k - 1) * d + 1, s, p, up) for n, k, s, p, d in rows)
        return moved([x], float(product(x.dims[:-count]) * places * (x.item + index)))

    return formula


def _spread(numbers: list[int] | None, count: int) -> list[int] | None:
    """One number stands for all dimensions."""
    if numbers is not None and len(numbers) == 1:
        return numbers * count
    return numbers if numbers is not None and len(numbers) == count else None


def _windows(size: int, reach: int, stride: int, padding: int, up: bool) -> int:
    """Places of a window; rounded up, the last one must still begin within the input."""
    room = size + 2 * padding - reach
    if not up:
        return max(room // stride + 1, 0)
    count = -(-room // stride) + 1
    return max(count - 1 if (count - 1) * stride >= size + padding else count, 0)


def _resized(index: int) -> Formula:
    """Adaptive pooling and interpolation: `f(x, output_size, …)`."""

    def formula(of: Arguments, _: int | None) -> Work | None:
        x, sizes = of.tensor(0), of.numbers(1)
        if x is None or not sizes or len(sizes) >= len(x.dims):
            return None
        return moved([x], float(product(x.dims[: -len(sizes)]) * product(sizes) * (x.item + index)))

    return formula


FORMULAS: dict[str, Formula] = {
    **{name: _reduced(name) for name in OVER_DIMENSIONS.split()},
    **dict.fromkeys(("cumsum", "cumprod", "logcumsumexp"), _cumulated),
    **{name: _same(8) for name in TWICE.split()},
    "argsort": _argsort,
    "topk": _topk,
    "_softmax": _softmax,
    "_log_softmax": _softmax,
    "_softmax_backward_data": _softmax_backward,
    "_log_softmax_backward_data": _softmax_backward,
    "_masked_softmax": _masked_softmax,
    "native_layer_norm": _layer_norm,
    "native_layer_norm_backward": _norm_backward(5, 7),
    "_fused_rms_norm": _rms_norm,
    "_fused_rms_norm_backward": _norm_backward(4, 5),
    "native_group_norm": _group_norm,
    "native_group_norm_backward": _norm_backward(4, 9),
    "native_batch_norm": _batch_norm(5),
    "cudnn_batch_norm": _batch_norm(5),
    "miopen_batch_norm": _batch_norm(5),
    "_native_batch_norm_legit": _batch_norm(5),
    "_batch_norm_with_update": _batch_norm(None),
    "native_batch_norm_backward": _batch_norm_backward(0, 1),
    "cudnn_batch_norm_backward": _batch_norm_backward(0, 1),
    "miopen_batch_norm_backward": _batch_norm_backward(0, 1),
    "batch_norm_backward": _batch_norm_backward(0, 1),
    "batch_norm_stats": _read(0),
    "batch_norm_backward_reduce": _read(0, 1),
    "batch_norm_elemt": _same(0),
    "mse_loss": _loss,
    "l1_loss": _loss,
    "smooth_l1_loss": _loss,
    "huber_loss": _loss,
    "mse_loss_backward": _loss_backward,
    "binary_cross_entropy_backward": _loss_backward,
    "nll_loss_forward": _nll,
    "nll_loss_backward": _nll_backward,
    "nll_loss2d_forward": _nll,
    "nll_loss2d_backward": _nll_backward,
    "max_pool2d_with_indices": _pooled(2, 4, 5, index=8),
    "max_pool3d_with_indices": _pooled(3, 4, 5, index=8),
    "avg_pool2d": _pooled(2, None, 4),
    "avg_pool3d": _pooled(3, None, 4),
    "_adaptive_avg_pool2d": _resized(0),
    "adaptive_max_pool2d": _resized(8),
    "upsample_nearest2d": _resized(0),
    "_upsample_nearest_exact2d": _resized(0),
    "upsample_bilinear2d": _resized(0),
    "upsample_bicubic2d": _resized(0),
    "nonzero": _read(0),
    "_local_scalar_dense": _read(0),
    "_amp_foreach_non_finite_check_and_unscale_": lambda *_: None,
}
