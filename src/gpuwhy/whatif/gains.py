"""What a change brings: the step after it over the step before, each without the profiler's distortion."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from gpuwhy.whatif.changes import Change
from gpuwhy.whatif.distortion import Distortion, undistorted
from gpuwhy.whatif.period import step_ns
from gpuwhy.whatif.setting import Setting

OFF = 0.13
"""What a replayed gain is off by, as a logarithm, besides what is known not to be known: two thirds of our measured
pairs lie within it."""
OFF_OF_GAIN = 0.7
"""… and by no more than this part of its own logarithm: what a small mend brings is small in any case."""
LEAST = 1e-6


@dataclass(frozen=True)
class Gain:
    """Time a sample, after over before."""

    low: float
    mid: float
    high: float


def gain(setting: Setting, distortion: Distortion, variants: Sequence[Change], samples: float = 1.0) -> Gain:
    """The gain of a change; `variants` are the expected one, then those at the ends of what is plausible.

    The interval is that of all variants at all plausible distortions, and of what the replay itself is off by.
    `samples` is how many times as many samples a step has afterwards.
    """
    of = setting.period
    factors = sorted({distortion.low, distortion.mid, distortion.high})
    ratios = []
    for factor in factors:
        before = undistorted(setting, factor, distortion.firm)
        base = step_ns(before, of)
        ratios += [step_ns(change(before), of) / base / samples for change in variants]
    mid = max(ratios[factors.index(distortion.mid) * len(variants)], LEAST)
    below, above = (math.log(max(end, LEAST) / mid) for end in (min(ratios), max(ratios)))
    off = min(OFF, OFF_OF_GAIN * abs(math.log(mid)))
    return Gain(mid * math.exp(-math.hypot(below, off)), mid, mid * math.exp(math.hypot(above, off)))
