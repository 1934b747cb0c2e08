"""The thresholds of all checks, what a check says, and how shares are told."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limit:
    """Shares above which a check warns and fails (None: never), of what, and why there."""

    warn: float | None
    fail: float | None
    of: str
    why: str


LIMITS = {
    "times_plausible": Limit(0.0, 0.01, "events, or operations", "healthy files have none; 1 % of work is a loss"),
    "launches_recorded": Limit(0.01, 0.5, "operations in the window", "up to 1 % are the edges of healthy windows"),
    "operations_recorded": Limit(0.01, 0.1, "kernel launches", "healthy files have none; 10 % lost work is no ledger"),
    "graphs_recorded": Limit(0.0, 0.05, "graph launches", "each stands for many kernels: one in twenty is a lot"),
    "launch_before_operation": Limit(0.01, 0.1, "the window", "idle time at stake; 10 % can change the largest cause"),
    "clock_outliers": Limit(0.01, None, "operations", "fewer that start early are single records, not a clock"),
    "streams_in_order": Limit(0.01, None, "busy time", "kernels that start as another ends overlap by 0.6 %"),
    "correlations_unique": Limit(0.0, 0.1, "operations", "healthy files have none"),
    "calls_nest": Limit(0.001, None, "calls", "asynchronous annotations make a few in healthy files"),
    "rank_clocks": Limit(None, 0.5, "the shortest recording", "ranks that record one step overlap nearly wholly"),
    "host_known": Limit(0.03, None, "the window", "what a conclusion may be off by"),
    "profiler_distortion": Limit(0.25, None, "the window", "below, a slower host hardly changes the step"),
}
"""All thresholds (docs/trust.md)."""

EXPORT_ADVICE = "export the profile again and wait for the export to finish"
CPU_ADVICE = "record with activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]"
STACK_ADVICE = "record with with_stack=True to see which Python code ran then"


@dataclass(frozen=True)
class Check:
    """One check's outcome. `withholds` names what must not be concluded from this profile.

    `ledger` (nothing may be), `idle causes`, `ranks` (comparing them), `exact shares of host-bound time`.
    """

    check: str
    level: str
    detail: str
    advice: str | None = None
    withholds: tuple[str, ...] = ()


def level_of(name: str, share: float) -> str:
    """The level that a share gets by the limits of a check."""
    limit = LIMITS[name]
    if limit.fail is not None and share > limit.fail:
        return "fail"
    return "warn" if limit.warn is not None and share > limit.warn else "ok"


def percent(share: float) -> str:
    """A share in percent; a small one keeps a digit, so that it does not read as none."""
    if 0 < share < 0.0005:
        return "less than 0.1 %"
    return f"{100 * share:.1f} %" if share < 0.9995 or share >= 1 else "99.9 %"
