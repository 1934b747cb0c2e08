"""Two processes that torch.multiprocessing spawns: one calls a model 60 times, the other 30 times."""

import torch
import torch.multiprocessing as mp
from ending import model


def work(rank: int) -> None:
    net = model().eval()
    with torch.no_grad():
        for _ in range(60 if rank else 30):
            net(torch.ones(16, 64))


if __name__ == "__main__":
    mp.spawn(work, nprocs=2)
    print("done", flush=True)
