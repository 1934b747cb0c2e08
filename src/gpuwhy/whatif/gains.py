"""What a change brings: the step after it over the step before, each without the profiler's distortion."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from gpuwhy.whatif.changes import Change
from gpuwhy.whatif.distortion import Distortion, undistorted
from gpuwhy.whatif.graph import Graph
from gpuwhy.whatif.period import Period, step_ns
from gpuwhy.whatif.setting import Setting

OFF, OFF_MORE = 0.12, 0.025
"""What a replayed gain is off by, as a logarithm, besides what is known not to be known; and what more of it for each
unit of the gain's own logarithm: two thirds of our measured pairs lie within it."""
OFF_OF_GAIN, LEAST_OFF = 0.7, 0.025
"""… by no more than this part of its own logarithm, since what a small mend brings is small in any case; and by no less
than this, which is as near as gains can be measured."""
LEAST = 1e-6


@dataclass(frozen=True)
class Gain:
    """Time a sample, after over before."""

    low: float
    mid: float
    high: float


@dataclass(frozen=True, eq=False)
class Base:
    """A period's graph without the profiler, if that stretched it by some factor, and its step."""

    graph: Graph
    step_ns: float


@dataclass(frozen=True, eq=False)
class Bases:
    """What gains start from: the graph at the expected distortion, then at the ends of what is plausible."""

    period: Period
    expected: Base
    ends: tuple[Base, ...]


def bases(setting: Setting, distortion: Distortion) -> Bases:
    """The graphs that changes are applied to."""
    factors = (distortion.mid, *sorted({distortion.low, distortion.high} - {distortion.mid}))
    graphs = [undistorted(setting, factor, distortion.firm) for factor in factors]
    expected, *ends = (Base(graph, step_ns(graph, setting.period)) for graph in graphs)
    return Bases(setting.period, expected, tuple(ends))


def unpaced_steps(recorded: Graph, of: Bases) -> tuple[float, float]:
    """A step as recorded and one without the profiler, in ns, both without a pace that a loader sets."""
    steps = [step_ns(replace(graph, pace_ns=0.0), of.period) for graph in (recorded, of.expected.graph)]
    return steps[0], steps[1]


def gain(of: Bases, variants: Sequence[Change], samples: float = 1.0) -> Gain:
    """The gain of a change; `variants` are the expected one, then those at the ends of what is plausible.

    The interval is that of all variants at all plausible distortions, and of what the replay itself is off by.
    `samples` is how many times as many samples a step has afterwards.
    """
    ratios = [
        step_ns(change(base.graph), of.period) / base.step_ns / samples
        for base in (of.expected, *of.ends)
        for change in variants
    ]
    mid = max(ratios[0], LEAST)
    below, above = (math.log(max(end, LEAST) / mid) for end in (min(ratios), max(ratios)))
    shorter = abs(math.log(mid * samples))  # that there are more samples is known for sure
    off = max(min(OFF + OFF_MORE * shorter, OFF_OF_GAIN * abs(math.log(mid))), LEAST_OFF)
    return Gain(mid * math.exp(-math.hypot(below, off)), mid, mid * math.exp(math.hypot(above, off)))
