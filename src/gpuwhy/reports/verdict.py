"""The report in a sentence or two: the first finding, then how busy the least busy device is and with what."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from gpuwhy.findings.base import WORTH
from gpuwhy.ledger.accounts import HOST_BOUND, UNKNOWN, WAITING, within
from gpuwhy.ledger.partition import Ledger
from gpuwhy.reports import model, words
from gpuwhy.reports.beside import mostly_next_to
from gpuwhy.reports.build_roofline import advice_on
from gpuwhy.reports.findings_model import FindingInfo
from gpuwhy.roofline.judge import Roofline
from gpuwhy.timeline import Timeline

MOSTLY = 0.5
"""A frame is named in the verdict if this share of the loss lies in it."""

NO_MEND = f"No mend is predicted to bring {100 * WORTH:.0f} % of a step"
MOST_UNJUDGED = 0.25
"""Part of the window in busy time of which nothing is known, above which nobody can say that a program is healthy."""


def verdict(
    timeline: Timeline,
    ledgers: Sequence[Ledger],
    rooflines: Sequence[Roofline],
    worst: int,
    findings: Sequence[FindingInfo],
    withheld: Sequence[model.Withheld],
) -> model.Verdict:
    """The verdict; `worst` is the place of the least busy device."""
    ledger = ledgers[worst]
    if any(item.what == "ledger" for item in withheld):
        reason = next(item.why for item in withheld if item.what == "ledger")
        return model.Verdict(text=f"No verdict: {reason}.", healthy=None, cause=None)
    busy = _busy(timeline, ledgers, ledger)
    blind = [item.why for item in withheld if item.what == "idle causes"]
    if blind and not within(loss(ledger).name, "busy"):
        why = blind[0].split(". ")[0].rstrip(".")  # the check says the rest
        return model.Verdict(text=f"{busy}. Why it is idle is not told: {why}.", healthy=None, cause=None)
    text, cause = _largest(busy, ledger, rooflines[worst])
    if not findings and any(item.what == "gains" for item in withheld):
        return model.Verdict(text=text, healthy=None, cause=cause)
    blank = next((item.why for item in withheld if item.what == "healthy"), None)
    if blank is not None:
        return model.Verdict(text=f"{NO_MEND}, but {blank}. {text}", healthy=None, cause=cause)
    if not findings:
        return model.Verdict(
            text=f"Healthy: {NO_MEND[0].lower()}{NO_MEND[1:]}. {text}",
            healthy=True,
            cause="healthy",
        )
    first = findings[0]
    who = f"Rank {first.rank}, GPU {first.device}: {first.title}" if len(ledgers) > 1 else first.title
    return model.Verdict(text=f"{who[0].upper()}{who[1:]}. {text}", healthy=False, cause=first.cause)


def unjudged(ledgers: Sequence[Ledger], rooflines: Sequence[Roofline]) -> str | None:
    """Why it cannot be said that a program is healthy: too little is known of how well busy time is used."""
    shares = [
        use.use.bounds.get("unknown", 0) / ledger.window_ns for ledger, use in zip(ledgers, rooflines, strict=True)
    ]
    most = max(range(len(shares)), key=shares.__getitem__)
    if shares[most] <= MOST_UNJUDGED:
        return None
    advice = advice_on(rooflines[most])
    return f"how well {100 * shares[most]:.0f} % of the time is used is not known" + (f" ({advice})" if advice else "")


def _busy(timeline: Timeline, ledgers: Sequence[Ledger], worst: Ledger) -> str:
    """How busy the least busy device is."""
    device = timeline.devices[worst.device]
    where = f"rank {device.rank}, GPU {device.number}" if len(timeline.sources) > 1 else f"GPU {device.number}"
    which = f"The least busy of {len(ledgers)} devices, {where}," if len(ledgers) > 1 else where
    return f"{which[0].upper()}{which[1:]} is busy {100 * worst.busy_ns / worst.window_ns:.1f} % of the time"


def _largest(busy: str, worst: Ledger, roofline: Roofline) -> tuple[str, str | None]:
    """What the largest loss is, and the cause that the ledger proves by itself."""
    most = loss(worst)
    main = most.accounts[0] if most.accounts else most.name
    steps = len(worst.window.steps) if worst.window.steps is not None else 0
    share = f"{100 * most.share:.1f} % of the window" + (
        f", {words.ms(most.ns / steps)} of {words.ms(worst.window_ns / steps)} ms a step" if steps else ""
    )
    if within(most.name, "busy"):
        text = f"{busy}; the largest part goes to {words.loss_sentence(most.name)} ({most.name}, {share})."
        worth = [waste for waste in roofline.wastes if waste.is_worth(worst.window_ns)]
        if worth and main not in words.CAUSE_BY_ITSELF:
            return text, worth[0].cause
        return text, words.CAUSE.get(main)
    by_group = main in ("idle/launch", "idle/dispatch")
    if not by_group and most.name != main:
        own = f"{main.removeprefix('idle/')} {100 * worst.of(main) / worst.window_ns:.1f} %"
        share = f"{own}; {most.name} in all {share}"
    else:
        share = f"{most.name}, {share}"
    text = f"{busy}. Largest loss: {words.loss_sentence(most.name if by_group else main)} ({share})."
    return text + _frame(worst, main, most.ns) + _beside_copies(worst, main, steps), words.CAUSE.get(main)


def _frame(ledger: Ledger, account: str, loss_ns: int) -> str:
    """Names the Python frame or annotation that most of the loss is spent in, if one is known."""
    if account != "idle/outside_operators":
        return ""
    known = [
        (int(ns), name)
        for name, ns in zip(ledger.accounts, ledger.ns, strict=True)
        if within(name, account) and name not in UNKNOWN
    ]
    ns, name = max(known, default=(0, ""))
    if ns < MOSTLY * loss_ns:
        return ""
    return f" Most of it is spent in {words.shorten(name.split('/', 2)[2], 80)}."


def _beside_copies(ledger: Ledger, account: str, steps: int) -> str:
    """Names the copies that most of an account's idle time lies next to, where waiting for them is not the point."""
    if not within(account, "idle/outside_operators") and not within(account, "idle/serialization"):
        return ""
    each = " a step" if steps else ""
    total = ledger.of(account)
    for some, ns in mostly_next_to(next_to_copy(ledger), account, total):
        often = f"{some.copies / max(steps, 1):,.0f}{each}"
        moved = f", {words.size(some.bytes / max(steps, 1))}{each}" if some.bytes is not None else ""
        share = f"{100 * ns / total:.0f} %"
        return f" {share} of its {account.split('/')[1]} time lies next to {words.meaning(some.copy)} ({often}{moved})."
    return ""


def loss(ledger: Ledger) -> model.Loss:
    """The largest loss of a device."""
    name, ns = ledger.largest_loss()
    groups = {"host-bound": HOST_BOUND, "waiting": WAITING}.get(name, (name,))
    parts = [(group, ledger.of(group)) for group in groups]
    parts = sorted((part for part in parts if part[1]), key=lambda part: -part[1])
    return model.Loss(name=name, ns=ns, share=ns / ledger.window_ns, accounts=[part[0] for part in parts])


def next_to_copy(ledger: Ledger) -> list[model.NextToCopy]:
    """Idle time next to copies."""
    return [model.NextToCopy(**asdict(one)) for one in ledger.next_to_copy]
