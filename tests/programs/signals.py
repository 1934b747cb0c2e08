"""A program that gets signals: alarms whose handler raises, and others that it counts; at last it is killed."""

import gc
import os
import signal
import time

import torch
from ending import model, train


class Alarm(Exception):
    pass


def alarmed(*_: object) -> None:
    raise Alarm


net = model()
optimizer = torch.optim.SGD(net.parameters(), 0.1)
train(1, net, optimizer)

signal.signal(signal.SIGALRM, alarmed)
many = [[number] for number in range(200_000)]  # so that most alarms come while garbage is collected
lost = 0
for _ in range(15):
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.02)
        begun = time.monotonic()
        while time.monotonic() - begun < 1:
            train(1, net, optimizer)
            gc.collect()
        lost += 1
    except Alarm:
        pass
print("lost", lost, flush=True)
del many

wanted = [signal.SIGTERM, signal.SIGUSR1, signal.SIGINT, signal.SIGHUP]
got: list[int] = []
for one in wanted:
    signal.signal(one, lambda number, _: got.append(number))
print("ready", flush=True)
begun = time.monotonic()
while len(got) < len(wanted) and time.monotonic() - begun < 30:
    train(1, net, optimizer)
    time.sleep(0.001)
print(got == wanted, flush=True)

for _ in range(60):
    train(1, net, optimizer)
    time.sleep(0.01)
os.kill(os.getpid(), signal.SIGKILL)
