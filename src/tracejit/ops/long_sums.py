"""Sums of many rows: NumPy adds one after the other, which loses a digit for every hundred rows; here blocks of them.

Short rows are added beside each other, so that loops are long. Which numbers are added first depends on shapes alone.
Sums along what lies one element after the other are NumPy's, which are made by pairs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .namespace import xp

__all__ = ["accumulated_along", "added", "running"]

Array = Any
_add: Any = np.add.reduce
#: Most rows that are added one after the other; of more, blocks of so many, so many blocks side by side.
MOST, BLOCK, BESIDE = 512, 128, 16
#: Most elements of rows that are added beside each other.
WIDE = 1 << 8


def added(x: Array, axis: Sequence[int], keepdims: bool = False) -> Array:
    """``np.add.reduce``, of numbers with fractions by blocks.

    >>> x = np.full((1 << 20, 2), 0.1, np.float32)
    >>> [abs(float(s[0]) - 104857.6) < 1 for s in (added(x, (0,)), np.add.reduce(x, axis=0))]
    [True, False]
    """
    while (along := _rows(x, axis)) is not None:
        x = _folded(x, along)
    return _add(x, axis=axis, keepdims=keepdims)


def running(function: Callable[..., Array], x: Array, dim: int, doubled: bool) -> Array:
    """Sums or products of all up to each; ``doubled``: of single precision, what there is so far is kept in double.

    >>> float(running(np.cumsum, np.full(1 << 20, 0.1, np.float32), 0, True)[-1])
    104857.6015625
    """
    if not doubled:
        return function(x, axis=dim)
    kind = np.complex128 if x.dtype.kind == "c" else np.float64
    with np.errstate(over="ignore"):  # what is too large for a result is infinite
        return function(x, axis=dim, dtype=kind).astype(x.dtype)


def accumulated_along(combine: Any, x: Array, dim: int) -> Array:
    """``combine`` of everything up to each position: in doubling steps where it does not accumulate.

    >>> accumulated_along(np.maximum, np.array([1, 3, 2]), 0).tolist()
    [1, 3, 3]
    """
    if xp(x) is np:
        return combine.accumulate(x, axis=dim)
    before, step = (np.s_[:],) * dim, 1
    while step < x.shape[dim]:
        later = combine(x[(*before, np.s_[step:])], x[(*before, np.s_[:-step])])
        x = xp(x).concatenate([x[(*before, np.s_[:step])], later], axis=dim)
        step *= 2
    return x


def _rows(x: Array, axes: Sequence[int]) -> int | None:
    """The longest of the dimensions along which too many rows would be added one after the other."""
    if x.size <= MOST or x.dtype.kind not in "fc":
        return None
    shape, steps = x.shape, x.strides
    if math.prod([shape[d] for d in axes]) <= MOST:
        return None
    outer, expected = list(axes), x.itemsize
    for _, extent, d in sorted((abs(steps[d]), shape[d], d) for d in range(x.ndim) if shape[d] > 1):
        if d not in outer or (abs(steps[d]) != expected and len(outer) < len(axes)):
            break
        outer.remove(d)  # NumPy adds these by pairs
        expected = abs(steps[d]) * extent
    if math.prod([shape[d] for d in outer]) <= MOST:
        return None
    return max(outer, key=shape.__getitem__)


def _folded(x: Array, along: int) -> Array:
    """``x`` with fewer rows along a dimension, each of which is the sum of some."""
    before, rows, after = x.shape[:along], x.shape[along], x.shape[along + 1 :]
    if rows <= MOST:
        return _add(x, axis=along, keepdims=True)
    beside = min(BESIDE, rows // BLOCK) if math.prod(after) <= WIDE else 1
    blocks = rows // (BLOCK * beside)
    whole, front = blocks * BLOCK * beside, (slice(None),) * along
    parts = x[(*front, slice(whole))].reshape(*before, blocks, BLOCK, beside, *after)
    sums = _add(parts, axis=along + 1)
    sums = sums.reshape(*before, blocks * beside, *after)
    if whole == rows:
        return sums
    rest = added(x[(*front, slice(whole, None))], (along,), keepdims=True)
    return np.concatenate([sums, rest], axis=along)
