"""What each operator has to do: FLOPs and bytes from its recorded shapes, types, strides and values."""

from __future__ import annotations

from gpuwhy.roofline.arguments import Arguments
from gpuwhy.roofline.operators import (
    attention,
    convolution,
    elementwise,
    generated,
    indexing,
    matmul,
    optimizers,
    reductions,
)
from gpuwhy.roofline.operators.base import Formula, Work

__all__ = ["FORMULAS", "Work", "has_formula", "optimizers", "work_of"]

FORMULAS: dict[str, Formula] = {
    **elementwise.FORMULAS,
    **reductions.FORMULAS,
    **indexing.FORMULAS,
    **optimizers.FORMULAS,
    **matmul.FORMULAS,
    **convolution.FORMULAS,
    **attention.FORMULAS,
}


def has_formula(name: str) -> bool:
    """Whether an operator of this name can have known work."""
    return (name.startswith("aten::") and name[6:] in FORMULAS) or name.startswith("triton_")


def work_of(name: str, of: Arguments, item: int | None) -> Work | None:
    """The work of one call; `item`: bytes an element as its kernel's name tells. None where it is not known."""
    try:
        if name.startswith("triton_"):
            return generated.work(name, of)
        return FORMULAS[name[6:]](of, item)
    except (KeyError, IndexError, ZeroDivisionError, OverflowError):  # a type or shape that nobody has seen yet
        return None
