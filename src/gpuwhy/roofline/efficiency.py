"""Work and ceilings → how near each operation came to what its shape and precision could reach, and what bounds it.

All times are ns. What an operation could reach is `max(FLOPs / ceiling of its precision, bytes / bandwidth)`: nothing
that has that much to do can take less. Its efficiency is that time over its own.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from gpuwhy.roofline.ceilings import Ceilings
from gpuwhy.roofline.traffic import traffic
from gpuwhy.roofline.work import OperationWork
from gpuwhy.timeline import OpKind, Timeline

SHORT_NS = 10_000
"""A kernel is short below this: what it takes to start, to fetch the first data and to end is then most of it."""
REACHED = 0.5
"""A ceiling bounds an operation that reaches this part of it: the hardware's counter of that unit is then over 50 %."""

PRECISIONS = {
    "double": "fp64",
    "float": "fp32",
    "c10::BFloat16": "bf16",
    "c10::Half": "fp16",
    "signed char": "int8",
    "unsigned char": "int8",
    "c10::Float8_e4m3fn": "fp8",
    "c10::Float8_e5m2": "fp8",
    "c10::Float8_e4m3fnuz": "fp8",
    "c10::Float8_e5m2fnuz": "fp8",
    "c10::Float4_e2m1fn_x2": "fp4",
    "c10::complex<float>": "fp32",
    "c10::complex<double>": "fp64",
}
TF32 = re.compile(r"(?i)tf32|tensorop_s\d+gemm|_s1688|s16816tgemm|bf16x3")
"""Kernels that multiply fp32 on tensor cores."""
WITHOUT_TENSOR_CORES = re.compile(
    r"(?i)simt|gemv|(volta|maxwell|pascal)_(h|s|d)gemm|sgemm|dgemm(?!.*tensor)|dot_kernel|f32f32_f32f32|ffma|scudnn"
    r"|depthwise|wvSplitK|LLGemm|gemmk1"
)
"""Kernels that multiply without tensor cores."""
LEAST_TENSOR_GAIN = 3.0
"""Vector units do fp16 at most twice as fast as fp32."""
WITHIN_DEVICE = re.compile(r"Memcpy DtoD|.*DeviceToDevice")
TENSOR_PRECISIONS = ("tf32", "bf16", "fp16", "fp8", "fp4", "int8")


class Bound(IntEnum):
    """What keeps an operation from being faster."""

    UNKNOWN = 0
    COMPUTE = 1
    """The units that multiply."""
    MEMORY = 2
    """The bandwidth of the device's memory."""
    LATENCY = 3
    """It is short, and over before either is in full use."""
    LINK = 4
    """The connection of the device to its host or to another device."""
    KERNEL = 5
    """It is long, and far from both: its own code holds it up (access pattern, occupancy, other instructions)."""


@dataclass(frozen=True, eq=False)
class Efficiency:
    """For each operation of one device (rows of its operations).

    `dram` are bytes through the device's memory, with what is read again. `compute` and `memory` are the ns that FLOPs
    and bytes take at the ceilings, `reachable` the larger one: the least time that the work takes; NaN where work or
    ceiling is not known. `precision` numbers `names` (-1: nothing is multiplied); `tensor_cores` says whether its
    kernel uses them.
    """

    names: list[str]
    precision: NDArray[np.int8]
    tensor_cores: NDArray[np.bool_]
    dram: NDArray[np.float64]
    compute: NDArray[np.float64]
    memory: NDArray[np.float64]
    reachable: NDArray[np.float64]
    bound: NDArray[np.int8]


def efficiency(timeline: Timeline, device: int, work: OperationWork, ceilings: Ceilings | None) -> Efficiency:
    """Judge every operation of a device; without ceilings every bound is unknown."""
    part = timeline.ops_of(device)
    ops = timeline.ops.take(part)
    flops, moved = work.flops[part], work.read[part] + work.written[part]
    length = (ops.end - ops.start).astype(float)
    names, precision = _precisions(timeline, part, work, ceilings, flops / np.maximum(length, 1.0) * 1e9)
    known_peaks = [ceilings.peak(name) if ceilings is not None else None for name in names]
    peak = np.array([np.nan if one is None else one for one in known_peaks] + [np.nan])
    compute = np.where(flops > 0, flops / peak[precision] * 1e9, np.where(np.isnan(flops), np.nan, 0.0))
    memory = moved / (ceilings.dram_bytes_per_s if ceilings is not None else np.nan) * 1e9
    reachable = np.maximum(compute, memory)  # NaN if either is
    bound = np.full(len(ops), Bound.UNKNOWN, np.int8)
    known = np.isfinite(reachable)
    dram = traffic(timeline, part, work, ceilings.l2_bytes if ceilings is not None else None)
    passing = np.where(moved > 0, memory * dram / np.maximum(moved, 1e-9), 0.0)
    bound[known] = np.where(compute[known] > passing[known], Bound.COMPUTE, Bound.MEMORY)
    far = known & (np.fmax(compute, passing) < REACHED * length)
    bound[far] = np.where(length[far] <= SHORT_NS, Bound.LATENCY, Bound.KERNEL)
    link = (ops.kind == OpKind.COPY) & ~timeline.names_like(WITHIN_DEVICE)[ops.name]
    bound[link] = np.where(np.isfinite(moved[link]), Bound.LINK, Bound.UNKNOWN)
    reachable[link] = np.nan  # what the link can do depends on the host's memory, and is not in any table
    tensor = np.array([name in TENSOR_PRECISIONS for name in names] + [False])[precision]
    slow = np.array([WITHOUT_TENSOR_CORES.search(name) is not None for name in timeline.names], bool)
    tensor &= (flops > 0) & ~slow[ops.name] & _has_tensor_cores(ceilings)
    return Efficiency(names, precision, tensor, dram, compute, memory, reachable, bound)


def _has_tensor_cores(ceilings: Ceilings | None) -> bool:
    """Whether the device multiplies narrow types so much faster than fp32 that it has units of its own for them."""
    narrow = (
        max((ceilings.peak(name) or 0.0 for name in ("fp16", "bf16")), default=0.0) if ceilings is not None else 0.0
    )
    return ceilings is not None and narrow > LEAST_TENSOR_GAIN * (ceilings.peak("fp32") or np.inf)


def _precisions(
    timeline: Timeline, part: slice, work: OperationWork, ceilings: Ceilings | None, rate: NDArray[np.float64]
) -> tuple[list[str], NDArray[np.int8]]:
    """The precision in which each operation multiplies, as numbers into a list; -1 for none."""
    names = sorted(set(PRECISIONS.values()) | {"tf32"})
    number = {name: place for place, name in enumerate(names)}
    of_work = np.array(
        [number.get(PRECISIONS.get(one.type or "", ""), -1) if one.flops else -1 for one in work.works] + [-1], np.int8
    )
    precision = of_work[work.work[part]]
    by_name = np.array([TF32.search(name) is not None for name in timeline.names], bool)[timeline.ops.name[part]]
    vector = ceilings.flops.get("fp32", np.inf) if ceilings is not None else np.inf
    faster = (rate > 1.1 * vector) & (ceilings is not None and "tf32" in ceilings.flops)
    precision[(precision == number["fp32"]) & (by_name | faster)] = number["tf32"]
    return names, precision
