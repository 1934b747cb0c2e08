"""What is wrong or missing in the profile itself, found before anything is concluded from it.

Each check has its threshold in `LIMITS`, its evidence, what it withholds and how to record a better profile. Levels:
`ok`, `note` (good to know), `warn` (figures are off by about this much), `fail` (the conclusions named in
`withholds` are not to be trusted).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpuwhy.arrays import unique
from gpuwhy.intervals import running_end
from gpuwhy.ledger.accounts import HOST_BOUND
from gpuwhy.ledger.classes import RUNTIME, classify
from gpuwhy.ledger.partition import Ledger
from gpuwhy.steps import FEW_STEPS
from gpuwhy.timeline import MISSING, CallKind, Timeline


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

CPU_ADVICE = "record with activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]"
STACK_ADVICE = "record with with_stack=True to see which Python code ran then"
WORKERS = re.compile(r"MultiProcessingDataLoaderIter|torch/utils/data/dataloader\.py\(\d+\): _(try_)?get_data$")
"""Calls of a data loader with worker processes."""
DISTORTION = (1.2, 1.9)
"""How much PyTorch's profiler slowed one and the same host-bound loop (measured on H200 hosts)."""


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


def checks(timeline: Timeline, ledgers: Sequence[Ledger]) -> list[Check]:
    """All checks, in the order in which a reader should meet them."""
    found = [
        _recording_complete(timeline),
        _times_plausible(timeline),
        _steps_found(ledgers),
        _launches_recorded(timeline, ledgers),
        *_operations_recorded(timeline, ledgers),
        _launch_before_operation(timeline, ledgers),
        _streams_in_order(timeline, ledgers),
        _correlations_unique(timeline),
        _calls_nest(timeline),
        _rank_clocks(timeline),
        _host_known(timeline, ledgers),
        _profiler_distortion(timeline, ledgers),
    ]
    return [check for check in found if check is not None]


def _level(name: str, share: float) -> str:
    limit = LIMITS[name]
    if limit.fail is not None and share > limit.fail:
        return "fail"
    return "warn" if limit.warn is not None and share > limit.warn else "ok"


def percent(share: float) -> str:
    """A share in percent; a small one keeps a digit, so that it does not read as none."""
    if 0 < share < 0.0005:
        return "less than 0.1 %"
    return f"{100 * share:.1f} %" if share < 0.9995 or share >= 1 else "99.9 %"


def _recording_complete(timeline: Timeline) -> Check:
    damaged = [(s.file, s.damage) for s in timeline.sources if s.damage]
    malformed = sum(s.malformed for s in timeline.sources)
    if damaged:
        detail = "; ".join(f"{file}: {damage}" for file, damage in damaged)
        return Check(
            "recording_complete",
            "warn",
            f"{detail}. What was read before that is explained.",
            "export the profile again and wait for the export to finish",
        )
    if malformed:
        return Check("recording_complete", "warn", f"{malformed:,} entries of the event list are not events")
    return Check("recording_complete", "ok", "every file could be read to its end")


def _times_plausible(timeline: Timeline) -> Check:
    bad, events = sum(s.implausible for s in timeline.sources), sum(s.events for s in timeline.sources)
    work = sum(s.implausible_operations for s in timeline.sources)
    level = _level("times_plausible", max(bad / max(events, 1), work / max(work + len(timeline.ops), 1)))
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


def _steps_found(ledgers: Sequence[Ledger]) -> Check | None:
    windows = [ledger.window for ledger in ledgers]
    if any(w.how == "time" or (w.how == "all" and not w.note) for w in windows):
        return None  # chosen so
    advice = "record at least six steps: schedule(wait=1, warmup=3, active=6) and prof.step() in the loop"
    if any(w.steps is None for w in windows):
        how = "the whole recording is judged, start and end included"
        return Check("steps_found", "warn", f"no steps are marked or found: {how}", advice)
    fewest = min(len(w.steps) for w in windows if w.steps is not None)
    notes = {w.note for w in windows if w.note}
    if fewest < FEW_STEPS or notes:
        told = "; ".join([f"only {fewest} complete step{'s' if fewest != 1 else ''} to judge", *sorted(notes)])
        return Check("steps_found", "warn" if fewest < FEW_STEPS - 1 else "note", told, advice)
    return Check("steps_found", "ok", f"{fewest} complete steps are judged")


def _in_window(timeline: Timeline, ledger: Ledger) -> NDArray[np.int64]:
    """Rows of the operations that touch the ledger's window."""
    part = timeline.ops_of(ledger.device)
    start, end = timeline.ops.start[part], timeline.ops.end[part]
    rows: NDArray[np.int64] = np.flatnonzero((start < ledger.window.end) & (end > ledger.window.start)) + part.start
    return rows


def _launches_recorded(timeline: Timeline, ledgers: Sequence[Ledger]) -> Check:
    rows = np.concatenate([_in_window(timeline, ledger) for ledger in ledgers])
    without = int((timeline.ops.launch[rows] < 0).sum())
    share = without / max(len(rows), 1)
    level = _level("launches_recorded", share)
    if not without:
        return Check("launches_recorded", "ok", "every operation in the window has its launch")
    return Check(
        "launches_recorded",
        level,
        f"{without:,} of {len(rows):,} operations in the window have no recorded launch ({percent(share)}): "
        "what the host did before them is not known (idle/untraced)",
        CPU_ADVICE if not len(timeline.calls) or share > 0.9 else "record with a newer PyTorch, or more warmup steps",
        ("idle causes",) if level == "fail" else (),
    )


def _operations_recorded(timeline: Timeline, ledgers: Sequence[Ledger]) -> list[Check]:
    """Launch calls that no recorded operation belongs to, between the first and the last launch that has one.

    Calls that enqueue a host function, launches that a graph was captured from, and launches around or within one
    that has an operation (a driver call within a runtime call) are not lost.
    """
    calls = timeline.calls
    linked = _linked(timeline)
    runtime = np.flatnonzero(calls.kind == CallKind.RUNTIME)
    is_launch = classify(calls.name[runtime], timeline.names, RUNTIME, lambda c: int(c == "launch")) == 1
    kernel = runtime[is_launch & _named(timeline, runtime, lambda n: "Launch" in n and "HostFunc" not in n)]
    kernel = kernel[_in_launch_spans(timeline, ledgers, kernel)]
    lost = ~linked[kernel] & ~_captured(timeline, kernel) & ~_doubled(timeline, kernel, linked)
    graph = _named(timeline, kernel, lambda n: "GraphLaunch" in n)
    return [
        _lost(
            "operations_recorded",
            "kernel launches",
            int((linked[kernel] & ~graph).sum()),
            int((lost & ~graph).sum()),
            "the profiler dropped records: record fewer steps, or without profile_memory and with_stack",
        ),
        _lost(
            "graphs_recorded",
            "graph launches",
            int((linked[kernel] & graph).sum()),
            int((lost & graph).sum()),
            "start the profiler before the graph is captured, or record with a newer PyTorch and driver",
        ),
    ]


def _linked(timeline: Timeline) -> NDArray[np.bool_]:
    """Whether each call launched a recorded operation, or at least has an id that an operation of its rank carries."""
    calls, ops = timeline.calls, timeline.ops
    linked = np.zeros(len(calls), bool)
    linked[ops.launch[ops.launch >= 0]] = True
    if any(source.duplicate_correlations for source in timeline.sources):
        thread_rank = np.array([thread.rank for thread in timeline.threads], np.int64)
        device_rank = np.array([device.rank for device in timeline.devices], np.int64)
        rank = thread_rank[calls.thread]
        for one in np.unique(device_rank).tolist():
            ids = ops.correlation[device_rank[ops.device] == one]
            linked |= (rank == one) & np.isin(calls.correlation, ids[ids != MISSING])
    return linked


def _captured(timeline: Timeline, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether the calls lie between the begin and the end of a capture in their process: they ran nothing."""
    found = np.zeros(len(rows), bool)
    calls = timeline.calls
    marks = np.flatnonzero(calls.kind == CallKind.RUNTIME)
    marks = marks[_named(timeline, marks, lambda n: "BeginCapture" in n or "EndCapture" in n)]
    if not len(marks):
        return found
    processes = {(t.rank, t.process) for t in timeline.threads}
    number = {process: i for i, process in enumerate(sorted(processes))}
    process = np.array([number[t.rank, t.process] for t in timeline.threads])[calls.thread]
    for one in unique(process[marks]).tolist():
        mine = marks[process[marks] == one]
        mine = mine[np.argsort(calls.start[mine], kind="stable")]
        begins = _named(timeline, mine, lambda n: "BeginCapture" in n)
        depth = np.concatenate(([0], np.cumsum(np.where(begins, 1, -1))))
        depth -= min(0, int(depth.min()))  # a capture that was under way when the recording began
        at = np.searchsorted(calls.start[mine], calls.start[rows], side="right")
        found |= (process[rows] == one) & (depth[at] > 0)
    return found


def _doubled(timeline: Timeline, rows: NDArray[np.int64], linked: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Whether the calls lie directly around or within a call that has an operation."""
    nesting = timeline.nesting
    around = np.flatnonzero(nesting.parent >= 0)
    inner, outer = nesting.call[around], nesting.call[nesting.parent[around]]
    doubled = np.zeros(len(timeline.calls), bool)
    doubled[outer[linked[inner]]] = True
    doubled[inner[linked[outer]]] = True
    return doubled[rows]


def _lost(check: str, what: str, recorded: int, lost: int, advice: str) -> Check:
    count = recorded + lost
    share = lost / max(count, 1)
    level = _level(check, share)
    if not lost:
        return Check(
            check,
            "ok",
            f"all {count:,} {what} have their operations" if count else f"no {what} in the window",
        )
    return Check(
        check,
        level,
        f"{lost:,} of {count:,} {what} in the window have no operation in the file ({percent(share)}): "
        "the device may have worked where the ledger says idle",
        advice,
        ("ledger",) if level == "fail" else (),
    )


def _named(timeline: Timeline, rows: NDArray[np.int64], test: Callable[[str], bool]) -> NDArray[np.bool_]:
    table = np.array([test(name) for name in timeline.names], bool)
    return table[timeline.calls.name[rows]]


def _in_launch_spans(timeline: Timeline, ledgers: Sequence[Ledger], calls: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether the calls start between the first and the last launch of operations in a window of their rank."""
    found = np.zeros(len(calls), bool)
    ranks = np.array([thread.rank for thread in timeline.threads], np.int64)
    start = timeline.calls.start[calls]
    for ledger in ledgers:
        launch = timeline.ops.launch[_in_window(timeline, ledger)]
        span = timeline.calls.start[launch[launch >= 0]]
        if len(span):
            mine = ranks[timeline.calls.thread[calls]] == timeline.devices[ledger.device].rank
            found |= mine & (start >= span.min()) & (start <= span.max())
    return found


def _rounding(timeline: Timeline, ledger: Ledger) -> int:
    """By how much rounding may have moved two times of the ledger's file against each other, in ns."""
    rank = timeline.devices[ledger.device].rank
    unit = max(source.resolution_ns for source in timeline.sources if source.rank == rank)
    return unit if unit > 1 else 0


def _launch_before_operation(timeline: Timeline, ledgers: Sequence[Ledger]) -> Check:
    """What the host did in a gap is known only as well as its clock agrees with the device's."""
    count = linked = stake = skew = 0
    for ledger in ledgers:
        ops = timeline.ops.take(_in_window(timeline, ledger))
        launch = ops.launch[ops.launch >= 0]
        early = np.sort(timeline.calls.start[launch] - ops.start[ops.launch >= 0])[::-1]
        early = np.where(early > _rounding(timeline, ledger), early, 0)
        count, linked = count + int((early > 0).sum()), linked + len(early)
        if len(early):
            skew = max(skew, int(early[0]))
            off = int(early[int((LIMITS["clock_outliers"].warn or 0) * len(early))])
            gap = ops.start[1:] - running_end(ops.end)[1:]
            stake += int(np.clip(gap, 0, off).sum())
    if not count:
        return Check("launch_before_operation", "ok", "no operation starts before its launch")
    share = stake / max(sum(ledger.window_ns for ledger in ledgers), 1)
    level = _level("launch_before_operation", share)
    return Check(
        "launch_before_operation",
        "note" if level == "ok" else level,
        f"{count:,} of {linked:,} operations start before the call that launched them (by up to "
        f"{skew / 1000:,.1f} µs): the clocks of host and device do not agree, so that causes of idle time may be "
        f"off by {percent(share)} of the window",
        "a newer driver and PyTorch align the clocks better",
        ("idle causes",) if level == "fail" else (),
    )


def _streams_in_order(timeline: Timeline, ledgers: Sequence[Ledger]) -> Check:
    overlapping, count, busy = 0, 0, 0
    for ledger in ledgers:
        ops = timeline.ops.take(_in_window(timeline, ledger))
        busy += ledger.busy_ns
        rounding = _rounding(timeline, ledger)
        for stream in unique(ops.stream):
            start, end = ops.start[ops.stream == stream], ops.end[ops.stream == stream]
            before = running_end(end)
            lap = (end > start) & (before > start)
            lap[lap] &= before[lap] - start[lap] > rounding
            overlapping += int((np.minimum(before, end) - start)[lap].sum())
            count += int(lap.sum())
    share = overlapping / max(busy, 1)
    if not count:
        return Check("streams_in_order", "ok", "operations of one stream follow each other")
    return Check(
        "streams_in_order",
        "note" if _level("streams_in_order", share) == "ok" else "warn",
        f"{count:,} operations overlap an earlier one on their own stream ({percent(share)} of busy time): "
        "each instant is counted once",
    )


def _correlations_unique(timeline: Timeline) -> Check:
    shared = sum(s.duplicate_correlations for s in timeline.sources)
    level = _level("correlations_unique", shared / max(len(timeline.ops), 1))
    if not shared:
        return Check("correlations_unique", "ok", "no two launches share an id")
    return Check(
        "correlations_unique",
        level,
        f"{shared:,} ids of operations belong to several calls: the last call before the operation is taken",
        "files merged by hand mix up their ids: give each file by itself",
        ("idle causes",) if level == "fail" else (),
    )


def _calls_nest(timeline: Timeline) -> Check | None:
    clipped = timeline.nesting.clipped
    if not clipped:
        return None
    level = _level("calls_nest", clipped / max(len(timeline.calls), 1))
    return Check(
        "calls_nest",
        "note" if level == "ok" else level,
        f"{clipped:,} host calls overlap without nesting and were cut",
    )


def _rank_clocks(timeline: Timeline) -> Check | None:
    """Whether the recordings of several ranks cover the same time at all."""
    if len(timeline.sources) < 2:
        return None
    start, end = max(s.start_ns for s in timeline.sources), min(s.end_ns for s in timeline.sources)
    shortest = min(s.end_ns - s.start_ns for s in timeline.sources)
    if shortest > 0 and _level("rank_clocks", 1 - (end - start) / shortest) == "ok":
        return Check("rank_clocks", "ok", "the recordings of all ranks overlap")
    return Check(
        "rank_clocks",
        "fail",
        "the recordings of the ranks do not cover the same time: their clocks differ or they are of different runs",
        "record all ranks at the same step, with PyTorch 2.4 or newer",
        ("ranks",),
    )


def _host_known(timeline: Timeline, ledgers: Sequence[Ledger]) -> Check:
    unknown, window = sum(x.unknown_ns for x in ledgers), sum(x.window_ns for x in ledgers)
    share = unknown / max(window, 1)
    level = _level("host_known", share)
    has_operators = bool((timeline.calls.kind == CallKind.OPERATOR).any())
    has_frames = bool((timeline.calls.kind == CallKind.PYTHON).any())
    advice = None if level == "ok" else (STACK_ADVICE if has_operators and not has_frames else None)
    if level != "ok" and not has_operators:
        advice = CPU_ADVICE
    return Check(
        "host_known",
        level,
        f"{percent(share)} of the window is idle time that the recording cannot explain "
        "(untraced, or outside operators without Python frames)",
        advice,
    )


def _profiler_distortion(timeline: Timeline, ledgers: Sequence[Ledger]) -> Check | None:
    """Recording slows the host, not the device and not the loader's workers: say so where it matters."""
    has_operators = bool((timeline.calls.kind == CallKind.OPERATOR).any())
    host = sum(ledger.of(*HOST_BOUND) + ledger.of("idle/host_compute") for ledger in ledgers)
    share = host / max(sum(ledger.window_ns for ledger in ledgers), 1)
    if not has_operators or _level("profiler_distortion", share) == "ok":
        return None
    loads = any(WORKERS.search(name) for name in timeline.names)
    hides = (
        " It does not slow the loader's workers: part of the wait for the loader hides behind the slowed host."
        if loads
        else ""
    )
    return Check(
        "profiler_distortion",
        "note",
        f"the profiler slows the host (by {DISTORTION[0]} to {DISTORTION[1]} times where we measured it), not the "
        f"device: the host-bound share is overstated.{hides}",
        "compare with the step time of an unprofiled run",
        ("exact shares of host-bound time",),
    )


def is_withheld(found: Sequence[Check], what: str) -> bool:
    """Whether some check withholds a conclusion."""
    return any(what in check.withholds for check in found)
