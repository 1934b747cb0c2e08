"""Record profiles of small loops with one planted fault each. Needs a CUDA GPU and torch.

    python benchmarks/record_faults.py OUT [NAME…]

The recordings in tests/data were made so on an NVIDIA H200; tests/test_faults.py says what each must show.
"""

from __future__ import annotations

import gc
import gzip
import os
import shutil
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile, schedule

STEPS = 4
"""Steps recorded; as many as the recordings in tests/data hold."""

Step = Callable[[int], Any]


class MLP(nn.Module):
    """Layers of norm, matmul and activation, each added to its input."""

    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
            for _ in range(depth)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = x + block(x)
        return x


def training(model: nn.Module, x: Callable[[], torch.Tensor], fault: Callable[[], Any]) -> Step:
    """A plain step in bfloat16 that ends with the fault."""
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)

    def step(_: int) -> None:
        with torch.autocast("cuda", torch.bfloat16):
            loss = model(x()).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        fault()

    return step


def gc_each_step() -> Step:
    """Collects garbage over half a million live objects, each step."""
    x, kept = torch.randn(8192, 1024, device="cuda"), [[(i, str(i)) for i in range(300)] for _ in range(1500)]
    return training(MLP(1024, 12).cuda(), lambda: x, lambda: (gc.collect(), len(kept)))


def sleep_each_step() -> Step:
    """Sleeps 20 ms each step, as a call to some service does."""
    x = torch.randn(8192, 1024, device="cuda")
    return training(MLP(1024, 12).cuda(), lambda: x, lambda: time.sleep(0.02))


def graph_decode() -> Step:
    """Replays a CUDA graph of small kernels, and sleeps 2 ms between two replays, as slow host code does."""
    model, x = MLP(512, 12).cuda().bfloat16().eval(), torch.randn(256, 512, device="cuda", dtype=torch.bfloat16)
    stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    with torch.no_grad():
        with torch.cuda.stream(stream):
            for _ in range(3):
                model(x)
        torch.cuda.synchronize()
        with torch.cuda.graph(graph):
            model(x)
    return lambda _: (graph.replay(), time.sleep(0.002))


def recompile_each_step() -> Step:
    """Compiles anew each step, because its batch grows and shapes are not dynamic."""
    torch._dynamo.config.cache_size_limit = 64
    model, rows = torch.compile(MLP(256, 1).cuda(), dynamic=False), iter(range(128, 10**6, 64))
    return training(model, lambda: torch.randn(next(rows), 256, device="cuda"), lambda: None)


CASES = {case.__name__: case for case in (gc_each_step, sleep_each_step, graph_decode, recompile_each_step)}
WITHOUT_STACKS = ("recompile_each_step",)
"""The compiler's own frames would be most of a large file."""


def record(step: Step, path: str, with_stack: bool) -> None:
    """Warm up, then write a profile of a few steps."""
    for i in range(4):
        step(i)
    raw = path.removesuffix(".gz")
    with profile(
        activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA],
        schedule=schedule(wait=1, warmup=3, active=STEPS, repeat=1),
        on_trace_ready=lambda p: p.export_chrome_trace(raw),
        record_shapes=True,
        with_stack=with_stack,
    ) as prof:
        for i in range(4 + STEPS):
            step(i)
            prof.step()
        torch.cuda.synchronize()
    with open(raw, "rb") as plain, gzip.open(path, "wb", 6) as packed:
        shutil.copyfileobj(plain, packed)
    os.remove(raw)


def main(out: str, names: list[str]) -> None:
    os.makedirs(out, exist_ok=True)
    for name in names or CASES:
        path = f"{out}/{name}.json.gz"
        record(CASES[name](), path, with_stack=name not in WITHOUT_STACKS)
        print(path, os.path.getsize(path), torch.__version__, torch.cuda.get_device_name(), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
