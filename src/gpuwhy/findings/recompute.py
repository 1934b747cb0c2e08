"""The forward pass is computed again in the backward pass."""

from __future__ import annotations

from gpuwhy.findings.base import Finding, Look
from gpuwhy.findings.waste import of_cause, of_waste
from gpuwhy.whatif.changes import composed, without_host_time, without_ops


def recompute(look: Look) -> list[Finding]:
    """All of it is gone, launches included."""
    setting, found = look.setting, []
    for waste in of_cause(look, "recompute"):
        ops = setting.ops_of(waste.rows)
        change = composed([without_ops(ops), without_host_time(setting.launching(ops))])
        found.append(of_waste(look, waste, "no_recompute", [change]))
    return found
