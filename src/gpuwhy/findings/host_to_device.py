"""Batches are copied to the device while it does nothing else."""

from __future__ import annotations

import numpy as np

from gpuwhy.findings.base import Finding, Look, Mend
from gpuwhy.findings.stops import stops
from gpuwhy.reports.words import size
from gpuwhy.whatif.changes import as_it_is, composed, lasting_ns, paced, without_ops

PCIE = 55e9
"""Bytes/s of a pinned copy where no ceiling is measured: PCIe 5.0 x16, as measured on an H200."""
LEAST_NS = 1_000.0
"""What the smallest copy takes."""


def host_to_device(look: Look) -> Finding | None:
    """Copies in that the device waits for."""
    setting = look.setting
    timeline, duration = setting.timeline, setting.graph.duration
    ops = setting.busy("copy/h2d_pageable", "copy/h2d", "copy/h2d_pinned")
    mine = setting.judged_ops & ops
    spent = float(duration[mine].sum()) / setting.steps
    if not look.is_worth(spent):
        return None
    moved = float(np.maximum(timeline.ops.bytes[mine], 0.0).sum()) / setting.steps
    pageable = setting.busy("copy/h2d_pageable", "copy/h2d") & (timeline.ops.bytes > 0)
    fast = np.maximum(timeline.ops.bytes / (setting.link("h2d_pinned") or PCIE) * 1e9, LEAST_NS)
    pinned = np.where(pageable, np.minimum(fast, duration), duration)
    waiting = stops(setting).get("in")
    no_waits = waiting.no_waits(setting) if waiting is not None else as_it_is
    ahead = composed([without_ops(ops), no_waits, paced(float(pinned[mine].sum()) / setting.steps)])
    mends = [
        Mend(
            "pinned_prefetch",
            "copy the next batch from pinned memory on a stream of its own while the device computes",
            "DataLoader(..., pin_memory=True); with torch.cuda.stream(side): x = x.to('cuda', non_blocking=True)",
            ahead,
        )
    ]
    if (pageable & mine).any():
        mends.append(
            Mend(
                "pinned",
                "copy from pinned memory",
                "DataLoader(..., pin_memory=True); x.to('cuda', non_blocking=True)",
                composed([lasting_ns(ops, pinned), no_waits]),
            )
        )
    how = "pageable" if (pageable & mine).any() else "pinned"
    return Finding(
        "host_to_device_copy",
        "the device waits while batches are copied to it",
        [f"copies of {size(moved)} a step from {how} memory take {look.of_step(spent)}"],
        "a step as long with a batch that is on the device already",
        mends,
    )
