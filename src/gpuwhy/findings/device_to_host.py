"""Results are copied to the host in every step, and the host waits for them."""

from __future__ import annotations

import numpy as np

from gpuwhy.findings.base import SHORT_NS, Finding, Look, Mend
from gpuwhy.findings.checkpoint import raw_copies
from gpuwhy.findings.stops import stops
from gpuwhy.reports.words import counted, ms, size
from gpuwhy.whatif.changes import composed, without_host_time, without_ops


def device_to_host(look: Look) -> Finding | None:
    """Copies out that are no checkpoint and no single number."""
    setting = look.setting
    copying = stops(setting).get("out")
    if copying is None:
        return None
    marks = copying.marks(setting)
    copies = setting.ops_in(marks) & setting.busy("copy/d2h") & ~raw_copies(setting)[0]
    mine = copies & setting.judged_ops
    if not mine.any():
        return None
    spent = float(setting.graph.duration[mine].sum()) / setting.steps
    moved = float(np.maximum(setting.timeline.ops.bytes[mine], 0.0).sum()) / setting.steps
    # Memory for the result is taken and given back outside of operators, page by page.
    host = setting.slices_in(marks) | setting.following(copies, SHORT_NS)
    return Finding(
        "device_to_host_copy",
        "results are copied to the host in every step, and the host waits for them",
        [
            f"{counted(int(mine.sum()) / setting.steps, 'copy')} a step, {size(moved)} in all: {ms(spent)} ms of "
            f"{ms(look.step_ns)}"
        ],
        "a step as long without them",
        [
            Mend(
                "keep_on_device",
                "keep results on the device, reduce them there, and copy out what is needed rarely, or with "
                "non_blocking=True into pinned memory",
                None,
                composed([copying.no_waits(setting), without_ops(copies), without_host_time(host)]),
            )
        ],
    )
