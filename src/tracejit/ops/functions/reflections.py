"""QR with all its modes, and products of the reflections that it is made of."""

from __future__ import annotations

from typing import NamedTuple

from ... import dtypes
from ...errors import ShapeError
from .. import comparison as c
from .. import elementwise as e
from .. import linear_algebra as la
from .. import movement as m
from .. import source as s
from ..linear_algebra import adjoint
from ..precision import full_precision
from ..symmetric_factors import reflections_packed
from ..table import function
from .common import Tensor, as_type, conjugated, shape_of
from .linear_algebra import Factors, checked, qr
from .matrices import matmul
from .slicing import narrow, select
from .triangles import eye


class Reflections(NamedTuple):
    """R above vectors of reflections, and the factors of these."""

    a: Tensor
    tau: Tensor


@function(method=False, namespace=False)
def orthogonal_factors(A: Tensor, mode: str = "reduced") -> Factors:
    """Q and R with ``A = Q @ R``: the first columns of Q ("reduced"), all ("complete"), or none, which is empty ("r").

    Raises ``RuntimeError`` for other modes.

    >>> import tracejit as tj
    >>> tj.linalg.qr(tj.tensor([[3.0], [4.0]]), mode="r").R.abs()
    tensor([[5.]])
    """
    if mode not in ("reduced", "complete", "r"):
        raise RuntimeError(
            f"qr received unrecognized mode '{mode}' but expected one of 'reduced' (default), 'r', or 'complete'"
        )
    found = qr(A, some=mode != "complete")
    return Factors(s.full(shape=(0,), value=0, dtype=A.dtype), found.R) if mode == "r" else found


@function(within=full_precision)
def geqrf(input: Tensor) -> Reflections:
    """R above the vectors of the reflections that make Q, and the factors of these. There is no gradient.

    >>> import tracejit as tj
    >>> tj.geqrf(tj.tensor([[3.0], [4.0]])).a
    tensor([[-5.0000],
            [ 0.5000]])
    """
    packed = reflections_packed(checked("geqrf", input))
    rows, columns = shape_of(input)[-2:]
    factors = select(la.rows_of(packed, rows, 1), -2, 0)
    return Reflections(la.rows_of(packed, 0, rows), narrow(factors, -1, 0, min(rows, columns)))


def _reflected(A: Tensor, tau: Tensor, x: Tensor, back: bool) -> Tensor:
    """``H_1 @ ... @ H_k @ x``, or with ``back`` the adjoint of that product times x."""
    rows = shape_of(A)[-2]
    numbers = s.arange(start=0, step=1, count=rows, dtype=dtypes.int64)
    order = range(shape_of(tau)[-1])
    for i in order if back else reversed(order):
        vector = e.where(c.gt(numbers, i), select(A, -1, i), as_type(c.eq(numbers, i), A.dtype))
        column = m.unsqueeze(vector, dims=(vector.ndim,))
        factor = select(tau, -1, i)
        factor = m.unsqueeze(conjugated(factor) if back else factor, dims=(tau.ndim - 1, tau.ndim))
        x = e.sub(x, e.mul(factor, matmul(column, matmul(adjoint(column), x))))
    return x


@function(method=False, namespace=False, within=full_precision)
def householder_product(A: Tensor, tau: Tensor) -> Tensor:
    """The first columns of the product of reflections ``1 - tau * v @ v.mH``, v the columns below A's diagonal.

    Raises ``RuntimeError`` for shapes that do not fit.

    >>> import tracejit as tj
    >>> tj.linalg.householder_product(tj.tensor([[0.0], [0.0]]), tj.tensor([2.0]))
    tensor([[-1.],
            [ 0.]])
    """
    checked("householder_product", A)
    rows, columns = la.matrices(A.spec).shape[-2:]
    if rows < columns:
        raise ShapeError(
            "linalg.householder_product: input.shape[-2] must be greater than or equal to input.shape[-1]"
        )
    if columns < shape_of(tau)[-1]:
        raise ShapeError(
            "linalg.householder_product: input.shape[-1] must be greater than or equal to tau.shape[-1]"
        )
    base = m.expand(eye(rows, columns, dtype=A.dtype), shape=shape_of(A))
    return _reflected(A, tau, base, False)


@function(within=full_precision)
def orgqr(input: Tensor, tau: Tensor) -> Tensor:
    """:func:`tracejit.linalg.householder_product`.

    >>> import tracejit as tj
    >>> tj.orgqr(tj.zeros(1, 1), tj.tensor([2.0]))
    tensor([[-1.]])
    """
    return householder_product(input, tau)


@function(within=full_precision)
def ormqr(
    input: Tensor, tau: Tensor, other: Tensor, left: bool = True, transpose: bool = False
) -> Tensor:
    """The square product of reflections (with ``transpose`` its adjoint) times ``other``, or ``other`` times it.

    >>> import tracejit as tj
    >>> tj.ormqr(tj.zeros(1, 1), tj.tensor([2.0]), tj.tensor([[3.0]]))
    tensor([[-3.]])
    """
    checked("ormqr", input)
    if input.ndim < 2:
        raise ShapeError("ormqr: input must have at least 2 dimensions.")
    if left:
        return _reflected(input, tau, other, transpose)
    return adjoint(_reflected(input, tau, adjoint(other), not transpose))
