"""Batches of small matrices, which kernels of the runtime take apart side by side: a lane of a vector for each.

LAPACK is asked for one matrix after the other, which takes longer than a small one does. What serves depends on the
type and the shape alone. Matrices that need an exception (singular ones, infinities) are LAPACK's as before, and so are
its errors.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import wraps

import numpy as np

from .op import Array

__all__ = ["attempted", "served", "set_side_by_side", "side_by_side", "triangles"]

#: Fewest matrices of a batch; most columns, and most elements, of a matrix and of what is right of it.
LEAST, MOST_COLUMNS, MOST_ELEMENTS = 16, 32, 1024
#: The same of double precision where columns are rotated until they are orthogonal, which takes the cube of them.
MOST_ROTATED = 16
_ROTATED = ("eigh", "svd")

#: What runs a kernel: its name, operands, the shapes of results, and numbers.
Run = Callable[
    [str, Sequence[Array], Sequence[tuple[int, ...]], Sequence[int]], Sequence[Array] | None
]
_run: list[Run] = []


def set_side_by_side(run: Run) -> None:
    """Install what runs such kernels, or gives None.

    >>> before = list(_run)
    >>> set_side_by_side(lambda name, operands, results, numbers: None)
    >>> _run[:] = before
    """
    _run[:] = [run]


def side_by_side(name: str) -> Callable[[Callable[..., Array]], Callable[..., Array]]:
    """A function of matrices, which gives one array, by the kernel ``name`` where that serves.

    >>> side_by_side("inv")(np.linalg.inv)(np.stack([np.eye(1) * 2] * 20))[3]
    array([[0.5]])
    """

    def decorate(again: Callable[..., Array]) -> Callable[..., Array]:
        @wraps(again)
        def called(*operands: Array) -> Array:
            found = attempted(name, *operands)
            if found is None:
                return again(*operands)
            result, odd = found
            if len(odd):
                count = len(result)
                result[odd] = again(*[y.reshape(count, *y.shape[-2:])[odd] for y in operands])
            return result.reshape(*operands[0].shape[:-2], *result.shape[1:])

        return called

    return decorate


def attempted(name: str, *operands: Array) -> tuple[Array, Array] | None:
    """Results of a kernel, one after the other, and the numbers of those that are wrong; None where none serves.

    >>> found = attempted("det", np.stack([np.eye(2)] * 20))
    >>> found is None or float(found[0].sum()) == 20.0
    True
    """
    x = operands[0]
    if not served(name, *operands):
        return None
    rows, columns = x.shape[-2:]
    count, given = math.prod(x.shape[:-2]), [_in_a_row(y) for y in operands]
    shape, numbers = _SHAPES[name](rows, columns, given[-1].shape[-1])
    found = _run[0](name, given, [(count, *shape), (count,)], numbers)
    return None if found is None else (found[0], np.flatnonzero(found[1]))


def served(name: str, *operands: Array) -> bool:
    """Are these of the types and shapes that the kernel ``name`` is for?

    >>> served("eigh", np.eye(3))  # one matrix
    False
    """
    x = operands[0]
    if not _run or not all(map(_fits, operands)) or any(_differ(x, y) for y in operands[1:]):
        return False
    most = MOST_ROTATED if x.dtype.char == "d" else MOST_COLUMNS
    return name not in _ROTATED or x.shape[-1] <= most


def triangles(a: Array, b: Array, lower: bool, out: Array) -> bool:
    """Solve triangular systems, in equal batches; False where that is left to others.

    >>> one = np.ones((2, 1, 1))
    >>> triangles(one, one, True, np.empty((2, 1, 1)))
    False
    """
    if not _run or not _fits(a) or not _fits(b) or _differ(a, b):
        return False
    count, (rows, columns) = math.prod(a.shape[:-2]), b.shape[-2:]
    given = [_in_a_row(x) for x in (a, b)]
    found = _run[0]("triangle", given, [(count, rows, columns)], (rows, columns, int(lower)))
    if found is not None:
        out[...] = found[0].reshape(out.shape)
    return found is not None


def _in_a_row(x: Array) -> Array:
    return np.ascontiguousarray(x).reshape(-1, *x.shape[-2:])


def _fits(x: Array) -> bool:
    if type(x) is not np.ndarray or x.ndim < 3 or x.dtype.char not in "fd" or not x.dtype.isnative:
        return False
    rows, columns = x.shape[-2:]
    few = 0 < columns <= MOST_COLUMNS and 0 < rows * columns <= MOST_ELEMENTS
    return bool(few and math.prod(x.shape[:-2]) >= LEAST)


def _differ(x: Array, y: Array) -> bool:
    return bool(x.dtype != y.dtype or x.shape[:-2] != y.shape[:-2])


#: From rows and columns, and columns on the right: the shape of the result of a matrix, and the kernel's numbers.
_SHAPES: dict[str, Callable[[int, int, int], tuple[tuple[int, ...], tuple[int, ...]]]] = {
    "inv": lambda m, n, r: ((m, n), (m,)),
    "cholesky": lambda m, n, r: ((m, n), (m,)),
    "det": lambda m, n, r: ((), (m,)),
    "solve": lambda m, n, r: ((m, r), (m, r)),
    "lu": lambda m, n, r: ((m, n + 1), (m, n)),
    "qr": lambda m, n, r: ((m + n, n), (m, n)),
    "svd": lambda m, n, r: ((m + 1 + n, n), (m, n)),
    "eigh": lambda m, n, r: ((n + 1, n), (n,)),
}
