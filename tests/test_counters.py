"""Work, traffic and bounds from recorded shapes agree with the hardware's counters (benchmarks/counters.py, H200).

The counters are NVML's: percent of the memory's bandwidth, and of the cycles in which tensor cores or fp32 units work.
"""

from __future__ import annotations

import json
import statistics
from pathlib import Path

import pytest

import gpuwhy

DATA = Path(__file__).parent / "data" / "counters"
RECORDED = json.loads((DATA / "counters.json").read_text())
WORKLOADS: dict[str, dict[str, float]] = {
    name: {key: statistics.median(run[key] for run in runs) for key in runs[0]}
    for name, runs in RECORDED["workloads"].items()
}
BANDWIDTH = 4.8e12
"""Of an H200, by its data sheet: what the counter's percents are of."""
FLOPS_A_CLOCK = {"matmul_tf32": 2048, "matmul_fp32": 256}
"""Of one SM, dense (Hopper white paper); others multiply in bfloat16: 4096."""
PRODUCTS = (
    *("matmul_bf16", "matmul_bf16_4096", "matmul_bf16_16384", "matmul_tf32", "convolution", "prefill_attention"),
    *("gpt_eager", "gpt_compiled"),
)
"""Dominated by products: FLOPs are what keeps the tensor cores busy. In decoding they are not."""
ALIKE = 0.15
SEEN_ABOVE = 10.0
"""Percent: below, the counter's own noise and other traffic weigh too much."""


def a_step(name: str) -> tuple[float, float, str]:
    """FLOPs and bytes through the memory of one step, and what bounds most of it."""
    report = gpuwhy.explain(str(DATA / f"{name}.json.gz"))
    found = report.devices[0].roofline
    assert found is not None
    assert found.known_share > 0.99
    main = max(found.accounts, key=lambda account: account.ns)
    return found.flops / report.step.count, found.dram_bytes / report.step.count, main.bound


@pytest.mark.parametrize("name", sorted(WORKLOADS))
def test_bytes_are_what_the_memory_moved(name: str) -> None:
    counted = WORKLOADS[name]
    percent = 100 * a_step(name)[1] / counted["step_s"] / BANDWIDTH
    if counted["dram"] > SEEN_ABOVE:
        assert percent == pytest.approx(counted["dram"], rel=ALIKE)
    else:
        assert percent < SEEN_ABOVE


@pytest.mark.parametrize("name", PRODUCTS)
def test_flops_are_what_the_tensor_cores_did(name: str) -> None:
    counted = WORKLOADS[name]
    peak = RECORDED["sm_count"] * FLOPS_A_CLOCK.get(name, 4096) * counted["sm_mhz"] * 1e6
    assert 100 * a_step(name)[0] / counted["step_s"] / peak == pytest.approx(counted["tensor"], rel=ALIKE)


def test_flops_in_fp32_are_what_its_own_units_did() -> None:
    """Without tensor cores: 128 multiply–adds a clock and SM."""
    counted = WORKLOADS["matmul_fp32"]
    peak = RECORDED["sm_count"] * FLOPS_A_CLOCK["matmul_fp32"] * counted["sm_mhz"] * 1e6
    assert counted["tensor"] < 0.1
    assert 100 * a_step("matmul_fp32")[0] / counted["step_s"] / peak == pytest.approx(counted["fp32"], rel=0.02)


@pytest.mark.parametrize("name", sorted(set(WORKLOADS) - {"gpt_eager", "gpt_compiled"}))
def test_bounds_are_what_the_counters_show(name: str) -> None:
    counted, bound = WORKLOADS[name], a_step(name)[2]
    computing = max(counted["tensor"], counted["fp32"]) > 50
    moving = counted["dram"] > 50
    assert bound in ("compute", "memory", "latency", "kernel")
    assert (bound == "compute") == (computing and not moving)
    assert (bound == "memory") == moving


def test_small_kernels_are_bound_by_latency_and_random_rows_by_their_kernel() -> None:
    assert a_step("small_kernels")[2] == "latency"
    assert a_step("embedding_bag")[2] == "kernel"
    assert a_step("decode_attention")[2] == "memory"
