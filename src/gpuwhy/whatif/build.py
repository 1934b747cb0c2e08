"""From a timeline to its dependency graph: points on host threads and edges, then rows in the order of time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from gpuwhy.arrays import by_value
from gpuwhy.intervals import Intervals, Times
from gpuwhy.ledger.partition import Basis
from gpuwhy.timeline import DeviceOps, Table
from gpuwhy.whatif.blocking import Blocked, blocking
from gpuwhy.whatif.collectives import Collectives, collectives, durations, waiting_edges
from gpuwhy.whatif.device import device_edges
from gpuwhy.whatif.graph import Edges, Graph, HostTime, Nodes, Why, along_threads
from gpuwhy.whatif.handover import Handovers, handovers
from gpuwhy.whatif.hosttime import host_time, joined, outside
from gpuwhy.whatif.launches import launches
from gpuwhy.whatif.loader import Deliveries, deliveries

FIRST, THEN, LAST, AFTER = 0, 1, 2, 3
"""What comes first at one recorded time: launches, then ends of operations, then what waited for those, and last what a
loader goes on from."""


@dataclass(frozen=True, eq=False)
class Points(Table):
    """Host nodes before they have rows; `turn` orders those of one time."""

    thread: NDArray[np.int32]
    at: Times
    turn: NDArray[np.int8]

    @staticmethod
    def of(thread: NDArray[np.int32], at: Times, turn: int) -> Points:
        """Points with one turn."""
        return Points(thread, at, np.full(len(at), turn, np.int8))


def build(of: Basis) -> Graph:
    """The graph of a whole recording."""
    timeline = of.timeline
    found = launches(timeline)
    blocked, handed, batches = blocking(timeline, found), handovers(of), deliveries(of)
    worker = batches.thread + np.int32(len(timeline.threads))
    parts = [
        Points.of(found.thread, found.at, FIRST),
        Points(blocked.thread, blocked.at, np.where(blocked.kind == Why.QUEUE_FULL, FIRST, LAST).astype(np.int8)),
        Points.of(handed.main, handed.start, FIRST),
        Points.of(handed.other, handed.start, THEN),
        Points.of(handed.other, handed.end, FIRST),
        Points.of(handed.main, handed.end, THEN),
        Points(worker, batches.at, np.where(batches.timely, AFTER, FIRST).astype(np.int8)),
        Points.of(batches.thread, batches.at, LAST),
    ]
    points = Points.concatenate(parts)
    first = np.cumsum([len(timeline.ops), *map(len, parts)])
    launch, back, given, taken, over, resumed, made, got = (np.arange(a, b) for a, b in pairwise(first.tolist()))
    device = device_edges(timeline, found, launch)
    common = collectives(timeline)
    edges = [
        device.edges,
        Edges(blocked.awaited, back, blocked.lag, blocked.kind).take(blocked.awaited >= 0),
        Edges.of(given, taken, None, Why.HANDED_OVER),
        Edges.of(over, resumed, None, Why.HANDED_OVER),
        Edges.of(made[~batches.timely], got[~batches.timely], None, Why.LOADER),
        Edges.of(got[batches.timely], made[batches.timely], None, Why.LOADER),
        *([waiting_edges(device.edges, common)] if common is not None else []),
    ]
    end = int(max(timeline.calls.end.max(initial=0), timeline.ops.end.max(initial=0)))
    host = HostTime.concatenate([_host(of, points, blocked, handed, batches, end), _workers(worker, batches, end)])
    graph = _ordered(timeline.ops, points, Edges.concatenate(edges), host)
    duration = _durations(timeline.ops, common)
    return replace(graph, unexplained=device.unexplained, duration=duration, recorded=duration)


def _durations(ops: DeviceOps, common: Collectives | None) -> NDArray[np.float64]:
    duration = (ops.end - ops.start).astype(np.float64)
    return duration if common is None else durations(duration, common)


def _host(of: Basis, points: Points, blocked: Blocked, handed: Handovers, batches: Deliveries, end: int) -> HostTime:
    """The time of all threads that have a node, from the first event to the last one's `end`."""
    calls, ops, count = of.timeline.calls, of.timeline.ops, len(of.timeline.threads)
    start = int(min(calls.start.min(initial=0), ops.start.min(initial=0), points.at.min(initial=0)))
    threads = np.flatnonzero(np.bincount(points.thread[points.thread < count], minlength=count)).tolist()
    waits = {one: _waits(one, blocked, handed, batches, start, end) for one in threads}
    return host_time(of, waits, start, end)


def _waits(thread: int, blocked: Blocked, handed: Handovers, batches: Deliveries, start: int, end: int) -> Intervals:
    """When a thread waits for what an edge stands for."""
    in_calls, gives, takes = blocked.thread == thread, handed.main == thread, handed.other == thread
    loads = (batches.thread == thread) & batches.waited
    parts = [
        (blocked.since[in_calls], blocked.at[in_calls]),
        (handed.start[gives], handed.end[gives]),
        (batches.start[loads], batches.at[loads]),
    ]
    if takes.any():  # it works only for another thread, and waits for it in between
        parts.append(outside(joined((handed.start[takes], handed.end[takes])), start, end))
    return joined(*parts)


def _workers(worker: NDArray[np.int32], batches: Deliveries, end: int) -> HostTime:
    """The time in which batches were made. Where the loop does not wait, they may have been ready long before."""
    parts = [HostTime.empty()]
    for one, rows in by_value(worker):
        at = np.append(batches.at[rows], max(end, int(batches.at[rows[-1]])))
        before = np.append(min(0, int(at[0])), at[:-1])
        paced = batches.paced[rows[np.minimum(np.arange(len(at)), len(rows) - 1)]]  # after the last one it goes on so
        nothing = np.full(len(at), -1, np.int32)
        parts.append(HostTime(np.full(len(at), one, np.int32), before, at, nothing, paced.astype(np.float64)))
    return HostTime.concatenate(parts)


def _ordered(ops: DeviceOps, points: Points, edges: Edges, host: HostTime) -> Graph:
    """Rows in the order of recorded time; each thread's nodes in a chain; edges by target."""
    at = np.concatenate((ops.end, points.at))
    turn = np.concatenate((np.full(len(ops), THEN, np.int8), points.turn))
    order = np.lexsort((turn, at))
    row = np.empty(len(order), np.int64)
    row[order] = np.arange(len(order))
    at = at[order]
    thread = np.concatenate((np.full(len(ops), -1, np.int32), points.thread))[order]
    on_host = np.flatnonzero(thread >= 0)
    chain = on_host[np.argsort(thread[on_host], kind="stable")]
    linked = thread[chain[1:]] == thread[chain[:-1]]
    source, target = chain[:-1][linked], chain[1:][linked]
    since = at.copy()
    since[target] = at[source]
    edges = Edges.concatenate(
        [
            replace(edges, source=row[edges.source], target=row[edges.target]),
            Edges.of(source, target, None, Why.THREAD),
        ]
    )
    edges = edges.take(edges.source < edges.target)  # clocks that differ can have turned some around
    edges = edges.take(np.argsort(edges.target, kind="stable"))
    nodes = Nodes(at, since, thread, np.where(order < len(ops), order, -1))
    chain, spans = along_threads(nodes, edges, host)
    return Graph(
        nodes=nodes,
        edges=edges,
        host=host,
        chain=chain,
        spans=spans,
        duration=np.zeros(len(ops)),
        recorded=np.zeros(len(ops)),
        gone=np.zeros(len(ops), bool),
        cut=np.zeros(len(edges), bool),
        unexplained=np.zeros(len(ops), np.int64),
        node_of_op=row[: len(ops)],
    )
