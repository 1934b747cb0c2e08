"""Work of operators on long lists of tensors (optimizers), whose shapes PyTorch does not record.

How many elements they go over follows from two independent recordings: the gradients that were accumulated before the
call have shapes, and the kernels of these operators take 65,536 elements a block, so that their blocks must be as many
as those gradients need. Only where both agree is the number believed.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from gpuwhy.arrays import by_value
from gpuwhy.roofline.arguments import ITEM_SIZES, Arguments, Tensor, arguments
from gpuwhy.roofline.operators import Work, optimizers, work_of
from gpuwhy.timeline import MISSING, CallKind, Timeline

CHUNK = 65536
"""Elements a block of `multi_tensor_apply` (kChunkSize in PyTorch's MultiTensorApply.cuh)."""
ON_LISTS = re.compile(r"aten::_(fused|foreach)_\w+$")
COUNTERS = re.compile(r"aten::_foreach_(add|sub)_?$")
ACCUMULATED = "torch::autograd::AccumulateGrad"


def on_long_lists(timeline: Timeline, owner: NDArray[np.int64], replay: NDArray[np.int64]) -> dict[int, Work]:
    """The work of calls, among the owners of operations, that only their blocks tell."""
    calls = timeline.calls
    table = timeline.names_like(ON_LISTS)
    rows = np.flatnonzero((owner >= 0) & (timeline.ops.blocks != MISSING))
    rows = rows[table[calls.name[owner[rows]]]]
    if len(rows):  # of a call that is replayed, one replay
        _, place = np.unique(owner[rows], return_inverse=True)
        first = np.full(int(place.max()) + 1, np.iinfo(np.int64).max)
        np.minimum.at(first, place, replay[rows])
        rows = rows[replay[rows] == first[place]]
    blocks = {call: int(timeline.ops.blocks[rows[some]].sum()) for call, some in by_value(owner[rows])}
    gradients = _gradients(timeline)
    rank = [thread.rank for thread in timeline.threads]
    read: dict[int, Arguments | None] = {}  # the arguments with lists that are too long, None for others
    found: dict[int, Work] = {}
    known: dict[tuple[int, int, int], Work] = {}  # by what such a call had before, where its gradients are not recorded
    worked: dict[tuple[int, int, tuple[int, int]], Work | None] = {}
    for call in sorted(blocks, key=lambda row: int(calls.start[row])):
        number = int(calls.signature[call])
        if number not in read:
            whole = arguments(timeline.signatures[number])
            read[number] = whole if whole is not None and [] in whole.items else None
        of = read[number]
        if of is None:
            continue
        key = rank[calls.thread[call]], int(calls.name[call]), blocks[call]
        own = gradients.get(rank[calls.thread[call]])
        counts = COUNTERS.match(timeline.names[calls.name[call]]) is not None
        elements = own.before(int(calls.start[call]), blocks[call], counts) if own is not None else None
        work = known.get(key)
        if elements is not None:
            same = int(calls.name[call]), number, elements
            if same not in worked:
                name = timeline.names[calls.name[call]]
                worked[same] = work_of(name, _filled(name, of, elements[0]), elements[1])
            work = worked[same]
        if work is not None:
            found[call] = known[key] = work
    return found


class _Gradients:
    """Accumulated gradients by time: their ends, elements, bytes an element and blocks."""

    def __init__(self, end: NDArray[np.int64], count: NDArray[np.int64], item: NDArray[np.int64]) -> None:
        order = np.argsort(end, kind="stable")
        self.end, self.count, self.item = end[order].tolist(), count[order], item[order]
        self.blocks_up_to = np.append(0, np.cumsum(-(-self.count // CHUNK)))
        self.changes_up_to = np.append(0, np.cumsum(np.diff(self.item, prepend=self.item[:1]) != 0))
        self.since = 0  # first gradient after the last step

    def before(self, start: int, blocks: int, counts: bool) -> tuple[int, int] | None:
        """Elements, and bytes an element, of the gradients that a call with so many blocks goes over.

        They are those since the last step; several backward passes accumulate the same ones again. A call that may
        count (`counts`) can also have one number a tensor, such as its steps. To be asked in the order of time.
        """
        high = bisect_right(self.end, start)
        low = self.since if self.since < high else 0
        total = int(self.blocks_up_to[high] - self.blocks_up_to[low])
        if total <= 0 or blocks <= 0 or self.changes_up_to[high] != self.changes_up_to[low + 1]:
            return None
        passes = total // blocks
        if total % blocks == 0 and self._repeat(low, high, passes):
            self.since = high
            return int(self.count[low:high].sum()) // passes, int(self.item[low])
        if counts and (high - low) % blocks == 0:
            return blocks, 4
        return None

    def _repeat(self, low: int, high: int, passes: int) -> bool:
        """Whether the gradients are the same ones that many times, in any order of each time."""
        if (high - low) % passes:
            return False
        each = np.sort(self.count[low:high].reshape(passes, -1), axis=1)
        return bool((each == each[0]).all())


def _gradients(timeline: Timeline) -> dict[int, _Gradients]:
    """By rank."""
    calls = timeline.calls
    marks = np.array([name == ACCUMULATED for name in timeline.names], bool)
    rows = np.flatnonzero((calls.kind == CallKind.OPERATOR) & marks[calls.name] & (calls.signature >= 0))
    sizes = np.zeros((len(timeline.signatures), 2), np.int64)
    for number in set(calls.signature[rows].tolist()):
        of = arguments(timeline.signatures[number])
        tensor = of.tensor(0) if of is not None else None
        sizes[number] = (tensor.count, ITEM_SIZES[tensor.type]) if tensor is not None else (0, 0)
    count, item = sizes[calls.signature[rows]].T
    rank = np.array([thread.rank for thread in timeline.threads], np.int64)[calls.thread[rows]]
    return {one: _Gradients(calls.end[rows[some]], count[some], item[some]) for one, some in by_value(rank)}


def _filled(name: str, of: Arguments, elements: int) -> Arguments:
    """The arguments with one long tensor in place of each list that was not recorded."""
    stand_in = [Tensor((elements,), "")]
    places = [place for place, item in enumerate(of.items) if item == []]
    if name.startswith("aten::_fused_"):
        places = places[: optimizers.lists_of(name, of)]
    items = list(of.items)
    for place in places:
        items[place] = stand_in
    return replace(of, items=tuple(items))
