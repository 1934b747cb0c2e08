"""Sums and their kin, softmax, norms, losses and pooling: they read their input once and write their result."""

from __future__ import annotations

from gpuwhy.roofline.arguments import ITEM_SIZES, SCALAR_TYPES, Arguments, Tensor
from gpuwhy.roofline.operators.base import FLOATING, Formula, Work, moved, product

OVER_DIMENSIONS = """sum mean nansum amax amin logsumexp prod any all std var norm linalg_vector_norm count_nonzero
argmax argmin max min median var_mean std_mean aminmax"""
TO_BOOL, TO_INDEX, TO_INDEX_TOO = ("any", "all"), ("argmax", "argmin", "count_nonzero"), ("max", "min", "median")
DIMENSIONS_AT = {"norm": 2, "linalg_vector_norm": 2}
"""Where the dimensions stand, if they do not follow the tensor."""
SAME_SHAPE = "cumsum cumprod logcumsumexp"
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
        given = [item for item in of.items[1:] if isinstance(item, str)]
        recorded = any(item is not None for item in of.items[1:])
        if len(of.items) > 1 and not given and recorded:
            return None
        kept = _kept(x, of.value(at))
        if kept is None:
            return None
        item = 1 if name in TO_BOOL else 8 if name in TO_INDEX else _item(x, name)
        if (name in TO_INDEX_TOO and at < len(of.items)) and of.value(at) is not None:
            item += 8
        return moved([x], float(kept * item * (2 if name in ("var_mean", "std_mean", "aminmax") else 1)))

    return formula


def _item(x: Tensor, name: str) -> int:
    """Bytes of a result: sums of small integers are wide."""
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


def _softmax(of: Arguments, _: int | None) -> Work | None:
    """`_softmax(x, dim, half_to_float)`."""
    x = of.tensor(0)
    return None if x is None else moved([x], float(x.count * (4 if of.flag(2) else x.item)))


def _softmax_backward(of: Arguments, _: int | None) -> Work | None:
    """`_softmax_backward_data(grad, output, dim, input_dtype)`."""
    grad, out = of.tensor(0), of.tensor(1)
    if grad is None or out is None:
        return None
    number = of.value(3)
    name = SCALAR_TYPES.get(number) if isinstance(number, int) else None
    return moved([grad, out], float(grad.count * (ITEM_SIZES[name] if name else grad.item)))


def _masked_softmax(of: Arguments, _: int | None) -> Work | None:
    x = of.tensor(0)
    return None if x is None else moved([x, of.tensor(1)], float(x.bytes))


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
        wanted = isinstance(mask, list) and any(mask[1:]) and weight is not None
        parameters = (weight.bytes if weight is not None else 0) * 2 if wanted else 0
        rest = [t for t in of.tensors()[2:] if t is not weight]
        work = moved([grad, x, weight, *rest], float(x.count * x.item + parameters))
        again = float(grad.bytes + x.bytes) if wanted else 0.0
        return Work(work.flops, work.read, work.written, again=again)

    return formula


def _batch_norm(training_at: int | None) -> Formula:
    """While training the statistics take a pass of their own over the input."""

    def formula(of: Arguments, _: int | None) -> Work | None:
        x = of.tensor(0)
        if x is None or len(x.dims) < 2:
            return None
        training = of.flag(training_at) if training_at is not None else True
        if training is None:
            return None
        work = moved(of.tensors(), float(x.count * x.item))
        return Work(work.flops, work.read, work.written, again=float(x.bytes) if training else 0.0)

    return formula


def _batch_norm_backward(first: int, second: int) -> Formula:
    """The two tensors are the input and the gradient; one pass sums them up, another writes the result."""

    def formula(of: Arguments, _: int | None) -> Work | None:
        x, grad = of.tensor(first), of.tensor(second)
        if x is None or grad is None:
            return None
        again = float(x.bytes + grad.bytes)
        return Work(0.0, again, float(x.count * x.item), again=again)

    return formula


def _group_norm(of: Arguments, _: int | None) -> Work | None:
    x = of.tensor(0)
    return None if x is None else Work(0.0, float(x.bytes), float(x.count * x.item), again=float(x.bytes))


def _read(*places: int, again: float = 0.0) -> Formula:
    """The tensors at these places are read; the result is small."""

    def formula(of: Arguments, _: int | None) -> Work | None:
        tensors = [of.tensor(place) for place in places]
        return None if tensors[0] is None else moved(tensors, again)

    return formula


def _loss(of: Arguments, _: int | None) -> Work | None:
    """`mse_loss(x, target, reduction)`: a number an element without reduction, else one."""
    x, target, reduction = of.tensor(0), of.tensor(1), of.value(2)
    if x is None or target is None:
        return None
    return moved([x, target], float(x.count * x.item if reduction == 0 else x.item))


def _loss_backward(of: Arguments, _: int | None) -> Work | None:
    """`mse_loss_backward(grad, x, target, reduction)`."""
    x = of.tensor(1)
    return None if x is None else moved([of.tensor(0), x, of.tensor(2)], float(x.count * x.item))


def _nll(of: Arguments, _: int | None) -> Work | None:
    """One element of each row is read (the rest of its 32-byte sector comes with it), and its target."""
    x, target = of.tensor(0), of.tensor(1)
    return None if x is None or target is None else Work(0.0, float(target.bytes + 32 * target.count), float(x.item))


def _nll_backward(of: Arguments, _: int | None) -> Work | None:
    """One element of each row is written; that the others are zero is another operator's work."""
    x, target = of.tensor(1), of.tensor(2)
    return None if x is None or target is None else Work(0.0, float(target.bytes), float(32 * target.count))


def _pooled(of: Arguments, _: int | None) -> Work | None:
    """`avg_pool2d(x, kernel, stride, padding, …)`, `max_pool2d_with_indices` likewise."""
    x, kernel = of.tensor(0), of.numbers(1)
    if x is None or kernel is None or len(x.dims) < 3:
        return None
    kernel = kernel * 2 if len(kernel) == 1 else kernel
    count = len(kernel)
    given = of.numbers(2)
    stride = kernel if not given else given * count if len(given) == 1 else given
    padding = of.numbers(3) or [0] * count
    padding = padding * count if len(padding) == 1 else padding
    if len(stride) != count or len(padding) != count or min(stride) < 1 or count >= len(x.dims):
        return None
    sizes = [(n + 2 * p - k) // s + 1 for n, k, s, p in zip(x.dims[-count:], kernel, stride, padding, strict=True)]
    return moved([x], float(product(x.dims[:-count]) * product(max(n, 0) for n in sizes) * x.item))


def _resized(of: Arguments, _: int | None) -> Work | None:
    """Adaptive pooling and interpolation: `f(x, output_size, …)`."""
    x, sizes = of.tensor(0), of.numbers(1)
    if x is None or not sizes or len(sizes) >= len(x.dims):
        return None
    return moved([x], float(product(x.dims[: -len(sizes)]) * product(sizes) * x.item))


FORMULAS: dict[str, Formula] = {
    **{name: _reduced(name) for name in OVER_DIMENSIONS.split()},
    **{name: _same(0) for name in SAME_SHAPE.split()},
    **{name: _same(8) for name in TWICE.split()},
    "argsort": _same(8),
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
    "max_pool2d_with_indices": _pooled,
    "max_pool3d_with_indices": _pooled,
    "avg_pool2d": _pooled,
    "avg_pool3d": _pooled,
    "_adaptive_avg_pool2d": _resized,
    "adaptive_max_pool2d": _resized,
    "upsample_nearest2d": _resized,
    "_upsample_nearest_exact2d": _resized,
    "upsample_bilinear2d": _resized,
    "upsample_bicubic2d": _resized,
    "nonzero": _read(0),
    "_local_scalar_dense": _read(0),
    "_amp_foreach_non_finite_check_and_unscale_": lambda *_: None,
}
