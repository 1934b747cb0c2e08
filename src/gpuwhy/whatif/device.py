"""What an operation had to wait for on the device: its launch, its stream, another stream."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpuwhy.arrays import quantiles
from gpuwhy.intervals import Rows, Times
from gpuwhy.timeline import Timeline
from gpuwhy.whatif.graph import Edges, Why
from gpuwhy.whatif.launches import Launches
from gpuwhy.whatif.streams import NEVER, beside, event_waits, just_over, stream_order

LATENCY_NS, GAP_NS = 2_000, 1_500
"""From a launch to the start on an idle device, and from one operation of a stream to the next, where the recording
has none to look at (H200, PyTorch 2.11: medians of 1.3 to 2.7 and 1.2 to 1.7 µs)."""
MOST_DELAY_NS = 20_000
"""A longer delay is no latency: something that is not in the graph held the operation up."""
MOST_DELAY = 5.0
"""… nor is it on a slower system, up to so many of its own medians."""
MOST_EVENT_DELAY_NS = 500_000
"""So long after the other stream's operation one can start that waited for its event (collectives also wait for room
on the device)."""
UNLIMITED = 2**60


@dataclass(frozen=True, eq=False)
class Device:
    """Edges into operations, and delays that have none. Operations are their rows in the timeline."""

    edges: Edges
    unexplained: NDArray[np.int64]


def device_edges(timeline: Timeline, found: Launches, point: Rows) -> Device:
    """The edges into all operations; `point` numbers the node of each launch."""
    ops = timeline.ops
    known = found.of_op >= 0
    launched = np.where(known, np.append(found.at, NEVER)[found.of_op], NEVER)
    before = stream_order(timeline)
    free = np.where(before >= 0, ops.end[before], NEVER)
    ready = np.maximum(launched, free)
    latency = _usual(ops.start - launched, known & (launched >= free), LATENCY_NS)
    gap = _usual(ops.start - free, (before >= 0) & (free > launched), GAP_NS)
    most = np.full(len(ops), max(MOST_DELAY_NS, int(MOST_DELAY * max(latency, gap))))
    other = event_waits(timeline)
    most[other >= 0] = MOST_EVENT_DELAY_NS
    held = np.flatnonzero((other < 0) & (ops.start - ready > most) & (ready > NEVER))
    other[held] = just_over(timeline, held, most[held])
    crowded = held[other[held] < 0]
    crowded_out = beside(timeline, crowded, ready[crowded] + MOST_EVENT_DELAY_NS, before)
    crowded, crowded_out = crowded[crowded_out >= 0], crowded_out[crowded_out >= 0]
    other[crowded] = crowded_out
    most[crowded] = UNLIMITED
    released = np.where(other >= 0, ops.end[other], NEVER)
    ready = np.maximum(ready, released)
    delay = np.where(ready > NEVER, ops.start - ready, 0)
    unexplained = np.maximum(delay - most, 0)
    delay = np.where(known, np.minimum(delay, most), delay)  # what was launched before the recording starts as recorded

    held_up = np.where(known, unexplained, 0)

    def lag(source: Times, usual: int) -> NDArray[np.int64]:
        """The recorded delay after what came last, the usual one after the rest, if it was there in time."""
        return np.asarray(np.where(source >= ready, delay, np.minimum(usual, ops.start - held_up - source)))

    rows = np.arange(len(ops))
    sources = [
        (known & (launched <= ops.end), np.append(point, -1)[found.of_op], lag(launched, latency), Why.LAUNCH),
        (before >= 0, before, lag(free, gap), Why.STREAM),
        (other >= 0, other, lag(released, latency), Why.OTHER_STREAM),
    ]
    edges = [Edges.of(source[some], rows[some], lags[some], kind) for some, source, lags, kind in sources]
    return Device(Edges.concatenate(edges), unexplained)


def _usual(delay: Times, rows: NDArray[np.bool_], otherwise: int) -> int:
    some = delay[rows & (delay >= 0)]
    return int(quantiles(some, (0.5,))[0]) if len(some) else otherwise
