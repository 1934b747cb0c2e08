"""Tensors are turned from one layout into the other."""

from __future__ import annotations

import re

from gpuwhy.findings.base import Finding, Look
from gpuwhy.findings.waste import of_cause, of_waste
from gpuwhy.roofline.waste.layout import COPIES
from gpuwhy.whatif.changes import composed, lasting, without_ops

NORMS = 0.8, 0.5, 1.0
"""Time of batch norms of channels-last tensors, over that of channels-first ones: expected, at best, at worst."""
COPIED = 0.5, 0.0, 1.0
"""Part of the copies that only change a layout which is left: some operators cannot do without."""


GROUPS = re.compile(r"aten::(native_)?(group_norm|instance_norm)$")
"""Operators that are slower with channels last (a model with group norms took 1.31 times as long)."""


def layout(look: Look) -> list[Finding]:
    """What only turns a layout is gone; norms of the other layout are somewhat faster."""
    setting, found = look.setting, list[Finding]()
    for waste in of_cause(look, "layout"):
        if waste.title != COPIES and setting.pieces(GROUPS).any():
            continue
        is_norm = setting.view.is_account("busy/normalization")[waste.rows]
        norms, turned = setting.ops_of(waste.rows[is_norm]), setting.ops_of(waste.rows[~is_norm])
        if waste.title == COPIES:
            mend, changes = "no_copies", [lasting(turned, left) for left in COPIED]
        else:
            mend = "channels_last"
            changes = [composed([without_ops(turned), lasting(norms, left)]) for left in NORMS]
        found.append(of_waste(look, waste, mend, changes))
    return found
