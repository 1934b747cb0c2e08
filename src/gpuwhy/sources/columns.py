"""Which fields of a Chrome-trace event are kept, in which table, as what.

One specification for both scanners (the compiled one and the Python one): an event goes to the table of the
first rule that matches its `cat` and `ph`, and there each listed field becomes one NumPy column. Everything else
in the file is passed over without being kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class Kind(IntEnum):
    """What a field becomes; `gpuwhy.timeline.MISSING` where NS or INT have no number."""

    NS = 0
    """A decimal number of microseconds, read as text, to int64 nanoseconds (rounded half to even)."""
    INT = 1
    """An integer (or a string that holds one) to int64."""
    CODE = 2
    """Any value: its raw JSON text to an int32 code into `Events.texts`; -1 where absent."""


@dataclass(frozen=True)
class Column:
    """One column: the key in the event (or, with `in_args`, in its `args`) and what it becomes.

    Several keys may feed one column (`External id`, `external id`): the last one present in the event wins.
    """

    name: str
    keys: tuple[str, ...]
    kind: Kind
    in_args: bool = False


@dataclass(frozen=True)
class Table:
    """Events of some categories and phases; `cats` may hold '' for an event without `cat`."""

    name: str
    cats: tuple[str, ...]
    phases: tuple[str, ...]
    columns: tuple[Column, ...]


def _arg(name: str, *keys: str, kind: Kind = Kind.INT) -> Column:
    return Column(name, keys, kind, in_args=True)


_NAME = Column("name", ("name",), Kind.CODE)
_CAT = Column("cat", ("cat",), Kind.CODE)
_PHASE = Column("ph", ("ph",), Kind.CODE)
_PID = Column("pid", ("pid",), Kind.CODE)
_TID = Column("tid", ("tid",), Kind.CODE)
_TS = Column("ts", ("ts",), Kind.NS)
_DUR = Column("dur", ("dur",), Kind.NS)
_SPAN = (_NAME, _CAT, _PID, _TID, _TS, _DUR)
_CORRELATION = _arg("correlation", "correlation")
_EXTERNAL = _arg("external_id", "External id", "external id")

KERNELS = ("kernel", "Kernel")
COPIES = ("gpu_memcpy", "Memcpy")
MEMSETS = ("gpu_memset", "Memset")
OTHER_DEVICE_WORK = ("mtia_ccp_events",)
OPERATORS = ("cpu_op", "Operator")
RUNTIME_CALLS = ("cuda_runtime", "Runtime", "mtia_runtime", "xpu_runtime", "privateuse1_runtime")
DRIVER_CALLS = ("cuda_driver", "privateuse1_driver", "xpu_driver")
FLOWS = ("ac2g", "async_cpu_to_gpu", "async_gpu", "fwdbwd", "async")

DEVICE = Table(
    "device",
    KERNELS + COPIES + MEMSETS + OTHER_DEVICE_WORK,
    ("X",),
    (
        *_SPAN,
        _CORRELATION,
        _EXTERNAL,
        _arg("device", "device"),
        _arg("stream", "stream"),
        _arg("bytes", "bytes", "size"),
        _arg("graph_node", "graph node id"),
        _arg("grid", "grid", kind=Kind.CODE),
        _arg("block", "block", kind=Kind.CODE),
    ),
)
HOST = Table(
    "host",
    OPERATORS + RUNTIME_CALLS + DRIVER_CALLS + ("user_annotation", "python_function", "overhead"),
    ("X",),
    (
        *_SPAN,
        _CORRELATION,
        _EXTERNAL,
        _arg("dims", "Input Dims", "Input dims", kind=Kind.CODE),
        _arg("types", "Input type", kind=Kind.CODE),
        _arg("strides", "Input Strides", kind=Kind.CODE),
        _arg("values", "Concrete Inputs", kind=Kind.CODE),
    ),
)
SYNC = Table(
    "sync",
    ("cuda_sync",),
    ("X",),
    (
        *_SPAN,
        _CORRELATION,
        _arg("device", "device"),
        _arg("stream", "stream"),
        _arg("wait_on_stream", "wait_on_stream"),
        _arg("wait_on_record", "wait_on_cuda_event_record_corr_id"),
    ),
)
FLOW = Table("flow", FLOWS, ("s", "f"), (_CAT, _PHASE, _PID, _TID, _TS, Column("id", ("id",), Kind.INT)))
MEMORY = Table(
    "memory",
    ("cpu_instant_event", ""),
    ("i",),
    (
        _NAME,
        _PID,
        _TID,
        _TS,
        _arg("bytes", "Bytes"),
        _arg("device", "Device Id"),
        _arg("device_type", "Device Type"),
        _arg("allocated", "Total Allocated"),
        _arg("reserved", "Total Reserved"),
    ),
)
SPANS = Table("spans", ("Trace",), ("X",), _SPAN)
LABELS = Table("labels", ("",), ("M",), (_NAME, _PID, _TID, _arg("value", "name", "labels", kind=Kind.CODE)))

TABLES = (DEVICE, HOST, SYNC, FLOW, MEMORY, SPANS, LABELS)
