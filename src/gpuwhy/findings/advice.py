"""Findings with the gains of their mends: which are told, in which order, and what all of them bring together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from gpuwhy.findings import findings
from gpuwhy.findings.base import WORTH, Finding, Look, Mend
from gpuwhy.roofline.waste import Waste
from gpuwhy.whatif.changes import Change, composed
from gpuwhy.whatif.gains import LEAST, Bases, Gain, gain, unpaced_steps
from gpuwhy.whatif.period import step_ns
from gpuwhy.whatif.replayed import Replayed

ALIKE = 0.1
"""Gains whose logarithms differ by less are equal."""
MOST_TOGETHER = 8
"""Mends that are replayed together."""


@dataclass(frozen=True, eq=False)
class Offer:
    """A mend and its gain."""

    mend: Mend
    gain: Gain


@dataclass(frozen=True, eq=False)
class Told:
    """A finding with the mends that are worth it, the best first; `folded` are findings that it explains."""

    finding: Finding
    offers: list[Offer]
    folded: list[Finding]


@dataclass(frozen=True, eq=False)
class Together:
    """Mends that were replayed at once, their gain, and time a sample after each of them and those before it."""

    mends: list[Mend]
    gain: Gain
    along: list[float]


@dataclass(frozen=True, eq=False)
class Advice:
    """All that is told of one device."""

    told: list[Told]
    together: Together | None

    @property
    def healthy(self) -> bool:
        """No mend is worth it."""
        return not self.told


def advise(found: Replayed, wastes: Sequence[Waste]) -> Advice:
    """Judge every mend of every finding by replay."""
    setting, bases = found.setting, found.bases
    if setting is None or bases is None or found.device_ns is None:
        return Advice([], None)
    recorded, without = unpaced_steps(setting.graph, bases)
    host_bound = found.device_ns <= (1 - WORTH) * min(without, found.step_time_ns or without)
    candidates = []
    for finding in findings(Look(setting, wastes, recorded, without, found.device_ns if host_bound else None)):
        offers = [Offer(mend, gain(bases, mend.variants, mend.samples)) for mend in finding.mends]
        worth = sorted((offer for offer in offers if offer.gain.mid <= 1 - WORTH), key=_order)
        if worth:
            candidates.append(Told(finding, worth, []))
    told = _folded(bases, sorted(candidates, key=lambda one: _order(one.offers[0])))
    return Advice(told, _together(bases, told))


def _order(offer: Offer) -> tuple[bool, int]:
    """Mends that leave the program's results as they are go before those that do not, then by gain.

    Gains that differ by less than is known of them count as equal: then the rules' own order decides.
    """
    return offer.mend.samples != 1, round(math.log(max(offer.gain.mid, LEAST)) / ALIKE)


def _folded(bases: Bases, candidates: list[Told]) -> list[Told]:
    """Each finding that is worth nothing once an earlier one is mended goes with that one."""
    kept: list[Told] = []
    for one in candidates:
        root = next((before for before in kept if not _still_worth(bases, before, one)), None)
        if root is None:
            kept.append(one)
        else:
            root.folded.append(one.finding)
    return kept


def _still_worth(bases: Bases, first: Told, then: Told) -> bool:
    mended = first.offers[0].mend.expected(bases.expected.graph)
    after = step_ns(then.offers[0].mend.expected(mended), bases.period) / then.offers[0].mend.samples
    return after <= (1 - WORTH) * step_ns(mended, bases.period)


def _together(bases: Bases, told: Sequence[Told]) -> Together | None:
    """The best mend of each finding, then the others, one after the other, as far as each still adds something."""
    graph, before = bases.expected.graph, bases.expected.step_ns
    chosen: list[Mend] = []
    along: list[float] = []
    lines = [[offer.mend for offer in one.offers if offer.mend.samples == 1] for one in told]
    for mend in [line[0] for line in lines if line] + [mend for line in lines for mend in line[1:]]:
        if len(chosen) == MOST_TOGETHER:
            break
        after = step_ns(changed := mend.expected(graph), bases.period)
        if after < (1 - WORTH / 3) * before:
            graph, before = changed, after
            chosen.append(mend)
            along.append(after / bases.expected.step_ns)
    if not chosen:
        return None
    variants = [composed([_end(mend, which) for mend in chosen]) for which in range(3)]
    return Together(chosen, gain(bases, variants), along)


def _end(mend: Mend, which: int) -> Change:
    return mend.expected if not which or mend.ends is None else mend.ends[which - 1]
