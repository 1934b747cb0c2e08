"""The steady state: a recording's judged steps, repeated one behind the other for as long as it takes to settle.

A recording holds a few steps, begun with whatever lead the host happened to have over the device. After a change
another part may set the pace, and the lead is used up or grows over many steps. So the steps are replayed again and
again, each time starting from where threads and streams were left: what the time of a turn tends to is the step time.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from gpuwhy.arrays import by_value, combined
from gpuwhy.intervals import Rows, Times
from gpuwhy.steps import Window
from gpuwhy.timeline import Timeline
from gpuwhy.whatif.device import GAP_NS
from gpuwhy.whatif.graph import Edges, Graph, Spans, Why, along_threads
from gpuwhy.whatif.replay import NEVER, reached

TURNS = 12
"""Times that the steps are replayed; the second half is what counts."""
MOST_NODES = 200_000
"""Of longer steps fewer are replayed, at least one."""
NONE = np.iinfo(np.int64).min

Mark = tuple[int, int]
"""The node of the first operation of a step, and when the host had launched it."""


@dataclass(frozen=True, eq=False)
class Period:
    """The steps of one turn: `graph` has their nodes, edges and host time, of all ranks that wait for each other.

    A negative source of an edge is a node of the turn before, counted from the end. Edges `wraps` take a thread over
    the end of a turn, `tails` are what it does until then. A turn begins with the start of the operation at node
    `mark`, and has `steps` steps. Edges of node i are `first[i] … first[i + 1]`.
    """

    graph: Graph
    first: Rows
    wraps: Rows
    tails: Spans
    mark: int
    steps: int


def period(graph: Graph, timeline: Timeline, device: int, windows: dict[int, Window]) -> Period | None:
    """The turn of a device's window; None where it is not made of steps that are whole on the host too.

    `windows` are those of all devices. Ranks whose collectives wait for each other are in it together, if all have
    the same steps.
    """
    marks = _marks(graph, timeline, device, windows[device])
    if len(marks) < 2:
        return None
    count = _affordable(graph, [at for _, at in marks])
    low = (len(marks) - 1 - count) // 2
    mark = marks[low][0]
    bounds = _bounds(graph, timeline, device, windows, slice(low, low + count + 1))
    if bounds is None:
        return None
    start, end = bounds
    stream = _stream_number(timeline)
    inside = _inside(graph, stream, start, end)
    if not inside[mark]:
        return None
    rows = np.flatnonzero(inside)
    number = np.full(len(graph.nodes), -1, np.int64)
    number[rows] = np.arange(len(rows))
    edges = graph.edges.take(np.flatnonzero(inside[graph.edges.target]))
    source = number[edges.source]
    before = np.flatnonzero(source < 0)
    source[before] = _turn_before(graph, stream, edges.take(before), number)
    inner = replace(edges, source=source, target=number[edges.target]).take(source > NONE)
    edges = Edges.concatenate([inner, _around(graph, stream, rows)])
    edges = edges.take(np.argsort(edges.target, kind="stable"))
    nodes, host = graph.nodes.take(rows), graph.host.within(start, end)
    nodes = replace(nodes, since=np.maximum(nodes.since, np.append(start, NONE)[nodes.thread]))
    chain, spans = along_threads(nodes, edges, host)
    wraps = np.flatnonzero(edges.kind == Why.NEXT_TURN)
    last = nodes.take(edges.source[wraps] + len(nodes))
    return Period(
        graph=replace(
            graph,
            nodes=nodes,
            edges=edges,
            cut=np.zeros(len(edges), bool),
            host=host,
            chain=chain,
            spans=spans,
            node_of_op=number[graph.node_of_op],
        ),
        first=np.searchsorted(edges.target, np.arange(len(rows) + 1)),
        wraps=wraps,
        tails=host.spans(last.thread, last.at, np.maximum(last.at, end[last.thread])),
        mark=int(number[mark]),
        steps=count,
    )


def _marks(graph: Graph, timeline: Timeline, device: int, window: Window) -> list[Mark]:
    """The marks of each step of a device, and of the one after the last.

    The end of the last step of a recording is not known: a turn ends before it.
    """
    steps, found = window.steps, list[Mark]()
    if steps is None:
        return found
    part = timeline.ops_of(device)
    for time in steps.edge[: len(steps) + (not steps.open_ended)].tolist():
        row = min(int(np.searchsorted(timeline.ops.start[part], time)), part.stop - part.start - 1)
        node = int(graph.node_of_op[row + part.start])
        low, high = np.searchsorted(graph.edges.target, [node, node + 1])
        launch = np.flatnonzero(graph.edges.kind[low:high] == Why.LAUNCH)
        if not len(launch):
            return found
        found.append((node, int(graph.nodes.at[graph.edges.source[low + launch[0]]])))
    return found


def _affordable(graph: Graph, at: list[int]) -> int:
    """How many steps, so that a turn does not have too many nodes."""
    nodes = np.searchsorted(graph.nodes.at, at)
    each = max(float(nodes[-1] - nodes[0]) / (len(at) - 1), 1.0)
    return max(min(len(at) - 1, int(MOST_NODES / each)), 1)


def _bounds(
    graph: Graph, timeline: Timeline, device: int, windows: dict[int, Window], chosen: slice
) -> tuple[Times, Times] | None:
    """For each thread (and its loader) from when to when the host goes through the chosen steps; never, where not."""
    ranks = {timeline.devices[device].rank: device}
    if (graph.edges.kind == Why.COLLECTIVE).any():
        for other in sorted(windows):
            ranks.setdefault(timeline.devices[other].rank, other)
    found: dict[int, tuple[int, int]] = {}
    for rank, one in ranks.items():
        at = [time for _, time in _marks(graph, timeline, one, windows[one])][chosen]
        if len(at) != chosen.stop - chosen.start or at[0] >= at[-1]:
            return None
        found[rank] = (at[0], at[-1])
    of_thread = [found.get(thread.rank, (0, 0)) for thread in timeline.threads] * 2
    start, end = np.array(of_thread, np.int64).reshape(-1, 2).T
    return start, end


def _inside(graph: Graph, stream: Rows, start: Times, end: Times) -> NDArray[np.bool_]:
    """Nodes of threads within their bounds, and the operations that are launched then.

    Those whose launch was not recorded are there, too, if they come behind one that is on their stream.
    """
    nodes, edges = graph.nodes, graph.edges
    begin, finish = np.append(start, 0)[nodes.thread], np.append(end, 0)[nodes.thread]
    inside = (nodes.thread >= 0) & (nodes.at >= begin) & (nodes.at < finish)
    launch = np.flatnonzero(edges.kind == Why.LAUNCH)
    inside[edges.target[launch]] = inside[edges.source[launch]]
    launched = np.zeros(len(nodes), bool)
    launched[edges.target[launch]] = True
    is_op = np.flatnonzero(nodes.op >= 0)
    for _, rows in by_value(stream[nodes.op[is_op]]):
        line = is_op[rows]
        there = np.flatnonzero(inside[line])
        if len(there):
            behind = np.flatnonzero(launched[line[there[-1] + 1 :]])
            inside[line[there[0] : there[-1] + 1 + (behind[0] if len(behind) else 0)]] = True
    return inside


def _around(graph: Graph, stream: Rows, rows: Rows) -> Edges:
    """From the last node of each thread and stream to its first one in the next turn."""
    nodes = graph.nodes
    thread, op = nodes.thread[rows], nodes.op[rows]
    line = np.where(thread >= 0, thread, -1 - stream[np.maximum(op, 0)])
    ends = [(int(mine[-1]) - len(rows), int(mine[0]), one >= 0) for one, mine in by_value(line)]
    source, target, is_thread = (np.array(column) for column in zip(*ends, strict=True))
    kind = np.where(is_thread, Why.NEXT_TURN, Why.STREAM).astype(np.int8)
    return Edges(source, target, np.where(is_thread, 0, GAP_NS), kind)


def _stream_number(timeline: Timeline) -> NDArray[np.int64]:
    """Numbers for the streams of all devices, for each operation."""
    numbers: NDArray[np.int64] = combined([timeline.ops.device, timeline.ops.stream])[1]
    return numbers


def _turn_before(graph: Graph, stream: Rows, edges: Edges, number: Rows) -> Rows:
    """The node (negative) of the turn before that stands for an edge's source before the first turn, or `NONE`.

    It is as far from the end of its stream's operations in the turn as the source is from the first one. Threads and
    streams themselves go round by `_around`.
    """
    nodes, source = graph.nodes, edges.source
    found = np.full(len(source), NONE)
    size = int((number >= 0).sum())
    asked = np.flatnonzero((nodes.op[source] >= 0) & (edges.kind != Why.STREAM))
    is_op = np.flatnonzero(nodes.op >= 0)
    line_of = stream[nodes.op[is_op]]
    for one, which in by_value(stream[nodes.op[source[asked]]]):
        line = is_op[line_of == one]
        within = line[number[line] >= 0]
        if not len(within):
            continue
        rows = asked[which]
        back = np.searchsorted(line, within[0]) - np.searchsorted(line, source[rows])
        good = (back >= 1) & (back <= len(within))
        found[rows[good]] = number[within[len(within) - back[good]]] - size
    return found


def step_ns(graph: Graph, of: Period) -> float:
    """The step time that a period's graph, as it is or changed, settles at, in ns."""
    lag, own = graph.lag, graph.own
    lag[of.wraps] += graph.host.over(of.tails)
    never = np.full(len(own), NEVER)
    time, marks = never, []
    for turn in range(TURNS):
        time = reached(of.first, graph.edges.source, lag, own, never if turn else np.zeros(len(own)), time)
        marks.append(time[of.mark] - own[of.mark])
    half = TURNS // 2
    return max(float((marks[-1] - marks[-1 - half]) / half / of.steps), graph.pace_ns)
