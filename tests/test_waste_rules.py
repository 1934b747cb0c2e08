"""The rules of docs/roofline.md for busy time that goes to the wrong thing.

Each is held to a small profile that fires it, and to some, as near as possible, that must not.

The device is an H200 at its published peaks (989.4 TFLOP/s in bf16 and fp16, 494.7 in TF32, 66.9 in fp32 and fp64, 4.8
TB/s) unless a test says otherwise. Times are ns.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from events import Profile, Script
from hypothesis import given, settings
from hypothesis import strategies as st
from judging import judged

import gpuwhy
from gpuwhy.reports.roofline_model import WasteInfo
from gpuwhy.roofline.ceilings import Ceilings, save

BF16, FLOAT, DOUBLE = "c10::BFloat16", "float", "double"
S, T = "Scalar", "TensorList"
BACKWARD = 101
SIMT, TENSOR, TF32 = "ampere_sgemm_128x64_tn", "nvjet_hsh_128x256_64x4", "sm90_xmma_gemm_f32f32_tf32f32_f32"


def wastes(of: Profile | Script, cause: str, folder: Path, window: Any = "all") -> list[WasteInfo]:
    return [waste for waste in judged(of, folder, window).wastes if waste.cause == cause]


def waste(of: Profile | Script, cause: str, folder: Path, window: Any = "all") -> WasteInfo:
    (one,) = wastes(of, cause, folder, window)
    return one


def mm(m: int, k: int, n: int, kind: str = BF16) -> list[Any]:
    return [(kind, [m, k]), (kind, [k, n])]


def two(*dims: int, kind: str = FLOAT) -> list[Any]:
    """The arguments of `mul`, `add` and so on."""
    return [(kind, list(dims)), (kind, list(dims))]


def cast(to: str, source: str, *dims: int) -> list[Any]:
    return [(to, list(dims)), (source, list(dims)), (S, "False")]


def names(one: WasteInfo) -> set[str]:
    return {operator.name for operator in one.operators}


# --- Precision ----------------------------------------------------------------------------------------------

CUBE = 2 * 4096**3


def product(kind: str, kernel: str, gpu: str = "NVIDIA H200", sm_count: int = 132, length: int = 3_000_000) -> Script:
    script = Script(Profile(gpu=gpu, sm_count=sm_count))
    return script.call("aten::mm", mm(4096, 4096, 4096, kind), length, kernel=kernel)


def test_fp32_products_could_be_bf16_ones(folder: Path) -> None:
    """138,911 ns of FLOPs in bf16; half of the bytes are 20,972 ns."""
    one = waste(product(FLOAT, SIMT), "precision", folder)
    assert one.worth
    assert "bfloat16" in one.mend
    assert (one.ns, one.share) == (3_000_000, 1)
    assert one.least_ns == int(CUBE / 989.4e12 * 1e9) == 138_911
    assert one.most_saved_share == pytest.approx(1 - 138_911 / 3_000_000)
    assert [(o.name, o.calls, o.ns) for o in one.operators] == [("aten::mm", 1, 3_000_000)]


def test_half_of_the_bytes_stay(folder: Path) -> None:
    """4,096 by 64 by 4,096: 2.2 µs of FLOPs, 69.2 MB in fp32, and 34.6 MB take 7,209 ns."""
    script = Script().call("aten::mm", mm(4096, 64, 4096, FLOAT), 100_000, kernel=SIMT)
    half = (2 * 4096 * 64 + 4096 * 4096) * 4 / 2
    assert waste(script, "precision", folder).least_ns == int(half / 4.8e12 * 1e9) == 7208


def test_a_window_has_its_part_of_what_could_be_saved(folder: Path) -> None:
    one = waste(product(FLOAT, SIMT), "precision", folder, window=(1_000_000, 1_750_000))
    assert (one.ns, one.share) == (750_000, 1)
    assert one.least_ns == pytest.approx(138_911 / 4, abs=1)


def test_tf32_products_could_be_bf16_ones(folder: Path) -> None:
    one = waste(product(FLOAT, TF32, length=500_000), "precision", folder)
    assert "tf32" in one.title
    assert "bfloat16" in one.mend
    assert one.least_ns == 138_911


@pytest.mark.parametrize(
    ("kind", "gpu", "sm_count", "word"),
    [
        (FLOAT, "Tesla T4", 40, "float16"),  # has no bf16
        (DOUBLE, "NVIDIA A10", 72, "float32"),  # 0.49 and 31.2 TFLOP/s
        (FLOAT, "AMD Instinct MI300X", 304, "bfloat16"),
    ],
)
def test_the_mend_is_what_the_device_does_fast(kind: str, gpu: str, sm_count: int, word: str, folder: Path) -> None:
    one = waste(product(kind, SIMT, gpu, sm_count, length=1_000_000_000), "precision", folder)
    assert word in one.mend


def test_no_mend_that_the_device_does_not_have(folder: Path) -> None:
    one = waste(product(FLOAT, "Cijk_SB", "AMD Instinct MI210", 104, length=30_000_000), "precision", folder)
    assert "TF32" not in one.mend


@pytest.mark.parametrize(
    "script",
    [
        product(BF16, TENSOR),
        product(DOUBLE, "sm90_dgemm_tensor"),  # an H200 does fp64 as fast as fp32
        product(DOUBLE, "dgemm", "NVIDIA A100-SXM4-80GB", 108, length=30_000_000),  # 19.5 of both
        product(FLOAT, SIMT, gpu="Some Other Device"),
        Script().call("aten::mul", two(1 << 24), 500_000),  # multiplies nothing in this sense
        Script().call("aten::mm", None, 3_000_000, kernel=SIMT),
    ],
    ids=["bf16", "fp64", "fp64 of an A100", "unknown device", "elementwise", "no shapes"],
)
def test_no_precision_is_blamed(script: Script, folder: Path) -> None:
    assert not wastes(script, "precision", folder)


@pytest.mark.parametrize(("bf16", "fires"), [(1.4, False), (1.6, True)])
def test_another_precision_must_be_half_as_fast_again(
    bf16: float, fires: bool, folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    rates: dict[str, Any] = {"flops": {"fp32": 60e12, "bf16": bf16 * 60e12}, "dram_bytes_per_s": 4e12}
    size: dict[str, Any] = {"sm_count": 132, "l2_bytes": None, "l2_bytes_per_s": None}
    with monkeypatch.context() as patch:
        patch.setenv("GPUWHY_CACHE", str(tmp_path))
        save(Ceilings(device="NVIDIA H200", how="measured", source="here", **rates, **size))
        assert len(wastes(product(FLOAT, SIMT), "precision", folder)) == fires


# --- Shape --------------------------------------------------------------------------------------------------

HEAD = mm(8192, 4096, 50257)
HEAD_NS = 2 * 8192 * 4096 * 50257 / 989.4e12 * 1e9  # 3,408,900
ALIGNED = mm(4096, 4096, 4096)  # 138,911 at the peak


def head(inputs: list[Any], share: float, aligned: float | None = 0.8, kernel: str = TENSOR) -> Script:
    """A product that reaches a share of what it could, and aligned ones that reach another."""
    m, k, n = *inputs[0][1], inputs[1][1][1]
    script = Script().call("aten::mm", inputs, int(2 * m * k * n / 989.4e12 * 1e9 / share), kernel=kernel)
    return script.call("aten::mm", ALIGNED, int(138_911 / aligned), kernel=TENSOR) if aligned else script


def test_a_vocabulary_off_the_grid_is_named_with_what_to_pad_it_to(folder: Path) -> None:
    one = waste(head(HEAD, 0.4), "shape", folder)
    assert one.worth
    assert "50257 to 50304" in one.mend
    assert one.ns == int(HEAD_NS / 0.4)
    assert one.least_ns == pytest.approx(HEAD_NS, abs=1)
    assert [operator.ns for operator in one.operators] == [one.ns]


def test_rows_of_either_factor_and_of_the_result_count(folder: Path) -> None:
    """In bf16 the rows must follow each other at multiples of eight elements."""
    result_only = [(BF16, [8192, 4096]), (BF16, [4096, 50257], [1, 4096])]
    assert "50304" in waste(head(result_only, 0.4), "shape", folder).mend
    first = mm(8192, 4100, 8192)
    assert "4160" in waste(head(first, 0.4), "shape", folder).mend
    second = [(BF16, [4096, 8192]), (BF16, [8192, 8192], [1, 8196])]
    assert "8196 to 8256" in waste(head(second, 0.4), "shape", folder).mend


def test_what_is_added_is_no_factor(folder: Path) -> None:
    factors = [(BF16, [8, 4096, 8192]), (BF16, [8, 8192, 8192], [8192 * 8196, 1, 8196])]
    script = Script().call("aten::baddbmm", [(BF16, [8, 4096, 8192]), *factors], 12_000_000, kernel=TENSOR)
    assert "8196 to 8256" in waste(script, "shape", folder).mend


@pytest.mark.parametrize(
    ("share", "aligned", "fires"),
    [
        (0.62, 0.8, True),  # below 0.8 of the others' 0.8
        (0.66, 0.8, False),
        (0.30, 0.4, True),
        (0.34, 0.4, False),
        (0.46, None, True),  # below 0.8 of 0.6
        (0.50, None, False),
    ],
)
def test_a_size_that_costs_nothing_is_not_blamed(
    share: float, aligned: float | None, fires: bool, folder: Path
) -> None:
    assert len(wastes(head(HEAD, share, aligned), "shape", folder)) == fires


PADDED = [(BF16, [4096, 50257], [50304, 1]), (BF16, [50257, 4096])]
"""What the padding leaves: rows that start on the grid."""


@pytest.mark.parametrize("inputs", [mm(8192, 4096, 50304), PADDED, mm(1111, 4096, 8192)])
def test_aligned_rows_are_never_blamed(inputs: list[Any], folder: Path) -> None:
    assert not wastes(head(inputs, 0.2), "shape", folder)


def test_products_without_tensor_cores_have_no_grid(folder: Path) -> None:
    odd = mm(4096, 4097, 4099, FLOAT)
    script = Script().call("aten::mm", odd, 20_000_000, kernel=SIMT)
    assert not wastes(script, "shape", folder)
    tf32 = Script().call("aten::mm", odd, 2_000_000, kernel=TF32)
    assert wastes(tf32, "shape", folder)
    assert not wastes(Script().call("aten::mm", mm(4096, 4100, 4100, FLOAT), 2_000_000, kernel=TF32), "shape", folder)


# --- Attention ----------------------------------------------------------------------------------------------

HEADS, LENGTH, WIDTH = 32, 1024, 64
QK = [(BF16, [HEADS, LENGTH, WIDTH]), (BF16, [HEADS, WIDTH, LENGTH], [LENGTH * WIDTH, 1, WIDTH])]
PV = [(BF16, [HEADS, LENGTH, LENGTH]), (BF16, [HEADS, LENGTH, WIDTH])]
SCORES = (BF16, [2, 16, LENGTH, LENGTH])
SOFTMAX = [SCORES, (S, "-1"), (S, "False")]
SCORE_BYTES, HEAD_BYTES = HEADS * LENGTH * LENGTH * 2, HEADS * LENGTH * WIDTH * 2


def written_out(softmax: list[Any] | None = None, product: str = "aten::bmm") -> Script:
    script = Script().call(product, QK, 40_000, kernel=TENSOR).call("aten::div", [SCORES, (S, "8.")], 50_000)
    script.call("aten::_softmax", softmax or SOFTMAX, 60_000)
    return script.call(product, PV, 40_000, kernel=TENSOR)


def test_attention_written_out_is_named_with_all_that_touches_the_scores(folder: Path) -> None:
    """2 · 32 · 1,024² · 64 · 2 FLOPs take 8,681 ns; queries, keys, values and output, 16.8 MB, take 3,495 ns."""
    one = waste(written_out(), "attention", folder)
    assert one.worth
    assert "scaled_dot_product_attention" in one.mend
    assert one.ns == 190_000
    assert names(one) == {"aten::bmm", "aten::div", "aten::_softmax"}
    assert one.least_ns == int(2 * 2 * HEADS * LENGTH**2 * WIDTH / 989.4e12 * 1e9) == 8681
    assert one.bytes == 6 * SCORE_BYTES + 4 * HEAD_BYTES
    assert one.least_bytes == pytest.approx(4 * HEAD_BYTES, abs=1)


def test_what_attention_has_is_in_no_chain(folder: Path) -> None:
    assert {one.cause for one in judged(written_out(), folder).wastes} == {"attention"}


def test_copies_of_heads_and_the_backward_pass_belong_to_attention(folder: Path) -> None:
    copied = cast(BF16, BF16, 2, 16, LENGTH, WIDTH)
    script = written_out().call("aten::copy_", copied, 10_000).call("aten::gelu", [(BF16, [2048, 4096])], 20_000)
    script.call("aten::_softmax_backward_data", [SCORES, SCORES, (S, "-1"), (S, "15")], 70_000)
    one = waste(script.call("aten::bmm", PV, 40_000, kernel=TENSOR), "attention", folder)
    assert one.ns == 190_000 + 10_000 + 70_000 + 40_000
    assert {"aten::copy_", "aten::_softmax_backward_data"} <= names(one)
    assert "aten::gelu" not in names(one)


def classifier(batch: list[int], classes: int) -> Script:
    rows = batch[0] * (batch[1] if len(batch) > 1 else 1)
    script = Script().call("aten::mm", mm(rows, 1024, classes), 200_000, kernel=TENSOR)
    return script.call("aten::_softmax", [(BF16, [*batch, classes]), (S, "-1"), (S, "False")], 200_000)


@pytest.mark.parametrize(
    "script",
    [
        classifier([4096], 1000),
        classifier([8, 1024], 50304),  # the logits of a language model: no batched product made them
        written_out([(BF16, [2, 16, LENGTH, 512]), (S, "-1"), (S, "False")]),  # of other scores
        written_out([(BF16, [HEADS * LENGTH, LENGTH]), (S, "-1"), (S, "False")], product="mylib::bmm"),
        Script().call("aten::bmm", QK, 40_000).call("aten::gelu", [SCORES], 60_000).call("aten::bmm", PV, 40_000),
        Script().call("aten::_scaled_dot_product_flash_attention", [(BF16, [2, 16, LENGTH, WIDTH])] * 3, 40_000),
    ],
    ids=["classifier", "logits", "other scores", "no batched product", "no softmax", "fused"],
)
def test_no_attention_is_seen(script: Script, folder: Path) -> None:
    assert not wastes(script, "attention", folder)


# --- Chains -------------------------------------------------------------------------------------------------

N = 1 << 24
ELEMENTWISE = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>"


def chain(*calls: tuple[Any, ...], **options: Any) -> Script:
    script = Script()
    for name, inputs, *more in calls:
        extra = more[0] if more else {}
        script.call(name, inputs, 50_000, **{"kernel": ELEMENTWISE, **options, **extra})
    return script


def test_a_chain_could_read_what_comes_from_outside_and_write_its_last_result(folder: Path) -> None:
    """Two operators of three passes each; alike tensors count as one: one is read and one written."""
    one = waste(chain(("aten::mul", two(N)), ("aten::add", two(N))), "elementwise", folder)
    assert one.worth
    assert "torch.compile" in one.mend
    assert (one.ns, one.bytes, one.least_bytes) == (100_000, 6 * 4 * N, 2 * 4 * N)
    assert one.least_ns == int(8 * N / 4.8e12 * 1e9)
    assert names(one) == {"aten::mul", "aten::add"}


def test_tensors_that_differ_count_each(folder: Path) -> None:
    """A row of numbers is added, and a mask of one byte an element multiplied."""
    row = [(FLOAT, [4096, 4096]), (FLOAT, [4096])]
    masked = [(FLOAT, [4096, 4096]), ("bool", [4096, 4096])]
    one = waste(chain(("aten::add", row), ("aten::mul", masked)), "elementwise", folder)
    assert one.least_bytes == 2 * 4 * N + 4096 * 4 + N


def test_what_a_cast_makes_does_not_come_from_outside(folder: Path) -> None:
    """2 bytes an element are read, 4 written."""
    steps = ("aten::copy_", cast(FLOAT, BF16, N)), ("aten::mul", [(FLOAT, [N]), (S, "2.")])
    assert waste(chain(*steps), "elementwise", folder).least_bytes == 6 * N


def test_the_result_of_a_sum_is_small(folder: Path) -> None:
    one = waste(chain(("aten::mul", two(N)), ("aten::sum", [(FLOAT, [N]), None])), "elementwise", folder)
    assert one.least_bytes == pytest.approx(4 * N, rel=0.01)


MUL, ADD = ("aten::mul", two(N)), ("aten::add", two(N))
THERE, BACK = ("aten::copy_", cast(BF16, FLOAT, N)), ("aten::copy_", cast(FLOAT, BF16, N))
PRODUCT = ("aten::mm", mm(1024, 1024, 1024), {"kernel": TENSOR})
NOT_CHAINS = {
    "one alone": chain(MUL),
    "a product between": chain(MUL, PRODUCT, ADD, PRODUCT),
    "an index between": chain(
        MUL, ("aten::embedding", [(FLOAT, [5000, 64]), ("long int", [N // 64])], {"kernel": "indexSelect"}), ADD
    ),
    "other streams": chain(MUL, (*ADD, {"stream": 9})),
    "taking turns with another stream": chain(MUL, (*ADD, {"stream": 9}), (*PRODUCT[:2], {"stream": 7})),
    "two kernels of one operator": Script().call("aten::add", two(N), 30_000, 30_000, kernel=ELEMENTWISE),
    "an optimizer's": chain(MUL, ADD, around=()),
    "generated": chain(
        ("triton_poi_fused_add_0", two(N), {"kernel": "triton_poi_fused_add_0"}),
        ("triton_poi_fused_mul_1", two(N), {"kernel": "triton_poi_fused_mul_1"}),
    ),
    "without shapes": chain(("aten::mul", None), ("aten::add", None)),
}
NOT_CHAINS["an optimizer's"].profile.annotation("Optimizer.step#SGD.step", -10, 100_000)


@pytest.mark.parametrize("label", NOT_CHAINS)
def test_no_chain_is_seen(label: str, folder: Path) -> None:
    assert not [one for one in wastes(NOT_CHAINS[label], "elementwise", folder) if "chain" in one.title]


def hidden(first: tuple[Any, ...], last: tuple[Any, ...]) -> Profile:
    """Two calls with a product between them on their stream. Another one, which started first, hides it."""
    p = Profile()
    spans = (
        (first, 7, 0, 50_000),
        (PRODUCT, 9, 49_000, 61_000),
        (PRODUCT, 7, 50_000, 60_000),
        (last, 7, 60_000, 110_000),
    )
    for number, (call, stream, start, end) in enumerate(spans):
        at = 1000 * number
        p.operator(call[0], at, at + 900, inputs=call[1])
        kernel = TENSOR if call is PRODUCT else ELEMENTWISE
        p.launch(at + 10, at + 20, 10_000 + start, 10_000 + end, name=kernel, stream=stream)
    return p


def test_a_product_that_another_stream_hides_still_ends_a_chain(folder: Path) -> None:
    assert not wastes(hidden(MUL, ADD), "elementwise", folder)


def test_a_cast_that_a_hidden_product_uses_is_not_undone(folder: Path) -> None:
    assert not [one for one in wastes(hidden(THERE, BACK), "elementwise", folder) if "undoes" in one.title]


def test_normalization_softmax_and_reductions_are_in_chains(folder: Path) -> None:
    norm = [(FLOAT, [4096, 4096]), ("ScalarList", "[4096]"), (FLOAT, [4096]), (FLOAT, [4096]), (S, "1e-5")]
    softmax = [(FLOAT, [4096, 4096]), (S, "-1"), (S, "False")]
    steps = ("aten::native_layer_norm", norm), ("aten::_softmax", softmax), ("aten::sum", [(FLOAT, [4096, 4096]), None])
    one = waste(chain(*steps), "elementwise", folder)
    assert (one.ns, len(one.operators)) == (150_000, 3)


# --- Casts there and back -----------------------------------------------------------------------------------


def test_a_cast_that_the_next_one_undoes_gives_nothing(folder: Path) -> None:
    one = waste(chain(PRODUCT, THERE, BACK, PRODUCT), "elementwise", folder)
    assert "undoes" in one.title
    assert (one.ns, one.least_ns) == (100_000, 0)
    assert "one type" in one.mend


@pytest.mark.parametrize(
    "script",
    [
        chain(THERE),
        chain(THERE, PRODUCT, BACK),
        chain(THERE, THERE),
        chain(THERE, ("aten::copy_", cast(FLOAT, BF16, N // 2))),
        chain(THERE, (*BACK, {"stream": 9})),
        chain(("aten::copy_", cast(FLOAT, FLOAT, N)), ("aten::copy_", cast(FLOAT, FLOAT, N))),
    ],
    ids=["one", "used between", "twice there", "another size", "other streams", "plain copies"],
)
def test_casts_that_are_used_are_not_undone(script: Script, folder: Path) -> None:
    assert not [one for one in wastes(script, "elementwise", folder) if "undoes" in one.title]


# --- Optimizers ---------------------------------------------------------------------------------------------

FOREACH = "multi_tensor_apply_kernel<TensorListMetadata<2>, BinaryOpListAlphaFunctor<float, 2, 1, 1>>"
PASSES = ("_foreach_mul_", "_foreach_lerp_", "_foreach_addcmul_", "_foreach_sqrt", "_foreach_div_", "_foreach_addcdiv_")
ARITY = {"_foreach_lerp_": 2, "_foreach_addcmul_": 3, "_foreach_div_": 2, "_foreach_addcdiv_": 3}


def optimizer(calls: list[tuple[str, list[Any]]], steps: int = 1, kernel: str = FOREACH) -> Script:
    script = Script()
    for step in range(steps):
        start = script.host
        for name, inputs in calls:
            script.call(f"aten::{name}", inputs, 60_000, kernel=kernel)
        script.profile.annotation("Optimizer.step#Adam.step", start, script.host)
        script.profile.step(step, start, script.host)
    return script


def lists(count: int) -> list[Any]:
    return [(T, [[N // 2], [N // 2]])] * count


def test_an_optimizer_of_many_passes_could_read_twice_and_write_once(folder: Path) -> None:
    """Passes of 2, 3, 4, 2, 3 and 4 times N floats."""
    one = waste(optimizer([(name, lists(ARITY.get(name, 1))) for name in PASSES]), "elementwise", folder)
    assert one.worth
    assert "fused=True" in one.mend
    assert (one.ns, one.bytes) == (360_000, 18 * 4 * N)
    assert one.least_bytes is not None
    assert one.least_bytes >= 3 * 4 * N  # parameters and gradients read, parameters written
    assert one.least_bytes <= 6 * 4 * N


FUSED = [("_fused_adamw_", [*lists(4), (T, []), (T, [[], []]), (S, "0.1")])]
ONE_PASS = ("_foreach_add_", lists(2))
SEVERAL = [("add_", two(1024 * size, 1024)) for size in range(2, 12)]
"""Ten parameters of different sizes."""


@pytest.mark.parametrize(
    "script",
    [
        optimizer(FUSED, kernel="multi_tensor_apply_kernel<FusedAdamMathFunctor<float, 4>>"),
        optimizer([ONE_PASS]),
        optimizer(SEVERAL),
    ],
    ids=["fused", "one pass", "one pass over each parameter"],
)
def test_an_optimizer_of_one_pass_is_not_blamed(script: Script, folder: Path) -> None:
    assert not wastes(script, "elementwise", folder)


def test_an_optimizer_of_one_pass_a_step_is_not_blamed(folder: Path) -> None:
    assert not wastes(optimizer([ONE_PASS], steps=6), "elementwise", folder, window=None)


def test_steps_count_in_a_window_of_everything_too(folder: Path) -> None:
    assert not wastes(optimizer([ONE_PASS], steps=6), "elementwise", folder)


def test_passes_of_several_steps_are_those_of_each(folder: Path) -> None:
    """Five steps are judged; each has two passes too few to be worth a fused one, or six."""
    assert not wastes(optimizer([ONE_PASS, ONE_PASS], steps=6), "elementwise", folder, window=None)
    script = optimizer([(name, lists(ARITY.get(name, 1))) for name in PASSES], steps=6)
    one = waste(script, "elementwise", folder, window=None)
    assert (one.ns, one.bytes) == (5 * 360_000, 5 * 18 * 4 * N)
    assert one.least_bytes is not None
    assert 5 * 3 * 4 * N <= one.least_bytes <= 5 * 6 * 4 * N


# --- Layout -------------------------------------------------------------------------------------------------

IMAGE = (BF16, [64, 64, 56, 56])
CONVOLUTION = [IMAGE, (BF16, [64, 64, 3, 3]), ("ScalarList", "[1, 1]")]
BATCH_NORM = [IMAGE, *[(FLOAT, [64])] * 4, (S, "True"), (S, "0.1"), (S, "1e-5")]


def convolution(turning: bool) -> Script:
    script = Script()
    if turning:
        script.call("mylib::conv", None, 40_000, kernel="void cudnn::ops::nchwToNhwcKernel<__nv_bfloat16>")
    script.call("mylib::conv", None, 100_000, kernel="sm90_xmma_fprop_implicit_gemm_bf16")
    return script.call("aten::cudnn_batch_norm", BATCH_NORM, 60_000, kernel="bn_fw_tr_1C11_kernel_NCHW")


def test_conversions_of_the_layout_and_their_batch_norms_are_named(folder: Path) -> None:
    """Of the batch norm its bytes stay: 25.7 MB are read and written."""
    one = waste(convolution(True), "layout", folder)
    assert one.worth
    assert "channels_last" in one.mend
    assert one.ns == 100_000
    moved = 2 * 64 * 64 * 56 * 56 * 2
    assert one.least_ns == pytest.approx(moved / 4.8e12 * 1e9, rel=0.001)


def test_without_conversions_the_layout_is_not_blamed(folder: Path) -> None:
    assert not wastes(convolution(False), "layout", folder)


TRANSPOSED = [(BF16, [4096, 4096], [4096, 1]), (BF16, [4096, 4096], [1, 4096])]
CLONED = [(BF16, [4096, 4096], [4096, 1]), (BF16, [4096, 4096], [4096, 1])]
INTO_A_PART = [(BF16, [4096, 4096], [8192, 1]), (BF16, [4096, 4096], [4096, 1])]
EXPANDED = [(BF16, [4096, 4096], [4096, 1]), (BF16, [4096, 4096], [0, 1])]


def test_copies_that_change_nothing_but_the_layout_are_named(folder: Path) -> None:
    one = waste(chain(PRODUCT, ("aten::copy_", TRANSPOSED), PRODUCT), "layout", folder)
    assert one.worth
    assert (one.ns, one.least_ns) == (50_000, 0)
    assert names(one) == {"aten::copy_"}


@pytest.mark.parametrize("inputs", [THERE[1], BACK[1], CLONED, INTO_A_PART, EXPANDED])
def test_casts_clones_and_parts_are_no_matter_of_layout(inputs: list[Any], folder: Path) -> None:
    assert not wastes(chain(PRODUCT, ("aten::copy_", inputs), PRODUCT), "layout", folder)


def test_copies_from_the_host_are_no_matter_of_layout(folder: Path) -> None:
    p = Profile()
    p.copy("HtoD (Pinned -> Device)", 100, 10_000, p.runtime("cudaMemcpyAsync", 0, 10), size=1 << 20)
    assert not wastes(p, "layout", folder)


def test_a_copy_for_nothing_is_in_no_chain(folder: Path) -> None:
    found = judged(chain(("aten::copy_", TRANSPOSED), MUL, ADD), folder)
    assert sum(one.ns for one in found.wastes) <= 150_000


# --- Computing again ----------------------------------------------------------------------------------------

NODE = "autograd::engine::evaluate_function: CheckpointFunctionBackward"
ROWS = [(BF16, [8192, 1024]), (BF16, [4096, 1024]), None]
GELU = [(BF16, [8192, 4096]), ("", "none")]
LAYER_FLOPS = 2 * 8192 * 1024 * 4096


def layers(forward: list[Any], again: list[Any], node: str = NODE) -> Script:
    """A forward pass, and a node of the backward pass that does `again` and then its own product."""
    script = Script()
    for name, inputs in forward:
        script.call(name, inputs, 100_000, kernel=f"kernel of {name}")
    start = script.host
    for name, inputs in again:
        script.call(name, inputs, 100_000, kernel=f"kernel of {name}", thread=BACKWARD)
    script.call("aten::mm", mm(8192, 4096, 1024), 100_000, kernel=TENSOR, thread=BACKWARD)
    script.profile.operator(node, start - 1, script.host + 1, BACKWARD)
    return script


LINEAR, ACTIVATION = ("aten::linear", ROWS), ("aten::gelu", GELU)


def test_a_forward_pass_that_runs_again_is_named_and_left_out_of_mfu(folder: Path) -> None:
    found = judged(layers([LINEAR, ACTIVATION], [LINEAR, ACTIVATION]), folder)
    (one,) = (one for one in found.wastes if one.cause == "recompute")
    assert one.worth
    assert "checkpoint" in one.mend
    assert (one.ns, one.least_ns) == (200_000, 0)
    assert found.recomputed_flops == LAYER_FLOPS
    assert found.flops == 3 * LAYER_FLOPS
    assert found.mfu == pytest.approx(2 * LAYER_FLOPS / 989.4e12 / 500e-6)


@pytest.mark.parametrize(
    "script",
    [
        layers([LINEAR, ACTIVATION], []),
        layers([LINEAR, ACTIVATION], [ACTIVATION, ACTIVATION]),  # one kind: some function's own backward pass
        layers([LINEAR, ACTIVATION], [("aten::linear", [(BF16, [8192, 512]), (BF16, [4096, 512]), None])] * 2),
        layers([LINEAR, ACTIVATION], [("aten::linear", [(BF16, [8192, 9]), (BF16, [4, 9]), None]), ACTIVATION]),
        layers([LINEAR, ACTIVATION], [LINEAR, ACTIVATION], node="mylib::second_layer"),
        layers([], [LINEAR, ACTIVATION]),
    ],
    ids=["none", "one kind", "other arguments", "one of two has others", "not backward", "no forward pass"],
)
def test_nothing_is_said_to_run_again(script: Script, folder: Path) -> None:
    found = judged(script, folder)
    assert "recompute" not in {one.cause for one in found.wastes}
    assert found.recomputed_flops == 0


# --- Small kernels ------------------------------------------------------------------------------------------


def small(count: int, large: int) -> Script:
    """Sums of 1,024 numbers, 2.56 ns at the ceiling, in 2 µs each, and a well used product."""
    script = Script().call("aten::mm", mm(8192, 4096, 8192), large, kernel=TENSOR)
    for _ in range(count):
        script.call("aten::add", two(1024), 2_000, kernel=ELEMENTWISE)
    return script


def test_many_short_kernels_are_named(folder: Path) -> None:
    one = waste(small(100, 600_000), "device_latency", folder)
    assert one.worth
    assert (one.ns, one.least_ns) == (200_000, 255)  # and less than one more
    assert one.operators[0].calls == 100


@pytest.mark.parametrize(("count", "worth"), [(5, False), (9, False), (10, True)])
def test_what_could_save_less_than_three_percent_is_not_worth_naming(count: int, worth: bool, folder: Path) -> None:
    """9 of 2 µs beside 600 µs are 2.9 %, 10 are 3.2 %."""
    assert waste(small(count, 600_000), "device_latency", folder).worth == worth


def test_long_kernels_are_not_small(folder: Path) -> None:
    script = Script().call("aten::add", two(1024), 50_000).call("aten::mm", mm(8192, 4096, 8192), 700_000)
    assert not wastes(script, "device_latency", folder)


# --- Without ceilings ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("cause", ["attention", "elementwise"])
def test_where_the_least_is_not_known_nothing_is_worth_naming(cause: str, folder: Path) -> None:
    """No percentages for a device that nobody knows."""
    script = {"attention": written_out(), "elementwise": chain(MUL, ADD)}[cause]
    text = script.profile.text().replace("NVIDIA H200", "Some Other Device")
    path = folder / "other.json"
    path.write_text(text)
    found = gpuwhy.explain(str(path), window="all").devices[0].roofline
    assert found is not None
    assert found.ceilings is None
    assert not [one for one in found.wastes if one.worth]


# --- All of them --------------------------------------------------------------------------------------------

MENU: list[tuple[str, list[Any] | None, str]] = [
    ("aten::mm", mm(1024, 1024, 1024, FLOAT), SIMT),
    ("aten::mm", mm(1024, 1024, 1025), TENSOR),
    ("aten::mm", ALIGNED, TENSOR),
    ("aten::bmm", QK, TENSOR),
    ("aten::bmm", PV, TENSOR),
    ("aten::_softmax", SOFTMAX, "softmax"),
    ("aten::mul", two(N), ELEMENTWISE),
    ("aten::add", two(1024), ELEMENTWISE),
    ("aten::div", [SCORES, (S, "8.")], ELEMENTWISE),
    (*THERE, ELEMENTWISE),
    (*BACK, ELEMENTWISE),
    ("aten::cudnn_batch_norm", BATCH_NORM, "bn_fw"),
    ("mylib::conv", None, "nchwToNhwcKernel"),
    ("mylib::secret", two(7), "secret"),
]
GENERAL = ("attention", "recompute", "layout", "elementwise")


@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(0, len(MENU) - 1), st.integers(1, 100_000)), min_size=1, max_size=25))
def test_bounds_lie_within_the_window_and_no_time_is_named_twice(folder: Path, calls: list[tuple[int, int]]) -> None:
    script = Script()
    for number, length in calls:
        name, inputs, kernel = MENU[number]
        script.call(name, inputs, length, kernel=f"{kernel}_{number}")
    found = judged(script, folder)
    busy = sum(length for _, length in calls)
    saved = [one.most_saved_share for one in found.wastes]
    assert saved == sorted(saved, reverse=True)
    for one in found.wastes:
        assert one.operators or one.cause == "layout"
        assert 0 <= one.most_saved_share <= one.share <= 1
        assert one.most_saved_share == pytest.approx(max(one.ns - one.least_ns, 0) / busy)
        assert one.worth == (max(one.ns - one.least_ns, 0) >= 0.03 * busy)
        assert one.least_bytes is None or one.bytes is None or one.least_bytes <= one.bytes
        assert sum(operator.ns for operator in one.operators) <= one.ns
    assert sum(one.ns for one in found.wastes if one.cause in GENERAL) <= busy
