"""Why a batch of matrices has no inverse, factor or decomposition: the first that fails, in PyTorch's words.

NumPy only says that some matrix of a batch failed. Which one, and where in it, is found out when it has happened.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .host_matrices import lapack_of
from .op import Array

__all__ = ["leading_minor", "reason", "text_of", "zero_on_diagonal"]

_TEXTS = {
    "inv": "linalg.inv{ex}: {which}The diagonal element {order} is zero, the inversion could not be completed because "
    "the input matrix is singular.",
    "cholesky_inverse": "cholesky_inverse: {which}The diagonal element {order} is zero, the inversion could not be "
    "completed because the input matrix is singular.",
    "solve": "torch.linalg.solve{ex}: {which}The solver failed because the input matrix is singular.",
    "cholesky": "linalg.cholesky{ex}: {which}The factorization could not be completed because the input is not "
    "positive-definite (the leading minor of order {order} is not positive-definite).",
    "lu_factor": "torch.linalg.lu_factor{ex}: {which}U[{order},{order}] is zero and using it on lu_solve would "
    "result in a division by zero. If you still want to perform the factorization, consider calling "
    "linalg.lu(A, pivot) or linalg.lu_factor_ex(A, pivot)",
    "ldl_factor": "torch.linalg.ldl_factor{ex}: {which}D has a zero on its diagonal, as element {order}: the matrix is "
    "singular.",
    "eigh": "linalg.eigh: {which}The algorithm failed to converge because the input matrix is ill-conditioned or has "
    "too many repeated eigenvalues (error code: {order}).",
    "svd": "linalg.svd: {which}The algorithm failed to converge because the input matrix is ill-conditioned or has too "
    "many repeated singular values (error code: {order}).",
    "nan": "linalg.svd: {which}The algorithm failed to converge because the input matrix contained non-finite values.",
}


def reason(name: str, x: Array, otherwise: str) -> str:
    """The message for matrices ``x`` that the function ``name`` failed for; ``otherwise`` is what NumPy says.

    >>> reason("inv", np.stack([np.eye(2), np.zeros((2, 2))]), "Singular matrix")[:50]
    'linalg.inv: (Batch element 1): The diagonal elemen'
    """
    order_of = _ORDERS.get(name)
    if order_of is not None and x.size:
        given = x if type(x) is np.ndarray else x.get()
        for number, matrix in enumerate(given.reshape(-1, *x.shape[-2:])):
            order = order_of(matrix)
            if order:
                text = "nan" if name == "svd" and np.isnan(matrix).any() else name
                return text_of(text, number if x.ndim > 2 else None, order)
    return f"linalg.{name}: {otherwise}"


def text_of(name: str, number: int | None, order: int, *, ex: bool = False) -> str:
    """The message of the function ``name``, or ``name_ex``, about a matrix; ``number``: which one of a batch.

    >>> text_of("solve", 3, 1, ex=True)[:45]
    'torch.linalg.solve_ex: (Batch element 3): The'
    """
    which = "" if number is None else f"(Batch element {number}): "
    return _TEXTS[name].format(which=which, order=order, ex="_ex" if ex else "")


def _zero_pivot(matrix: Array) -> int:
    """The number of the first pivot that is zero."""
    lapack = lapack_of(matrix)
    return int(lapack("getrf")(matrix.T)[2]) if lapack is not None else 0


def zero_on_diagonal(matrix: Array) -> int:
    """The number (from one) of the first zero on a diagonal; 0 where there is none.

    >>> zero_on_diagonal(np.diag([2.0, 0.0]))
    2
    """
    zeros = np.flatnonzero(np.diagonal(matrix) == 0)
    return int(zeros[0]) + 1 if len(zeros) else 0


def leading_minor(matrix: Array) -> int:
    """The order of the first leading minor that is not positive; what is no number is not.

    >>> leading_minor(np.eye(2)), leading_minor(np.diag([2.0, -1.0]))
    (0, 2)
    """
    rest = np.tril(matrix)
    with np.errstate(all="ignore"):
        for k in range(len(rest)):
            pivot = rest[k, k].real
            if not pivot > 0:
                return k + 1
            below = rest[k + 1 :, k] / np.sqrt(pivot)
            rest[k + 1 :, k + 1 :] -= np.multiply.outer(below, below.conj())
    return 0


def _not_finite(matrix: Array) -> int:
    """What LAPACK gives for a matrix with numbers that are none: all off the diagonal are left."""
    return 0 if np.isfinite(matrix).all() else max(len(matrix) - 1, 1)


_ORDERS: dict[str, Callable[[Any], int]] = {
    "inv": _zero_pivot,
    "solve": _zero_pivot,
    "cholesky": leading_minor,
    "cholesky_inverse": zero_on_diagonal,
    "lu_factor": zero_on_diagonal,
    "eigh": _not_finite,
    "svd": _not_finite,
}
