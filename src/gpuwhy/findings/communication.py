"""The device waits for collectives."""

from __future__ import annotations

import numpy as np

from gpuwhy.findings.base import Finding, Look, Mend
from gpuwhy.whatif.changes import Change, composed, lasting, lasting_ns, paced, without_host_time, without_ops
from gpuwhy.whatif.setting import Ops, Setting

MANY = 16
"""From so many collectives a step on, joining them is worth a thought."""
JOINED = 8.0
"""So many are joined into one."""


def communication(look: Look) -> Finding | None:
    """Collectives that nothing hides."""
    setting, duration = look.setting, look.setting.graph.duration
    ops = setting.busy_anywhere("communication")
    steps = len(setting.view.ledger.window.steps or ()) or 1
    exposed = setting.view.ledger.of("busy/communication") / steps
    if not look.is_worth(exposed):
        return None
    mine = ops & setting.judged_ops
    total = float(duration[mine].sum()) / setting.steps
    count = int(mine.sum()) / setting.steps
    several = len({device.rank for device in setting.timeline.devices}) > 1
    # Beside other work they still wait for each other, and still take what they take.
    hidden: Change = composed([lasting(ops, 0.0), paced(total)])
    mends = [
        Mend(
            "overlap_communication",
            "let collectives run beside the computation that does not need them (DDP and FSDP do so if buckets are "
            "ready early and the host launches ahead)",
            None,
            hidden,
        )
    ]
    if count >= MANY:
        mends.append(_fewer(setting, ops, count))
    return Finding(
        "communication",
        "the device waits for collectives",
        [
            f"collectives, and the wait for other ranks in them, are exposed for {look.of_step(exposed)}",
            *([] if several else ["how much of it is the wait for a late rank is not known: give all ranks' files"]),
        ],
        "a step as long on one device",
        mends,
    )


def _fewer(setting: Setting, ops: Ops, count: float) -> Mend:
    """Small collectives joined: of so many only one is left, and the data take as long as before."""
    rows = np.flatnonzero(ops)
    gone = ops.copy()
    gone[rows[:: round(JOINED)]] = False
    left = ops & ~gone
    duration = setting.graph.duration
    latency = float(np.sort(duration[rows])[len(rows) // 10])
    data = np.maximum(duration - latency, 0.0)
    joined = latency + data[ops].sum() / max(int(left.sum()), 1)
    longer = lasting_ns(left, np.full(len(duration), joined))
    return Mend(
        "fewer_collectives",
        f"join collectives: {count:,.0f} a step, each launched on its own",
        "DistributedDataParallel(model, bucket_cap_mb=25)   # the default, or more",
        composed([longer, without_ops(gone), without_host_time(setting.launching(gone))]),
    )
