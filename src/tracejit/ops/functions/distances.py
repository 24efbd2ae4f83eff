"""Distances between rows."""

from __future__ import annotations

import math

from ...errors import ArgumentValueError, DtypeError, ShapeError
from .. import comparison as c
from .. import elementwise as e
from .. import indexing as ix
from .. import limits, shapes
from .. import movement as m
from .. import reduction as r
from ..precision import full_precision
from ..table import function
from .common import Number, Tensor, alone, require_float, shape_of
from .matrices import matmul
from .norms import vector_norm
from .reductions import root
from .triangles import triu_indices

#: From more rows than this on, Euclidean distances are had from a product of matrices.
FEW_ROWS = 25
#: ``compute_mode`` of :func:`cdist`: is a product taken (None: where there are many rows)?
MODES = {
    "use_mm_for_euclid_dist_if_necessary": None,
    "use_mm_for_euclid_dist": True,
    "donot_use_mm_for_euclid_dist": False,
}


@function(method=False, within=full_precision, large=True)
def cdist(
    x1: Tensor,
    x2: Tensor,
    p: Number = 2.0,
    compute_mode: str = "use_mm_for_euclid_dist_if_necessary",
) -> Tensor:
    """The ``p`` norm distances between the rows of two batches of matrices, (..., P, M) and (..., R, M): (..., P, R).

    Euclidean distances are the roots of ``|x|**2 + |y|**2 - 2 x y`` where there are more than 25 rows on either side,
    which takes a product of matrices and no memory beyond the result, and loses digits of small distances between
    long rows; ``compute_mode`` "use_mm_for_euclid_dist" does so always, "donot_use_mm_for_euclid_dist" never. Raises
    ``RuntimeError`` for other shapes, dtypes without fractions and negative ``p``, ``ValueError`` for other modes.

    >>> import tracejit as tj
    >>> tj.cdist(tj.tensor([[0.0, 0.0]]), tj.tensor([[3.0, 4.0], [0.0, 1.0]]))
    tensor([[5., 1.]])
    """
    if compute_mode not in MODES:
        raise ArgumentValueError(f"{compute_mode} is not a valid value for compute_mode")
    for name, x in (("X1", x1), ("X2", x2)):
        if not x.dtype.is_floating_point:
            raise DtypeError(
                f"cdist only supports floating-point dtypes, {name} got: {x.dtype.title}"
            )
        if x.ndim < 2:
            raise ShapeError(f"cdist only supports at least 2D tensors, {name} got: {x.ndim}D")
    if shape_of(x1)[-1] != shape_of(x2)[-1]:
        raise ShapeError(
            "X1 and X2 must have the same number of columns. X1: "
            f"{shape_of(x1)[-1]} X2: {shape_of(x2)[-1]}"
        )
    if p < 0:
        raise RuntimeError("cdist only supports non-negative p values")
    shapes.broadcast("cdist", [shape_of(x1)[:-2], shape_of(x2)[:-2]])
    if p == 2 and _by_product(x1, x2, MODES[compute_mode]):
        return _euclidean(x1, x2)
    left, right = m.unsqueeze(x1, dims=(x1.ndim - 1,)), m.unsqueeze(x2, dims=(x2.ndim - 2,))
    return _norm(e.sub(left, right), p)


def _norm(apart: Tensor, p: Number) -> Tensor:
    """Norms along the last dimension; of the largest parts, where several are, each has the whole gradient."""
    if p != math.inf or not shape_of(apart)[-1]:
        return vector_norm(apart, p if shape_of(apart)[-1] else 1, -1)
    last = (apart.ndim - 1,)
    parts = e.abs(apart)
    found = r.amax(parts, dims=last, keepdim=True)
    top = e.detach_copy(found)
    moved = e.where(c.eq(parts, top), e.sub(parts, top), 0.0)
    whole = e.add(top, r.sum(moved, dims=last, keepdim=True))
    return alone(m.squeeze(e.where(c.isfinite(top), whole, found), dims=last))


def _by_product(x1: Tensor, x2: Tensor, asked: bool | None) -> bool:
    if asked is not None:
        return asked
    return bool(shape_of(x1)[-2] > FEW_ROWS or shape_of(x2)[-2] > FEW_ROWS)


def _euclidean(x1: Tensor, x2: Tensor) -> Tensor:
    of_rows = r.sum(e.square(x1), dims=(x1.ndim - 1,), keepdim=True)
    of_columns = r.sum(e.square(x2), dims=(x2.ndim - 1,), keepdim=False)
    of_columns = m.unsqueeze(of_columns, dims=(x2.ndim - 2,))
    mixed = matmul(x1, x2.mT)
    squares = e.add(e.sub(of_rows, e.mul(mixed, 2)), of_columns)
    return root(limits.clamp_min(squares, 0))


@function(method=False, large=True)
def pdist(input: Tensor, p: Number = 2.0) -> Tensor:
    """The ``p`` norm distances between all pairs of rows of (N, M), as a vector.

    Raises ``RuntimeError`` unless ``input`` is a matrix, and for negative ``p``.

    >>> import tracejit as tj
    >>> tj.pdist(tj.tensor([[0.0, 0.0], [3.0, 4.0], [0.0, 1.0]]))
    tensor([5.0000, 1.0000, 4.2426])
    """
    require_float("pdist", input)
    if input.ndim != 2:
        raise ShapeError(f"pdist only supports 2D tensors, got: {input.ndim}D")
    if p < 0:
        raise RuntimeError("pdist only supports non-negative p values")
    rows = shape_of(input)[0]
    first, second = triu_indices(rows, rows, 1).unbind(0)
    difference = e.sub(ix.take(input, first, dim=0), ix.take(input, second, dim=0))
    return _norm(difference, p)
