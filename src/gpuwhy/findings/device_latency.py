"""The device is the limit, but its kernels are too small to fill it."""

from __future__ import annotations

import numpy as np

from gpuwhy.findings.base import Finding, Look
from gpuwhy.findings.larger_batch import larger
from gpuwhy.roofline.efficiency import Bound

LEAST = 0.2
"""Part of a step in small kernels and the gaps between them from which on they are the cause."""


def device_latency(look: Look) -> Finding | None:
    """Time in kernels that are over before the device is full, and in gaps between what is launched already."""
    view = look.setting.view
    if look.device_ns is not None:  # the host is the limit
        return None
    steps = len(view.ledger.window.steps or ()) or 1
    small = int(view.ns[np.flatnonzero(view.is_bound(Bound.LATENCY))].sum()) / steps
    gaps = view.ledger.of("idle/device") / steps
    if small + gaps < LEAST * look.step_ns:
        return None
    mend = larger(look)
    return Finding(
        "device_latency",
        "kernels are too small to fill the device, and follow each other with gaps",
        [f"{look.of_step(small)} in kernels that are over before the device is full", f"{look.of_step(gaps)} in gaps"],
        "a step twice as long with a batch twice as large",
        [mend] if mend is not None else [],
    )
