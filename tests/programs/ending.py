"""What the programs share: a small model, one seed for all random numbers, and what these are at the end."""

import random

import torch
from torch import nn

try:
    import numpy as np
except ImportError:  # torch does not need it
    np = None


def seed() -> None:
    torch.manual_seed(0)
    random.seed(0)
    if np is not None:
        np.random.seed(0)


def say() -> None:
    print("random", torch.rand(3).tolist(), random.random(), flush=True)
    if np is not None:
        print("numpy", np.random.rand(2).tolist(), flush=True)


def model() -> nn.Module:
    return nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 4))


def train(steps: int, net: nn.Module, optimizer: torch.optim.Optimizer, rows: int = 16) -> float:
    """Steps of one batch each."""
    for _ in range(steps):
        optimizer.zero_grad()
        loss = net(torch.randn(rows, 64)).square().mean()
        loss.backward()
        optimizer.step()
    return loss.item()
