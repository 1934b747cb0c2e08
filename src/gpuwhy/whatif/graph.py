"""The dependency graph of a recording: what had to be over before what could begin.

Nodes are instants: a *host node* is a moment that a thread comes to (a launch, the return of a blocking call, a
handing over to another thread, a batch from the loader), an *operation node* is the end of a device operation. Rows
are in the order of recorded time and every edge leads from an earlier row to a later one, so that one pass replays
everything: a node is reached its `own` time after the last of its edges' sources plus their lags.

What a thread does between two of its nodes is not stored with them but in `HostTime`: slices of the recorded time of
each thread, each with a factor (1: as recorded, 0: gone, or a wait that an edge explains). A change scales slices, and
the lags along the thread follow. Times are ns.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from gpuwhy.arrays import by_value
from gpuwhy.intervals import Rows, Times
from gpuwhy.timeline import Table


class Why(IntEnum):
    """Why an edge is there."""

    THREAD = 0
    """The order of one thread."""
    LAUNCH = 1
    STREAM = 2
    """The order of one stream."""
    OTHER_STREAM = 3
    """An event, or a device that another stream's operation fills."""
    BLOCKING = 4
    """A call that returns when an operation is over."""
    HANDED_OVER = 5
    """Another thread works for this one."""
    QUEUE_FULL = 6
    """A launch that waits for room in the launch queue."""
    LOADER = 7
    """A batch that a loader's workers made."""
    COLLECTIVE = 8
    """Another rank's part of a collective."""
    NEXT_TURN = 9
    """A thread goes on from the end of the turn before."""


@dataclass(frozen=True, eq=False)
class HostTime(Table):
    """Slices of recorded time, by (thread, start), without holes from the first to the last slice of each thread.

    `piece` is the innermost piece of the nesting that is open in the slice, or -1. Threads from the number of the
    timeline's threads on are loaders: what their workers do for that thread.
    """

    thread: NDArray[np.int32]
    start: Times
    end: Times
    piece: NDArray[np.int32]
    factor: NDArray[np.float64]

    @staticmethod
    def empty() -> HostTime:
        """No slices."""
        none = np.empty(0, np.int64)
        return HostTime(none.astype(np.int32), none, none, none.astype(np.int32), np.empty(0))

    def within(self, start: Times, end: Times) -> HostTime:
        """The slices from one time to another, both by thread; those at the ends are cut."""
        begin, finish = start[self.thread], end[self.thread]
        kept = (self.end > begin) & (self.start < finish)
        some, begin, finish = self.take(kept), begin[kept], finish[kept]
        return replace(some, start=np.maximum(some.start, begin), end=np.minimum(some.end, finish))

    def scaled(self, chosen: NDArray[np.bool_], by: float) -> HostTime:
        """The chosen slices take so many times as long."""
        return replace(self, factor=np.where(chosen, self.factor * by, self.factor))

    def spans(self, thread: NDArray[np.int32], start: Times, end: Times) -> Spans:
        """Stretches of threads' time, as places in the slices: those stay where they are, whatever a change does."""
        return Spans(*self._placed(thread, start), *self._placed(thread, end))

    def _placed(self, thread: NDArray[np.int32], time: Times) -> tuple[Rows, Times]:
        """For each time the slice of its thread that it lies in, and how far from that one's start."""
        place = np.zeros(len(time), np.int64)
        for one, mine in by_value(thread):
            low, high = np.searchsorted(self.thread, [one, one + 1])
            found = np.searchsorted(self.start[low:high], time[mine], side="right") - 1 + low
            place[mine] = np.maximum(found, low)
        return place, np.clip(time, self.start[place], self.end[place]) - self.start[place]

    @cached_property
    def now(self) -> NDArray[np.float64]:
        """What each slice takes now, in ns."""
        return np.asarray((self.end - self.start) * self.factor)

    @cached_property
    def _before(self) -> NDArray[np.float64]:
        """What all slices before each one take now, and in the end all of them."""
        return np.concatenate(([0.0], np.cumsum(self.now)))

    def over(self, spans: Spans) -> NDArray[np.float64]:
        """What the slices take now over some stretches."""
        total = self._before
        low = total[spans.low] + spans.low_ns * self.factor[spans.low]
        return np.asarray(total[spans.high] + spans.high_ns * self.factor[spans.high] - low)


@dataclass(frozen=True, eq=False)
class Spans(Table):
    """Stretches of host time: from `low_ns` into slice `low` to `high_ns` into slice `high`."""

    low: Rows
    low_ns: Times
    high: Rows
    high_ns: Times


@dataclass(frozen=True, eq=False)
class Nodes(Table):
    """`at` is the recorded time. A host node has a thread, whose node before was at `since`; an operation node has an
    `op`, a row of the timeline's operations. The other is -1.
    """

    at: Times
    since: Times
    thread: NDArray[np.int32]
    op: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Edges(Table):
    """`target` is reached `lag` after `source` at the earliest; by target. `kind` says why (`Why`)."""

    source: Rows
    target: Rows
    lag: NDArray[np.int64]
    kind: NDArray[np.int8]

    @staticmethod
    def of(source: Rows, target: Rows, lag: NDArray[np.int64] | None, kind: Why) -> Edges:
        """Edges of one kind; without lags, they cost nothing."""
        lags = np.zeros(len(source), np.int64) if lag is None else lag
        return Edges(source, target, lags, np.full(len(source), kind, np.int8))


def along_threads(nodes: Nodes, edges: Edges, host: HostTime) -> tuple[Rows, Spans]:
    """The edges along threads, and what each of them spans: from the thread's node before to its target."""
    chain = np.flatnonzero((edges.kind == Why.THREAD) | (edges.kind == Why.NEXT_TURN))
    target = edges.target[chain]
    return chain, host.spans(nodes.thread[target], nodes.since[target], nodes.at[target])


@dataclass(frozen=True, eq=False)
class Graph:
    """The graph of everything that was recorded, and what a change made of it.

    `chain` are the edges along threads, `spans` what each of them spans. `duration` is that of each operation of the
    timeline now, `recorded` what it was, `gone` marks operations that are no more, `cut` edges that are no more.
    `unexplained` is for each operation the part of the delay before its start that no edge explains: it is left out of
    the replay. `pace_ns` is a step time that something outside the graph sets at the least.
    """

    nodes: Nodes
    edges: Edges
    host: HostTime
    chain: Rows
    spans: Spans
    duration: NDArray[np.float64]
    recorded: NDArray[np.float64]
    gone: NDArray[np.bool_]
    cut: NDArray[np.bool_]
    unexplained: NDArray[np.int64]
    node_of_op: Rows
    pace_ns: float = 0.0

    @property
    def own(self) -> NDArray[np.float64]:
        """What each node takes by itself, after all that its edges stand for: an operation's duration."""
        own = np.zeros(len(self.nodes))
        on_device = np.flatnonzero(self.nodes.op >= 0)
        op = self.nodes.op[on_device]
        own[on_device] = np.where(self.gone[op], 0.0, self.duration[op])
        return own

    @property
    def lag(self) -> NDArray[np.float64]:
        """The lag of each edge now; along a thread that is what the thread does in between."""
        edges, nodes = self.edges, self.nodes
        lag = edges.lag.astype(np.float64)
        lag[self.chain] = self.host.over(self.spans)
        overlapping = np.flatnonzero((edges.lag < 0) & (nodes.op[edges.source] >= 0))
        if len(overlapping):  # one began before the other was over: by a part of that one, however long it is now
            op = nodes.op[edges.source[overlapping]]
            now = np.where(self.gone[op], 0.0, self.duration[op])
            lag[overlapping] *= now / np.maximum(self.recorded[op], 1.0)
        if self.gone.any():
            op = nodes.op[edges.target]
            lag[(op >= 0) & self.gone[np.maximum(op, 0)]] = 0.0
        lag[self.cut] = -np.inf
        return lag
