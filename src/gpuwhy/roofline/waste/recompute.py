"""Forward operators that run a second time in the backward pass (activation checkpointing).

It trades time for memory. Whether memory suffices without it is known where the profile holds the allocator's events.
"""

from __future__ import annotations

import re

import numpy as np

from gpuwhy.arrays import combined, unique
from gpuwhy.ledger.classes import BACKWARD
from gpuwhy.roofline.memory import reserved_peak
from gpuwhy.roofline.view import Rows, View
from gpuwhy.roofline.waste.base import Waste, waste
from gpuwhy.timeline import CallKind

FORWARD = re.compile(
    r"aten::(linear|layer_norm|rms_norm|batch_norm|group_norm|conv[123]d|conv_transpose[123]d|convolution|gelu|relu|silu"
    r"|dropout|softmax|scaled_dot_product_attention|embedding|max_pool2d|native_layer_norm)$"
)
"""Operators that are their own forward pass: backward passes call others."""
LEAST_KINDS = 2
"""Different operators that must come again: one alone may be some function's own backward pass."""
SPARE = 0.5
"""Memory is there to spare while the allocator's peak is below this part of the device's."""


def recompute(view: View) -> list[Waste]:
    """Time in operations that repeat, within the backward pass, what the forward pass did with the same arguments."""
    timeline = view.timeline
    calls, nesting = timeline.calls, timeline.nesting
    forward = timeline.names_like(FORWARD)[calls.name] & (calls.kind == CallKind.OPERATOR) & (calls.signature >= 0)
    rows = np.flatnonzero(view.ops.launch >= 0)
    if not forward.any() or not len(rows) or not len(nesting.call):
        return []
    of_piece = forward[nesting.call]
    backward = (timeline.names_like(BACKWARD)[calls.name] & (calls.kind == CallKind.OPERATOR))[nesting.call]
    outermost = nesting.outermost(of_piece)
    node = nesting.outermost(backward).astype(np.int64)
    inside = node >= 0
    piece = timeline.piece_at(view.ops.launch[rows])
    top = np.where(piece >= 0, outermost[piece], -1)
    rows, top = rows[top >= 0], top[top >= 0]
    if not len(rows):
        return []
    again = inside[top]
    call = nesting.call[top]
    _, kind = combined([calls.name[call], calls.signature[call]])
    before = np.zeros(int(kind.max()) + 1, bool)
    before[kind[~again]] = True
    repeated = again & before[kind]
    if len(unique(calls.name[call[repeated]])) < LEAST_KINDS:
        return []
    chosen = _up_to(view, node[top[repeated]], nesting.end[top[repeated]], node)
    return [
        waste(
            view,
            "recompute",
            "the forward pass is computed again in the backward pass (activation checkpointing)",
            _mend(view),
            chosen,
            0,
        )
    ]


def _up_to(view: View, of_node: Rows, end: Rows, node: Rows) -> Rows:
    """Operations that a node of the backward pass launched up to the end of the last repeated operator in it.

    A node first computes again all that it needs, casts and sums included, and then does its own work.
    """
    last = np.full(len(node) + 1, -1, np.int64)
    np.maximum.at(last, of_node, end)
    rows = np.flatnonzero(view.ops.launch >= 0)
    piece = view.timeline.piece_at(view.ops.launch[rows])
    around = np.where(piece >= 0, node[piece], -1)
    return rows[(around >= 0) & (view.timeline.calls.start[view.ops.launch[rows]] < last[around])]


def _mend(view: View) -> str:
    size = view.timeline.devices[view.ledger.device].memory_bytes
    peak = reserved_peak(view)
    if size is None or peak is None:
        return "checkpoint fewer layers, if memory allows (record with profile_memory=True to see whether it does)"
    used = f"the allocator's peak is {peak / 2**30:.1f} of {size / 2**30:.0f} GiB"
    if peak > SPARE * size:
        return f"checkpoint fewer layers as far as memory allows: {used}"
    return f"checkpoint fewer layers, or none: {used}"
