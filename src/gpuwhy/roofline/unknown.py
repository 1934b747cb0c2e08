"""Why the work, or the ceiling, of some busy time is not known."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpuwhy.arrays import by_value
from gpuwhy.roofline.captures import REPLAY
from gpuwhy.roofline.efficiency import Bound
from gpuwhy.roofline.operators import has_formula
from gpuwhy.roofline.view import Rows, View
from gpuwhy.timeline import CallKind

COLLECTIVE, NO_LAUNCH, REPLAYED, NO_OPERATOR, NO_SHAPES = -5, -4, -3, -2, -1
REASONS = {
    NO_LAUNCH: "launch not recorded",
    REPLAYED: "replayed from a graph, and no such kernel ran elsewhere",
    NO_OPERATOR: "no operator around the launch",
    NO_SHAPES: "shapes not recorded",
    COLLECTIVE: "collectives",
}


def unknown(looked: View) -> list[tuple[str, int]]:
    """Why work is not known, and for how many ns, the most first."""
    calls, names = looked.timeline.calls, looked.timeline.names
    if not len(calls):
        return [(REASONS[NO_LAUNCH], int(looked.ns.sum()))] if len(looked.row) else []
    rows = np.flatnonzero(~np.isfinite(looked.moved) | ~np.isfinite(looked.flops))
    operator = _operators_around(looked, rows)
    inside = operator >= 0
    why = np.where(looked.ops.launch[rows] < 0, NO_LAUNCH, NO_OPERATOR)
    shaped = calls.signature[operator[inside]] >= 0
    why[inside] = np.where(shaped, calls.name[operator[inside]], NO_SHAPES)
    replayed = looked.timeline.names_like(REPLAY)[calls.name[np.maximum(looked.ops.launch[rows], 0)]]
    why[replayed & (looked.ops.launch[rows] >= 0)] = REPLAYED
    why[looked.is_account("busy/communication")[rows]] = COLLECTIVE
    found = _without_ceiling(looked)
    for code, some in by_value(why):
        name = names[code] if code >= 0 else ""
        reason = REASONS.get(code) or (f"shapes do not tell: {name}" if has_formula(name) else f"no formula: {name}")
        found.append((reason, int(looked.ns[rows[some]].sum())))
    return sorted(found, key=lambda item: -item[1])


def _without_ceiling(looked: View) -> list[tuple[str, int]]:
    """Operations whose work is known, but not what the device can do."""
    if looked.ceilings is None:
        return []
    rows = np.isfinite(looked.moved) & np.isfinite(looked.flops) & (looked.bound == Bound.UNKNOWN)
    return [
        (f"no ceiling for {looked.precisions[number]} on this device", int(looked.ns[rows][some].sum()))
        for number, some in by_value(looked.precision[rows])
        if number >= 0
    ]


def _operators_around(looked: View, rows: Rows) -> NDArray[np.int64]:
    """The innermost operator around each operation's launch, -1 for none."""
    calls, nesting = looked.timeline.calls, looked.timeline.nesting
    found = np.full(len(rows), -1, np.int64)
    launched = np.flatnonzero(looked.ops.launch[rows] >= 0)
    if len(launched) and len(nesting.call):
        nearest = nesting.nearest((calls.kind == CallKind.OPERATOR)[nesting.call])
        piece = looked.timeline.piece_at(looked.ops.launch[rows[launched]])
        around = np.where(piece >= 0, nearest[piece], -1)
        found[launched] = np.where(around >= 0, nesting.call[around], -1)
    return found
