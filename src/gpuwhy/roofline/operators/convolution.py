"""Convolutions: each output element sums (input channels / groups) · (kernel size) products.

The backward pass computes the same number once for the gradient of the input and once for that of the weights.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpuwhy.roofline.arguments import Arguments, Tensor
from gpuwhy.roofline.operators.base import Formula, Work, product


@dataclass(frozen=True)
class Places:
    """Where an operator has its arguments (`transposed` and `output_padding` only where it has them)."""

    stride: int
    padding: int
    dilation: int | None
    transposed: int | bool = False
    output_padding: int | None = None
    bias: int | None = None
    added: int | None = None


def _numbers(of: Arguments, place: int | None, count: int, default: int) -> list[int] | None:
    """One number a spatial dimension (a single one stands for all)."""
    if place is None:  # the operator has no such setting
        return [default] * count
    found = of.numbers(place)
    if found is not None and len(found) == 1:
        found = found * count
    return found if found is not None and len(found) == count else None


def output_size(x: Tensor, weight: Tensor, of: Arguments, at: Places, transposed: bool) -> tuple[int, ...] | None:
    """Spatial sizes of the output; None where the settings were not recorded."""
    count = len(weight.dims) - 2
    stride = _numbers(of, at.stride, count, 1)
    padding = _numbers(of, at.padding, count, 0)
    dilation = _numbers(of, at.dilation, count, 1)
    extra = _numbers(of, at.output_padding, count, 0) if transposed else [0] * count
    if stride is None or padding is None or dilation is None or extra is None or min(stride, default=1) < 1:
        return None
    rows = zip(x.dims[-count:], weight.dims[2:], stride, padding, dilation, extra, strict=True)
    if transposed:
        sizes = tuple((n - 1) * s - 2 * p + d * (k - 1) + e + 1 for n, k, s, p, d, e in rows)
    else:
        sizes = tuple((n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d, _ in rows)
    return sizes if min(sizes, default=0) > 0 else None


def _batched(x: Tensor | None, weight: Tensor | None) -> bool:
    return x is not None and weight is not None and len(x.dims) == len(weight.dims) and len(weight.dims) >= 3


def _forward(at: Places) -> Formula:
    def formula(of: Arguments, _: int | None) -> Work | None:
        x, weight = of.tensor(0), of.tensor(1)
        if not _batched(x, weight) or x is None or weight is None:
            return None
        transposed = at.transposed if isinstance(at.transposed, bool) else of.flag(at.transposed)
        if transposed is None:
            return None
        out = output_size(x, weight, of, at, transposed)
        if out is None:
            return None
        channels = weight.dims[1] * _groups(of) if transposed else weight.dims[0]
        places = x.count if transposed else x.dims[0] * channels * product(out)
        others = [of.tensor(place) for place in (at.bias, at.added) if place is not None]
        return Work(
            2.0 * places * product(weight.dims[1:]),
            float(x.bytes + weight.bytes + sum(other.bytes for other in others if other is not None)),
            float(x.dims[0] * channels * product(out) * x.item),
            x.type,
        )

    return formula


def _groups(of: Arguments) -> int:
    """Groups of a transposed convolution, whose weights do not tell them: the last number among the arguments."""
    for place in range(len(of.items) - 1, 1, -1):
        value = of.value(place)
        if isinstance(value, int) and not isinstance(value, bool):
            return max(value, 1)
    return 1


def _backward(of: Arguments, _: int | None) -> Work | None:
    """`convolution_backward(grad, x, weight, bias_sizes, stride, padding, dilation, transposed, …, output_mask)`."""
    grad, x, weight = (of.tensor(place) for place in range(3))
    if grad is None or len(grad.dims) < 2 or not _batched(x, weight) or x is None or weight is None:
        return None
    transposed, mask = of.flag(7), of.value(10)
    if transposed is None or not isinstance(mask, list) or len(mask) != 3:
        return None
    passes = int(bool(mask[0])) + int(bool(mask[1]))
    places = x.count if transposed else grad.count
    bias = grad.dims[1] * grad.item if mask[2] else 0
    return Work(
        2.0 * places * product(weight.dims[1:]) * passes,
        float(grad.bytes + (x.bytes if mask[1] else 0) + (weight.bytes if mask[0] else 0)),
        float((x.count if mask[0] else 0) * x.item + (weight.count if mask[1] else 0) * weight.item + bias),
        x.type,
    )


FORMULAS: dict[str, Formula] = {
    "convolution": _forward(Places(3, 4, 5, 6, 7, bias=2)),
    "_convolution": _forward(Places(3, 4, 5, 6, 7, bias=2)),
    "convolution_overrideable": _forward(Places(3, 4, 5, 6, 7, bias=2)),
    "cudnn_convolution": _forward(Places(3, 2, 4)),
    "cudnn_convolution_transpose": _forward(Places(4, 2, 5, True, 3)),
    "cudnn_convolution_relu": _forward(Places(3, 4, 5, bias=2)),
    "cudnn_convolution_add_relu": _forward(Places(5, 6, 7, bias=4, added=2)),
    "miopen_convolution": _forward(Places(4, 3, 5, bias=2)),
    "miopen_depthwise_convolution": _forward(Places(4, 3, 5, bias=2)),
    "miopen_convolution_transpose": _forward(Places(5, 3, 6, True, 4, bias=2)),
    "mkldnn_convolution": _forward(Places(4, 3, 5, bias=2)),
    "_mkldnn_convolution_pointwise": _forward(Places(4, 3, 5, bias=2)),
    "thnn_conv2d": _forward(Places(4, 5, None, bias=3)),
    "_slow_conv2d_forward": _forward(Places(4, 5, None, bias=3)),
    "slow_conv_dilated2d": _forward(Places(4, 5, 6, bias=3)),
    "slow_conv_dilated3d": _forward(Places(4, 5, 6, bias=3)),
    "slow_conv3d_forward": _forward(Places(4, 5, None, bias=3)),
    "_conv_depthwise2d": _forward(Places(4, 5, 6, bias=3)),
    "conv_depthwise3d": _forward(Places(4, 5, 6, bias=3)),
    "convolution_backward": _backward,
}
