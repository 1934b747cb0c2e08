"""The host waits for the device in the middle of a step, and the device then for the host."""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from gpuwhy.findings.base import Finding, Look, Mend, mend_of
from gpuwhy.findings.launching import launching_slices
from gpuwhy.findings.stops import SIZES, Stop, marked, stops
from gpuwhy.reports.words import counted
from gpuwhy.timeline import CallKind
from gpuwhy.whatif.changes import Change, composed, host_time, without_host_time, without_ops
from gpuwhy.whatif.setting import Setting

REDUCTION = re.compile(
    r"aten::(norm|linalg_vector_norm|linalg_norm|sum|mean|max|min|amax|amin|any|all|isnan|isinf|isfinite|std|var|abs|"
    r"ne|eq|count_nonzero|argmax|argmin|square|pow|sqrt|nansum|detach)$"
)
"""Operators whose only purpose is the number that is read right after them."""
STARTING_NS = 8_000, 14_000, 2_000
"""What launching takes longer for each stop before it, without a profiler: expected, at best, at worst (six pairs on
H200 hosts with 8 to 100 stops a step: 5 to 29 µs more was gained for each than without this)."""
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
        [f"{counted(len(stop.nodes) / setting.steps, 'call')} a step to {KINDS[kind]}" for kind, stop in found.items()],
        "a loop that is as slow without those calls",
        [rules[kind](setting, stop) for kind, stop in found.items()],
    )


def _no_item(setting: Setting, stop: Stop) -> Mend:
    """No numbers read, and none of the operators that exist only for them."""
    leading = _leading(setting, stop.pieces)
    changes = _gone(setting, stop, marked(setting, np.concatenate([stop.pieces, *leading])))
    count = f"{len(stop.nodes) / setting.steps:,.0f}"
    also = ", nor compute any only to read them" if leading else ""
    return mend_of(
        "no_item",
        f"read no numbers from the device in the loop (now {count} a step){also}: add them up on the device, and read "
        "the sum once in a hundred steps",
        "total += loss.detach()   # in place of loss.item()",
        changes,
    )


def _no_synchronize(setting: Setting, stop: Stop) -> Mend:
    changes = _without(setting, stop, [without_host_time(setting.slices_in(stop.marks(setting)))])
    return mend_of("no_synchronize", "do not synchronize in the loop; time with CUDA events", None, changes)


def _fixed_sizes(setting: Setting, stop: Stop) -> Mend:
    """Nothing is counted to find out a size."""
    return mend_of(
        "fixed_sizes",
        "no operators whose result's size depends on the data (boolean indexing, nonzero, unique)",
        "torch.where(mask, x, 0)   # in place of x[mask]",
        _gone(setting, stop, setting.pieces(SIZES)),
    )


def _gone(setting: Setting, stop: Stop, pieces: NDArray[np.bool_]) -> list[Change]:
    """Neither the calls, nor what is launched and done in some pieces."""
    return _without(setting, stop, [without_ops(setting.ops_in(pieces)), without_host_time(setting.slices_in(pieces))])


def _without(setting: Setting, stop: Stop, changes: list[Change]) -> list[Change]:
    """The host neither waits in the calls nor starts anew after them: as expected, at best, at worst."""
    launching = launching_slices(setting)

    def variant(ns: float) -> Change:
        faster = host_time(launching, lambda now: max(now - ns * len(stop.nodes), 0.0))
        return composed([stop.no_waits(setting), *changes, faster])

    return [variant(ns) for ns in STARTING_NS]


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
