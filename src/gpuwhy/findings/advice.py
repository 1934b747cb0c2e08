"""Findings with the gains of their mends: which are told, in which order, and what all of them bring together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from gpuwhy.findings import findings
from gpuwhy.findings.base import WORTH, Finding, Look, Mend
from gpuwhy.roofline.waste import Waste
from gpuwhy.whatif.changes import Change, composed
from gpuwhy.whatif.distortion import undistorted
from gpuwhy.whatif.gains import LEAST, Gain, gain
from gpuwhy.whatif.graph import Graph
from gpuwhy.whatif.period import step_ns
from gpuwhy.whatif.replayed import Replayed
from gpuwhy.whatif.setting import Setting

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
class Advice:
    """All that is told of one device. `together` are the mends that were replayed at once, and their gain."""

    told: list[Told]
    together: tuple[list[Mend], Gain] | None

    @property
    def healthy(self) -> bool:
        """No mend is worth it."""
        return not self.told


def advise(found: Replayed, wastes: Sequence[Waste]) -> Advice:
    """Judge every mend of every finding by replay."""
    setting, distortion = found.setting, found.distortion
    if setting is None or distortion is None or found.device_ns is None:
        return Advice([], None)
    base = _undistorted(setting, found)
    recorded, without = (step_ns(replace(one, pace_ns=0.0), setting.period) for one in (setting.graph, base))
    host_bound = found.device_ns <= (1 - WORTH) * without
    candidates = []
    for finding in findings(Look(setting, wastes, recorded, found.device_ns if host_bound else None)):
        offers = [Offer(mend, gain(setting, distortion, mend.variants, mend.samples)) for mend in finding.mends]
        worth = sorted((offer for offer in offers if offer.gain.mid <= 1 - WORTH), key=_order)
        if worth:
            candidates.append(Told(finding, worth, []))
    told = _folded(setting, found, sorted(candidates, key=lambda one: _order(one.offers[0])))
    return Advice(told, _together(setting, found, told))


def _order(offer: Offer) -> tuple[bool, int]:
    """Mends that leave the program's results as they are go before those that do not, then by gain.

    Gains that differ by less than is known of them count as equal: then the rules' own order decides.
    """
    return offer.mend.samples != 1, round(math.log(max(offer.gain.mid, LEAST)) / ALIKE)


def _folded(setting: Setting, found: Replayed, candidates: list[Told]) -> list[Told]:
    """Each finding that is worth nothing once an earlier one is mended goes with that one."""
    kept: list[Told] = []
    for one in candidates:
        root = next((before for before in kept if not _still_worth(setting, found, before, one)), None)
        if root is None:
            kept.append(one)
        else:
            root.folded.append(one.finding)
    return kept


def _still_worth(setting: Setting, found: Replayed, first: Told, then: Told) -> bool:
    base = _undistorted(setting, found)
    mended = first.offers[0].mend.expected(base)
    after = step_ns(then.offers[0].mend.expected(mended), setting.period) / then.offers[0].mend.samples
    return after <= (1 - WORTH) * step_ns(mended, setting.period)


def _undistorted(setting: Setting, found: Replayed) -> Graph:
    assert found.distortion is not None
    return undistorted(setting, found.distortion.mid, found.distortion.firm)


def _together(setting: Setting, found: Replayed, told: Sequence[Told]) -> tuple[list[Mend], Gain] | None:
    """The best mend of each finding, one after the other, as long as each still adds something."""
    assert found.distortion is not None
    base = _undistorted(setting, found)
    before = step_ns(base, setting.period)
    chosen: list[Mend] = []
    graph = base
    for one in told:
        best = next((offer.mend for offer in one.offers if offer.mend.samples == 1), None)
        if best is None or len(chosen) == MOST_TOGETHER:
            continue
        after = step_ns(changed := best.expected(graph), setting.period)
        if after < (1 - WORTH / 3) * before:
            graph, before = changed, after
            chosen.append(best)
    if not chosen:
        return None
    variants = [composed([_end(mend, which) for mend in chosen]) for which in range(3)]
    return chosen, gain(setting, found.distortion, variants)


def _end(mend: Mend, which: int) -> Change:
    return mend.expected if not which or mend.ends is None else mend.ends[which - 1]
