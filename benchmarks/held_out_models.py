"""The models of record_held_out.py: none of them is in the other sets of recordings."""

from __future__ import annotations

from itertools import pairwise

import torch
import torch.nn.functional as F
from record_waste import RMSNorm
from torch import nn
from torch.utils.checkpoint import checkpoint


class DecoderLayer(nn.Module):
    """Rotary attention, fused or written out, and a gated network."""

    def __init__(self, width: int, heads: int, written_out: bool) -> None:
        super().__init__()
        self.heads, self.written_out = heads, written_out
        self.n1, self.n2 = RMSNorm(width), RMSNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.gate, self.up = (nn.Linear(width, 2 * width, bias=False) for _ in range(2))
        self.down = nn.Linear(2 * width, width, bias=False)

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        q, k, v = (one.view(batch, length, self.heads, -1).transpose(1, 2) for one in self.qkv(self.n1(x)).chunk(3, -1))
        q, k = _rotated(q, cos, sin), _rotated(k, cos, sin)
        if self.written_out:
            scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
            hidden = torch.ones(length, length, dtype=torch.bool, device=x.device).triu(1)
            y = torch.softmax(scores.masked_fill(hidden, float("-inf")).float(), -1).to(q.dtype) @ v
        else:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, width))
        y = self.n2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


def _rotated(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    left, right = x.chunk(2, -1)
    return (x * cos + torch.cat((-right, left), -1) * sin).to(x.dtype)


class Decoder(nn.Module):
    """A language model of today's kind."""

    def __init__(
        self, width: int = 512, depth: int = 6, heads: int = 8, vocabulary: int = 16384, written_out: bool = False
    ) -> None:
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleList(DecoderLayer(width, heads, written_out) for _ in range(depth))
        self.norm, self.head = RMSNorm(width), nn.Linear(width, vocabulary, bias=False)
        angle = torch.outer(torch.arange(4096.0), 1e4 ** -torch.linspace(0, 1, width // heads // 2))
        self.register_buffer("cos", torch.cat((angle, angle), -1).cos(), persistent=False)
        self.register_buffer("sin", torch.cat((angle, angle), -1).sin(), persistent=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x, length = self.embed(tokens), tokens.shape[1]
        for layer in self.layers:
            x = layer(x, self.cos[:length], self.sin[:length])
        return self.head(self.norm(x))


def next_token(logits: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    """The loss of a language model."""
    return F.cross_entropy(logits[:, :-1].flatten(0, 1).float(), tokens[:, 1:].flatten())


class Block(nn.Module):
    """Two convolutions with group norms."""

    def __init__(self, before: int, width: int) -> None:
        super().__init__()
        self.a, self.b = nn.Conv2d(before, width, 3, padding=1), nn.Conv2d(width, width, 3, padding=1)
        self.n1, self.n2 = nn.GroupNorm(8, width), nn.GroupNorm(8, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.silu(self.n2(self.b(F.silu(self.n1(self.a(x))))))


class UNet(nn.Module):
    """A denoiser: down, and up again with what was on the way."""

    def __init__(self, width: int = 32, depth: int = 3, again: bool = False) -> None:
        super().__init__()
        sizes = [width * 2**level for level in range(depth)]
        self.first, self.again = nn.Conv2d(3, width, 3, padding=1), again
        self.down = nn.ModuleList(Block(max(size // 2, width), size) for size in sizes)
        self.up = nn.ModuleList(Block(3 * size, size) for size in reversed(sizes[:-1]))
        self.last = nn.Conv2d(width, 3, 1)

    def _run(self, block: nn.Module, x: torch.Tensor) -> torch.Tensor:
        return checkpoint(block, x, use_reentrant=False) if self.again else block(x)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x, kept = self.first(x), []
        for block in self.down:
            x = self._run(block, x)
            kept.append(x)
            x = F.max_pool2d(x, 2)
        x = kept.pop()
        for block in self.up:
            x = F.interpolate(x, scale_factor=2.0)
            x = self._run(block, torch.cat((x, kept.pop()), 1))
        return self.last(x)


def denoised(found: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """The loss of a denoiser."""
    return F.mse_loss(found.float(), x)


class Recommender(nn.Module):
    """Embeddings of categories, and a tower."""

    def __init__(self, tables: int = 26, rows: int = 10_000, width: int = 64) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(rows, width) for _ in range(tables))
        sizes = [tables * width, 1024, 512, 256]
        pairs = pairwise(sizes)
        self.tower = nn.Sequential(*(layer for a, b in pairs for layer in (nn.Linear(a, b), nn.ReLU())))
        self.last = nn.Linear(256, 1)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        looked_up = [table(rows[:, place]) for place, table in enumerate(self.tables)]
        return self.last(self.tower(torch.cat(looked_up, 1)))


def clicked(logits: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """The loss of a recommender."""
    return F.binary_cross_entropy_with_logits(logits.float()[:, 0], (rows[:, 0] & 1).float())


class Speech(nn.Module):
    """Recurrent layers over frames."""

    def __init__(self, width: int = 512, depth: int = 3) -> None:
        super().__init__()
        self.convolve = nn.Conv1d(80, width, 5, padding=2)
        self.recur = nn.GRU(width, width, depth, batch_first=True)
        self.head = nn.Linear(width, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.recur(F.relu(self.convolve(x)).transpose(1, 2))[0])


def spoken(found: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """A loss over frames."""
    return found.float().log_softmax(-1)[..., 0].mean() * -1 + 0 * x[0, 0, 0]


class Messages(nn.Module):
    """Message passing over a graph; with `picked`, only edges that a mask picks."""

    def __init__(self, width: int = 128, depth: int = 6, picked: bool = False) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(2 * width, width) for _ in range(depth))
        self.register_buffer("edges", torch.randint(0, 4096, (2, 32768)), persistent=False)
        self.register_buffer("there", torch.rand(32768) < 0.5, persistent=False)
        self.picked = picked

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            source, target = self.edges[:, self.there] if self.picked else self.edges
            sent = F.relu(layer(torch.cat((x[source], x[target]), 1)))
            sent = sent if self.picked else sent * self.there[:, None]
            x = x + torch.zeros_like(x).index_add(0, target, sent.to(x.dtype))
        return x


def calm(found: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """A loss over nodes."""
    return (found.float() - x).pow(2).mean()
