"""Tensors are turned from one layout into the other."""

from __future__ import annotations

from gpuwhy.findings.base import Finding, Look
from gpuwhy.findings.waste import of_cause, of_waste
from gpuwhy.whatif.changes import composed, lasting, without_ops

NORMS = 0.8, 0.5, 1.0
"""Time of batch norms of channels-last tensors, over that of channels-first ones: expected, at best, at worst."""


def layout(look: Look) -> list[Finding]:
    """What only turns a layout is gone; norms of the other layout are somewhat faster."""
    setting, found = look.setting, []
    for waste in of_cause(look, "layout"):
        is_norm = setting.view.is_account("busy/normalization")[waste.rows]
        norms, turned = setting.ops_of(waste.rows[is_norm]), setting.ops_of(waste.rows[~is_norm])
        found.append(of_waste(look, waste, [composed([without_ops(turned), lasting(norms, n)]) for n in NORMS]))
    return found
