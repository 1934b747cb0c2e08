"""A program with profilers of its own. The argument says after how many steps the first one is made."""

import json
import sys
from collections import Counter

import torch
from ending import model, say, seed, train
from torch.profiler import ProfilerActivity, profile, schedule

NAMES = "aten::addmm", "aten::relu", "Optimizer.step#SGD.step"

seed()
net = model()
optimizer = torch.optim.SGD(net.parameters(), 0.1)
before = int(sys.argv[1])
if before:
    train(before, net, optimizer)
plan = schedule(wait=5, warmup=2, active=20, repeat=1)
found: Counter[str] = Counter()


def ready(of: profile) -> None:
    of.export_chrome_trace("trace.json")
    with open("trace.json") as file:
        found.update(event.get("name") for event in json.load(file)["traceEvents"] if event.get("ph") == "X")


with profile(activities=[ProfilerActivity.CPU], schedule=plan, on_trace_ready=ready) as mine:
    for _ in range(40):
        train(1, net, optimizer)
        mine.step()
print({name: found[name] for name in NAMES})

with torch.autograd.profiler.profile() as other:
    train(10, net, optimizer)
counted = {event.key: event.count for event in other.key_averages()}
print({name: counted[name] for name in NAMES})
train(30, net, optimizer)
say()
