"""What `gpuwhy run` costs the program: a loop with and without it, in turns, before and after the profile.

    python benchmarks/run_overhead.py OUT [--pairs 26] [--rounds 6] [--cores 4,5,6] [--earlier FILE] [LOOP:AGAINST...]

LOOP is `mlp` (launch-bound, 5 to 9 ms a step on an H200), `wide` (device-bound, about 50 ms) or `tiny` (as little as a
step can be: tells microseconds), AGAINST `watched`, `same` (the loop against itself) or `slower` (against one with 3 %
more work). Needs a CUDA GPU, but for `tiny`. Started with --loop it is the program that is measured.

Two processes of one program differ by some percent for as long as they live: many pairs of them are alive at once, and
take turns. gpuwhy's own process, which samples counters twice a second, runs while its program is measured (blocks last
about as long) and is stopped otherwise, so that each pair has one, and the program without it none.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

EARLY = 60
"""Steps before the first block: whatever a program does once lies within them."""
PROFILED = 60
"""Steps between the rounds before the profile and those after: the profile lies within them."""
SLOWER = 0.03
STEPS = {"mlp": 30, "wide": 5, "tiny": 1500}
"""Of a block: a quarter of a second on an H200."""
BATCH_LAYERS = {"mlp": (256, 12), "wide": (20480, 20), "tiny": (8, 0)}


def loop(name: str, slower: bool) -> None:
    """The measured program."""
    import torch

    from gpuwhy.experiments.blocks import serve

    step = _step(torch, name)
    for _ in range(EARLY):
        step()
    if slower:
        begun = time.perf_counter()
        for _ in range(EARLY):
            step()
        if torch.cuda.is_available():
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
    device = "cuda" if torch.cuda.is_available() else "cpu"
    batch, layers = BATCH_LAYERS[name]
    blocks = [Block(1024) for _ in range(layers)] or [torch.nn.Linear(1024, 1)]
    model = torch.nn.Sequential(*blocks).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    x = torch.randn(batch, 1024, device=device)

    def step() -> None:
        with torch.autocast(device, torch.bfloat16):
            loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step


@contextmanager
def running(process: Any, watched: bool) -> Iterator[None]:
    """gpuwhy's own process runs only in here; its program, another process, is not touched."""
    if watched:
        os.kill(process.pid, signal.SIGCONT)
    try:
        yield
    finally:
        if watched:
            os.kill(process.pid, signal.SIGSTOP)


def rounds_of(pairs: Sequence[tuple[Any, Any]], watched: bool, rounds: int, steps: int) -> list[list[float]]:
    """Ratios of each pair's rounds; blocks are A B B A."""
    found: list[list[float]] = [[] for _ in pairs]
    for _ in range(rounds):
        for (plain, other), ratios in zip(pairs, found, strict=True):
            first = plain.seconds(steps)
            with running(other.process, watched):
                second, third = other.seconds(steps), other.seconds(steps)
            ratios.append((second * third / (first * plain.seconds(steps))) ** 0.5)
    return found


@contextmanager
def alive(commands: Sequence[list[str]]) -> Iterator[list[Any]]:
    """All of these programs, started at once."""
    from gpuwhy.experiments.pairs import Plan, started

    plan = Plan(start_s=250.0)
    with ExitStack() as stack, ThreadPoolExecutor(16) as threads:
        yield list(threads.map(lambda command: stack.enter_context(started(command, plan)), commands))


def onto(cores: set[int]) -> None:
    """Every thread of every process that this one has started has these cores only, from now on."""
    for task in Path("/proc").glob("[0-9]*/task/[0-9]*") if cores else []:
        with suppress(OSError):
            if os.getsid(int(task.parts[2])) != os.getsid(0):  # a pair's programs have sessions of their own
                os.sched_setaffinity(int(task.name), cores)


def measure(case: str, given: argparse.Namespace) -> Iterator[tuple[str, float, list[list[float]]]]:
    """Names, seconds a step and ratios of one case: of two where the second program is watched."""
    name, against = case.split(":")
    steps, runs = STEPS[name], given.out / "runs"
    plain = [sys.executable, str(Path(__file__).resolve()), "--loop", name]
    before = EARLY + 2 * steps * (1 + given.rounds)
    watching = ["-q", "--folder", str(runs), "--again-after", "1000", "--at-step", str(before + 5)]
    others = {
        "watched": [sys.executable, "-m", "gpuwhy", "run", *watching, *plain[1:]],
        "same": plain,
        "slower": [*plain, "--slower"],
    }
    watched = against == "watched"
    with alive([plain, others[against]] * given.pairs) as programs:
        onto(given.cores)
        pairs = list(zip(programs[::2], programs[1::2], strict=True))
        for _, other in pairs if watched else []:
            os.kill(other.process.pid, signal.SIGSTOP)
        for when in ("before", "after") if watched else (against,):
            if when == "after":
                profile(pairs)
                print(f"{len(list(runs.glob('*/profiles/*')))} profiles of {given.pairs} programs", flush=True)
            rounds_of(pairs, watched, 1, steps)
            step_s = float(np.median([one.seconds(steps) for one, _ in pairs])) / steps
            yield f"{name}:{when}", step_s, rounds_of(pairs, watched, given.rounds, steps)
        for program in programs:
            os.killpg(program.process.pid, signal.SIGKILL)


def profile(pairs: Sequence[tuple[Any, Any]]) -> None:
    """Steps within which each watched program is profiled; the other makes as many."""
    for plain, other in pairs:
        plain.seconds(PROFILED)
        with running(other.process, watched=True):
            other.seconds(PROFILED)


def row(case: str, step_s: float, series: list[list[float]], earlier: list[dict[str, Any]]) -> dict[str, Any]:
    """What is kept of a case, with the pairs of an earlier call."""
    from gpuwhy.experiments.sequence import bootstrap

    series = [ratios for one in earlier if one["case"] == case for ratios in one["ratios"]] + series
    told = bootstrap(series)
    return {
        "case": case,
        "step_s": step_s,
        "ratios": [[round(ratio, 5) for ratio in ratios] for ratios in series],
        "median": round(told.mid, 5),
        "low": round(told.low, 5),
        "high": round(told.high, 5),
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("out", nargs="?", type=Path)
    parser.add_argument("cases", nargs="*")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--pairs", type=int, default=26)
    parser.add_argument("--cores", type=lambda text: {int(one) for one in text.split(",")}, default=set())
    parser.add_argument("--earlier", type=Path, help="overhead.json of an earlier call, whose pairs are added")
    parser.add_argument("--loop")
    parser.add_argument("--slower", action="store_true")
    given = parser.parse_intermixed_args()
    if given.loop:
        loop(given.loop, given.slower)
        return
    given.out.mkdir(parents=True, exist_ok=True)
    earlier = json.loads(given.earlier.read_text())["rows"] if given.earlier else []
    rows: list[dict[str, Any]] = []
    for case in given.cases or ["mlp:watched", "wide:watched", "mlp:same", "mlp:slower"]:
        begun = time.time()
        for name, step_s, series in measure(case, given):
            rows.append(found := row(name, step_s, series, earlier))
            (given.out / "overhead.json").write_text(json.dumps({"rows": rows}, indent=1))
            pairs = [round(float(np.median(one)), 3) for one in found["ratios"]]
            told = f"× {found['median']:.4f} [{found['low']:.4f}, {found['high']:.4f}], pairs {pairs}"
            print(f"{name:14} {step_s * 1e3:.3f} ms a step, {told}, {time.time() - begun:.0f} s", flush=True)


if __name__ == "__main__":
    main()
