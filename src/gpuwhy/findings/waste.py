"""Busy time that goes to the wrong thing: a finding for each waste of the roofline.

The roofline gives what the same work takes at least. What it takes in practice lies between that and what it takes
now; where in between, the rule of each cause says.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpuwhy.findings.base import Finding, Look, mend_of
from gpuwhy.reports.words import ms
from gpuwhy.roofline.efficiency import Bound
from gpuwhy.roofline.waste import Waste
from gpuwhy.whatif.changes import Change, lasting
from gpuwhy.whatif.setting import Setting


def of_waste(look: Look, waste: Waste, mend: str, changes: Sequence[Change]) -> Finding:
    """The finding of a waste, whose mend has these changes."""
    steps = len(waste_steps) if (waste_steps := look.setting.view.ledger.window.steps) is not None else 1
    now, least = waste.ns / max(steps, 1), waste.least_ns / max(steps, 1)
    where = ", ".join(dict.fromkeys(one.name for one in waste.operators[:3]))
    return Finding(
        waste.cause,
        waste.title,
        [
            f"{look.of_step(now)} go to it"
            + (f"; done right, the same takes at least {ms(least)} ms" if least >= 1 else ", and none of it is needed"),
            *([f"most in {where}"] if where else []),
        ],
        "a step that is as long after the mend",
        [mend_of(mend, waste.mend, None, changes)],
    )


def of_cause(look: Look, cause: str) -> list[Waste]:
    """The wastes of a cause that are worth naming."""
    worth = look.least * look.setting.view.window_ns
    return [waste for waste in look.wastes if waste.cause == cause and waste.most_saved_ns >= max(worth, 1)]


def towards(setting: Setting, waste: Waste, reached: float) -> Change:
    """The operations of a waste take the least time over the part that is reached of it, never more than now.

    Kernels too small to fill the device take as long whatever they compute.
    """
    large = waste.rows[~setting.view.is_bound(Bound.LATENCY)[waste.rows]]
    return lasting(setting.ops_of(large), min(waste.least_ns / reached / max(waste.ns, 1), 1.0))
