"""Shapes, strides, values and grids come from strangers: work is unknown then; never a crash, never minutes."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

import pytest

import gpuwhy
from gpuwhy.errors import GpuwhyError
from gpuwhy.reports.json import encode
from gpuwhy.roofline.arguments import MAX_ARGUMENTS, MAX_LIST

SECONDS = 30
"""More than any of the long inputs takes on a slow machine; what is quadratic in them takes minutes."""
DIGITS = "9" * 5000
"""A number that Python itself refuses to read: longer than its limit of 4300 digits."""

KERNELS = {
    "aten::mm": "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64",
    "aten::add": "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>",
    "aten::_scaled_dot_product_flash_attention": "void pytorch_flash::flash_fwd_kernel<pytorch_flash::traits>",
    "aten::convolution": "sm80_xmma_fprop_implicit_gemm_bf16bf16_bf16f32_f32_nhwckrsc_nchw",
}
LEGAL: dict[str, Any] = {
    "Input type": ["c10::BFloat16", "c10::BFloat16"],
    "Input Dims": [[256, 256], [256, 256]],
    "Input Strides": [[256, 1], [256, 1]],
    "Concrete Inputs": ["", ""],
}
ODD_ARGUMENTS = {
    "dimensions of 5000 digits": f'{{"Input Dims": [[{DIGITS}, 2], [2, 2]], "Input type": ["float", "float"]}}',
    "dimensions that overflow": '{"Input Dims": [[1e98, 2], [2, 1e98]], "Input type": ["float", "float"]}',
    "negative dimensions": '{"Input Dims": [[-3, 2], [2, -3]], "Input type": ["float", "float"]}',
    "dimensions that are text": '{"Input Dims": [["a", 2], "b"], "Input type": ["float", "float"]}',
    "dimensions of 200 axes": json.dumps({**LEGAL, "Input Dims": [[2] * 200, [2] * 200]}),
    "types that are numbers": json.dumps({**LEGAL, "Input type": [1, None]}),
    "lists of unlike length": json.dumps({**LEGAL, "Input type": ["float"]}),
    "too many arguments": json.dumps(
        {"Input Dims": [[2]] * (MAX_ARGUMENTS + 1), "Input type": ["float"] * (MAX_ARGUMENTS + 1)}
    ),
    "a list too long": json.dumps({"Input Dims": [[[2]] * (MAX_LIST + 1)], "Input type": ["TensorList"]}),
}
ODD_VALUES = {
    "strides of 400 digits": json.dumps({**LEGAL, "Input Strides": [[10**400, 1], [256, 1]]}),
    "strides of 1e30": json.dumps({**LEGAL, "Input Strides": [[10**30, 1], [10**30, 1]]}),
    "a value of 4000 digits": json.dumps({**LEGAL, "Concrete Inputs": ["9" * 4000, "9" * 4000]}),
    "values nested deep": json.dumps({**LEGAL, "Concrete Inputs": ["[" * 3000 + "]" * 3000, ""]}),
}
ODD_GRIDS = {
    "of 5000 digits": f'{{"grid": [{DIGITS}, 1, 1], "block": [128, 1, 1]}}',
    "that overflows": '{"grid": [2147483647, 2147483647, 2147483647], "block": [1024, 1024, 1024]}',
    "negative": '{"grid": [-1, 1, 1], "block": [0, 0, 0]}',
    "of text": '{"grid": ["a"], "block": "b"}',
}


def written(path: Path, arguments: str, operator: str = "aten::mm", grid: str = "{}", steps: int = 12) -> Path:
    """Steps of one operator on a named device; `arguments` and `grid` are JSON objects, written as they are."""
    events: list[str] = []
    for number in range(1, steps + 1):
        at = number * 1000
        events += [
            _event("user_annotation", f"ProfilerStep#{number}", at, 990),
            _event("cpu_op", operator, at + 10, 100, arguments),
            _event("cuda_runtime", "cudaLaunchKernel", at + 20, 10, f'{{"correlation": {number}}}'),
            _event(
                "kernel",
                KERNELS[operator],
                at + 50,
                900,
                _joined(f'{{"correlation": {number}, "device": 0, "stream": 7}}', grid),
            ),
        ]
    device = '{"id": 0, "name": "NVIDIA H200", "numSms": 132, "totalGlobalMem": 150000000000}'
    path.write_text(f'{{"deviceProperties": [{device}], "traceEvents": [{", ".join(events)}]}}')
    return path


def _event(category: str, name: str, start: int, duration: int, arguments: str = "{}") -> str:
    place = f'"pid": 1, "tid": 1, "ts": {start}, "dur": {duration}'
    return f'{{"ph": "X", "cat": "{category}", "name": {json.dumps(name)}, {place}, "args": {arguments}}}'


def _joined(one: str, other: str) -> str:
    return one if other == "{}" else f"{one[:-1]}, {other[1:]}"


def explained(path: Path) -> Any:
    """The one device of the report as others read it; no infinity or NaN gets into it."""

    def refuse(text: str) -> None:
        raise AssertionError(f"{text} is no JSON")

    (device,) = json.loads(encode(gpuwhy.explain(str(path))), parse_constant=refuse)["devices"]
    return device


@pytest.mark.parametrize("operator", KERNELS)
@pytest.mark.parametrize("arguments", ODD_ARGUMENTS.values(), ids=ODD_ARGUMENTS)
def test_odd_arguments_make_work_unknown(tmp_path: Path, arguments: str, operator: str) -> None:
    roofline = explained(written(tmp_path / "odd.json", arguments, operator))["roofline"]
    assert roofline["known_share"] == 0
    assert roofline["flops"] in (0, None)
    assert roofline["unknown"]


@pytest.mark.parametrize("operator", KERNELS)
@pytest.mark.parametrize("arguments", ODD_VALUES.values(), ids=ODD_VALUES)
def test_odd_values_are_no_crash(tmp_path: Path, arguments: str, operator: str) -> None:
    assert 0 <= explained(written(tmp_path / "odd.json", arguments, operator))["roofline"]["known_share"] <= 1


@pytest.mark.parametrize("grid", ODD_GRIDS.values(), ids=ODD_GRIDS)
def test_an_odd_grid_takes_nothing_from_what_is_known(tmp_path: Path, grid: str) -> None:
    roofline = explained(written(tmp_path / "odd.json", json.dumps(LEGAL), grid=grid))["roofline"]
    assert roofline["flops_per_step"] == 2 * 256**3


def test_every_call_of_another_shape_takes_seconds(tmp_path: Path) -> None:
    path = written(tmp_path / "many.json", json.dumps(LEGAL), steps=5000)
    count = iter(range(1, 6000))
    path.write_text(
        re.sub(r"\[\[256, 256\], \[256, 256\]\]", lambda _: f"[[{next(count)}, 256], [256, 256]]", path.read_text())
    )
    started = time.monotonic()
    assert explained(path)["roofline"]["known_share"] == 1
    assert time.monotonic() - started < SECONDS


@pytest.mark.parametrize("samples", [0, -1, 10**400])
def test_samples_that_no_step_has_are_refused(tmp_path: Path, samples: int) -> None:
    path = written(tmp_path / "one.json", json.dumps(LEGAL))
    with pytest.raises(GpuwhyError, match="samples"):
        gpuwhy.explain(str(path), samples=samples)
