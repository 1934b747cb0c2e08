"""Work of operations, borrowing, captures, efficiency and bounds (docs/roofline.md) on small profiles.

The device is an H200 at its published peaks unless a test says otherwise: 989.4 TFLOP/s in bf16, 494.7 in TF32, 66.9 in
fp32 and 4.8 TB/s. Times are ns; expected numbers were worked out from the definitions, beside each test.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from events import MAIN, Profile, Script
from hypothesis import example, given, settings
from hypothesis import strategies as st
from judging import judged

import gpuwhy
from gpuwhy.reports.json import encode
from gpuwhy.roofline.ceilings import Ceilings, save
from gpuwhy.roofline.work import work_of_operations

SCHEMA = Path(__file__).parents[1] / "docs" / "report.schema.json"
BF16, HALF, FLOAT, DOUBLE, FP8 = "c10::BFloat16", "c10::Half", "float", "double", "c10::Float8_e4m3fn"
MEMORY = 4.8e12
PEAK = {BF16: 989.4e12, HALF: 989.4e12, FLOAT: 66.9e12, DOUBLE: 66.9e12}
BACKWARD = 101


def mm(m: int, k: int, n: int, kind: str = BF16) -> list[Any]:
    return [(kind, [m, k]), (kind, [k, n])]


def add(count: int, kind: str = FLOAT) -> list[Any]:
    """Three times its bytes move: two are read, one is written."""
    return [(kind, [count]), (kind, [count]), ("Scalar", "1")]


FLOPS = 2 * 4096 * 8192 * 1024
BYTES = (4096 * 1024 + 1024 * 8192 + 4096 * 8192) * 2
LARGE = mm(4096, 1024, 8192)
"""At the ceilings its FLOPs take 69,456 ns, its bytes 19,224."""

# --- One product --------------------------------------------------------------------------------------------


def test_a_product_has_its_flops_bytes_and_share_of_the_peak(folder: Path) -> None:
    found = judged(Script().call("aten::mm", LARGE, 100_000), folder)
    assert (found.flops, found.bytes, found.known_share) == (FLOPS, BYTES, 1)
    assert found.efficiency == pytest.approx(FLOPS / 989.4e12 / 100e-6)
    assert found.efficiency == pytest.approx(0.69456, abs=1e-5)
    assert found.mfu == pytest.approx(found.efficiency)
    assert found.mbu == pytest.approx(BYTES / 4.8e12 / 100e-6)
    assert found.tensor_core_share == 1
    assert found.peaks is not None
    assert (found.peaks.precision, found.peaks.flops_per_s, found.peaks.dram_bytes_per_s) == ("bf16", 989.4e12, 4.8e12)
    (operator,) = found.operators
    assert (operator.name, operator.calls, operator.ns, operator.share) == ("aten::mm", 1, 100_000, 1)
    assert (operator.precision, operator.bound) == ("bf16", "compute")
    assert json.loads(operator.dims) == [[4096, 1024], [1024, 8192]]
    assert operator.flops_per_s == pytest.approx(FLOPS / 100e-6)
    assert operator.bytes_per_s == pytest.approx(BYTES / 100e-6)
    (account,) = found.accounts
    assert (account.account, account.ns, account.known_ns) == ("busy/matmul", 100_000, 100_000)
    assert account.bounds == {"compute": 100_000}
    assert not found.unknown
    assert found.advice is None


def test_kernels_of_one_call_share_its_work_by_their_time(folder: Path) -> None:
    profile = Script().call("aten::mm", LARGE, 60_000, 20_000).profile
    work = work_of_operations(gpuwhy.load(str(profile.write(folder / "profile.json"))))
    assert work.flops.tolist() == [FLOPS * 3 / 4, FLOPS / 4]
    assert (work.read + work.written).tolist() == [BYTES * 3 / 4, BYTES / 4]
    found = judged(profile, folder)
    assert (found.flops, found.bytes, found.operators[0].calls) == (FLOPS, BYTES, 1)
    assert found.efficiency == pytest.approx(FLOPS / 989.4e12 / 80e-6)  # it is the call that is judged


def test_calls_with_the_same_shapes_are_one_operator_others_another(folder: Path) -> None:
    script = Script().call("aten::mm", LARGE, 100_000).call("aten::mm", LARGE, 140_000)
    found = judged(script.call("aten::mm", mm(4096, 1024, 4096), 60_000), folder)
    assert found.flops == 2.5 * FLOPS
    first, second = found.operators
    assert (first.calls, first.ns, second.calls, second.ns) == (2, 240_000, 1, 60_000)
    assert first.efficiency == pytest.approx(2 * FLOPS / 989.4e12 / 240e-6)
    assert second.efficiency == pytest.approx(FLOPS / 2 / 989.4e12 / 60e-6)
    assert found.efficiency == pytest.approx(2.5 * FLOPS / 989.4e12 / 300e-6)


def test_the_innermost_operator_with_a_formula_decides(folder: Path) -> None:
    """A linear layer calls a product; around it and inside it are operators without formula."""
    p = Profile()
    p.operator("mylib::block", 0, 100, inputs=[(BF16, [1, 1])])
    p.operator("aten::linear", 10, 90, inputs=[(BF16, [8, 16]), (BF16, [8, 16]), None])
    p.operator("aten::mm", 20, 80, inputs=LARGE)
    p.operator("mylib::launcher", 30, 70, inputs=[(BF16, [7, 7])])
    p.launch(40, 50, 1000, 101_000)
    found = judged(p, folder)
    assert (found.flops, found.operators[0].name) == (FLOPS, "aten::mm")


def test_operators_that_ended_or_are_on_another_thread_do_not_count(folder: Path) -> None:
    """Autograd's thread launches, while the main thread has an operator open."""
    p = Profile()
    p.operator("aten::bmm", 0, 1000, inputs=[(BF16, [2, 2, 2]), (BF16, [2, 2, 2])])
    p.operator("autograd::engine::evaluate_function: MmBackward0", 0, 900, BACKWARD)
    p.operator("aten::mm", 10, 20, BACKWARD, inputs=mm(2, 2, 2))
    p.operator("aten::mm", 20, 100, BACKWARD, inputs=LARGE)
    p.launch(30, 40, 1000, 101_000, thread=BACKWARD)
    found = judged(p, folder)
    assert (found.flops, [one.name for one in found.operators]) == (FLOPS, ["aten::mm"])


def test_a_window_has_the_part_of_the_work_that_it_holds(folder: Path) -> None:
    """A kernel of 100 µs, of which the window holds 25, and one of 50 µs."""
    script = Script().call("aten::mm", LARGE, 100_000).call("aten::mm", LARGE, 50_000)
    found = judged(script, folder, window=(1_075_000, 1_150_000))
    assert found.flops == pytest.approx(1.25 * FLOPS)
    assert found.bytes == pytest.approx(1.25 * BYTES)
    assert found.mfu == pytest.approx(1.25 * FLOPS / 989.4e12 / 75e-6)
    # Of the second one it is more than the device can do, and counts as its own time.
    assert found.efficiency == pytest.approx((0.25 * FLOPS / 989.4e12 * 1e9 + 50_000) / 75_000)


def test_what_two_streams_do_at_once_is_all_work_of_the_window(folder: Path) -> None:
    """Two products side by side."""
    script = Script().call("aten::mm", LARGE, 200_000).call("aten::mm", LARGE, 200_000, stream=9)
    found = judged(script, folder)
    assert found.flops == 2 * FLOPS
    assert found.mfu == pytest.approx(2 * FLOPS / 989.4e12 / 200e-6)


def test_figures_are_told_for_a_step_and_for_a_sample(folder: Path) -> None:
    p = Profile()
    for step in range(6):
        at = step * 100_000
        p.step(step, at, at + 100_000)
        p.operator("aten::mm", at + 10, at + 1000, inputs=LARGE)
        p.launch(at + 20, at + 30, at + 5_000, at + 95_000)
    found = judged(p, folder, window=None, samples=32)
    assert found.flops_per_step == pytest.approx(FLOPS)
    assert found.flops_per_sample == pytest.approx(FLOPS / 32)
    assert found.bytes_per_sample == pytest.approx(BYTES / 32)
    assert found.mfu == pytest.approx(FLOPS / 989.4e12 / 100e-6)  # of the window, with what is idle
    without = judged(p, folder, window=None)
    assert (without.flops_per_sample, without.bytes_per_sample) == (None, None)


def test_tensor_cores_and_the_peak_are_of_the_precision_of_most_flops(folder: Path) -> None:
    """100 µs of bf16, 50 of fp32 without tensor cores, 50 of a sum."""
    small = 2 * 512 * 512 * 512
    script = Script().call("aten::mm", LARGE, 100_000)
    script.call("aten::mm", mm(512, 512, 512, FLOAT), 50_000, kernel="ampere_sgemm_128x64_tn")
    found = judged(script.call("aten::add", add(1 << 22), 50_000), folder)
    assert found.tensor_core_share == 0.5
    assert found.peaks is not None
    assert found.peaks.precision == "bf16"
    assert found.mfu == pytest.approx((FLOPS + small) / 989.4e12 / 200e-6)


def test_mfu_and_mbu_need_the_work_of_half_of_the_busy_time(folder: Path) -> None:
    for unknown, told in ((100_000, True), (100_002, False)):
        script = Script().call("aten::mm", LARGE, 100_000).call("mylib::secret", LARGE, unknown, kernel="secret")
        found = judged(script, folder)
        assert (found.mfu is not None, found.mbu is not None) == (told, told)
        assert found.efficiency == pytest.approx(FLOPS / 989.4e12 / 100e-6)  # of what is known


# --- Bounds -------------------------------------------------------------------------------------------------

NORM = [(BF16, [64, 64, 64, 64]), *[(FLOAT, [64])] * 4, ("Bool", "True"), ("Scalar", "0.1"), ("Scalar", "1e-5")]
"""Statistics of 2^24 elements are a pass of their own: 33.5 MB are read, read again, and written, 7 µs each time."""

BOUNDS: dict[str, tuple[str, list[Any] | None, int, str]] = {
    # 69,456 ns of FLOPs are at least half of it
    "compute": ("aten::mm", LARGE, 138_000, "compute"),
    "far from its flops": ("aten::mm", LARGE, 140_000, "kernel"),
    # 48 MB take 10 µs
    "memory": ("aten::add", add(4_000_000), 19_990, "memory"),
    "far from its bytes": ("aten::add", add(4_000_000), 20_010, "kernel"),
    # 4,096 by 128 by 4,096: 4.34 µs of FLOPs, 7.43 µs of bytes
    "more bytes than flops": ("aten::mm", mm(4096, 128, 4096), 8_000, "memory"),
    "short": ("aten::add", add(1024), 2_000, "latency"),
    "as long as short is": ("aten::add", add(1024), 10_000, "latency"),
    "longer than short": ("aten::add", add(1024), 10_001, "kernel"),
    # 2.17 µs of FLOPs, with one block: a persistent kernel
    "short and well used": ("aten::mm", mm(1024, 1024, 1024), 4_000, "compute"),
    # 14.0 µs of bytes, 21.0 with the second pass
    "with its second pass": ("aten::native_batch_norm", NORM, 40_000, "memory"),
    "far with its second pass": ("aten::native_batch_norm", NORM, 43_000, "kernel"),
    "no shapes": ("aten::mm", None, 5_000, "unknown"),
    "no formula": ("mylib::secret", LARGE, 5_000, "unknown"),
}


@pytest.mark.parametrize("label", BOUNDS)
def test_bound(label: str, folder: Path) -> None:
    name, inputs, length, bound = BOUNDS[label]
    found = judged(Script().call(name, inputs, length).call("aten::add", add(1), 1, kernel="other"), folder)
    account = max(found.accounts, key=lambda one: one.ns)
    assert account.bound == bound
    assert account.bounds[bound] >= length


def test_second_passes_count_for_the_bound_and_not_for_the_efficiency(folder: Path) -> None:
    (account,) = judged(Script().call("aten::native_batch_norm", NORM, 40_000), folder).accounts
    pass_bytes, small = 2**24 * 2, 4 * 64 * 4 + 4 * 64 * 4
    assert account.bytes == 2 * pass_bytes + small
    assert account.dram_bytes == 3 * pass_bytes + small
    assert account.efficiency == pytest.approx(account.bytes / 4.8e12 / 40e-6)


def test_copies_over_the_link_are_bound_by_it_and_those_within_by_memory(folder: Path) -> None:
    p = Profile()
    kinds = [
        "HtoD (Pinned -> Device)",
        "DtoH (Device -> Pageable)",
        "DtoD (Device -> Device)",
        "PtoP (Device -> Device)",
    ]
    for place, kind in enumerate(kinds):
        call = p.runtime("cudaMemcpyAsync", place * 100, place * 100 + 50)
        p.copy(kind, 1000 + place * 10_000, 11_000 + place * 10_000, call, size=24_000_000)
    use = {one.account: one for one in judged(p, folder).accounts}
    for account in ("busy/copy/h2d_pinned", "busy/copy/d2h"):
        assert (use[account].bound, use[account].efficiency, use[account].bytes) == ("link", None, 24e6)
    assert use["busy/copy/p2p"].bound == "link"
    within = use["busy/copy/d2d"]
    assert (within.bound, within.bytes) == ("memory", 48e6)  # read and written
    assert within.efficiency == pytest.approx(1)


def test_a_memset_writes_and_an_untold_copy_is_unknown(folder: Path) -> None:
    p = Profile()
    p.memset(0, 10_000, p.runtime("cudaMemsetAsync", 0, 10), size=24_000_000)
    p.copy("HtoD (Pinned -> Device)", 10_000, 20_000, p.runtime("cudaMemcpyAsync", 20, 30), size=None)
    use = {one.account: one for one in judged(p, folder).accounts}
    assert use["busy/memset"].efficiency == pytest.approx(0.5)
    assert use["busy/copy/h2d_pinned"].bounds == {"unknown": 10_000}


# --- Traffic ------------------------------------------------------------------------------------------------


def dram(inputs: list[Any], kernel: str, folder: Path) -> float:
    return judged(Script().call("aten::mm", inputs, 1_000_000, kernel=kernel), folder).dram_bytes


def test_a_product_of_one_wave_reads_its_factors_once(folder: Path) -> None:
    """132 tiles of 128 × 128 are 2,162,688 elements: 1,024 × 2,112 of them."""
    kernel = "sm90_xmma_gemm_bf16bf16_bf16f32_tilesize128x128x64_kernel"
    once = (1024 * 4096 + 4096 * 2112 + 1024 * 2112) * 2
    assert dram(mm(1024, 4096, 2112), kernel, folder) == once
    assert dram(mm(1024, 4096, 2120), kernel, folder) > (1024 * 4096 + 4096 * 2120 + 1024 * 2120) * 2


@pytest.mark.parametrize(("tile", "elements"), [("128x128", 128 * 128), ("256x128", 256 * 128), ("64x64", 64 * 64)])
def test_a_large_product_reads_its_factors_for_every_wave(tile: str, elements: int, folder: Path) -> None:
    """2.6 · m · n · k / √A elements. A is a wave of 132 tiles, and somewhat more: what the cache holds."""
    kernel = f"sm90_xmma_gemm_bf16bf16_bf16f32_tilesize{tile}x64_kernel"
    size = 16384
    waves = 2.6 * size**3 / (132 * elements) ** 0.5 * 2
    written = size * size * 2
    found = dram(mm(size, size, size), kernel, folder)
    assert 0.9 * waves < found - written <= waves


@pytest.mark.parametrize("shape", [(8192, 8, 8192), (8, 8192, 8192), (65536, 1, 65536), (1, 1, 1)])
def test_traffic_is_never_less_than_each_element_once(shape: tuple[int, int, int], folder: Path) -> None:
    m, k, n = shape
    assert dram(mm(m, k, n), "gemm", folder) >= (m * k + k * n + m * n) * 2


# --- Precision ----------------------------------------------------------------------------------------------

SMALL_FLOPS = 2 * 4096**3  # 2.05 ms at the peak of fp32, 278 µs at that of TF32


@pytest.mark.parametrize(
    ("kernel", "length", "precision"),
    [
        ("ampere_sgemm_128x64_tn", 3_000_000, "fp32"),
        ("sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize128x128x8", 3_000_000, "fp32"),
        ("sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize128x128x32", 3_000_000, "tf32"),
        ("cutlass_80_tensorop_s1688gemm_128x128_16x5_nn_align4", 3_000_000, "tf32"),
        ("nvjet_sm90_sss_128x128", 3_000_000, "fp32"),  # its name does not say, and fp32 can be that fast
        ("nvjet_sm90_sss_128x128", 1_000_000, "tf32"),  # fp32 cannot
    ],
)
def test_tf32_is_told_by_the_kernels_name_or_by_its_speed(
    kernel: str, length: int, precision: str, folder: Path
) -> None:
    found = judged(Script().call("aten::mm", mm(4096, 4096, 4096, FLOAT), length, kernel=kernel), folder)
    peak = {"fp32": 66.9e12, "tf32": 494.7e12}[precision]
    assert found.operators[0].precision == precision
    assert found.efficiency == pytest.approx(SMALL_FLOPS / peak / length * 1e9)
    assert found.tensor_core_share == (precision == "tf32")


def test_fp64_products_are_held_to_the_faster_units(folder: Path) -> None:
    """33.5 TFLOP/s of vector units, 66.9 of tensor cores."""
    found = judged(Script().call("aten::mm", mm(1024, 1024, 1024, DOUBLE), 64_000), folder)
    assert found.operators[0].precision == "fp64"
    assert found.efficiency == pytest.approx(2 * 1024**3 / 66.9e12 / 64e-6)


# --- Ceilings -----------------------------------------------------------------------------------------------


def test_published_ceilings_are_those_of_the_device_by_its_name(folder: Path) -> None:
    profile = Profile(gpu="AMD Instinct MI300X", sm_count=304)
    found = judged(Script(profile).call("aten::mm", LARGE, 100_000, kernel="Cijk_Ailk_Bljk_BBS_MT256x256x64"), folder)
    assert found.ceilings is not None
    assert found.ceilings.how == "published"
    assert "MI300X" in found.ceilings.source
    assert found.efficiency == pytest.approx(FLOPS / 1307.4e12 / 100e-6)
    assert found.mbu == pytest.approx(BYTES / 5.325e12 / 100e-6)


@pytest.mark.parametrize(
    ("gpu", "sm_count"),
    [(None, 132), ("Some Other Device", 132), ("NVIDIA H200", 16), ("NVIDIA H200 MIG 1g.18gb", 16)],
)
def test_without_ceilings_there_is_work_and_no_percentage(gpu: str | None, sm_count: int, folder: Path) -> None:
    script = Script(Profile(gpu=gpu, sm_count=sm_count)).call("aten::mm", LARGE, 100_000)
    found = judged(script.call("aten::mm", mm(512, 512, 512, FLOAT), 100_000, kernel="sgemm"), folder)
    assert (found.ceilings, found.efficiency, found.mfu, found.mbu, found.peaks) == (None,) * 5
    assert found.flops == FLOPS + 2 * 512**3
    assert found.bytes == BYTES + 3 * 512 * 512 * 4
    assert {one.bound for one in found.accounts} == {"unknown"}
    assert found.known_share == 0
    assert found.advice is not None
    assert "gpuwhy ceilings" in found.advice
    assert not [waste for waste in found.wastes if waste.cause in ("precision", "shape", "device_latency")]


def test_a_measurement_of_the_device_is_used_and_named(
    monkeypatch: pytest.MonkeyPatch, folder: Path, tmp_path: Path
) -> None:
    """MFU and MBU stay over the published peaks."""
    measured: dict[str, Any] = {"how": "measured", "l2_bytes": None, "l2_bytes_per_s": None}
    with monkeypatch.context() as patch:
        patch.setenv("GPUWHY_CACHE", str(tmp_path))
        for sm_count, rate, source in ((132, 700e12, "measured here"), (16, 90e12, "measured on a slice")):
            flops = {"bf16": rate}
            save(
                Ceilings(
                    device="NVIDIA H200",
                    sm_count=sm_count,
                    flops=flops,
                    dram_bytes_per_s=4e12,
                    source=source,
                    **measured,
                )
            )
        found = judged(Script().call("aten::mm", LARGE, 100_000), folder)
        slice_ = judged(Script(Profile(sm_count=16)).call("aten::mm", LARGE, 800_000), folder)
    assert found.ceilings is not None
    assert (found.ceilings.how, found.ceilings.source) == ("measured", "measured here")
    assert found.efficiency == pytest.approx(FLOPS / 700e12 / 100e-6)
    assert found.mfu == pytest.approx(FLOPS / 989.4e12 / 100e-6)
    assert found.mbu == pytest.approx(BYTES / 4.8e12 / 100e-6)
    assert slice_.ceilings is not None
    assert slice_.ceilings.source == "measured on a slice"
    assert slice_.efficiency == pytest.approx(FLOPS / 90e12 / 800e-6)


# --- What is unknown, and why -------------------------------------------------------------------------------


def test_a_file_without_shapes_says_how_to_record_them(folder: Path) -> None:
    script = Script().call("aten::mm", None, 100_000, kernel="sgemm").call("aten::add", None, 50_000)
    found = judged(script, folder)
    assert found.advice is not None
    assert "record_shapes" in found.advice
    assert (found.efficiency, found.mfu, found.mbu, found.known_share) == (None, None, None, 0)
    assert not any(waste.worth for waste in found.wastes)
    assert sum(one.ns for one in found.unknown) == 150_000


def test_every_unknown_nanosecond_has_a_reason(folder: Path) -> None:
    p = Profile()
    script = Script(p).call("aten::mm", LARGE, 80_000).call("aten::mm", None, 1_000)
    script.call("mylib::secret", LARGE, 2_000).call("aten::_fused_adamw_", [("TensorList", [])] * 6, 3_000)
    script.call("aten::_scaled_mm", [(FP8, [16, 16]), (FP8, [16, 16])], 0)
    at = 1_086_000
    p.launch(9_000, 9_010, at, at + 4_000, name="mine")
    p.kernel("early", at + 4_000, at + 9_000, None)
    p.operator("nccl:all_reduce", 9_100, 9_200)
    nccl = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"
    p.launch(9_110, 9_120, at + 9_000, at + 15_000, name=nccl, call="cudaLaunchKernelExC", stream=9)
    found = judged(p, folder)
    reasons = {
        1_000: "shapes not recorded",
        2_000: "mylib::secret",
        3_000: "aten::_fused_adamw_",
        4_000: "no operator",
        5_000: "launch not recorded",
        6_000: "collective",
    }
    assert {one.ns for one in found.unknown} == set(reasons)
    for one in found.unknown:
        assert reasons[one.ns] in one.why
        assert one.share == pytest.approx(one.ns / 101_000)
    assert [one.ns for one in found.unknown] == [6_000, 5_000, 4_000, 3_000, 2_000, 1_000]
    assert found.known_share == pytest.approx(80_000 / 101_000)


def test_a_precision_without_ceiling_is_unknown_and_named(folder: Path) -> None:
    """A V100 has no bf16."""
    profile = Profile(gpu="Tesla V100-SXM2-16GB", sm_count=80)
    found = judged(Script(profile).call("aten::mm", LARGE, 100_000).call("aten::add", add(1 << 22), 100_000), folder)
    use = {one.account: one for one in found.accounts}
    assert (use["busy/matmul"].efficiency, use["busy/matmul"].known_ns) == (None, 0)
    assert use["busy/matmul"].bounds == {"unknown": 100_000}
    assert found.flops == FLOPS
    (why,) = found.unknown
    assert "bf16" in why.why
    assert (why.ns, why.share) == (100_000, 0.5)
    assert found.efficiency == pytest.approx(3 * 4 * (1 << 22) / 900e9 / 100e-6)
    assert found.known_share == 0.5


def test_the_report_is_valid_json_by_its_schema_and_what_is_unknown_is_null(folder: Path) -> None:
    schema = json.loads(SCHEMA.read_text())
    unnamed = Script(Profile(gpu=None)).call("aten::mm", LARGE, 100_000).profile
    for profile in (unnamed, Script().call("aten::mm", LARGE, 100_000).profile):
        report = gpuwhy.explain(str(profile.write(folder / "profile.json")), window="all")
        document = json.loads(encode(report))
        jsonschema.validate(document, schema)
        part = document["devices"][0]["roofline"]
        named = profile is not unnamed
        for key in ("ceilings", "efficiency", "mfu", "mbu", "peaks"):
            assert (part[key] is not None) == named, key
        assert part["operators"][0]["efficiency"] is None or named
        assert part["flops_per_sample"] is None
        assert part["flops"] == FLOPS


# --- Work that is lent --------------------------------------------------------------------------------------


def lent(folder: Path, *works: list[Any], blocks: int = 132, kernel: str = "gemm", length: int = 110_000) -> float:
    """FLOPs that a kernel outside of operators has, beyond those of kernels `gemm` of 132 blocks in products."""
    script = Script()
    for inputs in works:
        script.call("aten::mm", inputs, 100_000, kernel="gemm", blocks=132)
    at = script.device.get(7, script.begin)
    script.profile.kernel(kernel, at, at + length, None, blocks=blocks)
    return judged(script, folder).flops - sum(2 * a[1][0] * a[1][1] * b[1][1] for a, b in works)


def test_the_same_kernel_with_the_same_blocks_lends_its_work(folder: Path) -> None:
    assert lent(folder, LARGE) == FLOPS
    assert lent(folder, LARGE, LARGE) == FLOPS


@pytest.mark.parametrize("other", [{"blocks": 131}, {"kernel": "gemv"}, {"length": 60_000}, {"length": 200_000}])
def test_other_kernels_grids_and_lengths_lend_nothing(other: dict[str, Any], folder: Path) -> None:
    assert lent(folder, LARGE, **other) == 0


def test_where_the_work_of_the_same_kernel_differs_none_is_lent(folder: Path) -> None:
    assert lent(folder, LARGE, mm(4096, 512, 8192)) == 0


def test_nothing_is_lent_to_a_launch_whose_operator_is_known(folder: Path) -> None:
    """Its launch tells what it does, only not how much: it is no replay, and not from before the recording."""
    script = Script().call("aten::mm", LARGE, 100_000).call("mylib::secret", LARGE, 100_000)
    assert judged(script, folder).flops == FLOPS


def test_lent_work_is_of_the_operator_that_lent_it(folder: Path) -> None:
    script = Script().call("aten::mm", LARGE, 100_000, blocks=132)
    script.profile.kernel("kernel", 1_100_000, 1_200_000, None, blocks=132)
    (operator,) = judged(script, folder).operators
    assert (operator.name, operator.calls, operator.ns) == ("aten::mm", 2, 200_000)
    assert operator.efficiency == pytest.approx(FLOPS / 989.4e12 / 100e-6)


# --- Graphs -------------------------------------------------------------------------------------------------

GEMM, ADD = (
    "sm90_xmma_gemm_bf16",
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>",
)
CAPTURED = [("aten::mm", LARGE), ("aten::add", add(1 << 22))]
REPLAYED = [(GEMM, 100_000), (ADD, 20_000)]


def graph(
    captured: list[Any], *replays: list[Any], captured_at: int = 0, ended: bool = True, backward: bool = False
) -> Profile:
    """A capture, and replays a millisecond apart; the kernels' blocks are as many as no other kernel has."""
    p = Profile()
    p.runtime("cudaStreamBeginCapture", captured_at, captured_at + 10)
    for place, (name, inputs) in enumerate(captured):
        at = captured_at + 100 * (place + 1)
        thread = BACKWARD if backward and place else MAIN
        p.operator(name, at, at + 90, thread, inputs=inputs)
        p.runtime("cudaLaunchKernel", at + 10, at + 20, thread=thread)
    if ended:
        p.runtime("cudaStreamEndCapture", captured_at + 900, captured_at + 910)
    for number, kernels in enumerate(replays):
        at = 1_000_000 * (number + 1)
        call = p.runtime("cudaGraphLaunch", at - 1000, at - 900)
        for place, (name, length) in enumerate(kernels):
            p.kernel(name, at, at + length, call, blocks=1000 + 10 * number + place)
            at += length
    return p


def test_each_replay_of_a_captured_graph_has_the_whole_work(folder: Path) -> None:
    found = judged(graph(CAPTURED, REPLAYED, REPLAYED), folder)
    assert found.flops == 2 * FLOPS
    assert found.bytes == 2 * (BYTES + 12 * (1 << 22))
    assert found.known_share == 1
    assert [(one.name, one.ns) for one in found.operators] == [("aten::mm", 200_000), ("aten::add", 40_000)]


def test_each_replay_of_an_operator_counts_as_a_call(folder: Path) -> None:
    assert [one.calls for one in judged(graph(CAPTURED, REPLAYED, REPLAYED), folder).operators] == [2, 2]


def test_kernels_of_one_captured_call_share_its_work_in_each_replay(folder: Path) -> None:
    """A product split along k: its operator launches twice."""
    p = Profile()
    p.runtime("cudaStreamBeginCapture", 0, 10)
    p.operator("aten::mm", 100, 200, inputs=LARGE)
    p.runtime("cudaLaunchKernel", 110, 120)
    p.runtime("cudaLaunchKernel", 130, 140)
    p.runtime("cudaStreamEndCapture", 900, 910)
    for at, length in ((10_000, 30_000), (200_000, 90_000)):
        call = p.runtime("cudaGraphLaunch", at - 1000, at - 900)
        p.kernel(GEMM, at, at + length, call, blocks=at)
        p.kernel("splitKreduce_kernel", at + length, at + length + 10_000, call, blocks=at)
    work = work_of_operations(gpuwhy.load(str(p.write(folder / "profile.json"))))
    assert work.flops.tolist() == pytest.approx([FLOPS * 0.75, FLOPS * 0.25, FLOPS * 0.9, FLOPS * 0.1])


def test_what_autograds_thread_launched_belongs_to_the_capture(folder: Path) -> None:
    """`torch.cuda.graph` around a step with its backward pass."""
    found = judged(graph([*CAPTURED, ("aten::mm", LARGE)], [*REPLAYED, (GEMM, 100_000)], backward=True), folder)
    assert found.flops == 2 * FLOPS


CONVOLUTION = [(BF16, [8, 8, 16, 16]), (BF16, [8, 8, 3, 3]), None]
DISAGREE: dict[str, Profile] = {
    "one kernel more": graph(CAPTURED, [*REPLAYED, (ADD, 20_000)]),
    "one kernel less": graph(CAPTURED, REPLAYED[:1]),
    "a product for a convolution": graph([("aten::cudnn_convolution", CONVOLUTION)], REPLAYED[:1]),
    "captured later": graph(CAPTURED, REPLAYED, captured_at=2_000_000),
    "not to its end": graph(CAPTURED, REPLAYED, ended=False),
}


@pytest.mark.parametrize("label", DISAGREE)
def test_a_replay_that_no_capture_agrees_with_is_unknown(label: str, folder: Path) -> None:
    found = judged(DISAGREE[label], folder)
    assert (found.flops, found.bytes, found.efficiency, found.known_share) == (0, 0, None, 0)
    (why,) = found.unknown
    assert "graph" in why.why


def test_a_replay_in_another_order_is_unknown(folder: Path) -> None:
    """A product's kernel where a sum was captured, and the other way around."""
    assert judged(graph(CAPTURED, REPLAYED[::-1]), folder).known_share == 0


def test_a_copy_where_a_kernel_was_captured_is_no_replay_of_it(folder: Path) -> None:
    p = graph(CAPTURED)
    call = p.runtime("cudaGraphLaunch", 10_000, 10_100)
    p.kernel(GEMM, 20_000, 120_000, call)
    p.copy("DtoD (Device -> Device)", 120_000, 130_000, call)
    assert judged(p, folder).flops == 0


def test_a_capture_that_another_thread_has_not_ended_is_none(folder: Path) -> None:
    p = Profile()
    p.runtime("cudaStreamBeginCapture", 0, 10, thread=BACKWARD)
    p.operator("aten::mm", 100, 200, BACKWARD, inputs=LARGE)
    p.runtime("cudaLaunchKernel", 110, 120, thread=BACKWARD)
    p.runtime("cudaStreamEndCapture", 900, 910)
    p.kernel(GEMM, 10_000, 110_000, p.runtime("cudaGraphLaunch", 1000, 1100))
    assert judged(p, folder).flops == 0


def test_the_latest_capture_that_agrees_is_the_one_that_is_replayed(folder: Path) -> None:
    p = graph([("aten::mm", mm(64, 64, 64))])
    p.runtime("cudaStreamBeginCapture", 2000, 2010)
    p.operator("aten::mm", 2100, 2200, inputs=LARGE)
    p.runtime("cudaLaunchKernel", 2110, 2120)
    p.runtime("cudaStreamEndCapture", 2900, 2910)
    p.kernel(GEMM, 10_000, 110_000, p.runtime("cudaGraphLaunch", 3000, 3100))
    assert judged(p, folder).flops == FLOPS


# --- Long lists ---------------------------------------------------------------------------------------------

ADAM = "void multi_tensor_apply_kernel<FusedOptimizerTensorListMetadata<4>, FusedAdamMathFunctor<float, 4>>"
LISTS = [*[("TensorList", [])] * 6, ("Scalar", "0.001"), *[("Scalar", "0.9")] * 4]
SIZES_OF_GRADIENTS = (100_000, 30_000)
"""Two blocks of 65,536 elements, and one."""
MOVED = 7 * 4 * 130_000
"""Of AdamW: parameter, gradient and two of state are read, parameter and state written."""


def optimized(blocks: tuple[int, ...], passes: int = 1, steps: int = 1, **of_profile: Any) -> Profile:
    """Steps of backward passes that accumulate two gradients each, and one call of a fused AdamW."""
    script = Script(Profile(**of_profile))
    for _ in range(steps):
        for _ in range(passes):
            for size in SIZES_OF_GRADIENTS:
                script.call("torch::autograd::AccumulateGrad", [(FLOAT, [size])], thread=BACKWARD)
        start = script.host + 10
        script.profile.operator("aten::_fused_adamw_", start, start + 1000, inputs=LISTS)
        for number, count in enumerate(blocks):
            at = script.device.get(7, script.begin)
            went = start + 10 + 20 * number
            script.profile.launch(went, went + 10, at, at + 10_000, name=ADAM, blocks=count)
            script.device[7] = at + 10_000
        script.host += 1100
    return script.profile


@pytest.mark.parametrize("blocks", [(3,), (2, 1), (1, 1, 1)])
def test_gradients_and_blocks_that_agree_tell_the_work_of_a_long_list(blocks: tuple[int, ...], folder: Path) -> None:
    found = judged(optimized(blocks), folder)
    assert found.bytes == pytest.approx(MOVED)
    assert found.known_share == 1


@pytest.mark.parametrize("blocks", [1, 2, 4, 5, 7])
def test_gradients_and_blocks_that_disagree_tell_nothing(blocks: int, folder: Path) -> None:
    found = judged(optimized((blocks,)), folder)
    assert (found.bytes, found.known_share) == (0, 0)


def test_gradients_of_several_backward_passes_are_of_the_same_parameters(folder: Path) -> None:
    assert judged(optimized((3,), passes=2), folder).bytes == pytest.approx(MOVED)
    assert judged(optimized((3,), passes=4, steps=3), folder).bytes == pytest.approx(3 * MOVED)


def test_no_gradients_tell_nothing(folder: Path) -> None:
    assert judged(optimized((3,), passes=0), folder).bytes == 0


def test_each_rank_has_gradients_of_its_own(folder: Path) -> None:
    """The second rank accumulates twice, at the same times."""
    paths = [str(optimized((3,), passes=rank + 1, rank=rank).write(folder / f"rank{rank}.json")) for rank in range(2)]
    devices = gpuwhy.explain(*paths, window="all").devices
    assert [one.rank for one in devices] == [0, 1]
    assert [one.roofline.bytes for one in devices if one.roofline] == pytest.approx([MOVED, MOVED])


# --- All profiles -------------------------------------------------------------------------------------------

SIZES = st.integers(1, 3000)
CALLS = st.lists(
    st.tuples(
        SIZES,
        SIZES,
        SIZES,
        st.sampled_from([BF16, HALF, FLOAT, DOUBLE]),
        st.lists(st.integers(1, 200_000), min_size=1, max_size=3),
        st.sampled_from(["aten::mm", "mylib::secret"]),
    ),
    min_size=1,
    max_size=8,
)


def scripted(calls: list[Any]) -> Script:
    script = Script()
    for number, (m, k, n, kind, lengths, name) in enumerate(calls):
        script.call(name, mm(m, k, n, kind), *lengths, kernel=f"sgemm_{number}")
    return script


@settings(max_examples=60)
@given(CALLS, st.floats(0, 1))
@example([(1, 1, 1, BF16, [2], "aten::mm")], 0.5)  # nothing starts in the second part
def test_the_parts_of_any_window_sum_to_the_work_of_its_calls(folder: Path, calls: list[Any], where: float) -> None:
    script = scripted(calls)
    timeline = gpuwhy.load(str(script.profile.write(folder / "any.json")))
    known = [call for call in calls if call[5] == "aten::mm"]
    size = {BF16: 2, HALF: 2, FLOAT: 4, DOUBLE: 8}
    flops = float(sum(2 * m * k * n for m, k, n, *_ in known))
    moved = float(sum((m * k + k * n + m * n) * size[kind] for m, k, n, kind, *_ in known))
    end = script.device[7]
    cut = script.begin + int(where * (end - script.begin))
    parts = [(script.begin, cut), (cut, end)]
    windows: list[Any] = [[("all")], [part for part in parts if part[0] < part[1]]]
    for some in windows:
        found = [gpuwhy.explain(timeline, window=window).devices[0].roofline for window in some]
        assert sum(one.flops for one in found if one) == pytest.approx(flops)
        assert sum(one.bytes for one in found if one) == pytest.approx(moved)
        assert sum(account.ns for one in found if one for account in one.accounts) == end - script.begin


@settings(max_examples=60)
@given(CALLS)
def test_bounds_partition_busy_time_and_no_efficiency_is_over_one(folder: Path, calls: list[Any]) -> None:
    script = scripted(calls)
    found = judged(script, folder)
    least = known_ns = 0.0
    for m, k, n, kind, lengths, name in calls:
        if name == "aten::mm":
            reachable = max(2 * m * k * n / PEAK[kind], (m * k + k * n + m * n) * _item(kind) / MEMORY) * 1e9
            too_fast = kind == FLOAT and 2 * m * k * n / sum(lengths) * 1e9 > 1.05 * PEAK[FLOAT]
            least += min(reachable, sum(lengths)) if not too_fast else 0
            known_ns += sum(lengths)
            if too_fast:  # TF32
                least += min(
                    max(2 * m * k * n / 494.7e12, (m * k + k * n + m * n) * 4 / MEMORY) * 1e9, float(sum(lengths))
                )
    for account in found.accounts:
        assert sum(account.bounds.values()) == account.ns
        assert account.efficiency is None or 0 <= account.efficiency <= 1
        assert account.dram_bytes >= account.bytes * (1 - 1e-9)
    assert sum(operator.share for operator in found.operators) == pytest.approx(
        known_ns / (script.device[7] - script.begin)
    )
    assert (found.efficiency is None) == (known_ns == 0)
    if found.efficiency is not None and not any(_near(call) for call in calls):
        assert found.efficiency == pytest.approx(least / known_ns, rel=1e-6)


def _item(kind: str) -> int:
    return {BF16: 2, HALF: 2, FLOAT: 4, DOUBLE: 8}[kind]


def _near(call: Any) -> bool:
    """Whether fp32 is so near to its peak that a tolerance decides whether it is TF32."""
    m, k, n, kind, lengths, _ = call
    return kind == FLOAT and 1 < 2 * m * k * n / sum(lengths) * 1e9 / PEAK[FLOAT] < 1.2
