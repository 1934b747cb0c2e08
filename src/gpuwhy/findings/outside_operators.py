"""The program does something else for a long time at a stretch."""

from __future__ import annotations

import numpy as np

from gpuwhy.findings.base import LONG_NS, Finding, Look, mend_of, warmed
from gpuwhy.findings.checkpoint import raw_copies
from gpuwhy.whatif.changes import composed, without_host_time
from gpuwhy.whatif.setting import Slices

ONCE = 0.6
"""Part of it that lies in one stretch, from which on it is one step's and not the loop's."""


def outside_operators(look: Look) -> Finding | None:
    """Long stretches of host time outside of PyTorch's operators that no other rule explains."""
    setting, host = look.setting, look.setting.graph.host
    slices = setting.slices_of("outside_operators") & setting.long(LONG_NS) & ~raw_copies(setting)[1]
    own = setting.host_ns(slices)
    if not look.is_worth(own) or _only_once(look, slices):
        return None
    account = setting.account[slices]
    weight = np.bincount(account, (host.end - host.start)[slices])
    where = setting.of.accounts.names[int(weight.argmax())].removeprefix("idle/outside_operators/")
    known = where not in ("main", "backward", "other")
    return Finding(
        "outside_operators",
        "the loop does something else than PyTorch operators for long stretches",
        [
            f"{look.of_step(own)}, at least {LONG_NS // 10**6} ms at a stretch",
            f"mostly in {where}" if known else "what runs then was not recorded: record with with_stack=True",
        ],
        "a step as long without that work",
        [
            mend_of(
                "out_of_loop",
                "move that work out of the loop, or into another thread or process",
                None,
                [composed([without_host_time(slices), warm]) for warm in warmed(look, slices)],
            )
        ],
    )


def _only_once(look: Look, slices: Slices) -> bool:
    """One long stretch in several steps: the next ones need not have any."""
    length = look.setting.graph.host.now[slices]
    return look.setting.steps > 2 and bool(length.max() > ONCE * length.sum())
