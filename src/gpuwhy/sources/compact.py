"""The compact file of a `Timeline`: NumPy arrays and one JSON document in a zip, so that a profile is parsed once.

Nothing in it is executed on reading: arrays are read without pickle, the rest is JSON. The nesting is not stored; it
follows from the calls.
"""

from __future__ import annotations

import io
import zipfile
from dataclasses import asdict, fields
from typing import Any

import msgspec
import numpy as np

from gpuwhy.errors import GpuwhyError
from gpuwhy.nesting import nest
from gpuwhy.sources.open import Opened
from gpuwhy.timeline import (
    Device,
    DeviceOps,
    Flows,
    HostCalls,
    MemoryEvents,
    Source,
    Syncs,
    Table,
    Thread,
    Timeline,
)

VERSION = 1
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
    sources: list[Source]
    devices: list[Device]
    threads: list[Thread]


def write(timeline: Timeline, path: str) -> None:
    """Write a timeline; an existing file is replaced."""
    about = {
        "gpuwhy_timeline": VERSION,
        "origin_ns": timeline.origin_ns,
        "names": timeline.names,
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


def read(opened: Opened) -> Timeline:
    """Read what `write` wrote. Raises `GpuwhyError` for any other zip."""
    data = io.BytesIO(b"".join(opened.chunks()))
    try:
        with zipfile.ZipFile(data) as archive:
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
        origin_ns=about.origin_ns,
        sources=tuple(about.sources),
        devices=tuple(about.devices),
        threads=tuple(about.threads),
        nesting=nest(calls.thread, calls.start, calls.end, len(about.threads)),
        **tables,
    )


def _table(archive: zipfile.ZipFile, name: str, kind: type[Table]) -> Table:
    arrays = {}
    for column in fields(kind):
        with archive.open(f"{name}.{column.name}.npy") as stream:
            arrays[column.name] = np.lib.format.read_array(stream, allow_pickle=False)
    return kind(**arrays)


def _check(about: _About, tables: dict[str, Any]) -> None:
    """Refuse columns that do not fit together (a file that somebody changed)."""
    for name, table in tables.items():
        lengths = {len(getattr(table, column.name)) for column in fields(table)}
        kinds = {getattr(table, column.name).dtype.kind for column in fields(table)}
        if len(lengths) != 1 or kinds != {"i"}:
            raise ValueError(f"columns of {name} do not match")
    for codes, limit in (
        (tables["ops"].name, len(about.names)),
        (tables["calls"].name, len(about.names)),
        (tables["syncs"].name, len(about.names)),
        (tables["ops"].device, len(about.devices)),
        (tables["calls"].thread, len(about.threads)),
        (tables["ops"].launch, len(tables["calls"])),
    ):
        if len(codes) and (codes.max() >= limit or codes.min() < -1):
            raise ValueError("a row number is out of range")
