"""Record loops that judge predicted gains after everything behind those was set. Needs a CUDA GPU.

    python benchmarks/record_held_out.py OUT [NAME…]

As record_gains.py, with models that no other set has (benchmarks/held_out_models.py). The recordings in
tests/data/held_out are the base ones, made so on an NVIDIA H200.
"""

from __future__ import annotations

import gc
import io
import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from held_out_models import (
    Decoder,
    Messages,
    Recommender,
    Speech,
    UNet,
    calm,
    clicked,
    denoised,
    next_token,
    spoken,
)
from pairs import Rows, Step, copied
from record_gains import fixed, record_all
from torch import nn

Batch = Callable[[], torch.Tensor]
Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def training(
    model: nn.Module,
    batch: Batch,
    loss: Loss,
    after: Callable[[torch.Tensor], Any] = lambda loss: None,
    call: Any = None,
    optimizer: Any = None,
    amp: bool = True,
) -> Step:
    """A plain loop in bf16, or in fp32."""
    optimizer = optimizer or torch.optim.AdamW(model.parameters(), 1e-5, fused=True)
    call = model if call is None else call

    def step() -> None:
        x = batch()
        with torch.autocast("cuda", torch.bfloat16, enabled=amp):
            found = loss(call(x), x)
        optimizer.zero_grad()
        found.backward()
        optimizer.step()
        after(found.detach())

    return step


def text(count: int, length: int = 256, vocabulary: int = 16384) -> torch.Tensor:
    return torch.randint(0, vocabulary, (count, length))


def clicks(count: int) -> torch.Tensor:
    return torch.randint(0, 10_000, (count, 26))


def noise(count: int, side: int = 64) -> torch.Tensor:
    return torch.randn(count, 3, side, side)


def parsed() -> Any:
    """Work of Python on the host."""
    return json.loads(json.dumps({"row": list(range(32))}))


def _loaded(rows: Rows, size: int, workers: int) -> Batch:
    more: dict[str, Any] = {"persistent_workers": True, "prefetch_factor": 4} if workers else {}
    loader = torch.utils.data.DataLoader(rows, size, num_workers=workers, pin_memory=True, **more)
    it = iter(loader)
    return lambda: next(it).cuda(non_blocking=True)


def rows_in_the_loop(mended: bool) -> Step:
    """Rows parsed in the loop's thread; mended: by eight workers."""
    rows = Rows(lambda: torch.randint(0, 10_000, (26,)), 0.02, work=parsed)
    return training(Recommender().cuda(), _loaded(rows, 1024, 8 if mended else 0), clicked)


def read_by_two(mended: bool) -> Step:
    """Two workers that wait for a disk; mended: twelve."""
    rows = Rows(lambda: torch.randn(3, 64, 64), 1.5, waits=True)
    return training(UNet().cuda(), _loaded(rows, 48, 12 if mended else 2), denoised)


def decoded_by_two(mended: bool) -> Step:
    """Two workers that decode; mended: ten, which brings little: launching takes longer."""
    rows = Rows(lambda: torch.randn(80, 400), 2.5, work=parsed)
    return training(Speech().cuda(), _loaded(rows, 32, 10 if mended else 2), spoken)


def scaled_on_the_host(mended: bool) -> Step:
    """Frames are scaled on the host in the loop; mended: on the device."""
    host = (torch.rand(96, 80, 800) * 255).to(torch.uint8).pin_memory()

    def batch() -> torch.Tensor:
        x = host.cuda(non_blocking=True) if mended else host
        x = (x.float() / 255 - 0.45) / 0.22
        return x if mended else x.cuda()

    return training(Speech(256, 2).cuda(), batch, spoken)


def pageable_noise(mended: bool) -> Step:
    """A large batch from pageable memory; mended: from pinned memory, one step ahead."""
    return training(UNet(8, 2).cuda(), copied(noise(768, 128), ahead=mended), denoised)


def loss_of_each_step(mended: bool) -> Step:
    """One number read a step; mended: none."""
    after = (lambda loss: None) if mended else (lambda loss: loss.item())
    return training(Recommender().cuda(), fixed(clicks(2048)), clicked, after)


def norms_of_layers(mended: bool) -> Step:
    """Each layer's gradient norm is read; mended: not."""
    model = Decoder().cuda()

    def after(loss: torch.Tensor) -> None:
        if not mended:
            [layer.qkv.weight.grad.norm().item() for layer in model.layers]

    return training(model, fixed(text(4)), next_token, after)


def timed_parts(mended: bool) -> Step:
    """A synchronize after forward and step, to time them; mended: none."""
    model = Messages().cuda()
    sync = (lambda *_: None) if mended else (lambda *_: torch.cuda.synchronize())
    model.register_forward_hook(sync)
    return training(model, fixed(torch.randn(4096, 128)), calm, sync)


def picked_edges(mended: bool) -> Step:
    """Edges are picked by a mask in each layer; mended: multiplied with it."""
    return training(Messages(picked=not mended).cuda(), fixed(torch.randn(4096, 128)), calm)


def logged(mended: bool) -> Step:
    """A long record is written in each step; mended: not."""

    def after(loss: torch.Tensor) -> None:
        if not mended:
            io.StringIO().write(json.dumps([{"step": i, "text": str(i) * 9} for i in range(12_000)]))

    return training(UNet().cuda(), fixed(noise(32)), denoised, after)


def collected(mended: bool) -> Step:
    """The garbage collector is called in each step, with many objects alive; mended: not."""
    kept = [[i] for i in range(400_000)]

    def after(loss: torch.Tensor) -> None:
        if not mended:
            gc.collect()
        kept[0] = [1]

    return training(Decoder(384, 4, 6).cuda(), fixed(text(8)), next_token, after)


def pictures_out(mended: bool) -> Step:
    """All denoised pictures go to the host in each step; mended: their mean."""
    model, x = UNet(16, 2).cuda().bfloat16().eval(), noise(256).cuda().bfloat16()

    def step() -> None:
        with torch.no_grad():
            y = model(x)
            (y.mean() if mended else y.float()).cpu()

    return step


def saved_each_step(mended: bool) -> Step:
    """The model is saved in each step; mended: not."""
    model, path = Decoder(768, 4, 12).cuda(), Path(tempfile.mkdtemp()) / "model.pt"

    def after(loss: torch.Tensor) -> None:
        if not mended:
            torch.save(model.state_dict(), path)

    return training(model, fixed(text(8)), next_token, after)


def emptied(mended: bool) -> Step:
    """The cache is emptied in each step; mended: not."""
    return training(
        UNet().cuda(), fixed(noise(32)), denoised, lambda loss: None if mended else torch.cuda.empty_cache()
    )


def one_token(mended: bool) -> Step:
    """A decoder's step for four tokens; mended: CUDA graphs."""
    model, x = Decoder(768, 12, 12).cuda().bfloat16().eval(), text(4, 1).cuda()
    call = torch.compile(model, mode="reduce-overhead") if mended else model

    def step() -> None:
        with torch.no_grad():
            call(x)

    return step


def short_text(mended: bool) -> Step:
    """Training on little text; mended: CUDA graphs."""
    model = Decoder(256, 8, 4).cuda()
    call = torch.compile(model, mode="reduce-overhead") if mended else model
    return training(model, fixed(text(2, 64)), next_token, call=call)


def compiled_text(mended: bool) -> Step:
    """The same on more text; mended: compiled."""
    model = Decoder(512, 8, 8).cuda()
    return training(model, fixed(text(4)), next_token, call=torch.compile(model) if mended else model)


def two_pictures(mended: bool) -> Step:
    """Two pictures a step; mended: 64."""
    return training(UNet().cuda(), fixed(noise(64 if mended else 2)), denoised)


def loop_of_adam(mended: bool) -> Step:
    """AdamW parameter by parameter; mended: fused."""
    model = Decoder(512, 12).cuda()
    options: dict[str, Any] = {"fused": True} if mended else {"foreach": False}
    return training(model, fixed(text(8)), next_token, optimizer=torch.optim.AdamW(model.parameters(), 1e-5, **options))


def single_precision(mended: bool) -> Step:
    """A decoder in fp32; mended: in bf16."""
    return training(Decoder(1024, 4, 16).cuda(), fixed(text(16, 512)), next_token, amp=mended)


def odd_vocabulary(mended: bool) -> Step:
    """A vocabulary of 50,021; mended: 50,048."""
    size = 50_048 if mended else 50_021
    return training(Decoder(1024, 2, 16, size).cuda(), fixed(text(16, 1024, 50_021)), next_token)


def scores_in_memory(mended: bool) -> Step:
    """Attention written out; mended: fused."""
    return training(Decoder(512, 6, 8, 8192, written_out=not mended).cuda(), fixed(text(4, 1536, 8192)), next_token)


def eager_decoder(mended: bool) -> Step:
    """Norms, rotation and gates one by one; mended: compiled."""
    model = Decoder(1024, 6, 16).cuda()
    return training(model, fixed(text(16, 1024)), next_token, call=torch.compile(model) if mended else model)


def strided_convolutions(mended: bool) -> Step:
    """Convolutions with channels first; mended: last, which is slower with group norms."""
    model, x = UNet(64, 3).cuda(), noise(64).cuda()
    form = torch.channels_last if mended else torch.contiguous_format
    return training(model.to(memory_format=form), fixed(x.to(memory_format=form)), denoised)


def run_twice(mended: bool) -> Step:
    """Activations are computed again; mended: kept."""
    return training(UNet(64, 3, again=not mended).cuda(), fixed(noise(64)), denoised)


def busy_decoder(mended: bool) -> Step:
    """Compiled and busy; mended: the loss is not read, which brings nothing."""
    model = Decoder(1024, 8, 16).cuda()
    after = (lambda loss: None) if mended else (lambda loss: loss.item())
    return training(model, fixed(text(16, 1024)), next_token, after, call=torch.compile(model))


def busy_speech(mended: bool) -> Step:
    """Recurrent and busy; mended: fused optimizer, which brings next to nothing."""
    model = Speech(1024, 4).cuda()
    options: dict[str, Any] = {"fused": True} if mended else {"foreach": True}
    return training(
        model,
        fixed(torch.randn(64, 80, 800)),
        spoken,
        optimizer=torch.optim.AdamW(model.parameters(), 1e-5, **options),
    )


CASES: dict[str, tuple[Callable[[bool], Step], str | None, str]] = {
    "rows_in_the_loop": (rows_in_the_loop, "input", "loader_workers"),
    "read_by_two": (read_by_two, "input", "more_workers"),
    "decoded_by_two": (decoded_by_two, "launch", "more_workers"),
    "scaled_on_the_host": (scaled_on_the_host, "host_compute", "compute_elsewhere"),
    "pageable_noise": (pageable_noise, "host_to_device_copy", "pinned_prefetch"),
    "loss_of_each_step": (loss_of_each_step, "launch", "no_item"),
    "norms_of_layers": (norms_of_layers, "launch", "no_item"),
    "timed_parts": (timed_parts, "launch", "no_synchronize"),
    "picked_edges": (picked_edges, "synchronization", "fixed_sizes"),
    "logged": (logged, "outside_operators", "out_of_loop"),
    "collected": (collected, "garbage_collection", "gc_off_loop"),
    "pictures_out": (pictures_out, "device_to_host_copy", "keep_on_device"),
    "saved_each_step": (saved_each_step, "checkpoint", "checkpoint_rarely"),
    "emptied": (emptied, "allocator", "keep_memory"),
    "one_token": (one_token, "launch", "cuda_graphs"),
    "short_text": (short_text, "launch", "cuda_graphs"),
    "compiled_text": (compiled_text, "launch", "compile"),
    "two_pictures": (two_pictures, "launch", "larger_batch"),
    "loop_of_adam": (loop_of_adam, "launch", "fused_optimizer"),
    "single_precision": (single_precision, "precision", "precision"),
    "odd_vocabulary": (odd_vocabulary, "shape", "shape"),
    "scores_in_memory": (scores_in_memory, "attention", "fused_attention"),
    "eager_decoder": (eager_decoder, "elementwise", "compile"),
    "strided_convolutions": (strided_convolutions, None, "channels_last"),
    "run_twice": (run_twice, "recompute", "no_recompute"),
    "busy_decoder": (busy_decoder, None, "no_item"),
    "busy_speech": (busy_speech, None, "fused_optimizer"),
}

if __name__ == "__main__":
    record_all(CASES, {"two_pictures": 32.0}, ("collected",), sys.argv[1], sys.argv[2:])
