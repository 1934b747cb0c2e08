"""Outlooks → the part of the report on what mends would bring."""

from __future__ import annotations

from collections.abc import Sequence

from gpuwhy.findings.advice import Offer, Told
from gpuwhy.findings.outlook import Outlook
from gpuwhy.ledger.partition import Ledger
from gpuwhy.reports import findings_model as model
from gpuwhy.reports.findings_model import FindingInfo
from gpuwhy.reports.model import Withheld
from gpuwhy.timeline import Device, Timeline
from gpuwhy.whatif.gains import Gain


def replay_info(outlook: Outlook, device: Device) -> model.ReplayInfo | None:
    """What is told of a device's replay; None where there was none."""
    found = outlook.replayed
    if found is None:
        return None
    distortion = found.distortion
    return model.ReplayInfo(
        rank=device.rank,
        device=device.number,
        error=found.error,
        unexplained=found.unexplained,
        distortion=model.DistortionInfo(
            low=distortion.low, mid=distortion.mid, high=distortion.high, how=distortion.how
        )
        if distortion is not None
        else None,
        recorded_step_ns=_ns(found.recorded_ns),
        step_ns=_ns(found.step_ns),
        device_step_ns=_ns(found.device_ns),
    )


def _ns(value: float | None) -> int | None:
    return None if value is None else round(value)


def finding_infos(outlook: Outlook, device: Device) -> list[model.FindingInfo]:
    """The findings of one device, in their order."""
    if outlook.advice is None or outlook.replayed is None or outlook.replayed.step_ns is None:
        return []
    return [_finding(told, device, outlook.replayed.step_ns) for told in outlook.advice.told]


def _finding(told: Told, device: Device, step_ns: float) -> model.FindingInfo:
    finding = told.finding
    return model.FindingInfo(
        cause=finding.cause,
        rank=device.rank,
        device=device.number,
        title=finding.title,
        evidence=finding.evidence,
        refuted_by=finding.refuted_by,
        mends=[_mend(offer, step_ns) for offer in told.offers],
        explains=sorted({other.cause for other in told.folded} - {finding.cause}),
    )


def _mend(offer: Offer, step_ns: float) -> model.MendInfo:
    return model.MendInfo(
        id=offer.mend.id,
        text=offer.mend.text,
        code=offer.mend.code,
        after_over_before=_interval(offer.gain),
        step_after_ns=_after(offer.gain, step_ns * offer.mend.samples),
        samples=offer.mend.samples,
    )


def together_info(outlook: Outlook) -> model.TogetherInfo | None:
    """All mends together."""
    if outlook.advice is None or outlook.advice.together is None or outlook.replayed is None:
        return None
    found, step_ns = outlook.advice.together, outlook.replayed.step_ns or 0.0
    return model.TogetherInfo(
        mends=[mend.id for mend in found.mends],
        after_over_before=_interval(found.gain),
        step_after_ns=_after(found.gain, step_ns),
        along_ns=[round(step_ns * ratio) for ratio in found.along],
    )


def what_if_info(outlook: Outlook) -> model.WhatIfInfo | None:
    """The answer to the user's own question."""
    answer, found = outlook.answer, outlook.replayed
    if answer is None or found is None:
        return None
    return model.WhatIfInfo(
        changes=[one.name if one.value is None else f"{one.name}={one.value}" for one in answer.questions],
        after_over_before=_interval(answer.gain),
        step_after_ns=_after(answer.gain, (found.step_ns or 0.0) * answer.samples),
        samples=answer.samples,
        nothing=answer.nothing,
    )


def _interval(gain: Gain) -> model.Interval:
    return model.Interval(low=gain.low, mid=gain.mid, high=gain.high)


def _after(gain: Gain, step_ns: float) -> model.IntervalNs:
    low, mid, high = (round(step_ns * end) for end in (gain.low, gain.mid, gain.high))
    return model.IntervalNs(low=low, mid=mid, high=high)


def all_findings(timeline: Timeline, ledgers: Sequence[Ledger], outlooks: Sequence[Outlook]) -> list[FindingInfo]:
    """The findings of all devices: of those that come next on each, always the one that brings most."""
    lines = [
        finding_infos(outlook, timeline.devices[ledger.device])
        for ledger, outlook in zip(ledgers, outlooks, strict=True)
    ]
    merged = []
    while any(lines):
        line = min((one for one in lines if one), key=lambda one: _order(one[0]))
        merged.append(line.pop(0))
    return merged


def _order(finding: FindingInfo) -> tuple[bool, float]:
    """As within a device: what leaves the training as it is goes first, then by gain."""
    best = finding.mends[0]
    return best.samples != 1, best.after_over_before.mid


def no_gains(timeline: Timeline, ledgers: Sequence[Ledger], outlooks: Sequence[Outlook]) -> list[Withheld]:
    """Why there are no gains, once for each reason, with the devices that it holds for unless it is all of them."""
    reasons: dict[str, list[str]] = {}
    for ledger, outlook in zip(ledgers, outlooks, strict=True):
        if outlook.withheld is not None:
            device = timeline.devices[ledger.device]
            reasons.setdefault(outlook.withheld, []).append(f"rank {device.rank}, GPU {device.number}")
    return [
        Withheld(what="gains", why=why if len(which) == len(ledgers) else f"{'; '.join(which)}: {why}")
        for why, which in reasons.items()
    ]
