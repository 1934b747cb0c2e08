"""Intervals of paired rounds: by hand, by brute force, and on series of which the answer is known."""

from __future__ import annotations

import math
import random
import statistics
from itertools import pairwise

import pytest

from gpuwhy.experiments.sequence import always_valid, bootstrap

NOISE = 0.02
"""Standard deviation of a round's logarithm in made-up series."""


def series(rounds: int, seed: int, slower: float = 1.0) -> list[float]:
    """Ratios with a few disturbed rounds, as a shared host has them."""
    chance = random.Random(seed)
    logs = [chance.gauss(0, NOISE) + (chance.random() < 0.1) * chance.gauss(0, 10 * NOISE) for _ in range(rounds)]
    return [slower * math.exp(one) for one in logs]


def alarms(slower: float, rounds: int, runs: int = 100) -> int:
    """In how many series the interval leaves out 1 after any of the rounds."""
    found = 0
    for seed in range(runs):
        ratios = series(rounds, seed, slower)
        looks = (always_valid(ratios[:count]) for count in range(1, rounds + 1))
        found += any(one.low > 1 or one.high < 1 for one in looks)
    return found


def test_alike_programs_are_called_different_in_at_most_a_twentieth_of_all_series() -> None:
    """Looked at after every round, which would alarm in most of them were the interval one for a fixed number."""
    assert alarms(1.0, 100) <= 10


def test_three_percent_are_found_in_nine_of_ten_series() -> None:
    assert alarms(1.03, 100) >= 90
    assert alarms(1 / 1.03, 100) >= 90


def test_too_few_rounds_say_nothing() -> None:
    """Seven on one side: a likelihood ratio of B(12, 5) / B(5, 5) · 2⁷ = 3.69 is no 20."""
    found = always_valid([1.1] * 7)
    assert (found.low, found.mid, found.high) == (0.0, 1.1, math.inf)
    assert math.exp(math.lgamma(12) - math.lgamma(17) + math.lgamma(10) - math.lgamma(5)) * 2**7 < 20


def test_no_rounds_are_no_ratio() -> None:
    found = always_valid([])
    assert (found.low, found.high) == (0.0, math.inf)
    assert math.isnan(found.mid)


@pytest.mark.parametrize("rounds", [12, 13, 40, 101])
def test_the_ends_are_where_the_mixture_over_chances_stops_refusing(rounds: int) -> None:
    """Brute force: the likelihood of the signs about each value, integrated over chances with a Beta(5, 5) prior."""
    ratios = sorted(series(rounds, rounds))
    steps = 20_000
    grid = [(i + 0.5) / steps for i in range(steps)]
    prior = [x**4 * (1 - x) ** 4 for x in grid]
    total = sum(prior)

    def evidence(below: int) -> float:
        likelihood = (x**below * (1 - x) ** (rounds - below) * 2**rounds for x in grid)
        return sum(a * b for a, b in zip(prior, likelihood, strict=True)) / total

    kept = [below for below in range(rounds + 1) if evidence(below) < 20]
    found = always_valid(ratios)
    assert found.low == ratios[kept[0] - 1]
    assert found.high == ratios[kept[-1]]


def test_intervals_shrink_about_the_median_and_do_not_mind_a_disturbed_round() -> None:
    widths = []
    for rounds in (20, 80, 320):
        found = always_valid(series(rounds, 1))
        assert found.low < found.mid < found.high
        widths.append(math.log(found.high / found.low))
    assert all(later < 0.65 * earlier for earlier, later in pairwise(widths))
    ratios = series(40, 2)
    assert always_valid([*ratios, 50.0]).high == pytest.approx(always_valid([*ratios, 1.5]).high)


def test_the_bootstrap_holds_the_median_about_as_often_as_it_says() -> None:
    held = 0
    for seed in range(200):
        found = bootstrap([series(40, seed)], draws=400)
        held += found.low <= 1 <= found.high
        assert found.mid == pytest.approx(statistics.median(series(40, seed)))
    assert 0.9 <= held / 200 <= 0.99
