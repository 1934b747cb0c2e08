"""A finding: one root cause with its evidence, its mends and what would refute it; and what rules look at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from gpuwhy.reports.words import ms
from gpuwhy.roofline.waste import Waste
from gpuwhy.whatif.changes import Change, as_it_is, composed, without_host_time
from gpuwhy.whatif.setting import Setting, Slices

WORTH = 0.03
"""Part of a step that a cause must take, or a mend must save, to be told."""
LONG_NS = 1_000_000
"""Host time without an operator, longer at a stretch than what lies between any two operators of a loop."""
SHORT_NS = 100_000
"""… and than what lies between two launches of an optimizer or a forward pass."""


WARM = 0.87, 0.78, 0.97
"""Time of a loop's own host work without long work of another kind in each step, over that with it: caches and
predictors stay warm (recorded before and after on H200 hosts: 0.65 to 1.04, the median of seven 0.86)."""
MUCH = 0.25
"""Part of a step that such work must fill."""


@dataclass(frozen=True, eq=False)
class Look:
    """What a rule looks at: a device's setting and the roofline's wastes.

    `step_ns` is a step as it was recorded, `unprofiled_ns` one without the profiler (and without a pace that a loader
    sets), `device_ns` one of the device alone where the host sets the pace without the profiler, too, else None. What
    takes less than `least` of a step is not named.
    """

    setting: Setting
    wastes: Sequence[Waste]
    step_ns: float
    unprofiled_ns: float
    device_ns: float | None
    least: float = WORTH

    def is_worth(self, ns: float) -> bool:
        """Whether so much of each step is worth naming."""
        return ns >= self.least * self.step_ns and ns > 0

    def of_step(self, ns: float) -> str:
        """A part of a step in words."""
        return f"{ms(ns)} of {ms(self.step_ns)} ms a step"


@dataclass(frozen=True, eq=False)
class Mend:
    """A change that a user can make.

    `expected` is what it does to the graph, `ends` the same at best and at worst, where that is not known. `samples` is
    how many times as many samples a step has then.
    """

    id: str
    text: str
    code: str | None
    expected: Change
    ends: tuple[Change, Change] | None = None
    samples: float = 1.0

    @property
    def variants(self) -> tuple[Change, ...]:
        """The expected change and the ends of what is plausible."""
        return (self.expected, *(self.ends or ()))


@dataclass(frozen=True, eq=False)
class Finding:
    """One root cause. `evidence` are sentences with numbers and what they are of."""

    cause: str
    title: str
    evidence: list[str]
    refuted_by: str
    mends: list[Mend] = field(default_factory=list)


def warmed(look: Look, slices: Slices, warm: tuple[float, float, float] = WARM) -> tuple[Change, Change, Change]:
    """What the rest of the host's time becomes when work that filled much of a step is gone: as expected, at best, at
    worst.
    """
    setting = look.setting
    if setting.host_ns(slices) < MUCH * look.step_ns:
        return as_it_is, as_it_is, as_it_is
    expected, best, worst = (without_host_time(setting.own & ~slices, left) for left in warm)
    return expected, best, worst


def mend_of(id_: str, text: str, code: str | None, changes: Sequence[Change]) -> Mend:
    """A mend from its change: as expected, and perhaps at best and at worst."""
    ends = (changes[1], changes[2]) if len(changes) == 3 else None
    return Mend(id_, text, code, changes[0], ends)


def off_the_loop(
    look: Look, slices: Slices, cause: str, title: str, refuted_by: str, mend: tuple[str, str, str | None]
) -> Finding | None:
    """Host work of one kind that need not be in the loop, if there is enough of it."""
    own = look.setting.host_ns(slices)
    if not look.is_worth(own):
        return None
    changes = [composed([without_host_time(slices), warm]) for warm in warmed(look, slices)]
    return Finding(cause, title, [look.of_step(own)], refuted_by, [mend_of(*mend, changes)])
