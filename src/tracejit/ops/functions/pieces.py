"""What PyTorch's own decompositions call, under its names: elements that a mask chooses, chunks side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...errors import DtypeError, ShapeError
from .. import movement as m
from ..comparison import logical_not
from ..table import METHODS, function
from .activations import gelu, relu
from .arithmetic import clamp
from .blends import addmm
from .common import Number, Tensor, check_tensor, constant, dim_of, shape_of
from .indexing import index_put
from .joining import cat
from .logic import masked_fill


def _inside(x: Tensor, indices: Sequence[Tensor | None]) -> tuple[Any, ...]:
    """Positions, the nearest ones of ``x`` for those that it does not have."""
    return tuple(
        slice(None) if index is None else clamp(index, -count, count - 1)
        for index, count in zip(indices, shape_of(x), strict=False)
    )


@function(method=False)
def _unsafe_masked_index(
    self: Tensor, mask: Tensor, indices: Sequence[Tensor | None], fill: Number
) -> Tensor:
    """``self[indices]`` where ``mask`` is True, ``fill`` elsewhere, where positions may be out of range.

    >>> import tracejit as tj
    >>> tj._unsafe_masked_index(tj.tensor([1.0, 2.0]), tj.tensor([True, False]), [tj.tensor([1, 9])], 0)
    tensor([2., 0.])
    """
    if not self.spec.numel:
        return constant(fill, self.dtype, shape_of(mask))
    found = METHODS["__getitem__"](self, _inside(self, indices))
    return masked_fill(found, logical_not(mask), fill)


@function(method=False)
def _unsafe_masked_index_put_accumulate(
    self: Tensor, mask: Tensor, indices: Sequence[Tensor | None], values: Tensor
) -> Tensor:
    """``self`` with ``values`` added at ``indices`` where ``mask`` is True: positions elsewhere may be out of range.

    >>> import tracejit as tj
    >>> chosen, places = tj.tensor([True, False]), [tj.tensor([1, 9])]
    >>> tj._unsafe_masked_index_put_accumulate(tj.zeros(2), chosen, places, tj.ones(2))
    tensor([0., 1.])
    """
    if not self.spec.numel:
        return METHODS["clone"](self)
    return index_put(
        self, _inside(self, indices), masked_fill(values, logical_not(mask), 0), accumulate=True
    )


def _check_chunks(tensors: Sequence[Tensor], dim: int, num_chunks: int) -> int:
    """The dimension, counted from the front. ``RuntimeError`` for what cannot be cut, or put together."""
    if num_chunks < 1:
        raise ShapeError("_chunk_cat expects positive num_chunks")
    if not tensors:
        raise ShapeError("_chunk_cat expects a non-empty input tensor list")
    for x in tensors:
        check_tensor("_chunk_cat", x)
    first = tensors[0]
    if dim < 0 and any(x.ndim != first.ndim for x in tensors):
        raise ShapeError(
            "_chunk_cat expects non-negative dim when input tensors have different ndims"
        )
    d = dim_of(dim, first)
    for x in tensors:
        if not x.spec.numel:
            raise ShapeError("_chunk_cat expects non-empty tensor")
        if x.dtype is not first.dtype:
            raise DtypeError("_chunk_cat expects all input tensors with the same dtype")
        if d >= x.ndim or shape_of(x)[:d] != shape_of(first)[:d]:
            raise ShapeError(
                "_chunk_cat expects same sizes of 0,...,dim-1 dimensions for all tensors"
            )
    return d


@function(method=False)
def _chunk_cat(tensors: Sequence[Tensor], dim: int, num_chunks: int) -> Tensor:
    """Each tensor cut into ``num_chunks`` along ``dim``, filled up with zeros, and the chunks put side by side.

    Raises ``RuntimeError`` for tensors that are empty, or differ in dtype or in the dimensions before ``dim``.

    >>> import tracejit as tj
    >>> tj._chunk_cat([tj.ones(2), 2 * tj.ones(3)], 0, 2)
    tensor([[1., 2., 2.],
            [1., 2., 0.]])
    """
    d = _check_chunks(tensors, dim, num_chunks)
    rows = []
    for x in tensors:
        shape = shape_of(x)
        missing = -shape[d] % num_chunks
        if missing:
            x = cat([x, constant(0, x.dtype, (*shape[:d], missing, *shape[d + 1 :]))], d)
        width = x.spec.numel // num_chunks
        for extent in shape[:d]:
            width //= extent
        rows.append(m.reshape(x, shape=(*shape[:d], num_chunks, width)))
    return cat(rows, d + 1)


@function(method=False)
def _addmm_activation(
    input: Tensor,
    mat1: Tensor,
    mat2: Tensor,
    *,
    beta: Number = 1,
    alpha: Number = 1,
    use_gelu: bool = False,
) -> Tensor:
    """:func:`addmm` with ``relu`` applied to the result, or ``gelu``.

    >>> import tracejit as tj
    >>> tj._addmm_activation(tj.tensor([-3.0]), tj.ones(1, 2), tj.ones(2, 1))
    tensor([[0.]])
    """
    found = addmm(input, mat1, mat2, beta=beta, alpha=alpha)
    return gelu(found) if use_gelu else relu(found)
