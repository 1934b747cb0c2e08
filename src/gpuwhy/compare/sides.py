"""A profile, the folder of a run, or a saved report → one side of a comparison: its steps, accounts and kernels.

All times are ns a step.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from gpuwhy import api
from gpuwhy.arrays import combined
from gpuwhy.errors import GpuwhyError
from gpuwhy.explained import Explained
from gpuwhy.ledger.accounts import within
from gpuwhy.redact.names import Names
from gpuwhy.redact.redact import redacted
from gpuwhy.reports import model
from gpuwhy.reports.build import Parts
from gpuwhy.reports.words import kernel_name
from gpuwhy.roofline.view import View
from gpuwhy.sources.load import Progress
from gpuwhy.sources.open import Opened, as_text

LARGEST_REPORT = 256 << 20
"""Bytes of a saved report."""
MOST = 1e18
"""No time in ns, and no number of samples or operations, is larger."""
Series = NDArray[np.float64]


PROFILED = "device, profiled"
"""The clock of steps that a profiler recorded."""


@dataclass(frozen=True)
class Kernel:
    """All operations of one name in one account: how many a step, and ns a step."""

    count: float
    ns: float


@dataclass(frozen=True, eq=False)
class Side:
    """One side. `lengths` are steps, or means of `lump` steps each; `account_steps` the accounts in the same steps."""

    label: str
    report: model.Report
    count: int
    """Steps that were judged."""
    lengths: Series
    lump: int
    clock: str
    """`device`, `host`, or `device, profiled`."""
    samples: float | None
    """Samples of a step; None: not known."""
    accounts: dict[str, float]
    account_steps: dict[str, Series] | None
    """None: only their means are known."""
    kernels: dict[tuple[str, str], Kernel]
    """By name and account."""
    all_kernels: bool
    """Whether these are all, or only those with most time."""


def side(
    path: str, samples: float | None = None, names: Names | None = None, on_progress: Progress | None = None
) -> Side:
    """Explain a profile or a run, or read a report that `gpuwhy explain --json` or `gpuwhy run` has saved.

    With `names` private names are replaced. Raises GpuwhyError where that cannot be done.
    """
    if os.path.isdir(path):
        from gpuwhy.run.analyse import explain_run

        found = explain_run(Path(path), None, on_progress)
    elif (saved := _saved(path)) is not None:
        found = Explained(saved)
    else:
        found = api.explained(api.load(path, on_progress=on_progress))
    if names is not None:
        found, path = redacted(found, names), names.path(path)
    return side_of(as_text(path) if names is None else path, found, samples)


def _saved(path: str) -> model.Report | None:
    """The report in a file, compressed or not; None where it is something else, or cannot be read twice."""
    if not os.path.isfile(path):
        return None
    opened = Opened(path)
    try:
        looks = opened.kind == "json" and opened.head.lstrip()[:1] == b"{" and b'"schema"' in opened.head
        if not looks or b'"traceEvents"' in opened.head or (opened.size or 0) > LARGEST_REPORT:
            return None
        text = b"".join(opened.chunks())
    finally:
        opened.close()
    if b'"verdict"' not in text or b'"traceEvents"' in text:
        return None
    try:
        return _sensible(msgspec.json.decode(text, type=model.Report))
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise GpuwhyError(
            f"{opened.name}: not a report of this version of gpuwhy: {error}", hint="explain the profile or run anew"
        ) from None


def _sensible(report: model.Report) -> model.Report:
    """The same. Raises ValueError where its numbers cannot be those of any program."""
    of = report.run.throughput if report.run is not None else None
    lengths = [step.ns for device in report.devices for step in device.steps] + list(of.blocks_ns if of else ())
    samples = [report.step.samples, of.samples_per_step if of else None]
    counts = [number for device in report.devices for weight in device.weights for number in (weight.ns, weight.count)]
    counts += [entry.ns for device in report.devices for entry in device.ledger]
    if not all(0 < length < MOST for length in [*lengths, *(one for one in samples if one is not None)]):
        raise ValueError("steps or samples of no possible size")
    if not all(0 <= count < MOST for count in counts):
        raise ValueError("times or counts of no possible size")
    return report


def side_of(label: str, found: Explained, samples: float | None = None) -> Side:
    """What was explained, as one side; of several devices the first."""
    report = found.report
    device = report.devices[0] if report.devices else None
    count, lengths, lump, clock = _lengths(report, device)
    accounts, by_step = _accounts(found.parts, device)
    kernels, complete = _kernels(found.parts, device)
    return Side(
        label=label,
        report=report,
        count=count,
        lengths=lengths,
        lump=lump,
        clock=clock,
        samples=samples if samples is not None else _samples(report),
        accounts=accounts,
        account_steps=by_step,
        kernels=kernels,
        all_kernels=complete,
    )


def _lengths(report: model.Report, device: model.DeviceReport | None) -> tuple[int, Series, int, str]:
    """How many steps, their lengths, how many each value is the mean of, and on whose clock."""
    of = report.run.throughput if report.run is not None else None
    if of is not None and of.blocks_ns:
        return of.steady_steps, np.array(of.blocks_ns, np.float64), of.block_steps, of.clock
    steps = [max(step.ns, 1) for step in device.steps if not step.startup] if device is not None else []
    return len(steps), np.array(steps, np.float64), 1, PROFILED


def _samples(report: model.Report) -> float | None:
    of = report.run.throughput if report.run is not None else None
    return of.samples_per_step if of is not None else report.step.samples


def _accounts(
    parts: Parts | None, device: model.DeviceReport | None
) -> tuple[dict[str, float], dict[str, Series] | None]:
    """Mean ns a step of each account, and its ns in each step."""
    if device is None:
        return {}, None
    steps = max(sum(not step.startup for step in device.steps), 1)
    means = {entry.account: entry.ns / steps for entry in device.ledger}
    ledger = parts.ledgers[0] if parts is not None else None
    if ledger is None or ledger.window.steps is None:
        return means, None
    return means, {name: ledger.by_step[:, i].astype(np.float64) for i, name in enumerate(ledger.accounts)}


def _kernels(parts: Parts | None, device: model.DeviceReport | None) -> tuple[dict[tuple[str, str], Kernel], bool]:
    if device is None:
        return {}, False
    steps = max(sum(not step.startup for step in device.steps), 1)
    if parts is not None:
        return _of_view(parts.rooflines[0].view, steps), True
    found: dict[tuple[str, str], Kernel] = {}
    for weight in device.weights:
        if within(weight.account, "busy"):  # several kernels may have one short name
            key = kernel_name(weight.name), weight.account
            other = found.get(key, Kernel(0.0, 0.0))
            found[key] = Kernel(other.count + weight.count / steps, other.ns + weight.ns / steps)
    return found, False


def _of_view(view: View, steps: int) -> dict[tuple[str, str], Kernel]:
    """Every kernel and copy of the window."""
    if not len(view.row):
        return {}
    first, kind = combined([view.ops.name, view.account])
    ns = np.bincount(kind, view.ns.astype(np.float64), len(first))
    count = np.bincount(kind, minlength=len(first))
    names = view.timeline.names
    found: dict[tuple[str, str], Kernel] = {}
    counts, times = count.tolist(), ns.tolist()  # plain numbers: reports are made of them
    for one, row in enumerate(first.tolist()):
        key = kernel_name(names[view.ops.name[row]]), view.accounts[view.account[row]]
        before = found.get(key, Kernel(0.0, 0.0))
        found[key] = Kernel(before.count + counts[one] / steps, before.ns + times[one] / steps)
    return found


def metadata(side: Side) -> dict[str, Any]:
    """What must be alike for a comparison to be fair."""
    report = side.report
    return {
        "device": ", ".join(sorted({name or "not named" for name in report.source.devices})) or "none",
        "clock": side.clock,
        "samples a step": side.samples,
    }
