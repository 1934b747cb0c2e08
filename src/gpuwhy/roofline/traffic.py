"""How many bytes pass through the device's memory: more than an operation must move, where its kernel reads again.

Each element once, the second passes of known kernels (`again`), and for matrix products the factors again and again:
the blocks that run at one time cover a part of the result, and each such wave reads the rows and columns for its part,
of which the second-level cache holds little until the next wave. A wave of sm_count tiles covers A elements; what the
cache keeps makes it larger. A product of (m, k) by (k, n) then reads SPREAD · m · n · k / √A elements, and never less
than its factors; one whose result fits into a wave reads no more than these.

On an H200 (`benchmarks/counters.py`, and 19 shapes of cuBLAS products measured the same way) this is within 13 % of the
memory's counter for kernels with tensor cores, and within 2 % for everything that streams. Kernels without tensor
cores (`simt`) go over the result in another order and read up to three times as much.
"""

from __future__ import annotations

import math
import re

import numpy as np
from numpy.typing import NDArray

from gpuwhy.arrays import combined
from gpuwhy.roofline.operators import Work
from gpuwhy.roofline.work import OperationWork
from gpuwhy.timeline import Timeline

SPREAD = 2.6
"""2 if a wave covered a square; real ones are wider than high."""
CACHED = 1 / 3
"""Part of the second-level cache that holds what is read again from wave to wave."""
CACHED_BYTES = 20e6
"""The same where its size is not known: of an H200's 60 MB."""
TILE = re.compile(r"(?<!\d)(\d{2,3})x(\d{2,3})(?:x\d+)?_")
USUAL_TILE = 128 * 256
"""Elements of the result that a block works on: 32-bit sums in half of a multiprocessor's registers."""
USUAL_SM_COUNT = 108


def traffic(timeline: Timeline, part: slice, work: OperationWork, l2_bytes: int | None) -> NDArray[np.float64]:
    """Bytes through the device's memory of each operation of one device; NaN where its work is not known.

    `l2_bytes` is the size of its second-level cache, None where that is not known.
    """
    total = work.read[part] + work.written[part] + np.nan_to_num(work.again[part])
    number, name = work.work[part], timeline.ops.name[part]
    is_product = np.array([one.matmul is not None for one in work.works] + [False])
    rows = np.flatnonzero(is_product[number])
    if not len(rows):
        return total
    sm_count = timeline.devices[timeline.ops.device[part.start]].sm_count or USUAL_SM_COUNT
    cached = l2_bytes * CACHED if l2_bytes else CACHED_BYTES
    first, kind = combined([number[rows], name[rows]])
    more = np.array(
        [
            read_again(work.works[number[row]], timeline.names[name[row]], sm_count, cached)
            for row in rows[first].tolist()
        ]
    )
    total[rows] += more[kind] * work.part[part][rows]
    return total


def read_again(work: Work, kernel: str, sm_count: int, cached: float) -> float:
    """Bytes of the factors that a matrix product reads beyond reading them once; `cached` of them stay in the cache."""
    shape = work.matmul
    if shape is None or not min(shape.batch, shape.m, shape.n, shape.k):
        return 0.0
    found = TILE.search(kernel)
    wave = sm_count * (int(found[1]) * int(found[2]) if found else USUAL_TILE)
    if shape.m * shape.n <= wave:
        return 0.0
    item = work.read / max(shape.batch * (shape.m + shape.n) * shape.k, 1)
    area = wave + (cached / (SPREAD * shape.k * item)) ** 2
    panels = SPREAD * shape.batch * shape.m * shape.n * shape.k * item / math.sqrt(area)
    return max(panels - work.read, 0.0)
