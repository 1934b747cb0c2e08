"""PyTorch (Kineto) Chrome traces of every era, NVIDIA and AMD: scanned events to a `Timeline` of one file.

Eras, newest first, and what tells them apart (`era`): K5 graph node ids on kernels; K4b versions of CUPTI or
roctracer in the header; K4 `baseTimeNanoseconds`; K3 `displayTimeUnit` without that base; K2 `ac2g` flows; K2a
`async_cpu_to_gpu` flows; K1 categories `Operator`, `Kernel`; K0 the same as a bare list.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuwhy.arrays import combined
from gpuwhy.errors import GpuwhyError
from gpuwhy.nesting import nest
from gpuwhy.sources import columns
from gpuwhy.sources.links import Arrows, link_launches, pair_flows
from gpuwhy.sources.scan import Events
from gpuwhy.sources.texts import LONGEST_NAME, Texts, Threads, distinct, json_value
from gpuwhy.timeline import (
    MISSING,
    CallKind,
    Device,
    DeviceOps,
    Flows,
    HostCalls,
    MemoryEvents,
    OpKind,
    Signature,
    Source,
    Syncs,
    Timeline,
    sort_calls,
    sort_ops,
)

EXPORT_HINT = "export one with torch.profiler: prof.export_chrome_trace('profile.json.gz')"
LONGEST_NS = 24 * 3600 * 10**9
"""A longer call or operation is taken for damage: no profile runs for a day."""
FARTHEST_NS = 2 * 10**18
"""A start that lies further (63 years) from the middle one is taken for damage, and sums of times fit into int64."""

MOST_BLOCKS = 2**48
"""A grid of more blocks is damage: it would run for days."""

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
    texts = Texts(events.texts)
    header = {key: json_value(value) for key, value in events.header.items()}
    tables = events.tables
    era = _era(events, tables, header, texts)
    if not len(tables["device"]["ts"]) and not len(tables["host"]["ts"]):
        raise GpuwhyError(
            f"{file}: not a PyTorch profile: none of its {events.count:,} events is an operator or a kernel",
            hint=EXPORT_HINT,
        )
    implausible = _drop_implausible([tables[name] for name in ("device", "host", "sync")])
    if not len(tables["device"]["ts"]) and not len(tables["host"]["ts"]):
        raise GpuwhyError(
            f"{file}: none of its operators and kernels has a usable time (absent, negative, or far from all others)",
            hint=EXPORT_HINT,
        )
    own = _own_rank(header)
    base = base_ns(header)
    zero = _earliest(tables["device"]["ts"], tables["host"]["ts"])
    threads = Threads(texts, own or 0)
    calls, signatures = _host_calls(tables["host"], texts, threads, zero)
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
        signatures=signatures,
        origin_ns=zero + base,
        sources=(source,),
        devices=devices,
        threads=tuple(threads.known),
        ops=replace(ops, launch=launch),
        calls=calls,
        syncs=syncs,
        flows=_forward_to_backward(flow, texts, threads, zero),
        memory=_memory(tables["memory"], texts, threads, zero),
        nesting=nesting,
    )


def _era(events: Events, tables: dict[str, Columns], header: dict[str, Any], texts: Texts) -> str:
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


def base_ns(header: dict[str, Any]) -> int:
    """The time on the wall clock that the file counts from, 0 where it counts from 1970 or says nothing sensible."""
    base = header.get("baseTimeNanoseconds")
    return base if isinstance(base, int) and not isinstance(base, bool) and 0 <= base < 2**62 else 0


def _own_rank(header: dict[str, Any]) -> int | None:
    info = header.get("distributedInfo")
    rank = info.get("rank") if isinstance(info, dict) else None
    return rank if isinstance(rank, int) and not isinstance(rank, bool) and rank >= 0 else None


def _drop_implausible(tables: Sequence[Columns]) -> list[int]:
    """Leave out rows without a start, or one decades away, or with no sensible duration; how many of each table."""
    counts = []
    for table in tables:
        ts, dur = table["ts"], table["dur"]
        counts.append(_drop(table, (ts == MISSING) | (dur < 0) | (dur > LONGEST_NS)))
    starts = [table["ts"] for table in tables if len(table["ts"])]
    if not starts or max(int(ts.max()) for ts in starts) - min(int(ts.min()) for ts in starts) <= FARTHEST_NS:
        return counts
    ordered = np.sort(np.concatenate(starts))
    middle = int(ordered[len(ordered) // 2])
    low, high = max(middle - FARTHEST_NS, MISSING), min(middle + FARTHEST_NS, 2**63 - 1)
    return [
        count + _drop(table, (table["ts"] < low) | (table["ts"] > high))
        for count, table in zip(counts, tables, strict=True)
    ]


def _drop(table: Columns, bad: NDArray[np.bool_]) -> int:
    count = int(bad.sum())
    if count:
        for key in table:
            table[key] = table[key][~bad]
    return count


def _earliest(*times: NDArray[np.int64]) -> int:
    return int(min(t.min() for t in times if len(t)))


def _host_calls(host: Columns, texts: Texts, threads: Threads, zero: int) -> tuple[HostCalls, list[Signature]]:
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
    signature, signatures = _signatures([host.pop(key) for key in Signature._fields], texts)
    calls = HostCalls(
        start=start,
        end=start + host.pop("dur"),
        kind=kind,
        name=host.pop("name"),
        thread=thread,
        correlation=host.pop("correlation"),
        external_id=host.pop("external_id"),
        signature=signature,
    )
    return calls, signatures


def _signatures(arguments: list[NDArray[np.int32]], texts: Texts) -> tuple[NDArray[np.int32], list[Signature]]:
    """For each call the number of its signature, -1 without shapes; and the signatures."""
    number = np.full(len(arguments[0]), -1, np.int32)
    known = np.flatnonzero(arguments[0] >= 0)
    if not len(known):
        return number, []
    shaped = [column[known] for column in arguments]
    first, kind = combined(list(shaped))
    number[known] = kind
    return number, [Signature(*(texts[int(column[row])] for column in shaped)) for row in first.tolist()]


def _device_ops(
    table: Columns, texts: Texts, header: dict[str, Any], rank: int, zero: int
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
        blocks=texts.lookup(table["grid"], _product, np.int64),
        threads=texts.lookup(table["block"], _product, np.int64),
    )
    properties = _device_properties(header)
    return ops, tuple(_device(rank, int(number), properties(int(number))) for number in numbers)


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


def _product(text: str) -> int:
    """The product of the positive integers in `[64, 1, 1]`, MISSING for anything else."""
    sizes = json_value(text.encode()) if text else None
    if not isinstance(sizes, list) or not 0 < len(sizes) <= 3:
        return MISSING
    if not all(isinstance(size, int) and 0 < size < 2**31 for size in sizes):
        return MISSING
    product = math.prod(sizes)
    return product if product < MOST_BLOCKS else MISSING


def _device(rank: int, number: int, properties: dict[str, Any]) -> Device:
    def positive(key: str) -> int | None:
        value = properties.get(key)
        return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 2**60 else None

    name = str(properties.get("name") or "")[:LONGEST_NAME]
    return Device(rank, number, name or None, positive("numSms"), positive("totalGlobalMem"))


def _device_properties(header: dict[str, Any]) -> Callable[[int], dict[str, Any]]:
    """What `deviceProperties` (`computeProperties` before 1.9) says of a device's number; nothing where it is not told.

    AMD writes the agent's number, which is no index into that list: there they count only if all are of one model.
    """
    listed = header.get("deviceProperties") or header.get("computeProperties")
    rows = [row for row in listed if isinstance(row, dict)] if isinstance(listed, list) else []
    models = {(str(row.get("name") or ""), str(row.get("numSms"))) for row in rows}
    if len(models) == 1:
        return lambda _: rows[0]
    if len({name for name, _ in models}) == 1:  # slices of one model differ in size
        return lambda _: {"name": rows[0].get("name")}
    if any(key.startswith(("hip_", "roc")) for key in header) or any(row.get("warpSize") == 64 for row in rows):
        return lambda _: {}
    of: dict[int, dict[str, Any]] = {}
    for row in rows:
        if isinstance(number := row.get("id"), int):
            of[number] = {} if number in of else row
    return lambda number: of.get(number, {})


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


def _launch_arrows(flow: Columns, texts: Texts, threads: Threads, zero: int) -> Arrows:
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


def _forward_to_backward(flow: Columns, texts: Texts, threads: Threads, zero: int) -> Flows:
    wanted = texts.where(flow["cat"], lambda text: text == "fwdbwd") & (flow["ts"] != MISSING)
    begin, finish = pair_flows(flow["id"], texts.where(flow["ph"], lambda text: text == "s"), wanted)
    return Flows(
        from_thread=threads.of(flow["pid"][begin], flow["tid"][begin]),
        from_time=flow["ts"][begin] - zero,
        to_thread=threads.of(flow["pid"][finish], flow["tid"][finish]),
        to_time=flow["ts"][finish] - zero,
    )


def _memory(table: Columns, texts: Texts, threads: Threads, zero: int) -> MemoryEvents:
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
