"""The part of the report on what mends would bring, as plain values."""

from __future__ import annotations

import msgspec


class Interval(msgspec.Struct, frozen=True, kw_only=True):
    """A prediction with its interval (docs/whatif.md)."""

    low: float
    mid: float
    high: float


class IntervalNs(msgspec.Struct, frozen=True, kw_only=True):
    """A predicted time in ns with its interval."""

    low: int
    mid: int
    high: int


class DistortionInfo(msgspec.Struct, frozen=True, kw_only=True):
    """How many times as long short host time was with the profiler as without it."""

    low: float
    mid: float
    high: float
    how: str
    """`step_time`: found from the step time that was given; `usual`: as it usually is."""


class ReplayInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The replay of a device's window as it was recorded, and the steps that gains start from."""

    rank: int
    device: int
    error: float | None
    """Replayed over recorded length of the window, less 1."""
    unexplained: float | None
    """Part of the window that is idle for delays that nothing recorded explains."""
    distortion: DistortionInfo | None
    recorded_step_ns: int | None
    """Mean of the judged steps that were recorded whole, with the profiler."""
    step_ns: int | None
    """A step without the profiler: as given, else as the replay estimates it."""
    device_step_ns: int | None
    """A step if no host, and no loader, took any time."""


class MendInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A change that a user can make, and what it brings alone."""

    id: str
    text: str
    code: str | None
    after_over_before: Interval
    """Time a sample, after the mend over before it."""
    step_after_ns: IntervalNs
    """A step after the mend, without the profiler."""
    samples: float
    """Samples of a step after the mend, over those before."""


class FindingInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One root cause."""

    cause: str
    rank: int
    device: int
    title: str
    evidence: list[str]
    refuted_by: str
    mends: list[MendInfo]
    """The best first."""
    explains: list[str]
    """Causes that were found, too, and that mending this one does away with."""


class WhatIfInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The user's own question, and its answer."""

    changes: list[str]
    """As they were asked for."""
    after_over_before: Interval
    step_after_ns: IntervalNs
    samples: float
    """Samples of a step after the changes, over those before."""
    nothing: list[str]
    """Changes that this profile holds nothing for."""


class TogetherInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Mends replayed together."""

    mends: list[str]
    after_over_before: Interval
    step_after_ns: IntervalNs
    along_ns: list[int] = []
    """A step after each mend and all before it, in their order; the last is that after all."""
