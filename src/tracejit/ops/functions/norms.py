"""Norms and distances."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import wraps
from typing import Any

from ... import dtypes
from ...dtypes import DType
from ...errors import DtypeError, ShapeError
from .. import comparison as c
from .. import elementwise as e
from .. import movement as m
from .. import reduction as r
from ..complex_numbers import magnitude
from ..keywords import as_called
from ..table import function
from .common import (
    Number,
    Tensor,
    as_type,
    dims_of,
    is_tensor,
    shape_of,
    upcast,
)
from .reductions import Dim, root


def summands(name: str, x: Tensor, dtype: DType | None) -> Tensor:
    """``x`` in ``dtype`` where that is given. ``RuntimeError`` for integers, and where it does not fit."""
    if not x.dtype.is_differentiable:
        raise DtypeError(
            f"{name}: Expected a floating point or complex tensor as input. Got {x.dtype.title}"
        )
    if dtype is None:
        return x
    kind = dtypes.as_dtype(dtype)
    if not kind.is_differentiable:
        raise DtypeError(f"{name}: dtype should be floating point or complex, but got {kind.title}")
    if kind.is_complex is not x.dtype.is_complex:
        own = "complex" if x.dtype.is_complex else "real"
        raise DtypeError(f"{name}: dtype should be {own} for {own} inputs, but got {kind.title}")
    if dtypes.promote_types(x.dtype, kind) is not kind:
        raise DtypeError(
            f"{name}: the dtype of the input ({x.dtype.title}) should be convertible without narrowing to the "
            f"specified dtype ({kind.title})"
        )
    return as_type(x, kind)


@function(method=False, namespace=False, steady=True, large=True)
def vector_norm(
    x: Tensor,
    ord: Number = 2,
    dim: Dim = None,
    keepdim: bool = False,
    *,
    dtype: DType | None = None,
) -> Tensor:
    """``sum(|x|**ord)**(1/ord)`` over ``dim``; inf, -inf and 0 as their limits.

    Raises ``RuntimeError`` for integers, also where ``dtype`` is given, and for a ``dtype`` that is narrower.

    >>> import tracejit as tj
    >>> tj.norm(tj.tensor([3.0, 4.0]))
    tensor(5.)
    """
    x = summands("linalg.vector_norm", x, dtype)
    if x.dtype.is_complex:
        x = magnitude(x)
    if isinstance(ord, complex):
        raise RuntimeError(
            "linalg.vector_norm: Expected a non-complex scalar as the order of norm."
        )
    wide, dims = upcast(x), dims_of(dim, x)
    if (ord < 0 or ord == math.inf) and 0 in [shape_of(x)[d] for d in dims]:
        raise ShapeError(
            f"linalg.vector_norm cannot compute the {ord} norm on an empty tensor because the operation "
            "does not have an identity"
        )
    return as_type(_norm_of(wide, ord, dims, keepdim), x.dtype)


def _norm_of(x: Tensor, p: Number, dims: tuple[int, ...], keepdim: bool) -> Tensor:
    if p == 2:
        return root(r.sum(e.square(x), dims=dims, keepdim=keepdim))
    if p == 0:
        present = e.where(c.ne(x, 0), 1.0, e.mul(x, 0.0))  # no gradient, but one that exists
        return r.sum(present, dims=dims, keepdim=keepdim)
    size = e.abs(x)
    if p == 1:
        return r.sum(size, dims=dims, keepdim=keepdim)
    if p == math.inf:
        return r.amax(size, dims=dims, keepdim=keepdim, missing=True)
    if p == -math.inf:
        return r.amin(size, dims=dims, keepdim=keepdim, missing=True)
    if p < 0:  # one element of zero decides, and has no slope
        absent = c.eq(r.amin(e.detach_copy(size), dims=dims, keepdim=True), 0)
        total = r.sum(e.pow(e.where(absent, 1.0, size), p), dims=dims, keepdim=keepdim)
        absent = absent if keepdim else m.squeeze(absent, dims=dims)
        return e.where(absent, 0.0, e.pow(total, 1.0 / p))
    if p < 1:  # zeros have no slope
        absent = c.eq(size, 0)
        powers = e.where(absent, 0.0, e.pow(e.where(absent, 1.0, size), p))
    else:
        powers = e.pow(size, p)
    total = r.sum(powers, dims=dims, keepdim=keepdim)
    zero = c.eq(total, 0)
    return e.where(zero, 0.0, e.pow(e.where(zero, 1.0, total), 1.0 / p))


def _after_keepdim(target: Callable[..., Any]) -> Callable[..., Any]:
    """``target``, which may be given what follows ``keepdim`` without a name: a dtype, ``out``, or both."""

    @wraps(target)
    def call(*args: Any, **kwargs: Any) -> Any:
        if not 4 < len(args) < 7:
            return target(*args, **kwargs)
        rest = args[4:]
        if len(rest) == 1 and rest[0] is not None and not is_tensor(rest[0]):
            return target(*args[:4], dtype=rest[0], **kwargs)  # as the method takes it
        if len(rest) == 1:
            return as_called(target)(*args[:4], out=rest[0], **kwargs)
        out, dtype = rest
        return as_called(target)(*args[:4], out=out, dtype=dtype, **kwargs)

    return call


@function(steady=True, large=True, within=_after_keepdim)
def norm(
    input: Tensor,
    p: Any = "fro",
    dim: Dim = None,
    keepdim: bool = False,
    *,
    dtype: DType | None = None,
) -> Tensor:
    """The vector norm of order ``p`` over ``dim`` ("fro" is 2).

    Raises ``RuntimeError`` for integers.

    >>> import tracejit as tj
    >>> tj.norm(tj.tensor([[3.0, 4.0], [6.0, 8.0]]), dim=1)
    tensor([ 5., 10.])
    """
    if p == "nuc":
        from .matrix_norms import matrix_norm

        every = (dim,) if isinstance(dim, int) else dim
        every = tuple(range(input.ndim)) if dim is None else every
        return matrix_norm(input, p, every, keepdim, dtype=dtype)
    return vector_norm(input, 2 if p in ("fro", None) else p, dim, keepdim, dtype=dtype)


@function(large=True)
def dist(input: Tensor, other: Tensor, p: Number = 2) -> Tensor:
    """The ``p`` norm of ``input - other``.

    >>> import tracejit as tj
    >>> tj.dist(tj.zeros(2), tj.tensor([3.0, 4.0]))
    tensor(5.)
    """
    return vector_norm(e.sub(input, other), p)


@function(method=False)
def frobenius_norm(input: Tensor, dim: Dim = None, keepdim: bool = False) -> Tensor:
    """The root of the sum of squares over ``dim``.

    >>> import tracejit as tj
    >>> tj.frobenius_norm(tj.tensor([[3.0, 4.0]]))
    tensor(5.)
    """
    return vector_norm(input, 2, dim, keepdim)


@function(method=False)
def nuclear_norm(input: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
    """The sum of the singular values of matrices, which lie along the two dimensions ``dim``.

    >>> import tracejit as tj
    >>> tj.nuclear_norm(tj.eye(2))
    tensor(2.)
    """
    return norm(input, "nuc", (-2, -1) if dim is None else dim, keepdim)
