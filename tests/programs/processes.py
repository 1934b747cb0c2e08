"""A program that closes all files that it finds open, reads standard input, forks, and ends at once with status 3."""

import os
import sys
import time

import torch
from ending import model, say, seed, train

seed()
net = model()
optimizer = torch.optim.SGD(net.parameters(), 0.1)
print(sys.stdin.read()[::-1], train(30, net, optimizer))
os.closerange(3, 256)
first = open("first.txt", "w")  # noqa: SIM115
second = open("second.txt", "w")  # noqa: SIM115
print(first.fileno(), second.fileno())
for _ in range(60):
    train(1, net, optimizer)
    time.sleep(0.01)
sys.stdout.flush()
child = os.fork()
loss = train(20, net, optimizer)
if child == 0:
    first.write("of the child")
    print("child", loss, flush=True)
    sys.exit(4)
print("parent", loss, os.waitpid(child, 0)[1])
first.write("of the parent")
first.close()
second.write("the second")
second.close()
say()
time.sleep(0.3)
train(1, net, optimizer)
os._exit(3)
