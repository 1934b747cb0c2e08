"""A program whose run's folder is spoilt while it runs. The argument says which part of it is taken away."""

import os
import shutil
import sys
import time

import torch
from ending import model

net = model().eval()
for number in range(60):
    if number == 5:
        shutil.rmtree(os.path.join(os.environ["GPUWHY_RUN"], sys.argv[1]))
    with torch.no_grad():
        net(torch.ones(16, 64))
    time.sleep(0.01)
print("done", flush=True)
