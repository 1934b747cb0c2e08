"""Small NumPy helpers that several stages share."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Scalar = TypeVar("Scalar", bound=np.generic)


def unique(values: NDArray[Scalar]) -> NDArray[Scalar]:
    """The different values, ascending: `np.unique`, which without options also imports numpy.ma.

    That import takes longer than explaining a small profile.
    """
    ordered = np.sort(values, axis=None)
    first: NDArray[Any] = np.ones(len(ordered), bool)
    first[1:] = ordered[1:] != ordered[:-1]
    different: NDArray[Scalar] = ordered[first]
    return different
