"""What a stage adds to explaining a profile: the same report with and without it, in turns.

    python benchmarks/stage_cost.py {roofline,whatif} PROFILE… [--pairs N]

`roofline` judges busy time (without the replay in both cases), `whatif` builds the graph, replays it and predicts
gains. Prints, for each profile, the median ratio (with over without) of wall time and its 95 % bootstrap interval.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import time
from collections.abc import Sequence
from typing import Any
from unittest import mock

from medians import interval_of_median

import gpuwhy
from gpuwhy import api
from gpuwhy.findings.outlook import Outlook
from gpuwhy.roofline.judge import Roofline, Use

STAGES = ("roofline", "whatif")


def no_outlook(of: Any, ledgers: Sequence[Any], *_: Any) -> list[Outlook]:
    """In place of the replay."""
    return [Outlook(None, None, "left out")] * len(ledgers)


def nothing(*_: Any) -> Roofline:
    """In place of the judgement of busy time."""
    return Roofline(
        view=mock.Mock(),
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


def seconds(path: str, stage: str, judged: bool) -> float:
    """Wall time of reading and explaining, with or without a stage."""
    with contextlib.ExitStack() as patches:
        if stage == "roofline" or not judged:
            patches.enter_context(mock.patch.object(api, "outlook", no_outlook))
        if stage == "roofline" and not judged:
            patches.enter_context(mock.patch.object(api, "work_of_operations"))
            patches.enter_context(mock.patch.object(api, "judge", nothing))
        start = time.perf_counter()
        gpuwhy.explain(path)
        return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("stage", choices=STAGES)
    parser.add_argument("profiles", nargs="+", metavar="PROFILE")
    parser.add_argument("--pairs", type=int, default=5)
    options = parser.parse_args()
    for path in options.profiles:
        seconds(path, options.stage, True)
        ratios = []
        for pair in range(options.pairs):
            order = (True, False) if pair % 2 == 0 else (False, True)
            taken = {judged: seconds(path, options.stage, judged) for judged in order}
            ratios.append(taken[True] / taken[False])
        low, high = interval_of_median(ratios)
        print(f"{path}: {statistics.median(ratios):.3f} [{low:.3f}, {high:.3f}] in {options.pairs} pairs")


if __name__ == "__main__":
    main()
