"""`--fail-if 'step_time > +5%'`: a condition on a comparison, for CI.

A condition holds if its whole interval lies beyond the limit, and does not hold if none of it does; else nobody can
tell.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from gpuwhy.compare.differences import why_cannot
from gpuwhy.compare.noise import FEWEST
from gpuwhy.compare.sides import Side
from gpuwhy.errors import GpuwhyError
from gpuwhy.ledger.accounts import within
from gpuwhy.reports.compare_model import Comparison, GateInfo
from gpuwhy.reports.findings_model import Interval
from gpuwhy.reports.words import MEANING

GRAMMAR = re.compile(
    r"\s*(?P<what>[A-Za-z_][\w/.\-]*)\s*(?P<sign>[<>])\s*(?P<limit>[+\-\u2212]?\d+(?:\.\d+)?)\s*(?P<unit>%|ns|us|µs|\u03bcs|ms|s)\s*"
)
UNITS = {"%": 1.0, "ns": 1.0, "us": 1e3, "µs": 1e3, "\u03bcs": 1e3, "ms": 1e6, "s": 1e9}
RATIOS = ("step_time", "mean_step_time", "throughput")
HINT = "for example 'step_time > +5%', 'throughput < -3%' or 'idle/input > +2ms'"
UNEQUAL = "the two have different numbers of samples a step: give the limit in %"
HOLDS, HOLDS_NOT, CANNOT_TELL = "holds", "does not hold", "cannot tell"


@dataclass(frozen=True)
class Condition:
    """A change of something, in percent or ns, above or below a limit."""

    text: str
    what: str
    above: bool
    limit: float
    percent: bool


def parse(text: str) -> Condition:
    """Raises GpuwhyError where it is no condition."""
    found = GRAMMAR.fullmatch(text)
    if found is None:
        raise GpuwhyError(f"--fail-if {text!r}: not a condition", hint=HINT)
    what, unit = found["what"], found["unit"]
    if what not in RATIOS and not any(within(what, group) for group in ("idle", "busy")):
        raise GpuwhyError(
            f"--fail-if {text!r}: {what} is not known", hint=f"one of {', '.join(RATIOS)}, or an account; {HINT}"
        )
    if what == "throughput" and unit != "%":
        raise GpuwhyError(f"--fail-if {text!r}: throughput is compared in percent", hint=HINT)
    limit = float(found["limit"].replace("\u2212", "-")) * UNITS[unit]
    return Condition(text.strip(), what, found["sign"] == ">", limit, unit == "%")


def judge(condition: Condition, of: Comparison, before: Side, after: Side) -> GateInfo:
    """Whether a condition holds."""
    measured, why = _measured(condition, of, before, after)
    if measured is None:
        return GateInfo(condition=condition.text, outcome=CANNOT_TELL, measured=None, why=why)
    low, high = (measured.low, measured.high) if condition.above else (-measured.high, -measured.low)
    limit = condition.limit if condition.above else -condition.limit
    outcome = HOLDS if low > limit else HOLDS_NOT if high <= limit else CANNOT_TELL
    why = "the limit lies within the interval: more steps narrow it" if outcome == CANNOT_TELL else None
    return GateInfo(condition=condition.text, outcome=outcome, measured=measured, why=why)


def _measured(condition: Condition, of: Comparison, before: Side, after: Side) -> tuple[Interval | None, str | None]:
    """The change in the condition's unit, or why it is not known."""
    if condition.what in RATIOS:
        change = of.typical if condition.what == "step_time" else of.average
        why = why_cannot(before, after)
        if change is None or why is not None:
            return None, why or "a side has no steps"
        if condition.what == "throughput":
            return _scaled(
                Interval(low=1 / change.ratio.high, mid=1 / change.ratio.mid, high=1 / change.ratio.low)
            ), None
        if condition.percent:
            return _scaled(change.ratio), None
        step = of.before.median_ns if condition.what == "step_time" else of.before.mean_ns
        if _samples(of) is None or step is None:
            return None, UNEQUAL
        return Interval(**{end: (getattr(change.ratio, end) - 1) * step for end in ("low", "mid", "high")}), None
    return _account(condition, of, before, after)


def _withheld(side: Side, account: str) -> str | None:
    """Why nothing is known of an account on one side, though its ledger has figures."""
    if not side.report.sound:
        return "its ledger is not to be trusted"
    if within(account, "idle") and account != "idle":
        return next((item.why for item in side.report.withheld if item.what == "idle causes"), None)
    return None


def _samples(of: Comparison) -> float | None:
    """What a time of the comparison is to be multiplied by to be one of a step; None where the batches differ."""
    if of.unit == "step":
        return 1.0
    before, after = of.before.samples_per_step, of.after.samples_per_step
    return before if before == after else None


def _scaled(ratio: Interval) -> Interval:
    """Percent more."""
    return Interval(low=100 * (ratio.low - 1), mid=100 * (ratio.mid - 1), high=100 * (ratio.high - 1))


def _account(condition: Condition, of: Comparison, before: Side, after: Side) -> tuple[Interval | None, str | None]:
    """The change of an account and all below it; intervals of several are added end by end: rather too wide."""
    if not of.accounts:
        return None, "a side has no ledger of a device"
    for side in (before, after):
        if (why := _withheld(side, condition.what)) is not None:
            return None, f"{side.label}: {why}"
    rows = [row for row in of.accounts if within(row.account, condition.what)]
    known = any(within(name, condition.what) for name in MEANING)
    if not rows and not known:
        return None, "neither side has that account, and it is none that gpuwhy names by itself: is it spelt right?"
    if not rows and all(row.difference_ns is not None for row in of.accounts):
        return Interval(low=0.0, mid=0.0, high=0.0), None  # neither has it, and both would tell
    if not rows or any(row.difference_ns is None for row in rows):
        return None, f"fewer than {FEWEST} steps on a side, or steps that are not told apart"
    ends = {
        end: sum(getattr(row.difference_ns, end) for row in rows if row.difference_ns is not None)
        for end in ("low", "mid", "high")
    }
    if not condition.percent:
        samples = _samples(of)
        if samples is None:
            return None, UNEQUAL
        return Interval(**{end: samples * value for end, value in ends.items()}), None
    base = sum(row.before_ns for row in rows)
    if not base:
        return None, "the account was empty before: give the limit in ms"
    return Interval(**{end: 100 * value / base for end, value in ends.items()}), None
