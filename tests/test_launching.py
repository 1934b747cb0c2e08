"""The host time that goes to launching: what of it stays out of compiled models and graphs, and what becomes of it.

Steps are those of loops whose host sets the pace: kernels of 5 µs in operators of 100.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from advising import GRAPH_GAP, HOST_STEP, NEAR, SHORT, explained, offers, operators, seen, within
from replaying import GAP, US, Body, looped, replay, setting_of, steady

from gpuwhy.findings.elementwise import launched_by_compiler
from gpuwhy.findings.launching import entering_ns
from gpuwhy.whatif.setting import Ops, Setting

ENTERING = 300 * US, 180 * US, 450 * US
"""Host time to enter a compiled model and to launch its graph: expected, at best, at worst (docs/whatif.md)."""
TRAINED = 6
"""With a backward pass so many times as much."""
KERNEL = 5 * US
MODEL, TEN = operators(30, KERNEL), operators(10, KERNEL)
NODE = "autograd::engine::evaluate_function: "

# --- What stays out of graphs -------------------------------------------------------------------------------

STAYING: dict[str, tuple[str, str, int, bool]] = {
    "an LSTM": ("aten::lstm", "operator", 1, True),
    "a GRU": ("aten::gru", "operator", 1, True),
    "a plain recurrent layer": ("aten::rnn_tanh", "operator", 1, True),
    "one with ReLUs": ("aten::rnn_relu", "operator", 1, True),
    "one of cuDNN": ("aten::_cudnn_rnn", "operator", 1, True),
    "a backward pass of cuDNN": (f"{NODE}CudnnRnnBackward0", "operator", TRAINED, True),
    "gradients that are added up": (f"{NODE}torch::autograd::AccumulateGrad", "operator", TRAINED, True),
    "an optimizer": ("Optimizer.step#AdamW.step", "annotation", 1, True),
    "gradients set to zero": ("Optimizer.zero_grad#AdamW.zero_grad", "annotation", 1, True),
    # What is written in Python is compiled like all the rest.
    "a cell": ("aten::lstm_cell", "operator", 1, False),
    "a product": ("aten::linear", "operator", 1, False),
    "its backward pass": (f"{NODE}MmBackward0", "operator", TRAINED, False),
    "an annotation": ("Optimizer", "annotation", 1, False),
}


@pytest.mark.parametrize("name", STAYING)
def test_recurrent_layers_and_optimizers_are_launched_as_before(name: str, folder: Path) -> None:
    """Of 40 operators ten are in it. The others become one launch, or those of two graphs and the loss between them."""
    around, kind, times, stays = STAYING[name]
    report = explained(looped(MODEL, within(around, TEN, kind=kind)), folder)
    assert offers(report)["cuda_graphs"] == pytest.approx(times * ENTERING[0] + stays * HOST_STEP, abs=NEAR)


def test_kernels_of_what_stays_keep_their_gaps(folder: Path) -> None:
    """The host launches in 300 µs, and two operators of the optimizer in 179; the device takes 488."""
    stays = within("Optimizer.step#AdamW.step", operators(2, SHORT))
    report = explained(looped(operators(10, SHORT), stays), folder)
    after = 10 * (SHORT + GRAPH_GAP) + 2 * (SHORT + GAP)
    assert after > ENTERING[0] + 0.2 * HOST_STEP
    assert offers(report)["cuda_graphs"] == pytest.approx(after, abs=US)


@pytest.mark.parametrize(
    ("bodies", "times"),
    [([TEN], 1), ([TEN, within(f"{NODE}MmBackward0", TEN, kind="operator")], TRAINED)],
    ids=["forward", "backward"],
)
@pytest.mark.parametrize("steps", [8, 12])
def test_a_model_is_entered_once_a_step(bodies: list[Body], times: int, steps: int, folder: Path) -> None:
    """All but the last step, whose end is not recorded, are in a turn."""
    setting = setting_of(replay(looped(*bodies, steps=steps), folder))
    assert entering_ns(setting) == tuple((steps - 1) * times * ns for ns in ENTERING)


@pytest.mark.parametrize(("count", "after"), [(2, 200 * US), (3, 300 * US), (4, 300 * US), (9, 300 * US)])
def test_a_graph_makes_no_launching_longer(count: int, after: int, folder: Path) -> None:
    """As recorded, each operator takes 100 µs to launch."""
    loop = looped(operators(count, KERNEL))
    (graphs,) = (mend for mend in seen(loop, folder)["launch"].mends if mend.id == "cuda_graphs")
    assert steady(replay(loop, folder), graphs.expected) == pytest.approx(after)


# --- What a compiler launches -------------------------------------------------------------------------------
# As recorded, with the profiler's part: ten operators take 1,000 µs.

RECORDED = 1_000 * US
EACH = 1.0, 0.75, 1.25
"""What an operation that is left takes of the host, over now: expected, at best, at worst (docs/whatif.md)."""
CONVOLVING = 1.8
"""… and a convolution, besides."""


def convolutions(count: int) -> Body:
    return operators(count, KERNEL, name="aten::cudnn_convolution")


def every(*places: int, of: int) -> Callable[[Setting], Ops]:
    """Operations at some places of each step, which has so many."""
    return lambda setting: np.isin(np.arange(len(setting.timeline.ops)) % of, places)


COMPILED: dict[str, tuple[list[Body], Callable[[Setting], Ops], float, float]] = {
    # What is in a step, which operations are gone, the part of the model's host time that is left, and what stays.
    "nothing is fused": ([TEN], every(of=10), 1.0, 0),
    "four of ten are": ([TEN], every(0, 1, 5, 9, of=10), 0.6, 0),
    "all but one": ([TEN], every(*range(9), of=10), 0.1, 0),
    "convolutions cost more": ([operators(5, KERNEL), convolutions(5)], every(of=10), (5 + CONVOLVING * 5) / 10, 0),
    "what is fused is no convolution": (
        [operators(5, KERNEL), convolutions(5)],
        every(0, 1, 2, of=10),
        (2 + CONVOLVING * 5) / 10,
        0,
    ),
    "it is one": ([operators(5, KERNEL), convolutions(5)], every(6, 8, of=10), (5 + CONVOLVING * 3) / 10, 0),
    "an optimizer is neither compiled nor counted": (
        [TEN, within("Optimizer.step#AdamW.step", operators(20, KERNEL))],
        every(0, 1, 5, 9, of=30),
        0.6,
        2 * RECORDED,
    ),
    "nor is a recurrent layer": (
        [TEN, within("aten::lstm", convolutions(5), kind="operator")],
        every(0, 1, 5, 9, of=15),
        0.6,
        RECORDED / 2,
    ),
}


@pytest.mark.parametrize("name", COMPILED)
def test_a_compiled_model_takes_the_host_to_enter_it_and_for_each_operation_that_is_left(
    name: str, folder: Path
) -> None:
    bodies, gone, left, stays = COMPILED[name]
    found = replay(looped(*bodies), folder)
    setting = setting_of(found)
    changes = launched_by_compiler(setting, gone(setting))
    wanted = [entering + each * left * RECORDED + stays for entering, each in zip(ENTERING, EACH, strict=True)]
    assert [steady(found, change) for change in changes] == pytest.approx(wanted)


def test_with_a_backward_pass_it_is_entered_six_times(folder: Path) -> None:
    found = replay(looped(TEN, within(f"{NODE}MmBackward0", TEN, kind="operator")), folder)
    setting = setting_of(found)
    expected, *_ = launched_by_compiler(setting, every(*range(10), of=20)(setting))
    assert steady(found, expected) == pytest.approx(TRAINED * ENTERING[0] + 0.5 * 2 * RECORDED)
