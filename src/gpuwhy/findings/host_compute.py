"""Operators compute on the host while the device waits."""

from __future__ import annotations

import re

from gpuwhy.findings.base import Finding, Look, off_the_loop
from gpuwhy.whatif.batch import COMPUTING_NS

VIEWS = re.compile(
    r"aten::(as_strided|view|_unsafe_view|reshape|slice|narrow|select|split\w*|chunk|unbind|transpose|permute|t|expand\w*|"
    r"squeeze|unsqueeze|flatten|detach|alias|unfold|movedim|lift_fresh)_?$"
)
"""Operators that compute nothing, however long they take."""


def host_compute(look: Look) -> Finding | None:
    """Operators that launch nothing, and take longer than bookkeeping (views, gradients that are added up)."""
    setting = look.setting
    slices = setting.slices_of("host_compute") & setting.long(COMPUTING_NS)
    slices &= ~setting.slices_in(setting.pieces(VIEWS))
    return off_the_loop(
        look,
        slices,
        "host_compute",
        "operators compute on the host while the device waits",
        "a step as long without those operators",
        ("compute_elsewhere", "compute on the device, or in the loader's workers", None),
    )
