"""Why a batch of matrices has no inverse, factor or decomposition: the first that fails, in PyTorch's words.

NumPy only says that some matrix of a batch failed. Which one, and where in it, is found out when it has happened.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .host_matrices import lapack_of
from .op import Array

__all__ = ["reason"]

_TEXTS = {
    "inv": "linalg.inv: {which}The diagonal element {order} is zero, the inversion could not be completed because "
    "the input matrix is singular.",
    "solve": "torch.linalg.solve: {which}The solver failed because the input matrix is singular.",
    "cholesky": "linalg.cholesky: {which}The factorization could not be completed because the input is not "
    "positive-definite (the leading minor of order {order} is not positive-definite).",
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
    if order_of is not None and type(x) is np.ndarray and x.size:
        for number, matrix in enumerate(x.reshape(-1, *x.shape[-2:])):
            order = order_of(matrix)
            if order:
                which = f"(Batch element {number}): " if x.ndim > 2 else ""
                text = "nan" if name == "svd" and np.isnan(matrix).any() else name
                return _TEXTS[text].format(which=which, order=order)
    return f"linalg.{name}: {otherwise}"


def _zero_pivot(matrix: Array) -> int:
    """The number of the first pivot that is zero."""
    lapack = lapack_of(matrix)
    return int(lapack("getrf")(matrix.T)[2]) if lapack is not None else 0


def _minor(matrix: Array) -> int:
    """The order of the first leading minor that is not positive; what is no number is not."""
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
    "cholesky": _minor,
    "eigh": _not_finite,
    "svd": _not_finite,
}
