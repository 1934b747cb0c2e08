"""The models of record_reshaped.py: the kinds that the zoo has, of any width and depth."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn


def feed_forward(width: int, activation: nn.Module | None) -> nn.Sequential:
    """Up to four times the width, and down again."""
    return nn.Sequential(nn.Linear(width, 4 * width), activation or nn.GELU(), nn.Linear(4 * width, width))


class MLP(nn.Module):
    """Feed-forward layers with norms before them."""

    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(width), *feed_forward(width, None)) for _ in range(depth)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = x + layer(x)
        return x


class WrittenOutGELU(nn.Module):
    """One elementwise operator after the other."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 0.5 * x * (1.0 + torch.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))


class Attention(nn.Module):
    """Causal, fused or written out."""

    def __init__(self, width: int, heads: int, written_out: bool) -> None:
        super().__init__()
        self.heads, self.written_out = heads, written_out
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        each = width // self.heads
        q, k, v = (one.view(batch, length, self.heads, each).transpose(1, 2) for one in self.qkv(x).split(width, 2))
        if self.written_out:
            scores = (q @ k.transpose(-2, -1)) / each**0.5
            hidden = torch.ones(length, length, device=x.device, dtype=torch.bool).triu(1)
            y = F.softmax(scores.masked_fill(hidden, float("-inf")), -1) @ v
        else:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(batch, length, width))


class GPT(nn.Module):
    """A language model; with targets, its loss."""

    def __init__(
        self,
        width: int = 768,
        depth: int = 12,
        heads: int = 12,
        longest: int = 1024,
        written_out: bool = False,
        activation: nn.Module | None = None,
        vocabulary: int = 50304,
    ) -> None:
        super().__init__()
        self.embed, self.place = nn.Embedding(vocabulary, width), nn.Embedding(longest, width)
        self.blocks = nn.ModuleList(
            nn.ModuleDict(
                {
                    "n1": nn.LayerNorm(width),
                    "attend": Attention(width, heads, written_out),
                    "n2": nn.LayerNorm(width),
                    "feed": feed_forward(width, activation),
                }
            )
            for _ in range(depth)
        )
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens: torch.Tensor, targets: torch.Tensor | None = None) -> torch.Tensor:
        x = self.embed(tokens) + self.place.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = x + block["attend"](block["n1"](x))
            x = x + block["feed"](block["n2"](x))
        logits = self.head(self.norm(x))
        return logits if targets is None else F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1))


class ConvNet(nn.Module):
    """Residual 3 × 3 convolutions that keep the image's size."""

    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, width, 3, padding=1)
        self.blocks = nn.ModuleList(
            nn.Sequential(
                nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True)
            )
            for _ in range(depth)
        )
        self.head = nn.Linear(width, 1000)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        for block in self.blocks:
            x = x + block(x)
        return self.head(x.mean((2, 3)))
