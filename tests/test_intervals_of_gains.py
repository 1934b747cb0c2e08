"""The interval of a gain: what the mend, the profiler's part and the replay itself leave open, put together.

A loop of the host's (ten operators of 100 µs, kernels of 1 µs) whose host time becomes a part of it gains just that
part. What else a gain is off by is, as a logarithm, the number in each test: 0.12 and 0.025 for each unit of the step's
own logarithm, but no more than 0.7 of the gain's, and no less than 0.025 (docs/whatif.md).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import pytest
from advising import HOST_BOUND, SHORT, operators
from replaying import GAP, US, everywhere, looped, replay, setting_of

from gpuwhy.whatif.changes import Change, as_it_is, composed, without_host_time, without_ops
from gpuwhy.whatif.distortion import Distortion
from gpuwhy.whatif.gains import Gain, bases, gain

KNOWN = Distortion(1.0, 1.0, 1.0, "step_time")
"""Nothing is the profiler's."""


def gained(*parts: float, folder: Path, samples: float = 1.0) -> Gain:
    """The gain where host time becomes a part of it: as expected, and perhaps at best and at worst."""
    found = replay(looped(operators(10, US)), folder)
    host, _ = everywhere(found)
    variants = [without_host_time(host, part) for part in parts]
    return gain(bases(setting_of(found), KNOWN), variants, samples)


def interval(mid: float, below: float, above: float | None = None) -> tuple[float, float, float]:
    """A gain that is off by these logarithms."""
    return mid / math.exp(below), mid, mid * math.exp(below if above is None else above)


def ends(of: Gain) -> tuple[float, float, float]:
    return of.low, of.mid, of.high


# --- What the replay is off by ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("part", "off"),
    [
        (1.0, 0.025),  # no gain at all
        (0.98, 0.025),  # 0.7 · ln(1 / 0.98) = 0.0141 is less than can be measured
        (0.9, 0.7 * 0.105361),  # a small mend brings little: 0.0738
        (1.1, 0.7 * 0.095310),  # … or costs little
        (0.8, 0.12 + 0.025 * 0.223144),  # 0.7 · ln(1 / 0.8) = 0.156 is more
        (0.5, 0.12 + 0.025 * 0.693147),
        (2.0, 0.12 + 0.025 * 0.693147),
        (0.05, 0.12 + 0.025 * 2.995732),
    ],
)
def test_a_gain_is_off_by_the_more_the_larger_it_is(part: float, off: float, folder: Path) -> None:
    assert ends(gained(part, folder=folder)) == pytest.approx(interval(part, off), rel=1e-6)


@pytest.mark.parametrize(
    ("part", "samples", "off"),
    [
        (1.0, 8.0, 0.12),  # a step as long as before: that it has eight times as many samples is known
        (4.0, 8.0, 0.12 + 0.025 * 1.386294),  # half of the time a sample, in steps four times as long
        (0.5, 0.5, 0.025),  # half of the samples in half of the time
        (1.9, 2.0, 0.7 * 0.051293),  # time a sample is 0.95 of what it was
    ],
)
def test_a_larger_batch_is_off_by_what_its_step_is(part: float, samples: float, off: float, folder: Path) -> None:
    found = gained(part, folder=folder, samples=samples)
    assert ends(found) == pytest.approx(interval(part / samples, off), rel=1e-6)


# --- What else is open --------------------------------------------------------------------------------------


def test_what_a_mend_leaves_open_widens_the_interval_on_its_side(folder: Path) -> None:
    """Half is expected, a quarter at best and 0.6 at worst: ln 2 and ln 1.2 beside what the replay is off by."""
    off = 0.12 + 0.025 * 0.693147
    wanted = interval(0.5, math.hypot(0.693147, off), math.hypot(0.182322, off))
    assert ends(gained(0.5, 0.25, 0.6, folder=folder)) == pytest.approx(wanted, rel=1e-6)
    assert ends(gained(0.5, 0.6, 0.25, folder=folder)) == pytest.approx(wanted, rel=1e-6)


def test_what_is_not_known_of_the_profiler_widens_it_too(folder: Path) -> None:
    """Of each 100 µs 24 are short: 100, 88 and 82 µs without a profiler that stretches them 1, 2 or 4 times.

    Without the host the device takes 415 µs of 880, of 1,000 or of 820.
    """
    found = replay(looped(HOST_BOUND), folder)
    host, _ = everywhere(found)
    of = bases(setting_of(found), Distortion(1.0, 2.0, 4.0, "usual"))
    assert of.expected.step_ns == pytest.approx(880 * US)
    assert [base.step_ns for base in of.ends] == pytest.approx([1_000 * US, 820 * US])
    device = 10 * (SHORT + GAP)
    mid = device / (880 * US)
    off = 0.12 + 0.025 * math.log(1 / mid)
    wanted = interval(mid, math.hypot(math.log(1_000 / 880), off), math.hypot(math.log(880 / 820), off))
    assert ends(gain(of, [without_host_time(host)])) == pytest.approx(wanted, rel=1e-6)


def test_all_ends_of_both_are_looked_at(folder: Path) -> None:
    """The best mend where the profiler stretched least, and the worst where it stretched most.

    Of the host's time all goes but 0.6 [0.5, 0.7] of the long part: 7.6 µs of 10 for each operator, and what is left of
    the short part.
    """
    found = replay(looped(operators(10, US)), folder)
    setting = setting_of(found)
    long = setting.long(50 * US)
    variants: Sequence[Change] = [without_host_time(long, part) for part in (0.6, 0.5, 0.7)]
    # Slices of 96 µs count as 76 + 20 / f, those of 4 as 4 / f.
    before = {f: 76 + 24 / f for f in (1.0, 2.0, 4.0)}
    after = {(f, part): part * (76 + 20 / f) + 4 / f for f in before for part in (0.6, 0.5, 0.7)}
    ratios = {key: ns / before[key[0]] for key, ns in after.items()}
    mid = ratios[2.0, 0.6]
    off = 0.12 + 0.025 * math.log(1 / mid)
    below, above = (math.log(end(ratios.values()) / mid) for end in (min, max))
    got = gain(bases(setting, Distortion(1.0, 2.0, 4.0, "usual")), variants)
    assert ends(got) == pytest.approx(interval(mid, math.hypot(below, off), math.hypot(above, off)), rel=1e-6)


def test_a_step_of_no_time_at_all_is_a_gain_with_an_interval(folder: Path) -> None:
    """Without its host and its operations a loop takes nothing, which counts as a millionth: its logarithm is 13.8."""
    found = replay(looped(operators(10, US)), folder)
    host, ops = everywhere(found)
    of = bases(setting_of(found), KNOWN)
    assert ends(gain(of, [as_it_is])) == pytest.approx(interval(1.0, 0.025))
    nothing = gain(of, [composed([without_host_time(host), without_ops(ops)])])
    assert ends(nothing) == pytest.approx(interval(1e-6, 0.12 + 0.025 * 13.815511), rel=1e-6)
