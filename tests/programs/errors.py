"""Errors from everywhere that the probe is around, before and after the first step of an optimizer."""

import gc
import traceback
import warnings
from collections.abc import Callable

import torch
from ending import model, say, seed, train
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Broken(Dataset):
    def __len__(self) -> int:
        return 8

    def __getitem__(self, number: int) -> torch.Tensor:
        if number == 5:
            raise ValueError("broken item")
        return torch.zeros(64)


class Failing(nn.Module):
    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        raise RuntimeError("failing model")


class Unsaved:
    def __reduce__(self) -> str:
        raise TypeError("not to be saved")


def load(workers: int) -> None:
    for _ in DataLoader(Broken(), batch_size=2, num_workers=workers):
        pass


def closure() -> float:
    raise KeyError("closure")


def told(function: Callable[..., object], *arguments: object) -> None:
    try:
        function(*arguments)
    except Exception:
        traceback.print_exc()


def all_of_them(optimizer: torch.optim.Optimizer) -> None:
    told(load, 0)
    told(load, 1)
    gc.collect()  # else it is a matter of chance whether a later worker finds this one's loader, and complains
    told(nn.Sequential(nn.Identity(), nn.Sequential(Failing())), torch.zeros(2))
    told(model(), torch.zeros(2, 3))
    told(torch.save, Unsaved(), "unsaved.pt")
    told(nn.Linear(2, 2).train, "no mode")
    told(torch.profiler.profile, 3)
    told(optimizer.step, closure)
    warnings.simplefilter("always")
    torch.autograd.profiler.profile(use_cuda=True)
    torch.profiler.profile(use_cuda=True)


seed()
net = model()
sgd = torch.optim.SGD(net.parameters(), 0.1)
all_of_them(sgd)
train(40, net, sgd)
all_of_them(sgd)
say()
for number in range(40):
    train(1, net, sgd)
    print(number // (30 - number))
