"""The work of operator calls equals what their definition says: FLOPs and bytes worked out by hand, for many operators.

Each row of `CASES` is a call as a profile writes it, many of them found in recorded profiles, and what it must do:
FLOPs (two a multiply–add of matrix products, convolutions and attention), bytes read (each element of each input once,
an expanded one as often as it is stored) and bytes written (each element of each output, in its own type). They are
products of literal numbers, in the order: number of elements, bytes an element.
"""

from __future__ import annotations

import json
import math
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import shared_files
from hypothesis import given, settings
from hypothesis import strategies as st

import gpuwhy
from gpuwhy.roofline.arguments import ITEM_SIZES, MAX_ARGUMENTS, arguments
from gpuwhy.roofline.operators import FORMULAS, has_formula, work_of
from gpuwhy.roofline.operators.attention import unmasked
from gpuwhy.roofline.work import work_of_operations
from gpuwhy.timeline import OpKind, Signature

BF16, HALF, FLOAT, DOUBLE, LONG, INT, BOOL = (
    "c10::BFloat16",
    "c10::Half",
    "float",
    "double",
    "long int",
    "int",
    "bool",
)
S, L, T = "Scalar", "ScalarList", "TensorList"
"""Types of what is no tensor: a number, a list of numbers, a list of tensors. Of absent arguments it is "" ."""


@dataclass(frozen=True)
class Case:
    name: str
    signature: Signature
    flops: float | None
    read: float
    written: float
    again: float
    item: int | None


CASES: dict[str, Case] = {}


def signature(items: list[Any], strides: bool = True, values: bool = True) -> Signature:
    """The four texts, from an argument each: `(type, dims)` or `(type, dims, strides)` of a tensor (dense without
    strides), `(type, text)` of a value, None for an absent one. Old versions write neither strides nor values.
    """
    rows = [
        _row(item) if item is None or isinstance(item[1], str) else (item[1], item[0], _strides(item), "")
        for item in items
    ]
    columns = [json.dumps([row[place] for row in rows]) for place in range(4)]
    return Signature(columns[0], columns[1], columns[2] if strides else "", columns[3] if values else "")


def _row(item: Any) -> tuple[Any, ...]:
    return ([], "", [], "") if item is None else ([], item[0], [], item[1])


def _strides(item: Any) -> Any:
    if len(item) > 2:
        return item[2]
    if item[1] and isinstance(item[1][0], list):
        return [_dense(dims) for dims in item[1]]
    return _dense(item[1])


def _dense(dims: list[int]) -> list[int]:
    return [math.prod(dims[place + 1 :]) for place in range(len(dims))]


def case(
    label: str,
    name: str,
    items: list[Any],
    flops: float | None,
    read: float,
    written: float,
    again: float = 0,
    item: int | None = None,
    **old: bool,
) -> None:
    assert label not in CASES
    full = name if name.startswith("triton_") else f"aten::{name}"
    CASES[label] = Case(full, signature(items, **old), flops, read, written, again, item)


# --- Matrix products: (m, k) by (k, n) ----------------------------------------------------------------------

MNK = 2 * 16 * 4096 * 1024
case("mm", "mm", [(BF16, [16, 1024]), (BF16, [1024, 4096])], MNK, 16 * 1024 * 2 + 1024 * 4096 * 2, 16 * 4096 * 2)
case(
    "mm into a given tensor, the second one transposed",
    "mm",
    [(BF16, [16384, 768]), (BF16, [768, 50304], [1, 768]), (BF16, [16384, 50304])],
    2 * 16384 * 50304 * 768,
    16384 * 768 * 2 + 768 * 50304 * 2,
    16384 * 50304 * 2,
)
# The gradient of a sum: one number, expanded
case(
    "mm of an expanded gradient",
    "mm",
    [(FLOAT, [16, 8], [0, 0]), (FLOAT, [8, 4])],
    2 * 16 * 4 * 8,
    1 * 4 + 32 * 4,
    64 * 4,
)
case(
    "mm of an old profile",
    "mm",
    [(HALF, [3, 5]), (HALF, [5, 7])],
    2 * 3 * 7 * 5,
    (15 + 35) * 2,
    21 * 2,
    strides=False,
    values=False,
)
case("mm of nothing", "mm", [(FLOAT, [0, 5]), (FLOAT, [5, 3])], 0, 15 * 4, 0)
case(
    "addmm",
    "addmm",
    [(BF16, [4096]), (BF16, [16, 1024]), (BF16, [1024, 4096], [1, 1024]), (S, "1"), (S, "1")],
    MNK,
    (4096 + 16 * 1024 + 1024 * 4096) * 2,
    16 * 4096 * 2,
)
case(
    "addmm in place",
    "addmm_",
    [(FLOAT, [3, 5]), (FLOAT, [3, 4]), (FLOAT, [4, 5]), (S, "1"), (S, "1")],
    2 * 3 * 5 * 4,
    (15 + 12 + 20) * 4,
    15 * 4,
)
# Eight batches of one and the same matrix
case(
    "bmm of an expanded matrix",
    "bmm",
    [(FLOAT, [8, 3, 4]), (FLOAT, [8, 4, 5], [0, 5, 1])],
    2 * 8 * 3 * 5 * 4,
    8 * 12 * 4 + 20 * 4,
    8 * 15 * 4,
)
case(
    "baddbmm of fp32 and halves",
    "baddbmm",
    [(FLOAT, [256, 61, 61]), (HALF, [256, 61, 16]), (HALF, [256, 16, 61]), (S, "1"), (S, "1")],
    2 * 256 * 61 * 61 * 16,
    256 * 61 * 61 * 4 + 2 * 256 * 61 * 16 * 2,
    256 * 61 * 61 * 2,
)
# All three products are added to one matrix
case(
    "addbmm",
    "addbmm",
    [(FLOAT, [6, 5]), (FLOAT, [3, 6, 7]), (FLOAT, [3, 7, 5]), (S, "1"), (S, "1")],
    2 * 3 * 6 * 5 * 7,
    (30 + 126 + 105) * 4,
    30 * 4,
)
case("mv", "mv", [(FLOAT, [6, 7]), (FLOAT, [7])], 2 * 6 * 7, (42 + 7) * 4, 6 * 4)
case("dot", "dot", [(DOUBLE, [9]), (DOUBLE, [9])], 2 * 9, 18 * 8, 8)
case(
    "linear",
    "linear",
    [(BF16, [4, 64, 512]), (BF16, [2048, 512]), (BF16, [2048])],
    2 * 256 * 2048 * 512,
    (4 * 64 * 512 + 2048 * 512 + 2048) * 2,
    4 * 64 * 2048 * 2,
)
case(
    "matmul with broadcast batches",
    "matmul",
    [(FLOAT, [4, 1, 6, 7]), (FLOAT, [3, 7, 2])],
    2 * 4 * 3 * 6 * 2 * 7,
    (4 * 42 + 3 * 14) * 4,
    4 * 3 * 12 * 4,
)
case("matmul of matrix and vector", "matmul", [(FLOAT, [5, 7]), (FLOAT, [7])], 2 * 5 * 7, 42 * 4, 5 * 4)
case(
    "scaled product of fp8 to bfloat16",
    "_scaled_mm",
    [
        ("c10::Float8_e4m3fn", [64, 32]),
        ("c10::Float8_e4m3fn", [32, 16], [1, 32]),
        (FLOAT, []),
        (FLOAT, []),
        None,
        None,
        (S, "15"),
        (S, "True"),
    ],
    2 * 64 * 16 * 32,
    64 * 32 + 32 * 16 + 2 * 4,
    64 * 16 * 2,
)
case("product of bytes", "_int_mm", [("signed char", [32, 64]), ("signed char", [64, 8])], 32768, 2048 + 512, 256 * 4)
case(
    "rows split among four experts",
    "_grouped_mm",
    [(BF16, [8196, 7168]), (BF16, [4, 7168, 2048], [14680064, 1, 7168]), (INT, [4]), None, None],
    2 * 8196 * 2048 * 7168,
    (8196 * 7168 + 4 * 7168 * 2048) * 2 + 4 * 4,
    8196 * 2048 * 2,
)
# The gradient of the experts' matrices: rows are summed up, each for its own expert
case(
    "sums split among four experts",
    "_grouped_mm",
    [(BF16, [64, 100]), (BF16, [100, 32]), (INT, [4]), None, None],
    2 * 64 * 32 * 100,
    (6400 + 3200) * 2 + 4 * 4,
    4 * 64 * 32 * 2,
)
# Four gates of 12 from 9 inputs and 12 states
case(
    "one layer of an LSTM",
    "mkldnn_rnn_layer",
    [(FLOAT, [4, 6, 9]), (FLOAT, [48, 9]), (FLOAT, [48, 12]), (FLOAT, [48]), (FLOAT, [48]), (FLOAT, [6, 12])],
    2 * 24 * 48 * (9 + 12),
    (4 * 6 * 9 + 48 * 9 + 48 * 12) * 4,
    4 * 6 * 12 * 4,
)

# --- Convolutions -------------------------------------------------------------------------------------------

# (224 + 6 - 7) // 2 + 1 = 112
STEM = 2 * (512 * 64 * 112 * 112) * (3 * 7 * 7)
STEM_READ, STEM_WRITTEN = (512 * 3 * 224 * 224 + 64 * 3 * 49) * 2, 512 * 64 * 112 * 112 * 2
PICTURE, KERNEL = (BF16, [512, 3, 224, 224]), (BF16, [64, 3, 7, 7])
case(
    "convolution",
    "convolution",
    [PICTURE, KERNEL, None, (L, "[2, 2]"), (L, "[3, 3]"), (L, "[1, 1]"), (S, "False"), (L, "[0, 0]"), (S, "1")],
    STEM,
    STEM_READ,
    STEM_WRITTEN,
)
case(
    "convolution of MIOpen, padding before stride",
    "miopen_convolution",
    [PICTURE, KERNEL, None, (L, "[3, 3]"), (L, "[2, 2]"), (L, "[1, 1]"), (S, "1"), (S, "False"), (S, "False")],
    STEM,
    STEM_READ,
    STEM_WRITTEN,
)
case(
    "convolution of cuDNN that is a product",
    "cudnn_convolution",
    [(HALF, [32, 4, 1, 1891]), (HALF, [64, 4, 1, 1]), (L, "[0, 0]"), (L, "[1, 1]"), (L, "[1, 1]"), (S, "1")],
    2 * 32 * 64 * 1891 * 4,
    (32 * 4 * 1891 + 64 * 4) * 2,
    32 * 64 * 1891 * 2,
)
# Patches of 16 by 16: 64 by 64 places
case(
    "patches, of an old profile",
    "cudnn_convolution",
    [(BF16, [1, 3, 1024, 1024]), (BF16, [1280, 3, 16, 16]), (L, "[0, 0]"), (L, "[16, 16]"), (L, "[1, 1]"), (S, "1")],
    2 * 1280 * 4096 * (3 * 256),
    (3 * 1024 * 1024 + 1280 * 768) * 2,
    1280 * 4096 * 2,
    strides=False,
)
# (63) · 2 + 2 = 128; each input meets 64 outputs times 4 places
case(
    "transposed convolution of cuDNN",
    "cudnn_convolution_transpose",
    [
        (BF16, [64, 256, 64, 64]),
        (BF16, [256, 64, 2, 2]),
        (L, "[0, 0]"),
        (L, "[0, 0]"),
        (L, "[2, 2]"),
        (L, "[1, 1]"),
        (S, "1"),
        (S, "False"),
        (S, "False"),
        (S, "True"),
    ],
    2 * (64 * 256 * 64 * 64) * (64 * 4),
    (64 * 256 * 4096 + 256 * 64 * 4) * 2,
    64 * 64 * 128 * 128 * 2,
)
# 8 → 12 channels in 4 groups: each input meets 3 outputs times 9. (7 - 1) · 2 - 2 + 2 + 1 + 1 = 14, and 10
case(
    "transposed convolution in groups",
    "convolution",
    [
        (FLOAT, [2, 8, 7, 5]),
        (FLOAT, [8, 3, 3, 3]),
        (FLOAT, [12]),
        (L, "[2, 2]"),
        (L, "[1, 1]"),
        (L, "[1, 1]"),
        (S, "True"),
        (L, "[1, 1]"),
        (S, "4"),
    ],
    2 * (2 * 8 * 7 * 5) * (3 * 9),
    (2 * 8 * 35 + 8 * 27 + 12) * 4,
    2 * 12 * 14 * 10 * 4,
)
case(
    "depthwise, strided",
    "mkldnn_convolution",
    [
        (FLOAT, [2, 8, 7, 5]),
        (FLOAT, [16, 1, 3, 3]),
        (FLOAT, [16]),
        (L, "[1, 1]"),
        (L, "[2, 2]"),
        (L, "[1, 1]"),
        (S, "8"),
    ],
    2 * (2 * 16 * 4 * 3) * 9,
    (2 * 8 * 35 + 16 * 9 + 16) * 4,
    2 * 16 * 12 * 4,
)
# The kernel reaches over 5 of 9 places
case(
    "1-d, dilated",
    "convolution",
    [
        (FLOAT, [3, 4, 9]),
        (FLOAT, [6, 4, 3]),
        None,
        (L, "[1]"),
        (L, "[0]"),
        (L, "[2]"),
        (S, "False"),
        (L, "[0]"),
        (S, "1"),
    ],
    2 * (3 * 6 * 5) * (4 * 3),
    (108 + 72) * 4,
    90 * 4,
)
# 5 - 2 + 1 = 4, (6 - 3) // 2 + 1 = 2, 4 + 2 - 1 + 1 = 6
case(
    "3-d",
    "slow_conv3d_forward",
    [
        (DOUBLE, [1, 2, 5, 6, 4]),
        (DOUBLE, [5, 2, 2, 3, 1]),
        (L, "[2, 3, 1]"),
        None,
        (L, "[1, 2, 1]"),
        (L, "[0, 0, 1]"),
    ],
    2 * (5 * 4 * 2 * 6) * (2 * 6),
    (2 * 5 * 6 * 4 + 5 * 2 * 6) * 8,
    5 * 48 * 8,
)
GRADIENT = [(BF16, [512, 512, 7, 7]), (BF16, [512, 512, 7, 7]), (BF16, [512, 512, 3, 3])]
CONV_PASS = 2 * (512 * 512 * 49) * (512 * 9)
PLANE, FILTER = 512 * 512 * 49 * 2, 512 * 512 * 9 * 2


def _settings(bias: str, transposed: str, mask: str) -> list[Any]:
    return [
        (L, bias),
        (L, "[1, 1]"),
        (L, "[1, 1]"),
        (L, "[1, 1]"),
        (S, transposed),
        (L, "[0, 0]"),
        (S, "1"),
        (L, mask),
    ]


case(
    "gradients of input and weights",
    "convolution_backward",
    [*GRADIENT, *_settings("[0]", "False", "[True, True, False]")],
    2 * CONV_PASS,
    2 * PLANE + FILTER,
    PLANE + FILTER,
)
case(
    "gradients of weights and bias",
    "convolution_backward",
    [*GRADIENT, *_settings("[512]", "False", "[False, True, True]")],
    CONV_PASS,
    2 * PLANE,
    FILTER + 512 * 2,
)
case(
    "gradient of the input",
    "convolution_backward",
    [*GRADIENT, *_settings("[0]", "False", "[True, False, False]")],
    CONV_PASS,
    PLANE + FILTER,
    PLANE,
)
# 4 → 6 channels, 3 by 3 places become 5 by 5: each of 36 inputs meets 6 · 9
case(
    "gradients of a transposed convolution, from an expanded one",
    "convolution_backward",
    [
        (FLOAT, [1, 6, 5, 5], [0, 0, 0, 0]),
        (FLOAT, [1, 4, 3, 3]),
        (FLOAT, [4, 6, 3, 3]),
        *_settings("[6]", "True", "[True, True, True]"),
    ],
    2 * 2 * 36 * (6 * 9),
    4 + (36 + 216) * 4,
    (36 + 216 + 6) * 4,
)

# --- Attention: two products forward, five backward ---------------------------------------------------------

# Views into one tensor of queries, keys and values: no element is expanded.
QKV = (BF16, [16, 12, 1024, 64], [2359296, 64, 2304, 1])
OUT, LSE = (BF16, [16, 12, 1024, 64], [786432, 64, 768, 1]), (FLOAT, [16, 12, 1024, 1])
PAIRS = 16 * 12 * (1024 * 1025 // 2)  # query i meets i + 1 keys
ELEMENTS, QUERIES = 16 * 12 * 1024 * 64, 16 * 12 * 1024
# Besides: the gradient of the queries in fp32, cleared, summed up and cast, and a first kernel over the output.
CUDNN_AGAIN = 2 * ELEMENTS * 2 + 3 * ELEMENTS * 4 + QUERIES * 4
case(
    "causal, cuDNN",
    "_scaled_dot_product_cudnn_attention",
    [QKV, QKV, QKV, None, (S, "True"), (S, "0."), (S, "True"), (S, "False"), None],
    2 * 2 * PAIRS * 64,
    3 * ELEMENTS * 2,
    ELEMENTS * 2 + QUERIES * 4,
)
case(
    "causal, cuDNN, inner",
    "_cudnn_attention_forward",
    [
        QKV,
        QKV,
        QKV,
        None,
        None,
        None,
        (S, "1024"),
        (S, "1024"),
        (S, "True"),
        (S, "0."),
        (S, "True"),
        (S, "False"),
        None,
    ],
    2 * 2 * PAIRS * 64,
    3 * ELEMENTS * 2,
    ELEMENTS * 2 + QUERIES * 4,
)
for inner in ("_scaled_dot_product_cudnn_attention_backward", "_cudnn_attention_backward"):
    case(
        f"causal, backward, {inner}",
        inner,
        [
            OUT,
            QKV,
            QKV,
            QKV,
            OUT,
            LSE,
            (LONG, []),
            (LONG, []),
            None,
            None,
            None,
            (S, "1024"),
            (S, "1024"),
            (S, "0."),
            (S, "True"),
            None,
        ],
        5 * 2 * PAIRS * 64,
        5 * ELEMENTS * 2 + QUERIES * 4,
        3 * ELEMENTS * 2,
        CUDNN_AGAIN,
    )
LONG_ONE = (BF16, [1, 32, 32768, 128])
case(
    "flash, not causal",
    "_scaled_dot_product_flash_attention",
    [LONG_ONE, LONG_ONE, LONG_ONE, (S, "0."), (S, "False"), (S, "False"), (S, "0.088388347648318433")],
    2 * 2 * 32 * 32768 * 32768 * 128,
    3 * 32 * 32768 * 128 * 2,
    32 * 32768 * 128 * 2 + 32 * 32768 * 4,
)
case(
    "flash, grouped heads, causal",
    "_scaled_dot_product_flash_attention",
    [(BF16, [3, 6, 11, 8]), (BF16, [3, 2, 11, 8]), (BF16, [3, 2, 11, 8]), (S, "0."), (S, "True"), (S, "False"), None],
    2 * 2 * (3 * 6 * 66) * 8,
    (3 * 6 * 11 * 8 + 2 * 3 * 2 * 11 * 8) * 2,
    3 * 6 * 11 * 8 * 2 + 3 * 6 * 11 * 4,
)
case(
    "flash, backward",
    "_scaled_dot_product_flash_attention_backward",
    [
        (HALF, [2, 3, 5, 8]),
        (HALF, [2, 3, 5, 8]),
        (HALF, [2, 3, 7, 8]),
        (HALF, [2, 3, 7, 8]),
        (HALF, [2, 3, 5, 8]),
        (FLOAT, [2, 3, 5]),
        None,
        None,
        (S, "5"),
        (S, "7"),
        (S, "0."),
        (S, "False"),
        (LONG, []),
        (LONG, []),
        None,
    ],
    5 * 2 * (2 * 3 * 5 * 7) * 8,
    (3 * 240 + 2 * 336) * 2 + 30 * 4,
    (240 + 2 * 336) * 2,
    2 * 240 * 2 + 3 * 240 * 4 + 30 * 4,
)
# Here lengths stand before heads, and a causal mask ends at the last key: queries see 3, 4 and 5 of 5 keys.
case(
    "flash, inner, causal to the end",
    "_flash_attention_forward",
    [
        (BF16, [2, 3, 4, 16]),
        (BF16, [2, 5, 4, 16]),
        (BF16, [2, 5, 4, 16]),
        None,
        None,
        (S, "3"),
        (S, "5"),
        (S, "0."),
        (S, "True"),
        (S, "False"),
        None,
        None,
        None,
        None,
        None,
    ],
    2 * 2 * (2 * 4 * 12) * 16,
    (384 + 2 * 640) * 2,
    384 * 2 + 24 * 4,
)
case(
    "flash, inner, of an old profile",
    "_flash_attention_forward",
    [
        (BF16, [1024, 7, 8, 32]),
        (BF16, [1024, 7, 8, 32]),
        (BF16, [1024, 7, 8, 32]),
        *[None] * 4,
        (S, "0."),
        (S, "False"),
        (S, "False"),
        (S, "0.17677669529663687"),
    ],
    2 * 2 * (1024 * 8 * 7 * 7) * 32,
    3 * 1024 * 7 * 8 * 32 * 2,
    1024 * 7 * 8 * 32 * 2 + 1024 * 7 * 8 * 4,
    strides=False,
)
# One query a sequence, with all keys so far: what a causal mask would leave
case(
    "decoding",
    "scaled_dot_product_attention",
    [(BF16, [4, 8, 1, 64]), (BF16, [4, 8, 333, 64]), (BF16, [4, 8, 333, 64]), None, (S, "0."), (S, "False"), None],
    2 * 2 * (4 * 8 * 333) * 64,
    (4 * 8 * 64 + 2 * 4 * 8 * 333 * 64) * 2,
    4 * 8 * 64 * 2 + 4 * 8 * 4,
)
WINDOWS = (BF16, [25, 16, 196, 80])
case(
    "efficient, with a bias, without sums",
    "_scaled_dot_product_efficient_attention",
    [WINDOWS, WINDOWS, WINDOWS, (BF16, [25, 16, 196, 196]), (S, "False"), (S, "0."), (S, "False"), None],
    2 * 2 * (25 * 16 * 196 * 196) * 80,
    (3 * 25 * 16 * 196 * 80 + 25 * 16 * 196 * 196) * 2,
    25 * 16 * 196 * 80 * 2,
    strides=False,
)
case(
    "efficient, inner, of an old profile",
    "_efficient_attention_forward",
    [
        (FLOAT, [25, 196, 16, 80]),
        (FLOAT, [25, 196, 16, 80]),
        (FLOAT, [25, 196, 16, 80]),
        (FLOAT, [25, 16, 196, 196]),
        None,
        None,
        None,
        (S, "0."),
        (S, "0"),
        (S, "False"),
        None,
        None,
        None,
    ],
    2 * 2 * (25 * 16 * 196 * 196) * 80,
    (3 * 25 * 16 * 196 * 80 + 25 * 16 * 196 * 196) * 4,
    25 * 16 * 196 * 80 * 4,
    strides=False,
)
# Mask type 2 ends at the last key: 2 queries see 3 and 4 of 4 keys.
case(
    "efficient, inner, causal to the end",
    "_efficient_attention_forward",
    [
        (HALF, [1, 2, 1, 8]),
        (HALF, [1, 4, 1, 8]),
        (HALF, [1, 4, 1, 8]),
        *[None] * 5,
        (S, "0."),
        (S, "2"),
        (S, "True"),
        None,
        None,
        None,
    ],
    2 * 2 * 7 * 8,
    (16 + 32 + 32) * 2,
    16 * 2 + 2 * 4,
)
# Two queries that see 1 and 2 of 4 keys; the bias, one for all heads, wants a gradient of its own.
case(
    "efficient, backward, causal, with a bias",
    "_scaled_dot_product_efficient_attention_backward",
    [
        (HALF, [1, 3, 2, 8]),
        (HALF, [1, 3, 2, 8]),
        (HALF, [1, 3, 4, 8]),
        (HALF, [1, 3, 4, 8]),
        (HALF, [1, 3, 2, 4], [8, 0, 4, 1]),
        (HALF, [1, 3, 2, 8]),
        (FLOAT, [1, 3, 2]),
        (LONG, []),
        (LONG, []),
        (S, "0."),
        (L, "[True, True, True, True]"),
        (S, "True"),
        None,
    ],
    5 * 2 * (3 * 3) * 8,
    (3 * 48 + 2 * 96 + 8) * 2 + 6 * 4,
    (48 + 2 * 96 + 24) * 2,
    2 * 48 * 2 + 3 * 48 * 4 + 6 * 4,
)
case(
    "on the CPU, with a mask",
    "_scaled_dot_product_flash_attention_for_cpu",
    [
        (FLOAT, [3, 4, 13, 5]),
        (FLOAT, [3, 4, 13, 5]),
        (FLOAT, [3, 4, 13, 5]),
        (S, "0."),
        (S, "False"),
        (FLOAT, [3, 4, 13, 13], [13, 0, 0, 1]),
        None,
    ],
    2 * 2 * (3 * 4 * 13 * 13) * 5,
    3 * 780 * 4 + 3 * 13 * 4,
    780 * 4 + 156 * 4,
)
case(
    "on the CPU, backward",
    "_scaled_dot_product_flash_attention_for_cpu_backward",
    [
        *[(FLOAT, [2, 3, 17, 8])] * 5,
        (FLOAT, [2, 3, 17]),
        (S, "0."),
        (S, "True"),
        None,
        None,
    ],
    5 * 2 * (2 * 3 * 153) * 8,
    5 * 816 * 4 + 102 * 4,
    3 * 816 * 4,
    2 * 816 * 4 + 3 * 816 * 4 + 102 * 4,
)

# --- Element by element -------------------------------------------------------------------------------------

case(
    "add, promoted",
    "add",
    [(FLOAT, [16, 1024]), (BF16, [16, 1024]), (S, "1")],
    0,
    16384 * 4 + 16384 * 2,
    16384 * 4,
)
case(
    "add, broadcast",
    "add",
    [(FLOAT, [16, 1024, 768]), (FLOAT, [1024, 768]), (S, "1")],
    0,
    (16 * 1024 * 768 + 1024 * 768) * 4,
    16 * 1024 * 768 * 4,
)
case("add in place", "add_", [(BF16, [50304, 512]), (FLOAT, [50304, 512]), (S, "1")], 0, 25755648 * 6, 25755648 * 2)
case("add in place, a number", "add_", [(FLOAT, [512]), (DOUBLE, []), (S, "1")], 0, 512 * 4 + 8, 512 * 4)
case("mul by a number as a tensor", "mul", [(BF16, [7, 9]), (DOUBLE, [])], 0, 63 * 2 + 8, 63 * 2)
case("mul of integers by a fraction", "mul", [(LONG, [100]), (S, "0.5")], 0, 100 * 8, 100 * 4)
case("mul of a mask by an integer", "mul", [(BOOL, [100]), (S, "2")], 0, 100, 100 * 8)
case("div of an expanded one", "div", [(FLOAT, [16, 1024], [0, 0]), (S, "16384")], 0, 4, 16384 * 4)
case("div of integers", "div", [(LONG, [50]), (LONG, [50])], 0, 50 * 16, 50 * 4)
case("mul into a given tensor", "mul", [(FLOAT, [64]), (FLOAT, []), (BF16, [64])], 0, 64 * 4 + 4, 64 * 2)
case("pow", "pow", [(FLOAT, [16, 1024]), (S, "2")], 0, 16384 * 4, 16384 * 4)
case("pow of a number", "pow", [(S, "0.90000000000000002"), (LONG, [10])], 0, 10 * 8, 10 * 4)
case("relu", "relu", [(BF16, [3, 4])], 0, 12 * 2, 12 * 2)
case("exp of integers", "exp", [(INT, [30])], 0, 30 * 4, 30 * 4)
case("exp of doubles in place", "exp_", [(DOUBLE, [30])], 0, 30 * 8, 30 * 8)
case("abs of complex numbers", "abs", [("c10::complex<float>", [10])], 0, 10 * 8, 10 * 4)
case("complex from two", "complex", [(FLOAT, [10]), (FLOAT, [10])], 0, 2 * 10 * 4, 10 * 8)
case("eq", "eq", [(LONG, [1024]), (LONG, [1024])], 0, 2 * 1024 * 8, 1024)
case("gt into a given tensor", "gt", [(LONG, [1024]), (S, "17"), (BOOL, [1024])], 0, 1024 * 8, 1024, strides=False)
case("isnan", "isnan", [(DOUBLE, [1, 1024])], 0, 1024 * 8, 1024)
case("logical_not into a given tensor", "logical_not", [(FLOAT, [8]), (BOOL, [8])], 0, 8 * 4, 8)
case(
    "where with a column",
    "where",
    [(BOOL, [32, 1]), (FLOAT, [32, 64]), (FLOAT, [])],
    0,
    32 + 32 * 64 * 4 + 4,
    32 * 64 * 4,
)
case(
    "masked_fill",
    "masked_fill",
    [(BF16, [8, 12, 1024, 1024]), (BOOL, [1024, 1024]), (S, "-inf")],
    0,
    8 * 12 * 1024 * 1024 * 2 + 1024 * 1024,
    8 * 12 * 1024 * 1024 * 2,
)
case(
    "masked_fill in place, expanded mask",
    "masked_fill_",
    [(FLOAT, [2, 3, 4]), (BOOL, [2, 3, 4], [4, 0, 1]), (S, "0")],
    0,
    24 * 4 + 8,
    24 * 4,
)
case("addcmul", "addcmul", [*[(FLOAT, [1024, 1184])] * 3, (S, "1.")], 0, 3 * 1212416 * 4, 1212416 * 4)
case(
    "lerp in place", "lerp_", [(FLOAT, [50304, 512]), (FLOAT, [50304, 512]), (S, "0.1")], 0, 51511296 * 4, 25755648 * 4
)
case("clamp by tensors", "clamp", [(FLOAT, [6, 8]), (FLOAT, [8]), (FLOAT, [8])], 0, (48 + 16) * 4, 48 * 4)
case("gelu_backward", "gelu_backward", [(BF16, [16, 4096]), (BF16, [16, 4096]), None], 0, 2 * 65536 * 2, 65536 * 2)
case(
    "threshold_backward of an expanded gradient",
    "threshold_backward",
    [(FLOAT, [5, 128], [0, 0]), (FLOAT, [5, 128]), (S, "0")],
    0,
    4 + 640 * 4,
    640 * 4,
)
case("native_dropout", "native_dropout", [(FLOAT, [32, 706]), (S, "0.1"), (S, "True")], 0, 22592 * 4, 22592 * 4 + 22592)
case(
    "native_dropout_backward",
    "native_dropout_backward",
    [(FLOAT, [32, 703]), (BOOL, [32, 703]), (S, "1.1111111111111112")],
    0,
    22496 * 4 + 22496,
    22496 * 4,
    strides=False,
)
case("copy to another type", "copy_", [(BF16, [4096]), (FLOAT, [4096]), (S, "False")], 0, 4096 * 4, 4096 * 2)
case("copy of an expanded one", "copy_", [(FLOAT, [64, 8]), (FLOAT, [64, 8], [0, 1]), (S, "False")], 0, 8 * 4, 512 * 4)
case("cast", "_to_copy", [(FLOAT, [4096]), (S, "15"), *[None] * 3, (S, "False"), None], 0, 4096 * 4, 4096 * 2)
case("clone", "clone", [(LONG, [16, 1024], [1025, 1]), (S, "0")], 0, 16384 * 8, 16384 * 8)
case("fill_", "fill_", [(BOOL, [1024, 1024]), (S, "1.")], 0, 0, 1024 * 1024)
case("zero_", "zero_", [(FLOAT, [16384, 50304])], 0, 0, 16384 * 50304 * 4)
case("zeros_like of an expanded one", "zeros_like", [(FLOAT, [7, 5], [0, 1]), *[None] * 5], 0, 0, 35 * 4)
case("random_", "random_", [(LONG, [128]), (S, "0"), (S, "10"), None], 0, 0, 128 * 8)
# 0, 3, 6, 9
case("arange", "arange", [(S, "0"), (S, "10"), (S, "3"), (LONG, [0])], 0, 0, 4 * 8)

# --- Lists of tensors: only the kernel's name tells their type ----------------------------------------------

LAYERS = (T, [[512, 784], [512], [10, 512], [10]])  # 401408 + 512 + 5120 + 10 elements
case("foreach addcdiv", "_foreach_addcdiv_", [*[LAYERS] * 3, (L, "[-0.01]")], 0, 3 * 407050 * 4, 407050 * 4, item=4)
case("foreach lerp", "_foreach_lerp_", [LAYERS, LAYERS, (S, "0.1")], 0, 2 * 407050 * 4, 407050 * 4, item=4)
case("foreach sqrt", "_foreach_sqrt", [LAYERS], 0, 407050 * 2, 407050 * 2, item=2)
case("foreach zero", "_foreach_zero_", [LAYERS], 0, 0, 407050 * 4, item=4)
case("foreach copy", "_foreach_copy_", [(T, [[4, 64]]), (T, [[4, 64]]), (S, "False")], 0, 256 * 8, 256 * 8, item=8)
STEPS = (T, [[], [], [], []])
ADAM = [*[(S, "0.001")] * 5, (S, "False"), (S, "False"), None, None]
case(
    "fused AdamW",
    "_fused_adamw_",
    [LAYERS, LAYERS, LAYERS, LAYERS, (T, []), STEPS, *ADAM],
    0,
    4 * 407050 * 4,
    3 * 407050 * 4,
    item=4,
)
case(
    "fused Adam with the largest squares",
    "_fused_adam_",
    [LAYERS, LAYERS, LAYERS, LAYERS, LAYERS, STEPS, *ADAM],
    0,
    5 * 407050 * 4,
    4 * 407050 * 4,
    item=4,
)
case(
    "fused SGD with momentum",
    "_fused_sgd_",
    [LAYERS, LAYERS, LAYERS, *[(S, "0.9")] * 4],
    0,
    3 * 407050 * 4,
    2 * 407050 * 4,
    item=4,
)
case("cat", "cat", [(T, [[16, 1024, 768]] * 3), (S, "2")], 0, 3 * 12582912 * 2, 3 * 12582912 * 2, item=2)
case("stack", "stack", [(T, [[1, 10], [1, 10]]), (S, "-1")], 0, 20 * 4, 20 * 4, item=4, strides=False)

# --- Picking and placing ------------------------------------------------------------------------------------

case(
    "embedding",
    "embedding",
    [(FLOAT, [50304, 768]), (LONG, [16, 1024], [1025, 1]), (S, "-1"), (S, "False"), (S, "False")],
    0,
    16384 * 768 * 4 + 16384 * 8,
    16384 * 768 * 4,
)
case(
    "embedding_dense_backward",
    "embedding_dense_backward",
    [(FLOAT, [16, 1024, 768]), (LONG, [16, 1024]), (S, "50304"), (S, "-1"), (S, "False")],
    0,
    16384 * 768 * 4 + 16384 * 8,
    16384 * 768 * 4,
)
case(
    "index_select",
    "index_select",
    [(FLOAT, [50304, 768]), (S, "0"), (LONG, [16384])],
    0,
    16384 * 768 * 4 + 16384 * 8,
    16384 * 768 * 4,
)
case(
    "index_select of columns",
    "index_select",
    [(BF16, [20, 30]), (S, "-1"), (INT, [7])],
    0,
    20 * 7 * 2 + 7 * 4,
    20 * 7 * 2,
)
# The index is one column that was expanded
case(
    "gather",
    "gather",
    [(FLOAT, [50304, 768]), (S, "0"), (LONG, [16384, 768], [1, 0]), (S, "False"), (FLOAT, [16384, 768])],
    0,
    16384 * 768 * 4 + 16384 * 8,
    16384 * 768 * 4,
)
case("scatter of a number", "scatter_", [(FLOAT, [10, 3]), (S, "1"), (LONG, [10, 1]), (S, "1")], 0, 10 * 8, 10 * 4)
case(
    "scatter of a tensor",
    "scatter_",
    [(FLOAT, [9, 8]), (S, "0"), (LONG, [4, 8]), (FLOAT, [4, 8])],
    0,
    32 * 8 + 32 * 4,
    32 * 4,
)
# Source, sum and index are read, the sum is written
case(
    "scatter_add",
    "scatter_add_",
    [(FLOAT, [49]), (S, "0"), (LONG, [39288]), (FLOAT, [39288])],
    0,
    39288 * (4 + 4 + 8),
    39288 * 4,
)
case(
    "index_add",
    "index_add_",
    [(DOUBLE, [21708]), (S, "0"), (INT, [1024]), (DOUBLE, [1024]), (S, "1")],
    0,
    1024 * (8 + 8 + 4),
    1024 * 8,
    strides=False,
)
case("index by a list", "index", [(FLOAT, [50, 6]), (T, [[7]])], 0, 7 * 6 * 4 + 7 * 8, 7 * 6 * 4)
# 3 by 4 places from a row and a column of indices, 5 elements each
case(
    "index by two, broadcast",
    "index",
    [(HALF, [9, 8, 5]), (T, [[3, 1], [1, 4]])],
    0,
    12 * 5 * 2 + 7 * 8,
    12 * 5 * 2,
)
case(
    "index_put, accumulated",
    "index_put_",
    [(FLOAT, [50, 6]), (T, [[7]]), (FLOAT, [7, 6]), (S, "True")],
    0,
    7 * 8 + 42 * 4 + 42 * 4,
    42 * 4,
)
case("repeat", "repeat", [(FLOAT, [16]), (L, "[8]")], 0, 16 * 4, 128 * 4)

# --- Sums, norms, losses, pooling ---------------------------------------------------------------------------

case("sum of columns", "sum", [(BF16, [16, 1024]), (L, "[0]"), (S, "True"), None], 0, 16384 * 2, 1024 * 2)
case("sum of all", "sum", [(FLOAT, [16, 1024]), (L, "[]"), (S, "False"), None], 0, 16384 * 4, 4)
case("sum of a mask", "sum", [(BOOL, [100]), None], 0, 100, 8)
case("sum in fp32", "sum", [(BF16, [16, 64]), (L, "[1]"), (S, "False"), (S, "6")], 0, 1024 * 2, 16 * 4)
case("sum of all in doubles", "sum", [(FLOAT, [2, 3, 4, 5, 6, 7, 2, 2]), (S, "7")], 0, 20160 * 4, 8)
case(
    "mean of planes",
    "mean",
    [(BF16, [512, 512, 7, 7]), (L, "[-1, -2]"), (S, "True"), None],
    0,
    12845056 * 2,
    262144 * 2,
)
case("mean in fp32 into a given tensor", "mean", [(HALF, [16, 4]), (S, "6"), (FLOAT, [])], 0, 64 * 2, 4)
case("norm in fp32", "norm", [(HALF, [16, 4]), (S, "2"), (S, "6")], 0, 64 * 2, 4)
case("mean of all", "mean", [(FLOAT, [16, 1024]), None], 0, 16384 * 4, 4)
case("any", "any", [(BOOL, [32]), (S, "-1"), (S, "True")], 0, 32, 1)
case("any of numbers", "any", [(FLOAT, [32, 4]), (S, "0"), (S, "False")], 0, 128 * 4, 4)
case("argmax", "argmax", [(FLOAT, [32, 151936]), (S, "-1"), (S, "False")], 0, 32 * 151936 * 4, 32 * 8)
case("max of a dimension", "max", [(FLOAT, [9, 7]), (S, "0"), (S, "False")], 0, 63 * 4, 7 * (4 + 8))
case("max of all", "max", [(INT, [9, 7])], 0, 63 * 4, 4)
case("max of two tensors", "max", [(FLOAT, [9, 7]), (FLOAT, [9, 7])], 0, 2 * 63 * 4, 63 * 4)
case("norm", "linalg_vector_norm", [(FLOAT, [1024]), (S, "2"), None, (S, "False"), None], 0, 1024 * 4, 4)
case("cumsum of integers", "cumsum", [(INT, [32]), (S, "0"), None], 0, 32 * 4, 32 * 8)
case("sort", "sort", [(FLOAT, [32]), (S, "-1"), (S, "False")], 0, 32 * 4, 32 * (4 + 8))
case(
    "topk",
    "topk",
    [(FLOAT, [8192, 8]), (S, "2"), (S, "-1"), (S, "True"), (S, "False")],
    0,
    65536 * 4,
    8192 * 2 * (4 + 8),
)
case(
    "softmax",
    "_softmax",
    [(FLOAT, [8, 12, 1024, 1024]), (S, "-1"), (S, "False")],
    0,
    100663296 * 4,
    100663296 * 4,
)
case(
    "softmax of halves in fp32",
    "_log_softmax",
    [(HALF, [16384, 50304]), (S, "1"), (S, "True")],
    0,
    824180736 * 2,
    824180736 * 4,
)
case(
    "softmax, backward, to bfloat16",
    "_log_softmax_backward_data",
    [(FLOAT, [64, 100]), (FLOAT, [64, 100]), (S, "1"), (S, "15")],
    0,
    2 * 6400 * 4,
    6400 * 2,
)
# Mean and 1/σ of each row, in fp32
case(
    "layer norm",
    "native_layer_norm",
    [(BF16, [4, 64, 512]), (L, "[512]"), (BF16, [512]), (BF16, [512]), (S, "1e-05")],
    0,
    (131072 + 1024) * 2,
    131072 * 2 + 2 * 256 * 4,
)
# The gradients of weight and bias are summed up by a kernel of their own.
case(
    "layer norm, backward",
    "native_layer_norm_backward",
    [
        (FLOAT, [16, 1024]),
        (FLOAT, [16, 1024]),
        (L, "[1024]"),
        (FLOAT, [16, 1]),
        (FLOAT, [16, 1]),
        (FLOAT, [1024]),
        (FLOAT, [1024]),
        (L, "[True, True, True]"),
    ],
    0,
    (2 * 16384 + 2 * 16 + 2 * 1024) * 4,
    (16384 + 2 * 1024) * 4,
    2 * 16384 * 4,
)
case(
    "layer norm, backward, without weights",
    "native_layer_norm_backward",
    [
        (FLOAT, [8, 16, 32, 32]),
        (FLOAT, [8, 16, 32, 32]),
        (L, "[16, 32, 32]"),
        (FLOAT, [8, 1, 1, 1]),
        (FLOAT, [8, 1, 1, 1]),
        None,
        None,
        (L, "[True, False, False]"),
    ],
    0,
    (2 * 131072 + 2 * 8) * 4,
    131072 * 4,
)
case(
    "RMS norm",
    "_fused_rms_norm",
    [(FLOAT, [8, 16, 32, 32]), (L, "[32, 32]"), (FLOAT, [32, 32]), None],
    0,
    (131072 + 1024) * 4,
    131072 * 4 + 128 * 4,
)
case(
    "RMS norm, backward",
    "_fused_rms_norm_backward",
    [
        (FLOAT, [8, 16, 32, 32]),
        (FLOAT, [8, 16, 32, 32]),
        (L, "[32, 32]"),
        (FLOAT, [8, 16, 1, 1]),
        (FLOAT, [32, 32]),
        (L, "[True, True]"),
    ],
    0,
    (2 * 131072 + 128 + 1024) * 4,
    (131072 + 1024) * 4,
    2 * 131072 * 4,
)
case(
    "group norm",
    "native_group_norm",
    [
        (FLOAT, [8, 16, 32, 32]),
        (FLOAT, [16]),
        (FLOAT, [16]),
        (S, "8"),
        (S, "16"),
        (S, "1024"),
        (S, "4"),
        (S, "1e-05"),
    ],
    0,
    (131072 + 32) * 4,
    (131072 + 2 * 8 * 4) * 4,
    131072 * 4,
)
# Mean and 1/σ of 64 channels for the backward pass, and the running ones
HALVES, PARAMETERS = (HALF, [32, 64, 1891]), (FLOAT, [64])
case(
    "batch norm, training",
    "cudnn_batch_norm",
    [HALVES, *[PARAMETERS] * 4, (S, "True"), (S, "0.1"), (S, "1e-05")],
    0,
    3872768 * 2 + 4 * 64 * 4,
    3872768 * 2 + 2 * 64 * 4 + 2 * 64 * 4,
    3872768 * 2,
)
case(
    "batch norm, inference",
    "native_batch_norm",
    [HALVES, *[PARAMETERS] * 4, (S, "False"), (S, "0.1"), (S, "1e-05")],
    0,
    3872768 * 2 + 4 * 64 * 4,
    3872768 * 2,
)
case(
    "batch norm, backward",
    "native_batch_norm_backward",
    [
        (BF16, [512, 512, 7, 7]),
        (BF16, [512, 512, 7, 7]),
        *[(BF16, [512])] * 3,
        *[(FLOAT, [512])] * 2,
        (S, "True"),
        (S, "1e-05"),
        (L, "[True, True, True]"),
    ],
    0,
    2 * 12845056 * 2 + 3 * 512 * 2 + 2 * 512 * 4,
    12845056 * 2 + 2 * 512 * 2,
    2 * 12845056 * 2,
)
# One element a row: its sector of 32 bytes, and the class
case(
    "nll_loss",
    "nll_loss_forward",
    [(FLOAT, [16384, 50304]), (LONG, [16384]), None, (S, "1"), (S, "-100")],
    0,
    16384 * 32 + 16384 * 8,
    2 * 4,
)
case(
    "nll_loss, backward",
    "nll_loss_backward",
    [(FLOAT, []), (FLOAT, [16384, 50304]), (LONG, [16384]), None, (S, "1"), (S, "-100"), (FLOAT, [])],
    0,
    4 + 16384 * 8,
    16384 * 32,
)
case("mse_loss", "mse_loss", [(BF16, [512, 1000]), (BF16, [512, 1000]), (S, "1")], 0, 2 * 512000 * 2, 2)
case("mse_loss, each", "mse_loss", [(FLOAT, [5, 3]), (FLOAT, [5, 3]), (S, "0")], 0, 2 * 15 * 4, 15 * 4)
case(
    "mse_loss, backward",
    "mse_loss_backward",
    [(BF16, []), (BF16, [512, 1000]), (BF16, [512, 1000]), (S, "1")],
    0,
    2 + 2 * 512000 * 2,
    512000 * 2,
)
# (112 + 2 - 3) // 2 + 1 = 56; the place of each maximum is kept
case(
    "max_pool2d",
    "max_pool2d_with_indices",
    [(BF16, [512, 64, 112, 112]), (L, "[3, 3]"), (L, "[2, 2]"), (L, "[1, 1]"), (L, "[1, 1]"), (S, "False")],
    0,
    512 * 64 * 112 * 112 * 2,
    512 * 64 * 56 * 56 * (2 + 8),
)
# 2.5 + 1 places, rounded up to 4: the last begins at 6 of 7
case(
    "avg_pool2d, rounded up",
    "avg_pool2d",
    [(FLOAT, [1, 2, 7, 7]), (L, "[2]"), (L, "[]"), (L, "[0]"), (S, "True"), (S, "True"), None],
    0,
    98 * 4,
    2 * 4 * 4 * 4,
)
case(
    "upsample",
    "upsample_bilinear2d",
    [(BF16, [64, 4, 256, 256]), (L, "[1024, 1024]"), (S, "False"), None, None],
    0,
    64 * 4 * 65536 * 2,
    64 * 4 * 1048576 * 2,
    strides=False,
)
case("adaptive pooling", "_adaptive_avg_pool2d", [(FLOAT, [2, 24, 7, 5]), (L, "[1, 1]")], 0, 1680 * 4, 48 * 4)

# --- Generated kernels: what they read and write is their arguments; not told apart -------------------------

case(
    "Triton, a cast",
    "triton_poi_fused__to_copy_0",
    [(FLOAT, [16384, 1024]), (BF16, [16384, 1024]), (S, "16777216")],
    0,
    16777216 * 4 + 16777216 * 2,
    0,
)
# 16384 rows of 768: of a table of 50304 rows it reads as many
case(
    "Triton, a table that is looked up",
    "triton_per_fused__to_copy_add_embedding_native_layer_norm_slice_0",
    [
        (FLOAT, [16, 1024, 1]),
        (LONG, [16, 1024], [1025, 1]),
        (FLOAT, [50304, 768]),
        (FLOAT, [1024, 768]),
        (FLOAT, [768]),
        (FLOAT, [768]),
        (FLOAT, [16, 1024, 768]),
        (FLOAT, [16, 1024, 1]),
        (BF16, [16, 1024, 768]),
        (S, "1024"),
        (S, "1025"),
        (S, "16384"),
        (S, "768"),
    ],
    0,
    16384 * 4 + 16384 * 8 + 12582912 * 4 + 786432 * 4 + 2 * 768 * 4 + 12582912 * 4 + 16384 * 4 + 12582912 * 2,
    0,
)
case(
    "Triton, a reduction",
    "triton_red_fused_sum_4",
    [(BF16, [16384, 768]), (FLOAT, [1, 768, 128], [98304, 1, 768]), *[(S, text) for text in ("16", "98304", "128")]],
    0,
    12582912 * 2 + 98304 * 4,
    0,
)
case(
    "Triton, a matrix product",
    "triton_tem_fused_mm_0",
    [(BF16, [64, 32]), (BF16, [32, 16]), (BF16, [64, 16])],
    None,
    (2048 + 512 + 1024) * 2,
    0,
)

# --- More of the same families ------------------------------------------------------------------------------

case("addmv", "addmv", [(FLOAT, [6]), (FLOAT, [6, 7]), (FLOAT, [7]), (S, "1"), (S, "1")], 84, (6 + 42 + 7) * 4, 6 * 4)
case(
    "addmm and GELU", "_addmm_activation", [(HALF, [5]), (HALF, [3, 4]), (HALF, [4, 5])], 120, (5 + 12 + 20) * 2, 15 * 2
)
case(
    "mm of complex numbers", "mm", [("c10::complex<float>", [2, 3]), ("c10::complex<float>", [3, 2])], 24, 12 * 8, 4 * 8
)
# 4 experts, rows of 2048 to 7168; scales of one byte for each 32 elements
case(
    "rows of fp8 split among four experts",
    "_scaled_grouped_mm",
    [
        ("c10::Float8_e4m3fn", [16384, 2048]),
        ("c10::Float8_e4m3fn", [4, 2048, 7168], [14680064, 1, 2048]),
        ("c10::Float8_e8m0fnu", [16896, 64]),
        ("c10::Float8_e8m0fnu", [4, 458752]),
        (INT, [4]),
        None,
        None,
        (S, "15"),
        (S, "False"),
    ],
    2 * 16384 * 7168 * 2048,
    16384 * 2048 + 4 * 2048 * 7168 + 16896 * 64 + 4 * 458752 + 4 * 4,
    16384 * 7168 * 2,
)
# Two directions of 4 · 10 rows from 6 inputs and 10 states; 5 steps of 3
case(
    "LSTM of cuDNN",
    "_cudnn_rnn",
    [
        (FLOAT, [5, 3, 6]),
        (T, [[40, 6], [40, 10], [40], [40], [40, 6], [40, 10], [40], [40]]),
        (S, "4"),
        None,
        (FLOAT, [2, 3, 10]),
        (FLOAT, [2, 3, 10]),
        (S, "2"),
        (S, "10"),
        (S, "0"),
        (S, "1"),
        (S, "False"),
        (S, "0."),
        (S, "True"),
        (S, "True"),
        (L, "[]"),
        None,
    ],
    2 * 15 * 2 * 40 * (6 + 10),
    (90 + 2 * 640) * 4,
    15 * 20 * 4,
)
case(
    "one layer of an LSTM, backward",
    "mkldnn_rnn_layer_backward",
    [(FLOAT, [4, 6, 9]), (FLOAT, [48, 9]), (FLOAT, [48, 12]), (FLOAT, [48]), (FLOAT, [48])],
    2 * 2 * 24 * 48 * (9 + 12),
    (216 + 48 * 21 + 2 * 24 * 12) * 4,
    (216 + 48 * 21) * 4,
)
# Frames of 400 that begin every 160: 99 · 160 + 400 samples
case("windows that overlap", "mul", [(FLOAT, [100, 400], [160, 1]), (S, "2.")], 0, 16240 * 4, 40000 * 4)
case("a slice of columns", "neg", [(FLOAT, [10, 4], [400, 1])], 0, 40 * 4, 40 * 4)
case("elu_backward", "elu_backward", [(FLOAT, [9]), *[(S, "1.")] * 3, (S, "False"), (FLOAT, [9])], 0, 72, 36)
case("glu", "glu", [(FLOAT, [6, 8]), (S, "-1")], 0, 48 * 4, 24 * 4)
case("bernoulli_", "bernoulli_", [(BOOL, [32, 706]), (S, "0.9"), None], 0, 0, 22592, strides=False)
case("where of a number", "where", [(BOOL, [10]), (S, "0"), (HALF, [10])], 0, 10 + 20, 20)
case("bitwise_and in place", "bitwise_and_", [(BOOL, [109, 4]), (BOOL, [109, 4])], 0, 2 * 436, 436)
case("isfinite", "isfinite", [(HALF, [10])], 0, 20, 10)
case("ge of numbers without dimensions", "ge", [(LONG, []), (S, "1")], 0, 8, 1)
case("add of halves of two kinds", "add", [(HALF, [10]), (BF16, [10]), (S, "1")], 0, 20 + 20, 40)
case("foreach mul by numbers", "_foreach_mul_", [(T, [[2, 3], [4]]), (S, "0.9")], 0, 10 * 4, 10 * 4, item=4)
case("foreach addcmul", "_foreach_addcmul_", [*[(T, [[2, 3], [4]])] * 3, (S, "0.1")], 0, 3 * 10 * 4, 10 * 4, item=4)
# 11 rows in 3 bags; the fourth offset is the end
case(
    "embedding_bag",
    "_embedding_bag",
    [(FLOAT, [50, 8]), (LONG, [11]), (LONG, [4]), (S, "False"), (S, "0"), (S, "False"), None, (S, "True"), (S, "-1")],
    0,
    11 * 8 * 4 + 15 * 8,
    3 * 8 * 4,
)
case("index_copy", "index_copy_", [(HALF, [9, 8]), (S, "0"), (LONG, [3]), (HALF, [3, 8])], 0, 3 * 8 + 24 * 2, 24 * 2)
case("var_mean", "var_mean", [(FLOAT, [6, 8]), (L, "[1]"), (S, "1"), (S, "True")], 0, 48 * 4, 2 * 6 * 4)
case("amax", "amax", [(HALF, [6, 8]), (L, "[0]"), (S, "False")], 0, 48 * 2, 8 * 2)
case("prod of a dimension", "prod", [(INT, [1024, 2]), (S, "1"), (S, "True"), None], 0, 2048 * 4, 1024 * 8)
case("cummax", "cummax", [(FLOAT, [6, 8]), (S, "1")], 0, 48 * 4, 48 * (4 + 8))
case("argsort", "argsort", [(LONG, [8192]), (S, "True"), (S, "-1"), (S, "False")], 0, 8192 * 8, 8192 * 8)
case("softmax under a mask", "_masked_softmax", [(FLOAT, [6, 8]), (BOOL, [6, 8]), (S, "1"), None], 0, 48 * 5, 48 * 4)
case(
    "group norm, backward",
    "native_group_norm_backward",
    [
        (FLOAT, [8, 16, 32, 32]),
        (FLOAT, [8, 16, 32, 32]),
        (FLOAT, [8, 4]),
        (FLOAT, [8, 4]),
        (FLOAT, [16]),
        *[(S, text) for text in ("8", "16", "1024", "4")],
        (L, "[True, True, True]"),
    ],
    0,
    (2 * 131072 + 2 * 32 + 16) * 4,
    (131072 + 2 * 16) * 4,
    2 * 131072 * 4,
)
case(
    "batch norm of MIOpen, backward",
    "miopen_batch_norm_backward",
    [*[(FLOAT, [8, 16, 32, 32])] * 2, *[(FLOAT, [16])] * 5, (S, "1e-05")],
    0,
    (2 * 131072 + 5 * 16) * 4,
    (131072 + 2 * 16) * 4,
    2 * 131072 * 4,
)
case("adaptive_max_pool2d", "adaptive_max_pool2d", [(FLOAT, [2, 3, 8, 8]), (L, "[2, 2]")], 0, 384 * 4, 24 * (4 + 8))
# One number for all three dimensions: 4 by 3 by 2 places
case(
    "avg_pool3d",
    "avg_pool3d",
    [(FLOAT, [1, 2, 8, 6, 4]), (L, "[2]"), (L, "[]"), (L, "[0]"), (S, "False"), (S, "True"), None],
    0,
    384 * 4,
    48 * 4,
)
# The window of 3 reaches over 5 of 9: 5 places
case(
    "max_pool2d, dilated",
    "max_pool2d_with_indices",
    [(FLOAT, [1, 1, 9, 9]), (L, "[3]"), (L, "[1]"), (L, "[0]"), (L, "[2]"), (S, "False")],
    0,
    81 * 4,
    25 * (4 + 8),
)


@pytest.mark.parametrize("label", CASES)
def test_work_equals_the_hand_count(label: str) -> None:
    wanted = CASES[label]
    assert has_formula(wanted.name)
    of = arguments(wanted.signature)
    assert of is not None
    found = work_of(wanted.name, of, wanted.item)
    assert found is not None
    assert found.flops == wanted.flops
    assert (found.read, found.written, found.again) == (wanted.read, wanted.written, wanted.again)


def test_the_table_covers_the_families() -> None:
    assert len(CASES) >= 160
    assert len({one.name for one in CASES.values()}) >= 120


# --- What the arguments do not tell -------------------------------------------------------------------------

UNKNOWN: dict[str, tuple[str, Signature, int | None]] = {
    "convolution without its settings": (
        "convolution",
        signature([PICTURE, KERNEL, None, *[(L, "")] * 3, (S, ""), (L, ""), (S, "")], strides=False, values=False),
        None,
    ),
    "sum over dimensions without values": (
        "sum",
        signature([(FLOAT, [16, 64]), (L, ""), (S, ""), None], strides=False, values=False),
        None,
    ),
    "sum over dimensions before lists were written": (
        "sum",
        signature([(FLOAT, [16, 64]), None, (S, "False"), None], strides=False),
        None,
    ),
    "a cast to what is not told": (
        "_to_copy",
        signature([(FLOAT, [8]), (S, ""), None], strides=False, values=False),
        None,
    ),
    "softmax of halves, in what is not told": (
        "_softmax",
        signature([(HALF, [8]), (S, ""), (S, "")], strides=False, values=False),
        None,
    ),
    "lists that are too long": (
        "_fused_adamw_",
        signature([*[(T, [])] * 6, *ADAM]),
        4,
    ),
    "lists of a type that no kernel tells": ("_foreach_sqrt", signature([LAYERS]), None),
    "indices that are not told": ("index", signature([(BF16, [888, 2880]), None]), None),
    "a mask": ("index", signature([(BF16, [8, 28]), (T, [[8, 28]])]), None),
    "what may be a mask of rows": ("index", signature([(BF16, [8, 28]), (T, [[8]])]), None),
    "attention within a window": (
        "_flash_attention_forward",
        signature(
            [
                *[(BF16, [2, 30, 4, 16])] * 3,
                None,
                None,
                (S, "30"),
                (S, "30"),
                (S, "0."),
                (S, "True"),
                (S, "False"),
                None,
                (S, "8"),
                (S, "0"),
            ]
        ),
        None,
    ),
    "packed sequences": (
        "_flash_attention_forward",
        signature(
            [*[(BF16, [90, 4, 16])] * 3, (INT, [5]), (INT, [5]), (S, "30"), (S, "30"), (S, "0."), (S, "True"), None]
        ),
        None,
    ),
    "packed sequences of four dimensions": (
        "_efficient_attention_forward",
        signature(
            [*[(BF16, [1, 90, 4, 16])] * 3, None, (INT, [5]), (INT, [5]), (S, "30"), (S, "30"), (S, "0."), (S, "1")]
        ),
        None,
    ),
    "attention that may be causal": (
        "scaled_dot_product_attention",
        signature([*[(BF16, [2, 3, 4, 5])] * 3, None, (S, ""), (S, "")], values=False),
        None,
    ),
    "matrices that do not fit": ("mm", signature([(FLOAT, [3, 4]), (FLOAT, [5, 6])]), None),
    "shapes that do not fit": ("add", signature([(FLOAT, [3]), (FLOAT, [5]), (S, "1")]), None),
    "a type that nobody has seen": ("relu", signature([("c10::Float1", [3])]), None),
    "a sparse matrix": ("mm", Signature("[[5, 5], [5, 3]]", '["float", "float"]', "[[], [3, 1]]", '["", ""]'), None),
    "a negative size": ("relu", Signature("[[-3]]", '["float"]', "[[1]]", '[""]'), None),
    "a repetition that is negative": ("repeat", signature([(FLOAT, [3]), (L, "[-4]")]), None),
    "layer norm without its shape": (
        "native_layer_norm",
        signature([(FLOAT, [3, 4]), (L, ""), (FLOAT, [4]), (FLOAT, [4]), (S, "")], strides=False, values=False),
        None,
    ),
}


@pytest.mark.parametrize("label", UNKNOWN)
def test_unknown_stays_unknown(label: str) -> None:
    name, texts, item = UNKNOWN[label]
    of = arguments(texts)
    assert of is None or work_of(f"aten::{name}", of, item) is None


@given(st.integers(0, 12), st.integers(0, 12), st.booleans(), st.booleans())
def test_unmasked_pairs_equal_counting(queries: int, keys: int, causal: bool, to_the_end: bool) -> None:
    first = keys - queries + 1 if to_the_end else 1
    seen = sum(max(min(first + query, keys), 0) if causal else keys for query in range(queries))
    assert unmasked(queries, keys, causal, to_the_end) == seen


# --- Recorded profiles: nothing is faster than the machine --------------------------------------------------

BYTES_PER_S = 10e12
"""The memory of an H200 gives 4.8e12; what lies in its cache is read faster, but nothing reaches this."""
FLOPS_PER_S = {BF16: 1.0e15, HALF: 1.0e15, FLOAT: 0.7e14}
"""A little more than an H200 can do: 0.99e15 in bfloat16 on tensor cores, 0.67e14 in fp32 without them."""


def too_fast(path: Path, of_long_lists: bool) -> list[tuple[str, int]]:
    """Calls, with the ns of a kernel, that moved or multiplied more than the machine can."""
    timeline = gpuwhy.load(path)
    ops, work = timeline.ops, work_of_operations(timeline)
    ns = (ops.end - ops.start).astype(float)
    rows = np.flatnonzero((ops.kind == OpKind.KERNEL) & (work.owner >= 0) & np.isfinite(work.read) & (ns > 0))
    assert len(rows)
    signatures = timeline.calls.signature[work.owner[rows]]
    long = np.array([(of := arguments(one)) is not None and [] in of.items for one in timeline.signatures], bool)
    rows = rows[long[signatures] == of_long_lists]
    limits = np.array([FLOPS_PER_S.get(work.works[number].type or "", math.inf) for number in work.work[rows]])
    moves = (work.read[rows] + work.written[rows]) / ns[rows] * 1e9 > BYTES_PER_S
    multiplies = np.nan_to_num(work.flops[rows]) / ns[rows] * 1e9 > limits
    found = rows[moves | multiplies]
    return [(timeline.names[timeline.calls.name[work.owner[row]]], int(ns[row])) for row in found]


@pytest.mark.parametrize("path", shared_files("zoo/traces/*.json.gz"))
def test_no_call_is_faster_than_the_machine(path: Path) -> None:
    assert not too_fast(path, of_long_lists=False)


def test_no_call_on_long_lists_is_faster_than_the_machine(shared_dir: Path) -> None:
    assert not [one for path in sorted(shared_dir.glob("zoo/traces/*.json.gz")) for one in too_fast(path, True)]


# --- Damage -------------------------------------------------------------------------------------------------

NAMES = [f"aten::{name}" for name in sorted(FORMULAS)] + ["triton_poi_fused_0", "triton_red_fused_1", "triton_tem_2"]
ODD_NUMBERS = ["1.", "-inf", "nan", "NaN", "1e999", "9" * 30, "9" * 5000, "-1", "0", "2", "15", "99"]
ODD_LISTS = ["[]", "[0]", "[-1]", "[1, 1]", "[2, 2]", "[1e3]", "[[1]]", "[True, False, True]", "[" * 9000]
WORDS = st.sampled_from([*ODD_NUMBERS, *ODD_LISTS, "True", "False", "{}", "null", '"', "", "\ud800"])
NUMBERS = st.one_of(st.integers(-2, 9), st.integers(-(2**70), 2**70), st.sampled_from([2**31, 2**49, 2**50, 2**63]))
SIZES = st.one_of(
    st.lists(NUMBERS, max_size=6), st.lists(st.lists(NUMBERS, max_size=4), max_size=4), st.none(), st.text(max_size=3)
)
TYPES = st.one_of(
    st.sampled_from([*ITEM_SIZES, S, L, T, "", "GenericList", "c10::Float1"]),
    st.lists(st.sampled_from([FLOAT, BF16, S]), max_size=4),
    st.none(),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.dictionaries(st.text(max_size=2), st.integers(), max_size=2),
)
PLAUSIBLE = st.tuples(
    st.lists(st.integers(0, 6), max_size=5), st.sampled_from([FLOAT, BF16, LONG, BOOL, S, L, T, ""]), WORDS
)


def judged(name: str, texts: Signature, item: int | None) -> None:
    of = arguments(texts)
    if of is None:
        return
    work = work_of(name, of, item)
    if work is not None:
        for number in (0 if work.flops is None else work.flops, work.read, work.written, work.again):
            assert 0 <= float(number) < math.inf


@settings(max_examples=400)
@given(
    st.sampled_from(NAMES),
    st.lists(st.tuples(SIZES, TYPES, SIZES, st.one_of(WORDS, NUMBERS, st.none())), max_size=16),
    st.sampled_from([None, 0, 2, 4]),
    st.sampled_from([(), (2,), (3,), (2, 3)]),
)
def test_damaged_arguments_give_nothing_or_plain_numbers(
    name: str, items: list[Any], item: int | None, absent: tuple[int, ...]
) -> None:
    texts = ["" if place in absent else json.dumps([one[place] for one in items]) for place in range(4)]
    judged(name, Signature(*texts), item)


@settings(max_examples=600)
@given(st.sampled_from(NAMES), st.lists(PLAUSIBLE, min_size=1, max_size=16), st.sampled_from([None, 4]))
def test_odd_arguments_give_nothing_or_plain_numbers(name: str, items: list[Any], item: int | None) -> None:
    """Small tensors where an operator wants none, values of any kind."""
    dims, types, values = (json.dumps([one[place] for one in items]) for place in range(3))
    for strides in ("", dims, "[]", "[[]]"):
        judged(name, Signature(dims, types, strides, values), item)


TEXTS = st.one_of(
    st.text(max_size=30),
    st.sampled_from(
        ["[", "]", "[[", "[[]", "null", "{}", "[NaN]", "[1e999]", "[Infinity]", "[[1e999]]", "[[1.5]]", "[]"]
    ),
    st.sampled_from(
        ["[" * 100_000, "[[" + "9" * 5000 + "]]", '["\\ud800"]', "[[true]]", '[["1"]]', "[[null]]", "\x00"]
    ),
    st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=3), st.lists, max_leaves=8).map(
        json.dumps
    ),
)


@settings(max_examples=400)
@given(st.sampled_from(NAMES), TEXTS, TEXTS, TEXTS, TEXTS)
def test_damaged_texts_give_nothing_or_plain_numbers(name: str, a: str, b: str, c: str, d: str) -> None:
    judged(name, Signature(a, b, c, d), 4)


HOSTILE = {
    "many arguments": Signature(*(json.dumps([one] * 10_000) for one in ([2, 3], FLOAT, [3, 1], ""))),
    "many dimensions": Signature(json.dumps([[2] * 10_000] * 3), json.dumps([FLOAT] * 3), "", ""),
    "as many as are read": Signature(*(json.dumps([one] * MAX_ARGUMENTS) for one in ([2, 3], FLOAT, [3, 1], ""))),
    "many tensors": Signature(json.dumps([[[4]] * 10_000] * 5), json.dumps([T] * 5), "", ""),
    "many values": Signature(
        json.dumps([[4], [], [], []]), json.dumps([FLOAT, L, L, L]), "", json.dumps(["", *[str([1] * 10_000)] * 3])
    ),
    "huge values": Signature(
        json.dumps([[4], [], [], []]), json.dumps([FLOAT, L, S, S]), "", json.dumps(["", *[str(10**4000)] * 3])
    ),
}


REFUSED = ("many arguments", "many dimensions", "many tensors")
"""Beyond what any operator has: no arguments, so that its work is unknown."""


@pytest.mark.parametrize("label", HOSTILE)
def test_hostile_arguments_take_little_time(label: str) -> None:
    begun = time.perf_counter()
    of = arguments(HOSTILE[label])
    assert time.perf_counter() - begun < 5
    assert (of is None) == (label in REFUSED)
    for name in NAMES:
        begun = time.perf_counter()
        if of is not None:
            work_of(name, of, 4)
        assert time.perf_counter() - begun < 1
