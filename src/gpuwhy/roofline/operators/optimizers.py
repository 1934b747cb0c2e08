"""Fused optimizers: parameter, gradient and state are read; parameter and state written.

Their arguments are lists of tensors. PyTorch records the shapes of a list only up to 30 tensors; for longer ones the
number of elements comes from the gradients that were accumulated before the step (see `gpuwhy.roofline.work`).
"""

from __future__ import annotations

from gpuwhy.roofline.arguments import Arguments, Tensor
from gpuwhy.roofline.operators.base import Formula, Work

STATES = {"adam": 2, "adamw": 2, "sgd": 1, "adagrad": 1}
"""Tensors of state for each parameter."""


def update(name: str, elements: int, item: int, grad_item: int, states: int | None = None) -> Work | None:
    """The work of one step of a fused optimizer (`_fused_adamw_`) over that many elements."""
    count = STATES.get(name.strip("_").removeprefix("fused_")) if states is None else states
    if count is None:
        return None
    return Work(0.0, float(elements * (item * (1 + count) + grad_item)), float(elements * item * (1 + count)))


def _fused(name: str) -> Formula:
    def formula(of: Arguments, item: int | None) -> Work | None:
        parameters, gradients = of.several(0), of.several(1)
        if parameters is None or gradients is None or item is None:
            return None
        elements = sum(tensor.count for tensor in parameters)
        lists = [one for place in range(2, len(of.items)) if (one := of.several(place)) and _alike(one, parameters)]
        return update(name, elements, item, item, states=len(lists))

    return formula


def _alike(some: list[Tensor], parameters: list[Tensor]) -> bool:
    return [tensor.dims for tensor in some] == [tensor.dims for tensor in parameters]


FORMULAS: dict[str, Formula] = {f"_fused_{name}_": _fused(f"_fused_{name}_") for name in STATES}
