"""A forward pass that runs again in the backward pass: what of the host's time goes with it.

The host sets the pace of these loops. Each operator takes it 100 µs, and Python in a node of the backward pass lies
between them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from advising import NEAR, SHORT, explained, offers, sleeps, unprofiled, within
from replaying import CALL, US, Body, Loop, looped

BF16 = "c10::BFloat16"
NODE = "autograd::engine::evaluate_function: "
EACH = unprofiled(100 * US - CALL, CALL)
"""An operator without the profiler."""


def computes(name: str, inputs: list[Any], ns: int = 100 * US) -> Body:
    def body(loop: Loop) -> None:
        start, loop.now = loop.now, loop.now + ns
        loop.profile.operator(name, start, loop.now, inputs=inputs)
        begin = loop.enqueued()
        loop.free = begin + SHORT
        loop.profile.launch(loop.now - CALL, loop.now, begin, loop.free)

    return body


LINEAR = computes("aten::linear", [(BF16, [8192, 1024]), (BF16, [4096, 1024]), None])
GELU = computes("aten::gelu", [(BF16, [8192, 4096]), ("", "none")])
PRODUCT = computes("aten::mm", [(BF16, [8192, 4096]), (BF16, [4096, 1024])])
PYTHON = sleeps(150 * US)


def node(name: str, *bodies: Body) -> Body:
    """As PyTorch records it: the engine's call, which has something to do of its own, around that of the node."""
    return within(NODE + name, PYTHON, within(name, *bodies, kind="operator"), kind="operator")


def without_recomputing(*bodies: Body, folder: Path) -> float:
    return offers(explained(looped(*bodies), folder))["no_recompute"]


AGAIN = node("CheckpointFunctionBackward", PYTHON, LINEAR, PYTHON, GELU, PYTHON, PRODUCT)
"""What the forward pass did, and then a product of the node's own."""


def test_the_python_that_runs_the_forward_pass_again_goes_with_it(folder: Path) -> None:
    """Left are two operators of the forward pass, and the node's own product."""
    assert without_recomputing(LINEAR, GELU, AGAIN, folder=folder) == pytest.approx(3 * EACH, abs=NEAR)


def test_operators_that_run_nothing_again_stay_with_their_own_time(folder: Path) -> None:
    """One in the node launches nothing: it takes 150 µs before and after."""
    views = within("aten::view", PYTHON, kind="operator")
    again = node("CheckpointFunctionBackward", PYTHON, LINEAR, PYTHON, GELU, PYTHON, views, PRODUCT)
    wanted = 3 * EACH + unprofiled(150 * US)
    assert without_recomputing(LINEAR, GELU, again, folder=folder) == pytest.approx(wanted, abs=NEAR)


def test_python_in_other_nodes_of_the_backward_pass_stays(folder: Path) -> None:
    """One before and one behind the node that computes again have two stretches of 150 µs of it each."""
    other = node("MmBackward0", PYTHON, PRODUCT)
    wanted = 5 * EACH + 4 * unprofiled(150 * US)
    assert without_recomputing(LINEAR, GELU, other, AGAIN, other, folder=folder) == pytest.approx(wanted, abs=NEAR)


def test_python_of_the_forward_pass_stays(folder: Path) -> None:
    wanted = 3 * EACH + unprofiled(300 * US)
    assert without_recomputing(LINEAR, PYTHON, PYTHON, GELU, AGAIN, folder=folder) == pytest.approx(wanted, abs=NEAR)


def test_the_backward_pass_of_what_runs_again_stays_where_it_is_run_within(folder: Path) -> None:
    """Reentrant checkpoints run it inside their own node: that Python is needed in any case."""
    inner = node("GeluBackward0", sleeps(300 * US), PRODUCT)
    again = node("CheckpointFunctionBackward", PYTHON, LINEAR, PYTHON, GELU, PYTHON, inner)
    wanted = 3 * EACH + unprofiled(150 * US) + unprofiled(300 * US)
    assert without_recomputing(LINEAR, GELU, again, folder=folder) == pytest.approx(wanted, abs=NEAR)
