"""Steps of a batch that is several times as large: how long each operation would take.

What grows with the batch are FLOPs and the bytes of activations. Weights, their gradients and what the optimizer does
stay. A kernel that was too small to fill the device takes as long as before until its work at the ceilings, reached as
well as large operations reach them, takes longer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from gpuwhy.roofline.arguments import Tensor, arguments
from gpuwhy.roofline.efficiency import Bound
from gpuwhy.roofline.view import Group, View
from gpuwhy.whatif.changes import Change, lasting_ns
from gpuwhy.whatif.graph import Graph
from gpuwhy.whatif.setting import Setting

WEIGHTS = {
    "aten::linear": (1,),
    "aten::addmm": (2,),
    "aten::convolution": (1,),
    "aten::conv1d": (1,),
    "aten::conv2d": (1,),
    "aten::conv3d": (1,),
    "aten::embedding": (0,),
    "aten::layer_norm": (2, 3),
    "aten::rms_norm": (2,),
    "aten::batch_norm": (1, 2, 3, 4),
    "aten::group_norm": (2, 3),
}
"""Which arguments of an operator are parameters."""
COMPUTING_NS = 50_000
"""Host time in an operator that is longer goes to data, not to bookkeeping."""
REACHED = 0.6
"""Part of a ceiling that operations of a large batch reach at least."""

Shape = tuple[int, ...]


def larger_batch(setting: Setting) -> Callable[[float], Change]:
    """For a number: the change to a batch so many times as large.

    The device's work grows, and what the host does for each sample.
    """
    each = setting.slices_of("input", "host_compute") & setting.long(COMPUTING_NS)
    duration_of = _durations(setting)
    everything = np.ones(len(setting.timeline.ops), bool)

    def by(times: float) -> Change:
        duration = duration_of(times)

        def change(graph: Graph) -> Graph:
            longer = replace(graph, host=graph.host.scaled(each, times), pace_ns=graph.pace_ns * times)
            return lasting_ns(everything, duration)(longer)

        return change

    return by


def _durations(setting: Setting) -> Callable[[float], NDArray[np.float64]]:
    """For a number: each operation's duration with a batch so many times as large, in ns."""
    view = setting.view
    stays, kept = _staying(setting)
    stays |= view.is_account("busy/optimizer", "busy/communication")
    compute, memory = np.nan_to_num(view.compute), np.nan_to_num(view.memory)
    known = np.isfinite(view.reachable) & (view.reachable > 0)
    efficiency = np.clip(np.where(known, view.reachable, view.length) / np.maximum(view.length, 1), REACHED, 1.0)
    small = view.is_bound(Bound.LATENCY)

    def durations(times: float) -> NDArray[np.float64]:
        """Small ones have room; of the others, what is slow stays as slow."""
        reachable = np.maximum(compute * times, memory * (kept + times * (1 - kept)))
        filled = np.maximum(reachable / efficiency, view.length)
        as_slow = view.length * np.where(known, reachable / np.where(known, view.reachable, 1.0), times)
        found: NDArray[np.float64] = setting.graph.duration.copy()
        found[view.row] = np.where(stays, found[view.row], np.where(small & known, filled, as_slow))
        return found

    return durations


def _staying(setting: Setting) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    """Of the view's operations: which do not grow with the batch, and which part of the others' bytes does not."""
    view, weights = setting.view, parameter_shapes(setting)
    stays, kept = np.zeros(len(view.row), bool), np.zeros(len(view.row))
    for group in view.groups:
        bytes_ = _kept_bytes(view, group, weights)
        stays[group.rows] = bytes_ is None
        if bytes_:
            kept[group.rows] = np.minimum(bytes_ / np.maximum(np.nan_to_num(view.moved[group.rows]), 1.0), 1.0)
    return stays, kept


def parameter_shapes(setting: Setting) -> set[Shape]:
    """Shapes of parameters, their dimensions in ascending order: those that operators and optimizers take as such."""
    timeline = setting.timeline
    calls, names = timeline.calls, timeline.names
    found: set[Shape] = set()
    table = np.array([name in WEIGHTS for name in names], bool)
    rows = np.flatnonzero(table[calls.name] & (calls.signature >= 0))
    kinds = {(int(calls.name[row]), int(calls.signature[row])) for row in rows.tolist()}
    for name, signature in kinds:
        taken = arguments(timeline.signatures[signature])
        if taken is not None:
            tensors = [taken.tensor(place) for place in WEIGHTS[names[name]]]
            found |= {_shape(tensor) for tensor in tensors if tensor is not None}
    for group in setting.view.groups:
        if group.arguments is not None and setting.view.is_account("busy/optimizer")[group.rows].all():
            found |= {_shape(tensor) for tensor in group.arguments.tensors() if tensor.dims}
    return {shape for shape in found if shape}


def _shape(tensor: Tensor) -> Shape:
    return tuple(sorted(size for size in tensor.dims if size > 1))


def _kept_bytes(view: View, group: Group, weights: set[Shape]) -> float | None:
    """Bytes of a group's operation that do not grow with the batch; None: nothing of it grows."""
    if group.arguments is None:
        return 0.0
    tensors = group.arguments.tensors()
    work = view.work_of(int(group.rows[0]))
    if work is not None and work.matmul is not None:
        m = work.matmul
        item = max((tensor.item for tensor in tensors), default=0)
        pairs = [(m.k, m.n), (m.m, m.n), (m.m, m.k)]
        return float(sum(a * b * m.batch * item for a, b in pairs if tuple(sorted((a, b))) in weights))
    if tensors and all(_shape(tensor) in weights or tensor.count <= 1 for tensor in tensors):
        return None
    return 0.0
