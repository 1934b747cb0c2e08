"""Batches that worker processes deliver through a queue: the loader as a thread of its own with its own pace."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpuwhy.arrays import by_value
from gpuwhy.intervals import Times
from gpuwhy.ledger.partition import Basis
from gpuwhy.timeline import CallKind

WORKERS = re.compile(r"enumerate\(DataLoader\)#_MultiProcessingDataLoaderIter|.*_MultiProcessingDataLoaderIter\b")
WAITED_NS = 1_000_000
"""A shorter call to the loader took a batch that was there."""
LEAST_WAITED = 0.02
"""Part of the time that the loop must wait for batches before their making sets a pace."""


@dataclass(frozen=True, eq=False)
class Deliveries:
    """Calls on `thread` that take a batch, from `start` to `at`.

    `waited`: it was not there yet, and the loop waits on average. `paced`: workers were at it all the time until then,
    since the loop waited both before and then or later: when it was taken says how fast they are. `timely`: it was
    there, and when it was made is not known, only that workers went on from there until the loop waited.
    """

    thread: NDArray[np.int32]
    start: Times
    at: Times
    waited: NDArray[np.bool_]
    paced: NDArray[np.bool_]
    timely: NDArray[np.bool_]


def deliveries(of: Basis) -> Deliveries:
    """All calls that take a batch from worker processes."""
    calls = of.timeline.calls
    table = of.timeline.names_like(WORKERS)
    rows = np.flatnonzero(table[calls.name] & (calls.kind == CallKind.ANNOTATION))
    rows = rows[np.lexsort((calls.end[rows], calls.thread[rows]))]
    thread, start, at = calls.thread[rows], calls.start[rows], calls.end[rows]
    waited, paced, timely = at - start > WAITED_NS, np.zeros(len(rows), bool), np.zeros(len(rows), bool)
    for _, mine in by_value(thread):
        late = np.flatnonzero(waited[mine])
        wait = (at - start)[mine[late]].sum()
        if not len(late) or wait < LEAST_WAITED * (at[mine[-1]] - start[mine[0]]):
            waited[mine] = False
            continue
        paced[mine[late[0] : late[-1] + 1]] = True
        timely[mine] = ~paced[mine]
    return Deliveries(thread, start, at, waited, paced, timely)


PINNING = re.compile(r"(cuda|hip)PointerGetAttributes?$")
"""Each tensor of a batch is looked at so, once, when the loader's own thread pins it."""
LEAST_SHORT = 2
"""Batches that must be missing before a loader is called slower than its loop: one may be under way."""


@dataclass(frozen=True)
class Arrivals:
    """Batches that the pinning thread put into the queue, and that the loop took from it, in the same time."""

    made: int
    taken: int
    pace_ns: float


def arrivals(of: Basis) -> Arrivals | None:
    """How fast batches arrive, where a thread of the loader pins them and the loop took clearly more than arrived.

    The queue was full when recording began: the loop then shows no wait, though it will wait as soon as that is used
    up. None where there is no such thread, or it keeps up, or where several loops take batches, each from its own.
    """
    timeline = of.timeline
    calls = timeline.calls
    taken = deliveries(of)
    if len(taken.at) < LEAST_SHORT or taken.waited.any() or len(np.unique(taken.thread)) > 1:
        return None
    launching = np.zeros(len(timeline.threads), bool)
    launching[calls.thread[timeline.ops.launch[timeline.ops.launch >= 0]]] = True
    looks = np.flatnonzero(
        timeline.names_like(PINNING)[calls.name] & (calls.kind == CallKind.RUNTIME) & ~launching[calls.thread]
    )
    process = [(thread.rank, thread.process) for thread in timeline.threads]
    own = process[int(taken.thread[0])]
    looks = looks[np.array([process[thread] == own for thread in calls.thread[looks].tolist()], bool)]
    if not len(looks):
        return None
    tensors = _tensors_a_batch(of)
    made = len(looks) / tensors
    if len(taken.at) - made < LEAST_SHORT:
        return None
    span = float(taken.at[-1] - taken.at[0]) * len(taken.at) / (len(taken.at) - 1)
    at = np.sort(calls.start[looks])[:: max(tensors, 1)]
    between = float(at[-1] - at[0]) / (len(at) - 1) if len(at) > 1 else span
    return Arrivals(round(made), len(taken.at), (span / made + between) / 2)


def _tensors_a_batch(of: Basis) -> int:
    """Pinned copies to the device for each batch."""
    ops, names = of.timeline.ops, of.timeline.names
    pinned = np.array(["HtoD (Pinned" in name for name in names], bool)
    copies = int(pinned[ops.name].sum())
    return max(round(copies / max(len(deliveries(of).at), 1)), 1)
