"""Checks of the recording itself: whole, plausible, with steps, streams and ids in order, clocks that agree."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpuwhy.arrays import by_value
from gpuwhy.intervals import running_end
from gpuwhy.ledger.partition import Ledger
from gpuwhy.steps import FEW_STEPS
from gpuwhy.timeline import Timeline
from gpuwhy.trust.launches import in_window, rounding
from gpuwhy.trust.limits import EXPORT_ADVICE, Check, level_of, percent


def recording_complete(timeline: Timeline) -> Check:
    """Whether every file could be read to its end."""
    damaged = [(s.file, s.damage) for s in timeline.sources if s.damage]
    malformed = sum(s.malformed for s in timeline.sources)
    if damaged:
        detail = "; ".join(f"{file}: {damage}" for file, damage in damaged)
        return Check(
            "recording_complete",
            "warn",
            f"{detail}. What was read before that is explained. Events are not in order of time: launches and "
            "operations may be missing anywhere, busy time is a lower bound, and causes of idle time are not certain.",
            EXPORT_ADVICE,
            ("idle causes",),
        )
    if malformed:
        return Check("recording_complete", "warn", f"{malformed:,} entries of the event list are not events")
    return Check("recording_complete", "ok", "every file could be read to its end")


def times_plausible(timeline: Timeline) -> Check:
    """Whether events have usable times."""
    bad, events = sum(s.implausible for s in timeline.sources), sum(s.events for s in timeline.sources)
    work = sum(s.implausible_operations for s in timeline.sources)
    level = level_of("times_plausible", max(bad / max(events, 1), work / max(work + len(timeline.ops), 1)))
    return Check(
        "times_plausible",
        level,
        f"{bad:,} of {events:,} events ({work:,} of them device operations) have no usable time (absent, negative or "
        "over a day) and were left out"
        if bad
        else "every event has a plausible time",
        "record again; if it stays, report it to the profiler's makers" if bad else None,
        ("ledger",) if level == "fail" else (),
    )


def steps_found(ledgers: Sequence[Ledger]) -> Check | None:
    """Whether there are steps to judge, and enough of them."""
    windows = [ledger.window for ledger in ledgers]
    if any(w.chosen for w in windows):
        return None  # chosen so
    advice = "record at least six steps: schedule(wait=1, warmup=3, active=6) and prof.step() in the loop"
    for w in windows:
        if w.steps is None:
            return Check("steps_found", "warn", w.note or "no steps were found", advice)
    fewest = min(len(w.steps) for w in windows if w.steps is not None)
    notes = {w.note for w in windows if w.note}
    if fewest < FEW_STEPS or notes:
        told = "; ".join([f"only {fewest} step{'s' if fewest != 1 else ''} to judge", *sorted(notes)])
        return Check("steps_found", "warn" if fewest < FEW_STEPS - 1 else "note", told, advice)
    return Check("steps_found", "ok", f"{fewest} complete steps are judged")


def streams_in_order(timeline: Timeline, ledgers: Sequence[Ledger]) -> Check:
    """Whether operations of one stream follow each other, as a stream promises."""
    overlapping, count, busy = 0, 0, 0
    for ledger in ledgers:
        ops = timeline.ops.take(in_window(timeline, ledger))
        busy += ledger.busy_ns
        slack = rounding(timeline, ledger)
        for _, rows in by_value(ops.stream):
            start, end = ops.start[rows], ops.end[rows]
            before = running_end(end)
            lap = (end > start) & (before > start)
            lap[lap] &= before[lap] - start[lap] > slack
            overlapping += int((np.minimum(before, end) - start)[lap].sum())
            count += int(lap.sum())
    share = overlapping / max(busy, 1)
    if not count:
        return Check("streams_in_order", "ok", "operations of one stream follow each other")
    return Check(
        "streams_in_order",
        "note" if level_of("streams_in_order", share) == "ok" else "warn",
        f"operations that overlap an earlier one of their own stream: {count:,} ({percent(share)} of busy time); "
        "each instant is counted once",
    )


def correlations_unique(timeline: Timeline) -> Check:
    """Whether an operation's id names one call."""
    shared = sum(s.duplicate_correlations for s in timeline.sources)
    level = level_of("correlations_unique", shared / max(len(timeline.ops), 1))
    if not shared:
        return Check("correlations_unique", "ok", "no two launches share an id")
    return Check(
        "correlations_unique",
        level,
        f"{shared:,} ids of operations belong to several calls: the last call before the operation is taken",
        "files merged by hand mix up their ids: give each file by itself",
        ("idle causes",) if level == "fail" else (),
    )


def calls_nest(timeline: Timeline) -> Check | None:
    """Whether host calls had to be cut to nest."""
    clipped = timeline.nesting.clipped
    if not clipped:
        return None
    level = level_of("calls_nest", clipped / max(len(timeline.calls), 1))
    return Check(
        "calls_nest",
        "note" if level == "ok" else level,
        f"{clipped:,} host calls overlap without nesting and were cut",
    )


def rank_clocks(timeline: Timeline) -> Check | None:
    """Whether the recordings of several ranks cover the same time at all."""
    if len(timeline.sources) < 2:
        return None
    start, end = max(s.start_ns for s in timeline.sources), min(s.end_ns for s in timeline.sources)
    shortest = min(s.end_ns - s.start_ns for s in timeline.sources)
    if shortest > 0 and level_of("rank_clocks", 1 - (end - start) / shortest) == "ok":
        return Check("rank_clocks", "ok", "the recordings of all ranks overlap")
    return Check(
        "rank_clocks",
        "fail",
        "the recordings of the ranks do not cover the same time: their clocks differ or they are of different runs",
        "record all ranks at the same step, with PyTorch 2.4 or newer",
        ("ranks",),
    )
