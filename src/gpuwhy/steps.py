"""Steps of the program, on the device's clock, and the window that is judged.

The host runs ahead of the device, so that a window cut at the host's marks would hold work of earlier steps. A device
step therefore begins with the first operation that was launched in the host step (docs/ledger.md).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpuwhy.arrays import quantiles
from gpuwhy.intervals import Rows, Times
from gpuwhy.timeline import CallKind, DeviceOps, OpKind, Timeline

STEP_MARK = re.compile(r"ProfilerStep#?\s*(\d+)$")
OPTIMIZER_STEP = re.compile(r"Optimizer\.step#")

FEW_STEPS = 4
"""From this many recorded steps on the last one, whose end is not known, is left out."""
STARTUP_RATIO = 2.0
"""Leading steps longer than this many median steps are start-up."""
REPEATS = 4
"""An operation must come back this often before the sequence counts as steps."""
REPEAT_MATCH = 0.95
"""Share of operations that must equal the one a period later."""
REPEAT_COVERS = 0.5
"""Share of the recorded time that the repetition must cover: a short loop inside a program is no step."""


@dataclass(frozen=True)
class Selection:
    """What of the recording to judge: everything, some steps, or some time (ns from the recording's start)."""

    everything: bool = False
    steps: tuple[int, int] | None = None
    time: tuple[int, int] | None = None


@dataclass(frozen=True, eq=False)
class Steps:
    """Consecutive steps on one device: step i, numbered `number[i]`, is `[edge[i], edge[i + 1])`."""

    how: str
    number: NDArray[np.int64]
    edge: Times
    open_ended: bool
    """The last step has no successor: it ends with its last operation."""
    recorded: int
    """Steps that the recording holds, those without length counted."""

    def __len__(self) -> int:
        return len(self.number)

    @property
    def length(self) -> Times:
        """Each step's duration in ns."""
        return np.diff(self.edge)


@dataclass(frozen=True, eq=False)
class Window:
    """The judged time of one device, the steps in it, and what was left out before."""

    start: int
    end: int
    how: str
    steps: Steps | None
    startup: Steps | None = None
    left_out: int | None = None
    """The number of the last recorded step, if it was left out."""
    note: str | None = None
    chosen: bool = False
    """The user chose it."""


def window(timeline: Timeline, device: int, selection: Selection) -> Window | None:
    """The window of a device, or None where it recorded no operation (or none in the selection)."""
    part = timeline.ops_of(device)
    if part.start == part.stop:
        return None
    first = int(timeline.ops.start[part.start])
    last = int(timeline.ops.end[part].max())
    if first >= last:
        return None
    if selection.everything:
        return Window(first, last, "all", None, chosen=True)
    if selection.time is not None:
        start, end = max(first, selection.time[0]), min(last, selection.time[1])
        return Window(start, end, "time", None, chosen=True) if start < end else None
    steps = device_steps(timeline, device)
    if selection.steps is not None:
        return _chosen(steps, *selection.steps) if steps else None
    if steps is None:
        return Window(
            first,
            last,
            "all",
            None,
            note="no steps are marked or found: the whole recording is judged, start and end included",
        )
    return _steady(steps)


def _chosen(steps: Steps, low: int, high: int) -> Window | None:
    rows = np.flatnonzero((steps.number >= low) & (steps.number <= high))
    if not len(rows):
        return None
    kept = _part(steps, int(rows[0]), int(rows[-1]) + 1)
    return Window(int(kept.edge[0]), int(kept.edge[-1]), steps.how, kept, note=_open_end(kept), chosen=True)


def _steady(steps: Steps) -> Window:
    left_out, count = None, len(steps)
    if steps.open_ended and steps.recorded >= FEW_STEPS and count > 1:
        left_out, count = int(steps.number[-1]), count - 1
    length = steps.length[:count]
    slow = length > STARTUP_RATIO * quantiles(length, (0.5,))[0]
    first = int(np.argmin(slow)) if not slow.all() else 0
    kept = _part(steps, first, count)
    return Window(
        int(kept.edge[0]),
        int(kept.edge[-1]),
        steps.how,
        kept,
        startup=_part(steps, 0, first) if first else None,
        left_out=left_out,
        note=_open_end(kept),
    )


def _open_end(steps: Steps) -> str | None:
    """What to say of a last step whose end is not recorded."""
    if not steps.open_ended:
        return None
    return f"step {int(steps.number[-1])} is the last one recorded: it ends with its last operation"


def _part(steps: Steps, low: int, high: int) -> Steps:
    return Steps(
        steps.how,
        steps.number[low:high],
        steps.edge[low : high + 1],
        steps.open_ended and high == len(steps),
        steps.recorded,
    )


def device_steps(timeline: Timeline, device: int) -> Steps | None:
    """The recorded steps of one device, the last one included, or None where there are none."""
    rank = timeline.devices[device].rank
    for how, marks in (("ProfilerStep", _profiler_marks), ("Optimizer.step", _optimizer_marks)):
        steps = _steps_from_marks(timeline, device, how, *marks(timeline, rank))
        if steps is not None:
            return steps
    return _steps_from_repetition(timeline, device)


def _annotations(timeline: Timeline, rank: int, pattern: re.Pattern[str]) -> Rows:
    """Rows of the annotations of one rank whose name matches, by start."""
    wanted = timeline.names_like(pattern)
    of_rank = np.array([thread.rank == rank for thread in timeline.threads], bool)
    calls = timeline.calls
    rows: Rows = np.flatnonzero((calls.kind == CallKind.ANNOTATION) & wanted[calls.name])
    rows = rows[of_rank[calls.thread[rows]]]
    rows = rows[np.argsort(calls.start[rows], kind="stable")]
    return rows


def _profiler_marks(timeline: Timeline, rank: int) -> tuple[NDArray[np.int64], Times, Times]:
    rows = _annotations(timeline, rank, STEP_MARK)
    number = [_number(timeline.names[code]) for code in timeline.calls.name[rows].tolist()]
    return np.array(number, np.int64), timeline.calls.start[rows], timeline.calls.end[rows]


def _number(name: str) -> int:
    mark = STEP_MARK.match(name)
    return int(mark.group(1)[:18]) if mark else -1


def _optimizer_marks(timeline: Timeline, rank: int) -> tuple[NDArray[np.int64], Times, Times]:
    """Marks between the ends of the steps of one optimizer: the one that steps least often, if there are several."""
    rows = _annotations(timeline, rank, OPTIMIZER_STEP)
    if not len(rows):
        return np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int64)
    codes, count = np.unique(timeline.calls.name[rows], return_counts=True)
    rows = rows[timeline.calls.name[rows] == codes[np.argmin(count)]]
    end = np.sort(timeline.calls.end[rows])
    start = np.concatenate(([np.iinfo(np.int64).min], end[:-1]))
    return np.arange(1, len(end) + 1), start, end


def _steps_from_marks(
    timeline: Timeline, device: int, how: str, number: NDArray[np.int64], start: Times, end: Times
) -> Steps | None:
    if not len(number):
        return None
    ops = timeline.ops.take(timeline.ops_of(device))
    ops = ops.take(ops.stream == _main_stream(ops))
    launch = ops.launch
    if not (launch >= 0).any():
        return None
    at = timeline.calls.start[launch]
    mark = np.searchsorted(start, at, side="right") - 1
    mark[(launch < 0) | ((mark == len(number) - 1) & (at >= end[-1]))] = -1
    rows = np.flatnonzero(mark >= 0)
    used, first = np.unique(mark[rows], return_index=True)
    if not len(used):
        return None
    begin = np.minimum.accumulate(ops.start[rows[first]][::-1])[::-1]
    last = max(int(ops.end[mark == used[-1]].max()), int(begin[-1]))
    return _lasting(how, number[used], np.append(begin, last))


def _lasting(how: str, number: NDArray[np.int64], edge: Times) -> Steps | None:
    """The steps between edges that ascend, without those of no length; the last one's end is not known."""
    keep = np.flatnonzero(np.diff(edge) > 0)
    if not len(keep):
        return None
    ends_open = bool(keep[-1] == len(number) - 1)
    return Steps(how, number[keep], np.append(edge[keep], edge[keep[-1] + 1]), ends_open, len(number))


def _main_stream(ops: DeviceOps) -> int:
    """The stream with most kernels; of equals the one where they ran longer, then the one with the lower number.

    Only it tells steps apart: batches that are copied ahead on a stream of their own run at the host's pace, far
    ahead of the device's.
    """
    kernel = ops.kind == OpKind.KERNEL
    streams, place = np.unique(ops.stream, return_inverse=True)
    count = np.bincount(place[kernel], minlength=len(streams))
    length = np.zeros(len(streams), np.int64)
    np.add.at(length, place[kernel], (ops.end - ops.start)[kernel])
    return int(streams[np.lexsort((-np.arange(len(streams)), length, count))[-1]])


def _steps_from_repetition(timeline: Timeline, device: int) -> Steps | None:
    """Steps from an operation that comes back at a constant distance in a sequence that repeats.

    Of all such operations the rarest is taken, because what repeats more often is a layer, not a step. Steps go on
    to the end of the recording; after the last layer of a single pass, its head and its loss follow.
    """
    ops = timeline.ops.take(timeline.ops_of(device))
    rows = np.flatnonzero(ops.stream == _main_stream(ops))
    name = ops.name[rows]
    codes, times = np.unique(name, return_counts=True)
    for code in codes[np.argsort(times, kind="stable")][np.sort(times) >= REPEATS][:50].tolist():
        place = np.flatnonzero(name == code)
        period = int(quantiles(np.diff(place), (0.5,))[0])
        regular = np.diff(place) == period
        part = name[place[0] : place[-1] + period]
        if regular.mean() < REPEAT_MATCH or (part[:-period] == part[period:]).mean() < REPEAT_MATCH:
            continue
        last_one = name[place[-1] :]
        if len(last_one) > period or (last_one != name[place[-1] - period :][: len(last_one)]).any():
            continue
        edge = ops.start[rows[place]]
        last = int(ops.end[rows[place[-1] : place[-1] + period]].max())
        if last - edge[0] < REPEAT_COVERS * (ops.end.max() - ops.start.min()):
            continue
        return _lasting("repetition", np.arange(1, len(place) + 1), np.append(edge, last))
    return None
