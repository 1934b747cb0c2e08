"""Replay: when each node of a graph is reached, in one pass over its rows."""

from __future__ import annotations

import ctypes
import os
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuwhy.intervals import Rows
from gpuwhy.whatif.graph import Graph

_SUFFIX = {"win32": ".dll", "darwin": ".dylib"}.get(sys.platform, ".so")
LIBRARY = Path(__file__).with_name(f"_longest{_SUFFIX}")
NEVER = -1e300
"""Earlier than anything."""

Reached = NDArray[np.float64]


def reached(first: Rows, source: Rows, lag: Reached, own: Reached, start: Reached, before: Reached) -> Reached:
    """When each row is reached: `own` after the last of its `start` and of its edges' sources plus lags.

    Edges of row i are `first[i] … first[i + 1]`. A negative source is a row of the pass before, counted from the end,
    whose times are `before`. The compiled function and the one in Python give the same.
    """
    library = _library()
    if library is None:
        return _in_python(first, source, lag, own, start, before)
    whole = [np.ascontiguousarray(column, np.int64) for column in (first, source)]
    real = [np.ascontiguousarray(column, np.float64) for column in (lag, own, start, before)]
    time = np.empty(len(own))
    pointers = [column.ctypes.data_as(ctypes.c_void_p) for column in (*whole, *real, time)]
    library.longest(ctypes.c_int64(len(own)), *pointers)
    return time


@cache
def _library() -> Any:
    """The compiled function; None where it is not built, or GPUWHY_PURE_PYTHON is set."""
    if os.environ.get("GPUWHY_PURE_PYTHON"):
        return None
    try:
        library = ctypes.CDLL(str(LIBRARY))
        library.longest.restype = None
    except (OSError, AttributeError):
        return None
    return library


def _in_python(first: Rows, source: Rows, lag: Reached, own: Reached, start: Reached, before: Reached) -> Reached:
    firsts, sources, lags, past = first.tolist(), source.tolist(), lag.tolist(), before.tolist()
    time: list[float] = []
    for row, (latest, takes) in enumerate(zip(start.tolist(), own.tolist(), strict=True)):
        for edge in range(firsts[row], firsts[row + 1]):
            at = sources[edge]
            latest = max(latest, (past[at] if at < 0 else time[at]) + lags[edge])
        time.append(latest + takes)
    return np.array(time)


def once(graph: Graph) -> Reached:
    """When each row is reached if everything happens once, begun as recorded."""
    nodes, edges = graph.nodes, graph.edges
    count = np.bincount(edges.target, minlength=len(nodes))
    first = np.concatenate(([0], np.cumsum(count)))
    own = graph.own
    return reached(first, edges.source, graph.lag, own, np.where(count == 0, nodes.at - own, NEVER), np.empty(0))
