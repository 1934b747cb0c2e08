"""Loops without an optimizer. The argument says which."""

import sys
import threading

import torch
from ending import model, say, seed
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Scaled(Dataset):
    """Items that are made with a model of their own."""

    def __init__(self) -> None:
        self.scale = nn.Linear(64, 64)

    def __len__(self) -> int:
        return 350

    @torch.no_grad()
    def __getitem__(self, number: int) -> torch.Tensor:
        return self.scale(torch.full((64,), float(number)))


def epochs() -> None:
    """Three times 50 batches of 7: by the process itself, by workers that are forked, and by a spawned one."""
    net = model().eval()
    data = Scaled()
    for context in (None, "fork", "spawn"):
        workers = {None: 0, "fork": 2, "spawn": 1}[context]
        with torch.no_grad():
            loader = DataLoader(data, batch_size=7, num_workers=workers, multiprocessing_context=context)
            print(context, sum(net(batch).sum().item() for batch in loader))


def threads() -> None:
    """Four threads that call one model 200 times each."""
    net = model().eval()

    def work() -> None:
        with torch.no_grad():
            for _ in range(200):
                net(torch.ones(8, 64))

    all_of_them = [threading.Thread(target=work) for _ in range(4)]
    for thread in all_of_them:
        thread.start()
    for thread in all_of_them:
        thread.join()


if __name__ == "__main__":
    seed()
    globals()[sys.argv[1]]()
    say()
