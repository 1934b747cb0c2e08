"""Small NumPy helpers that several stages share."""

from __future__ import annotations

from collections.abc import Iterator
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


def quantiles(values: NDArray[Any], at: tuple[float, ...]) -> NDArray[np.float64]:
    """Quantiles along the first axis, interpolated linearly: `np.quantile`, without its import of numpy.ma."""
    ordered = np.sort(values, axis=0)
    place = np.array(at) * (len(ordered) - 1)
    low = np.floor(place).astype(np.int64)
    part = (place - low).reshape(-1, *([1] * (ordered.ndim - 1)))
    high = np.minimum(low + 1, len(ordered) - 1)
    between: NDArray[np.float64] = ordered[low] + (ordered[high] - ordered[low]) * part
    return between


def by_value(values: NDArray[Any]) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """Each different value with the rows that hold it, ascending."""
    if not len(values):
        return
    order = np.argsort(values, kind="stable")
    borders = np.flatnonzero(np.diff(values[order])) + 1
    for rows in np.split(order, borders):
        yield int(values[rows[0]]), rows


def combined(columns: list[NDArray[Any]]) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Which rows of several integer columns are alike: one row of each kind, and for each row its kind."""
    code, size = np.zeros(len(columns[0]), np.int64), 1
    for column in columns:
        part, count = _dense(column)
        if size * count >= 2**62:
            code, size = _dense(code)
        code = code * count + part
        size *= count
    kind, kinds = _dense(code)
    first = np.zeros(kinds, np.int64)
    first[kind[::-1]] = np.arange(len(kind))[::-1]
    return first, kind


def _dense(values: NDArray[Any]) -> tuple[NDArray[np.int64], int]:
    """Numbers from 0 without gaps that order as the values do, and how many; without sorting where they lie close."""
    if not len(values):
        return np.zeros(0, np.int64), 1
    low, high = int(values.min()), int(values.max())
    if high - low > 4 * len(values) + 10**6:
        different = unique(values)
        return np.searchsorted(different, values).astype(np.int64), len(different)
    place = values.astype(np.int64) - low
    seen = np.zeros(high - low + 1, bool)
    seen[place] = True
    number = np.cumsum(seen) - 1
    return number[place], int(number[-1]) + 1
