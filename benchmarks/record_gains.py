"""Record loops with one planted fault each, mostly around the device, and the gain of mending it. Needs a CUDA GPU.

    python benchmarks/record_gains.py OUT [NAME…]

Both variants of a case are built, timed in turns without a profiler, then recorded (benchmarks/pairs.py). OUT gets
`truth.json` and two profiles a case. The recordings in tests/data/gains are the base ones, made so on an NVIDIA H200;
tests/test_gains.py says what is predicted from each, and how near.
"""

from __future__ import annotations

import gc
import io
import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from pairs import Step, copied, in_turns, record
from torch import nn

RECORDED = 5
IMAGE = (3, 96, 96)


class ResNet(nn.Module):
    """Bottleneck blocks: many small operators."""

    def __init__(self, width: int = 64, depth: int = 12) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, width, 7, stride=4, padding=3, bias=False)
        self.blocks = nn.ModuleList(
            nn.Sequential(
                nn.Conv2d(width, width // 2, 1, bias=False),
                nn.BatchNorm2d(width // 2),
                nn.ReLU(inplace=True),
                nn.Conv2d(width // 2, width, 3, padding=1, bias=False),
                nn.BatchNorm2d(width),
            )
            for _ in range(depth)
        )
        self.head = nn.Linear(width, 100)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        for block in self.blocks:
            x = F.relu(x + block(x))
        return self.head(x.mean((2, 3)))


class Encoder(nn.Module):
    """A transformer encoder over tokens, with an optional mask that is applied by indexing."""

    def __init__(self, width: int = 512, depth: int = 6, vocabulary: int = 8192) -> None:
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(width, 8, 4 * width, 0.0, "gelu", batch_first=True, norm_first=True)
            for _ in range(depth)
        )
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embed(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


def classify(logits: torch.Tensor) -> torch.Tensor:
    """A loss against arbitrary labels that are made on the device."""
    return F.cross_entropy(
        logits.flatten(0, -2).float(), torch.zeros(logits[..., 0].numel(), dtype=torch.long, device="cuda")
    )


def training(
    model: nn.Module,
    batch: Callable[[], torch.Tensor],
    after: Callable[[torch.Tensor], Any] = lambda loss: None,
    call: Any = None,
    optimizer: Any = None,
) -> Step:
    """A plain training loop in mixed precision."""
    optimizer = optimizer or torch.optim.AdamW(model.parameters(), fused=True)
    call = model if call is None else call

    def step() -> None:
        x = batch()
        with torch.autocast("cuda", torch.bfloat16):
            loss = classify(call(x))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        after(loss)

    return step


def images(size: int, pinned: bool = False) -> torch.Tensor:
    made = torch.randn(size, *IMAGE)
    return made.pin_memory() if pinned else made


def fixed(made: torch.Tensor) -> Callable[[], torch.Tensor]:
    there = made.cuda()
    return lambda: there


def tokens(size: int, length: int = 128) -> torch.Tensor:
    return torch.randint(0, 8192, (size, length))


class Items(torch.utils.data.Dataset):
    """Items that burn a core for some time, as decoding does."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def __len__(self) -> int:
        return 10**7

    def __getitem__(self, index: int) -> torch.Tensor:
        until = time.perf_counter() + self.seconds
        item = torch.rand(IMAGE)
        while time.perf_counter() < until:
            item = item.flip(1)
        return item


def _loader(workers: int, seconds: float, batch: int) -> Callable[[], torch.Tensor]:
    more: dict[str, Any] = {"persistent_workers": True, "prefetch_factor": 2} if workers else {}
    loader = torch.utils.data.DataLoader(Items(seconds), batch_size=batch, num_workers=workers, pin_memory=True, **more)
    it = iter(loader)
    return lambda: next(it).cuda(non_blocking=True)


def loader_none(mended: bool) -> Step:
    """Images decoded in the loop; mended: by eight workers."""
    return training(ResNet().cuda(), _loader(8 if mended else 0, 3e-4, 64))


def loader_slow(mended: bool) -> Step:
    """One worker; mended: eight."""
    return training(ResNet().cuda(), _loader(8 if mended else 1, 4e-4, 64))


def host_augmentation(mended: bool) -> Step:
    """Images are normalized and flipped on the host, in the loop; mended: on the device."""
    raw = images(128, pinned=True)

    def batch() -> torch.Tensor:
        x = raw.cuda(non_blocking=True) if mended else raw
        x = ((x - 0.5) / 0.25).flip(3).clamp(-3, 3)
        return x if mended else x.cuda()

    return training(ResNet().cuda(), batch)


def copy_pageable(mended: bool) -> Step:
    """Images from pageable memory; mended: pinned, and copied a step ahead on a stream of their own."""
    return training(ResNet(96, 6).cuda(), copied(images(1024), ahead=mended))


def copy_out(mended: bool) -> Step:
    """Inference whose whole result is copied out in each step; mended: only its largest entry's place."""
    model = Encoder(256, 2).cuda().bfloat16().eval()
    x = tokens(32, 256).cuda()

    def step() -> None:
        with torch.no_grad():
            y = model(x)
            if mended:
                y.argmax(-1).cpu()
            else:
                y.float().cpu()

    return step


def loss_printed(mended: bool) -> Step:
    """The loss, the accuracy and a check for NaN are read in each step; mended: not."""
    model = ResNet(64, 8).cuda()

    def after(loss: torch.Tensor) -> None:
        if mended:
            return
        for parameter in model.parameters():
            if torch.isnan(parameter.grad).any().item():
                raise RuntimeError
        loss.item()

    return training(model, fixed(images(16)), after)


def timers(mended: bool) -> Step:
    """Every layer is followed by a synchronize, as home-made timers do; mended: none."""
    model, x = Encoder(256, 8).cuda().bfloat16().eval(), tokens(8, 64).cuda()

    def step() -> None:
        with torch.no_grad():
            y = model.embed(x)
            for layer in model.layers:
                y = layer(y)
                if not mended:
                    torch.cuda.synchronize()
            model.head(y)

    return step


def boolean_mask(mended: bool) -> Step:
    """Rows are picked by a mask in every layer, whose count the host must know; mended: multiplied with the mask."""
    layers = nn.ModuleList(nn.Sequential(nn.Linear(512, 512), nn.GELU()) for _ in range(16)).cuda()
    x = torch.randn(4096, 512, device="cuda")

    def step() -> None:
        with torch.no_grad():
            y = x
            for layer in layers:
                keep = y[:, 0] > -10
                y = layer(y) * keep[:, None] if mended else layer(y[keep])

    return step


def collect_garbage(mended: bool) -> Step:
    """gc.collect() in each step; mended: none."""
    return training(ResNet(64, 8).cuda(), fixed(images(64)), lambda loss: None if mended else gc.collect())


def sleeps(mended: bool) -> Step:
    """The loop talks to a slow logger; mended: it does not."""
    return training(ResNet(64, 8).cuda(), fixed(images(64)), lambda loss: None if mended else time.sleep(0.012))


def checkpoints(mended: bool) -> Step:
    """The state is written in each step; mended: never."""
    model = Encoder(512, 4).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)

    def after(loss: torch.Tensor) -> None:
        if not mended:
            torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, io.BytesIO())

    return training(model, fixed(tokens(16)), after, optimizer=optimizer)


def empties_cache(mended: bool) -> Step:
    """The allocator is emptied in each step; mended: never."""
    return training(
        Encoder(512, 4).cuda(), fixed(tokens(64, 256)), lambda loss: None if mended else torch.cuda.empty_cache()
    )


def eager_decoding(mended: bool) -> Step:
    """A small batch through a small model; mended: compiled into CUDA graphs."""
    model, x = Encoder(512, 8).cuda().bfloat16().eval(), tokens(2, 32).cuda()
    call = torch.compile(model, mode="reduce-overhead") if mended else model

    def step() -> None:
        with torch.no_grad():
            call(x)

    return step


def eager_training(mended: bool) -> Step:
    """A small batch through a small network; mended: compiled into CUDA graphs."""
    model = Encoder(256, 6).cuda()
    call = torch.compile(model, mode="reduce-overhead") if mended else model
    return training(model, fixed(tokens(4, 64)), call=call)


def eager_convolutions(mended: bool) -> Step:
    """Many small convolutions; mended: compiled."""
    model = ResNet(32, 16).cuda()
    return training(model, fixed(images(16)), call=torch.compile(model) if mended else model)


def small_batch(mended: bool) -> Step:
    """Eight sequences a step; mended: 128."""
    return training(Encoder(256, 6).cuda(), fixed(tokens(128 if mended else 8, 64)))


def small_images(mended: bool) -> Step:
    """Eight images a step; mended: 64."""
    return training(ResNet().cuda(), fixed(images(64 if mended else 8)))


def loop_adam(mended: bool) -> Step:
    """Adam parameter by parameter; mended: fused."""
    model = ResNet(32, 20).cuda()
    optimizer = torch.optim.Adam(model.parameters(), fused=mended, foreach=False if not mended else None)
    return training(model, fixed(images(32)), optimizer=optimizer)


def busy_with_metrics(mended: bool) -> Step:
    """Busy all the time, and a small metric is read in each step: that costs next to nothing. Mended: not read."""
    model, x = Encoder(1024, 6).cuda(), tokens(64, 512).cuda()
    call = torch.compile(model)
    return training(model, lambda: x, lambda loss: None if mended else loss.item(), call=call)


def busy_with_graphs(mended: bool) -> Step:
    """Compiled and busy; mended: with CUDA graphs on top, which bring nothing."""
    model, x = Encoder(1024, 6).cuda(), tokens(64, 512).cuda()
    call = torch.compile(model, mode="reduce-overhead") if mended else torch.compile(model)
    return training(model, lambda: x, call=call)


Cases = dict[str, tuple[Callable[[bool], Step], str | None, str]]

CASES: Cases = {
    "loader_none": (loader_none, "input", "loader_workers"),
    "loader_slow": (loader_slow, "input", "more_workers"),
    "host_augmentation": (host_augmentation, "host_compute", "compute_elsewhere"),
    "copy_pageable": (copy_pageable, "host_to_device_copy", "pinned_prefetch"),
    "copy_out": (copy_out, "device_to_host_copy", "keep_on_device"),
    "loss_printed": (loss_printed, "launch", "no_item"),
    "timers": (timers, "launch", "no_synchronize"),
    "boolean_mask": (boolean_mask, "synchronization", "fixed_sizes"),
    "collect_garbage": (collect_garbage, "garbage_collection", "gc_off_loop"),
    "sleeps": (sleeps, "outside_operators", "out_of_loop"),
    "checkpoints": (checkpoints, "checkpoint", "checkpoint_rarely"),
    "empties_cache": (empties_cache, "allocator", "keep_memory"),
    "eager_decoding": (eager_decoding, "launch", "cuda_graphs"),
    "eager_training": (eager_training, "launch", "cuda_graphs"),
    "eager_convolutions": (eager_convolutions, "launch", "compile"),
    "small_batch": (small_batch, "launch", "larger_batch"),
    "small_images": (small_images, "launch", "larger_batch"),
    "loop_adam": (loop_adam, "launch", "fused_optimizer"),
    "busy_with_metrics": (busy_with_metrics, None, "no_item"),
    "busy_with_graphs": (busy_with_graphs, None, "cuda_graphs"),
}
"""Each with its cause (None: it is busy, and nothing much is wrong) and the mend that its second variant has. A loop
that reads numbers, and that the host bounds in any case, has the cause `launch`."""
SAMPLES = {"small_batch": 16.0, "small_images": 8.0}
STACKS = ("collect_garbage",)


def record_all(cases: Cases, samples: dict[str, float], stacks: tuple[str, ...], out: str, names: list[str]) -> None:
    """Time and record the pairs; `samples` are those of a mended step for each of a base step, where not one."""
    os.makedirs(out, exist_ok=True)
    rows = []
    for name in names or cases:
        make, cause, mend = cases[name]
        row: dict[str, Any] = {"name": name, "cause": cause, "mend": mend}
        begun = time.perf_counter()
        try:
            torch.manual_seed(0)
            base, mended = make(False), make(True)
            row |= in_turns(base, mended, samples.get(name, 1.0))
            for step, kind in ((base, "base"), (mended, "mended")):
                record(step, f"{out}/{name}.{kind}.json.gz", RECORDED, with_stack=name in stacks)
            row |= {"device": torch.cuda.get_device_name(), "torch": torch.__version__}
        except Exception as error:
            row["error"] = repr(error)[:300]
        rows.append(row)
        print(f"{time.perf_counter() - begun:.0f} s", row, flush=True)
        base = mended = None
        torch._dynamo.reset()
        gc.collect()
        torch.cuda.empty_cache()
        with open(f"{out}/truth.json", "w") as file:
            json.dump(rows, file, indent=1)


if __name__ == "__main__":
    record_all(CASES, SAMPLES, STACKS, sys.argv[1], sys.argv[2:])
