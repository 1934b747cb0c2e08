"""Replays of a graph → the host calls that launched the same operations when the graph was captured.

While a stream is captured nothing runs, but its launches are recorded with the operators around them. A graph that was
captured within the recording, and launched after it, runs as many operations of the same kinds in the same order; where
number, kinds and what the kernels' names say agree, each replayed operation gets the launch of its capture.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpuwhy.arrays import unique
from gpuwhy.ledger.classes import KERNELS, OPERATORS, classify
from gpuwhy.timeline import CallKind, OpKind, Timeline

Rows = NDArray[np.int64]

BEGIN, END = re.compile(r"(cuda|cu|hip)StreamBeginCapture"), re.compile(r"(cuda|cu|hip)StreamEndCapture")
REPLAY = re.compile(r"(cuda|cu|hip)GraphLaunch")
ENQUEUES = (
    (OpKind.KERNEL, re.compile(r"(cuda|cu|hip)(Ext|Module)?Launch(?!HostFunc)\w*Kernel")),
    (OpKind.MEMSET, re.compile(r"(cuda|cu|hip)Memset\w*Async")),
    (OpKind.COPY, re.compile(r"(cuda|cu|hip)Memcpy\w*Async")),
)
MOST_CAPTURES = 256
"""The last ones; a server captures some dozens."""
PRODUCTS = ("matmul", "convolution", "attention")
"""Classes whose kernels multiply: no operator of another class launches one."""


@dataclass(frozen=True, eq=False)
class _Capture:
    """The launches of one capture in order, and what they enqueue."""

    end: int
    launch: Rows
    kind: NDArray[np.int8]


def captured_launches(timeline: Timeline) -> Rows:
    """For each operation the call that launched it when its graph was captured; -1 for what was not replayed."""
    found = np.full(len(timeline.ops), -1, np.int64)
    captures = _captures(timeline)
    if not captures:
        return found
    launch = timeline.ops.launch
    replayed = np.flatnonzero(launch >= 0)
    replayed = replayed[timeline.names_like(REPLAY)[timeline.calls.name[launch[replayed]]]]
    if not len(replayed):
        return found
    order = replayed[np.lexsort((timeline.ops.start[replayed], launch[replayed]))]
    by_kernel, of_call = _classes(timeline, captures)
    agreeing: dict[tuple[bytes, bytes], list[_Capture]] = {}  # replays of one graph look alike
    for rows in np.split(order, np.flatnonzero(np.diff(launch[order])) + 1):
        start = int(timeline.calls.start[launch[rows[0]]])
        kind, products = timeline.ops.kind[rows], by_kernel[timeline.ops.name[rows]] == 1
        key = kind.tobytes(), products.tobytes()
        if key not in agreeing:
            agreeing[key] = [capture for capture in captures if _agree(capture, kind, products, of_call)]
        before = [capture for capture in agreeing[key] if capture.end <= start]
        if before:
            found[rows] = before[-1].launch
    return found


def _captures(timeline: Timeline) -> list[_Capture]:
    """All captures that began and ended on one thread, by their ends, with their process's launches meanwhile."""
    calls = timeline.calls
    begins, ends = timeline.names_like(BEGIN)[calls.name], timeline.names_like(END)[calls.name]
    if not begins.any():
        return []
    kind = np.full(len(timeline.names), -1, np.int8)
    for one, pattern in ENQUEUES:
        kind[timeline.names_like(pattern)] = one
    enqueues = np.flatnonzero((kind[calls.name] >= 0) & (calls.kind == CallKind.RUNTIME))
    ran = np.zeros(len(calls), bool)
    ran[timeline.ops.launch[timeline.ops.launch >= 0]] = True
    enqueues = enqueues[~ran[enqueues]]  # of other threads' streams, which were not captured
    process = _processes(timeline)[calls.thread]
    enqueues = enqueues[np.argsort(calls.start[enqueues], kind="stable")]
    when = calls.start[enqueues]
    last = np.flatnonzero(ends)
    found = []
    for begin in np.flatnonzero(begins)[-MOST_CAPTURES:].tolist():
        place = int(np.searchsorted(last, begin))
        if place == len(last) or calls.thread[last[place]] != calls.thread[begin]:
            continue
        end = int(last[place])
        launch = enqueues[slice(*np.searchsorted(when, [calls.start[begin], calls.start[end]]))]
        launch = launch[process[launch] == process[begin]]
        if len(launch):
            found.append(_Capture(int(calls.end[end]), launch, kind[calls.name[launch]]))
    return sorted(found, key=lambda capture: capture.end)


def _processes(timeline: Timeline) -> NDArray[np.int64]:
    """A number for the process of each thread."""
    numbers: dict[tuple[int, str], int] = {}
    found = [numbers.setdefault((thread.rank, thread.process), len(numbers)) for thread in timeline.threads]
    return np.array(found, np.int64)


def _classes(timeline: Timeline, captures: list[_Capture]) -> tuple[NDArray[np.int16], NDArray[np.int16]]:
    """1 for products, 0 for others, -1 for unknown: of kernels by name code, of operators by the launch within."""
    calls, nesting = timeline.calls, timeline.nesting
    codes = np.arange(len(timeline.names), dtype=np.int32)

    def told(label: str) -> int:
        return int(label in PRODUCTS)

    by_kernel = classify(codes, timeline.names, KERNELS, told)
    by_operator = classify(codes, timeline.names, OPERATORS, told)
    around = nesting.nearest((calls.kind == CallKind.OPERATOR)[nesting.call])
    launch = unique(np.concatenate([capture.launch for capture in captures]))
    piece = timeline.piece_at(launch)
    operator = np.where(piece >= 0, around[piece], -1)
    of_call = np.full(len(calls), -1, np.int16)
    of_call[launch] = np.where(operator >= 0, by_operator[calls.name[nesting.call[operator]]], -1)
    return by_kernel, of_call


def _agree(capture: _Capture, kind: NDArray[np.int8], products: NDArray[np.bool_], of_call: NDArray[np.int16]) -> bool:
    """Whether operations of these kinds, of which some are products, can be those of a capture."""
    if len(kind) != len(capture.launch) or (kind != capture.kind).any():
        return False
    return not (products & (of_call[capture.launch] == 0)).any()
