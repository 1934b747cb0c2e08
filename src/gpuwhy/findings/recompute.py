"""The forward pass is computed again in the backward pass."""

from __future__ import annotations

import re

import numpy as np

from gpuwhy.findings.base import Finding, Look
from gpuwhy.findings.waste import of_cause, of_waste
from gpuwhy.ledger.classes import BACKWARD
from gpuwhy.timeline import CallKind
from gpuwhy.whatif.changes import composed, without_host_time, without_ops
from gpuwhy.whatif.setting import Ops, Setting, Slices

RUN = re.compile(r"autograd::engine::evaluate_function")
"""What autograd calls each node in."""


def recompute(look: Look) -> list[Finding]:
    """All of it is gone, launches included, and what goes on around them."""
    setting, found = look.setting, []
    for waste in of_cause(look, "recompute"):
        ops = setting.ops_of(waste.rows)
        change = composed([without_ops(ops), without_host_time(setting.launching(ops) | _around(setting, ops))])
        found.append(of_waste(look, waste, "no_recompute", [change]))
    return found


def _around(setting: Setting, ops: Ops) -> Slices:
    """Backward nodes that run the forward pass again, without the operators in them: the Python that runs it."""
    timeline, nesting = setting.timeline, setting.timeline.nesting
    backward = setting.pieces(BACKWARD)
    at = timeline.piece_at(timeline.ops.launch[ops & (timeline.ops.launch >= 0)])
    node = nesting.outermost(backward)[at[at >= 0]]
    again = np.zeros(len(backward), bool)
    again[node[node >= 0]] = True
    inner = nesting.nearest(timeline.calls.kind[nesting.call] == CallKind.OPERATOR)
    piece = setting.graph.host.piece
    inner = np.where(piece >= 0, inner[np.maximum(piece, 0)], -1)
    run = nesting.nearest(setting.pieces(RUN))[np.maximum(piece, 0)]
    nested = (run >= 0) & ~again[np.maximum(run, 0)]  # the backward pass of what was run again stays
    return np.asarray((inner >= 0) & backward[np.maximum(inner, 0)] & setting.slices_in(again) & ~nested)
