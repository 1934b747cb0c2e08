"""Operators compute on the host while the device waits."""

from __future__ import annotations

from gpuwhy.findings.base import Finding, Look, off_the_loop
from gpuwhy.whatif.batch import COMPUTING_NS


def host_compute(look: Look) -> Finding | None:
    """Operators that launch nothing, and take longer than bookkeeping (views, gradients that are added up)."""
    setting = look.setting
    return off_the_loop(
        look,
        setting.slices_of("host_compute") & setting.long(COMPUTING_NS),
        "host_compute",
        "operators compute on the host while the device waits",
        "a step as long without those operators",
        ("compute_elsewhere", "compute on the device, or in the loader's workers", None),
    )
