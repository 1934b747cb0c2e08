"""What judging busy time adds to explaining a profile: the same report with and without it, in turns.

    python benchmarks/roofline_cost.py PROFILE… [--pairs N]

Prints, for each profile, the median ratio (with over without) of wall time and its 95 % bootstrap interval.
"""

from __future__ import annotations

import argparse
import statistics
import time
from unittest import mock

from medians import interval_of_median

import gpuwhy
from gpuwhy import api
from gpuwhy.roofline.judge import Roofline, Use

NOTHING = Roofline(
    ceilings=None,
    peaks=None,
    use=Use(0, 0, None, {}, 0.0, 0.0, 0.0),
    accounts={},
    operators=[],
    work_known_ns=0,
    tensor_core_ns=0,
    recomputed_flops=0.0,
    mfu=None,
    mbu=None,
    wastes=[],
    unknown=[],
    shapes_recorded=True,
    operators_recorded=True,
)


def seconds(path: str, judged: bool) -> float:
    """Wall time of reading and explaining; without judging, the stages of the roofline are left out."""
    start = time.perf_counter()
    if judged:
        gpuwhy.explain(path)
    else:
        with mock.patch.object(api, "work_of_operations"), mock.patch.object(api, "judge", return_value=NOTHING):
            gpuwhy.explain(path)
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("profiles", nargs="+", metavar="PROFILE")
    parser.add_argument("--pairs", type=int, default=5)
    options = parser.parse_args()
    for path in options.profiles:
        seconds(path, True)
        ratios = []
        for pair in range(options.pairs):
            order = (True, False) if pair % 2 == 0 else (False, True)
            taken = {judged: seconds(path, judged) for judged in order}
            ratios.append(taken[True] / taken[False])
        low, high = interval_of_median(ratios)
        print(f"{path}: {statistics.median(ratios):.3f} [{low:.3f}, {high:.3f}] in {options.pairs} pairs")


if __name__ == "__main__":
    main()
