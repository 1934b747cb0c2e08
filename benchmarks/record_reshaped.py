"""Record the zoo's kinds of models in other shapes, with one fault each. Needs a CUDA GPU.

    python benchmarks/record_reshaped.py OUT [NAME…]

As record_gains.py, with the models of benchmarks/reshaped_models.py. The recordings in tests/data/reshaped are the base
ones, made so on an NVIDIA H200.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from pairs import Rows, Step, copied
from record_gains import Cases, fixed, record_all
from reshaped_models import GPT, MLP, ConvNet, WrittenOutGELU
from torch import nn

Batch = Callable[[], torch.Tensor]
Loss = Callable[[Any, torch.Tensor], torch.Tensor]


def mean_square(call: Any, x: torch.Tensor) -> torch.Tensor:
    """The loss of all models but GPT."""
    return call(x).float().square().mean()


def next_token(call: Any, tokens: torch.Tensor) -> torch.Tensor:
    """The loss of GPT, which computes it."""
    return call(tokens[:, :-1], tokens[:, 1:].contiguous())


def training(
    model: nn.Module,
    batch: Batch,
    loss: Loss = mean_square,
    after: Callable[[torch.Tensor], Any] = lambda loss: None,
    before: Callable[[], Any] = lambda: None,
    call: Any = None,
    optimizer: Any = None,
    amp: bool = True,
) -> Step:
    """A plain loop in bf16, or in fp32; `before` and `after` come around the optimizer's step."""
    optimizer = optimizer or torch.optim.AdamW(model.parameters(), fused=True)
    call = model if call is None else call

    def step() -> None:
        x = batch()
        with torch.autocast("cuda", torch.bfloat16, enabled=amp):
            found = loss(call, x)
        found.backward()
        before()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        after(found)

    return step


def text(count: int, length: int) -> torch.Tensor:
    """Tokens, and one more each: what comes after the last."""
    return torch.randint(0, 50000, (count, length + 1))


def images(count: int, side: int = 64) -> torch.Tensor:
    return torch.randn(count, 3, side, side)


def io_workers(mended: bool) -> Step:
    """Two workers that wait for a disk; mended: twelve."""
    loader = torch.utils.data.DataLoader(
        Rows(lambda: torch.randn(3, 64, 64), 2.0, waits=True),
        batch_size=64,
        num_workers=12 if mended else 2,
        pin_memory=True,
        persistent_workers=True,
        prefetch_factor=4,
    )
    it = iter(loader)
    return training(ConvNet(64, 4).cuda(), lambda: next(it).cuda(non_blocking=True))


def loader_gpt(mended: bool) -> Step:
    """Text made in the loop's thread, in pageable memory; mended: by eight workers, in pinned memory."""
    loader = torch.utils.data.DataLoader(
        Rows(lambda: torch.randint(0, 50000, (513,)), 1.0),
        batch_size=16,
        num_workers=8 if mended else 0,
        pin_memory=mended,
        persistent_workers=mended,
    )
    it = iter(loader)
    return training(GPT(512, 8, 8).cuda(), lambda: next(it).cuda(non_blocking=mended), next_token)


def copy_conv(mended: bool) -> Step:
    """Images from pageable memory; mended: from pinned memory, one step ahead."""
    return training(ConvNet(32, 2).cuda(), copied(images(1024, 96), ahead=mended))


def item_gpt(mended: bool) -> Step:
    """The loss and each parameter's largest entry are read; mended: none."""
    model = GPT(256, 8, 4).cuda()

    def after(loss: torch.Tensor) -> None:
        if mended:
            return
        loss.item()
        for parameter in model.parameters():
            parameter.abs().max().item()

    return training(model, fixed(text(4, 256)), next_token, after)


def clip_item(mended: bool) -> Step:
    """The norm of all gradients is summed on the host, as for clipping; mended: not."""
    model = MLP(512, 16).cuda()

    def before() -> None:
        if not mended:
            sum(parameter.grad.pow(2).sum().item() for parameter in model.parameters())

    return training(model, fixed(torch.randn(512, 512)), before=before)


def slow_gelu_gpt(mended: bool) -> Step:
    """GELU written out, which the host is too slow for; mended: compiled."""
    model = GPT(depth=6, activation=WrittenOutGELU()).cuda()
    return training(model, fixed(text(8, 512)), next_token, call=torch.compile(model) if mended else model)


def decode_mlp(mended: bool) -> Step:
    """Eight rows through many layers; mended: CUDA graphs."""
    model, x = MLP(1024, 24).cuda().bfloat16().eval(), torch.randn(8, 1024).cuda().bfloat16()
    call = torch.compile(model, mode="reduce-overhead") if mended else model

    def step() -> None:
        with torch.no_grad():
            call(x)

    return step


def loop_opt_conv(mended: bool) -> Step:
    """AdamW parameter by parameter; mended: fused."""
    model = ConvNet(64, 24).cuda()
    options: dict[str, Any] = {"fused": True} if mended else {"foreach": False, "fused": False}
    return training(model, fixed(images(16, 32)), optimizer=torch.optim.AdamW(model.parameters(), **options))


def fp32_gpt(mended: bool) -> Step:
    """A language model in fp32; mended: in bf16."""
    return training(GPT(depth=6).cuda(), fixed(text(8, 512)), next_token, amp=mended)


def odd_hidden(mended: bool) -> Step:
    """A width of 2047; mended: 2048."""
    width = 2048 if mended else 2047
    return training(MLP(width, 4).cuda(), fixed(torch.randn(16384, width)))


def empty_gpt(mended: bool) -> Step:
    """The cache is emptied in each step; mended: not."""
    return training(
        GPT(depth=6).cuda(),
        fixed(text(8, 512)),
        next_token,
        lambda loss: None if mended else torch.cuda.empty_cache(),
    )


def naive_long(mended: bool) -> Step:
    """Attention over 2048 tokens written out; mended: fused."""
    model = GPT(512, 4, 8, 2048, written_out=not mended).cuda()
    return training(model, fixed(text(4, 2048)), next_token)


def ckpt_gpt(mended: bool) -> Step:
    """The model is saved in each step; mended: not."""
    model, path = GPT(512, 6, 8).cuda(), Path(tempfile.mkdtemp()) / "model.pt"

    def after(loss: torch.Tensor) -> None:
        if not mended:
            torch.save(model.state_dict(), path)

    return training(model, fixed(text(4, 256)), next_token, after)


def small_gpt(mended: bool) -> Step:
    """Two texts a step; mended: 64."""
    return training(GPT(384, 8, 6).cuda(), fixed(text(64 if mended else 2, 128)), next_token)


def channels_last(mended: bool) -> Step:
    """Convolutions with channels first; mended: last."""
    form = torch.channels_last if mended else torch.contiguous_format
    return training(ConvNet(128, 6).cuda().to(memory_format=form), fixed(images(64).to(memory_format=form)))


def healthy_conv(mended: bool) -> Step:
    """Compiled and busy; mended: with CUDA graphs on top, which bring nothing."""
    model = ConvNet(256, 8).cuda().to(memory_format=torch.channels_last)
    call = torch.compile(model, mode="reduce-overhead") if mended else torch.compile(model)
    return training(model, fixed(images(128).to(memory_format=torch.channels_last)), call=call)


def healthy_mlp(mended: bool) -> Step:
    """Compiled and busy; mended: the loss is not read, which brings nothing."""
    model = MLP(4096, 6).cuda()
    after = (lambda loss: None) if mended else (lambda loss: loss.item())
    return training(model, fixed(torch.randn(16384, 4096)), after=after, call=torch.compile(model))


def eager_gpt(mended: bool) -> Step:
    """Norms, activations and sums one by one; mended: compiled."""
    model = GPT(1024, 6, 16).cuda()
    return training(model, fixed(text(16, 512)), next_token, call=torch.compile(model) if mended else model)


CASES: Cases = {
    "io_workers": (io_workers, "input", "more_workers"),
    "loader_gpt": (loader_gpt, "input", "loader_workers"),
    "copy_conv": (copy_conv, "host_to_device_copy", "pinned_prefetch"),
    "item_gpt": (item_gpt, "launch", "no_item"),
    "clip_item": (clip_item, "launch", "no_item"),
    "slow_gelu_gpt": (slow_gelu_gpt, "elementwise", "compile"),
    "decode_mlp": (decode_mlp, "launch", "cuda_graphs"),
    "loop_opt_conv": (loop_opt_conv, "launch", "fused_optimizer"),
    "fp32_gpt": (fp32_gpt, "precision", "precision"),
    "odd_hidden": (odd_hidden, "shape", "shape"),
    "empty_gpt": (empty_gpt, "allocator", "keep_memory"),
    "naive_long": (naive_long, "attention", "fused_attention"),
    "ckpt_gpt": (ckpt_gpt, "checkpoint", "checkpoint_rarely"),
    "small_gpt": (small_gpt, "launch", "larger_batch"),
    "channels_last": (channels_last, "layout", "channels_last"),
    "healthy_conv": (healthy_conv, None, "cuda_graphs"),
    "healthy_mlp": (healthy_mlp, None, "no_item"),
    "eager_gpt": (eager_gpt, "elementwise", "compile"),
}

if __name__ == "__main__":
    record_all(CASES, {"small_gpt": 32.0}, (), sys.argv[1], sys.argv[2:])
