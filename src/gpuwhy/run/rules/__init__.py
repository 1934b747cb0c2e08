"""What only a run can tell: one small rule a root cause, over `Seen`."""

from __future__ import annotations

from collections.abc import Callable

from gpuwhy.reports.findings_model import FindingInfo
from gpuwhy.run.rules.pauses import checkpoints, collections
from gpuwhy.run.rules.shared import shared_device
from gpuwhy.run.rules.threads import busy_thread
from gpuwhy.run.rules.throttling import throttling
from gpuwhy.run.rules.waiting import input_wait
from gpuwhy.run.rules.workers import crowded_cores, too_many_workers
from gpuwhy.run.seen import Seen

Rule = Callable[[Seen], FindingInfo | None]
RULES: tuple[Rule, ...] = (
    input_wait,
    collections,
    checkpoints,
    busy_thread,
    too_many_workers,
    crowded_cores,
    shared_device,
    throttling,
)


def findings(seen: Seen) -> list[FindingInfo]:
    """What the rules say of a process, what brings most first; nothing of one without steady steps."""
    if not seen.steps.steady.any():
        return []
    found = [finding for rule in RULES if (finding := rule(seen)) is not None]
    return sorted(found, key=lambda finding: finding.mends[0].after_over_before.mid)
