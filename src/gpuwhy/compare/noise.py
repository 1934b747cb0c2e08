"""Two series of step times → their ratio with an interval, and whether that is more than the noise of the steps.

Steps in a row are alike: one that was slow is followed by slow ones. Intervals are therefore those of a bootstrap over
runs of steps (Künsch 1989, Ann. Statist. 17), each side by itself, as long as suits the correlation of neighbours
(Politis and White 2004, Econometric Reviews 23, for an autoregression of first order). Where steps hang together so
much that a series tells little more than a few of them would, as on a host that changes its pace, nobody can tell.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FEWEST = 20
"""Steps on each side: with fewer nobody can tell."""
FEWEST_APART = 10.0
"""What the steps of a side must be worth in independent ones."""
ALPHA = 0.05
NORMAL = 1.959964
"""The normal distribution's quantile for that."""
DRAWS = 2_000
SHORTEST_PART = 4
"""A run is at most this part of a series."""
Series = NDArray[np.float64]


@dataclass(frozen=True)
class Interval:
    """A figure between two ends that hold it with 95 %."""

    low: float
    mid: float
    high: float


def why_not(before: Series, after: Series, steps: int) -> str | None:
    """Why nobody can tell two series apart; None where one can. `steps` is how many the shorter side is of."""
    fewest = min(steps, len(before), len(after))
    if fewest < FEWEST:
        return f"{fewest} steps on a side are fewer than {FEWEST}"
    apart = min(worth(before), worth(after))
    if apart < FEWEST_APART:
        return (
            f"the steps of a side hang together so much (the pace changed while it ran) that they are worth no more "
            f"than {apart:.0f} independent ones"
        )
    return None


def worth(series: Series) -> float:
    """How many independent steps tell as much as these: n (1 - ρ) / (1 + ρ) with the correlation ρ of neighbours."""
    rho = neighbours(series)
    return len(series) * (1 - rho) / (1 + rho)


def neighbours(series: Series) -> float:
    """The correlation of each step with the next, by ranks, so that single long steps do not decide it; at least 0.

    What a short series makes it look smaller by is added (Kendall 1954, Biometrika 41: (1 + 3 ρ) / n).
    """
    if len(series) < 3 or series.min() == series.max():
        return 0.0
    _, place, count = np.unique(series, return_inverse=True, return_counts=True)
    rank = (np.cumsum(count) - (count - 1) / 2)[place]
    rank = rank - rank.mean()
    rho = float((rank[:-1] * rank[1:]).sum() / (rank * rank).sum())
    return min(max(rho + (1 + 3 * rho) / len(series), 0.0), 0.99)


def ratio_of_medians(before: Series, after: Series) -> Interval:
    """The median after over the median before; both series positive and not empty."""
    ends = np.log(_medians(after, 1)) - np.log(_medians(before, 0))
    return _told(float(np.log(np.median(after)) - np.log(np.median(before))), ends, np.exp, _wider(before, after))


def ratio_of_means(before: Series, after: Series) -> Interval:
    """The mean after over the mean before."""
    ends = np.log(_drawn(after, 3).mean(axis=1)) - np.log(_drawn(before, 2).mean(axis=1))
    return _told(float(np.log(after.mean()) - np.log(before.mean())), ends, np.exp, _wider(before, after))


def difference_of_means(before: Series, after: Series) -> Interval:
    """The mean after less the mean before."""
    ends = _drawn(after, 5).mean(axis=1) - _drawn(before, 4).mean(axis=1)
    return _told(float(after.mean() - before.mean()), ends, np.positive, _wider(before, after))


def _medians(series: Series, seed: int) -> Series:
    return np.asarray(np.median(_drawn(series, seed), axis=1), np.float64)


def _drawn(series: Series, seed: int) -> Series:
    """`DRAWS` series as long as this one, of runs of it; around its end it goes on with its beginning."""
    size = len(series)
    run = run_length(series)
    begin = np.random.default_rng(seed).integers(0, size, (DRAWS, -(-size // run)))
    rows = (begin[:, :, None] + np.arange(run)).reshape(DRAWS, -1)[:, :size] % size
    return np.asarray(series[rows], np.float64)


def run_length(series: Series) -> int:
    """Steps of a run."""
    rho = neighbours(series)
    suits: float = (1.5 * (2 * rho / (1 - rho * rho)) ** 2 * len(series)) ** (1 / 3)
    return max(min(math.ceil(suits), len(series) // SHORTEST_PART), 1)


def _wider(before: Series, after: Series) -> float:
    """How much wider an interval must be because the scatter itself is known from few independent steps only: Student's
    quantile over the normal one (its expansion by Fisher and Cornish 1960, Technometrics 2).
    """
    nu, z = max(min(worth(before), worth(after)) - 1, 1.0), NORMAL
    t = z + (z**3 + z) / (4 * nu) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * nu**2)
    return t / z


def _told(mid: float, drawn: Series, back: np.ufunc, wider: float) -> Interval:
    low, high = mid + wider * (np.quantile(drawn, (ALPHA / 2, 1 - ALPHA / 2)) - mid)
    return Interval(float(back(min(low, mid))), float(back(mid)), float(back(max(high, mid))))
