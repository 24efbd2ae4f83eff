"""Parts of a tensor along its dimensions: narrow, select, unbind, diagonal, flip."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...errors import ArgumentError, ShapeError
from ...modes import MODES
from ...sizes import largest
from .. import elementwise as e
from .. import movement as m
from .. import shapes
from ..overlaps import are_pieces
from ..table import function
from .common import Tensor, dim_of, is_tensor, shape_of


@function()
def narrow(input: Tensor, dim: int, start: int, length: int) -> Tensor:
    """``length`` positions along ``dim`` from ``start``, as a view.

    Raises ``RuntimeError`` when they are not all there.

    >>> import tracejit as tj
    >>> tj.narrow(tj.arange(5), 0, 1, 3)
    tensor([1, 2, 3])
    """
    if not input.ndim:
        raise ShapeError("narrow() cannot be applied to a 0-dim tensor.")
    d = dim_of(dim, input)
    extent = shape_of(input)[d]
    if is_tensor(start) and (start.ndim or start.dtype.category != "int"):
        raise ShapeError("start must be an 0-dim integral Tensor.")
    start, length = shapes.whole(start), shapes.as_size(length)
    if length < 0:
        raise ShapeError("narrow(): length must be non-negative.")
    if not -extent <= start <= extent:
        raise IndexError(
            f"start out of range (expected to be in range of [{-extent}, {extent}], but got {start})"
        )
    start += extent if start < 0 else 0
    if start + length > extent:
        raise ShapeError(f"start ({start}) + length ({length}) exceeds dimension size ({extent}).")
    return slice_along(input, d, start, length)


def slice_along(x: Tensor, dim: int, start: int, count: int, step: int = 1) -> Tensor:
    """A view of ``count`` positions along one dimension."""
    shape = shape_of(x)
    starts, counts, steps = [0] * len(shape), list(shape), [1] * len(shape)
    starts[dim], counts[dim], steps[dim] = start, count, step
    return m.slice(x, starts=tuple(starts), counts=tuple(counts), steps=tuple(steps))


def parts_along(x: Tensor, dim: int, places: Sequence[Any]) -> tuple[Tensor, ...] | None:
    """The parts at integers or slices along one dimension, where they concern nothing but memory; else None."""
    if MODES.unusual is not None or not hasattr(x, "_mere_part"):
        return None
    before, found = (slice(None),) * dim, []
    for place in places:
        part = x._mere_part((*before, place))
        if part is None:
            return None
        found.append(part)
    return tuple(found)


@function()
def select(input: Tensor, dim: int, index: int) -> Tensor:
    """The slice at ``index`` of dimension ``dim``, without that dimension.

    Raises ``IndexError`` when the index is out of range or ``input`` is 0-d.

    >>> import tracejit as tj
    >>> tj.select(tj.tensor([[1, 2], [3, 4]]), 1, 0)
    tensor([1, 3])
    """
    if input.ndim == 0:
        raise IndexError("select() cannot be applied to a 0-dim tensor.")
    d = dim_of(dim, input)
    extent = shape_of(input)[d]
    index = shapes.as_size(index)
    if not -extent <= index < extent:
        raise IndexError(
            f"select(): index {index} out of range for tensor of size {list(input.shape)} "
            f"at dimension {d}"
        )
    return m.squeeze(slice_along(input, d, index % extent, 1), dims=(d,))


@function(steady=True)
def unbind(input: Tensor, dim: int = 0) -> tuple[Tensor, ...]:
    """The slices along ``dim``, without that dimension.

    >>> import tracejit as tj
    >>> tj.unbind(tj.tensor([[1, 2], [3, 4]]))
    (tensor([1, 2]), tensor([3, 4]))
    """
    if input.ndim == 0:
        raise IndexError("Dimension specified as 0 but tensor has no dimensions")
    d = dim_of(dim, input)
    count = shape_of(input)[d]
    pieces = parts_along(input, d, range(count))
    if pieces is None:
        pieces = tuple([select(input, d, i) for i in range(count)])
    are_pieces(pieces, "Unbind")
    return pieces


@function(steady=True)
def diagonal(input: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """A view of a diagonal of two dimensions, as the last dimension.

    Raises ``RuntimeError`` when both dimensions are the same.

    >>> import tracejit as tj
    >>> tj.diagonal(tj.tensor([[1, 2], [3, 4]]))
    tensor([1, 4])
    """
    a, b = dim_of(dim1, input), dim_of(dim2, input)
    if a == b:
        raise ShapeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    return m.diagonal(input, offset=offset, dim1=a, dim2=b)


def matrix_diagonal(
    A: Tensor,  # noqa: N803
    *,
    offset: int = 0,
    dim1: int = -2,
    dim2: int = -1,
) -> Tensor:
    """A view of the diagonals of matrices, the last two dimensions unless others are named.

    Raises ``RuntimeError`` when both dimensions are the same.

    >>> import tracejit as tj
    >>> tj.linalg.diagonal(tj.arange(8).reshape(2, 2, 2))
    tensor([[0, 3],
            [4, 7]])
    """
    return diagonal(A, offset, dim1, dim2)


@function(steady=True, large=True)
def flip(input: Tensor, *args: Any, dims: Any = None) -> Tensor:
    """``input`` reversed along ``dims`` (a copy). Raises ``TypeError`` when nothing is said about them.

    >>> import tracejit as tj
    >>> tj.flip(tj.tensor([1, 2, 3]), (0,))
    tensor([3, 2, 1])
    """
    if dims is None and not args:
        raise ArgumentError('flip() missing 1 required positional argument: "dims"')
    wanted = shapes.size_arguments(args if dims is None else (dims,))
    return e.clone(flipped(input, shapes.normalize_dims(wanted, input.ndim) if wanted else ()))


def flipped(x: Tensor, dims: Sequence[int]) -> Tensor:
    """A reversed view."""
    shape = shape_of(x)
    starts = tuple(largest(n - 1, 0) if d in dims else 0 for d, n in enumerate(shape))
    steps = tuple(-1 if d in dims else 1 for d in range(len(shape)))
    return m.slice(x, starts=starts, counts=shape, steps=steps)


@function()
def fliplr(input: Tensor) -> Tensor:
    """``input`` reversed along its second dimension.

    >>> import tracejit as tj
    >>> tj.fliplr(tj.tensor([[1, 2]]))
    tensor([[2, 1]])
    """
    if input.ndim < 2:
        raise RuntimeError("Input must be >= 2-d.")
    return flip(input, 1)


@function()
def flipud(input: Tensor) -> Tensor:
    """``input`` reversed along its first dimension.

    >>> import tracejit as tj
    >>> tj.flipud(tj.tensor([1, 2]))
    tensor([2, 1])
    """
    if input.ndim < 1:
        raise RuntimeError("Input must be >= 1-d.")
    return flip(input, 0)
