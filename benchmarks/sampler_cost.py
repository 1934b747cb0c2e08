"""What each question to NVML costs a launch-bound loop beside it, and how long it takes.

    python benchmarks/sampler_cost.py [SECONDS]

A loop notes when each of its steps began. Meanwhile this process asks one question every 100 ms, in turns, or none.
Lost is what steps within 80 ms of a question took longer than those within 80 ms of none. Needs an NVIDIA GPU.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

EVERY_S, WINDOW_S = 0.1, 0.08


def loop(seconds: float, path: str) -> None:
    """The measured program."""
    import torch
    from run_overhead import _step

    step, begun, times = _step(torch, "mlp"), time.monotonic(), []
    while time.monotonic() - begun < seconds:
        times.append(time.monotonic())
        step()
        if len(times) % 64 == 0:
            torch.cuda.synchronize()
    np.save(path, np.array(times))


def questions(program: int) -> dict[str, Callable[[], Any]]:
    """What is asked, by name."""
    import pynvml

    from gpuwhy.run.gpus import RUNNING, find_gpus
    from gpuwhy.run.processes import Tree

    gpus, _ = find_gpus()
    assert gpus is not None
    gpu, tree = gpus.gpus[0], Tree(program)
    board = gpu.board
    return {
        "nothing": lambda: None,
        "all": gpus.sample,
        "gpm": lambda: gpu._counters(time.monotonic_ns()),
        "memory": lambda: pynvml.nvmlDeviceGetMemoryInfo(board),
        "reasons": lambda: pynvml.nvmlDeviceGetCurrentClocksEventReasons(board),
        "utilization": lambda: pynvml.nvmlDeviceGetUtilizationRates(board),
        "power": lambda: pynvml.nvmlDeviceGetPowerUsage(board),
        "power_limit": lambda: pynvml.nvmlDeviceGetEnforcedPowerLimit(board),
        "temperature": lambda: pynvml.nvmlDeviceGetTemperature(board, 0),
        "clock": lambda: pynvml.nvmlDeviceGetClockInfo(board, 1),
        "running": lambda: [getattr(pynvml, name)(board) for name in RUNNING],
        "use": gpu._use,
        "processes": lambda: tree.sample([program]),
        "spin": lambda: sum(range(400_000)),
    }


def main(seconds: float) -> None:
    path = f"/tmp/steps-{os.getpid()}.npy"
    here = str(Path(__file__).resolve())
    program = subprocess.Popen([sys.executable, here, "--loop", str(seconds + 10), path])
    time.sleep(12)
    asked = questions(program.pid)
    names, chance = list(asked), np.random.default_rng(0)
    said: list[tuple[str, float, float, float]] = []
    begun = time.monotonic()
    while time.monotonic() - begun < seconds - 5:
        for name in chance.permutation(names):
            time.sleep(EVERY_S)
            wall, cpu = time.monotonic(), time.thread_time()
            asked[name]()
            said.append((name, wall, time.monotonic() - wall, time.thread_time() - cpu))
    program.wait()
    starts = np.load(path)
    done = np.arange(len(starts), dtype=np.float64)
    rate: dict[str, list[float]] = {name: [] for name in names}
    for name, at, _, _ in said:
        first, last = np.interp([at, at + WINDOW_S], starts, done)
        rate[name].append(last - first)
    own = np.mean(rate["nothing"])
    print(f"{len(starts)} steps, {np.median(np.diff(starts)) * 1e3:.2f} ms; {own:.2f} within {WINDOW_S * 1e3:.0f} ms")
    for name in names:
        took = np.array([(wall, cpu) for one, _, wall, cpu in said if one == name]) * 1e3
        steps = np.array(rate[name])
        lost = WINDOW_S * 1e3 * (1 - steps / own)
        print(
            f"{name:12} {len(took):4} ×, took {np.median(took[:, 0]):.2f} ms (at most {took[:, 0].max():.1f}; CPU "
            f"{took[:, 1].mean():.2f}), lost {lost.mean():.2f} ± {1.96 * lost.std() / len(lost) ** 0.5:.2f} ms",
            flush=True,
        )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--loop"]:
        loop(float(sys.argv[2]), sys.argv[3])
    else:
        main(float(sys.argv[1]) if len(sys.argv) > 1 else 60.0)
