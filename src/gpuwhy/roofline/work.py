"""Timeline → the work of each device operation: FLOPs and bytes from the shapes that its operator recorded.

An operation's work is that of the innermost operator around its launch that has a formula (`operators/`). Where a call
launched several kernels, each has the part of its work that it has of their time: what is judged is the call. Copies
and memsets move the bytes that the file gives for them. Unknown is NaN.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpuwhy.arrays import combined, unique
from gpuwhy.roofline.arguments import ITEM_SIZES, Arguments, arguments
from gpuwhy.roofline.borrow import lenders
from gpuwhy.roofline.captures import REPLAY, captured_launches
from gpuwhy.roofline.lists import on_long_lists
from gpuwhy.roofline.operators import Work, has_formula, work_of
from gpuwhy.timeline import MISSING, CallKind, OpKind, Timeline

ITEM_OF_KERNEL = re.compile(
    r"OpaqueType<(\d{1,3})u?>|(?:Functor|FunctorOn\w+|Op|kernel\w*|CatArrayBatchedCopy\w*)<(?:\d+, )?(?:at::native::)?"
    r"(float|double|c10::BFloat16|c10::Half|bool|long|int|unsigned char|signed char|short)\b"
)
"""Where the name of a kernel tells the type of the elements."""


@dataclass(frozen=True, eq=False)
class CallWork:
    """The work of operator calls: `call` are rows of the timeline's calls, ascending, `known` their work."""

    call: NDArray[np.int64]
    known: list[Work | None]


@dataclass(frozen=True, eq=False)
class OperationWork:
    """The work of every device operation of a timeline; NaN where it is not known.

    `owner` is the row of the call that the work was taken from, or -1; `work` numbers `works`, -1 for none. `flops`,
    `read`, `written` and `again` are the operation's part (see `operators.base.Work`), `part` its share of its call.
    `lender` is the row of the operation that lent its work, -1 where it is its own; `replay` the launch of the graph
    that replays it, -1 outside graphs that were captured within the recording. `arguments` are those of the owners, by
    the number of their signature.
    """

    owner: NDArray[np.int64]
    work: NDArray[np.int64]
    works: list[Work]
    part: NDArray[np.float64]
    flops: NDArray[np.float64]
    read: NDArray[np.float64]
    written: NDArray[np.float64]
    again: NDArray[np.float64]
    lender: NDArray[np.int64]
    replay: NDArray[np.int64]
    arguments: dict[int, Arguments | None]


def candidates(timeline: Timeline) -> NDArray[np.bool_]:
    """Calls that can have known work: operators with a formula, and with recorded arguments."""
    calls = timeline.calls
    table = np.array([has_formula(name) for name in timeline.names], bool)
    found: NDArray[np.bool_] = (calls.kind == CallKind.OPERATOR) & (calls.signature >= 0) & table[calls.name]
    return found


def work_of_calls(timeline: Timeline) -> CallWork:
    """The work of every operator call that has a formula, whatever it launched: for profiles of the host alone."""
    rows = np.flatnonzero(candidates(timeline))
    works, kind = _works(timeline, rows, np.zeros(len(rows), np.int64), {})
    return CallWork(rows, [works[one] for one in kind.tolist()])


def flops_of_calls(timeline: Timeline) -> float:
    """Multiply–add operations of all operator calls, each counted once: where one lies in another, the inner one."""
    found = work_of_calls(timeline)
    flops = np.zeros(len(timeline.calls))
    flops[found.call] = [work.flops or 0.0 if work is not None else 0.0 for work in found.known]
    nesting = timeline.nesting
    bears = flops[nesting.call] > 0
    around = nesting.nearest(bears)
    above = np.where(nesting.parent >= 0, around[nesting.parent], -1)
    outer = above[bears & (above >= 0)]
    flops[nesting.call[outer]] = 0.0
    return float(flops.sum())


def work_of_operations(timeline: Timeline) -> OperationWork:
    """The work of every device operation."""
    ops = timeline.ops
    owner, replay, silent = _owners(timeline)
    rows = np.flatnonzero(owner >= 0)
    read: dict[int, Arguments | None] = {}
    known, kind = _works(timeline, owner[rows], _items(timeline, rows), read)
    works, number = _numbered(known)
    work = np.full(len(ops), -1, np.int64)
    work[rows] = number[kind]
    long = on_long_lists(timeline, owner, replay)
    calls = np.array(sorted(long), np.int64)
    found, numbers = _numbered([long[call] for call in calls.tolist()])
    place = np.minimum(np.searchsorted(calls, owner), max(len(calls) - 1, 0))
    listed = np.flatnonzero(calls[place] == owner) if len(calls) else calls
    work[listed] = numbers[np.searchsorted(calls, owner[listed])] + len(works)
    works += found
    part = _parts(timeline, owner, replay, work)
    columns = np.array([(w.flops, w.read, w.written, w.again) for w in works], float).reshape(-1, 4)
    columns = np.concatenate([columns, np.full((1, 4), np.nan)])[work] * part[:, None]
    lender = lenders(timeline, work >= 0, silent & (work < 0), np.nansum(columns, axis=1))
    borrowing = np.flatnonzero(lender >= 0)
    columns[borrowing], work[borrowing] = columns[lender[borrowing]], work[lender[borrowing]]
    part[borrowing] = part[lender[borrowing]]
    flops, moved_in, moved_out, again = columns.T.copy()
    _copies(timeline, flops, moved_in, moved_out, again)
    return OperationWork(owner, work, works, part, flops, moved_in, moved_out, again, lender, replay, read)


def _numbered(known: list[Work | None]) -> tuple[list[Work], NDArray[np.int64]]:
    """The different works, and for each given one its number, -1 for none."""
    works: list[Work] = []
    number = np.full(len(known) + 1, -1, np.int64)
    for place, work in enumerate(known):
        if work is not None:
            number[place] = len(works)
            works.append(work)
    return works, number


def _owners(timeline: Timeline) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
    """For each kernel the innermost candidate around its launch, -1 for none; its replay, -1 outside graphs; and
    whether its launch tells nothing: it was not recorded, it replays a graph, or no operator is around it.

    The launch of what a graph replays is the one of its capture.
    """
    ops, nesting = timeline.ops, timeline.nesting
    owner = np.full(len(ops), -1, np.int64)
    captured = captured_launches(timeline)
    replay = np.where(captured >= 0, ops.launch, -1).astype(np.int64)
    launch = np.where(captured >= 0, captured, ops.launch)
    silent = ops.kind == OpKind.KERNEL
    rows = np.flatnonzero(silent & (launch >= 0))
    if not len(rows) or not len(nesting.call):
        return owner, replay, silent
    nearest = nesting.nearest(candidates(timeline)[nesting.call])
    piece = timeline.piece_at(launch[rows])
    found = np.where(piece >= 0, nearest[piece], -1)
    owner[rows] = np.where(found >= 0, nesting.call[found], -1)
    around = nesting.nearest((timeline.calls.kind == CallKind.OPERATOR)[nesting.call])
    replays = timeline.names_like(REPLAY)[timeline.calls.name[launch[rows]]]
    silent[rows] = replays | (np.where(piece >= 0, around[piece], -1) < 0)
    return owner, replay, silent


def _items(timeline: Timeline, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Bytes an element as kernels' names tell them, 0 where they do not."""
    codes = timeline.ops.name[rows]
    table = np.zeros(len(timeline.names), np.int64)
    for code in unique(codes).tolist():
        if match := ITEM_OF_KERNEL.search(timeline.names[code]):
            table[code] = min(int(match[1]), 16) if match[1] else ITEM_SIZES[match[2]]
    return table[codes]


def _works(
    timeline: Timeline, calls: NDArray[np.int64], item: NDArray[np.int64], read: dict[int, Arguments | None]
) -> tuple[list[Work | None], NDArray[np.int64]]:
    """The work of each different (name, signature, item) among calls, and for each call which it has.

    `read` gathers the arguments by the number of their signature.
    """
    if not len(calls):
        return [], calls
    name, signature = timeline.calls.name[calls], timeline.calls.signature[calls]
    first, kind = combined([name, signature, item])
    results: list[Work | None] = []
    for row in first.tolist():
        number = int(signature[row])
        if number not in read:
            read[number] = arguments(timeline.signatures[number])
        of = read[number]
        results.append(None if of is None else work_of(timeline.names[name[row]], of, int(item[row]) or None))
    return results, kind


def _parts(
    timeline: Timeline, owner: NDArray[np.int64], replay: NDArray[np.int64], work: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Each operation's share of the time of all of its call (in one replay); equal shares where that is 0."""
    part = np.ones(len(owner))
    rows = np.flatnonzero(work >= 0)
    if len(rows):
        length = (timeline.ops.end[rows] - timeline.ops.start[rows]).astype(float)
        _, place = combined([owner[rows], replay[rows]])
        total, count = np.bincount(place, length), np.bincount(place)
        part[rows] = np.where(total[place] > 0, length / np.maximum(total[place], 1e-300), 1 / count[place])
    return part


def _copies(
    timeline: Timeline,
    flops: NDArray[np.float64],
    read: NDArray[np.float64],
    written: NDArray[np.float64],
    again: NDArray[np.float64],
) -> None:
    """Copies and memsets: the device's memory is read, written or both, by what their names say."""
    ops, names = timeline.ops, timeline.names
    size = np.where(ops.bytes == MISSING, np.nan, ops.bytes.astype(float))
    from_device = np.array([re.search(r"DtoH|DtoD|DeviceTo|PtoP", name) is not None for name in names])
    to_device = np.array([re.search(r"HtoD|DtoD|ToDevice|PtoP", name) is not None for name in names])
    for kind in (OpKind.COPY, OpKind.MEMSET):
        rows = np.flatnonzero(ops.kind == kind)
        flops[rows] = again[rows] = 0.0
        reads = from_device[ops.name[rows]] if kind == OpKind.COPY else np.zeros(len(rows), bool)
        writes = to_device[ops.name[rows]] if kind == OpKind.COPY else np.ones(len(rows), bool)
        read[rows] = np.where(reads, size[rows], np.where(np.isnan(size[rows]), np.nan, 0.0))
        written[rows] = np.where(writes, size[rows], np.where(np.isnan(size[rows]), np.nan, 0.0))
