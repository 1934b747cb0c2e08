"""Chains of elementwise, cast, normalization and reduction kernels that fewer fused kernels could do.

A chain is a run of such kernels on one stream, with nothing else between. Fused, it reads what comes from outside and
writes its last result; what lies between stays in registers. A profile does not tell which tensor is which, nor what a
later operator still needs: an input that looks like one that the chain already has is taken for that one, so that the
bytes of the fused chain are a lower bound.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpuwhy.roofline.view import Group, Rows, View
from gpuwhy.roofline.waste.base import Waste, waste

TITLE = "chains of elementwise, cast and normalization kernels that pass through memory one by one"
FUSIBLE = ("busy/elementwise", "busy/normalization", "busy/reduction", "busy/softmax")


def elementwise(view: View, taken: NDArray[np.bool_]) -> list[Waste]:
    """One entry for all chains; `taken` are operations that another rule has named."""
    group_of = view.group_of
    shaped = np.array([_has_tensors(group) for group in view.groups] + [False], bool)
    fusible = view.is_account(*FUSIBLE) & ~taken & (group_of >= 0)
    fusible &= np.isfinite(view.moved) & shaped[group_of]
    some, first = _chains(view, fusible)
    if not len(some) or view.ceilings is None:
        return []
    moved = view.moved * view.charged
    now = np.add.reduceat(moved[some], first)
    fused = _fused_bytes(view, np.split(group_of[some], first[1:])) * view.charged[some[first]]
    least = float(np.minimum(fused, now).sum())
    return [
        waste(
            view,
            "elementwise",
            TITLE,
            "torch.compile the model, or a fused kernel for the chain",
            some,
            int(least / view.ceilings.dram_bytes_per_s * 1e9),
            bytes=int(now.sum()),
            least_bytes=int(least),
        )
    ]


def _has_tensors(group: Group) -> bool:
    return group.arguments is not None and bool(group.arguments.tensors())


def _chains(view: View, fusible: NDArray[np.bool_]) -> tuple[Rows, Rows]:
    """Runs of at least two operators' kernels on one stream: all their rows in order, and where each run begins."""
    kernels = np.flatnonzero(~view.is_account("busy/memset"))
    order = kernels[np.lexsort((view.ops.start[kernels], view.ops.stream[kernels]))]
    if not len(order):
        return order, order
    new = np.ones(len(order), bool)
    new[1:] = ~fusible[order[1:]] | ~fusible[order[:-1]] | (view.ops.stream[order[1:]] != view.ops.stream[order[:-1]])
    first = np.flatnonzero(new)
    length = np.diff(np.append(first, len(order)))
    other = np.zeros(len(order), np.int64)  # how often the call changes along a run
    other[1:] = (view.caller[order[1:]] != view.caller[order[:-1]]) & ~new[1:]
    changes = np.cumsum(other)
    long = changes[first + length - 1] > changes[first]
    inside = np.repeat(long, length)
    return order[inside], np.append(0, np.cumsum(length[long]))[:-1] if long.any() else first[:0]


def _fused_bytes(view: View, chains: list[Rows]) -> NDArray[np.float64]:
    """Bytes that each chain of operators (numbers of groups) reads from outside, and its last result."""
    known: dict[bytes, float] = {}
    found = np.empty(len(chains))
    for place, chain in enumerate(chains):
        key = chain.tobytes()
        if key not in known:
            known[key] = _fused([view.groups[number] for number in chain.tolist()], view)
        found[place] = known[key]
    return found


def _fused(groups: list[Group], view: View) -> float:
    """What comes from outside, and the result of the last operator; alike is what has as many elements of one size."""
    seen: set[tuple[int, float]] = set()
    outside = last = 0.0
    for group in groups:
        tensors = group.arguments.tensors() if group.arguments is not None else []
        for tensor in tensors[1:] if group.name == "aten::copy_" else tensors:  # what is copied to is not read
            if (tensor.count, tensor.item) not in seen:
                seen.add((tensor.count, tensor.item))
                outside += tensor.bytes
        work = view.work_of(int(group.rows[0]))
        last = work.written if work is not None else 0.0
        count = max((tensor.count for tensor in tensors), default=0)
        if count:
            seen.add((count, last // count))  # the result, which the next one may read
    return outside + last
