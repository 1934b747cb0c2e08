"""A rank of those that torchrun starts: 30 steps of 8 samples with replicas of a model, and 30 with parts of one."""

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard


def train(net: nn.Module) -> float:
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    for _ in range(30):
        optimizer.zero_grad()
        loss = net(torch.randn(8, 8)).square().mean()
        loss.backward()
        optimizer.step()
    return loss.item()


dist.init_process_group("gloo")
torch.manual_seed(0)
print(train(nn.parallel.DistributedDataParallel(nn.Linear(8, 8))), flush=True)
parts = nn.Linear(8, 8)
fully_shard(parts)
print(train(parts), flush=True)
dist.destroy_process_group()
