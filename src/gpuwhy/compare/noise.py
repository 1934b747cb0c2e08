"""Two series of step times → their ratio with an interval, and whether that is more than the noise of the steps.

Steps in a row are alike: one that was slow is followed by slow ones. Intervals are those of a bootstrap over steps,
each side by itself, and as much wider as the standard error of a mean is larger where neighbours are alike by ρ: by
√((1 + ρ) / (1 - ρ)), as for an autoregression of first order. Where steps hang together so much that a series tells
little more than a few of them would, as on a host that changes its pace, nobody can tell.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuwhy.reports.findings_model import Interval

FEWEST = 20
"""Steps on each side: with fewer nobody can tell."""
FEWEST_APART = 10.0
"""What the steps of a side must be worth in independent ones."""
ALPHA = 0.05
NORMAL = 1.959964
"""The normal distribution's quantile for that."""
DRAWS = 2_000
Series = NDArray[np.float64]


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
    one, other = _scatter(before, np.median, 0, np.log), _scatter(after, np.median, 1, np.log)
    return _told(float(np.log(np.median(after)) - np.log(np.median(before))), other - one, np.exp, (before, after))


def ratio_of_means(before: Series, after: Series) -> Interval:
    """The mean after over the mean before."""
    one, other = _scatter(before, np.mean, 2, np.log), _scatter(after, np.mean, 3, np.log)
    return _told(float(np.log(after.mean()) - np.log(before.mean())), other - one, np.exp, (before, after))


def difference_of_means(before: Series, after: Series) -> Interval:
    """The mean after less the mean before."""
    one, other = _scatter(before, np.mean, 4, np.positive), _scatter(after, np.mean, 5, np.positive)
    return _told(float(after.mean() - before.mean()), other - one, np.positive, (before, after))


def _scatter(series: Series, figure: Callable[..., Any], seed: int, scale: np.ufunc) -> Series:
    """How far a figure of series drawn anew from one lies from its own, on a scale; further if neighbours are alike."""
    rows = np.random.default_rng(seed).integers(0, len(series), (DRAWS, len(series)))
    apart = scale(figure(series[rows], axis=1)) - scale(figure(series))
    rho = neighbours(series)
    return np.asarray(apart * math.sqrt((1 + rho) / (1 - rho)), np.float64)


def _told(mid: float, apart: Series, back: np.ufunc, sides: tuple[Series, Series]) -> Interval:
    low, high = mid + _wider(*sides) * np.quantile(apart, (ALPHA / 2, 1 - ALPHA / 2))
    return Interval(low=float(back(min(low, mid))), mid=float(back(mid)), high=float(back(max(high, mid))))


def _wider(before: Series, after: Series) -> float:
    """How much wider an interval must be because the scatter itself is known from few independent steps only: Student's
    quantile over the normal one (its expansion by Fisher and Cornish 1960, Technometrics 2).
    """
    nu, z = max(min(worth(before), worth(after)) - 1, 1.0), NORMAL
    t = z + (z**3 + z) / (4 * nu) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * nu**2)
    return t / z
