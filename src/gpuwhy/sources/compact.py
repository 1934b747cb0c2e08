"""The compact file of a `Timeline`: NumPy arrays and one JSON document in a zip, so that a profile is parsed once.

Nothing in it is executed on reading: arrays are read without pickle, the rest is JSON. The nesting is not stored; it
follows from the calls.
"""

from __future__ import annotations

import io
import zipfile
from dataclasses import asdict, fields
from typing import Any, get_args, get_type_hints

import msgspec
import numpy as np

from gpuwhy.errors import GpuwhyError
from gpuwhy.nesting import nest
from gpuwhy.sources.open import Opened
from gpuwhy.timeline import (
    LATEST_NS,
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
    Table,
    Thread,
    Timeline,
)

VERSION = 2
MAX_RATIO = 200
"""Larger expansions are an attack, not a timeline (they reach about 8)."""
TABLES: dict[str, type[Table]] = {
    "ops": DeviceOps,
    "calls": HostCalls,
    "syncs": Syncs,
    "flows": Flows,
    "memory": MemoryEvents,
}


class _About(msgspec.Struct):
    gpuwhy_timeline: int
    origin_ns: int
    names: list[str]
    signatures: list[Signature]
    sources: list[Source]
    devices: list[Device]
    threads: list[Thread]


def write(timeline: Timeline, path: str) -> None:
    """Write a timeline; an existing file is replaced."""
    about = {
        "gpuwhy_timeline": VERSION,
        "origin_ns": timeline.origin_ns,
        "names": timeline.names,
        "signatures": timeline.signatures,
        "sources": [asdict(s) for s in timeline.sources],
        "devices": [asdict(d) for d in timeline.devices],
        "threads": [asdict(t) for t in timeline.threads],
    }
    try:
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            archive.writestr("about.json", msgspec.json.encode(about))
            for name in TABLES:
                table = getattr(timeline, name)
                for column in fields(table):
                    with archive.open(f"{name}.{column.name}.npy", "w", force_zip64=True) as out:
                        np.lib.format.write_array(out, getattr(table, column.name), allow_pickle=False)
    except OSError as error:
        raise GpuwhyError(f"{path}: cannot write: {error.strerror or error}") from None
    except RecursionError:
        raise GpuwhyError(f"{path}: cannot write: the head of the profile is nested too deep") from None


def read(opened: Opened) -> Timeline:
    """Read what `write` wrote. Raises `GpuwhyError` for any other zip."""
    data = io.BytesIO(b"".join(opened.chunks()))
    try:
        with zipfile.ZipFile(data) as archive:
            size = sum(entry.file_size for entry in archive.infolist())
            if size > MAX_RATIO * max(len(data.getbuffer()), 1 << 20):
                raise GpuwhyError(f"{opened.name}: expands more than {MAX_RATIO} times; not a timeline")
            about = msgspec.json.decode(archive.read("about.json"), type=_About)
            if about.gpuwhy_timeline != VERSION:
                raise GpuwhyError(
                    f"{opened.name}: written by another version of gpuwhy",
                    hint="explain the profile itself again",
                )
            tables: dict[str, Any] = {name: _table(archive, name, kind) for name, kind in TABLES.items()}
        _check(about, tables)
    except GpuwhyError:
        raise
    except KeyError:
        raise GpuwhyError(f"{opened.name}: a zip file, but not a timeline that gpuwhy wrote") from None
    except Exception as error:
        raise GpuwhyError(f"{opened.name}: a damaged timeline file ({type(error).__name__}: {error})") from None
    calls = tables["calls"]
    return Timeline(
        names=about.names,
        signatures=about.signatures,
        origin_ns=about.origin_ns,
        sources=tuple(about.sources),
        devices=tuple(about.devices),
        threads=tuple(about.threads),
        nesting=nest(calls.thread, calls.start, calls.end, len(about.threads)),
        **tables,
    )


def _table(archive: zipfile.ZipFile, name: str, kind: type[Table]) -> Table:
    arrays = {}
    hints = get_type_hints(kind)
    for column in fields(kind):
        dtype = np.dtype(get_args(get_args(hints[column.name])[1])[0])  # of NDArray[np.int64]: int64
        with archive.open(f"{name}.{column.name}.npy") as stream:
            array = np.lib.format.read_array(stream, allow_pickle=False)
        if array.ndim != 1 or array.dtype.newbyteorder("=") != dtype:
            raise ValueError(f"{name}.{column.name} is no column of {dtype}")
        arrays[column.name] = array.astype(dtype, copy=False)
    return kind(**arrays)


def _check(about: _About, tables: dict[str, Any]) -> None:
    """Refuse columns that do not fit together or break what `Timeline` promises (a file that somebody changed)."""
    for name, table in tables.items():
        if len({len(getattr(table, column.name)) for column in fields(table)}) != 1:
            raise ValueError(f"columns of {name} differ in length")
    ops, calls, syncs, flows, memory = (tables[name] for name in TABLES)
    names, devices, threads = len(about.names), len(about.devices), len(about.threads)
    for codes, lowest, limit in (
        *((table.name, 0, names) for table in (ops, calls, syncs)),
        (ops.device, 0, devices),
        (ops.launch, -1, len(calls)),
        (ops.kind, 0, len(OpKind)),
        (calls.thread, 0, threads),
        (calls.kind, 0, len(CallKind)),
        (calls.signature, -1, len(about.signatures)),
        *((codes, -1, threads) for codes in (flows.from_thread, flows.to_thread, memory.thread)),
    ):
        if len(codes) and (codes.max() >= limit or codes.min() < lowest):
            raise ValueError("a row number is out of range")
    for owner, table in ((ops.device, ops), (calls.thread, calls)):
        together = owner[1:] == owner[:-1]
        if (owner[1:] < owner[:-1]).any() or (table.start[1:] < table.start[:-1])[together].any():
            raise ValueError("rows are out of order")
    for table in (ops, calls, syncs):
        low, high = table.start.min(initial=0), table.end.max(initial=0)
        if (table.end < table.start).any() or low < -LATEST_NS or high > LATEST_NS:
            raise ValueError("a time is out of range")
    if not about.sources or (not len(ops) and not len(calls)):
        raise ValueError("it holds nothing")
