"""The recorded arguments of an operator: JSON texts → tensors, lists of tensors, and other values.

PyTorch writes four lists with one item an argument: dimensions, types, strides, and the values of what is no tensor.
Before 2.4 there are no strides, before 2.0 no values. It writes neither tensors of lists with more than 30 nor the
identity of a tensor.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import msgspec

from gpuwhy.timeline import Signature

ITEM_SIZES = {
    "float": 4,
    "double": 8,
    "c10::BFloat16": 2,
    "c10::Half": 2,
    "bool": 1,
    "signed char": 1,
    "unsigned char": 1,
    "short": 2,
    "short int": 2,
    "unsigned short": 2,
    "int": 4,
    "unsigned int": 4,
    "long": 8,
    "long int": 8,
    "long long": 8,
    "unsigned long": 8,
    "long unsigned int": 8,
    "c10::complex<float>": 8,
    "c10::complex<double>": 16,
    "c10::complex<c10::Half>": 4,
    "c10::Float8_e4m3fn": 1,
    "c10::Float8_e5m2": 1,
    "c10::Float8_e4m3fnuz": 1,
    "c10::Float8_e5m2fnuz": 1,
    "c10::Float8_e8m0fnu": 1,
    "c10::Float4_e2m1fn_x2": 1,
    "c10::qint8": 1,
    "c10::quint8": 1,
}
"""Bytes an element, by the name of the C++ type that a profile holds."""

SCALAR_TYPES = {
    0: "unsigned char",
    1: "signed char",
    2: "short int",
    3: "int",
    4: "long int",
    5: "c10::Half",
    6: "float",
    7: "double",
    11: "bool",
    15: "c10::BFloat16",
    23: "c10::Float8_e5m2",
    24: "c10::Float8_e4m3fn",
}
"""Numbers of `c10::ScalarType`, as a `dtype=` argument is recorded."""

MAX_DIMENSIONS = 64
MAX_SIZE = 2**50
"""Beyond these, of one dimension or of all elements, it is no tensor but damage."""
MAX_ARGUMENTS, MAX_LIST = 4096, 64
"""More arguments than any generated kernel has (as many as tensors that it works on, and a GPU's parameters of a kernel
end at 32,764 bytes), and more tensors than PyTorch writes of a list (30): damage, or an attack."""


@dataclass(frozen=True)
class Tensor:
    """A tensor argument. `strides` is None where the file does not tell them."""

    dims: tuple[int, ...]
    type: str
    strides: tuple[int, ...] | None = None

    @cached_property
    def count(self) -> int:
        """Elements that an operator sees."""
        return math.prod(self.dims)

    @cached_property
    def stored(self) -> int:
        """Elements in memory behind them: a dimension that was expanded (stride 0) is there once, and windows that
        overlap are not more than the memory that they reach over.
        """
        if self.strides is None or not self.count:
            return self.count
        rows = list(zip(self.dims, self.strides, strict=True))
        reach = 1 + sum((size - 1) * abs(stride) for size, stride in rows)
        return min(math.prod(size for size, stride in rows if stride != 0), reach)

    @property
    def item(self) -> int:
        """Bytes an element."""
        return ITEM_SIZES[self.type]

    @property
    def bytes(self) -> int:
        """Bytes to read it once."""
        return self.stored * self.item


Argument = Tensor | list[Tensor] | str | None
"""A tensor, a list of tensors, the text of any other value (`1.0`, `[0]`, `True`; "" for one that is there but was not
recorded), or None for an absent one."""


@dataclass(frozen=True)
class Arguments:
    """The arguments of one call, by position."""

    items: tuple[Argument, ...]

    def tensor(self, place: int) -> Tensor | None:
        """The tensor at a position, None if there is none."""
        item = self.items[place] if place < len(self.items) else None
        return item if isinstance(item, Tensor) else None

    def tensors(self) -> list[Tensor]:
        """All tensors that are arguments of their own, in order."""
        return [item for item in self.items if isinstance(item, Tensor)]

    def several(self, place: int) -> list[Tensor] | None:
        """The list of tensors at a position, None where it is absent or was too long to be recorded."""
        item = self.items[place] if place < len(self.items) else None
        return item if isinstance(item, list) and item else None

    def value(self, place: int) -> Any:
        """A number, bool, or list of numbers at a position; None where it was not recorded."""
        item = self.items[place] if place < len(self.items) else None
        if not isinstance(item, str) or not item:
            return None
        return _json(item.lower() if item in ("True", "False") else _lists(item))

    def unrecorded(self, place: int) -> bool:
        """Whether there is a value at a position that old versions did not write."""
        return place < len(self.items) and self.items[place] == ""

    def flag(self, place: int) -> bool | None:
        """A bool at a position; None where it was not recorded."""
        value = self.value(place)
        return value if isinstance(value, bool) else None

    def numbers(self, place: int) -> list[int] | None:
        """A list of integers at a position (a single one counts as a list); None where it was not recorded."""
        value = self.value(place)
        if isinstance(value, int) and not isinstance(value, bool):
            return [value]
        if isinstance(value, list) and all(isinstance(one, int) and not isinstance(one, bool) for one in value):
            return value
        return None


def _lists(text: str) -> str:
    """Python's spelling of lists of bools, and of floats that end in a point, as JSON."""
    if text.startswith("[") and ("True" in text or "False" in text):
        return text.replace("True", "true").replace("False", "false")
    return text + "0" if text.endswith(".") else text


def arguments(signature: Signature) -> Arguments | None:
    """The arguments behind a signature; None where the texts are damaged or do not fit together."""
    dims, types = _decoded(signature.dims), _decoded(signature.types)
    if dims is None or types is None or len(dims) != len(types) or len(dims) > MAX_ARGUMENTS:
        return None
    strides = _decoded(signature.strides)
    values = _decoded(signature.values)
    strides = strides if strides is not None and len(strides) == len(dims) else [None] * len(dims)
    values = values if values is not None and len(values) == len(dims) else [""] * len(dims)
    try:
        return Arguments(tuple(map(_argument, dims, types, strides, values)))
    except (TypeError, ValueError):
        return None


def _decoded(text: str) -> list[Any] | None:
    value = _json(text)
    return value if isinstance(value, list) else None


def _json(text: str) -> Any:
    try:
        return msgspec.json.decode(text) if text else None
    except (msgspec.DecodeError, RecursionError, ValueError):  # ValueError: text that is no Unicode, endless numbers
        return None


def _argument(dims: Any, type_: Any, strides: Any, value: Any) -> Argument:
    if type_ == "TensorList":
        return _tensors(dims, strides)
    if isinstance(type_, list):  # of some versions: one type a tensor
        nested = strides if isinstance(strides, list) and len(strides) == len(dims) else [None] * len(dims)
        return [_tensor(d, t, s) for d, t, s in zip(dims, type_, nested, strict=True) if t in ITEM_SIZES]
    if type_ in ITEM_SIZES and dims and strides == []:
        return ""  # sparse: how many of its elements there are is not recorded
    if type_ in ITEM_SIZES:
        return _tensor(dims, type_, strides)
    return str(value) if value not in (None, "") else "" if type_ else None


def _tensors(dims: Any, strides: Any) -> list[Tensor]:
    """Tensors of a list, whose type is not written: `""` stands for it."""
    if len(dims) > MAX_LIST:
        raise ValueError("longer than PyTorch writes a list")
    if not isinstance(strides, list) or len(strides) != len(dims):
        strides = [None] * len(dims)
    return [_tensor(d, "", s) for d, s in zip(dims, strides, strict=True)]


def _tensor(dims: Any, type_: str, strides: Any) -> Tensor:
    sizes = tuple(int(size) for size in dims)
    if len(sizes) > MAX_DIMENSIONS or any(not 0 <= size < MAX_SIZE for size in sizes) or math.prod(sizes) > MAX_SIZE:
        raise ValueError("no sizes")
    steps = tuple(int(step) for step in strides) if isinstance(strides, list) and len(strides) == len(sizes) else None
    if steps is not None and any(abs(step) > MAX_SIZE for step in steps):
        raise ValueError("no strides")
    return Tensor(sizes, type_, steps)
