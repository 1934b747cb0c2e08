"""What a device can really do: the value, the folder in which measurements are kept, and which one a report uses.

FLOP/s and bytes/s are plain numbers per second, times are nanoseconds, clocks MHz. Unknown is None, never 0.
Knows neither torch nor the driver: choosing costs the reading of a few small files.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Literal

import msgspec

from gpuwhy.errors import GpuwhyError
from gpuwhy.roofline import published

Note = Callable[[str], None]

LARGEST_FIGURE = 10**24
"""FLOP/s or bytes/s; what is larger (or below 1) is damage, and would not survive a division."""
LARGEST_FILE = 1_000_000
"""Bytes; what is larger was not written by `save`."""


class Spread(msgspec.Struct, frozen=True, kw_only=True):
    """A figure over the rounds of its measurement: the median, and the 10th and 90th percentile."""

    low: float
    mid: float
    high: float


class Matmul(msgspec.Struct, frozen=True, kw_only=True):
    """A product of two square matrices of `size` × `size`."""

    precision: str
    size: int
    flops_per_s: Spread


class Dram(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes/s of the device's memory. A copy counts what it reads and what it writes."""

    read: Spread | None = None
    write: Spread | None = None
    copy: Spread | None = None


class L2(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes/s of reads that the second-level cache answers."""

    buffer_bytes: int
    read: Spread


class Links(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes/s between host and device."""

    h2d_pinned: Spread | None = None
    h2d_pageable: Spread | None = None
    d2h_pinned: Spread | None = None
    d2h_pageable: Spread | None = None


class Launch(msgspec.Struct, frozen=True, kw_only=True):
    """What it costs to start work, in ns."""

    eager_ns: Spread | None = None
    """Host time of one tiny operator, while the device keeps up."""
    graph_node_ns: Spread | None = None
    """From one node of a CUDA graph to the next, in a chain of tiny kernels."""
    kernel_ns: Spread | None = None
    """Duration of such a kernel, as a profile shows it."""


class Peer(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes/s from one device of this host to another."""

    source: int
    target: int
    direct: bool
    """Whether the devices reach each other's memory; otherwise the copy goes through the host."""
    bytes_per_s: Spread


class AllReduce(msgspec.Struct, frozen=True, kw_only=True):
    """NCCL (RCCL) over all visible devices. Bus bandwidth as nccl-tests define it: 2 (n - 1) / n × bytes / time."""

    devices: int
    bytes: int
    bus_bytes_per_s: Spread


class Range(msgspec.Struct, frozen=True, kw_only=True):
    """What was seen of a clock, in MHz."""

    min: float
    median: float
    max: float


class Clocks(msgspec.Struct, frozen=True, kw_only=True):
    """Clocks while the device was measured, and what held them down."""

    sm: Range | None = None
    memory: Range | None = None
    throttled: list[str] | None = None
    """Reasons that the driver gave at least once; None: it does not say."""


class Details(msgspec.Struct, frozen=True, kw_only=True):
    """All figures of a measurement, and under what they were taken."""

    measured_at: str
    """UTC, ISO 8601."""
    torch: str
    driver: str | None = None
    cuda: str | None = None
    """Version of CUDA (or HIP) that torch was built with."""
    capability: str | None = None
    """Compute capability (`9.0`), or the architecture of an AMD device (`gfx942`)."""
    clocks_mhz: Clocks = Clocks()
    matmul: list[Matmul] = []
    """In short rounds with rests between, at the clocks that a mixed load has."""
    sustained: Matmul | None = None
    """Without rests: what the power limit leaves."""
    dram: Dram = Dram()
    l2: L2 | None = None
    links: Links = Links()
    launch: Launch = Launch()
    peers: list[Peer] | None = None
    nccl: AllReduce | None = None
    notes: list[str] = []
    """What could not be measured and why, and what else to know."""


class Ceilings(msgspec.Struct, frozen=True, kw_only=True):
    """What one device can do, measured or published."""

    schema: Literal[1] = 1
    device: str
    """The name, as the driver reports it."""
    sm_count: int | None
    how: Literal["measured", "published"]
    source: str
    """Where the figures come from, for a report."""
    flops: dict[str, float]
    """FLOP/s by precision; a precision that is not known is absent. `fp32` is without TF32, `fp64` what torch's
    product reaches, through whatever units."""
    dram_bytes_per_s: float
    """What an operation can move: measured, the larger of read and copy; published, the data sheet's."""
    l2_bytes: int | None
    l2_bytes_per_s: float | None
    details: Details | None = None
    """Only of a measurement."""

    def peak(self, precision: str) -> float | None:
        """FLOP/s of matrix products in a precision; None where that is not known."""
        return peak(self.flops, precision)


def peak(flops: Mapping[str, float], precision: str) -> float | None:
    """FLOP/s of matrix products: in fp64, published apart for vector and matrix units, those of the faster ones."""
    return max(filter(None, (flops.get(precision), flops.get(f"{precision}_tensor"))), default=None)


# ---- The choice ----


def choose(name: str | None, sm_count: int | None = None, on_note: Note | None = None) -> Ceilings | None:
    """The ceilings of a device: measured ones of the same name and SM count if kept, else published ones, else None.

    Without an SM count a measurement counts only if it is the only one of that name: a slice of a device has the
    device's name on some systems, and a fraction of its ceilings.
    """
    if not name:
        return None
    kept = [one for one in load_all(on_note) if one.device == name and sm_count in (None, one.sm_count)]
    if len({one.sm_count for one in kept}) == 1:
        return max(kept, key=_when)
    row = published.find(name, sm_count)
    return None if row is None else from_published(row, name)


def from_published(row: published.Published, name: str) -> Ceilings:
    """A published row as the ceilings of the device of that name."""
    return Ceilings(
        device=name,
        sm_count=row.sm_count,
        how="published",
        source=f"published dense peaks of the {row.name}",
        flops=dict(row.flops),
        dram_bytes_per_s=row.dram_bytes_per_s,
        l2_bytes=row.l2_bytes,
        l2_bytes_per_s=None,
    )


def _when(ceilings: Ceilings) -> str:
    return ceilings.details.measured_at if ceilings.details else ""


# ---- The folder ----


def folder() -> Path:
    """Where measurements are kept; it need not exist."""
    own, caches = os.environ.get("GPUWHY_CACHE"), os.environ.get("XDG_CACHE_HOME", "")
    if own:
        return Path(own)
    if os.path.isabs(caches):  # the XDG specification: a relative path is to be ignored
        return Path(caches) / "gpuwhy"
    try:
        home = Path.home()
    except RuntimeError:
        raise GpuwhyError("this user has no home folder", hint="name a folder in GPUWHY_CACHE") from None
    if sys.platform == "darwin":
        return home / "Library" / "Caches" / "gpuwhy"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local") / "gpuwhy" / "Cache"
    return home / ".cache" / "gpuwhy"


def file_of(device: str, sm_count: int | None) -> Path:
    """The file of a device. A slice of it (MIG) has fewer SMs, and is another device."""
    plain = device.replace(" ", "_")
    safe = re.sub(r"[^A-Za-z0-9_.+-]", "-", plain)[:100]
    if safe != plain:  # two names must never share a file
        safe += f"-{zlib.crc32(device.encode('utf-8', 'replace')):08x}"
    return folder() / f"ceilings-{safe}-{'unknown' if sm_count is None else sm_count}sm.json"


def save(ceilings: Ceilings) -> Path:
    """Keep a measurement: the file is there as a whole or, after any failure, as it was before."""
    path = file_of(ceilings.device, ceilings.sm_count)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".ceilings-", suffix=".tmp")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(encode(ceilings).encode())
            os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
    except OSError as error:
        raise GpuwhyError(
            f"{path}: cannot keep the measurement: {error.strerror or error}",
            hint="name a folder that can be written in GPUWHY_CACHE",
        ) from None
    return path


def load_all(on_note: Note | None = None) -> list[Ceilings]:
    """All measurements that are kept, by name. A file that is none is passed over, with a note."""
    note = on_note or (lambda _: None)
    found = []
    try:
        paths = sorted(folder().glob("ceilings-*.json"))
    except (GpuwhyError, OSError) as error:
        note(f"kept ceilings cannot be read: {error}")
        return []
    for path in paths:
        try:
            found.append(load(path))
        except GpuwhyError as error:
            note(f"{error.message}; it is ignored")
    return sorted(found, key=lambda one: (one.device, one.sm_count or 0, _when(one)))


def load(path: Path) -> Ceilings:
    """Read one measurement."""
    try:
        if not path.is_file():  # opening a pipe would wait for its writer
            raise GpuwhyError(f"{path}: not a file")
        with open(path, "rb") as file:
            data = file.read(LARGEST_FILE + 1)
        if len(data) > LARGEST_FILE:
            raise GpuwhyError(f"{path}: too large for ceilings")
        ceilings = msgspec.json.decode(data, type=Ceilings)
    except OSError as error:
        raise GpuwhyError(f"{path}: cannot be read: {error.strerror or error}") from None
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise GpuwhyError(f"{path}: not kept ceilings of this version of gpuwhy ({error})") from None
    if ceilings.how != "measured" or not _plausible(ceilings):
        raise GpuwhyError(f"{path}: does not hold measured ceilings")
    return ceilings


def _plausible(ceilings: Ceilings) -> bool:
    """Whether one may divide by the figures."""
    optional = [
        number for number in (ceilings.sm_count, ceilings.l2_bytes, ceilings.l2_bytes_per_s) if number is not None
    ]
    figures: Iterable[float] = [*ceilings.flops.values(), ceilings.dram_bytes_per_s, *optional]
    return bool(ceilings.device) and all(1 <= figure <= LARGEST_FIGURE for figure in figures)


def encode(value: Ceilings | list[Ceilings]) -> str:
    """Ceilings as indented JSON with a final newline: what is kept, and what `--json` writes."""
    return msgspec.json.format(msgspec.json.encode(value), indent=1).decode() + "\n"
