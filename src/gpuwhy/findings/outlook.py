"""What could become of each device: its replay, and the findings with their gains, or why there are none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpuwhy.findings.advice import Advice, advise
from gpuwhy.findings.questions import Answer, Question, answer
from gpuwhy.ledger.partition import Basis, Ledger
from gpuwhy.roofline.judge import Roofline
from gpuwhy.trust import Check
from gpuwhy.whatif.build import build
from gpuwhy.whatif.replayed import Replayed, replayed

NEEDED = ("ledger", "idle causes")
"""Conclusions that gains stand on: a check that withholds one of them withholds gains, too."""
MOST_DEVICES = 16
"""Devices that are replayed, the least busy first."""


@dataclass(frozen=True, eq=False)
class Outlook:
    """One device's replay and advice; `advice` is None where gains are withheld, for the reason in `withheld`.

    `answer` is that to the user's own question, if there was one.
    """

    replayed: Replayed | None
    advice: Advice | None
    withheld: str | None
    answer: Answer | None = None


def outlook(
    of: Basis,
    ledgers: Sequence[Ledger],
    rooflines: Sequence[Roofline],
    found: Sequence[Check],
    step_time_ns: int | None,
    questions: Sequence[Question] = (),
) -> list[Outlook]:
    """The outlook of each device."""
    reason = next((check.detail for check in found if set(check.withholds) & set(NEEDED)), None)
    if reason is not None:
        return [Outlook(None, None, reason) for _ in ledgers]
    graph = build(of)
    windows = {ledger.device: ledger.window for ledger in ledgers}
    order = sorted(range(len(ledgers)), key=lambda i: ledgers[i].busy_ns / ledgers[i].window_ns)
    looked = set(order[:MOST_DEVICES])
    result = []
    for place, (ledger, roofline) in enumerate(zip(ledgers, rooflines, strict=True)):
        if place not in looked:
            result.append(Outlook(None, None, f"more than {MOST_DEVICES} devices: choose one with --device"))
            continue
        one = replayed(of, ledger, roofline.view, graph, windows, step_time_ns)
        advice = advise(one, roofline.wastes) if one.withheld is None else None
        asked = answer(one, roofline.wastes, questions) if questions else None
        result.append(Outlook(one, advice, one.withheld, asked))
    return result
