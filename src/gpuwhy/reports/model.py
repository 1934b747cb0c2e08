"""The report as plain values: what `--json` writes and every other format reads.

Unknown is null, never 0. Times are integer nanoseconds; `share` is always of the device's window. The JSON Schema in
docs/report.schema.json is generated from these structs.
"""

from __future__ import annotations

import msgspec

from gpuwhy.reports.findings_model import FindingInfo, ReplayInfo, TogetherInfo, WhatIfInfo
from gpuwhy.reports.roofline_model import RooflineInfo
from gpuwhy.reports.run_model import RunInfo


class SourceInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Where the figures come from."""

    format: str
    """`kineto`."""
    era: str
    """Which generation of the format the (first) file is (docs/formats.md)."""
    files: list[str]
    devices: list[str | None]
    """Names of the devices that ran something; null where the file does not say."""
    ranks: list[int]
    events: int


class WindowInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The window of the first device; each device has its own bounds under `devices`."""

    start_ns: int
    """From the earliest recorded event."""
    end_ns: int
    steps: list[int] | None
    """First and last step judged, as numbered in the file; null where the window is not made of steps."""
    how: str
    """`ProfilerStep`, `Optimizer.step`, `repetition`, `time` or `all`."""
    origin_ns: int
    """Time zero on the clock of the file (since the epoch, where the file says so)."""


class StepInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Steps judged on the first device. `median_ns` and so on are null without steps."""

    count: int
    median_ns: int | None
    p10_ns: int | None
    p90_ns: int | None
    unprofiled_ns: int | None
    """Step time without a profiler; null: not known."""
    samples: int | None
    """Samples a step; null: not known."""


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One account of the ledger, or of what was hidden."""

    account: str
    ns: int
    share: float
    per_step: list[int] | None = None
    """Median, 10th and 90th percentile of ns a step; null without steps."""


class Weight(msgspec.Struct, frozen=True, kw_only=True):
    """What weighs most in an account: a host call (idle) or a kernel or copy (busy)."""

    account: str
    name: str
    ns: int
    count: int
    """Host calls or operations that this time was charged to."""
    path: list[str]
    """The calls around the heaviest one (idle) or around its launch (busy), outermost first."""


class SyncWait(msgspec.Struct, frozen=True, kw_only=True):
    """Idle time in gaps that began while the host waited in a blocking call."""

    call: str
    path: list[str]
    ns: int
    count: int


class NextToCopy(msgspec.Struct, frozen=True, kw_only=True):
    """Idle time of one account in gaps that a copy begins or ends."""

    account: str
    copy: str
    """The account of the copies, such as `busy/copy/d2h`."""
    ns: int
    copies: int
    bytes: int | None
    """Null where a format does not say."""


class StepTime(msgspec.Struct, frozen=True, kw_only=True):
    """One step of the device."""

    number: int
    ns: int
    busy_ns: int | None
    """Null for start-up steps."""
    startup: bool


class Loss(msgspec.Struct, frozen=True, kw_only=True):
    """The largest loss of the window (docs/ledger.md)."""

    name: str
    """`host-bound`, `waiting`, or an account."""
    ns: int
    share: float
    accounts: list[str]
    """The accounts that it is made of, the largest first."""


class DeviceReport(msgspec.Struct, frozen=True, kw_only=True):
    """The ledger of one device. `ledger` lists leaves only and sums to `window_ns`."""

    rank: int
    device: int
    name: str | None
    window_start_ns: int
    window_ns: int
    busy_ns: int
    unknown_ns: int
    """Idle time that the profile cannot explain."""
    operations: int
    """Kernels, copies and memsets in the window."""
    largest_loss: Loss
    ledger: list[Entry]
    hidden: list[Entry]
    after_sync_ns: int
    """All idle time in gaps that began while the host waited in a blocking call."""
    after_sync: list[SyncWait]
    next_to_copy: list[NextToCopy]
    steps: list[StepTime]
    left_out: int | None
    """Number of the last recorded step, if it was left out because its end is not known."""
    weights: list[Weight]
    replay: ReplayInfo | None
    """Null where there was none."""
    roofline: RooflineInfo | None
    """How well the busy time was used; null where the ledger is withheld."""


class CheckInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One check of the profile itself."""

    check: str
    level: str
    """`ok`, `note`, `warn` or `fail`."""
    detail: str
    advice: str | None
    withholds: list[str]


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """The report in a sentence or two."""

    text: str
    healthy: bool | None
    """Whether no mend is predicted to bring 3 % of a step; null where gains are withheld."""
    cause: str | None


class Withheld(msgspec.Struct, frozen=True, kw_only=True):
    """A conclusion that is not drawn."""

    what: str
    why: str


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """Everything gpuwhy found in a profile."""

    schema: int = 1
    gpuwhy: str
    source: SourceInfo
    window: WindowInfo
    step: StepInfo
    devices: list[DeviceReport]
    trust: list[CheckInfo]
    replay: ReplayInfo | None
    """That of the first finding's device, or else of the least busy one."""
    verdict: Verdict
    findings: list[FindingInfo]
    """Of all devices, what brings most first; those of one device stay in their order."""
    together: TogetherInfo | None
    """The mends of that device together; null where there are none."""
    what_if: WhatIfInfo | None
    """The answer to the user's own question, for that device; null where none was asked or gains are withheld."""
    withheld: list[Withheld]
    run: RunInfo | None = None
    """What only a run of the program can tell; null in a report on profiles."""

    @property
    def sound(self) -> bool:
        """Whether the ledger may be trusted (exit status 0) or not (3)."""
        return not any(item.what == "ledger" for item in self.withheld)
