"""What is wrong or missing in the profile itself, found before anything is concluded from it.

Each check has its threshold in `LIMITS`, its evidence, what it withholds and how to record a better profile. Levels:
`ok`, `note` (good to know), `warn` (figures are off by about this much), `fail` (the conclusions named in
`withholds` are not to be trusted).
"""

from __future__ import annotations

from collections.abc import Sequence

from gpuwhy.ledger.partition import Ledger
from gpuwhy.timeline import Timeline
from gpuwhy.trust import host, launches, recording
from gpuwhy.trust.limits import CPU_ADVICE, LIMITS, STACK_ADVICE, Check, Limit, percent

__all__ = ["CPU_ADVICE", "LIMITS", "STACK_ADVICE", "Check", "Limit", "checks", "percent"]


def checks(timeline: Timeline, ledgers: Sequence[Ledger]) -> list[Check]:
    """All checks, in the order in which a reader should meet them."""
    found = [
        recording.recording_complete(timeline),
        recording.times_plausible(timeline),
        recording.steps_found(ledgers),
        launches.launches_recorded(timeline, ledgers),
        *launches.operations_recorded(timeline, ledgers),
        launches.launch_before_operation(timeline, ledgers),
        recording.streams_in_order(timeline, ledgers),
        recording.correlations_unique(timeline),
        recording.calls_nest(timeline),
        recording.rank_clocks(timeline),
        host.host_known(timeline, ledgers),
        host.profiler_distortion(timeline, ledgers),
    ]
    return [check for check in found if check is not None]
