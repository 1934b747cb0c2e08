"""The host waits for the device in the middle of a step, and the device then for the host."""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from gpuwhy.findings.base import Finding, Look, Mend
from gpuwhy.findings.stops import SIZES, Stop, marked, stops
from gpuwhy.timeline import CallKind
from gpuwhy.whatif.changes import Change, composed, without_host_time, without_ops
from gpuwhy.whatif.setting import Setting

REDUCTION = re.compile(
    r"aten::(norm|linalg_vector_norm|linalg_norm|sum|mean|max|min|amax|amin|any|all|isnan|isinf|isfinite|std|var|abs|"
    r"ne|eq|count_nonzero|argmax|argmin|square|pow|sqrt|nansum|detach)$"
)
"""Operators whose only purpose is the number that is read right after them."""
NEXT_NS = 100_000
"""An operator belongs to the reading of a number if it ends at most so long before."""
LONGEST = 4
"""Operators that can lead to one number."""
KINDS = {
    "scalar": "read a number from the device",
    "explicit": "synchronize",
    "sizes": "ask for the size of a result",
}


def synchronization(look: Look) -> Finding | None:
    """Numbers read from the device, sizes that the host must know, or explicit waits, in every step."""
    setting = look.setting
    found = {kind: stop for kind, stop in stops(setting).items() if kind in KINDS}
    if not found:
        return None
    rules = {"scalar": _no_item, "explicit": _no_synchronize, "sizes": _fixed_sizes}
    return Finding(
        "synchronization",
        "the host waits for the device in the middle of a step, and the device then for the host",
        [f"{len(stop.nodes) / setting.steps:,.0f} calls a step {KINDS[kind]}" for kind, stop in found.items()],
        "a loop that is as slow without those calls",
        [rules[kind](setting, stop) for kind, stop in found.items()],
    )


def _no_item(setting: Setting, stop: Stop) -> Mend:
    """No numbers read, and none of the operators that exist only for them."""
    leading = _leading(setting, stop.pieces)
    change = _gone(setting, stop, marked(setting, np.concatenate([stop.pieces, *leading])))
    count = f"{len(stop.nodes) / setting.steps:,.0f}"
    also = ", nor compute any only to read them" if leading else ""
    return Mend(
        "no_item",
        f"read no numbers from the device in the loop (now {count} a step){also}: add them up on the device, and read "
        "the sum once in a hundred steps",
        "total += loss.detach()   # in place of loss.item()",
        change,
    )


def _no_synchronize(setting: Setting, stop: Stop) -> Mend:
    change = composed([stop.no_waits(setting), without_host_time(setting.slices_in(stop.marks(setting)))])
    return Mend("no_synchronize", "do not synchronize in the loop; time with CUDA events", None, change)


def _fixed_sizes(setting: Setting, stop: Stop) -> Mend:
    """Nothing is counted to find out a size."""
    return Mend(
        "fixed_sizes",
        "no operators whose result's size depends on the data (boolean indexing, nonzero, unique)",
        "torch.where(mask, x, 0)   # in place of x[mask]",
        _gone(setting, stop, setting.pieces(SIZES)),
    )


def _gone(setting: Setting, stop: Stop, pieces: NDArray[np.bool_]) -> Change:
    return composed(
        [
            stop.no_waits(setting),
            without_ops(setting.ops_in(pieces)),
            without_host_time(setting.slices_in(pieces)),
        ]
    )


def _leading(setting: Setting, pieces: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """The outermost operators right before, as long as they are reductions and their like."""
    nesting, calls = setting.timeline.nesting, setting.timeline.calls
    is_operator = calls.kind[nesting.call] == CallKind.OPERATOR
    outermost = np.flatnonzero(nesting.outermost(is_operator) == np.arange(len(is_operator)))
    reduces = setting.pieces(REDUCTION)
    found: list[NDArray[np.int64]] = []
    after = pieces
    for _ in range(LONGEST):
        place = np.searchsorted(outermost, after) - 1
        before, after = outermost[place[place >= 0]], after[place >= 0]
        near = reduces[before] & (calls.thread[nesting.call[before]] == calls.thread[nesting.call[after]])
        near &= nesting.start[after] - nesting.end[before] <= NEXT_NS
        after = before[near]
        if not len(after):
            break
        found.append(after)
    return found
