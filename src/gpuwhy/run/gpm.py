"""A GPU's hardware counters through NVML's GPM (Hopper and newer): how much of its peak each part of it was used."""

from __future__ import annotations

import math
from typing import Any

LEAST_APART_NS = 100_000_000
"""NVML gives no metric between two samples that are closer. Source: nvml.h, nvmlGpmMetricsGet."""
MOST_FRACTION = 1.05
"""Counters are read one after the other, so that 1 may be passed by a little; beyond that it is no reading."""

FRACTIONS = {"sm": 2, "tensor": 5, "dram": 10}
"""In percent: SMs that were busy, any tensor operation, DRAM bandwidth. Source: nvml.h, nvmlGpmMetricId_t."""
RATES = {"pcie_tx": 20, "pcie_rx": 21, "nvlink_rx": 60, "nvlink_tx": 61}
"""In MiB/s, as the GPU sends (tx) and receives (rx). Same source."""
METRICS = FRACTIONS | RATES


class Gpm:
    """Two samples of one GPU's counters, taken in turns: nothing is allocated while a program is watched."""

    def __init__(self, nvml: Any, handle: Any, instance: int | None) -> None:
        """`instance`: the number of a MIG GPU instance of the device. NVML's error is raised where there is no GPM."""
        self.nvml, self.handle, self.instance = nvml, handle, instance
        self.taken_ns: int | None = None
        self.supported = bool(nvml.nvmlGpmQueryDeviceSupport(handle).isSupportedDevice)
        self.samples: list[Any] = []
        if not self.supported:
            return
        self.samples = [nvml.nvmlGpmSampleAlloc(), nvml.nvmlGpmSampleAlloc()]
        self.asked = nvml.c_nvmlGpmMetricsGet_t()
        self.asked.version, self.asked.numMetrics = nvml.NVML_GPM_METRICS_GET_VERSION, len(METRICS)
        for place, metric in enumerate(METRICS.values()):
            self.asked.metrics[place].metricId = metric

    def read(self, now_ns: int) -> dict[str, float]:
        """Fractions of peak and bytes/s since the last reading; empty at the first one and after less than 100 ms."""
        before = self.taken_ns
        if before is not None and now_ns - before < LEAST_APART_NS:
            return {}
        last, spare = self.samples
        if self.instance is None:
            self.nvml.nvmlGpmSampleGet(self.handle, spare)
        else:
            self.nvml.nvmlGpmMigSampleGet(self.handle, self.instance, spare)
        self.samples, self.taken_ns = [spare, last], now_ns
        if before is None:
            return {}
        self.asked.sample1, self.asked.sample2 = last, spare
        self.nvml.nvmlGpmMetricsGet(self.asked)
        answers = zip(METRICS, self.asked.metrics, strict=False)  # the array has room for all metrics that there are
        return {name: value for name, answer in answers if (value := _value(name, answer)) is not None}

    def close(self) -> None:
        """Give the samples back."""
        for sample in self.samples:
            self.nvml.nvmlGpmSampleFree(sample)
        self.samples = []


def _value(name: str, answer: Any) -> float | None:
    """A metric as fraction or bytes/s; None where this GPU has none, or what it has makes no sense."""
    value = float(answer.value)
    if answer.nvmlReturn != 0 or not math.isfinite(value) or value < 0:
        return None
    if name in RATES:
        return value * 2**20
    return min(value / 100, 1.0) if value / 100 <= MOST_FRACTION else None
