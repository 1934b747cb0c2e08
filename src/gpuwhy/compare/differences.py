"""Two sides → what is different: the step, the accounts, the kernels."""

from __future__ import annotations

import math

import numpy as np

from gpuwhy.compare.noise import difference_of_means, ratio_of_means, ratio_of_medians, why_not
from gpuwhy.compare.sides import PROFILED, Kernel, Side, metadata
from gpuwhy.ledger.partition import BUSY_SHARE
from gpuwhy.reports import compare_model as model
from gpuwhy.reports.findings_model import Interval
from gpuwhy.reports.verdict import NO_MEND
from gpuwhy.reports.words import ms

ALIKE = 0.05
"""A kernel whose time (or number) changes by less than this part is alike."""
MOST_KERNELS = 200
MOST_LENGTHS = 500
LEAST_SHARE = 0.001
"""Kernels whose change is less than this part of the longer step are not listed."""
LEAST = 0.005
"""A step that takes so much longer, or less, is alike: that much a clock or the place in memory can do."""
RUN_TO_RUN = 0.05
"""Pairs of starts of one host-bound loop scatter by 3 to 4 % on a shared host (docs/compare.md): a smaller difference
is said to need more runs."""


def compare(before: Side, after: Side) -> model.Comparison:
    """What is different after from before; the gates are left empty."""
    from gpuwhy.version import __version__

    unit = "sample" if before.samples and after.samples else "step"
    parts = _parts(before, unit), _parts(after, unit)
    typical, average = _changes(before, after, parts)
    accounts = _accounts(before, after, parts)
    return model.Comparison(
        gpuwhy=__version__,
        unit=unit,
        before=_info(before),
        after=_info(after),
        verdict=_verdict(before, after, unit, typical, average, accounts),
        typical=typical,
        average=average,
        accounts=accounts,
        kernels=_kernels(before, after, parts),
        all_kernels=before.all_kernels and after.all_kernels,
        notes=_notes(before, after, unit, typical),
        gates=[],
    )


def _parts(side: Side, unit: str) -> float:
    """What a step is divided by."""
    return float(side.samples or 1) if unit == "sample" else 1.0


def _info(side: Side) -> model.SideInfo:
    step = max(-(-len(side.lengths) // MOST_LENGTHS), 1)
    return model.SideInfo(
        label=side.label,
        devices=side.report.source.devices,
        steps=side.count,
        clock=side.clock,
        samples_per_step=side.samples,
        median_ns=float(np.median(side.lengths)) if len(side.lengths) else None,
        mean_ns=float(side.lengths.mean()) if len(side.lengths) else None,
        lengths_ns=side.lengths[::step].tolist(),
        verdict=side.report.verdict.text,
        cause=side.report.verdict.cause,
    )


def why_cannot(before: Side, after: Side) -> str | None:
    """Why nobody can tell whether the steps differ; None where one can."""
    return why_not(before.lengths, after.lengths, min(before.count, after.count))


def _changes(before: Side, after: Side, parts: tuple[float, float]) -> tuple[model.Change | None, model.Change | None]:
    """By medians and by means."""
    if not len(before.lengths) or not len(after.lengths):
        return None, None
    sure = why_cannot(before, after) is None
    one, other = before.lengths / parts[0], after.lengths / parts[1]
    found = []
    for ratio in (ratio_of_medians(one, other), ratio_of_means(one, other)):
        beyond = (ratio.low > 1 or ratio.high < 1) and abs(math.log(ratio.mid)) > LEAST
        differs = beyond if sure else None
        found.append(model.Change(ratio=ratio, differs=differs))
    return found[0], found[1]


def _accounts(before: Side, after: Side, parts: tuple[float, float]) -> list[model.AccountChange]:
    """All accounts of both, the largest change first; none where a side has no ledger: missing is not zero."""
    if not before.accounts or not after.accounts:
        return []
    rows = []
    for name in dict.fromkeys((*before.accounts, *after.accounts)):
        one, other = before.accounts.get(name, 0.0) / parts[0], after.accounts.get(name, 0.0) / parts[1]
        difference = _account_difference(before, after, parts, name)
        rows.append(
            model.AccountChange(
                account=name,
                before_ns=one,
                after_ns=other,
                difference_ns=difference,
                differs=None if difference is None else difference.low > 0 or difference.high < 0,
            )
        )
    return sorted(rows, key=lambda row: -abs(row.after_ns - row.before_ns))


def _account_difference(before: Side, after: Side, parts: tuple[float, float], name: str) -> Interval | None:
    """Of the steps in which both sides' ledgers tell the account; None where they are too few."""
    series = []
    for side, by in zip((before, after), parts, strict=True):
        if side.account_steps is None:
            return None
        length = len(next(iter(side.account_steps.values()), np.zeros(0)))
        series.append(side.account_steps.get(name, np.zeros(length)) / by)
    if why_not(series[0], series[1], min(map(len, series))) is not None:
        return None
    return difference_of_means(series[0], series[1])


def _kernels(before: Side, after: Side, parts: tuple[float, float]) -> list[model.KernelChange]:
    if not before.kernels or not after.kernels:
        return []
    complete = before.all_kernels and after.all_kernels
    nothing = Kernel(0.0, 0.0)
    rows = []
    for key in dict.fromkeys((*before.kernels, *after.kernels)):
        if not complete and (key not in before.kernels or key not in after.kernels):
            continue
        one, other = before.kernels.get(key, nothing), after.kernels.get(key, nothing)
        rows.append(
            model.KernelChange(
                name=key[0],
                account=key[1],
                change=_change(one, other, parts),
                before_ns=one.ns / parts[0],
                after_ns=other.ns / parts[1],
                before_count=one.count / parts[0],
                after_count=other.count / parts[1],
            )
        )
    whole = max(
        (float(side.lengths.mean()) / by for side, by in zip((before, after), parts, strict=True) if len(side.lengths)),
        default=0.0,
    )
    worth = [row for row in rows if abs(row.after_ns - row.before_ns) >= LEAST_SHARE * whole and row.change != "alike"]
    return sorted(worth, key=lambda row: -abs(row.after_ns - row.before_ns))[:MOST_KERNELS]


def _change(one: Kernel, other: Kernel, parts: tuple[float, float]) -> str:
    """What became of a kernel: whichever changed its time more, how long each takes or how many there are."""
    if not one.count:
        return "appeared"
    if not other.count:
        return "vanished"
    number = math.log((other.count / parts[1]) / (one.count / parts[0]))
    each = math.log((other.ns / other.count) / (one.ns / one.count)) if one.ns and other.ns else 0.0
    if max(abs(each), abs(number)) < ALIKE:
        return "alike"
    if abs(each) > abs(number):
        return "slower" if each > 0 else "faster"
    return "more" if number > 0 else "fewer"


def _verdict(
    before: Side,
    after: Side,
    unit: str,
    typical: model.Change | None,
    average: model.Change | None,
    accounts: list[model.AccountChange],
) -> str:
    if typical is None or average is None:
        missing = before.label if not len(before.lengths) else after.label
        return f"Cannot tell: {missing} has no steps."
    figure = _ratio(typical.ratio)
    if typical.differs is None:
        much = figure[: figure.index(" [")]
        why = why_cannot(before, after)
        head = f"The median {unit} takes {much} as long, and nobody can tell whether that is noise: {why}"
    elif typical.differs:
        head = f"The typical {unit} takes {'longer' if typical.ratio.mid > 1 else 'less time'}: {figure}"
    else:
        head = f"No difference beyond the noise of the steps: {figure}"
    if average.differs and not typical.differs:
        mean = _ratio(average.ratio)
        head += f"; but on average it takes {'longer' if average.ratio.mid > 1 else 'less time'}, by rare steps: {mean}"
    return " ".join(filter(None, (f"{head}.", _largest(accounts, unit, typical, average), _causes(before, after))))


def _ratio(of: Interval) -> str:
    digits = 3 if of.mid < 10 else 1
    return f"× {of.mid:.{digits}f} [{of.low:.{digits}f}, {of.high:.{digits}f}]"


def _causes(before: Side, after: Side) -> str:
    """What stood first in each report."""
    one, other = before.report.verdict.cause, after.report.verdict.cause
    if one is None or other is None:
        return ""
    if one == other:
        return f"First finding of both: {one}."
    told = [f"none ({NO_MEND[0].lower()}{NO_MEND[1:]})" if cause == "healthy" else cause for cause in (one, other)]
    return f"First finding before: {told[0]}; after: {told[1]}."


def _largest(accounts: list[model.AccountChange], unit: str, typical: model.Change, average: model.Change) -> str:
    """The accounts that changed most, the way the mean went, in words."""
    change = sum(row.after_ns - row.before_ns for row in accounts)
    if change * (typical.ratio.mid - 1) < 0 and abs(typical.ratio.mid - 1) >= ALIKE:
        return f"On average it went the other way, × {average.ratio.mid:.3f}, and so do the accounts, by long steps."
    named = [
        row
        for row in accounts
        if (row.after_ns - row.before_ns) * change > 0
        and abs(row.after_ns - row.before_ns) >= ALIKE * max(_sum(accounts), 1.0)
    ][:2]
    if not named:
        return ""
    said = [f"{row.account} {ms(row.before_ns)} → {ms(row.after_ns)} ms" for row in named]
    return f"Most of the change, a {unit}: {', '.join(said)}."


def _sum(accounts: list[model.AccountChange]) -> float:
    """The longer of the two."""
    return max(sum(row.before_ns for row in accounts), sum(row.after_ns for row in accounts))


def _recorded_slower(before: Side, after: Side) -> list[str]:
    """A warning where steps are those of profiles in which the host takes part, with what the replays expect."""
    busy = [d.busy_ns / d.window_ns for side in (before, after) for d in side.report.devices[:1] if d.window_ns]
    if not (before.clock == after.clock == PROFILED) or min(busy, default=1.0) >= BUSY_SHARE:
        return []
    one, other = before.report.replay, after.report.replay
    told = ""
    if one is not None and other is not None and one.step_ns and other.step_ns:
        told = (
            f"; without the profiler the replays expect {ms(one.step_ns)} → {ms(other.step_ns)} ms a step "
            f"(× {other.step_ns / one.step_ns:.2f})"
        )
    return [
        "both sides are profiles, and the profiler makes the host slower: how long host-bound steps take is told by "
        f"two runs (gpuwhy run){told}"
    ]


def _notes(before: Side, after: Side, unit: str, typical: model.Change | None) -> list[str]:
    notes = []
    one, other = metadata(before), metadata(after)
    for what, value in one.items():
        if value != other[what] and not (what == "samples a step" and unit == "sample"):
            shown = [("not known" if side[what] is None else side[what]) for side in (one, other)]
            notes.append(f"{what}: {shown[0]} before, {shown[1]} after")
    notes += _recorded_slower(before, after)
    for side in (before, after):
        if not side.report.sound:
            notes.append(f"{side.label}: its ledger is not to be trusted, nor what is said of accounts here")
    if typical is not None and typical.differs:
        little = abs(math.log(typical.ratio.mid)) < RUN_TO_RUN
        start = "two starts of one program can differ by as much" if little else "the two did not run in turns"
        notes.append(
            f"{start}: a host that changes its pace looks like a change of the program; repeat both to be sure"
        )
    blank = [side.label for side in (before, after) if not side.accounts]
    if blank:
        notes.append(f"no ledger of a device in {' and '.join(blank)}: accounts and kernels are not compared")
    elif not (before.all_kernels and after.all_kernels):
        notes.append("a saved report lists only its largest kernels: kernels that came or went are not told")
    return notes
