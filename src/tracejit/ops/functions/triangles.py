"""Diagonals and triangles: eye, triu, tril, diag, diag_embed, and their positions."""

from __future__ import annotations

from collections.abc import Callable
from operator import index
from typing import Any

from ... import dtypes
from ...errors import ShapeError
from .. import comparison as c
from .. import elementwise as e
from .. import movement as m
from .. import shapes
from .. import source as s
from ..table import function
from .common import Tensor, as_type, dim_of, refuse_but_indices, shape_of
from .factories import made


@function(method=False)
def eye(
    n: int,
    m: int | None = None,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Ones on the diagonal of an ``n`` by ``m`` matrix of zeros.

    >>> import tracejit as tj
    >>> tj.eye(2)
    tensor([[1., 0.],
            [0., 1.]])
    """
    columns = n if m is None else m
    for name, count in (("n", n), ("m", columns)):
        if count < 0:
            raise RuntimeError(f"{name} must be greater or equal to 0, got {count}")
    kind = dtypes.get_default_dtype() if dtype is None else dtypes.as_dtype(dtype)
    result = as_type(c.eq(positions(n, -1), positions(columns, 0)), kind)
    return made(result, requires_grad, device)


def positions(count: int, axis: int) -> Tensor:
    """0, 1, ... as a row (axis 0) or a column (axis -1)."""
    row = s.arange(start=0, step=1, count=count, dtype=dtypes.int64)
    return m.unsqueeze(row, dims=(1,)) if axis == -1 else row


def _triangle(x: Tensor, keep: Callable[..., Tensor], diagonal: int) -> Tensor:
    if x.ndim < 2:
        raise RuntimeError("triangle: input tensor must have at least 2 dimensions")
    rows, columns = shape_of(x)[-2:]
    offset = e.sub(positions(columns, 0), positions(rows, -1))
    return e.where(keep(offset, diagonal), x, False if x.dtype is dtypes.bool_ else 0)


@function(steady=True, large=True)
def triu(input: Tensor, diagonal: int = 0) -> Tensor:
    """The upper triangle of matrices, zeros below ``diagonal``.

    >>> import tracejit as tj
    >>> tj.triu(tj.ones(2, 2))
    tensor([[1., 1.],
            [0., 1.]])
    """
    return _triangle(input, c.ge, diagonal)


@function(steady=True, large=True)
def tril(input: Tensor, diagonal: int = 0) -> Tensor:
    """The lower triangle of matrices, zeros above ``diagonal``.

    >>> import tracejit as tj
    >>> tj.tril(tj.ones(2, 2))
    tensor([[1., 0.],
            [1., 1.]])
    """
    return _triangle(input, c.le, diagonal)


def _count_below(row: int, col: int, offset: int) -> int:
    """How many elements of a matrix lie on and below a diagonal."""

    def first_rows(n: int) -> int:  # of a matrix whose first one has one such element
        return 0 if n <= 0 else n * (n + 1) // 2 if n <= col else col * (2 * n + 1 - col) // 2

    return first_rows(offset + row) - first_rows(offset)


def _positions(name: str, row: int, col: int, offset: int, dtype: Any, device: Any) -> Tensor:
    """Where the lower triangle of a matrix is, or what lies above ``offset``, if that is the name of the function."""
    kind = dtypes.as_dtype(dtype)
    refuse_but_indices(name, kind)
    for extent, size in (("row", row), ("col", col)):
        if size < 0:
            raise RuntimeError(f"{extent} must be non-negative, got {size}")
    below, lower = _count_below(row, col, offset), name == "tril_indices"
    count = below if lower else row * col - below
    shapes.refuse_vast((2, count), 8)
    extents = {"rows": row, "columns": col, "offset": offset, "lower": lower, "count": count}
    return made(as_type(s.triangle(**extents), kind), False, device)


@function(method=False)
def tril_indices(
    row: int, col: int, offset: int = 0, *, dtype: Any = dtypes.int64, device: Any = None
) -> Tensor:
    """Row and column positions of the lower triangle of a ``row`` by ``col`` matrix.

    >>> import tracejit as tj
    >>> tj.tril_indices(2, 2)
    tensor([[0, 1, 1],
            [0, 0, 1]])
    """
    row, col, offset = map(index, (row, col, offset))
    return _positions("tril_indices", row, col, offset, dtype, device)


@function(method=False)
def triu_indices(
    row: int, col: int, offset: int = 0, *, dtype: Any = dtypes.int64, device: Any = None
) -> Tensor:
    """Row and column positions of the upper triangle of a ``row`` by ``col`` matrix.

    >>> import tracejit as tj
    >>> tj.triu_indices(2, 2)
    tensor([[0, 0, 1],
            [0, 1, 1]])
    """
    row, col, offset = map(index, (row, col, offset))
    return _positions("triu_indices", row, col, offset - 1, dtype, device)


@function()
def diag_embed(input: Tensor, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """Matrices with ``input``'s last dimension on a diagonal.

    >>> import tracejit as tj
    >>> tj.diag_embed(tj.tensor([1, 2]))
    tensor([[1, 0],
            [0, 2]])
    """
    a, b = dim_of(dim1, input, extra=1), dim_of(dim2, input, extra=1)
    if a == b:
        raise ShapeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    size = shape_of(input)[-1] + abs(offset)
    low, high = sorted((a, b))
    shape = list(shape_of(input)[:-1])
    shape.insert(low, size)
    shape.insert(high, size)
    base = s.full(shape=tuple(shape), value=0, dtype=input.dtype)
    return m.diagonal_scatter(base, input, offset=offset, dim1=a, dim2=b)


@function(steady=True)
def diag(input: Tensor, diagonal: int = 0) -> Tensor:
    """A vector as a diagonal matrix; the diagonal of a matrix (a copy).

    Raises ``RuntimeError`` for other ranks.

    >>> import tracejit as tj
    >>> tj.diag(tj.tensor([[1, 2], [3, 4]]))
    tensor([1, 4])
    """
    if input.ndim == 1:
        return diag_embed(input, diagonal)
    if input.ndim != 2:
        raise RuntimeError(f"diag(): Supports 1D or 2D tensors. Got {input.ndim}D")
    return e.clone(m.diagonal(input, offset=diagonal, dim1=0, dim2=1))
