"""Statistics of paired rounds: an interval of the median ratio that may be looked at after every round.

Rounds are independent; a round's ratio is of neighbours in time, so that a host that drifts takes both sides along. All
that is used of a ratio is on which side of a value it lies: nothing is assumed of how ratios are distributed, and one
round that was disturbed counts no more than any other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

ALPHA = 0.05
PRIOR = 5.0
"""Of the mixture over chances (Beta, both parameters): narrowest at some dozens of rounds."""
DRAWS = 2_000


@dataclass(frozen=True)
class Interval:
    """A median ratio, B over A, between two ends."""

    low: float
    mid: float
    high: float


def always_valid(ratios: Sequence[float], alpha: float = ALPHA) -> Interval:
    """The median ratio with an interval that holds it, at all numbers of rounds at once, with probability 1 - alpha.

    A value is kept as long as the signs of the ratios about it could be fair coins: the mixture martingale of Robbins
    (1970, Ann. Math. Stat. 41) for a chance of 1/2, with a Beta prior, stays below 1/alpha at all times with that
    probability (Ville's inequality). The ends are order statistics, 0 and infinity while rounds are too few.
    """
    values = sorted(ratios)
    if not values:
        return Interval(0.0, math.nan, math.inf)
    outside = _most_outside(len(values), alpha)
    low = values[outside] if outside >= 0 else 0.0
    high = values[len(values) - 1 - outside] if outside >= 0 else math.inf
    return Interval(low, float(np.median(values)), high)


def _most_outside(rounds: int, alpha: float) -> int:
    """How many ratios may lie below a value (or above it) for that to be refused still; -1: not even none."""
    found = -1
    for below in range((rounds + 1) // 2):
        if _log_martingale(below, rounds) < math.log(1 / alpha):
            break
        found = below
    return found


def _log_martingale(below: int, rounds: int) -> float:
    """Log likelihood of so many of the ratios below a value, mixed over chances, less that of fair coins."""
    return _log_beta(below + PRIOR, rounds - below + PRIOR) - _log_beta(PRIOR, PRIOR) + rounds * math.log(2)


def _log_beta(a: float, b: float) -> float:
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)


def bootstrap(series: Sequence[Sequence[float]], alpha: float = ALPHA, draws: int = DRAWS, seed: int = 0) -> Interval:
    """The median ratio of all rounds with its bootstrap interval, for a number of rounds that was fixed before.

    A series is of one pair of processes. Two processes of one program differ by some percent for as long as they live,
    so that whole series are drawn, and then rounds of each.
    """
    values = [np.asarray(ratios, np.float64) for ratios in series]
    chance = np.random.default_rng(seed)
    medians = np.empty(draws)
    for draw in range(draws):
        drawn = (values[one] for one in chance.integers(0, len(values), len(values)))
        medians[draw] = np.median(np.concatenate([chance.choice(ratios, len(ratios)) for ratios in drawn]))
    low, high = np.quantile(medians, [alpha / 2, 1 - alpha / 2])
    return Interval(float(low), float(np.median(np.concatenate(values))), float(high))
