"""Small models of many kinds, in plain torch, for `test_flops.py`: each function makes a model and its inputs.

Sizes are odd numbers where that is possible, so that a mistaken dimension changes the count.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional

Made = tuple[Any, tuple[Any, ...]]
"""A model, and the inputs of one call; what it returns is summed up for the backward pass."""

MODELS: dict[str, Callable[[], Made]] = {}

GROUPED: dict[str, Callable[[], Made]] = {}
"""Models with convolutions in groups."""


def model(make: Callable[[], Made]) -> Callable[[], Made]:
    MODELS[make.__name__] = make
    return make


@model
def mlp() -> Made:
    net = nn.Sequential(nn.Linear(13, 29), nn.GELU(), nn.Linear(29, 31, bias=False), nn.ReLU(), nn.Linear(31, 7))
    return net, (torch.randn(5, 3, 13),)


def grouped(make: Callable[[], Made]) -> Callable[[], Made]:
    GROUPED[make.__name__] = make
    return make


class Attention(nn.Module):
    """Self or cross attention through `scaled_dot_product_attention`, with grouped-query heads if wanted."""

    def __init__(self, width: int, heads: int, groups: int | None = None, causal: bool = False) -> None:
        super().__init__()
        self.heads, self.groups, self.causal, self.size = heads, groups or heads, causal, width // heads
        self.q = nn.Linear(width, width)
        self.k = nn.Linear(width, self.groups * self.size)
        self.v = nn.Linear(width, self.groups * self.size)
        self.out = nn.Linear(width, width, bias=False)

    def split(self, x: Any, heads: int) -> Any:
        return x.unflatten(-1, (heads, self.size)).transpose(1, 2)

    def forward(self, x: Any, memory: Any = None, mask: Any = None, rotary: Any = None) -> Any:
        memory = x if memory is None else memory
        q, k = self.split(self.q(x), self.heads), self.split(self.k(memory), self.groups)
        v = self.split(self.v(memory), self.groups)
        if rotary is not None:
            q, k = rotate(q, *rotary), rotate(k, *rotary)
        grouped = self.groups != self.heads
        out = functional.scaled_dot_product_attention(
            q, k, v, attn_mask=mask, is_causal=self.causal, enable_gqa=grouped
        )
        return self.out(out.transpose(1, 2).flatten(2))


def rotate(x: Any, cos: Any, sin: Any) -> Any:
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-second, first), dim=-1) * sin


class Block(nn.Module):
    def __init__(self, width: int, heads: int, causal: bool = False) -> None:
        super().__init__()
        self.attention = Attention(width, heads, causal=causal)
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.mlp = nn.Sequential(nn.Linear(width, 3 * width), nn.GELU(), nn.Linear(3 * width, width))

    def forward(self, x: Any, mask: Any = None) -> Any:
        x = x + self.attention(self.norms[0](x), mask=mask)
        return x + self.mlp(self.norms[1](x))


class GPT(nn.Module):
    """Two blocks; the head shares the weights of the embedding."""

    def __init__(self, vocabulary: int = 101, width: int = 24, heads: int = 3, length: int = 17) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList([Block(width, heads, causal=True) for _ in range(2)])
        self.norm = nn.LayerNorm(width)

    def forward(self, ids: Any) -> Any:
        x = self.tokens(ids) + self.places(torch.arange(ids.shape[1]))
        for block in self.blocks:
            x = block(x)
        logits = self.norm(x) @ self.tokens.weight.T
        return functional.cross_entropy(logits.flatten(0, 1), ids.flatten())


@model
def gpt() -> Made:
    return GPT(), (torch.randint(0, 101, (2, 17)),)


class Llama(nn.Module):
    """RMS norm, rotary embedding, grouped-query heads, SwiGLU."""

    def __init__(self, width: int = 48, heads: int = 6, groups: int = 2, length: int = 11) -> None:
        super().__init__()
        self.tokens = nn.Embedding(83, width)
        self.attention = Attention(width, heads, groups, causal=True)
        self.norms = nn.ModuleList([nn.RMSNorm(width) for _ in range(3)])
        self.gate, self.up = nn.Linear(width, 77, bias=False), nn.Linear(width, 77, bias=False)
        self.down, self.head = nn.Linear(77, width, bias=False), nn.Linear(width, 83, bias=False)
        size = width // heads
        angles = torch.outer(torch.arange(length), 10000.0 ** (-torch.arange(0, size, 2) / size)).repeat(1, 2)
        self.rotary = angles.cos(), angles.sin()

    def forward(self, ids: Any) -> Any:
        x = self.tokens(ids)
        x = x + self.attention(self.norms[0](x), rotary=self.rotary)
        y = self.norms[1](x)
        x = x + self.down(functional.silu(self.gate(y)) * self.up(y))
        return self.head(self.norms[2](x))


@model
def llama() -> Made:
    return Llama(), (torch.randint(0, 83, (3, 11)),)


class BERT(nn.Module):
    """A mask hides the padding: it is added to the scores, so that all pairs are worked on."""

    def __init__(self, width: int = 20, heads: int = 4) -> None:
        super().__init__()
        self.tokens = nn.Embedding(97, width, padding_idx=0)
        self.blocks = nn.ModuleList([Block(width, heads) for _ in range(2)])
        self.pool, self.classes = nn.Linear(width, width), nn.Linear(width, 3)

    def forward(self, ids: Any) -> Any:
        x, mask = self.tokens(ids), (ids != 0)[:, None, None, :]
        for block in self.blocks:
            x = block(x, mask)
        return self.classes(torch.tanh(self.pool(x[:, 0])))


@model
def bert() -> Made:
    ids = torch.randint(1, 97, (3, 13))
    ids[0, 9:], ids[2, 5:] = 0, 0
    return BERT(), (ids,)


class ViT(nn.Module):
    def __init__(self, width: int = 18, heads: int = 3) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, 5, stride=5)
        self.first, self.places = nn.Parameter(torch.zeros(1, 1, width)), nn.Parameter(torch.zeros(1, 13, width))
        self.block, self.head = Block(width, heads), nn.Linear(width, 10)

    def forward(self, image: Any) -> Any:
        x = self.patches(image).flatten(2).transpose(1, 2)
        x = torch.cat((self.first.expand(x.shape[0], -1, -1), x), dim=1) + self.places
        return self.head(self.block(x)[:, 0])


@model
def vit() -> Made:
    return ViT(), (torch.randn(2, 3, 15, 20),)


class Bottleneck(nn.Module):
    def __init__(self, before: int, inner: int, after: int, stride: int = 1, dilation: int = 1) -> None:
        super().__init__()
        middle = nn.Conv2d(inner, inner, 3, stride, padding=dilation, dilation=dilation, bias=False)
        self.path = nn.Sequential(
            nn.Conv2d(before, inner, 1, bias=False),
            nn.BatchNorm2d(inner),
            nn.ReLU(),
            middle,
            nn.BatchNorm2d(inner),
            nn.ReLU(),
            nn.Conv2d(inner, after, 1, bias=False),
            nn.BatchNorm2d(after),
        )
        self.short = nn.Conv2d(before, after, 1, stride, bias=False)

    def forward(self, x: Any) -> Any:
        return functional.relu(self.path(x) + self.short(x))


@model
def resnet() -> Made:
    """Strided and dilated bottlenecks behind a stem of 7 by 7."""
    net = nn.Sequential(
        nn.Conv2d(3, 8, 7, stride=2, padding=3, bias=False),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.MaxPool2d(3, 2, 1),
        Bottleneck(8, 4, 16),
        Bottleneck(16, 6, 24, stride=2),
        Bottleneck(24, 6, 24, dilation=2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(24, 11),
    )
    return net, (torch.randn(2, 3, 45, 39),)


class UNet(nn.Module):
    """Down by strided, up by transposed convolutions, whose `output_padding` restores an odd size."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.down = nn.Conv2d(2, 6, 3, padding=1), nn.Conv2d(6, 10, 3, stride=2, padding=1)
        self.deeper = nn.Conv2d(10, 14, (3, 5), stride=(2, 1), padding=(1, 2))
        self.up = nn.ConvTranspose2d(14, 10, (3, 5), stride=(2, 1), padding=(1, 2), output_padding=(1, 0))
        self.last = nn.ConvTranspose2d(10, 6, 4, stride=2, padding=1)
        self.out = nn.Conv2d(12, 1, 1)

    def forward(self, x: Any) -> Any:
        x = functional.silu(self.first(x))
        y = functional.silu(self.down(x))
        z = functional.silu(self.up(self.deeper(y)))
        return self.out(torch.cat((x, self.last(y + z)), dim=1))


class Diffusion(nn.Module):
    """A residual block with group norm that knows the time, with attention over the places of the picture."""

    def __init__(self, width: int = 12) -> None:
        super().__init__()
        self.first, self.last = nn.Conv2d(4, width, 3, padding=1), nn.Conv2d(width, 4, 3, padding=1)
        self.norm, self.time = nn.GroupNorm(3, width), nn.Linear(10, width)
        self.attention = Attention(width, 1)

    def forward(self, x: Any, time: Any) -> Any:
        x = self.first(x) + self.time(time)[:, :, None, None]
        x = functional.silu(self.norm(x))
        rows = x.flatten(2).transpose(1, 2)
        rows = rows + self.attention(rows)
        small = rows.transpose(1, 2).reshape(x.shape)
        return self.last(functional.interpolate(small, scale_factor=2.0))


@model
def diffusion() -> Made:
    return Diffusion(), (torch.randn(2, 4, 6, 5), torch.randn(2, 10))


@model
def unet() -> Made:
    return UNet(), (torch.randn(3, 2, 16, 20),)


class MoE(nn.Module):
    """Each token goes to the two best of five experts; how many come to each is known only when it runs."""

    def __init__(self, width: int = 12, experts: int = 5) -> None:
        super().__init__()
        self.route = nn.Linear(width, experts, bias=False)
        self.experts = nn.ModuleList(
            [nn.Sequential(nn.Linear(width, 23), nn.SiLU(), nn.Linear(23, width)) for _ in range(experts)]
        )

    def forward(self, x: Any) -> Any:
        weights, chosen = self.route(x).softmax(-1).topk(2, dim=-1)
        out = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            token, rank = torch.where(chosen == number)
            if len(token):
                rows = expert(x[token]) * weights[token, rank, None]
                out = out.index_add(0, token, rows.to(out.dtype))
        return out


@model
def moe() -> Made:
    return MoE(), (torch.randn(37, 12),)


class Recurrent(nn.Module):
    """Bidirectional LSTM of two layers with a projection (so that it is made of matrix products), and a GRU."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(9, 12, num_layers=2, bidirectional=True, proj_size=5, batch_first=True)
        self.gru = nn.GRU(10, 7)
        self.out = nn.Linear(7, 3)

    def forward(self, x: Any) -> Any:
        return self.out(self.gru(self.lstm(x)[0])[0])


@model
def recurrent() -> Made:
    return Recurrent(), (torch.randn(4, 6, 9),)


class WaveNet(nn.Module):
    """Causal 1-d convolutions whose dilation doubles."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv1d(1, 6, 1)
        self.layers = nn.ModuleList([nn.Conv1d(6, 12, 2, dilation=2**i) for i in range(4)])
        self.mixes = nn.ModuleList([nn.Conv1d(6, 6, 1) for _ in range(4)])

    def forward(self, x: Any) -> Any:
        x = self.first(x)
        for i, (layer, mix) in enumerate(zip(self.layers, self.mixes, strict=True)):
            x = x + mix(functional.glu(layer(functional.pad(x, (2**i, 0))), dim=1))
        return x


@model
def wavenet() -> Made:
    return WaveNet(), (torch.randn(3, 1, 41),)


@model
def volumes() -> Made:
    """3-d convolutions, plain, dilated and transposed."""
    net = nn.Sequential(
        nn.Conv3d(2, 5, 3, padding=1),
        nn.ReLU(),
        nn.Conv3d(5, 7, (1, 3, 3), stride=(1, 2, 2)),
        nn.ReLU(),
        nn.Conv3d(7, 6, 2, dilation=2, padding=1),
        nn.ConvTranspose3d(6, 3, 2, stride=2),
    )
    return net, (torch.randn(2, 2, 5, 11, 9),)


class Seq2Seq(nn.Module):
    """Encoder and decoder: the decoder's queries meet the encoder's keys, of another length."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.encoder, self.decoder = Block(width, 2), Block(width, 2, causal=True)
        self.cross, self.out = Attention(width, 4), nn.Linear(width, 19)

    def forward(self, source: Any, target: Any) -> Any:
        y = self.decoder(target)
        return self.out(y + self.cross(y, memory=self.encoder(source)))


@model
def seq2seq() -> Made:
    return Seq2Seq(), (torch.randn(2, 15, 16), torch.randn(2, 9, 16))


class Products(nn.Module):
    """Matrix products in many spellings: broadcast, batched, einsum, added to something."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Parameter(torch.randn(4, 1, 6, 7)), nn.Parameter(torch.randn(5, 3, 7, 2))

    def forward(self, x: Any, y: Any) -> Any:
        one = (self.a @ self.b[0]).sum()  # (4, 1, 6, 7) by (3, 7, 2)
        two = torch.baddbmm(x.mean(), y, self.b[:, 0]).sum()  # (5, 6, 7) by (5, 7, 2)
        three = torch.einsum("bij,bkj,kl->bil", y, y, x).sum()
        four = (y.transpose(1, 2) @ x).sum() + (x @ y[1]).square().sum()
        return one + two + three + four + torch.addmm(x, x, x.T, beta=0.5).sum()


@model
def products() -> Made:
    return Products(), (torch.randn(6, 6, requires_grad=True), torch.randn(5, 6, 7, requires_grad=True))


class DLRM(nn.Module):
    """Bags of embeddings and their products with each other."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.bags = nn.ModuleList([nn.EmbeddingBag(size, width, mode="sum") for size in (50, 31, 12)])
        self.dense, self.top = nn.Linear(13, width), nn.Linear(width + 16, 1)

    def forward(self, numbers: Any, ids: Any, offsets: Any) -> Any:
        x = self.dense(numbers)
        rows = torch.stack([x, *(bag(ids, offsets) for bag in self.bags)], dim=1)
        pairs = torch.bmm(rows, rows.transpose(1, 2)).flatten(1)
        return self.top(torch.cat((x, pairs), dim=1))


@model
def dlrm() -> Made:
    return DLRM(), (torch.randn(4, 13), torch.randint(0, 12, (11,)), torch.tensor([0, 2, 3, 7]))


@model
def autoencoder() -> Made:
    """1-d convolutions with strides and back, with a narrow linear layer between them."""
    net = nn.Sequential(
        nn.Conv1d(3, 8, 5, stride=2, padding=2),
        nn.Tanh(),
        nn.Flatten(),
        nn.Linear(8 * 11, 6),
        nn.Linear(6, 8 * 11),
        nn.Unflatten(1, (8, 11)),
        nn.ConvTranspose1d(8, 3, 5, stride=2, padding=2),
    )
    return net, (torch.randn(4, 3, 21),)


class Cells(nn.Module):
    """LSTM and GRU cells that are called step by step."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.gru = nn.LSTMCell(6, 9), nn.GRUCell(9, 5)

    def forward(self, x: Any) -> Any:
        h, c, g = torch.zeros(3, 9), torch.zeros(3, 9), torch.zeros(3, 5)
        for row in x:
            h, c = self.lstm(row, (h, c))
            g = self.gru(h, g)
        return g


@model
def cells() -> Made:
    return Cells(), (torch.randn(7, 3, 6),)


@grouped
def mobilenet() -> Made:
    """Inverted bottlenecks: depthwise convolutions, one with two outputs a channel, between those of 1 by 1."""
    net = nn.Sequential(
        nn.Conv2d(3, 8, 3, stride=2, padding=1, bias=False),
        nn.Conv2d(8, 24, 1),
        nn.ReLU6(),
        nn.Conv2d(24, 24, 3, padding=1, groups=24),
        nn.ReLU6(),
        nn.Conv2d(24, 10, 1),
        nn.Conv2d(10, 20, 5, stride=2, padding=2, groups=10),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(20, 5),
    )
    return net, (torch.randn(2, 3, 21, 17),)


@grouped
def resnext() -> Made:
    """A bottleneck in four groups, and another with dilation; the picture wants a gradient too."""
    net = nn.Sequential(
        nn.Conv2d(6, 16, 1),
        nn.ReLU(),
        nn.Conv2d(16, 16, 3, stride=2, padding=1, groups=4),
        nn.ReLU(),
        nn.Conv2d(16, 20, 3, padding=2, dilation=2, groups=2),
        nn.Conv2d(20, 6, 1),
    )
    return net, (torch.randn(2, 6, 13, 11, requires_grad=True),)


@grouped
def grouped_decoder() -> Made:
    """Transposed convolutions in groups, with `output_padding` and dilation, in one and two dimensions."""
    net = nn.Sequential(
        nn.ConvTranspose2d(8, 12, 3, stride=2, padding=1, output_padding=1, groups=4),
        nn.SiLU(),
        nn.Flatten(2),
        nn.ConvTranspose1d(12, 6, 3, stride=2, dilation=2, groups=3),
    )
    return net, (torch.randn(2, 8, 5, 4),)
