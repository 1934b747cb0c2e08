"""Record further loops with one fault each, after the models behind predicted gains were set. Needs a CUDA GPU.

    python benchmarks/record_unseen.py OUT [NAME…]

As record_gains.py, with other models, sizes and variants of the faults: these pairs say how well predictions do on what
they were not made for. The recordings in tests/data/unseen are the base ones, made so on an NVIDIA H200.
"""

from __future__ import annotations

import gc
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from pairs import Step
from record_gains import Items, fixed, record_all
from torch import nn
from torch.utils.checkpoint import checkpoint


class Patches(nn.Module):
    """A vision transformer, its attention written out or fused."""

    def __init__(self, width: int = 384, depth: int = 6, heads: int = 6, written_out: bool = False) -> None:
        super().__init__()
        self.heads, self.written_out = heads, written_out
        self.cut = nn.Conv2d(3, width, 16, stride=16)
        self.place = nn.Parameter(torch.zeros(1, 1024, width))
        self.blocks = nn.ModuleList(
            nn.ModuleDict(
                {
                    "n1": nn.LayerNorm(width),
                    "qkv": nn.Linear(width, 3 * width),
                    "out": nn.Linear(width, width),
                    "n2": nn.LayerNorm(width),
                    "up": nn.Linear(width, 4 * width),
                    "down": nn.Linear(4 * width, width),
                }
            )
            for _ in range(depth)
        )
        self.head = nn.Linear(width, 1000)

    def attend(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        q, k, v = x.view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        if self.written_out:
            y = torch.softmax(q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5, -1) @ v
        else:
            y = F.scaled_dot_product_attention(q, k, v)
        return y.transpose(1, 2).reshape(batch, length, width // 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.cut(x).flatten(2).transpose(1, 2)
        x = x + self.place[:, : x.shape[1]]
        for block in self.blocks:
            x = x + block["out"](self.attend(block["qkv"](block["n1"](x))))
            x = x + block["down"](F.gelu(block["up"](block["n2"](x))))
        return self.head(x.mean(1))


class Mixer(nn.Module):
    """Gated layers with a norm that is written out."""

    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.ModuleDict(
                {"a": nn.Linear(width, 2 * width), "b": nn.Linear(width, 2 * width), "c": nn.Linear(2 * width, width)}
            )
            for _ in range(depth)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            y = x * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-6).to(x.dtype)
            x = x + layer["c"](F.silu(layer["a"](y)) * layer["b"](y))
        return x


def training(
    model: nn.Module,
    batch: Callable[[], torch.Tensor],
    after: Callable[[torch.Tensor], Any] = lambda loss: None,
    call: Any = None,
    optimizer: Any = None,
    amp: torch.dtype | None = torch.float16,
) -> Step:
    """A loop with a mean of squares as its loss."""
    optimizer = optimizer or torch.optim.SGD(model.parameters(), 1e-6, momentum=0.9, fused=True)
    call = model if call is None else call

    def step() -> None:
        with torch.autocast("cuda", amp or torch.float16, enabled=amp is not None):
            loss = call(batch()).float().pow(2).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        after(loss)

    return step


def pictures(count: int, side: int = 224) -> torch.Tensor:
    return torch.randn(count, 3, side, side)


def evaluation(model: nn.Module, after: Callable[[torch.Tensor], Any], x: torch.Tensor) -> Step:
    """Inference, and what is done with its result."""
    model = model.cuda().half().eval()
    x = x.cuda().half()

    def step() -> None:
        with torch.no_grad():
            after(model(x))

    return step


def slow_items(mended: bool) -> Step:
    """Two workers for items that take long; mended: twelve."""
    loader = torch.utils.data.DataLoader(
        Items(1e-3), batch_size=32, num_workers=12 if mended else 2, pin_memory=True, persistent_workers=True
    )
    it = iter(loader)
    return training(Patches(192, 4, 3).cuda(), lambda: next(it).cuda(non_blocking=True))


def items_in_the_loop(mended: bool) -> Step:
    """Cheap items, made in the loop; mended: by four workers."""
    more: dict[str, Any] = {"num_workers": 4, "persistent_workers": True} if mended else {}
    it = iter(torch.utils.data.DataLoader(Items(6e-5), batch_size=128, pin_memory=True, **more))
    return training(Patches(384, 6).cuda(), lambda: next(it).cuda(non_blocking=True))


def many_pageable_copies(mended: bool) -> Step:
    """A batch in 16 pieces from pageable memory; mended: pinned, without waiting."""
    pieces = [pictures(16) for _ in range(16)]
    if mended:
        pieces = [piece.pin_memory() for piece in pieces]
    model = Patches(192, 2, 3).cuda()
    return training(model, lambda: torch.cat([piece.to("cuda", non_blocking=mended) for piece in pieces]))


def norms_read(mended: bool) -> Step:
    """The norm of each gradient is read; mended: none is."""
    model = Patches(384, 8).cuda()

    def after(loss: torch.Tensor) -> None:
        if not mended:
            [float(p.grad.norm()) for p in model.parameters() if p.grad is not None]

    return training(model, fixed(pictures(32)), after)


def masked_rows(mended: bool) -> Step:
    """Large activations picked by a mask; mended: zeroed."""
    model = Mixer(1024, 4).cuda().half()
    x = torch.randn(16384, 1024, device="cuda").half()

    def step() -> None:
        with torch.no_grad():
            y = x
            for layer in range(6):
                y = model(y)
                keep = y[:, layer] > -1e4
                y = y * keep[:, None] if mended else y[keep]

    return step


def garbage(mended: bool) -> Step:
    """gc.collect() in each step of an inference loop; mended: none."""
    return evaluation(Patches(768, 12, 12), lambda y: None if mended else gc.collect(), pictures(64))


def naps(mended: bool) -> Step:
    """A pause of 4 ms in each step; mended: none."""
    return evaluation(Patches(384, 12, 6), lambda y: None if mended else time.sleep(0.004), pictures(16))


def metrics_on_the_host(mended: bool) -> Step:
    """Accuracy computed by NumPy from all results; mended: on the device, not read."""

    def after(y: torch.Tensor) -> None:
        if mended:
            y.float().softmax(-1).max(-1).values.mean()
        else:
            z = y.float().cpu().numpy()
            (z - z.max(-1, keepdims=True)).argsort(-1)[:, -5:].mean()

    return evaluation(Patches(384, 6), after, pictures(512, 64))


def saved_to_disk(mended: bool) -> Step:
    """A model of 180 MB is written to a file in each step; mended: not."""
    model = Patches(768, 6, 12).cuda()
    path = Path(tempfile.mkdtemp()) / "model.pt"
    return training(model, fixed(pictures(32)), lambda loss: None if mended else torch.save(model.state_dict(), path))


def cache_emptied(mended: bool) -> Step:
    """An inference loop that empties the allocator; mended: it does not."""
    return evaluation(Patches(768, 8, 12), lambda y: None if mended else torch.cuda.empty_cache(), pictures(128))


def small_inference(mended: bool) -> Step:
    """Two images; mended: CUDA graphs."""
    model, x = Patches(384, 12, 6).cuda().half().eval(), pictures(2).cuda().half()
    call = torch.compile(model, mode="reduce-overhead") if mended else model

    def step() -> None:
        with torch.no_grad():
            call(x)

    return step


def small_training(mended: bool) -> Step:
    """Four images; mended: CUDA graphs."""
    model = Patches(192, 8, 3).cuda()
    call = torch.compile(model, mode="reduce-overhead") if mended else model
    return training(model, fixed(pictures(4)), call=call)


def batch_of_four(mended: bool) -> Step:
    """Four images a step; mended: 64."""
    return training(Patches(384, 8).cuda(), fixed(pictures(64 if mended else 4)))


def loop_of_momentum(mended: bool) -> Step:
    """AdamW parameter by parameter in a vision transformer; mended: fused."""
    model = Patches(384, 12).cuda()
    options: dict[str, Any] = {"fused": True} if mended else {"foreach": False}
    return training(model, fixed(pictures(16)), optimizer=torch.optim.AdamW(model.parameters(), 1e-6, **options))


def single_precision(mended: bool) -> Step:
    """A vision transformer in fp32; mended: mixed precision."""
    return training(Patches(768, 6, 12).cuda(), fixed(pictures(64)), amp=torch.bfloat16 if mended else None)


def odd_width(mended: bool) -> Step:
    """A hidden width of 3001 in fp16; mended: 3072."""
    width = 3072 if mended else 3001
    model = nn.Sequential(*(nn.Linear(width, width) for _ in range(8))).cuda()
    return training(model, fixed(torch.randn(8192, width)))


def written_out(mended: bool) -> Step:
    """Attention over 784 patches written out; mended: fused."""
    return training(Patches(384, 6, 6, not mended).cuda(), fixed(pictures(32, 448)))


def eager_gates(mended: bool) -> Step:
    """Gated layers in eager mode, inference; mended: compiled."""
    model, x = Mixer(2048, 6).cuda().bfloat16().eval(), torch.randn(16384, 2048, device="cuda").bfloat16()
    call = torch.compile(model) if mended else model

    def step() -> None:
        with torch.no_grad():
            call(x)

    return step


def eager_vision(mended: bool) -> Step:
    """A large vision transformer in eager mode; mended: compiled."""
    model = Patches(768, 8, 12).cuda()
    return training(model, fixed(pictures(128)), call=torch.compile(model) if mended else model)


def checkpointed(mended: bool) -> Step:
    """Layers checkpointed; mended: none."""
    layers = nn.ModuleList(Mixer(2048, 1) for _ in range(6)).cuda().half()

    def call(x: torch.Tensor) -> torch.Tensor:
        for layer in layers:
            x = layer(x) if mended else checkpoint(layer, x, use_reentrant=False)
        return x

    x = torch.randn(16384, 2048, device="cuda").half()
    return training(layers, lambda: x, call=call, amp=None)


def busy_vision(mended: bool) -> Step:
    """Compiled and busy; mended with pinned memory for a small batch, which brings nothing."""
    host = pictures(128, 32)
    host = host.pin_memory() if mended else host
    model = Patches(1024, 8, 16).cuda()
    x = pictures(96).cuda()
    call = torch.compile(model)

    def batch() -> torch.Tensor:
        host.to("cuda", non_blocking=mended)
        return x

    return training(model, batch, call=call)


CASES: dict[str, tuple[Callable[[bool], Step], str | None, str]] = {
    "slow_items": (slow_items, "input", "more_workers"),
    "items_in_the_loop": (items_in_the_loop, "input", "loader_workers"),
    "many_pageable_copies": (many_pageable_copies, "host_to_device_copy", "pinned"),
    "norms_read": (norms_read, "launch", "no_item"),
    "masked_rows": (masked_rows, None, "fixed_sizes"),
    "garbage": (garbage, "garbage_collection", "gc_off_loop"),
    "naps": (naps, "outside_operators", "out_of_loop"),
    "metrics_on_the_host": (metrics_on_the_host, "device_to_host_copy", "keep_on_device"),
    "saved_to_disk": (saved_to_disk, "checkpoint", "checkpoint_rarely"),
    "cache_emptied": (cache_emptied, "allocator", "keep_memory"),
    "small_inference": (small_inference, "launch", "cuda_graphs"),
    "small_training": (small_training, "launch", "cuda_graphs"),
    "batch_of_four": (batch_of_four, "launch", "larger_batch"),
    "loop_of_momentum": (loop_of_momentum, "launch", "fused_optimizer"),
    "single_precision": (single_precision, "precision", "precision"),
    "odd_width": (odd_width, "shape", "shape"),
    "written_out": (written_out, "attention", "fused_attention"),
    "eager_gates": (eager_gates, "elementwise", "compile"),
    "eager_vision": (eager_vision, "elementwise", "compile"),
    "checkpointed": (checkpointed, "recompute", "no_recompute"),
    "busy_vision": (busy_vision, None, "pinned"),
}

if __name__ == "__main__":
    record_all(CASES, {"batch_of_four": 16.0}, ("garbage",), sys.argv[1], sys.argv[2:])
