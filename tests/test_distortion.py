"""How much slower a profiler made the host: what a step time tells of it, and how much that is believed.

A loop of ten operators of 100 µs has, in each, slices of 96 and (the launch call) 4 µs, of which 20 and 4 are short:
with those stretched `f` times, a step without the profiler takes 10 · (76 + 24 / f) µs.
"""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from advising import HOST_BOUND, IN_LOOP, marked, operators, several, waits
from replaying import GAP, LATENCY, RETURN, US, Body, looped, replay, setting_of

from gpuwhy.whatif.distortion import Distortion, _weighed, calibrate
from gpuwhy.whatif.setting import Setting

LOW, USUAL, HIGH = 1.25, 1.8, 2.5
"""Where no step time is known (docs/whatif.md)."""
SURE, STEADY = 0.07, 0.02
"""What a factor that was found is off by, and by which part of itself a step time can be."""


def recorded(*bodies: Body, folder: Path) -> Setting:
    return setting_of(replay(looped(*bodies), folder))


def without(factor: float, firm: float = 1.0) -> float:
    """A step of the loop above, whose host sets the pace, without a profiler that stretched it so many times."""
    return 10 * (76 * firm + 24 / factor) * US


def weighed(found: float, off: float) -> tuple[float, float, float]:
    """The mean of logarithms, each by how sure it is: what is usual reaches from 1.25 to 2.5, a factor of two."""
    of_found, of_usual = off**-2, (math.log(2) / 2) ** -2
    log = (of_found * math.log(found) + of_usual * math.log(USUAL)) / (of_found + of_usual)
    width = (of_found + of_usual) ** -0.5
    return math.exp(log - width), math.exp(log), math.exp(log + width)


def ends(of: Distortion) -> tuple[float, float, float]:
    return of.low, of.mid, of.high


# --- A factor that was found, and what is usual -------------------------------------------------------------


def test_a_factor_as_sure_as_the_usual_one_counts_as_much() -> None:
    """Between 1.8 and 3.2 lies √(1.8 · 3.2) = 2.4, and of two that are off alike the mean is off by 1/√2 of that."""
    found = _weighed(3.2, math.log(2) / 2)
    off = 2 ** (0.5 / math.sqrt(2))
    assert ends(found) == pytest.approx((2.4 / off, 2.4, 2.4 * off))
    assert found.how == "step_time"
    assert found.firm == 1.0


@pytest.mark.parametrize(
    ("off", "wanted"),
    [
        (1e-6, (3.2, 3.2, 3.2)),  # nothing is as sure
        (1e6, (USUAL / math.sqrt(2), USUAL, USUAL * math.sqrt(2))),  # it says nothing
    ],
)
def test_a_factor_counts_by_how_sure_it_is(off: float, wanted: tuple[float, float, float]) -> None:
    assert ends(_weighed(3.2, off)) == pytest.approx(wanted, rel=1e-4)


# --- What a step time tells ---------------------------------------------------------------------------------


def test_without_a_step_time_the_factor_is_the_usual_one(folder: Path) -> None:
    found = calibrate(recorded(HOST_BOUND, folder=folder), None)
    assert (ends(found), found.how, found.firm) == ((LOW, USUAL, HIGH), "usual", 1.0)


@pytest.mark.parametrize("factor", [1.3, 1.8, 2.5, 3.0])
def test_a_step_time_tells_the_factor_as_far_as_the_step_depends_on_it(factor: float, folder: Path) -> None:
    """24 / f of 76 + 24 / f µs change with the factor: 2 % of the step are so many times as much of the factor."""
    found = calibrate(recorded(HOST_BOUND, folder=folder), without(factor))
    depends = 24 / factor / (76 + 24 / factor)
    assert ends(found) == pytest.approx(weighed(factor, math.hypot(SURE, STEADY / depends)), rel=0.02)
    assert (found.how, found.firm) == ("step_time", 1.0)


def test_where_all_host_time_is_short_the_factor_is_all_but_known(folder: Path) -> None:
    """20 operators of 20 µs: their step is shorter by what the factor is larger, which is then off by 7 and 2 %."""
    setting = recorded(operators(20, 1 * US, 20 * US), folder=folder)
    found = calibrate(setting, 20 * 20 * US / 3.0)
    assert ends(found) == pytest.approx(weighed(3.0, math.hypot(SURE, STEADY)), rel=0.005)


@pytest.mark.parametrize(("ns", "found"), [(830 * US, 24 / 7), (827_500, None)])
def test_a_factor_beyond_what_is_possible_is_something_else(ns: int, found: float | None, folder: Path) -> None:
    """At 3.5 a step takes 828.6 µs: of a shorter one long host time must be shorter, too, at the usual factor."""
    told = calibrate(recorded(HOST_BOUND, folder=folder), ns)
    assert told.how == "step_time"
    if found is not None:
        assert told.firm == 1.0
        assert USUAL < told.mid < found
    else:
        assert ends(told) == (LOW, USUAL, HIGH)
        assert without(USUAL, told.firm) == pytest.approx(ns, rel=0.002)
        assert told.firm == pytest.approx((82.75 - 24 / 1.8) / 76, rel=0.002)


@pytest.mark.parametrize("firm", [0.6, 1.5, 2.5])
def test_a_step_that_no_factor_gives_scales_long_host_time(firm: float, folder: Path) -> None:
    found = calibrate(recorded(HOST_BOUND, folder=folder), without(USUAL, firm))
    assert (ends(found), found.how) == ((LOW, USUAL, HIGH), "step_time")
    assert found.firm == pytest.approx(firm, rel=0.002)


@pytest.mark.parametrize(("firm", "factor"), [(0.4, 20.0), (3.5, 1.0)])
def test_where_no_plausible_factor_gives_the_step_time_the_nearest_is_off_by_a_fifth(
    firm: float, factor: float, folder: Path
) -> None:
    found = calibrate(recorded(HOST_BOUND, folder=folder), without(USUAL, firm))
    assert (found.how, found.firm) == ("step_time", 1.0)
    assert ends(found) == pytest.approx((0.8 * factor, factor, 1.2 * factor), rel=0.001)


@pytest.mark.parametrize("factor", [4.0, 5.0])
def test_a_host_that_had_another_load_while_it_was_recorded_is_stretched_by_more(factor: float, folder: Path) -> None:
    """All its time is short, 20 operators of 20 µs, so that no long time can have been shorter."""
    found = calibrate(recorded(operators(20, 1 * US, 20 * US), folder=folder), 400 * US / factor)
    assert ends(found) == pytest.approx((0.8 * factor, factor, 1.2 * factor), rel=0.005)


# --- What it does not tell ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("kernel", "tells"), [(24 * US, True), (26 * US, False)])
def test_a_step_that_hardly_depends_on_the_host_tells_nothing_of_it(kernel: int, tells: bool, folder: Path) -> None:
    """Behind a wait the device stands still for the first of ten operators of 10 µs, then the host is ahead.

    That operator takes 10 / 1.2 µs without the profiler at the most, and 10 / 3.5 at the least: 5.5 µs are 2 % of 274.
    """
    setting = recorded(operators(10, kernel, 10 * US), waits, folder=folder)
    rest = LATENCY + 10 * kernel + 9 * GAP + RETURN
    shortest, longest = 10 * US / 3.5 + rest, 10 * US / 1.2 + rest
    assert (longest - shortest > 0.02 * longest) == tells
    found = calibrate(setting, 10 * US / 2.4 + rest)
    assert found.how == ("step_time" if tells else "usual")
    if tells:  # little: 1 / 2.4 of 10 µs is 1.6 % of the step, and 2 % of that more than the factor
        assert ends(found) == pytest.approx(weighed(2.4, STEADY / (10 * US / 2.4) * (10 * US / 2.4 + rest)), rel=0.05)
    else:
        assert ends(found) == (LOW, USUAL, HIGH)


@pytest.mark.parametrize("ns", [2_900 * US, 3_015 * US, 3_100 * US])
def test_a_step_of_the_device_alone_tells_nothing(ns: int, folder: Path) -> None:
    """It takes 3,015 µs, and the host, three times as slow as it was, no more than 2,413."""
    found = calibrate(recorded(operators(10, 300 * US), folder=folder), ns)
    assert (ends(found), found.how, found.firm) == ((LOW, USUAL, HIGH), "usual", 1.0)


def test_what_a_loader_does_is_not_stretched(folder: Path) -> None:
    """Thirty times 20 µs of it are there without the profiler, too: the rest is as for the loop without."""
    setting = recorded(several(30, marked(IN_LOOP, 20 * US)), HOST_BOUND, folder=folder)
    step = 600 * US + without(3.0)
    found = calibrate(setting, step)
    depends = 10 * 24 * US / 3.0 / step
    assert ends(found) == pytest.approx(weighed(3.0, math.hypot(SURE, STEADY / depends)), rel=0.02)
