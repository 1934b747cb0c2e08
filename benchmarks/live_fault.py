"""A training loop with one planted fault that a short profile does not show: `python live_fault.py NAME [SECONDS]`.

`collections` and `checkpoints` stop the loop every few dozen steps, `thread` keeps a Python thread busy, `workers` has
more loader workers than cores, `none` has no fault. Runs on a GPU if there is one. `other` is no training loop: it
keeps the GPU busy, for a loop beside it.
"""

from __future__ import annotations

import gc
import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from typing import Any

import torch

EVERY = 25
TRIED = 1_000_000


class Items(torch.utils.data.Dataset):  # type: ignore[type-arg,misc]
    """Each item burns some time of a core: a fixed amount of work, which takes longer where cores are taken."""

    def __init__(self, seconds: float) -> None:
        begun = time.perf_counter()
        _work(TRIED)
        self.turns = int(TRIED * seconds / (time.perf_counter() - begun))

    def __len__(self) -> int:
        return 10**7

    def __getitem__(self, index: int) -> Any:
        _work(self.turns)
        return torch.randn(256)


def batches(fault: str, device: str) -> Iterator[Any]:
    """What the loop trains on."""
    if fault == "workers":
        cores = len(os.sched_getaffinity(0))
        loader = torch.utils.data.DataLoader(Items(4e-3), batch_size=16, num_workers=3 * cores, prefetch_factor=4)
        for batch in loader:
            yield batch.to(device)
    fixed = torch.randn(256, 256, device=device)
    while True:
        yield fixed


def other(seconds: float) -> None:
    """Matrix products without an end."""
    x = torch.randn(4096, 4096, device="cuda")
    begun = time.perf_counter()
    while time.perf_counter() - begun < seconds:
        for _ in range(20):
            x @ x
        torch.cuda.synchronize()


def main(fault: str, seconds: float) -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    layers = [layer for _ in range(12) for layer in (torch.nn.Linear(256, 256), torch.nn.GELU())]
    model = torch.nn.Sequential(*layers).to(device)
    optimizer = torch.optim.AdamW(model.parameters())
    many = [[number] for number in range(2_000_000)] if fault == "collections" else []
    weights = torch.randn(25_000_000, device=device)
    if fault == "thread":
        threading.Thread(target=_spin, name="metrics", daemon=True).start()
    begun, step = time.perf_counter(), 0
    with tempfile.TemporaryDirectory() as folder:
        for batch in batches(fault, device):
            model(batch).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
            step += 1
            if step % EVERY == 0 and fault == "collections":
                gc.collect()
            if step % EVERY == 0 and fault == "checkpoints":
                torch.save({"model": model.state_dict(), "weights": weights}, os.path.join(folder, "last.pt"))
            if time.perf_counter() - begun > seconds:
                break
    if device == "cuda":
        torch.cuda.synchronize()
    print(f"{fault}: {step} steps, {len(many)} objects, {(time.perf_counter() - begun) / step * 1e3:.3f} ms a step")


def _work(turns: int) -> None:
    for _ in range(turns):
        pass


def _spin() -> None:
    """Pure Python, as a thread that formats or parses has it."""
    number = 0
    while True:
        number = (number * 31 + 7) % 1_000_003


if __name__ == "__main__":
    asked = float(sys.argv[2]) if len(sys.argv) > 2 else 8.0
    if sys.argv[1] == "other":
        other(asked)
    else:
        main(sys.argv[1], asked)
