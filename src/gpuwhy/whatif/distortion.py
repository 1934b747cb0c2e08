"""How much slower the recorded host was than it is without a profiler.

A profiler adds a few microseconds to each event: PyTorch's slowed one and the same loop by 1.05 to 2.5 times. Time
between events that is long (a sleep, a file that is written, an item that is decoded) is as long without it, and so is
the device's. So what is stretched is the first `SHORT_NS` of each slice of host time, by a factor that the step time
without a profiler tells, if it is known, and that otherwise lies in a range.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from gpuwhy.whatif.graph import Graph
from gpuwhy.whatif.period import step_ns
from gpuwhy.whatif.setting import Setting

SHORT_NS = 20_000
"""What of a slice a profiler can have stretched."""
USUAL = (1.25, 1.8, 2.5)
"""The factor where it is not known: low, expected, high (of 49 loops on H200s with PyTorch 2.11, recorded with shapes
and without stacks: 1.25 to 3, nine of ten up to 2.6)."""
LEAST, MOST = 1.2, 3.5
"""Outside of these it is something else that differs from the recording."""
LEAST_FIRM, MOST_FIRM = 0.5, 3.0
SURE, STEADY = 0.07, 0.02
"""A factor that the step time tells is off by so much of itself, and by what it would change if the step time differed
by so much: little depends on the host where the device is nearly the limit."""
NEARBY = 1.1
FURTHEST, ASTRAY = (1.0, 20.0), 0.2
"""Where only a factor beyond those gives the step time, it is off by so much of itself."""
FOUND = 1e-3
TELLS = 0.02
"""A step time tells a factor only if the step differs by so much of itself between the ends of what is possible."""


@dataclass(frozen=True)
class Distortion:
    """The factor by which short host time is stretched, and how it is known: `step_time`, or `usual`.

    `firm` is by how much other host time is longer without the profiler, as far as the step time tells: the host of a
    shared machine is not equally fast all the time.
    """

    low: float
    mid: float
    high: float
    how: str
    firm: float = 1.0


def undistorted(setting: Setting, factor: float, firm: float = 1.0) -> Graph:
    """The graph of the same program without a profiler that stretched short host time so many times, and whose own work
    is gone.
    """
    graph, host = setting.graph, setting.graph.host
    length = (host.end - host.start).astype(np.float64)
    short = np.where(setting.producing | setting.slices_of("input"), 0.0, np.minimum(length, SHORT_NS))
    left = (short / factor + (length - short) * firm) / np.maximum(length, 1.0)
    left[setting.slices_of("profiler")] = 0.0
    return replace(graph, host=replace(host, factor=host.factor * left))


def calibrate(setting: Setting, step_time_ns: float | None) -> Distortion:
    """The factor at which the replay takes as long as a step does without a profiler."""
    low, mid, high = USUAL
    if step_time_ns is None:
        return Distortion(low, mid, high, "usual")

    def step(factor: float, firm: float = 1.0) -> float:
        return float(step_ns(undistorted(setting, factor, firm), setting.period))

    def tells(shortest: float, longest: float) -> bool:
        return shortest < step_time_ns < longest and longest - shortest > TELLS * longest

    shortest, longest = step(MOST), step(LEAST)
    if tells(shortest, longest):
        found = _solve(lambda factor: -step(factor), -step_time_ns, LEAST, MOST)
        shorter = math.log(step_time_ns / step(found * NEARBY))
        return _weighed(found, math.hypot(SURE, STEADY * math.log(NEARBY) / max(shorter, FOUND)))
    if tells(step(mid, LEAST_FIRM), step(mid, MOST_FIRM)):
        firm = _solve(lambda firm: step(mid, firm), step_time_ns, LEAST_FIRM, MOST_FIRM)
        return Distortion(low, mid, high, "step_time", firm)
    if longest - shortest > TELLS * longest:  # the host had another load while it was recorded
        found = _solve(lambda factor: -step(factor), -step_time_ns, *FURTHEST)
        return Distortion(found * (1 - ASTRAY), found, found * (1 + ASTRAY), "step_time")
    return Distortion(low, mid, high, "usual")


def _weighed(found: float, off: float) -> Distortion:
    """A factor that was found, off by a part of itself, together with what is usual."""
    low, mid, high = USUAL
    usual_off = math.log(high / low) / 2
    part = usual_off**2 / (usual_off**2 + off**2)
    expected, off = mid ** (1 - part) * found**part, off * part**0.5
    return Distortion(expected * math.exp(-off), expected, expected * math.exp(off), "step_time")


def _solve(rising: Callable[[float], float], target: float, low: float, high: float) -> float:
    """Where a function that rises from `low` to `high` reaches the target."""
    while high / low > 1 + FOUND:
        middle = (low * high) ** 0.5
        low, high = (low, middle) if rising(middle) > target else (middle, high)
    return float((low * high) ** 0.5)
