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

MAX_WORK = 2.0**100
"""No call has that much to do."""

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
        work = generated.work(name, of) if name.startswith("triton_") else FORMULAS[name[6:]](of, item)
        return work if work is None or _plausible(work) else None
    except (LookupError, ArithmeticError, TypeError, ValueError):  # a type or shape that nobody has seen yet
        return None


def _plausible(work: Work) -> bool:
    """Damaged arguments give negative or endless numbers."""
    numbers = (work.flops or 0.0, work.read, work.written, work.again)
    return all(0 <= number < MAX_WORK for number in numbers)
