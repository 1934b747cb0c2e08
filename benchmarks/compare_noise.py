"""How often `gpuwhy compare` is right about made-up series: the table in docs/compare.md.

    python benchmarks/compare_noise.py [--pairs 500]

Steps scatter by 3 % (a normal autoregression of their logarithms, neighbours alike by rho), 3 % of them are 1.5 to 4
times as long. Rates are of the pairs of which one can tell.
"""

from __future__ import annotations

import argparse
import math

import numpy as np
from numpy.typing import NDArray

from gpuwhy.compare.noise import ratio_of_means, ratio_of_medians, why_not
from gpuwhy.reports.findings_model import Interval

CASES = ((20, 0.0), (50, 0.0), (50, 0.3), (50, 0.6), (200, 0.3), (200, 0.8), (200, 0.9))


def series(count: int, rho: float, chance: np.random.Generator) -> NDArray[np.float64]:
    """Steps in ns."""
    drawn = chance.normal(0, 0.03 * math.sqrt(1 - rho * rho), count)
    logs = np.empty(count)
    logs[0] = chance.normal(0, 0.03)
    for i in range(1, count):
        logs[i] = rho * logs[i - 1] + drawn[i]
    return np.asarray(1e7 * np.exp(logs) * np.where(chance.random(count) < 0.03, chance.uniform(1.5, 4, count), 1))


def differs(ratio: Interval) -> bool:
    """Whether the interval leaves out 1."""
    return ratio.low > 1 or ratio.high < 1


def main() -> None:
    """Prints rows of Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=500)
    pairs = parser.parse_args().pairs
    print("| steps a side | ρ | nobody can tell | false, medians | false, means | 5 % found, medians | means |")
    print("|---|---|---|---|---|---|---|")
    for count, rho in CASES:
        chance = np.random.default_rng(count)
        told = []
        for _ in range(pairs):
            one, other = series(count, rho, chance), series(count, rho, chance)
            if why_not(one, other, count) is None:
                told.append(
                    [differs(of(one, f * other)) for f in (1, 1.05) for of in (ratio_of_medians, ratio_of_means)]
                )
        rates = np.mean(told, axis=0) if told else np.full(4, np.nan)
        cells = " | ".join(f"{100 * rates[i]:.0f} %" for i in (0, 1, 2, 3))
        print(f"| {count} | {rho} | {100 * (1 - len(told) / pairs):.0f} % | {cells} |")


if __name__ == "__main__":
    main()
