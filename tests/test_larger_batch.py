"""A larger batch: how large it gets until the device is the limit, and what of an operation grows with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from advising import explained, operators, seen
from events import MAIN
from replaying import CALL, GAP, US, Body, Loop, looped

from gpuwhy.findings import Mend

FLOAT = "float"
BANDWIDTH, FP32 = 4.8e12, 66.9e12
"""Bytes/s and FLOP/s of an H200, as published."""


def offered(*bodies: Body, folder: Path) -> Mend | None:
    """The mend, for a loop whose host takes 1,000 µs a step."""
    return next((mend for mend in seen(looped(*bodies), folder)["launch"].mends if mend.id == "larger_batch"), None)


# --- How large ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kernel", "times"),
    [
        # Nothing is known of the kernels, so that they grow with the batch: ten of them and their gaps of 1.5 µs reach
        # 1.25 steps, which are 1,250 µs, at …
        (40 * US, 4),  # 1,615
        (10 * US, 16),  # 1,615; at 8 it is 815
        (200, 1024),  # 2,063; at 512 it is 1,039
        (125, 1024),  # 1,295
        (120, None),  # 1,244 at 1,024 times as large: the device never becomes the limit
        (10, None),
        (80 * US, None),  # 1,615 at twice as large: the device is as good as the limit already
    ],
)
def test_the_batch_is_as_large_as_the_device_takes_without_much_ado(
    kernel: int, times: int | None, folder: Path
) -> None:
    mend = offered(operators(10, kernel), folder=folder)
    assert (mend.samples if mend is not None else None) == times


def test_where_only_the_optimizer_works_the_device_never_becomes_the_limit(folder: Path) -> None:
    """Its kernels update parameters, of which there are as many whatever the batch."""
    assert offered(operators(10, 40 * US, name="aten::_fused_adamw_"), folder=folder) is None
    both = operators(9, 40 * US, name="aten::_fused_adamw_"), operators(1, 40 * US)
    mend = offered(*both, folder=folder)
    assert mend is not None
    assert mend.samples == 32  # 10 · 1.5 + 9 · 40 + 32 · 40 = 1,655; at 16 it is 1,015


# --- What grows ---------------------------------------------------------------------------------------------


def computes(name: str, inputs: list[Any], kernel: float) -> Body:
    """An operator whose kernel takes so long."""

    def body(loop: Loop) -> None:
        start, loop.now = loop.now, loop.now + 100 * US
        loop.profile.operator(name, start, loop.now, MAIN, inputs=inputs)
        begin = loop.enqueued()
        loop.free = begin + round(kernel)
        loop.profile.launch(loop.now - CALL, loop.now, begin, loop.free, name="ampere_sgemm_128x64_tn")

    return body


@pytest.mark.parametrize("width", [16_384, 65_536, 1 << 20])
def test_weights_are_read_once_however_many_bytes_they_have(width: int, folder: Path) -> None:
    """One row of floats times a square of them (1 GiB, 16 GiB, 4 TiB), as fast as the memory is.

    With a batch eight times as large there are eight rows and eight results; the square stays.
    """
    row = result = 4 * width
    square = 4 * width * width
    kernel = (square + row + result) / BANDWIDTH * 1e9
    inputs = [(FLOAT, [1, width]), (FLOAT, [width, width]), None]
    report = explained(looped(computes("aten::linear", inputs, kernel)), folder, what_if="batch=8")
    larger = (square + 8 * (row + result)) / BANDWIDTH * 1e9
    assert 8 * 2 * width * width / FP32 * 1e9 < larger  # the memory is still what limits it
    assert report.what_if is not None
    assert report.what_if.step_after_ns.mid == pytest.approx(larger + GAP, abs=US)
