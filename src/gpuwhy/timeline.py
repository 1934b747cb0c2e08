"""What happened: the columns that every later stage reads, whatever format they came from.

Times are int64 nanoseconds after `Timeline.origin_ns`. A name is an int32 into `Timeline.names`. Rows of `ops` are
sorted by (device, start, end, name), rows of `calls` by (thread, start, outer before inner). A missing integer is
`MISSING`, a missing row number -1.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, fields
from enum import IntEnum
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from gpuwhy.arrays import unique
from gpuwhy.intervals import Times
from gpuwhy.nesting import Nesting

MISSING = -(2**63)
"""An integer or a time that the file does not give (missing is not zero)."""
LATEST_NS = 9 * 10**18
"""No time is later than this (285 years), so that sums of a time and a duration fit into int64."""


class OpKind(IntEnum):
    """What runs on a device."""

    KERNEL = 0
    COPY = 1
    MEMSET = 2


class CallKind(IntEnum):
    """What runs on a host thread; the order is also outer before inner for calls that cover the same time."""

    ANNOTATION = 0
    PYTHON = 1
    OPERATOR = 2
    RUNTIME = 3
    OVERHEAD = 4


T = TypeVar("T", bound="Table")


@dataclass(frozen=True, eq=False)
class Table:
    """NumPy columns of equal length."""

    def __len__(self) -> int:
        first: NDArray[Any] = getattr(self, fields(self)[0].name)
        return len(first)

    def take(self: T, rows: Any) -> T:
        """The given rows of every column."""
        return type(self)(**{f.name: getattr(self, f.name)[rows] for f in fields(self)})

    @classmethod
    def concatenate(cls: type[T], tables: list[T]) -> T:
        """The rows of all tables, one after the other."""
        return cls(**{f.name: np.concatenate([getattr(t, f.name) for t in tables]) for f in fields(cls)})


@dataclass(frozen=True, eq=False)
class DeviceOps(Table):
    """Kernels, copies and memsets. `launch` is the row in `HostCalls` that enqueued it, or -1.

    A kernel's grid has `blocks` blocks of `threads` threads each.
    """

    start: Times
    end: Times
    kind: NDArray[np.int8]
    name: NDArray[np.int32]
    device: NDArray[np.int32]
    stream: NDArray[np.int64]
    correlation: NDArray[np.int64]
    external_id: NDArray[np.int64]
    launch: NDArray[np.int32]
    bytes: NDArray[np.int64]
    graph_node: NDArray[np.int64]
    blocks: NDArray[np.int64]
    threads: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class HostCalls(Table):
    """Operators, runtime and driver calls, annotations and Python frames.

    `signature` is a row of `Timeline.signatures`, or -1 where no arguments were recorded.
    """

    start: Times
    end: Times
    kind: NDArray[np.int8]
    name: NDArray[np.int32]
    thread: NDArray[np.int32]
    correlation: NDArray[np.int64]
    external_id: NDArray[np.int64]
    signature: NDArray[np.int32]


class Signature(NamedTuple):
    """The arguments of an operator as the file writes them (JSON lists, one item an argument); "" where absent."""

    dims: str
    types: str
    strides: str
    values: str


@dataclass(frozen=True, eq=False)
class Syncs(Table):
    """Waits as the device saw them (`cuda_sync`): not work, but edges between streams."""

    start: Times
    end: Times
    name: NDArray[np.int32]
    device: NDArray[np.int64]
    stream: NDArray[np.int64]
    correlation: NDArray[np.int64]
    wait_on_stream: NDArray[np.int64]
    wait_on_record: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Flows(Table):
    """Arrows from forward to backward operators: both ends, by thread and time."""

    from_thread: NDArray[np.int32]
    from_time: Times
    to_thread: NDArray[np.int32]
    to_time: Times


@dataclass(frozen=True, eq=False)
class MemoryEvents(Table):
    """Allocations (`bytes` > 0) and frees on a thread; totals are after the event, in bytes."""

    time: Times
    thread: NDArray[np.int32]
    bytes: NDArray[np.int64]
    device: NDArray[np.int64]
    device_type: NDArray[np.int64]
    allocated: NDArray[np.int64]
    reserved: NDArray[np.int64]


@dataclass(frozen=True)
class Device:
    """A GPU: the rank of its file, its number in the file, its name, its multiprocessors (SMs or CUs) and its memory.

    None is what the file does not say.
    """

    rank: int
    number: int
    name: str | None
    sm_count: int | None = None
    memory_bytes: int | None = None


@dataclass(frozen=True)
class Thread:
    """A host thread: the rank of its file, process and thread as the file writes them."""

    rank: int
    process: str
    thread: str


@dataclass(frozen=True)
class Source:
    """One file: where it came from, what it said about itself, and what of it could not be used.

    `resolution_ns` is the unit in which it writes times: what is smaller than that is rounding. `implausible` events
    have no usable time, `implausible_operations` of them would be device operations.
    """

    file: str
    format: str
    era: str
    rank: int
    metadata: dict[str, Any] = field(default_factory=dict)
    events: int = 0
    damage: str | None = None
    malformed: int = 0
    implausible: int = 0
    implausible_operations: int = 0
    duplicate_correlations: int = 0
    start_ns: int = 0
    end_ns: int = 0
    resolution_ns: int = 1


@dataclass(frozen=True, eq=False)
class Timeline:
    """Everything that one or more files recorded. `origin_ns` is the time zero on the files' own clock."""

    names: list[str]
    signatures: list[Signature]
    origin_ns: int
    sources: tuple[Source, ...]
    devices: tuple[Device, ...]
    threads: tuple[Thread, ...]
    ops: DeviceOps
    calls: HostCalls
    syncs: Syncs
    flows: Flows
    memory: MemoryEvents
    nesting: Nesting

    def names_like(self, pattern: re.Pattern[str]) -> NDArray[np.bool_]:
        """For each name whether its beginning matches, asked once a name: an array to index by name codes."""
        return np.array([pattern.match(name) is not None for name in self.names], bool)

    def ops_of(self, device: int) -> slice:
        """The rows of `ops` on one device (an index into `devices`)."""
        low, high = np.searchsorted(self.ops.device, [device, device + 1])
        return slice(int(low), int(high))

    def calls_of(self, thread: int) -> slice:
        """The rows of `calls` on one thread (an index into `threads`)."""
        low, high = np.searchsorted(self.calls.thread, [thread, thread + 1])
        return slice(int(low), int(high))

    def piece_at(self, calls: NDArray[Any]) -> NDArray[np.int32]:
        """The innermost piece of the nesting that is open when each call starts (its own, if it has one), or -1."""
        return self.nesting.open_at(self.calls.thread[calls].astype(np.int64), self.calls.start[calls])

    def path(self, piece: int, longest: int) -> list[int]:
        """The rows of `calls` around a piece, innermost first, itself included; at most `longest`."""
        rows: list[int] = []
        while piece >= 0 and len(rows) < longest:
            rows.append(int(self.nesting.call[piece]))
            piece = int(self.nesting.parent[piece])
        return rows

    def save(self, path: str) -> None:
        """Write everything to one compact file that `gpuwhy.load` and `gpuwhy explain` read again."""
        from gpuwhy.sources.compact import write

        write(self, path)


def sort_calls(calls: HostCalls, names: list[str]) -> HostCalls:
    """Calls by (thread, start, outer before inner).

    Of two calls with one start the longer is the outer one; of two that cover the same time, by kind (annotation,
    frame, operator, runtime call), then by name, so that the order in the file does not matter.
    """
    order = np.argsort(
        calls.thread.astype(np.int16 if calls.thread.max(initial=0) < 2**15 else np.int32), kind="stable"
    )
    start = calls.start[order]
    bounds = np.flatnonzero(np.diff(calls.thread[order])) + 1
    for low, high in zip([0, *bounds.tolist()], [*bounds.tolist(), len(order)], strict=True):
        if high > low and (np.diff(start[low:high]) < 0).any():
            order[low:high] = order[low:high][np.argsort(start[low:high], kind="stable")]
    start, thread = calls.start[order], calls.thread[order]
    tied = np.zeros(len(order), bool)
    same = (start[1:] == start[:-1]) & (thread[1:] == thread[:-1])
    tied[1:] |= same
    tied[:-1] |= same
    rows = np.flatnonzero(tied)
    if len(rows):
        some = order[rows]
        rank = _alphabetical(calls.name[some], names)
        order[rows] = some[
            np.lexsort((-rank, calls.kind[some], -calls.end[some], calls.start[some], calls.thread[some]))
        ]
    return calls.take(order)


def sort_ops(ops: DeviceOps, names: list[str]) -> DeviceOps:
    """Operations by (device, start, end, name)."""
    rank = _alphabetical(ops.name, names)
    return ops.take(np.lexsort((rank, ops.end, ops.start, ops.device)))


def _alphabetical(codes: NDArray[np.int32], names: list[str]) -> NDArray[np.int32]:
    """A number for each code that sorts as its name does."""
    used = unique(codes)
    ranked = sorted(used.tolist(), key=names.__getitem__)
    rank = np.zeros(len(names), np.int32)
    rank[ranked] = np.arange(len(ranked))
    return rank[codes]
