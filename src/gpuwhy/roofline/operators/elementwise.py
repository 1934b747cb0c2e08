"""Operators that work element by element: they read their inputs and write their output, once each.

Inputs are broadcast: a dimension that was expanded is read once. In place (`add_`) the first input is the output.
A tensor beyond the inputs is one that was given for the output (`out=`).
"""

from __future__ import annotations

import math

from gpuwhy.roofline.arguments import ITEM_SIZES, SCALAR_TYPES, Arguments, Tensor
from gpuwhy.roofline.operators.base import Formula, Work, broadcast, moved, product, promoted

ALL = "elu_backward log_sigmoid_backward rrelu_with_noise_backward"
UNARY = """acos acosh asin asinh atan atanh bitwise_not ceil celu conj_physical cos cosh deg2rad digamma elu erf erfc
erfinv exp exp2 expm1 floor frac gelu glu hardshrink hardsigmoid hardswish hardtanh i0 leaky_relu lgamma log log10 log1p
log2 log_sigmoid log_sigmoid_forward logit mish nan_to_num neg negative rad2deg reciprocal relu relu6 rrelu_with_noise
round rsqrt selu sgn sigmoid sign silu sin sinc sinh softplus softshrink sqrt square tan tanh threshold trunc bernoulli
dropout alias_copy view_copy permute_copy transpose_copy t_copy expand_copy clone real_copy imag_copy
quantize_per_tensor dequantize renorm roll flip tril triu rot90 fake_quantize_per_tensor_affine_cachemask
channel_shuffle pixel_shuffle pixel_unshuffle"""
BINARY = """add sub subtract rsub mul multiply div divide true_divide floor_divide remainder fmod pow float_power
maximum minimum fmax fmin clamp_max clamp_min polygamma atan2 hypot copysign xlogy bitwise_and bitwise_or bitwise_xor
bitwise_left_shift bitwise_right_shift __and__ __or__ __xor__ __lshift__ __rshift__ logaddexp logaddexp2 heaviside gcd
lcm nextafter ldexp masked_fill prelu gelu_backward tanh_backward sigmoid_backward silu_backward mish_backward
hardswish_backward hardsigmoid_backward hardtanh_backward leaky_relu_backward threshold_backward softplus_backward
softshrink_backward logit_backward glu_backward native_dropout_backward _masked_scale hardshrink_backward
_prelu_kernel"""
TERNARY = "clamp where addcmul addcdiv lerp _s_where"
COMPARING = """eq ne lt le gt ge greater greater_equal less less_equal not_equal
isclose logical_and logical_or logical_xor"""
TESTING = "isnan isinf isfinite isposinf isneginf logical_not signbit isreal"
TO_FLOAT = """acos acosh asin asinh atan atanh cos cosh digamma div true_divide erf erfc erfinv exp exp2 expm1 i0 lgamma
log log10 log1p log2 logit reciprocal rsqrt sigmoid sin sinc sinh sqrt tan tanh atan2"""
FILLING = "fill zero normal uniform random exponential geometric log_normal cauchy zeros ones full eye"
"""Only the output is written; the first tensor is it."""


def _elementwise(arity: int, in_place: bool, result: str = "") -> Formula:
    """`result` is the type of the output where it does not follow from the inputs', `float` a wish for floating."""

    def formula(of: Arguments, _: int | None) -> Work | None:
        inputs = [item for item in of.items[:arity] if isinstance(item, Tensor)]
        tensors = inputs + [item for item in of.items[arity:] if isinstance(item, Tensor)]
        if not inputs:
            return None
        if in_place:
            return moved(inputs, float(inputs[0].bytes))
        shape = broadcast(inputs)
        if shape is None:
            return None
        values = inputs[1:] if arity == 3 and inputs[0].type == "bool" and len(inputs) > 1 else inputs
        name = result if result in ITEM_SIZES and result != "float" else _type(of, values, arity, result == "float")
        given = tensors[-1] if len(tensors) > len(inputs) else None
        size = ITEM_SIZES[given.type] if given is not None and given.count == product(shape) else ITEM_SIZES[name]
        return moved(inputs, float(product(shape) * size))

    return formula


def _type(of: Arguments, values: list[Tensor], arity: int, to_float: bool) -> str:
    """The type of a result: a number beside the tensors makes it wider only if it is of a wider kind."""
    numbers = [of.value(place) for place in range(arity)]
    name = promoted(values, to_float or any(isinstance(number, float) for number in numbers))
    counts = any(isinstance(number, int) and not isinstance(number, bool) for number in numbers)
    return "long int" if name == "bool" and counts else name


def _narrow(of: Arguments, _: int | None) -> Work | None:
    """`abs(x)`, `angle(x)`: of complex numbers a real one."""
    x = of.tensor(0)
    return None if x is None else moved([x], x.count * x.item / (2 if "complex" in x.type else 1))


def _all(of: Arguments, _: int | None) -> Work | None:
    """All tensors are read, and one like the first is written."""
    tensors = of.tensors()
    return moved(tensors, float(tensors[0].count * tensors[0].item)) if tensors else None


def _joined(of: Arguments, _: int | None) -> Work | None:
    """`complex(real, imaginary)`, `polar(length, angle)`: elements twice as wide."""
    one, other = of.tensor(0), of.tensor(1)
    shape = broadcast([one, other]) if one is not None and other is not None else None
    return moved([one, other], 2.0 * product(shape) * one.item) if one is not None and shape is not None else None


def _like(of: Arguments, _: int | None) -> Work | None:
    """`zeros_like(x, dtype=…)`: dense, even where x is expanded."""
    x, number = of.tensor(0), of.value(1)
    if x is None or of.unrecorded(1):
        return None
    item = ITEM_SIZES[SCALAR_TYPES[number]] if isinstance(number, int) else x.item
    return moved([], float(x.count * item))


def _copy(of: Arguments, _: int | None) -> Work | None:
    """`copy_(to, from)`."""
    target, source = of.tensor(0), of.tensor(1)
    return None if target is None or source is None else moved([source], float(target.bytes))


def _filled(of: Arguments, _: int | None) -> Work | None:
    target = of.tensor(0)
    return None if target is None else moved([], float(target.bytes))


def _dropout(of: Arguments, _: int | None) -> Work | None:
    """The result and a mask of one byte an element."""
    x = of.tensor(0)
    return None if x is None else moved([x], float(x.count * (x.item + 1)))


def _arange(of: Arguments, _: int | None) -> Work | None:
    """Numbers from start to end; the type is that of the output."""
    numbers = [value for place in range(3) if isinstance(value := of.value(place), int | float)]
    out = of.tensors()
    if not numbers or not out:
        return None
    start, end = (0, numbers[0]) if len(numbers) == 1 else numbers[:2]
    step = numbers[2] if len(numbers) > 2 else 1
    if not step or not abs(end - start) < 1e15:
        return None
    return moved([], float(max(math.ceil((end - start) / step), 0) * out[-1].item))


def _cast(of: Arguments, _: int | None) -> Work | None:
    """`_to_copy(x, dtype=…)`, where it is not split into an empty tensor and a copy."""
    x = of.tensor(0)
    number = of.value(1)
    if x is None or of.unrecorded(1):
        return None
    name = SCALAR_TYPES.get(number, "") if isinstance(number, int) else x.type
    return moved([x], float(x.count * ITEM_SIZES[name])) if name else None


def _glu(of: Arguments, _: int | None) -> Work | None:
    x = of.tensor(0)
    return None if x is None else moved([x], x.count / 2 * x.item)


def _foreach(arity: int) -> Formula:
    """An operation on lists of tensors: each list is read, and the first one or a new one like it written."""

    def formula(of: Arguments, item: int | None) -> Work | None:
        lists = [found for place in range(len(of.items)) if (found := of.several(place)) is not None]
        if not lists or item is None:
            return None
        read = sum(tensor.count for one in lists[:arity] for tensor in one)
        written = sum(tensor.count for tensor in lists[0])
        return Work(0.0, float(read * item), float(written * item))

    return formula


def _foreach_copy(of: Arguments, item: int | None) -> Work | None:
    """`_foreach_copy_(to, from)`, of one type."""
    target = of.several(0)
    size = sum(tensor.count for tensor in target) if target else 0
    return Work(0.0, float(size * item), float(size * item)) if size and item is not None else None


def _foreach_zero(of: Arguments, item: int | None) -> Work | None:
    target = of.several(0)
    return Work(0.0, 0.0, float(sum(t.count for t in target) * item)) if target and item is not None else None


def _table() -> dict[str, Formula]:
    to_float, comparing = set(TO_FLOAT.split()), set(COMPARING.split() + TESTING.split())
    table: dict[str, Formula] = {}
    for arity, names in ((1, UNARY), (2, BINARY), (3, TERNARY), (2, COMPARING), (1, TESTING)):
        for name in names.split():
            result = "bool" if name in comparing else "float" if name in to_float else ""
            table[name] = _elementwise(arity, False, result)
            table[name + "_"] = _elementwise(arity, True)
    for name in FILLING.split():
        table[name] = table[name + "_"] = _filled
    for name in ALL.split():
        table[name] = _all
    table |= {"abs": _narrow, "angle": _narrow, "abs_": _elementwise(1, True), "complex": _joined, "polar": _joined}
    table |= {"bernoulli_": _filled, "zeros_like": _like, "ones_like": _like}
    for name in ["sqrt", "rsqrt", "exp", "log", "neg", "abs", "reciprocal", "sign", "floor", "ceil", "round"]:
        table["_foreach_" + name] = table[f"_foreach_{name}_"] = _foreach(1)
    for name in ["add", "sub", "mul", "div", "maximum", "minimum", "lerp", "clamp_min", "clamp_max", "pow"]:
        table["_foreach_" + name] = table[f"_foreach_{name}_"] = _foreach(2)
    for name in ("addcmul", "addcdiv"):
        table["_foreach_" + name] = table[f"_foreach_{name}_"] = _foreach(3)
    table |= {"copy_": _copy, "_to_copy": _cast, "glu": _glu, "arange": _arange}
    table |= {"_foreach_copy_": _foreach_copy, "_foreach_zero_": _foreach_zero}
    table |= {"native_dropout": _dropout, "_fused_dropout": _dropout}
    return table


FORMULAS: dict[str, Formula] = _table()
