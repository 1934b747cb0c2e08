"""What `gpuwhy run` costs the program: a loop with and without it, in turns, before and after the profile.

    python benchmarks/run_overhead.py OUT [--rounds N] [LOOP:WHEN...]

LOOP is `mlp` (launch-bound, 5 to 9 ms a step on an H200), `wide` (device-bound, about 50 ms) or `tiny` (as little as a
step can be: tells microseconds), WHEN `before` or `after` the profile, `same` (the loop against itself) or `slower`
(against one with 3 % more work). Needs a CUDA GPU. Started with --loop it is the program that is measured.

Two processes of one program differ by some percent for as long as they live, so that several pairs of them are taken,
on the same cores; the interval is of whole pairs of blocks, over all of them.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

EARLY = 60
"""Steps before the first block: the profile lies within them."""
SLOWER = 0.03
BLOCK_S = 0.12
CORES = {4, 5, 6}
"""Of a machine with more: the loop's thread, autograd's, and gpuwhy's own process."""


def loop(name: str, slower: bool) -> None:
    """The measured program."""
    import torch

    from gpuwhy.experiments.blocks import serve

    step = _step(torch, name)
    for _ in range(EARLY):
        step()
    if slower:
        torch.cuda.synchronize()
        begun = time.perf_counter()
        for _ in range(EARLY):
            step()
        torch.cuda.synchronize()
        more = SLOWER * (time.perf_counter() - begun) / EARLY

        def slow() -> None:
            step()
            until = time.perf_counter() + more
            while time.perf_counter() < until:
                pass

        serve(slow)
    else:
        serve(step)


def _step(torch: Any, name: str) -> Any:
    class Block(torch.nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self, d: int) -> None:
            super().__init__()
            self.of = torch.nn.Sequential(
                torch.nn.LayerNorm(d), torch.nn.Linear(d, 4 * d), torch.nn.GELU(), torch.nn.Linear(4 * d, d)
            )

        def forward(self, x: Any) -> Any:
            return x + self.of(x)

    torch.manual_seed(0)
    batch, layers = {"mlp": (256, 12), "wide": (20480, 20), "tiny": (8, 0)}[name]
    blocks = [Block(1024) for _ in range(layers)] or [torch.nn.Linear(1024, 1)]
    model = torch.nn.Sequential(*blocks).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    x = torch.randn(batch, 1024, device="cuda")

    def step() -> None:
        with torch.autocast("cuda", torch.bfloat16):
            loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step


def measure(case: str, pairs: int, rounds: int, folder: Path) -> dict[str, Any]:
    """One series."""
    from gpuwhy.experiments.pairs import Plan, compare
    from gpuwhy.experiments.sequence import bootstrap

    name, when = case.split(":")
    plain = [sys.executable, str(Path(__file__).resolve()), "--loop", name]
    watched = [sys.executable, "-m", "gpuwhy", "run", "-q", "--folder", str(folder / "runs")]
    other = {
        "before": [*watched, "--at-step", "1000000000", *plain[1:]],
        "after": [*watched, *plain[1:]],
        "same": plain,
        "slower": [*plain, "--slower"],
    }[when]
    plan = Plan(rounds=rounds, early=False, block_s=BLOCK_S, warm_s=1.0, start_s=120.0)
    series, steps_s = [], []
    for _ in range(pairs):
        found = compare(plain, other, plan)
        series.append([one.ratio for one in found.rounds])
        steps_s.append(found.step_s)
    all_of_them = bootstrap([ratio for ratios in series for ratio in ratios])
    return {
        "case": case,
        "step_s": sorted(steps_s)[len(steps_s) // 2],
        "ratios": series,
        "medians": [sorted(ratios)[len(ratios) // 2] for ratios in series],
        "median": all_of_them.mid,
        "low": all_of_them.low,
        "high": all_of_them.high,
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("out", nargs="?", type=Path)
    parser.add_argument("cases", nargs="*")
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--pairs", type=int, default=4)
    parser.add_argument("--loop")
    parser.add_argument("--slower", action="store_true")
    given = parser.parse_intermixed_args()
    if given.loop:
        loop(given.loop, given.slower)
        return
    given.out.mkdir(parents=True, exist_ok=True)
    if hasattr(os, "sched_setaffinity") and (os.cpu_count() or 1) >= 2 * len(CORES):
        os.sched_setaffinity(0, CORES)
    rows = []
    for case in given.cases or ["mlp:before", "mlp:after", "wide:before", "wide:after", "mlp:same", "mlp:slower"]:
        begun = time.time()
        try:
            row = measure(case, given.pairs, given.rounds, given.out)
        except Exception as error:
            row = {"case": case, "error": repr(error)[:500]}
        rows.append(row)
        (given.out / "overhead.json").write_text(json.dumps(rows, indent=1))
        told = row.get("error") or (
            f"{row['step_s'] * 1e3:.2f} ms a step, × {row['median']:.4f} [{row['low']:.4f}, {row['high']:.4f}], "
            f"pairs {[round(one, 4) for one in row['medians']]}"
        )
        print(f"{case:14} {told}, {time.time() - begun:.0f} s", flush=True)


if __name__ == "__main__":
    main()
