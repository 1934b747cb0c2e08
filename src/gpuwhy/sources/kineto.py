"""PyTorch (Kineto) Chrome traces of every era, NVIDIA and AMD: scanned events to a `Timeline` of one file.

Eras, newest first, and what tells them apart (`era`): K5 graph node ids on kernels; K4b versions of CUPTI or
roctracer in the header; K4 `baseTimeNanoseconds`; K3 `displayTimeUnit` without that base; K2 `ac2g` flows; K2a
`async_cpu_to_gpu` flows; K1 categories `Operator`, `Kernel`; K0 the same as a bare list.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from gpuwhy.arrays import unique
from gpuwhy.errors import GpuwhyError
from gpuwhy.nesting import nest
from gpuwhy.sources import columns
from gpuwhy.sources.links import Arrows, link_launches, pair_flows
from gpuwhy.sources.scan import Events
from gpuwhy.timeline import (
    MISSING,
    CallKind,
    Device,
    DeviceOps,
    Flows,
    HostCalls,
    MemoryEvents,
    OpKind,
    Source,
    Syncs,
    Thread,
    Timeline,
    sort_calls,
    sort_ops,
    with_launches,
)

LONGEST_NS = 24 * 3600 * 10**9
"""A longer call or operation is taken for damage: no profile runs for a day."""

WHOLE_MICROSECONDS = ("K0", "K1", "K2a", "K2")
"""Eras whose times are integers."""

ANNOTATION_NAMES = re.compile(r"ProfilerStep#|enumerate\(DataLoader\)#|Optimizer\.(step|zero_grad)#|## ")
"""Before 1.12 annotations were written as operators; these names tell them apart."""

Columns = dict[str, NDArray[Any]]


def timeline(events: Events, file: str, damage: str | None) -> Timeline:
    """Build the timeline of one file; `damage` says where its reading ended early.

    Raises `GpuwhyError` where the file holds events but none that a
    PyTorch profile holds.
    """
    texts = _Texts(events.texts)
    header = {key: _json(value) for key, value in events.header.items()}
    tables = events.tables
    era = _era(events, tables, header, texts)
    if not len(tables["device"]["ts"]) and not len(tables["host"]["ts"]):
        raise GpuwhyError(
            f"{file}: not a PyTorch profile: none of its {events.count:,} events is an operator or a kernel",
            hint="export one with torch.profiler: prof.export_chrome_trace('profile.json.gz')",
        )
    implausible = [_drop_implausible(tables[name]) for name in ("device", "host", "sync")]
    own = _own_rank(header)
    base = _base(header)
    zero = _earliest(tables["device"]["ts"], tables["host"]["ts"])
    threads = _Threads(texts, own or 0)
    calls = _host_calls(tables["host"], texts, threads, zero)
    ops, devices = _device_ops(tables["device"], texts, header, own or 0, zero)
    syncs = _syncs(tables["sync"], zero)
    names = texts.keep(calls.name, ops.name, syncs.name)
    calls = sort_calls(calls, names)
    ops = sort_ops(ops, names)
    flow = tables["flow"]
    launch, duplicates = link_launches(ops, devices, calls, lambda: _launch_arrows(flow, texts, threads, zero))
    nesting = nest(calls.thread, calls.start, calls.end, len(threads.known))
    source = Source(
        file=file,
        format="kineto",
        era=era,
        rank=own or 0,
        metadata={**header, "rank_known": own is not None},
        events=events.count,
        damage=damage,
        malformed=events.malformed,
        implausible=sum(implausible),
        implausible_operations=implausible[0],
        duplicate_correlations=duplicates,
        start_ns=0,
        end_ns=int(max(ops.end.max(initial=0), calls.end.max(initial=0))),
        resolution_ns=1000 if era in WHOLE_MICROSECONDS and not ((ops.start + zero) % 1000).any() else 1,
    )
    return Timeline(
        names=names,
        origin_ns=zero + base,
        sources=(source,),
        devices=devices,
        threads=tuple(threads.known),
        ops=with_launches(ops, launch),
        calls=calls,
        syncs=syncs,
        flows=_forward_to_backward(flow, texts, threads, zero),
        memory=_memory(tables["memory"], texts, threads, zero),
        nesting=nesting,
    )


class _Texts:
    """The scanner's raw JSON tokens, decoded when asked for."""

    def __init__(self, raw: Sequence[bytes]) -> None:
        self.raw = raw

    def __len__(self) -> int:
        return len(self.raw)

    def __getitem__(self, code: int) -> str:
        """The text of a token; numbers and other values as they stand in the file."""
        if code < 0:
            return ""
        raw = self.raw[code]
        if not raw.startswith(b'"'):
            return raw.decode("utf-8", "replace")
        if b"\\" not in raw:
            return raw[1:-1].decode("utf-8", "replace")
        value = _json(raw)
        return value if isinstance(value, str) else raw[1:-1].decode("utf-8", "replace")

    def where(self, codes: NDArray[np.int32], test: Any) -> NDArray[np.bool_]:
        """For each code whether its text passes `test`, asked once a text."""
        return self.lookup(codes, test, bool)

    def lookup(self, codes: NDArray[np.int32], function: Any, dtype: Any) -> NDArray[Any]:
        """`function(text)` for each code, asked once a text."""
        used = distinct(codes, len(self))
        table = np.zeros(len(self) + 1, dtype)
        for code in used.tolist():
            table[code] = function(self[code])
        table[-1] = function("")
        return table[codes]

    def keep(self, *columns_of: NDArray[np.int32]) -> list[str]:
        """Renumber name columns in place, from 0 without gaps; returns their texts."""
        used = np.zeros(len(self), bool)
        for codes in columns_of:
            used[codes[codes >= 0]] = True
        kept = np.flatnonzero(used)
        number = np.full(len(self) + 1, len(kept), np.int32)
        number[kept] = np.arange(len(kept), dtype=np.int32)
        for codes in columns_of:
            codes[:] = number[codes]
        return [*(self[code] for code in kept.tolist()), ""]


class _Threads:
    """Numbers for (process, thread) pairs in the order of their texts."""

    def __init__(self, texts: _Texts, rank: int) -> None:
        self.texts, self.rank = texts, rank
        self.known: list[Thread] = []
        self.number: dict[tuple[int, int], int] = {}

    def of(self, pid: NDArray[np.int32], tid: NDArray[np.int32], add: bool = False) -> NDArray[np.int32]:
        """The number of each pair, -1 for one that is not known and not to be added."""
        size = len(self.texts) + 1
        pids, tids = distinct(pid, size, missing=True), distinct(tid, size, missing=True)
        place = np.zeros(size + 1, np.int64)
        place[tids] = np.arange(len(tids))
        other = np.zeros(size + 1, np.int64)
        other[pids] = np.arange(len(pids))
        pair = other[pid] * len(tids) + place[tid]
        present, row = _numbered(pair, len(pids) * len(tids))
        keys = [(int(pids[i // len(tids)]), int(tids[i % len(tids)])) for i in present.tolist()]
        if add:
            new = sorted(set(keys) - self.number.keys(), key=lambda k: tuple(self.texts[c].zfill(20) for c in k))
            for key in new:
                self.number[key] = len(self.known)
                self.known.append(Thread(self.rank, self.texts[key[0]], self.texts[key[1]]))
        numbers: NDArray[np.int32] = np.array([self.number.get(key, -1) for key in keys], np.int32)[row]
        return numbers


def _numbered(codes: NDArray[np.int64], size: int) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """The different codes below `size`, ascending, and for each code its place among them."""
    if size > 10 * len(codes) + 10**6:
        present = unique(codes)
        return present, np.searchsorted(present, codes)
    present = np.flatnonzero(_seen(codes, size))
    place = np.zeros(size, np.int32)
    place[present] = np.arange(len(present))
    return present, place[codes]


def distinct(codes: NDArray[np.int32], size: int, missing: bool = False) -> NDArray[np.int64]:
    """The different codes below `size`, ascending, without sorting; -1 first if `missing` and present."""
    seen = _seen(codes[codes >= 0] if len(codes) and codes.min() < 0 else codes, size)
    found = np.flatnonzero(seen)
    return np.concatenate(([-1], found)) if missing and len(codes) and codes.min() < 0 else found


def _seen(codes: NDArray[Any], size: int) -> NDArray[np.bool_]:
    seen = np.zeros(size, bool)
    seen[codes] = True
    return seen


def _json(raw: bytes) -> Any:
    """A value of the header, or None where it cannot be read (it is then as good as absent)."""
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _era(events: Events, tables: dict[str, Columns], header: dict[str, Any], texts: _Texts) -> str:
    if events.is_list:
        return "K0"
    if (tables["device"]["graph_node"] != MISSING).any():
        return "K5"
    if any(key in header for key in ("cupti_version", "hip_runtime_version", "roctracer_version")):
        return "K4b"
    if "baseTimeNanoseconds" in header:
        return "K4"
    if "displayTimeUnit" in header:
        return "K3"
    cats = {texts[int(c)] for t in ("host", "device") for c in distinct(tables[t]["cat"], len(texts))}
    if cats & {"Operator", "Kernel", "Runtime", "Memcpy"}:
        return "K1"
    flows = {texts[int(c)] for c in distinct(tables["flow"]["cat"], len(texts))}
    return "K2a" if flows & {"async_cpu_to_gpu", "async_gpu"} else "K2"


def _base(header: dict[str, Any]) -> int:
    """The time on the wall clock that the file counts from, 0 where it counts from 1970 or says nothing sensible."""
    base = header.get("baseTimeNanoseconds")
    return base if isinstance(base, int) and not isinstance(base, bool) and 0 <= base < 2**62 else 0


def _own_rank(header: dict[str, Any]) -> int | None:
    info = header.get("distributedInfo")
    rank = info.get("rank") if isinstance(info, dict) else None
    return rank if isinstance(rank, int) and not isinstance(rank, bool) and rank >= 0 else None


def _drop_implausible(table: Columns) -> int:
    """Leave out rows without a start or with a missing, negative or absurd duration; returns how many."""
    ts, dur = table["ts"], table["dur"]
    bad = (ts == MISSING) | (dur < 0) | (dur > LONGEST_NS)
    count = int(bad.sum())
    if count:
        for key in table:
            table[key] = table[key][~bad]
    return count


def _earliest(*times: NDArray[np.int64]) -> int:
    return int(min(t.min() for t in times if len(t)))


def _host_calls(host: Columns, texts: _Texts, threads: _Threads, zero: int) -> HostCalls:
    kinds = {
        **dict.fromkeys(columns.OPERATORS, CallKind.OPERATOR),
        **dict.fromkeys((*columns.RUNTIME_CALLS, *columns.DRIVER_CALLS), CallKind.RUNTIME),
        "user_annotation": CallKind.ANNOTATION,
        "python_function": CallKind.PYTHON,
        "overhead": CallKind.OVERHEAD,
    }
    cat = host.pop("cat")
    kind = texts.lookup(cat, lambda text: kinds.get(text, CallKind.OPERATOR), np.int8)
    old = texts.where(cat, lambda text: text == "Operator")
    if old.any():
        old &= texts.where(host["name"], lambda text: ANNOTATION_NAMES.match(text) is not None)
        kind[old] = CallKind.ANNOTATION
    thread = threads.of(host.pop("pid"), host.pop("tid"), add=True)
    start = host.pop("ts") - zero
    return HostCalls(
        start=start,
        end=start + host.pop("dur"),
        kind=kind,
        name=host.pop("name"),
        thread=thread,
        correlation=host.pop("correlation"),
        external_id=host.pop("external_id"),
    )


def _device_ops(
    table: Columns, texts: _Texts, header: dict[str, Any], rank: int, zero: int
) -> tuple[DeviceOps, tuple[Device, ...]]:
    kinds = {
        **dict.fromkeys(columns.COPIES, OpKind.COPY),
        **dict.fromkeys(columns.MEMSETS, OpKind.MEMSET),
    }
    kind = texts.lookup(table["cat"], lambda text: kinds.get(text, OpKind.KERNEL), np.int8)
    number = _device_number(table["device"], texts.lookup(table["pid"], _whole, np.int64))
    stream = np.where(table["stream"] != MISSING, table["stream"], texts.lookup(table["tid"], _whole, np.int64))
    numbers, device = np.unique(number, return_inverse=True)
    start = table["ts"] - zero
    ops = DeviceOps(
        start=start,
        end=start + table["dur"],
        kind=kind,
        name=table["name"].copy(),
        device=device.astype(np.int32),
        stream=stream,
        correlation=table["correlation"],
        external_id=table["external_id"],
        launch=np.full(len(start), -1, np.int32),
        bytes=table["bytes"],
        graph_node=table["graph_node"],
    )
    return ops, tuple(Device(rank, int(n), _device_name(header, int(n))) for n in numbers)


def _device_number(device: NDArray[np.int64], process: NDArray[np.int64]) -> NDArray[np.int64]:
    """The number that the arguments or, without one, the process label gives.

    Where ranks were merged into one file their devices have one number, and process labels that tell them apart.
    """
    number: NDArray[np.int64] = np.where(device != MISSING, device, process)
    if (number != process).any():
        labels = np.unique(np.stack((number, process)), axis=1)
        if len(np.unique(labels[0])) < labels.shape[1]:
            return process
    return number


def _whole(text: str) -> int:
    """The number in a process or thread label (`0`, `stream 7`), 0 where there is none."""
    digits = re.search(r"-?\d{1,18}", text)
    return int(digits.group()) if digits else 0


def _device_name(header: dict[str, Any], number: int) -> str | None:
    """The name in `deviceProperties` (`computeProperties` before 1.9).

    AMD writes the agent's number, which is no index into that list: there a name counts only if all are equal.
    """
    listed = header.get("deviceProperties") or header.get("computeProperties")
    rows = [row for row in listed if isinstance(row, dict)] if isinstance(listed, list) else []
    names = {str(row.get("name") or "") for row in rows}
    if len(names) == 1:
        return names.pop() or None
    amd = any(key.startswith(("hip_", "roc")) for key in header) or any(row.get("warpSize") == 64 for row in rows)
    mine = [str(row.get("name") or "") for row in rows if row.get("id") == number]
    return mine[0] or None if len(mine) == 1 and not amd else None


def _syncs(table: Columns, zero: int) -> Syncs:
    start = table["ts"] - zero
    return Syncs(
        start=start,
        end=start + table["dur"],
        name=table["name"].copy(),
        device=table["device"],
        stream=table["stream"],
        correlation=table["correlation"],
        wait_on_stream=table["wait_on_stream"],
        wait_on_record=table["wait_on_record"],
    )


def _launch_arrows(flow: Columns, texts: _Texts, threads: _Threads, zero: int) -> Arrows:
    """The arrows that the file draws from launches to operations."""
    wanted = texts.where(flow["cat"], lambda text: text != "fwdbwd") & (flow["ts"] != MISSING)
    begin, finish = pair_flows(flow["id"], texts.where(flow["ph"], lambda text: text == "s"), wanted)
    return Arrows(
        thread=threads.of(flow["pid"][begin], flow["tid"][begin]),
        call_time=flow["ts"][begin] - zero,
        device=texts.lookup(flow["pid"][finish], _whole, np.int64),
        stream=texts.lookup(flow["tid"][finish], _whole, np.int64),
        op_time=flow["ts"][finish] - zero,
    )


def _forward_to_backward(flow: Columns, texts: _Texts, threads: _Threads, zero: int) -> Flows:
    wanted = texts.where(flow["cat"], lambda text: text == "fwdbwd") & (flow["ts"] != MISSING)
    begin, finish = pair_flows(flow["id"], texts.where(flow["ph"], lambda text: text == "s"), wanted)
    return Flows(
        from_thread=threads.of(flow["pid"][begin], flow["tid"][begin]),
        from_time=flow["ts"][begin] - zero,
        to_thread=threads.of(flow["pid"][finish], flow["tid"][finish]),
        to_time=flow["ts"][finish] - zero,
    )


def _memory(table: Columns, texts: _Texts, threads: _Threads, zero: int) -> MemoryEvents:
    rows = texts.where(table["name"], lambda text: text == "[memory]") & (table["ts"] != MISSING)
    return MemoryEvents(
        time=table["ts"][rows] - zero,
        thread=threads.of(table["pid"][rows], table["tid"][rows]),
        bytes=table["bytes"][rows],
        device=table["device"][rows],
        device_type=table["device_type"][rows],
        allocated=table["allocated"][rows],
        reserved=table["reserved"][rows],
    )
