"""Record pairs of workloads whose busy time goes to the wrong thing, and the gain of mending it. Needs a CUDA GPU.

    python benchmarks/record_waste.py OUT [NAME…]

Both variants of a case are built, then timed in turns without a profiler (A B, B A, …, seven pairs), since only ratios
of neighbours count; then a profile of each is recorded with shapes. OUT gets `truth.json` (the ratio of times, after
over before, with its 95 % interval) and the profiles. The recordings in tests/data/waste were made so on an NVIDIA
H200; tests/test_waste.py says what each must show.
"""

from __future__ import annotations

import gc
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from medians import interval_of_median
from pairs import Step, record
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.checkpoint import checkpoint

PAIRS, STEPS, RECORDED = 7, 12, 4


def training(model: nn.Module, x: torch.Tensor, amp: bool = True, optimizer: Any = None, call: Any = None) -> Step:
    """A plain training step."""
    optimizer = optimizer or torch.optim.AdamW(model.parameters(), fused=True)
    call = model if call is None else call

    def step() -> None:
        with torch.autocast("cuda", torch.bfloat16, enabled=amp):
            loss = call(x).float().square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step


class Layers(nn.Module):
    """Layers of two products, each added to its input."""

    def __init__(self, width: int, hidden: int, depth: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Sequential(nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, width)) for _ in range(depth)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = x + layer(x)
        return x


class Convolutions(nn.Module):
    """Convolutions with batch norm, each added to its input."""

    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, width, 3, padding=1)
        self.layers = nn.ModuleList(
            nn.Sequential(nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU())
            for _ in range(depth)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        for layer in self.layers:
            x = x + layer(x)
        return x.mean((2, 3))


class RMSNorm(nn.Module):
    """Written out, as many models do."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wide = x.float()
        return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)).type_as(x) * self.weight


class Block(nn.Module):
    """A transformer layer with RMS norm, SwiGLU and grouped keys."""

    def __init__(self, width: int, heads: int, groups: int) -> None:
        super().__init__()
        self.heads, self.groups, self.head = heads, groups, width // heads
        self.n1, self.n2 = RMSNorm(width), RMSNorm(width)
        self.q, self.o = (nn.Linear(width, width, bias=False) for _ in range(2))
        self.k, self.v = (nn.Linear(width, groups * self.head, bias=False) for _ in range(2))
        self.gate, self.up = (nn.Linear(width, 3 * width, bias=False) for _ in range(2))
        self.down = nn.Linear(3 * width, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        y = self.n1(x)
        q = self.q(y).view(batch, length, self.heads, self.head).transpose(1, 2)
        k, v = (p(y).view(batch, length, self.groups, self.head).transpose(1, 2) for p in (self.k, self.v))
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        x = x + self.o(a.transpose(1, 2).reshape(batch, length, width))
        y = self.n2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


def transformer(depth: int = 2) -> nn.Sequential:
    """Layers in bfloat16."""
    return nn.Sequential(*(Block(2048, 16, 4) for _ in range(depth))).cuda().bfloat16()


def layout(mended: bool) -> Step:
    """Convolutions in channels-first layout; mended: channels-last."""
    model, x = Convolutions(128, 4).cuda(), torch.randn(64, 3, 64, 64, device="cuda")
    if mended:
        model, x = model.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last)
    return training(model, x)


def recompute(mended: bool) -> Step:
    """Every layer checkpointed; mended: none."""
    model, x = transformer(), torch.randn(8, 2048, 2048, device="cuda").bfloat16()

    def call(x: torch.Tensor) -> torch.Tensor:
        for layer in model:
            x = layer(x) if mended else checkpoint(layer, x, use_reentrant=False)
        return x

    return training(model, x, amp=False, call=call)


def precision_fp32(mended: bool) -> Step:
    """Products in fp32; mended: bfloat16."""
    return training(Layers(2048, 8192, 2).cuda(), torch.randn(4096, 2048, device="cuda"), amp=mended)


def precision_tf32(mended: bool) -> Step:
    """Products in TF32; mended: bfloat16."""
    step = training(Layers(2048, 8192, 3).cuda(), torch.randn(16384, 2048, device="cuda"), amp=mended)

    def allowed() -> None:
        torch.backends.cuda.matmul.allow_tf32 = True
        step()
        torch.backends.cuda.matmul.allow_tf32 = False

    return allowed


def precision_convolution(mended: bool) -> Step:
    """Convolutions in fp32, TF32 forbidden; mended: bfloat16."""
    model = Convolutions(128, 4).cuda().to(memory_format=torch.channels_last)
    x = torch.randn(32, 3, 64, 64, device="cuda").to(memory_format=torch.channels_last)
    step = training(model, x, amp=mended)

    def forbidden() -> None:
        torch.backends.cudnn.allow_tf32 = False
        step()
        torch.backends.cudnn.allow_tf32 = True

    return forbidden


def fp64_is_no_fault(mended: bool) -> Step:
    """Products in fp64: an H200's units do them as fast as in fp32, which still halves the bytes."""
    dtype = torch.float32 if mended else torch.float64
    return training(
        Layers(2048, 8192, 2).cuda().to(dtype), torch.randn(4096, 2048, device="cuda", dtype=dtype), amp=False
    )


def shape(mended: bool) -> Step:
    """A hidden size of 8189; mended: 8192."""
    return training(Layers(2048, 8192 if mended else 8189, 3).cuda(), torch.randn(8192, 2048, device="cuda"))


def unfused_norms(mended: bool) -> Step:
    """Norms and activations operator by operator; mended: compiled."""
    model, x = transformer(), torch.randn(4, 2048, 2048, device="cuda").bfloat16()
    return training(model, x, amp=False, call=torch.compile(model) if mended else model)


def unfused_encoder(mended: bool) -> Step:
    """An encoder with dropout in eager mode; mended: compiled."""
    layers = (nn.TransformerEncoderLayer(1024, 16, 4096, 0.1, "gelu", batch_first=True) for _ in range(2))
    model, x = nn.Sequential(*layers).cuda(), torch.randn(32, 512, 1024, device="cuda")
    return training(model, x, call=torch.compile(model) if mended else model)


def unfused_optimizer(mended: bool) -> Step:
    """AdamW that goes over all parameters once for each operation; mended: fused."""
    model = Layers(4096, 16384, 4).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), fused=mended, foreach=not mended)
    return training(model, torch.randn(512, 4096, device="cuda"), optimizer=optimizer)


def casts_back_and_forth(mended: bool) -> Step:
    """Each layer casts its input to fp32 and back; mended: it does not."""
    layers = nn.ModuleList(nn.Linear(2048, 2048) for _ in range(6)).cuda().bfloat16()
    x = torch.randn(32768, 2048, device="cuda").bfloat16()

    def call(x: torch.Tensor) -> torch.Tensor:
        for layer in layers:
            x = layer(x if mended else x.float().bfloat16())
        return x

    return training(layers, x, amp=False, call=call)


def attention_inference(mended: bool) -> Step:
    """Attention written out, forward only; mended: fused."""
    q, k, v = (torch.randn(16, 16, 2048, 64, device="cuda").bfloat16() for _ in range(3))
    seen = torch.ones(2048, 2048, device="cuda", dtype=torch.bool).tril()
    bias = torch.zeros(2048, 2048, device="cuda").bfloat16().masked_fill(~seen, float("-inf"))

    def step() -> torch.Tensor:
        if mended:
            return F.scaled_dot_product_attention(q, k, v, is_causal=True)
        scores = torch.matmul(q, k.transpose(-1, -2)) * 0.125
        return torch.matmul(torch.softmax(scores + bias, -1), v)

    return step


def attention_math(mended: bool) -> Step:
    """Fused attention refused, so that PyTorch writes it out; mended: allowed."""
    model, x = transformer(), torch.randn(4, 2048, 2048, device="cuda").bfloat16()
    step = training(model, x, amp=False)

    def refused() -> None:
        with sdpa_kernel(SDPBackend.MATH):
            step()

    return step if mended else refused


def healthy_layers(_: bool) -> Step:
    """Large compiled products in bfloat16: nothing is wrong."""
    model, x = Layers(4096, 16384, 2).cuda().bfloat16(), torch.randn(32768, 4096, device="cuda").bfloat16()
    return training(model, x, amp=False, call=torch.compile(model))


def healthy_transformer(_: bool) -> Step:
    """A compiled transformer: nothing is wrong."""
    model, x = transformer(3), torch.randn(8, 2048, 2048, device="cuda").bfloat16()
    return training(model, x, amp=False, call=torch.compile(model))


def graph_of_eager(_: bool) -> Step:
    """Runs eagerly, captures the same as a graph, then replays it: what the replays do is told elsewhere."""
    return _captured(eager_first=True)


def graph_of_capture(_: bool) -> Step:
    """Captures a graph without running it, then replays it."""
    return _captured(eager_first=False)


def _captured(eager_first: bool) -> Step:
    model, x = Layers(1024, 4096, 4).cuda().bfloat16(), torch.randn(2048, 1024, device="cuda").bfloat16()
    state: dict[str, Any] = {"step": 0}

    def step() -> None:
        with torch.no_grad():
            if not torch.autograd.profiler._is_profiler_enabled:
                model(x)
            elif "graph" not in state:
                if eager_first:
                    model(x)
                torch.cuda.synchronize()
                state["graph"] = torch.cuda.CUDAGraph()
                with torch.cuda.graph(state["graph"]):
                    model(x)
            else:
                state["graph"].replay()

    return step


CASES: dict[str, tuple[Callable[[bool], Step], str | None]] = {
    "layout": (layout, "layout"),
    "recompute": (recompute, "recompute"),
    "precision_fp32": (precision_fp32, "precision"),
    "precision_tf32": (precision_tf32, "precision"),
    "precision_convolution": (precision_convolution, "precision"),
    "fp64_is_no_fault": (fp64_is_no_fault, None),
    "shape": (shape, "shape"),
    "unfused_norms": (unfused_norms, "elementwise"),
    "unfused_encoder": (unfused_encoder, "elementwise"),
    "unfused_optimizer": (unfused_optimizer, "elementwise"),
    "casts_back_and_forth": (casts_back_and_forth, "elementwise"),
    "attention_inference": (attention_inference, "attention"),
    "attention_math": (attention_math, "attention"),
    "healthy_layers": (healthy_layers, None),
    "healthy_transformer": (healthy_transformer, None),
    "graph_of_eager": (graph_of_eager, None),
    "graph_of_capture": (graph_of_capture, None),
}
"""Each with its cause; None where nothing is wrong."""
ALONE = ("healthy_layers", "healthy_transformer", "graph_of_eager", "graph_of_capture")
"""Without a mended variant."""


def timed(step: Step) -> float:
    """Seconds a step."""
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(STEPS):
        step()
    torch.cuda.synchronize()
    return (time.perf_counter() - start) / STEPS


def in_turns(base: Step, mended: Step) -> list[float]:
    """Ratios of neighbours, mended over base."""
    for step in (base, mended):
        for _ in range(4):
            step()
    ratios = []
    for pair in range(PAIRS):
        first, second = (base, mended) if pair % 2 == 0 else (mended, base)
        times = {first: timed(first), second: timed(second)}
        ratios.append(times[mended] / times[base])
    return ratios


def main(out: str, names: list[str]) -> None:
    os.makedirs(out, exist_ok=True)
    rows = []
    for name in names or CASES:
        make, cause = CASES[name]
        row: dict[str, Any] = {"name": name, "cause": cause}
        torch.manual_seed(0)
        base = make(False)
        if name not in ALONE:
            ratios = in_turns(base, mended := make(True))
            row |= {"after_over_before": statistics.median(ratios), "ci95": interval_of_median(ratios)}
            del mended
        record(base, f"{out}/{name}.json.gz", RECORDED, profile_memory="recompute" in name)
        rows.append(row | {"device": torch.cuda.get_device_name(), "torch": torch.__version__})
        print(row, os.path.getsize(f"{out}/{name}.json.gz"), flush=True)
        del base
        torch._dynamo.reset()
        gc.collect()
        torch.cuda.empty_cache()
        with open(f"{out}/truth.json", "w") as file:
            json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
