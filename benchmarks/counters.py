"""Holds work and bounds from recorded shapes against the hardware's counters. Needs a Hopper GPU or newer (NVML GPM).

    python benchmarks/counters.py OUT [NAME…]

Each workload runs for about two seconds between two samples of the counters (DRAM bandwidth, tensor cores, fp32
units), with the SM clock read every 20 ms; three times. Then a PyTorch profile of a few steps is recorded with shapes.
OUT gets `counters.json` and one profile a workload; `tests/test_counters.py` holds gpuwhy to them.
"""

import gzip
import json
import os
import shutil
import statistics
import sys
import threading
import time

import pynvml as nvml
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.profiler import ProfilerActivity, profile, schedule

SECONDS, REPEATS, AHEAD = 2.0, 3, 8
METRICS = {"graphics": 1, "sm": 2, "tensor": 5, "dram": 10, "fp64": 11, "fp32": 12}


def bf16(*shape):
    return torch.randn(*shape, device="cuda").bfloat16()


def product(n, dtype, tf32=False):
    def make():
        a, b = (torch.randn(n, n, device="cuda").to(dtype) for _ in range(2))
        out = torch.empty_like(a)

        def step():
            torch.backends.cuda.matmul.allow_tf32 = tf32
            torch.mm(a, b, out=out)

        return step

    return make


def copy():
    source = torch.randn(2**28, device="cuda")
    target = torch.empty_like(source)
    return lambda: target.copy_(source)


def chain():
    """Five elementwise operators in one generated kernel."""
    x, y, z = bf16(16384, 8192), bf16(16384, 8192), bf16(8192)
    fused = torch.compile(lambda x, y, z: torch.tanh(x * y + z) * torch.sigmoid(x))
    return lambda: fused(x, y, z)


def embedding_bag():
    weight = torch.randn(2_000_000, 256, device="cuda")
    index = torch.randint(0, len(weight), (65536, 16), device="cuda")
    return lambda: F.embedding_bag(index, weight, mode="sum")


def layer_norm():
    x, norm = torch.randn(131072, 1024, device="cuda"), nn.LayerNorm(1024).cuda()

    def step():
        with torch.no_grad():
            norm(x)

    return step


def softmax():
    x = torch.randn(8, 32, 2048, 2048, device="cuda")
    return lambda: F.softmax(x, -1)


def decode(batch=256, heads=32, width=64, length=1024):
    q, k, v = bf16(batch, heads, 1, width), bf16(batch, heads, length, width), bf16(batch, heads, length, width)
    return lambda: F.scaled_dot_product_attention(q, k, v)


def prefill():
    q, k, v = (bf16(4, 32, 8192, 128) for _ in range(3))
    return lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True)


def convolution():
    x = bf16(128, 256, 56, 56).to(memory_format=torch.channels_last)
    conv = nn.Conv2d(256, 256, 3, padding=1, bias=False).cuda().bfloat16().to(memory_format=torch.channels_last)

    def step():
        with torch.no_grad():
            conv(x)

    return step


def adam():
    weights = [torch.randn(4096, 4096, device="cuda", requires_grad=True) for _ in range(8)]
    for weight in weights:
        weight.grad = torch.randn_like(weight)
    return torch.optim.AdamW(weights, fused=True).step


def small():
    """A chain of tiny kernels. The host cannot launch them as fast as they end: see `replayed`."""
    x = torch.randn(2048, device="cuda")

    def step():
        for _ in range(200):
            x.mul_(0.999)

    return step


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.n1, self.n2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (y.view(b, t, self.heads, -1).transpose(1, 2) for y in self.qkv(self.n1(x)).split(c, 2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, c))
        return x + self.mlp(self.n2(x))


class GPT(nn.Module):
    def __init__(self, vocabulary=50304, width=1024, layers=12, heads=16, length=1024):
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)

    def forward(self, index, targets):
        x = self.tokens(index) + self.places.weight[: index.shape[1]]
        logits = self.head(self.norm(self.blocks(x)))
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.reshape(-1))


def training(compiled):
    def make(batch=32):
        model = GPT().cuda()
        run = torch.compile(model) if compiled else model
        optimizer = torch.optim.AdamW(model.parameters(), fused=True)
        index = torch.randint(0, 50000, (batch, 1025), device="cuda")

        def step():
            with torch.autocast("cuda", torch.bfloat16):
                loss = run(index[:, :-1], index[:, 1:])
            loss.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)

        return step

    return make


WORKLOADS = {
    "matmul_bf16": product(8192, torch.bfloat16),
    "matmul_bf16_4096": product(4096, torch.bfloat16),
    "matmul_bf16_16384": product(16384, torch.bfloat16),
    "matmul_fp32": product(8192, torch.float32),
    "matmul_tf32": product(8192, torch.float32, tf32=True),
    "copy": copy,
    "elementwise_chain": chain,
    "embedding_bag": embedding_bag,
    "layer_norm": layer_norm,
    "softmax": softmax,
    "decode_attention": decode,
    "prefill_attention": prefill,
    "convolution": convolution,
    "adamw": adam,
    "small_kernels": small,
    "gpt_eager": training(False),
    "gpt_compiled": training(True),
}
FEW_STEPS = ("gpt_eager", "gpt_compiled", "small_kernels")


class Counters:
    """The GPU's hardware counters (NVML GPM) and clocks."""

    def __init__(self):
        nvml.nvmlInit()
        self.device = nvml.nvmlDeviceGetHandleByIndex(0)

    def sample(self):
        found = nvml.nvmlGpmSampleAlloc()
        nvml.nvmlGpmSampleGet(self.device, found)
        return found

    def between(self, first, last):
        """Percent of each metric between two samples."""
        asked = nvml.c_nvmlGpmMetricsGet_t()
        asked.version, asked.numMetrics = nvml.NVML_GPM_METRICS_GET_VERSION, len(METRICS)
        asked.sample1, asked.sample2 = first, last
        for place, metric in enumerate(METRICS.values()):
            asked.metrics[place].metricId = metric
        nvml.nvmlGpmMetricsGet(asked)
        for one in (first, last):
            nvml.nvmlGpmSampleFree(one)
        return {name: asked.metrics[place].value for place, name in enumerate(METRICS)}

    def clock_mhz(self):
        return nvml.nvmlDeviceGetClockInfo(self.device, nvml.NVML_CLOCK_SM)


def measured(counters, step):
    """One run: seconds and counters of a step, and the SM clock meanwhile."""
    clocks, done = [], threading.Event()

    def watch():
        while not done.wait(0.02):
            clocks.append(counters.clock_mhz())

    until = time.perf_counter() + 0.3
    while time.perf_counter() < until:
        step()
        torch.cuda.synchronize()
    watcher = threading.Thread(target=watch)
    watcher.start()
    torch.cuda.synchronize()
    first, start, steps, events = counters.sample(), time.perf_counter(), 0, []
    while time.perf_counter() - start < SECONDS:
        step()
        steps += 1
        events.append(torch.cuda.Event())
        events[-1].record()
        if len(events) > AHEAD:
            events.pop(0).synchronize()
    torch.cuda.synchronize()
    last, seconds = counters.sample(), time.perf_counter() - start
    done.set()
    watcher.join()
    found = counters.between(first, last)
    return {"step_s": seconds / steps, "steps": steps, "sm_mhz": statistics.fmean(clocks), **found}


def replayed(step):
    """The step as a CUDA graph, so that its kernels follow each other without the host."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def recorded(step, path, steps):
    with profile(
        activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA],
        record_shapes=True,
        schedule=schedule(wait=1, warmup=2, active=steps, repeat=1),
    ) as found:
        for _ in range(3 + steps):
            step()
            torch.cuda.synchronize()  # no step's kernels run into the next one's recording
            found.step()
    found.export_chrome_trace(path[:-3])
    with open(path[:-3], "rb") as raw, gzip.open(path, "wb", 9) as packed:
        shutil.copyfileobj(raw, packed)
    os.remove(path[:-3])


def main(out, names):
    os.makedirs(out, exist_ok=True)
    counters = Counters()
    torch.manual_seed(0)
    result = {"device": torch.cuda.get_device_name(), "torch": torch.__version__, "workloads": {}}
    result["sm_count"] = torch.cuda.get_device_properties(0).multi_processor_count
    result["driver"] = nvml.nvmlSystemGetDriverVersion()
    for name in names:
        step = WORKLOADS[name]()
        for _ in range(3):
            step()
        torch.cuda.synchronize()
        run = replayed(step) if name == "small_kernels" else step
        runs = [measured(counters, run) for _ in range(REPEATS)]
        result["workloads"][name] = runs
        recorded(step, f"{out}/{name}.json.gz", 2 if name in FEW_STEPS else 4)
        print(name, {key: round(statistics.median(r[key] for r in runs), 6) for key in runs[0]}, flush=True)
        del step, run
        torch._dynamo.reset()
        torch.cuda.empty_cache()
        with open(f"{out}/counters.json", "w") as file:
            json.dump(result, file, indent=1)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:] or list(WORKLOADS))
