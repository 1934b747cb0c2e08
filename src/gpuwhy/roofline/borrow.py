"""Work for operations whose launch tells nothing: replays of graphs, and launches before the recording.

The same kernel with the same grid mostly does the same work, but not always: how long the sums of a product are, or the
rows of a norm, shows in no grid. So work is lent only where every other operation with an operation's name, blocks and
threads has one and the same work, and where it also took about as long as they did. Otherwise it stays unknown.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpuwhy.arrays import combined
from gpuwhy.timeline import MISSING, OpKind, Timeline

ALIKE = 0.02
"""Work that differs by less counts as the same."""
AS_LONG = 1.25
"""Factor by which an operation may be shorter or longer than all that could lend to it."""


def lenders(
    timeline: Timeline, known: NDArray[np.bool_], wanting: NDArray[np.bool_], weight: NDArray[np.float64]
) -> NDArray[np.int64]:
    """For each operation that wants work the row of one that lends it, or -1. `weight`: FLOPs and bytes together."""
    ops = timeline.ops
    lender = np.full(len(ops), -1, np.int64)
    rows = np.flatnonzero((ops.kind == OpKind.KERNEL) & (ops.blocks != MISSING))
    if not len(rows) or not known[rows].any() or not wanting[rows].any():
        return lender
    _, kind = combined([ops.name[rows], ops.blocks[rows], ops.threads[rows]])
    kinds = int(kind.max()) + 1
    has = known[rows]
    low, high = np.full(kinds, np.inf), np.full(kinds, -np.inf)
    np.minimum.at(low, kind[has], weight[rows[has]])
    np.maximum.at(high, kind[has], weight[rows[has]])
    one = np.full(kinds, -1, np.int64)
    one[kind[has]] = rows[has]
    same = np.zeros(kinds, bool)
    lent = np.isfinite(low)
    same[lent] = high[lent] - low[lent] <= ALIKE * high[lent]
    length = np.maximum(ops.end[rows] - ops.start[rows], 1).astype(float)
    shortest, longest = np.full(kinds, np.inf), np.zeros(kinds)
    np.minimum.at(shortest, kind[has], length[has])
    np.maximum.at(longest, kind[has], length[has])
    as_long = (length * AS_LONG >= shortest[kind]) & (length <= AS_LONG * longest[kind])
    served = np.flatnonzero(wanting[rows] & ~has & same[kind] & as_long)
    lender[rows[served]] = one[kind[served]]
    return lender
