"""Cutting a tensor into views: split, chunk, tensor_split."""

from __future__ import annotations

from itertools import accumulate, pairwise
from typing import Any

from ...dtypes import int64
from ...errors import DtypeError, ShapeError
from ...sizes import smallest
from .. import shapes
from ..overlaps import are_pieces
from ..table import function
from .common import Tensor, dim_of, is_tensor, shape_of
from .slicing import parts_along, slice_along


@function(method=False, steady=True)
def split(tensor: Tensor, split_size_or_sections: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """Views of consecutive pieces along ``dim``: of one size, or of the listed sizes.

    Raises ``RuntimeError`` when sizes are negative or do not add up.

    >>> import tracejit as tj
    >>> tj.split(tj.arange(5), 2)
    (tensor([0, 1]), tensor([2, 3]), tensor([4]))
    """
    pieces: tuple[Tensor, ...] = unsafe_split(tensor, split_size_or_sections, dim)
    sizes = isinstance(split_size_or_sections, (tuple, list))
    are_pieces(pieces, "SplitWithSizes" if sizes else "Split")
    return pieces


@function()
def unsafe_split(tensor: Tensor, split_size_or_sections: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """:func:`split` into views that may be written to where gradients are recorded.

    >>> import tracejit as tj
    >>> tj.unsafe_split(tj.arange(3), 2)
    (tensor([0, 1]), tensor([2]))
    """
    _refuse_number("split", tensor)
    d = dim_of(dim, tensor)
    extent = shape_of(tensor)[d]
    if isinstance(split_size_or_sections, (tuple, list)):
        sizes = [shapes.whole(n) for n in split_size_or_sections]
        if sum(sizes) != extent:
            raise ShapeError(
                f"split_with_sizes expects split_sizes to sum exactly to {extent} (input tensor's "
                f"size at dimension {dim}), but got split_sizes={sizes}"
            )
    else:
        sizes = _even_sizes(shapes.whole(split_size_or_sections), extent)
    ends = list(accumulate(sizes, initial=0))
    found = parts_along(tensor, d, [slice(*both) for both in pairwise(ends)])
    if found is not None:
        return found
    return tuple([slice_along(tensor, d, a, n) for a, n in zip(ends[:-1], sizes, strict=True)])


@function(method="split", namespace=False, steady=True)
def split_method(self: Tensor, split_size: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """Views of consecutive pieces along ``dim``: of one size, or of the listed sizes.

    >>> import tracejit as tj
    >>> tj.arange(3).split(split_size=2)
    (tensor([0, 1]), tensor([2]))
    """
    pieces: tuple[Tensor, ...] = split(self, split_size, dim)
    return pieces


def _refuse_number(name: str, x: Tensor) -> None:
    if not x.ndim:
        raise ShapeError(f"{name} expects at least a 1-dimensional tensor")


def _even_sizes(size: int, extent: int) -> list[int]:
    if size < 0:
        raise ShapeError(f"split expects split_size be non-negative, but got split_size={size}")
    if size == 0 and extent:
        raise ShapeError(
            f"split_size can only be 0 if dimension size is 0, but got dimension size of {extent}"
        )
    if not extent:
        return [0]
    sizes, start = [], 0
    while start < extent:
        sizes.append(smallest(size, extent - start))
        start += size
    return sizes


@function(steady=True)
def chunk(input: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """At most ``chunks`` views of equal size along ``dim`` (the last may be smaller).

    Raises ``RuntimeError`` unless ``chunks`` is positive.

    >>> import tracejit as tj
    >>> tj.chunk(tj.arange(5), 2)
    (tensor([0, 1, 2]), tensor([3, 4]))
    """
    pieces: tuple[Tensor, ...] = unsafe_chunk(input, chunks, dim)
    are_pieces(pieces, "Split")
    return pieces


@function()
def unsafe_chunk(input: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """:func:`chunk` into views that may be written to where gradients are recorded.

    >>> import tracejit as tj
    >>> tj.unsafe_chunk(tj.arange(3), 2)
    (tensor([0, 1]), tensor([2]))
    """
    if chunks <= 0:
        raise RuntimeError(f"chunk expects `chunks` to be greater than 0, got: {chunks}")
    _refuse_number("chunk", input)
    extent = shape_of(input)[dim_of(dim, input)]
    sizes = -(-extent // chunks) if extent else [0] * chunks
    pieces: tuple[Tensor, ...] = unsafe_split(input, sizes, dim)
    return pieces


@function()
def tensor_split(
    input: Tensor,
    indices_or_sections: Any = None,
    dim: int = 0,
    *,
    indices: Any = None,
    sections: Any = None,
) -> tuple[Tensor, ...]:
    """Views cut at the listed positions, or into a number of nearly equal sections.

    Raises ``RuntimeError`` for positions in a tensor that is not of int64.

    >>> import tracejit as tj
    >>> tj.tensor_split(tj.arange(5), 2)
    (tensor([0, 1, 2]), tensor([3, 4]))
    """
    _refuse_number("tensor_split", input)
    d = dim_of(dim, input)
    extent = shape_of(input)[d]
    for given in (indices, sections):
        indices_or_sections = given if indices_or_sections is None else indices_or_sections
    if is_tensor(indices_or_sections):
        if indices_or_sections.dtype is not int64:
            raise DtypeError(
                "tensor_split expected tensor_indices_or_sections to have dtype of long, but got "
                f"{indices_or_sections.dtype.title}"
            )
        indices_or_sections = indices_or_sections.tolist()
    if isinstance(indices_or_sections, int):
        n = indices_or_sections
        if n <= 0:
            raise RuntimeError(f"number of sections must be larger than 0, got {n}")
        sizes = [extent // n + (i < extent % n) for i in range(n)]
        parts: tuple[Tensor, ...] = unsafe_split(input, sizes, d)
        return parts
    cuts = [builtin_slice(c, extent) for c in indices_or_sections]
    bounds = zip([0, *cuts], [*cuts, extent], strict=True)
    return tuple(slice_along(input, d, a, max(b - a, 0)) for a, b in bounds)


def builtin_slice(position: int, extent: int) -> int:
    """A slice bound within ``0..extent``."""
    position = shapes.as_size(position)
    return max(position + extent, 0) if position < 0 else min(position, extent)
