"""Checks of launches against operations: none lost on either side, none after what it launched."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from gpuwhy.arrays import unique
from gpuwhy.intervals import running_end
from gpuwhy.ledger.classes import RUNTIME, classify
from gpuwhy.ledger.partition import Ledger
from gpuwhy.timeline import MISSING, CallKind, Timeline
from gpuwhy.trust.limits import CPU_ADVICE, LIMITS, Check, level_of, percent


def launches_recorded(timeline: Timeline, ledgers: Sequence[Ledger]) -> Check:
    """Whether the operations in the window have their launches."""
    rows = np.concatenate([in_window(timeline, ledger) for ledger in ledgers])
    without = int((timeline.ops.launch[rows] < 0).sum())
    share = without / max(len(rows), 1)
    level = level_of("launches_recorded", share)
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


def operations_recorded(timeline: Timeline, ledgers: Sequence[Ledger]) -> list[Check]:
    """Launch calls that no recorded operation belongs to, between the first and the last launch that has one.

    Calls that enqueue a host function, launches that a graph was captured from, and launches around or within one
    that has an operation (a driver call within a runtime call) are not lost.
    """
    calls = timeline.calls
    linked = _linked(timeline)
    runtime = np.flatnonzero(calls.kind == CallKind.RUNTIME)
    is_launch = classify(calls.name[runtime], timeline.names, RUNTIME, lambda c: int(c == "launch")) == 1
    kernel = runtime[is_launch & named(timeline, runtime, lambda n: "Launch" in n and "HostFunc" not in n)]
    kernel = kernel[_in_launch_spans(timeline, ledgers, kernel)]
    lost = ~linked[kernel] & ~_captured(timeline, kernel) & ~_doubled(timeline, kernel, linked)
    graph = named(timeline, kernel, lambda n: "GraphLaunch" in n)
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
    marks = marks[named(timeline, marks, lambda n: "BeginCapture" in n or "EndCapture" in n)]
    if not len(marks):
        return found
    processes = {(t.rank, t.process) for t in timeline.threads}
    number = {process: i for i, process in enumerate(sorted(processes))}
    process = np.array([number[t.rank, t.process] for t in timeline.threads])[calls.thread]
    for one in unique(process[marks]).tolist():
        mine = marks[process[marks] == one]
        mine = mine[np.argsort(calls.start[mine], kind="stable")]
        begins = named(timeline, mine, lambda n: "BeginCapture" in n)
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
    """The outcome for launches without operations."""
    count = recorded + lost
    share = lost / max(count, 1)
    level = level_of(check, share)
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


def launch_before_operation(timeline: Timeline, ledgers: Sequence[Ledger]) -> Check:
    """What the host did in a gap is known only as well as its clock agrees with the device's."""
    count = linked = stake = skew = 0
    for ledger in ledgers:
        ops = timeline.ops.take(in_window(timeline, ledger))
        launch = ops.launch[ops.launch >= 0]
        early = np.sort(timeline.calls.start[launch] - ops.start[ops.launch >= 0])[::-1]
        early = np.where(early > rounding(timeline, ledger), early, 0)
        count, linked = count + int((early > 0).sum()), linked + len(early)
        if len(early):
            skew = max(skew, int(early[0]))
            off = int(early[int((LIMITS["clock_outliers"].warn or 0) * len(early))])
            gap = ops.start[1:] - running_end(ops.end)[1:]
            stake += int(np.clip(gap, 0, off).sum())
    if not count:
        return Check("launch_before_operation", "ok", "no operation starts before its launch")
    share = stake / max(sum(ledger.window_ns for ledger in ledgers), 1)
    level = level_of("launch_before_operation", share)
    return Check(
        "launch_before_operation",
        "note" if level == "ok" else level,
        f"{count:,} of {linked:,} operations start before the call that launched them (by up to "
        f"{skew / 1000:,.1f} µs): the clocks of host and device do not agree, so that causes of idle time may be "
        f"off by {percent(share)} of the window",
        "a newer driver and PyTorch align the clocks better",
        ("idle causes",) if level == "fail" else (),
    )


def in_window(timeline: Timeline, ledger: Ledger) -> NDArray[np.int64]:
    """Rows of the operations that touch the ledger's window."""
    part = timeline.ops_of(ledger.device)
    start, end = timeline.ops.start[part], timeline.ops.end[part]
    rows: NDArray[np.int64] = np.flatnonzero((start < ledger.window.end) & (end > ledger.window.start)) + part.start
    return rows


def named(timeline: Timeline, rows: NDArray[np.int64], test: Callable[[str], bool]) -> NDArray[np.bool_]:
    """For each call whether its name passes a test, asked once a name."""
    table = np.array([test(name) for name in timeline.names], bool)
    return table[timeline.calls.name[rows]]


def _in_launch_spans(timeline: Timeline, ledgers: Sequence[Ledger], calls: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether the calls start between the first and the last launch of operations in a window of their rank."""
    found = np.zeros(len(calls), bool)
    ranks = np.array([thread.rank for thread in timeline.threads], np.int64)
    start = timeline.calls.start[calls]
    for ledger in ledgers:
        launch = timeline.ops.launch[in_window(timeline, ledger)]
        span = timeline.calls.start[launch[launch >= 0]]
        if len(span):
            mine = ranks[timeline.calls.thread[calls]] == timeline.devices[ledger.device].rank
            found |= mine & (start >= span.min()) & (start <= span.max())
    return found


def rounding(timeline: Timeline, ledger: Ledger) -> int:
    """By how much rounding may have moved two times of the ledger's file against each other, in ns."""
    rank = timeline.devices[ledger.device].rank
    unit = max(source.resolution_ns for source in timeline.sources if source.rank == rank)
    return unit if unit > 1 else 0
