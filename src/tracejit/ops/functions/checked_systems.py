"""Decompositions that report instead of raising, and what follows from singular values and solutions."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any, NamedTuple

from ... import dtypes
from ...errors import LinAlgError
from .. import comparison as c
from .. import decompositions as d
from .. import elementwise as e
from .. import linear_algebra as la
from .. import movement as m
from .. import reduction as r
from .. import source as s
from ..lapack_errors import text_of
from ..linear_algebra import adjoint
from ..precision import full_precision
from ..shapes import numel
from ..table import function
from .common import Tensor, as_type, constant, shape_of
from .complex_numbers import real
from .linear_algebra import checked, inverse, lower_alone, solve


class Factor(NamedTuple):
    """A factor, and for each matrix 0 where it was found."""

    L: Any
    info: Any


def first_of(found: Tensor) -> Tensor:
    """For each row of truths the number (from one) of the first that is true; 0 where none is."""
    count = shape_of(found)[-1]
    if not count:
        return constant(0, dtypes.int32, shape_of(found)[:-1])
    numbers = s.arange(start=1, step=1, count=count, dtype=dtypes.int32)
    first = r.amin(e.where(found, numbers, count + 1), dims=(found.ndim - 1,), keepdim=False)
    return as_type(e.where(c.eq(first, count + 1), 0, first), dtypes.int32)


def numbers_where_none(info: Tensor, found: Tensor) -> Tensor:
    """What was found for each matrix, NaN where ``info`` says that there is nothing."""
    none = m.unsqueeze(c.ne(info, 0), dims=(info.ndim, info.ndim + 1))
    return e.where(none, float("nan"), found)


def refuse_any(name: str, info: Tensor) -> None:
    """Raise ``RuntimeError`` about the first matrix that ``info`` is not 0 for, as the function ``name_ex`` does."""
    if not bool(c.ne(info, 0).any()):
        return
    orders = [int(x) for x in m.reshape(info, shape=(-1,)).tolist()]
    number = next(k for k, order in enumerate(orders) if order)
    text = text_of(name, number if info.ndim else None, orders[number], ex=True)
    raise LinAlgError(text)


@function(method=False, namespace=False, within=full_precision)
def cholesky_ex(A: Tensor, *, upper: bool = False, check_errors: bool = False) -> Factor:  # noqa: N803
    """The Cholesky factor and ``info``: 0, or where a matrix is not positive definite (and the factor NaN) the order
    of its first leading minor that is not.

    Raises ``RuntimeError`` for such matrices with ``check_errors``, and for matrices that are not square.

    >>> import tracejit as tj
    >>> tj.linalg.cholesky_ex(tj.diag(tj.tensor([4.0, -1.0]))).info
    tensor(2, dtype=tracejit.int32)
    """
    checked("cholesky_ex", A)
    n = la.square(A.spec).shape[-1]
    packed = d.cholesky_tried(lower_alone(adjoint(A) if upper else A))
    if n:
        order = m.diagonal(
            la.rows_of(e.detach_copy(packed), n, 1), offset=0, dim1=A.ndim - 2, dim2=A.ndim - 1
        )
        info = as_type(real(m.squeeze(order, dims=(A.ndim - 2,))), dtypes.int32)
    else:
        info = constant(0, dtypes.int32, shape_of(A)[:-2])
    if check_errors:
        refuse_any("cholesky", info)
    lower = la.rows_of(packed, 0, n)
    return Factor(adjoint(lower) if upper else lower, info)


@function(method=False, namespace=False, within=full_precision)
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


@function(method=False, namespace=False, within=full_precision)
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
