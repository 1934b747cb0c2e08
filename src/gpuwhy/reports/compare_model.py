"""A comparison as plain values: what `gpuwhy compare --json` writes. Unknown is null, never 0.

Times are ns a step, or ns a sample where both sides say how many samples a step has (`unit`).
"""

from __future__ import annotations

import msgspec

from gpuwhy.reports.findings_model import Interval


class SideInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One side."""

    label: str
    devices: list[str | None]
    steps: int
    clock: str
    """`device`, `host`, or `device, profiled`."""
    samples_per_step: float | None
    median_ns: float | None
    """A step; `mean_ns` too."""
    mean_ns: float | None
    lengths_ns: list[float]
    """Steps in their order, at most 500, evenly chosen; of a run each may be the mean of some."""
    verdict: str
    cause: str | None


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """Time of a step (or sample): after over before."""

    ratio: Interval
    """95 %: of the noise of the steps, not of what two starts of the same program differ by."""
    differs: bool | None
    """Whether it is more than the noise; null: cannot be told."""


class AccountChange(msgspec.Struct, frozen=True, kw_only=True):
    """One account."""

    account: str
    before_ns: float
    after_ns: float
    difference_ns: Interval | None
    """Of means; null where the steps are too few, or not told apart."""
    differs: bool | None


class KernelChange(msgspec.Struct, frozen=True, kw_only=True):
    """All operations of one name in one account."""

    name: str
    account: str
    change: str
    """`appeared`, `vanished`, `slower`, `faster` (each of them), `more`, `fewer`, or `alike`."""
    before_ns: float
    after_ns: float
    before_count: float
    """A step (or sample)."""
    after_count: float


class GateInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One condition of `--fail-if`."""

    condition: str
    outcome: str
    """`holds` (a regression), `does not hold`, or `cannot tell`."""
    measured: Interval | None
    """As the condition counts it: percent, or ns."""
    why: str | None


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """Two programs, settings or versions side by side."""

    schema: int = 1
    gpuwhy: str
    unit: str
    """`step` or `sample`: what all times are of."""
    before: SideInfo
    after: SideInfo
    verdict: str
    typical: Change | None
    """By medians; null where a side has no steps."""
    average: Change | None
    """By means: what throughput goes by."""
    accounts: list[AccountChange]
    """The largest change first."""
    kernels: list[KernelChange]
    """The largest change of time first."""
    all_kernels: bool
    """Whether both sides tell all their kernels; if not, none is said to have appeared or vanished."""
    notes: list[str]
    """What makes the comparison less than fair."""
    gates: list[GateInfo]
