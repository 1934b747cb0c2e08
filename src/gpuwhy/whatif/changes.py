"""Changes to a graph: what a mend does to host time, operations and edges. Each is a pure function; they compose."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from gpuwhy.whatif.graph import Graph, Why
from gpuwhy.whatif.setting import Ops, Slices

Change = Callable[[Graph], Graph]


def composed(changes: list[Change]) -> Change:
    """All changes, one after the other."""

    def change(graph: Graph) -> Graph:
        for one in changes:
            graph = one(graph)
        return graph

    return change


def as_it_is(graph: Graph) -> Graph:
    """No change."""
    return graph


def without_host_time(slices: Slices, left: float = 0.0) -> Change:
    """Host time that is no more, but for a part that is `left`."""
    return lambda graph: replace(graph, host=graph.host.scaled(slices, left))


def host_time(slices: Slices, becomes: Callable[[float], float]) -> Change:
    """Host time that takes, in all of a turn, what is made of what it takes now, in ns."""

    def change(graph: Graph) -> Graph:
        now = float(graph.host.now[slices].sum())
        return replace(graph, host=graph.host.scaled(slices, becomes(now) / now)) if now else graph

    return change


def in_one_graph(ops: Ops, gap_ns: int) -> Change:
    """Operations that follow each other on their stream as the nodes of one launched graph do."""

    def change(graph: Graph) -> Graph:
        edges = graph.edges
        op = graph.nodes.op[edges.target]
        closer = (edges.kind == Why.STREAM) & (op >= 0) & ops[np.maximum(op, 0)] & (edges.lag > gap_ns)
        return replace(graph, edges=replace(edges, lag=np.where(closer, gap_ns, edges.lag)))

    return change


def without_ops(ops: Ops) -> Change:
    """Operations that are no more, with the waits for them."""

    def change(graph: Graph) -> Graph:
        source = graph.nodes.op[graph.edges.source]
        waits = np.isin(graph.edges.kind, (Why.BLOCKING, Why.QUEUE_FULL))
        cut = graph.cut | ((source >= 0) & ops[np.maximum(source, 0)] & waits)
        return replace(graph, gone=graph.gone | ops, cut=cut)

    return change


def lasting(ops: Ops, times: NDArray[np.float64] | float) -> Change:
    """Operations that take so many times as long as they do, all alike or each its own."""
    return lambda graph: replace(graph, duration=np.where(ops, graph.duration * times, graph.duration))


def lasting_ns(ops: Ops, ns: NDArray[np.float64]) -> Change:
    """Operations that would take so many ns each, were nothing else changed: as many times as long as recorded."""
    return lambda graph: lasting(ops, ns / np.maximum(graph.recorded, 1.0))(graph)


def without_waits(nodes: NDArray[np.bool_]) -> Change:
    """Host nodes that wait for no operation any more."""

    def change(graph: Graph) -> Graph:
        waits = (graph.edges.kind == Why.BLOCKING) & nodes[graph.edges.target]
        return replace(graph, cut=graph.cut | waits)

    return change


def not_paced(graph: Graph) -> Graph:
    """Nothing outside the graph sets the pace."""
    return replace(graph, pace_ns=0.0)


def paced(ns: float) -> Change:
    """A step takes at least so long, whatever the graph says."""
    return lambda graph: replace(graph, pace_ns=max(graph.pace_ns, ns))
