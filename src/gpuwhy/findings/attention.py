"""Attention written out, with the scores of all pairs in memory."""

from __future__ import annotations

from gpuwhy.findings.base import Finding, Look
from gpuwhy.findings.waste import of_cause, of_waste, towards
from gpuwhy.whatif.changes import composed, without_host_time

TRAINED, INFERRED = (0.55, 0.75, 0.42), (0.75, 1.0, 0.5)
"""Part of a ceiling of compute that fused attention reaches, with its backward pass and without: expected, at best, at
worst (H200, bf16)."""
FEWER = 5.0
"""Operators of written-out attention for each fused one."""


def attention(look: Look) -> list[Finding]:
    """Fused, it takes fewer launches, too."""
    setting, found = look.setting, []
    for waste in of_cause(look, "attention"):
        trained = any("backward" in one.name for one in waste.operators)
        host = without_host_time(setting.launching(setting.ops_of(waste.rows)), 1 / FEWER)
        parts = TRAINED if trained else INFERRED
        found.append(
            of_waste(
                look, waste, "fused_attention", [composed([towards(setting, waste, part), host]) for part in parts]
            )
        )
    return found
