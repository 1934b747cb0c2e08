"""Accelerate: 100 batches of 4 in 50 steps of two."""

import torch
from accelerate import Accelerator
from ending import say, seed
from torch.utils.data import DataLoader, TensorDataset

seed()
accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
net = torch.nn.Linear(8, 2)
optimizer = torch.optim.SGD(net.parameters(), 0.1)
net, optimizer, loader = accelerator.prepare(
    net, optimizer, DataLoader(TensorDataset(torch.randn(400, 8)), batch_size=4)
)
for (batch,) in loader:
    with accelerator.accumulate(net):
        loss = net(batch).square().mean()
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
print(loss.item())
say()
