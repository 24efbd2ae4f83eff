"""Extremes over dimensions: max, min, amax, amin, argmax, argmin, aminmax."""

from __future__ import annotations

from typing import Any

from ... import dtypes
from .. import elementwise as e
from .. import indexing as ix
from .. import movement as m
from .. import reduction as r
from .. import shapes
from ..table import function
from . import return_types as types
from .common import (
    Tensor,
    alone,
    check_tensor,
    dim_of,
    dims_of,
    is_tensor,
    shape_of,
)
from .reductions import Dim, dim_told
from .return_types import Found


def _refuse_empty(name: str, x: Tensor, error: type[Exception] = RuntimeError) -> None:
    if shapes.numel(shape_of(x)) == 0:
        raise error(
            f"{name}(): Expected reduction dim to be specified for input.numel() == 0. Specify the "
            "reduction dim with the 'dim' argument."
        )


@function(steady=True)
def amax(input: Tensor, dim: Dim = (), keepdim: bool = False) -> Tensor:
    """The largest element over ``dim``; NaN if one is there. Equal ones share the gradient.

    Raises ``IndexError`` over a dimension without elements, ``RuntimeError`` over all of none.

    >>> import tracejit as tj
    >>> tj.amax(tj.tensor([[1, 5], [4, 2]]), 1)
    tensor([5, 4])
    """
    if dim == ():
        _refuse_empty("amax", input)
    return r.amax(input, dims=dims_of(dim, input), keepdim=keepdim)


@function()
def amin(input: Tensor, dim: Dim = (), keepdim: bool = False) -> Tensor:
    """The smallest element over ``dim``; NaN if one is there. Equal ones share the gradient.

    Raises ``IndexError`` over a dimension without elements, ``RuntimeError`` over all of none.

    >>> import tracejit as tj
    >>> tj.amin(tj.tensor([[1, 5], [4, 2]]), 1)
    tensor([1, 2])
    """
    if dim == ():
        _refuse_empty("amin", input)
    return r.amin(input, dims=dims_of(dim, input), keepdim=keepdim)


@function()
def aminmax(input: Tensor, *, dim: int | None = None, keepdim: bool = False) -> types.aminmax:
    """The smallest and the largest element.

    Raises ``IndexError`` over a dimension without elements, ``RuntimeError`` over all of none.

    >>> import tracejit as tj
    >>> tj.aminmax(tj.tensor([3, 1, 2]))
    tracejit.return_types.aminmax(
    min=tensor(1),
    max=tensor(3))
    """
    dims = dims_of(dim, input)
    if dim is None and not input.spec.numel:
        raise RuntimeError(
            "aminmax(): cannot compute aminmax over an empty dimension as the operation has no identity."
        )
    if any(shape_of(input)[d] == 0 for d in dims):
        raise IndexError(f"aminmax: Expected reduction dim {dims[0]} to have non-zero size.")
    return types.aminmax(
        r.amin(input, dims=dims, keepdim=keepdim), r.amax(input, dims=dims, keepdim=keepdim)
    )


def _picked(kind: type[Found], x: Tensor, index_op: Any, dim: int, keepdim: bool) -> Found:
    """Values at the indices an op finds along ``dim``: the gradient goes to those positions."""
    d = dim_of(dim, x)
    if x.ndim == 0:
        return kind(e.clone(x), index_op(x, dims=(), keepdim=False))
    indices = index_op(x, dims=(d,), keepdim=True)
    values = ix.gather(x, indices, dim=d)
    if not keepdim:
        values, indices = (alone(m.squeeze(x, dims=(d,))) for x in (values, indices))
    return kind(values, indices)


@function(steady=True, within=dim_told)
def max(input: Tensor, dim: Any = None, keepdim: bool = False, *, other: Any = None) -> Any:
    """The largest element; with ``dim``, ``(values, indices)``; with a tensor, the elementwise maximum.

    Raises ``IndexError`` over a dimension without elements, ``RuntimeError`` over all of none.

    >>> import tracejit as tj
    >>> tj.max(tj.tensor([1, 5, 2]))
    tensor(5)
    >>> tj.max(tj.tensor([[1, 5], [4, 2]]), 1)
    tracejit.return_types.max(
    values=tensor([5, 4]),
    indices=tensor([1, 0]))
    """
    check_tensor("max", input)
    if is_tensor(dim) or other is not None:
        return e.maximum(input, dim if other is None else other)
    if dim is None:
        _refuse_empty("max", input)
        return r.amax(input, dims=tuple(range(input.ndim)), keepdim=False, missing=True)
    return _picked(types.max, input, r.argmax, dim, keepdim)


@function(steady=True, within=dim_told)
def min(input: Tensor, dim: Any = None, keepdim: bool = False, *, other: Any = None) -> Any:
    """The smallest element; with ``dim``, ``(values, indices)``; with a tensor, the elementwise minimum.

    Raises ``IndexError`` over a dimension without elements, ``RuntimeError`` over all of none.

    >>> import tracejit as tj
    >>> tj.min(tj.tensor([3, 1, 2]))
    tensor(1)
    """
    check_tensor("min", input)
    if is_tensor(dim) or other is not None:
        return e.minimum(input, dim if other is None else other)
    if dim is None:
        _refuse_empty("min", input)
        return r.amin(input, dims=tuple(range(input.ndim)), keepdim=False, missing=True)
    return _picked(types.min, input, r.argmin, dim, keepdim)


def _arg(name: str, op: Any, x: Tensor, dim: int | None, keepdim: bool) -> Tensor:
    if x.dtype is dtypes.bool_:
        raise RuntimeError(f"{name}(): does not support bool input")
    if dim is not None:
        dims = (dim_of(dim, x),) if x.ndim else ()
        dim_of(dim, x)
        return op(x, dims=dims, keepdim=keepdim)
    _refuse_empty(name, x, IndexError)
    flat = m.reshape(x, shape=(shapes.numel(shape_of(x)),))
    result = op(flat, dims=(0,), keepdim=False)
    return m.reshape(result, shape=(1,) * x.ndim) if keepdim else result


@function(steady=True)
def argmax(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """The first position of the largest element, in the flattened tensor or along ``dim``.

    Raises ``IndexError`` over no elements.

    >>> import tracejit as tj
    >>> tj.argmax(tj.tensor([[1, 5], [4, 2]]), dim=1)
    tensor([1, 0])
    """
    return _arg("argmax", r.argmax, input, dim, keepdim)


@function()
def argmin(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """The first position of the smallest element, in the flattened tensor or along ``dim``.

    Raises ``IndexError`` over no elements.

    >>> import tracejit as tj
    >>> tj.argmin(tj.tensor([[1, 5], [4, 2]]))
    tensor(0)
    """
    return _arg("argmin", r.argmin, input, dim, keepdim)
