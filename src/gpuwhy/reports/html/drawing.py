"""A ledger → the picture of a few of its steps: who owned each instant, the streams, and the threads that launched.

What is too small to be seen is joined, so that a picture has a bounded number of boxes whatever the profile holds.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
import numpy as np
from numpy.typing import NDArray

from gpuwhy.arrays import combined, unique
from gpuwhy.intervals import Rows, Times
from gpuwhy.ledger.charges import Charges
from gpuwhy.ledger.partition import Basis, Ledger, Owned, owners
from gpuwhy.reports.callpaths import LIBRARY
from gpuwhy.reports.html.limits import Limits, plain
from gpuwhy.reports.html.naming import NOTHING, OPERATION, PIECE, Names
from gpuwhy.reports.html.scene import Boxes, Drawing, Lane
from gpuwhy.steps import STEP_MARK
from gpuwhy.timeline import CallKind, Timeline

SHOWN = 3
"""Steps that are drawn, the middle one the most usual."""
MOST_OPERATIONS = 20_000
"""Without steps, a stretch with so many operations is drawn."""
FINEST = 50_000
"""The smallest box is this part of the picture, which leaves room to zoom in."""
MOST_STREAMS, MOST_THREADS, MOST_DEPTH = 8, 3, 6


@dataclass(frozen=True, eq=False)
class Raw:
    """Boxes before any are joined. `of` says what `row` counts; a joined box has the row of its longest part."""

    lane: NDArray[np.int64]
    start: Times
    end: Times
    account: NDArray[np.int64]
    of: NDArray[np.int64]
    row: Rows

    @staticmethod
    def join(parts: list[Raw]) -> Raw:
        """All boxes of several lists."""
        columns = ("lane", "start", "end", "account", "of", "row")
        return Raw(*(np.concatenate([getattr(part, name) for part in parts]) for name in columns))


def draw(of: Basis, ledger: Ledger, limits: Limits, share: int = 1) -> Drawing:
    """The picture of one device, one of `share` that have room for `limits` together."""
    start, end, about = _stretch(of.timeline, ledger)
    owned = owners(of, ledger.device, start, end)
    lanes = [Lane(kind="ledger", label="account")]
    parts = [_ledger_lane(owned)]
    notes = []
    for add in (_streams, _threads):
        more_lanes, more, note = add(of, owned, len(lanes), start, end)
        lanes += more_lanes
        parts += more
        notes += note
    raw = Raw.join(parts)
    boxes, rows, kind, finest = _thinned(raw, start, end, limits.boxes // share)
    named = Names(of.timeline, owned, limits, share)
    name, path = named.of_boxes(kind, rows, boxes.ns)
    total = Charges.join([spans.charged(np.array([start, end])) for spans in (owned.busy, owned.idle)])
    accounts, account, totals = _used(of.accounts.names, np.array(boxes.account, np.int64), total, limits)
    device = of.timeline.devices[ledger.device]
    return Drawing(
        rank=device.rank,
        device=device.number,
        about=about,
        start_ns=start,
        length_ns=end - start,
        steps=_steps(ledger, start, end),
        finest_ns=finest,
        lanes=lanes,
        boxes=msgspec.structs.replace(boxes, account=account, name=name, path=path),
        accounts=accounts,
        totals=totals,
        names=named.names,
        paths=named.paths,
        notes=notes + named.notes(),
    )


def _stretch(timeline: Timeline, ledger: Ledger) -> tuple[int, int, str]:
    """Which time is drawn, and a name for it."""
    window, steps = ledger.window, ledger.window.steps
    if steps is not None and len(steps):
        usual = int(np.argsort(steps.length, kind="stable")[(len(steps) - 1) // 2])
        first = int(np.clip(usual - SHOWN // 2, 0, max(len(steps) - SHOWN, 0)))
        last = min(first + SHOWN, len(steps))
        numbers = steps.number[[first, last - 1]].tolist()
        which = f"step {numbers[0]}" if first == last - 1 else f"steps {numbers[0]} to {numbers[1]}"
        return (
            int(steps.edge[first]),
            int(steps.edge[last]),
            f"{which}, {last - first} of {len(steps)} that were judged",
        )
    part = timeline.ops_of(ledger.device)
    starts = timeline.ops.start[part]
    inside = starts[(starts >= window.start) & (starts < window.end)]
    if len(inside) <= MOST_OPERATIONS:
        return window.start, window.end, "the judged window"
    middle = (len(inside) - MOST_OPERATIONS) // 2
    return int(inside[middle]), int(inside[middle + MOST_OPERATIONS]), "a part from the middle of the judged window"


def _steps(ledger: Ledger, start: int, end: int) -> list[tuple[int, int, int]]:
    steps = ledger.window.steps
    if steps is None:
        return []
    rows = np.flatnonzero((steps.edge[:-1] >= start) & (steps.edge[1:] <= end))
    columns = (steps.number[rows], steps.edge[rows] - start, steps.length[rows])
    return [(int(n), int(s), int(length)) for n, s, length in zip(*columns, strict=True)]


def _ledger_lane(owned: Owned) -> Raw:
    """Every instant, with the account that it was charged to."""
    parts = []
    for spans, of in ((owned.busy, OPERATION), (owned.idle, PIECE)):
        kind = np.where(spans.row >= 0, of, NOTHING)
        account = spans.account.astype(np.int64)
        parts.append(Raw(np.zeros(len(kind), np.int64), spans.start, spans.end, account, kind, spans.row))
    return Raw.join(parts)


Lanes = tuple[list[Lane], list[Raw], list[str]]
"""Lanes, their boxes, and notes on what is not drawn."""


def _streams(of: Basis, owned: Owned, first: int, start: int, end: int) -> Lanes:
    """A lane for each stream, those with most work."""
    ops = owned.ops
    rows = np.flatnonzero((ops.start < end) & (ops.end > start) & (ops.end > ops.start))
    stream, place = np.unique(ops.stream[rows], return_inverse=True)
    work = np.bincount(place, (ops.end - ops.start)[rows].astype(np.float64), len(stream))
    kept = np.sort(np.argsort(-work, kind="stable")[:MOST_STREAMS])
    lanes, parts = [], []
    for number in kept.tolist():
        mine = rows[place == number]
        lanes.append(Lane(kind="stream", label=f"stream {stream[number]}"))
        parts.append(
            Raw(
                np.full(len(mine), first + len(lanes) - 1, np.int64),
                np.maximum(ops.start[mine], start),
                np.minimum(ops.end[mine], end),
                owned.account[mine].astype(np.int64),
                np.full(len(mine), OPERATION, np.int64),
                mine,
            )
        )
    more = len(stream) - len(kept)
    return lanes, parts, [f"{more:,} of {len(stream):,} streams, with less work, are not drawn"] if more else []


def _threads(of: Basis, owned: Owned, first: int, start: int, end: int) -> Lanes:
    """Lanes for the threads that launched most, one for each depth of calls that say something."""
    timeline, nesting = of.timeline, of.timeline.nesting
    ops = owned.ops
    launch = ops.launch[(ops.start < end) & (ops.end > start) & (ops.launch >= 0)]
    threads, launches = np.unique(timeline.calls.thread[launch], return_counts=True)
    lanes: list[Lane] = []
    parts = []
    shown = _shown(timeline)
    busiest = threads[np.argsort(-launches, kind="stable")[:MOST_THREADS]]
    for thread in sorted(busiest.tolist(), key=lambda one: int(of.host.role[one])):
        part = nesting.of_thread(thread)
        depth = _depth_among(timeline, shown, part)
        piece = np.arange(part.start, part.stop)
        inside = (nesting.start[part] < end) & (nesting.end[part] > start)
        kept = inside & shown[part] & (depth < MOST_DEPTH)
        label = f"{('main thread', 'autograd thread', 'thread')[int(of.host.role[thread])]}"
        for level in range(int(depth[kept].max(initial=-1)) + 1):
            mine = piece[kept & (depth == level)]
            lanes.append(Lane(kind="thread", label=label, depth=level))
            parts.append(
                Raw(
                    np.full(len(mine), first + len(lanes) - 1, np.int64),
                    np.maximum(nesting.start[mine], start),
                    np.minimum(nesting.end[mine], end),
                    np.maximum(of.host.decided[mine], of.host.framed[mine]).astype(np.int64),
                    np.full(len(mine), PIECE, np.int64),
                    mine,
                )
            )
    more = len(threads) - len(busiest)
    return lanes, parts, [f"{more:,} of {len(threads):,} threads, with fewer launches, are not drawn"] if more else []


def _shown(timeline: Timeline) -> NDArray[np.bool_]:
    """Pieces that are drawn: all but marks of steps and the frames of libraries."""
    calls, call = timeline.calls, timeline.nesting.call
    names = timeline.names_like(LIBRARY)[calls.name]
    marks = timeline.names_like(STEP_MARK)[calls.name]
    hidden = ((calls.kind == CallKind.PYTHON) & names) | marks
    return np.asarray(~hidden[call])


def _depth_among(timeline: Timeline, shown: NDArray[np.bool_], part: slice) -> NDArray[np.int64]:
    """How many shown pieces are around each piece of a thread."""
    nesting = timeline.nesting
    depth = np.zeros(part.stop - part.start, np.int64)
    low, high = part.start, part.stop
    for rows in nesting.levels[1:]:
        mine = rows[np.searchsorted(rows, low) : np.searchsorted(rows, high)]
        parent = nesting.parent[mine]
        depth[mine - low] = depth[parent - low] + shown[parent]
    return depth


def _thinned(raw: Raw, start: int, end: int, most: int) -> tuple[Boxes, Rows, NDArray[np.int64], int]:
    """Boxes with what is finer than the eye joined, coarser until there are few enough; their rows, what these count,
    and how fine.
    """
    finest = max((end - start) // FINEST, 1)
    while True:
        found = _joined(raw, start, finest)
        if len(found[1]) <= most or finest > end - start:
            return (*found, finest)
        finest *= 2


def _joined(raw: Raw, start: int, finest: int) -> tuple[Boxes, Rows, NDArray[np.int64]]:
    """Boxes shorter than `finest` joined with those that start in the same stretch of that length on the same lane."""
    length = raw.end - raw.start
    cell = (raw.start - start) // finest
    alone = length >= finest
    _, group = combined([raw.lane, np.where(alone, np.arange(len(cell)), cell), alone.astype(np.int64)])
    order = np.lexsort((-length, group))
    first = np.flatnonzero(np.diff(group[order], prepend=-1))
    longest = order[first]
    begin = np.minimum.reduceat(raw.start[order], first) if len(order) else raw.start
    finish = np.maximum.reduceat(raw.end[order], first) if len(order) else raw.end
    total = np.add.reduceat(length[order], first) if len(order) else length
    count = np.diff(np.append(first, len(order)))
    account = _most_time(raw, group, longest)
    by_place = np.lexsort((begin, raw.lane[longest]))

    def column(values: NDArray[np.int64]) -> list[int]:
        found: list[int] = values[by_place].tolist()
        return found

    boxes = Boxes(
        lane=column(raw.lane[longest]),
        start=column(begin - start),
        length=column(finish - begin),
        account=column(account),
        name=[],
        path=[],
        count=column(count),
        ns=column(total),
    )
    return boxes, raw.row[longest][by_place], raw.of[longest][by_place]


def _most_time(raw: Raw, group: Rows, longest: Rows) -> NDArray[np.int64]:
    """The account with most of the time of each group."""
    width = int(raw.account.max(initial=0)) + 2
    key = group * width + raw.account + 1
    keys, place = np.unique(key, return_inverse=True)
    ns = np.bincount(place, (raw.end - raw.start).astype(np.float64), len(keys))
    order = np.lexsort((-ns, keys // width))
    best = order[np.flatnonzero(np.diff(keys[order] // width, prepend=-1))]
    assert len(best) == len(longest)
    return np.asarray(keys[best] % width - 1, np.int64)


def _used(
    names: list[str], account: NDArray[np.int64], owned: Charges, limits: Limits
) -> tuple[list[str], list[int], list[int]]:
    """The accounts that occur, the numbers of boxes' accounts among these, and what each owns.

    Of very many, those with least time become the account that they are below.
    """
    ns = owned.by_account(len(names))
    occurs = unique(np.concatenate((account[account >= 0], np.flatnonzero(ns))))
    large = occurs[np.argsort(-ns[occurs], kind="stable")[: limits.accounts]]
    label = {one: plain(names[one], limits.name) for one in large.tolist()}
    for one in occurs.tolist():
        label.setdefault(one, plain("/".join(names[one].split("/")[:2]), limits.name))
    kept = {text: number for number, text in enumerate(dict.fromkeys(label[one] for one in occurs.tolist()))}
    number = np.full(len(names) + 1, -1, np.int64)
    number[occurs] = [kept[label[one]] for one in occurs.tolist()]
    totals = np.zeros(len(kept), np.int64)
    np.add.at(totals, number[occurs], ns[occurs])
    return list(kept), number[account].tolist(), totals.tolist()
