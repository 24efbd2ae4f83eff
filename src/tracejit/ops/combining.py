"""Elements combined into an array at positions, which a kernel of the runtime does for many: same places, same order.

NumPy goes through index arrays of as many dimensions as there are, at a tenth of a microsecond for each element. What
is combined at one place is combined in the order of the positions, whoever does it: the bits are the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

__all__ = ["combine_elements", "combine_rows", "set_combining"]

Array = np.ndarray
#: What combines by a kernel: its name, the array that changes, positions, values, and extents (a, n, size, b, single).
Run = Callable[[str, Array, Array, Array, tuple[int, int, int, int, bool]], bool]
_run: list[Run] = []
#: Elements from which on a kernel is worth its call.
LEAST = 1 << 11
_KNOWN = "fdilq"


def set_combining(run: Run) -> None:
    """Install what combines by a kernel, and says whether it did.

    >>> before = list(_run)
    >>> set_combining(lambda name, total, index, value, extents: False)
    >>> _run[:] = before
    """
    _run[:] = [run]


def combine_rows(name: str, total: Array, index: Array, value: Array, dim: int) -> bool:
    """Slices of ``value`` combined into those of ``total`` at ``index`` along ``dim``; False if NumPy is to do it.

    ``name`` is NumPy's: "add", "multiply", "maximum" or "minimum". Positions count from the start, and are checked.

    >>> combine_rows("add", np.zeros(3), np.array([1]), np.ones(1), 0)  # too few for a kernel
    False
    """
    if not _serves(total, value):
        return False
    before, after = math.prod(total.shape[:dim]), math.prod(total.shape[dim + 1 :])
    extents = (before, index.size, total.shape[dim], after, False)
    return _run[0](name, total, index, value, extents)


def combine_elements(name: str, total: Array, index: Array, value: Array, dim: int) -> bool:
    """Each element of ``value`` combined into ``total`` at its own position along ``dim``.

    See `combine_rows`. Positions that do not vary in the other dimensions are those of slices.

    >>> combine_elements("add", np.zeros(3), np.array([1]), np.ones(1), 0)
    False
    """
    others = [d for d in range(index.ndim) if d != dim]
    if not _serves(total, value) or any(index.shape[d] != total.shape[d] for d in others):
        return False
    if all(index.strides[d] == 0 or index.shape[d] == 1 for d in others):
        row = index[tuple(slice(None) if d == dim else 0 for d in range(index.ndim))]
        return combine_rows(name, total, row, value, dim)
    before, after = math.prod(total.shape[:dim]), math.prod(total.shape[dim + 1 :])
    extents = (before, index.shape[dim], total.shape[dim], after, True)
    return _run[0](name, total, index, value, extents)


def _serves(total: Array, value: Array) -> bool:
    return bool(
        _run
        and value.size >= LEAST
        and total.dtype == value.dtype
        and total.dtype.char in _KNOWN
        and total.dtype.isnative
    )
