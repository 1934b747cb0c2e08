"""The part of the report on how well busy time was used, as plain values; see `model` for its rules.

FLOPs count two for each multiply–add of matrix products, convolutions and attention, and nothing else. Bytes are what
operations must move, each element once. Both are of the window, of what is known.
"""

from __future__ import annotations

import msgspec


class CeilingsInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What the device can do, and who says so."""

    how: str
    """`measured` (by `gpuwhy ceilings`, on a device of this name and size) or `published`."""
    source: str
    flops_per_s: dict[str, float]
    """By precision, dense."""
    dram_bytes_per_s: float


class PeaksInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What MFU and MBU divide by."""

    precision: str | None
    """The one in which most FLOPs were done; null, like its peak, if nothing was multiplied."""
    flops_per_s: float | None
    dram_bytes_per_s: float
    source: str


class AccountUse(msgspec.Struct, frozen=True, kw_only=True):
    """How one busy account was used."""

    account: str
    ns: int
    known_ns: int
    """Of operations whose work and ceiling are known; `efficiency` is theirs."""
    efficiency: float | None
    """The least time that their work takes at the ceilings, over the time that they took."""
    bound: str
    """What bounds most of the time: `compute`, `memory`, `latency`, `kernel`, `link` or `unknown`."""
    bounds: dict[str, int]
    """ns by bound."""
    flops: float
    bytes: float
    dram_bytes: float
    """What passes through the device's memory, with second reads: an estimate (docs/roofline.md)."""


class OperatorUse(msgspec.Struct, frozen=True, kw_only=True):
    """One operator with one set of shapes."""

    name: str
    dims: str
    """As the file writes them, JSON; so too `types`."""
    types: str
    calls: int
    ns: int
    share: float
    """Of the window."""
    precision: str | None
    """In which it multiplies; null where it does not."""
    flops_per_s: float | None
    bytes_per_s: float | None
    efficiency: float | None
    bound: str


class Concerned(msgspec.Struct, frozen=True, kw_only=True):
    """An operator of a waste."""

    name: str
    dims: str
    types: str
    calls: int
    ns: int


class WasteInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Busy time that goes to the wrong thing. What could be saved at most is no prediction, and sums of it are none."""

    cause: str
    title: str
    mend: str
    ns: int
    share: float
    """Of the window."""
    least_ns: int
    """What the same result takes at least when done right."""
    most_saved_share: float
    """Of the window: an upper bound."""
    worth: bool
    """Whether that is at least 3 %."""
    bytes: int | None
    """What moves now; null where bytes are not the point."""
    least_bytes: int | None
    operators: list[Concerned]


class Unknown(msgspec.Struct, frozen=True, kw_only=True):
    """Busy time of which something is not known, and why."""

    why: str
    ns: int
    share: float
    """Of the busy time."""


class RooflineInfo(msgspec.Struct, frozen=True, kw_only=True):
    """How well the busy time of one device was used."""

    ceilings: CeilingsInfo | None
    """Null: the device is not named, or nobody knows what it can do. There are no percentages then."""
    known_share: float
    """Of the busy time: operations whose work and bound are known."""
    efficiency: float | None
    flops: float
    bytes: float
    dram_bytes: float
    """What passes through the device's memory, with second reads: an estimate (docs/roofline.md)."""
    flops_per_step: float | None
    bytes_per_step: float | None
    flops_per_sample: float | None
    """Null: the samples of a step are not known (`--samples`)."""
    bytes_per_sample: float | None
    peaks: PeaksInfo | None
    mfu: float | None
    """Model FLOPs utilization (PaLM, appendix B): FLOPs without those computed again, over time and published peak."""
    mbu: float | None
    """Model bandwidth utilization (Databricks): bytes that had to move, over time and published bandwidth."""
    recomputed_flops: float
    tensor_core_share: float
    """Of the busy time: operations in kernels that use tensor cores."""
    accounts: list[AccountUse]
    operators: list[OperatorUse]
    wastes: list[WasteInfo]
    unknown: list[Unknown]
    advice: str | None
    """What to record or do to know more."""
