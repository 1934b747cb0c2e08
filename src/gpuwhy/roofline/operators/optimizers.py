"""Fused optimizers: parameter, gradient and state are read; parameter and state written.

Their arguments are lists of tensors. PyTorch records the shapes of a list only up to 30 tensors; for longer ones the
number of elements comes from the gradients that were accumulated before the step (see `gpuwhy.roofline.lists`).
"""

from __future__ import annotations

from gpuwhy.roofline.arguments import Arguments, Tensor
from gpuwhy.roofline.operators.base import Formula, Work

STATES = {"_fused_adam_": 2, "_fused_adamw_": 2, "_fused_sgd_": 1, "_fused_adagrad_": 1}
"""Tensors of state for each parameter, after the lists of parameters and gradients."""
MOMENTUM_AT = 4
"""Place of SGD's momentum: without it there is no state."""


def lists_of(name: str, of: Arguments) -> int:
    """How many of an optimizer's lists hold a tensor for each parameter."""
    name = name.removeprefix("aten::")
    without = name == "_fused_sgd_" and of.value(MOMENTUM_AT) in (0, 0.0)
    return 2 + (0 if without else STATES.get(name, 0))


def _fused(name: str) -> Formula:
    def formula(of: Arguments, item: int | None) -> Work | None:
        parameters, gradients = of.several(0), of.several(1)
        if parameters is None or gradients is None or item is None:
            return None
        elements = sum(tensor.count for tensor in parameters)
        states = sum(_alike(of.several(place), parameters) for place in range(2, 2 + STATES[name] + 1))
        return Work(0.0, float(elements * item * (2 + states)), float(elements * item * (1 + states)))

    return formula


def _alike(some: list[Tensor] | None, parameters: list[Tensor]) -> bool:
    return some is not None and [tensor.dims for tensor in some] == [tensor.dims for tensor in parameters]


FORMULAS: dict[str, Formula] = {name: _fused(name) for name in STATES}
