"""What the page draws besides the report itself, as plain values. Times are integer ns from the window's start unless
they say otherwise.
"""

from __future__ import annotations

import msgspec


class Lane(msgspec.Struct, frozen=True, kw_only=True):
    """One row of a drawing."""

    kind: str
    """`ledger`, `stream` or `thread`."""
    label: str
    depth: int = 0
    """Of a thread's lanes: how many calls are around these."""


class Boxes(msgspec.Struct, frozen=True, kw_only=True):
    """Columns of equal length, sorted by lane and start. A box of several things too small to be seen stands for all of
    them: the name is that of the longest, `account` the one with most of the time.
    """

    lane: list[int]
    start: list[int]
    length: list[int]
    account: list[int]
    """A number of `Drawing.accounts`, -1 for none."""
    name: list[int]
    """A number of `Drawing.names`; `path` one of `Drawing.paths`; -1 for none."""
    path: list[int]
    count: list[int]
    """Things that it stands for."""
    ns: list[int]
    """Their time."""


class Drawing(msgspec.Struct, frozen=True, kw_only=True):
    """Some of a device's time: who owned each instant, its streams, and the threads that launched."""

    rank: int
    device: int
    about: str
    """Which time it is."""
    start_ns: int
    """From the earliest recorded event."""
    length_ns: int
    steps: list[tuple[int, int, int]]
    """Number, start, length."""
    finest_ns: int
    """What is shorter was joined with what is next to it."""
    lanes: list[Lane]
    boxes: Boxes
    accounts: list[str]
    totals: list[int]
    """How much of this time each account owns, in ns; boxes that stand for several things tell it only roughly."""
    names: list[str]
    paths: list[list[int]]
    """Names of the calls around, outermost first."""
    notes: list[str]
    """What is not drawn."""


class Kernel(msgspec.Struct, frozen=True, kw_only=True):
    """All operations of one name in one account, in the judged window."""

    name: str
    account: str
    count: int
    ns: int
    """Charged to them; what was hidden under others is not."""
    mean_ns: float
    """Of their own length; `longest_ns` too."""
    longest_ns: int
    share: float
    """Of the window."""
    efficiency: float | None
    bound: str


class Site(msgspec.Struct, frozen=True, kw_only=True):
    """A place in the program, with what the device did and did not do because of it."""

    name: str
    busy_ns: int
    """Of operations that were launched there."""
    idle_ns: int
    """In which the device waited for it."""
    operations: int
    idle: str | None
    """The account of most of the idle time."""


class StepBars(msgspec.Struct, frozen=True, kw_only=True):
    """Lengths of steps, in columns; where there are many, neighbours are joined and their mean told."""

    first: list[int]
    last: list[int]
    """Numbers of the steps of a bar."""
    ns: list[int]
    busy_ns: list[int | None]
    """Null for start-up steps."""
    joined: int
    """Steps of a bar, at most."""


class DeviceScene(msgspec.Struct, frozen=True, kw_only=True):
    """The pictures of one device."""

    rank: int
    device: int
    drawing: Drawing
    kernels: list[Kernel]
    more_kernels: int
    """Names that are not listed, those with the least time."""
    sites: list[Site]
    more_sites: int


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """A quantity over time: one value a point of time, null where it is not known."""

    label: str
    unit: str
    """`fraction`, `per second`, `bytes`, `W`, `cores`."""
    values: list[float | None]


class RunScene(msgspec.Struct, frozen=True, kw_only=True):
    """A run over time."""

    step_s: list[float]
    """Middles of stretches, in seconds since the program was started."""
    steps_per_s: list[float | None]
    counter_s: list[float]
    """Times of the counters."""
    counters: list[Line]
    marks: list[tuple[float, float, str]]
    """From, to, and what it was: start-up, profiles, checkpoints, evaluation."""


class Scene(msgspec.Struct, frozen=True, kw_only=True):
    """All pictures of a report."""

    devices: list[DeviceScene]
    run: RunScene | None
