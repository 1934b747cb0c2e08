"""Where a thread stands still for the device: the judged blocking calls by kind."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpuwhy.timeline import CallKind
from gpuwhy.whatif.changes import Change, without_waits
from gpuwhy.whatif.graph import Why
from gpuwhy.whatif.setting import Setting

SCALAR = re.compile(r"aten::(item|_local_scalar_dense|is_nonzero|equal|allclose)$")
"""Operators that hand a number to the host."""
SIZES = re.compile(r"aten::(nonzero|masked_select|unique\w*|_unique2|repeat_interleave|bincount|histc|nonzero_numpy)$")
"""Operators whose result's size the host must be told."""
FREEING = re.compile(r".*([Ff]ree|[Uu]nmap)")


@dataclass(frozen=True, eq=False)
class Stop:
    """Blocking calls of one kind: their nodes in the graph, and the outermost operators they are in (or calls, where
    they are in none, or explicit)."""

    nodes: NDArray[np.int64]
    pieces: NDArray[np.int64]

    def marks(self, setting: Setting) -> NDArray[np.bool_]:
        """The pieces as a mask."""
        return marked(setting, self.pieces)

    def no_waits(self, setting: Setting) -> Change:
        """The calls return at once."""
        nodes = np.zeros(len(setting.graph.nodes), bool)
        nodes[self.nodes] = True
        return without_waits(nodes)


def marked(setting: Setting, pieces: NDArray[np.int64]) -> NDArray[np.bool_]:
    """A mask of pieces."""
    mask = np.zeros(len(setting.timeline.nesting.call), bool)
    mask[pieces] = True
    return mask


def stops(setting: Setting) -> dict[str, Stop]:
    """The blocking calls of each kind: `scalar`, `sizes`, `out` and `in` (copies), `free` and `explicit`."""
    graph, timeline = setting.graph, setting.timeline
    edges, nodes, nesting = graph.edges, graph.nodes, timeline.nesting
    found = np.flatnonzero(edges.kind == Why.BLOCKING)
    target, awaited = edges.target[found], nodes.op[edges.source[found]]
    piece = nesting.open_at(nodes.thread[target].astype(np.int64), nodes.at[target] - 1).astype(np.int64)
    known = piece >= 0
    target, awaited, piece = target[known], awaited[known], piece[known]
    if not len(target):
        return {}
    top = nesting.outermost(timeline.calls.kind[nesting.call] == CallKind.OPERATOR)[piece].astype(np.int64)
    name = timeline.ops.name[awaited]
    kinds = {
        "free": setting.pieces(FREEING)[piece],
        "scalar": nesting.nearest(setting.pieces(SCALAR))[piece] >= 0,
        "sizes": nesting.nearest(setting.pieces(SIZES))[piece] >= 0,
        "out": _named(timeline.names, "DtoH", "DeviceToHost")[name],
        "in": _named(timeline.names, "HtoD", "HostToDevice")[name],
    }
    kind = np.select(list(kinds.values()), list(kinds), "explicit")
    result = {}
    for one in [*kinds, "explicit"]:
        mine = kind == one
        if mine.any():
            # A wait of the program's own can lie within anything; the others are what an operator is for.
            around = (top[mine] >= 0) & (one != "explicit")
            result[one] = Stop(target[mine], np.unique(np.where(around, top[mine], piece[mine])))
    return result


def _named(names: list[str], *parts: str) -> NDArray[np.bool_]:
    return np.array([any(part in name for part in parts) for name in names], bool)
