"""Models and optimizers that become graphs: scripted, traced, exported, compiled."""

import pickle

import torch
from ending import model, say, seed
from torch import fx, nn

seed()
net = model().eval()
ones = torch.ones(2, 64)

traced = torch.jit.trace(net, ones)
scripted = torch.jit.script(net)  # what is saved of it differs from run to run
symbolic = fx.symbolic_trace(net)
exported = torch.export.export(net, (ones,), dynamic_shapes=({0: torch.export.Dim("rows", min=2)},))
print(traced.graph, scripted.graph, symbolic.code, exported.graph, sep="\n")
print(len(pickle.dumps(net)), pickle.loads(pickle.dumps(torch.save)) is torch.save)

compiled = torch.compile(net, fullgraph=True, backend="aot_eager")
with torch.no_grad():
    for number in range(40):
        total = compiled(torch.randn(16 if number < 20 else 24, 64)).sum()
print(total.item())


@torch.compile(fullgraph=True, backend="aot_eager")
def loss_of(inputs: torch.Tensor) -> torch.Tensor:
    return nn.functional.mse_loss(net(inputs), inputs[:, :4])


optimizer = torch.optim.SGD(net.parameters(), 0.1)
step = torch.compile(optimizer.step, backend="aot_eager")
for _ in range(40):
    optimizer.zero_grad()
    loss = loss_of(torch.randn(16, 64))
    loss.backward()
    step()
print(loss.item())
for _ in range(30):
    optimizer.zero_grad()
    loss = loss_of(torch.randn(16, 64))
    loss.backward()
    optimizer.step()
print(loss.item())
print(torch._dynamo.utils.counters["stats"]["unique_graphs"])
say()
