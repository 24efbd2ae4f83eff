"""Decompositions that report instead of raising, and what follows from singular values and solutions."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any, NamedTuple

from ... import dtypes
from ...errors import LinAlgError
from .. import elementwise as e
from .. import movement as m
from ..shapes import numel
from ..table import function
from .common import Number, Tensor, constant, shape_of
from .linear_algebra import cholesky, inverse, solve, svdvals
from .matrix_norms import matrix_norm


class Factor(NamedTuple):
    """A factor, and for each matrix 0 where it was found."""

    L: Any
    info: Any


class Inverse(NamedTuple):
    """An inverse, and for each matrix 0 where it was found."""

    inverse: Any
    info: Any


def _tried(found: Any, A: Tensor, check_errors: bool) -> tuple[Tensor, Tensor]:  # noqa: N803
    """The result and zeros; where a matrix has none, NaN and ones for all of the batch."""
    batch = shape_of(A)[:-2]
    try:
        return found(), constant(0, dtypes.int32, batch)
    except LinAlgError:
        if check_errors:
            raise
        return e.mul(A, float("nan")), constant(1, dtypes.int32, batch)


@function(method=False, namespace=False)
def cholesky_ex(A: Tensor, *, upper: bool = False, check_errors: bool = False) -> Factor:  # noqa: N803
    """The Cholesky factor and ``info``: 0, or 1 (and NaN) when a matrix of the batch is not positive definite.

    >>> import tracejit as tj
    >>> tj.linalg.cholesky_ex(-tj.eye(2)).info
    tensor(1, dtype=tracejit.int32)
    """
    return Factor(*_tried(lambda: cholesky(A, upper=upper), A, check_errors))


@function(method=False, namespace=False)
def inv_ex(A: Tensor, *, check_errors: bool = False) -> Inverse:  # noqa: N803
    """The inverse and ``info``: 0, or 1 (and NaN) when a matrix of the batch is singular.

    >>> import tracejit as tj
    >>> tj.linalg.inv_ex(tj.eye(1)).inverse
    tensor([[1.]])
    """
    return Inverse(*_tried(lambda: inverse(A), A, check_errors))


@function(method=False, namespace=False)
def cond(A: Tensor, p: Number | str | None = None) -> Tensor:  # noqa: N803
    """How much larger relative errors may become: the product of the ``p`` norms of a matrix and its inverse.

    Without ``p``, and for 2 and -2, a ratio of singular values. Raises ``RuntimeError`` for singular matrices and
    other norms.

    >>> import tracejit as tj
    >>> tj.linalg.cond(tj.tensor([[1.0, 0.0], [0.0, 4.0]]))
    tensor(4.)
    """
    if p is None or p in (2, -2):
        values = svdvals(A)
        first, last = values[..., 0], values[..., -1]
        return e.div(last, first) if p == -2 else e.div(first, last)
    return e.mul(matrix_norm(A, p), matrix_norm(inverse(A), p))


@function(method=False, namespace=False)
def tensorsolve(A: Tensor, B: Tensor, dims: Sequence[int] | None = None) -> Tensor:  # noqa: N803
    """X with ``tensordot(A, X, X.ndim) = B``; ``dims`` of A are moved to its end first.

    Raises ``RuntimeError`` when the shapes do not make a square system.

    >>> import tracejit as tj
    >>> tj.linalg.tensorsolve(tj.eye(4).reshape(2, 2, 4), tj.ones(2, 2))
    tensor([1., 1., 1., 1.])
    """
    if dims is not None:
        moved = [d % A.ndim for d in dims]
        A = m.permute(A, dims=(*(d for d in builtins.range(A.ndim) if d not in moved), *moved))
    rest, count = shape_of(A)[B.ndim :], numel(shape_of(B))
    if numel(rest) != count:
        raise RuntimeError(
            "Expected self to satisfy the requirement prod(self.shape[other.ndim:]) == "
            f"prod(self.shape[:other.ndim]), but got {numel(rest)} != {count}"
        )
    found = solve(m.reshape(A, shape=(count, count)), m.reshape(B, shape=(count,)))
    return m.reshape(found, shape=rest)


@function(method=False, namespace=False)
def tensorinv(A: Tensor, ind: int = 2) -> Tensor:  # noqa: N803
    """The inverse of ``tensordot(A, X, A.ndim - ind)``. Raises ``RuntimeError`` when the shapes make no square one.

    >>> import tracejit as tj
    >>> tj.linalg.tensorinv(tj.eye(4).reshape(2, 2, 4)).shape
    tracejit.Size([4, 2, 2])
    """
    if ind <= 0:
        raise RuntimeError("Expected a strictly positive integer for 'ind'")
    first, last = shape_of(A)[:ind], shape_of(A)[ind:]
    if numel(first) != numel(last):
        raise RuntimeError(
            "Expected self to satisfy the requirement prod(self.shape[ind:]) == prod(self.shape[:ind]), "
            f"but got {numel(last)} != {numel(first)}"
        )
    count = numel(first)
    return m.reshape(inverse(m.reshape(A, shape=(count, count))), shape=(*last, *first))
