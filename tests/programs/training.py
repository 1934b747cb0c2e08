"""Training loops. The argument says which."""

import sys

import torch
from ending import model, say, seed, train
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def labelled(rows: int) -> TensorDataset:
    return TensorDataset(torch.randn(rows, 64), torch.randint(0, 4, (rows,)))


def evaluated() -> None:
    """Three epochs of 50 batches of 8, each with an evaluation of 10 batches and a checkpoint."""
    data, held_out = labelled(400), labelled(100)
    net = model()
    optimizer = torch.optim.AdamW(net.parameters())
    for epoch in range(3):
        net.train()
        for inputs, labels in DataLoader(data, batch_size=8, shuffle=True):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(net(inputs), labels)
            loss.backward()
            optimizer.step()
        net.eval()
        with torch.no_grad():
            right = sum(int((net(x).argmax(1) == y).sum()) for x, y in DataLoader(held_out, batch_size=10))
        print(epoch, loss.item(), right)
        torch.save({"net": net, "optimizer": optimizer.state_dict(), "epoch": epoch}, f"epoch{epoch}.pt")
    kept = torch.load("epoch2.pt", weights_only=False)
    print(all(torch.equal(one, other) for one, other in zip(net.parameters(), kept["net"].parameters(), strict=True)))


def accumulated() -> None:
    """60 steps of four batches of 5 from a loader, whose workers a fork makes."""
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    for number, (inputs, labels) in enumerate(DataLoader(labelled(1200), batch_size=5, num_workers=2)):
        loss = nn.functional.cross_entropy(net(inputs), labels) / 4
        loss.backward()
        if number % 4 == 3:
            optimizer.step()
            optimizer.zero_grad()
    print(loss.item())


def accumulated_without_loader() -> None:
    """60 steps of four batches of 5."""
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    for _ in range(60):
        for _ in range(4):
            loss = net(torch.randn(5, 64)).square().mean() / 4
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    print(loss.item())


def adversarial() -> None:
    """80 turns, with a step of each of two optimizers in them."""
    maker, judge = model(), nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 1))
    of_maker, of_judge = (torch.optim.Adam(net.parameters()) for net in (maker, judge))
    for (real,) in DataLoader(TensorDataset(torch.randn(480, 4)), batch_size=6):
        made = maker(torch.randn(6, 64))
        of_judge.zero_grad()
        (judge(made.detach()).square() + (judge(real) - 1).square()).mean().backward()
        of_judge.step()
        of_maker.zero_grad()
        loss = (judge(made) - 1).square().mean()
        loss.backward()
        of_maker.step()
    print(loss.item())


def one_after_the_other() -> None:
    """Two models of 50 steps each, the first of which is gone when the second begins."""
    for _ in range(2):
        net = model()
        print(train(50, net, torch.optim.SGD(net.parameters(), 0.1)))
        del net


if __name__ == "__main__":
    seed()
    globals()[sys.argv[1]]()
    say()
