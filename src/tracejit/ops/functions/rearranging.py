"""Tensors turned, cut in rows and columns, written into in parts, and combined element by element."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from ... import dtypes
from ...errors import ArgumentError, ArgumentValueError, DtypeError, ShapeError
from .. import elementwise as e
from .. import indexing as ix
from .. import movement as m
from .. import shapes
from .. import source as s
from ..table import function
from .common import (
    Number,
    Tensor,
    alone,
    as_type,
    check_tensor,
    dim_of,
    is_tensor,
    refuse_bool,
    refuse_filling,
    shape_of,
    with_zero_gradient,
)
from .shaping import transpose
from .slicing import flip, narrow
from .splitting import split, tensor_split, unsafe_split
from .triangles import diag_embed


@function()
def rot90(input: Tensor, k: int = 1, dims: Sequence[int] = (0, 1)) -> Tensor:
    """``input`` turned ``k`` times by 90 degrees from the first of ``dims`` towards the second.

    Raises ``RuntimeError`` unless ``dims`` are two different dimensions.

    >>> import tracejit as tj
    >>> tj.rot90(tj.tensor([[1, 2], [3, 4]]))
    tensor([[2, 4],
            [1, 3]])
    """
    if len(dims) != 2:
        raise ShapeError(
            f"expected total rotation dims == 2, but got dims = {len(dims)}", "Give two dimensions."
        )
    if input.ndim < 2:
        raise ShapeError(f"expected total dims >= 2, but got total dims = {input.ndim}")
    first, second = (dim_of(d, input) for d in dims)
    if first == second:
        raise ShapeError(f"expected rotation dims to be different, but got {tuple(dims)}")
    turns = k % 4
    if turns == 2:
        return flip(input, (first, second))
    if turns == 1:
        return alone(transpose(flip(input, (second,)), first, second))
    if turns == 3:
        return flip(transpose(input, first, second), (second,))
    return e.clone(input)


@function()
def diagflat(input: Tensor, offset: int = 0) -> Tensor:
    """The flattened ``input`` as the diagonal of a matrix.

    >>> import tracejit as tj
    >>> tj.diagflat(tj.tensor([[1, 2]]))
    tensor([[1, 0],
            [0, 2]])
    """
    return diag_embed(m.reshape(input, shape=(input.spec.numel,)), offset)


@function()
def hsplit(input: Tensor, indices_or_sections: Any) -> tuple[Tensor, ...]:
    """``tensor_split`` along the second dimension, or the only one.

    >>> import tracejit as tj
    >>> tj.hsplit(tj.tensor([[1, 2]]), 2)
    (tensor([[1]]), tensor([[2]]))
    """
    return _split_at(input, indices_or_sections, 0 if input.ndim == 1 else 1, 1, "hsplit")


@function()
def vsplit(input: Tensor, indices_or_sections: Any) -> tuple[Tensor, ...]:
    """``tensor_split`` along the first dimension of at least two.

    >>> import tracejit as tj
    >>> tj.vsplit(tj.tensor([[1], [2]]), 2)
    (tensor([[1]]), tensor([[2]]))
    """
    return _split_at(input, indices_or_sections, 0, 2, "vsplit")


@function()
def dsplit(input: Tensor, indices_or_sections: Any) -> tuple[Tensor, ...]:
    """``tensor_split`` along the third dimension.

    >>> import tracejit as tj
    >>> tj.dsplit(tj.tensor([[[1, 2]]]), 2)
    (tensor([[[1]]]), tensor([[[2]]]))
    """
    return _split_at(input, indices_or_sections, 2, 3, "dsplit")


def _split_at(x: Tensor, where: Any, dim: int, least: int, name: str) -> tuple[Tensor, ...]:
    if x.ndim < least:
        raise ShapeError(
            f"torch.{name} requires a tensor with at least {least} dimension, but got a tensor with "
            f"{x.ndim} dimensions!".replace("torch.", "tracejit.")
        )
    if isinstance(where, (str, float)):
        raise ArgumentError(
            f"{name}(): argument 'indices_or_sections' must be an int or a tuple of ints, not "
            f"{type(where).__name__}"
        )
    if isinstance(where, int) and (where < 1 or shape_of(x)[dim] % where):
        raise ShapeError(
            f"{name} attempted to split along dimension {dim}, but the size of the dimension "
            f"{shape_of(x)[dim]} is not divisible by the split_size {where}!"
        )
    pieces: tuple[Tensor, ...] = tensor_split(x, where, dim)
    return pieces


@function()
def split_with_sizes(input: Tensor, split_sizes: Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    """Views of the given lengths along ``dim``.

    >>> import tracejit as tj
    >>> tj.split_with_sizes(tj.arange(3), [1, 2])
    (tensor([0]), tensor([1, 2]))
    """
    pieces: tuple[Tensor, ...] = split(input, list(split_sizes), dim)
    return pieces


@function()
def unsafe_split_with_sizes(
    input: Tensor, split_sizes: Sequence[int], dim: int = 0
) -> tuple[Tensor, ...]:
    """:func:`split_with_sizes` into views that may be written to where gradients are recorded.

    >>> import tracejit as tj
    >>> tj.unsafe_split_with_sizes(tj.arange(3), [1, 2])
    (tensor([0]), tensor([1, 2]))
    """
    pieces: tuple[Tensor, ...] = unsafe_split(input, list(split_sizes), dim)
    return pieces


@function()
def narrow_copy(input: Tensor, dim: int, start: int, length: int) -> Tensor:
    """A copy of what :func:`narrow` shows.

    >>> import tracejit as tj
    >>> tj.narrow_copy(tj.arange(5), 0, 1, 2)
    tensor([1, 2])
    """
    return e.clone(narrow(input, dim, start, length))


@function()
def select_scatter(input: Tensor, src: Tensor, dim: int, index: int) -> Tensor:
    """A copy of ``input`` with ``src`` at ``index`` of dimension ``dim``.

    Raises ``RuntimeError`` when ``src`` has another shape than the slice.

    >>> import tracejit as tj
    >>> tj.select_scatter(tj.zeros(2, 2), tj.ones(2), 0, 0)
    tensor([[1., 1.],
            [0., 0.]])
    """
    d = dim_of(dim, input)
    extent = shape_of(input)[d]
    if not -extent <= index < extent:
        raise IndexError(
            f"select(): index {index} out of range for tensor of size {list(shape_of(input))} "
            f"at dimension {dim}"
        )
    start = index % extent
    return slice_scatter(input, m.unsqueeze(src, dims=(d,)), d, start, start + 1)


@function()
def slice_scatter(
    input: Tensor,
    src: Tensor,
    dim: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
) -> Tensor:
    """A copy of ``input`` with ``src`` in place of ``input[start:end:step]`` along ``dim``.

    Raises ``RuntimeError`` when ``src`` has another shape than the slice.

    >>> import tracejit as tj
    >>> tj.slice_scatter(tj.zeros(4), tj.ones(2), 0, 1, 3)
    tensor([0., 1., 1., 0.])
    """
    d = dim_of(dim, input)
    places = range(*slice(start, end, step).indices(shape_of(input)[d]))
    wanted = tuple(len(places) if i == d else n for i, n in enumerate(shape_of(input)))
    if shape_of(src) != wanted:
        raise ShapeError(
            f"expected src to have a size equal to the slice of self. src size = {list(shape_of(src))}, "
            f"slice size = {list(wanted)}"
        )
    return m.slice_scatter(
        input,
        as_type(src, input.dtype),
        starts=tuple(places.start if i == d else 0 for i in range(input.ndim)),
        counts=wanted,
        steps=tuple(step if i == d else 1 for i in range(input.ndim)),
    )


@function()
def diagonal_scatter(
    input: Tensor, src: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> Tensor:
    """A copy of ``input`` with ``src`` on a diagonal.

    >>> import tracejit as tj
    >>> tj.diagonal_scatter(tj.zeros(2, 2), tj.ones(2))
    tensor([[1., 0.],
            [0., 1.]])
    """
    a, b = dim_of(dim1, input), dim_of(dim2, input)
    wanted = shape_of(m.diagonal(input, offset=offset, dim1=a, dim2=b))
    if shape_of(src) != wanted:
        raise ShapeError(
            f"expected src to have a size equal to the slice of self. src size = {list(shape_of(src))}, "
            f"slice size = {list(wanted)}"
        )
    return m.diagonal_scatter(input, as_type(src, input.dtype), offset=offset, dim1=a, dim2=b)


@function()
def sum_to_size(input: Tensor, *size: Any) -> Tensor:
    """The sum over dimensions that broadcasting ``size`` would stretch.

    Raises ``RuntimeError`` when ``size`` does not broadcast to the shape of ``input``.

    >>> import tracejit as tj
    >>> tj.ones(2, 3).sum_to_size(1, 3)
    tensor([[2., 2., 2.]])
    """
    wanted = shapes.size_arguments(size)
    own = shape_of(input)
    tail = own[len(own) - len(wanted) :] if len(wanted) <= len(own) else None
    if tail is None or any(w not in (1, n) for w, n in zip(wanted, tail, strict=True)):
        raise ShapeError(f"size {{{list(wanted)}}} is not expandable to size {{{list(own)}}}.")
    if wanted == own and own:
        return input
    x = input if input.dtype.is_differentiable else as_type(input, dtypes.int64)
    return m.sum_to(x, wanted) if own or x is not input else e.clone(x)


@function()
def put(input: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    """``input`` with ``source`` written (or added) at positions of its flattened elements.

    >>> import tracejit as tj
    >>> tj.put(tj.zeros(2, 2), tj.tensor([0, 3]), tj.tensor([1.0, 2.0]))
    tensor([[1., 0.],
            [0., 2.]])
    """
    flat = m.reshape(input, shape=(input.spec.numel,))
    places, values = (m.reshape(x, shape=(x.spec.numel,)) for x in (index, source))
    written = ix.put(flat, places, values, dim=0, accumulate=accumulate)
    return m.reshape(written, shape=shape_of(input))


@function()
def fill(input: Tensor, value: Tensor | Number) -> Tensor:
    """A tensor like ``input`` filled with ``value``.

    >>> import tracejit as tj
    >>> tj.fill(tj.zeros(2), 3)
    tensor([3., 3.])
    """
    if not is_tensor(value):
        refuse_filling(input.dtype, value, shape_of(input))
        filled = s.full(shape=shape_of(input), value=value, dtype=input.dtype)
        return with_zero_gradient(filled, input)
    if value.ndim:
        raise RuntimeError(
            f"fill only supports 0-dimension value tensor but got tensor with {value.ndim} dimensions"
        )
    return e.clone(m.expand(as_type(value, input.dtype), shape=shape_of(input)))


@function(method=False)
def combinations(input: Tensor, r: int = 2, with_replacement: bool = False) -> Tensor:
    """All choices of ``r`` elements of a vector, one in each row, in order.

    >>> import tracejit as tj
    >>> tj.combinations(tj.tensor([1, 2, 3]))
    tensor([[1, 2],
            [1, 3],
            [2, 3]])
    """
    check_tensor("combinations", input)
    if input.ndim != 1:
        raise ShapeError(f"Expect a 1D vector, but got shape {list(shape_of(input))}")
    if r < 0:
        raise RuntimeError("Expect a non-negative number")
    if not r:
        return s.full(shape=(0,), value=0, dtype=input.dtype)
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    rows = list(choose(range(shape_of(input)[0]), r))
    places = s.literal(
        values=tuple(i for row in rows for i in row), shape=(len(rows), r), dtype=dtypes.int64
    )
    return ix.take(input, places, dim=0)


@function(method=False)
def unravel_index(indices: Tensor, shape: Any) -> tuple[Tensor, ...]:
    """Positions in a flattened tensor of ``shape`` as one tensor of positions per dimension.

    Raises ``TypeError`` for positions that are not whole, ``ValueError`` for a negative extent.

    >>> import tracejit as tj
    >>> tj.unravel_index(tj.tensor([1, 5]), (2, 3))
    (tensor([0, 1]), tensor([1, 2]))
    """
    if indices.dtype.is_differentiable or indices.dtype is dtypes.bool_:
        raise ArgumentError(f"expected 'indices' to be integer dtype, but got {indices.dtype}")
    sizes = shapes.size_arguments((shape,))
    if any(n < 0 for n in sizes):
        raise ArgumentValueError(f"'shape' cannot have negative values, but got {tuple(sizes)}")
    found = []
    indices = as_type(indices, dtypes.int64)
    for extent in reversed(sizes):
        found.append(e.remainder(indices, extent))
        indices = e.floor_divide(indices, extent)
    return tuple(reversed(found))


@function(large=True)
def cross(input: Tensor, other: Tensor, dim: int | None = None) -> Tensor:
    """The cross product of vectors along ``dim`` (by default the first of extent 3).

    Raises ``RuntimeError`` unless both have three elements there.

    >>> import tracejit as tj
    >>> tj.cross(tj.tensor([1, 0, 0]), tj.tensor([0, 1, 0]))
    tensor([0, 0, 1])
    """
    check_tensor("cross", input)
    check_tensor("cross", other, "other", 2)
    sizes, others = shape_of(input), shape_of(other)
    if dim is None and 3 not in sizes:
        raise ShapeError("no dimension of size 3 in input")
    if len(sizes) != len(others):
        raise ShapeError("linalg.cross: inputs must have the same number of dimensions.")
    d = sizes.index(3) if dim is None else dim_of(dim, input)
    if sizes[d] != 3 or others[d] != 3:
        raise ShapeError(
            f"linalg.cross: inputs dimension {d if dim is None else dim} must have length 3. "
            f"Got {sizes[d]} and {others[d]}"
        )
    if input.dtype is not other.dtype:
        raise DtypeError(f"expected scalar type {input.dtype.title} but found {other.dtype.title}")
    refuse_bool("cross", input.dtype)
    common = shapes.broadcast("cross", [sizes, others])
    a, b = (m.expand(x, shape=common) for x in (input, other))

    def turned(x: Tensor, first: int) -> Tensor:
        order = s.literal(
            values=((first) % 3, (first + 1) % 3, (first + 2) % 3), shape=(3,), dtype=dtypes.int64
        )
        return ix.take(x, order, dim=d)

    return e.sub(e.mul(turned(a, 1), turned(b, 2)), e.mul(turned(a, 2), turned(b, 1)))
