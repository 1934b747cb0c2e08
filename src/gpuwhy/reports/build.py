"""Ledgers and checks → `Report`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpuwhy.arrays import quantiles, unique
from gpuwhy.findings.outlook import Outlook
from gpuwhy.ledger.accounts import within
from gpuwhy.ledger.charges import Charges
from gpuwhy.ledger.partition import Basis, Ledger
from gpuwhy.reports import model
from gpuwhy.reports.build_findings import all_findings, no_gains, replay_info, together_info, what_if_info
from gpuwhy.reports.build_roofline import build_roofline
from gpuwhy.reports.callpaths import call_path
from gpuwhy.reports.findings_model import FindingInfo
from gpuwhy.reports.verdict import loss, next_to_copy, unjudged, verdict
from gpuwhy.roofline.judge import Roofline
from gpuwhy.steps import Steps
from gpuwhy.timeline import Timeline
from gpuwhy.trust import Check
from gpuwhy.version import __version__


@dataclass(frozen=True, eq=False)
class Parts:
    """What the stages found; one ledger, roofline and outlook for each device."""

    basis: Basis
    ledgers: Sequence[Ledger]
    rooflines: Sequence[Roofline]
    checks: Sequence[Check]
    outlooks: Sequence[Outlook]


def build(parts: Parts, top: int, samples: int | None = None) -> model.Report:
    """Put everything into the report; `top` entries under each account, `samples` a step."""
    of, ledgers, rooflines, outlooks = parts.basis, parts.ledgers, parts.rooflines, parts.outlooks
    timeline, found = of.timeline, parts.checks
    first = ledgers[0]
    worst = min(range(len(ledgers)), key=lambda i: ledgers[i].busy_ns / ledgers[i].window_ns)
    withheld = [model.Withheld(what=what, why=check.detail) for check in found for what in check.withholds]
    withheld += no_gains(timeline, ledgers, outlooks)
    findings = all_findings(timeline, ledgers, outlooks)
    if not findings and (why := unjudged(ledgers, rooflines)) is not None:
        withheld.append(model.Withheld(what="healthy", why=why))
    led = _place(timeline, ledgers, findings[0]) if findings else worst
    return model.Report(
        gpuwhy=__version__,
        source=_source(timeline, ledgers),
        window=model.WindowInfo(
            start_ns=first.window.start,
            end_ns=first.window.end,
            steps=_range(first.window.steps),
            how=first.window.how,
            origin_ns=timeline.origin_ns,
        ),
        step=_step(first.window.steps, samples, outlooks[0]),
        devices=[
            _device(of, ledger, roofline, outlook, top, samples)
            for ledger, roofline, outlook in zip(ledgers, rooflines, outlooks, strict=True)
        ],
        trust=[
            model.CheckInfo(check=c.check, level=c.level, detail=c.detail, advice=c.advice, withholds=list(c.withholds))
            for c in found
        ],
        replay=replay_info(outlooks[led], timeline.devices[ledgers[led].device]),
        verdict=verdict(timeline, ledgers, rooflines, worst, findings, withheld),
        findings=findings,
        together=together_info(outlooks[led]),
        what_if=what_if_info(outlooks[led]),
        withheld=withheld,
    )


def _place(timeline: Timeline, ledgers: Sequence[Ledger], finding: FindingInfo) -> int:
    """The place of a finding's device."""
    devices = [timeline.devices[ledger.device] for ledger in ledgers]
    return [(device.rank, device.number) for device in devices].index((finding.rank, finding.device))


def _source(timeline: Timeline, ledgers: Sequence[Ledger]) -> model.SourceInfo:
    return model.SourceInfo(
        format=timeline.sources[0].format,
        era=timeline.sources[0].era,
        files=[source.file for source in timeline.sources],
        devices=[timeline.devices[ledger.device].name for ledger in ledgers],
        ranks=[source.rank for source in timeline.sources],
        events=sum(source.events for source in timeline.sources),
    )


def _range(steps: Steps | None) -> list[int] | None:
    return [int(steps.number[0]), int(steps.number[-1])] if steps is not None and len(steps) else None


def _step(steps: Steps | None, samples: int | None, outlook: Outlook) -> model.StepInfo:
    if steps is None or not len(steps):
        return model.StepInfo(count=0, median_ns=None, p10_ns=None, p90_ns=None, unprofiled_ns=None, samples=samples)
    median, low, high = _spread(steps.length).tolist()
    given = outlook.replayed.step_time_ns if outlook.replayed is not None else None
    return model.StepInfo(
        count=len(steps),
        median_ns=median,
        p10_ns=low,
        p90_ns=high,
        unprofiled_ns=None if given is None else round(given),
        samples=samples,
    )


def _spread(ns: NDArray[np.int64]) -> NDArray[np.int64]:
    """Median, 10th and 90th percentile along the first axis, as whole ns."""
    return np.rint(quantiles(ns, (0.5, 0.1, 0.9))).astype(np.int64)


def _device(
    of: Basis, ledger: Ledger, roofline: Roofline, outlook: Outlook, top: int, samples: int | None
) -> model.DeviceReport:
    device, window = of.timeline.devices[ledger.device], ledger.window
    per_step = _spread(ledger.by_step).T.tolist() if window.steps is not None else None
    return model.DeviceReport(
        rank=device.rank,
        device=device.number,
        name=device.name,
        window_start_ns=window.start,
        window_ns=ledger.window_ns,
        busy_ns=ledger.busy_ns,
        unknown_ns=ledger.unknown_ns,
        operations=ledger.operations,
        largest_loss=loss(ledger),
        ledger=[
            model.Entry(
                account=account,
                ns=int(ns),
                share=int(ns) / ledger.window_ns,
                per_step=per_step[i] if per_step else None,
            )
            for i, (account, ns) in enumerate(zip(ledger.accounts, ledger.ns, strict=True))
        ],
        hidden=[
            model.Entry(account=account, ns=ns, share=ns / ledger.window_ns) for account, ns in ledger.hidden.items()
        ],
        after_sync_ns=sum(ledger.after_sync.values()),
        after_sync=_sync_waits(of.timeline, ledger, top),
        next_to_copy=next_to_copy(ledger),
        steps=_steps(ledger),
        left_out=window.left_out,
        weights=_weights(of, ledger, top),
        replay=replay_info(outlook, device),
        roofline=build_roofline(
            roofline, ledger.window_ns, len(window.steps) if window.steps is not None else 0, samples
        ),
    )


def _steps(ledger: Ledger) -> list[model.StepTime]:
    steps, startup = ledger.window.steps, ledger.window.startup
    busy = np.array([within(account, "busy") for account in ledger.accounts], bool)
    found = [
        model.StepTime(number=int(n), ns=int(ns), busy_ns=None, startup=True)
        for n, ns in (zip(startup.number, startup.length, strict=True) if startup is not None else ())
    ]
    if steps is not None:
        worked = ledger.by_step[:, busy].sum(axis=1)
        found += [
            model.StepTime(number=int(n), ns=int(ns), busy_ns=int(b), startup=False)
            for n, ns, b in zip(steps.number, steps.length, worked, strict=True)
        ]
    return found


def _sync_waits(timeline: Timeline, ledger: Ledger, top: int) -> list[model.SyncWait]:
    """Blocking calls, joined by their name and that of their caller, the heaviest first."""
    rows = np.fromiter(ledger.after_sync, np.int64, len(ledger.after_sync))
    callers = timeline.nesting.parent[timeline.piece_at(rows)] if len(rows) else rows
    groups: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for row, piece in zip(rows.tolist(), callers.tolist(), strict=True):
        caller = int(timeline.calls.name[timeline.nesting.call[piece]]) if piece >= 0 else -1
        key = int(timeline.calls.name[row]), caller
        groups.setdefault(key, []).append((ledger.after_sync[row], piece))
    waits = [
        model.SyncWait(
            call=timeline.names[call],
            path=call_path(timeline, max(some)[1]),
            ns=sum(ns for ns, _ in some),
            count=len(some),
        )
        for (call, _), some in groups.items()
    ]
    return sorted(waits, key=lambda wait: -wait.ns)[:top]


def _weights(of: Basis, ledger: Ledger, top: int) -> list[model.Weight]:
    timeline = of.timeline
    part = timeline.ops_of(ledger.device)
    first_op = part.start
    calls = _heaviest(
        ledger.idle, of.accounts.names, timeline.calls.name[timeline.nesting.call], top, timeline.nesting.call
    )
    kernels = _heaviest(ledger.busy, of.accounts.names, timeline.ops.name[part], top)
    found = [
        model.Weight(
            account=account,
            name=timeline.names[name],
            ns=ns,
            count=count,
            path=call_path(timeline, piece)[:-1],
        )
        for account, name, ns, count, piece in calls
    ]
    for account, name, ns, count, row in kernels:
        launch = int(timeline.ops.launch[first_op + row])
        piece = int(timeline.piece_at(np.array([launch]))[0]) if launch >= 0 else -1
        found.append(
            model.Weight(
                account=account, name=timeline.names[name], ns=ns, count=count, path=call_path(timeline, piece)
            )
        )
    return found


def _heaviest(
    charges: Charges,
    accounts: Sequence[str],
    name_of: NDArray[np.int32],
    top: int,
    same: NDArray[np.int32] | None = None,
) -> list[tuple[str, int, int, int, int]]:
    """The `top` names under each account as (account, name, ns, rows, heaviest row).

    `same` maps rows to what counts as one call (several pieces may be one).
    """
    named = np.flatnonzero(charges.row >= 0)
    if not len(named):
        return []
    account, row, ns = charges.account[named].astype(np.int64), charges.row[named], charges.ns[named]
    width = int(name_of.max()) + 1
    key = account * width + name_of[row]
    groups, place = np.unique(key, return_inverse=True)
    total = np.zeros(len(groups), np.int64)
    np.add.at(total, place, ns)
    order = np.lexsort((row, place))
    place, row, ns = place[order], row[order], ns[order]
    new = np.append(True, (np.diff(place) != 0) | (np.diff(row) != 0))
    by_row = np.add.reduceat(ns, np.flatnonzero(new))
    owner, rows = place[new], row[new]
    charged = by_row > 0
    owner, rows, by_row = owner[charged], rows[charged], by_row[charged]
    found = []
    best = np.lexsort((-by_row, owner))
    starts = np.searchsorted(owner[best], np.arange(len(groups) + 1))
    taken: dict[int, int] = {}
    for group in np.argsort(-total, kind="stable").tolist():
        if total[group] <= 0:
            break
        number, name = divmod(int(groups[group]), width)
        if taken.get(number, 0) >= top:
            continue
        taken[number] = taken.get(number, 0) + 1
        mine = rows[best[starts[group] : starts[group + 1]]]
        count = len(mine) if same is None else len(unique(same[mine]))
        found.append((accounts[number], name, int(total[group]), count, int(mine[0])))
    return found
