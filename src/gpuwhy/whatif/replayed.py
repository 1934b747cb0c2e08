"""The replay of one device's window: whether it can be trusted, and the setting that changes are made in."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from gpuwhy.intervals import Intervals, Times, complement, overlap, union
from gpuwhy.ledger.partition import Basis, Ledger
from gpuwhy.reports.words import ms
from gpuwhy.roofline.view import View
from gpuwhy.steps import Steps, Window
from gpuwhy.whatif.distortion import LEAST_FIRM, MOST, MOST_FIRM, Distortion, calibrate, undistorted
from gpuwhy.whatif.gains import Bases, bases
from gpuwhy.whatif.graph import Graph, Why
from gpuwhy.whatif.loader import arrivals, deliveries
from gpuwhy.whatif.period import period, step_ns
from gpuwhy.whatif.replay import once
from gpuwhy.whatif.setting import Setting

MOST_ERROR = 0.02
"""A replay of the unchanged graph that misses the recorded time by more explains something else."""
MOST_UNEXPLAINED = 0.05
"""Part of the window in idle delays that no edge explains, above which no gain is told."""
SHORTER, LONGER = 0.8, 1.5
"""A step time below this part of the shortest that a step can have taken without the profiler, or above that of the
longest, is that of something else."""
NO_HOST = "the recording has no launches: what the host did is not known (record with ProfilerActivity.CPU)"
NO_STEPS = (
    "no steps that are whole on host and device: choose steps (--steps, not --window or --all), or call prof.step() in "
    "the loop and record at least six"
)

UNEQUAL = "the ranks wait for each other, but not all have the same number of whole steps: choose them with --steps"


@dataclass(frozen=True, eq=False)
class Replayed:
    """How a device's window replays.

    `error` is the replayed length of the window over the recorded one, less 1; `unexplained` the part of the window
    that is idle for a delay without an edge. `recorded_ns` is the mean step as recorded, `step_time_ns` that without
    the profiler, if it was given, `step_ns` the same or else an estimate, `device_ns` the step if no host, and no
    loader, took any time. `withheld` says why no gain can be told; the setting is None then.
    """

    error: float | None
    unexplained: float | None
    recorded_ns: float | None = None
    step_time_ns: float | None = None
    step_ns: float | None = None
    device_ns: float | None = None
    distortion: Distortion | None = None
    setting: Setting | None = None
    bases: Bases | None = None
    withheld: str | None = None


def replayed(
    of: Basis, ledger: Ledger, view: View, graph: Graph, windows: dict[int, Window], step_time_ns: float | None
) -> Replayed:
    """Replay a window as it was, and find its steady state without the profiler. `windows` are those of all devices."""
    if not (of.timeline.ops.launch >= 0).any():
        return Replayed(None, None, withheld=NO_HOST)
    error, unexplained = _error(of, ledger, graph), _unexplained(of, ledger, graph)
    if abs(error) > MOST_ERROR:
        why = f"the replay of the recorded window is off by {100 * error:+.1f} % (at most {100 * MOST_ERROR:.0f} %)"
        return Replayed(error, unexplained, withheld=why)
    if unexplained > MOST_UNEXPLAINED:
        why = (
            f"{100 * unexplained:.1f} % of the window are delays that nothing recorded explains "
            f"(at most {100 * MOST_UNEXPLAINED:.0f} %)"
        )
        return Replayed(error, unexplained, withheld=why)
    turn = period(graph, of.timeline, ledger.device, windows)
    if turn is None or ledger.window.steps is None:
        return Replayed(error, unexplained, withheld=_no_turn(graph, windows))
    setting = Setting(of, view, turn)
    setting = _paced(setting, step_time_ns)
    mismatch = _not_theirs(setting, step_time_ns) if step_time_ns is not None else None
    if mismatch is not None:
        return Replayed(error, unexplained, withheld=mismatch)
    distortion = calibrate(setting, step_time_ns)
    starts = bases(setting, distortion)
    graph = starts.expected.graph
    alone = step_ns(replace(graph, host=replace(graph.host, factor=graph.host.factor * 0), pace_ns=0.0), turn)
    return Replayed(
        error,
        unexplained,
        recorded_ns=float(_whole(ledger.window.steps).mean()),
        step_time_ns=step_time_ns,
        step_ns=step_time_ns or starts.expected.step_ns,
        device_ns=alone,
        distortion=distortion,
        setting=setting,
        bases=starts,
    )


def _not_theirs(setting: Setting, step_time_ns: float) -> str | None:
    """Why a step time cannot be that of the recorded steps."""
    ends = ((MOST, LEAST_FIRM), (1.0, MOST_FIRM))
    shortest, longest = (step_ns(undistorted(setting, *end), setting.period) for end in ends)
    if SHORTER * shortest <= step_time_ns <= LONGER * longest:
        return None
    return (
        f"the step time given, {ms(step_time_ns)} ms, is not that of the recorded steps: without the profiler they "
        f"take {ms(shortest)} to {ms(longest)} ms"
    )


def _no_turn(graph: Graph, windows: dict[int, Window]) -> str:
    counts = {len(window.steps) for window in windows.values() if window.steps is not None}
    return UNEQUAL if len(counts) > 1 and (graph.edges.kind == Why.COLLECTIVE).any() else NO_STEPS


def _whole(steps: Steps) -> Times:
    """The lengths of steps whose end was recorded, which are those that the replay repeats."""
    return steps.length[: len(steps) - steps.open_ended]


def _error(of: Basis, ledger: Ledger, graph: Graph) -> float:
    """From the first operation of the window to the first one after it, or to its last end."""
    ops, window = of.timeline.ops, ledger.window
    part = of.timeline.ops_of(ledger.device)
    node = graph.node_of_op[part]
    start, end = ops.start[part], ops.end[part]
    time = once(graph)[node]
    first, after = np.searchsorted(start, [window.start, window.end])
    if first == len(start):  # the rest of an operation that began before
        return 0.0
    if after < len(start) and window.steps is not None:
        recorded, again = start[after], time[after] - graph.duration[part][after]
    else:
        inside = np.flatnonzero(end <= window.end)
        last = int(inside[np.argmax(end[inside])]) if len(inside) else int(first)
        recorded, again = end[last], time[last]
    length = float(recorded - start[first])
    return float(again - (time[first] - graph.duration[part][first])) / length - 1 if length > 0 else 0.0


def _unexplained(of: Basis, ledger: Ledger, graph: Graph) -> float:
    """Idle time within delays that no edge explains, over the window."""
    part = of.timeline.ops_of(ledger.device)
    ops, window = of.timeline.ops.take(part), ledger.window
    late = np.flatnonzero((graph.unexplained[part] > 0) & (ops.start > window.start) & (ops.start <= window.end))
    late = late[np.argsort(ops.start[late] - graph.unexplained[part][late], kind="stable")]
    delays = union(ops.start[late] - graph.unexplained[part][late], ops.start[late])
    idle = complement(union(ops.start, ops.end), window.start, window.end)
    _, _, start, end = overlap(delays, idle) if len(delays) and len(idle) else (late, late, late, late)
    return float(Intervals(start, end).total) / (window.end - window.start)


def _paced(setting: Setting, step_time_ns: float | None) -> Setting:
    """With the pace of a loader that cannot be seen in the steps, because its queue was full when they began."""
    turn = setting.period
    found = arrivals(setting.of)
    recorded = step_ns(turn.graph, turn)
    pace = found.pace_ns if found is not None and found.pace_ns > recorded else 0.0
    if pace and step_time_ns is not None and step_time_ns > recorded:
        pace = step_time_ns
    if not pace or not len(deliveries(setting.of).at):
        return setting
    return replace(setting, period=replace(turn, graph=replace(turn.graph, pace_ns=pace)))
