"""Joining, splitting and repeating: cat, stack, split, chunk, roll, repeat, meshgrid, ..."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ... import dtypes
from ...errors import ArgumentError, ArgumentValueError, ShapeError
from .. import elementwise as e
from .. import indexing as ix
from .. import movement as m
from .. import ordering as o
from .. import shapes
from .. import source as s
from ..table import alias, function
from .common import Tensor, alone, as_type, dim_of, is_tensor, own, refuse_but_indices, shape_of
from .shaping import as_nothing, broadcast_tensors, unsqueeze
from .slicing import slice_along

Tensors = Sequence[Tensor]


def _listed(name: str, tensors: Any) -> list[Tensor]:
    if is_tensor(tensors) and not isinstance(tensors, (tuple, list)):
        raise ArgumentError(
            f"{name}(): argument 'tensors' (position 1) must be tuple of Tensors, not Tensor"
        )
    xs = list(tensors)
    for position, x in enumerate(xs):
        if not is_tensor(x):
            raise ArgumentError(
                f"expected Tensor as element {position} in argument 0, but got {type(x).__name__}"
            )
    if not xs and name == "cat":
        raise ArgumentValueError("tracejit.cat(): expected a non-empty list of Tensors")
    return _some(name, xs)


def _some(name: str, xs: list[Tensor]) -> list[Tensor]:
    """``xs``; ``RuntimeError`` for none."""
    if not xs:
        raise RuntimeError(f"{name} expects a non-empty TensorList")
    return xs


@function(method=False, steady=True)
def cat(tensors: Tensors, dim: int = 0) -> Tensor:
    """The tensors one after the other along ``dim``, in their promoted dtype.

    Raises ``RuntimeError`` when other extents differ, ``ValueError`` when the list is empty.

    >>> import tracejit as tj
    >>> tj.cat([tj.tensor([1, 2]), tj.tensor([0.5])])
    tensor([1.0000, 2.0000, 0.5000])
    """
    xs = _listed("cat", tensors)
    ranks = [len(shape_of(x)) for x in xs]
    if 0 in ranks:
        position = ranks.index(0)
        raise ShapeError(f"zero-dimensional tensor (at position {position}) cannot be concatenated")
    dtype = xs[0].spec.dtype
    for x in xs:
        if x.spec.dtype is not dtype:
            dtype = dtypes.promote_types(dtype, x.spec.dtype)
    uneven = ranks.count(ranks[0]) < len(ranks)
    if uneven or (ranks[0] == 1 and dim not in (0, -1)):
        # Vectors of nothing fit beside others, along any dimension.
        like = next((x for x in xs if shape_of(x) != (0,)), None)
        if like is None:
            return own(as_type(xs[0], dtype))
        xs = [as_nothing(x, like, dim_of(dim, like)) for x in xs]
    d = dim_of(dim, xs[0])
    return m.cat(*[as_type(x, dtype) for x in xs], dim=d)


@function(method=False, steady=True)
def stack(tensors: Tensors, dim: int = 0) -> Tensor:
    """The tensors along a new dimension at ``dim``.

    Raises ``RuntimeError`` unless all shapes are equal.

    >>> import tracejit as tj
    >>> tj.stack([tj.tensor([1, 2]), tj.tensor([3, 4])], dim=1)
    tensor([[1, 3],
            [2, 4]])
    """
    xs = _listed("stack", tensors)
    first = shape_of(xs[0])
    for position, x in enumerate(xs):
        if shape_of(x) != first:
            raise ShapeError(
                f"stack expects each tensor to be equal size, but got {list(first)} at entry 0 and "
                f"{list(shape_of(x))} at entry {position}"
            )
    d = dim_of(dim, xs[0], extra=1) if first else dim % 1
    return cat([m.unsqueeze(x, dims=(d,)) for x in xs], d)


def atleast(x: Tensor, ndim: int) -> Tensor:
    """``x`` with at least ``ndim`` dimensions, as PyTorch pads them."""
    if x.ndim == 0:
        return m.reshape(x, shape=(1,) * ndim)
    if x.ndim == 1 and ndim > 1:
        x = unsqueeze(x, 0)
    return unsqueeze(x, -1) if x.ndim == 2 and ndim > 2 else x


def _atleast(tensors: tuple[Any, ...], ndim: int) -> Any:
    if len(tensors) == 1 and is_tensor(tensors[0]):
        return atleast(tensors[0], ndim)
    xs = tensors[0] if len(tensors) == 1 else tensors
    return tuple(atleast(x, ndim) for x in xs)


@function(method=False)
def atleast_1d(*tensors: Tensor) -> Any:
    """Tensors with at least one dimension.

    >>> import tracejit as tj
    >>> tj.atleast_1d(tj.tensor(3))
    tensor([3])
    """
    return _atleast(tensors, 1)


@function(method=False)
def atleast_2d(*tensors: Tensor) -> Any:
    """Tensors with at least two dimensions.

    >>> import tracejit as tj
    >>> tj.atleast_2d(tj.tensor([3]))
    tensor([[3]])
    """
    return _atleast(tensors, 2)


@function(method=False)
def atleast_3d(*tensors: Tensor) -> Any:
    """Tensors with at least three dimensions.

    >>> import tracejit as tj
    >>> tj.atleast_3d(tj.ones(2, 3)).shape
    tracejit.Size([2, 3, 1])
    """
    return _atleast(tensors, 3)


@function(method=False, steady=True)
def hstack(tensors: Tensors) -> Tensor:
    """Tensors side by side: along the second dimension, vectors along the first.

    >>> import tracejit as tj
    >>> tj.hstack([tj.tensor([1]), tj.tensor([2, 3])])
    tensor([1, 2, 3])
    """
    xs = [atleast(x, 1) for x in _listed("hstack", tensors)]
    return cat(xs, 0 if xs[0].ndim == 1 else 1)


@function(method=False, steady=True)
def vstack(tensors: Tensors) -> Tensor:
    """Tensors on top of each other: vectors as rows.

    >>> import tracejit as tj
    >>> tj.vstack([tj.tensor([1, 2]), tj.tensor([3, 4])])
    tensor([[1, 2],
            [3, 4]])
    """
    return cat([atleast(x, 2) for x in _listed("vstack", tensors)], 0)


@function(method=False)
def dstack(tensors: Tensors) -> Tensor:
    """Tensors along the third dimension.

    >>> import tracejit as tj
    >>> tj.dstack([tj.tensor([1]), tj.tensor([2])])
    tensor([[[1, 2]]])
    """
    return cat([atleast(x, 3) for x in _listed("dstack", tensors)], 2)


@function(method=False)
def column_stack(tensors: Tensors) -> Tensor:
    """Vectors as columns, matrices side by side.

    >>> import tracejit as tj
    >>> tj.column_stack([tj.tensor([1, 2]), tj.tensor([3, 4])])
    tensor([[1, 3],
            [2, 4]])
    """
    columns = [
        m.reshape(x, shape=(x.spec.numel, 1)) if x.ndim < 2 else x
        for x in _listed("column_stack", tensors)
    ]
    return cat(columns, 1)


@function(steady=True, large=True)
def roll(input: Tensor, shifts: Any, dims: Any = None) -> Tensor:
    """``input`` shifted along ``dims``; what leaves at the end enters at the start.

    Raises ``RuntimeError`` when shifts and dims differ in length.

    >>> import tracejit as tj
    >>> tj.roll(tj.arange(4), 1)
    tensor([3, 0, 1, 2])
    """
    if dims is None or dims == ():
        flat = m.reshape(input, shape=(input.spec.numel,))
        return alone(m.reshape(roll(flat, shifts, 0), shape=shape_of(input)))
    if getattr(shifts, "ndim", None) == 0:  # of a tensor, or a scalar of NumPy
        shifts = shapes.whole(shifts)
    moves = (shifts,) if isinstance(shifts, int) else tuple(shifts)
    along = (dims,) if isinstance(dims, int) else tuple(dims)
    if not moves:
        raise RuntimeError("`shifts` required")
    if len(moves) != len(along):
        raise RuntimeError(
            f"shifts and dimensions must align. shifts: {len(moves)}, dims:{len(along)}"
        )
    for shift, dim in zip(moves, along, strict=True):
        shapes.refuse_number(dim, input.ndim)
        input = _rolled(input, shift, dim_of(dim, input))
    return input


def _rolled(x: Tensor, shift: int, dim: int) -> Tensor:
    extent = shape_of(x)[dim]
    cut = -shift % extent if extent else 0
    if cut == 0:
        return e.clone(x)
    return m.cat(slice_along(x, dim, cut, extent - cut), slice_along(x, dim, 0, cut), dim=dim)


@function(namespace=False, steady=True)
def repeat(self: Tensor, *sizes: Any, repeats: Any = ()) -> Tensor:
    """Copies of ``self``: ``sizes[d]`` times along dimension d, new dimensions in front.

    Raises ``RuntimeError`` when fewer sizes than dimensions are given.

    >>> import tracejit as tj
    >>> tj.tensor([1, 2]).repeat(2, 2)
    tensor([[1, 2, 1, 2],
            [1, 2, 1, 2]])
    """
    times = shapes.size_arguments(sizes or (repeats,))
    if len(times) < self.ndim:
        raise ShapeError(
            "Number of dimensions of repeat dims can not be smaller than number of dimensions of "
            "tensor"
        )
    shape = (1,) * (len(times) - self.ndim) + shape_of(self)
    x = m.reshape(self, shape=tuple(n for extent in shape for n in (1, extent)))
    x = m.expand(x, shape=tuple(n for pair in zip(times, shape, strict=True) for n in pair))
    result = m.reshape(x, shape=tuple(a * b for a, b in zip(times, shape, strict=True)))
    shown = not any(t > 1 and n > 1 for t, n in zip(times, shape, strict=True))
    if shown or getattr(result, "_base", None) is not None:  # else reshape copied
        return e.clone(result)
    return result


@function()
def tile(input: Tensor, *dims: Any) -> Tensor:
    """Like ``repeat``, with missing leading sizes as one.

    >>> import tracejit as tj
    >>> tj.tile(tj.tensor([1, 2]), (2,))
    tensor([1, 2, 1, 2])
    """
    times = shapes.size_arguments(dims)
    return repeat(input, (1,) * (input.ndim - len(times)) + times)


@function()
def repeat_interleave(
    input: Tensor, repeats: Any = None, dim: int | None = None, *, output_size: int | None = None
) -> Tensor:
    """Each position along ``dim`` several times in a row; flattened when ``dim`` is None.

    With nothing else ``input`` holds the ``repeats`` of the positions 0, 1, 2, ... themselves.

    >>> import tracejit as tj
    >>> tj.repeat_interleave(tj.tensor([1, 2]), 2)
    tensor([1, 1, 2, 2])
    """
    if repeats is None:
        if input.ndim != 1:
            raise ShapeError("repeat_interleave only accept 1D vector as repeat")
        refuse_but_indices("repeat_interleave_cpu", input.dtype)
        return as_type(o.repeated_positions(input), input.dtype)
    if dim is None:
        return repeat_interleave(m.reshape(input, shape=(input.spec.numel,)), repeats, 0)
    d = dim_of(dim, input)
    shape = shape_of(input)
    if is_tensor(repeats):
        return _interleaved(input, m.reshape(repeats, shape=(repeats.spec.numel,)), d)
    if repeats < 0:
        raise RuntimeError("repeats can not be negative")
    x = m.expand(unsqueeze(input, d + 1), shape=(*shape[: d + 1], repeats, *shape[d + 1 :]))
    return own(m.reshape(x, shape=(*shape[:d], shape[d] * repeats, *shape[d + 1 :])))


def _interleaved(x: Tensor, counts: Tensor, dim: int) -> Tensor:
    (count,), extent = shape_of(counts), shape_of(x)[dim]
    if counts.spec.dtype.category != "int":
        raise RuntimeError("repeats must be int or long")
    if count == 1:
        counts = m.expand(counts, shape=(extent,))
    elif count != extent:
        raise RuntimeError("repeats must have the same size as input along dim")
    return ix.take(x, o.repeated_positions(counts), dim=dim)


@function(method=False)
def meshgrid(*tensors: Any, indexing: str = "ij") -> tuple[Tensor, ...]:
    """Vectors expanded to a grid: "ij" (first vector along the first dimension) or "xy".

    Raises ``RuntimeError`` for another ``indexing`` and for several dtypes.

    >>> import tracejit as tj
    >>> [g.tolist() for g in tj.meshgrid(tj.arange(2), tj.arange(2), indexing="ij")]
    [[[0, 0], [1, 1]], [[0, 1], [0, 1]]]
    """
    xs = list(tensors[0]) if len(tensors) == 1 and not is_tensor(tensors[0]) else list(tensors)
    _some("meshgrid", xs)
    if indexing not in ("ij", "xy"):
        raise RuntimeError(
            'torch.meshgrid: indexing must be one of "xy" or "ij", but received: '.replace(
                "torch.", "tracejit."
            )
            + indexing
        )
    if any(x.ndim > 1 for x in xs):
        raise ShapeError("tracejit.meshgrid: Expected 0D or 1D tensor in the tensor list")
    if any(x.dtype is not xs[0].dtype for x in xs):
        raise RuntimeError("meshgrid expects all tensors to have the same dtype")
    swap = indexing == "xy" and len(xs) >= 2
    if swap:
        xs[:2] = xs[1::-1]
    count = len(xs)
    columns = [
        m.reshape(x, shape=(1,) * i + (x.spec.numel,) + (1,) * (count - 1 - i))
        for i, x in enumerate(xs)
    ]
    grids = list(broadcast_tensors(*columns))
    if swap:
        grids[:2] = grids[1::-1]
    return tuple(grids)


@function(method=False)
def block_diag(*tensors: Tensor) -> Tensor:
    """Matrices along the diagonal of a matrix of zeros.

    >>> import tracejit as tj
    >>> tj.block_diag(tj.ones(1, 1), tj.ones(1, 2))
    tensor([[1., 0., 0.],
            [0., 1., 1.]])
    """
    for number, x in enumerate(tensors):
        if x.ndim > 2:
            raise ShapeError(
                "torch.block_diag: Input tensors must have 2 or fewer dimensions. "
                f"Input {number} has {x.ndim} dimensions"
            )
    blocks = [
        atleast(x, 2)
        for x in tensors or (s.full(shape=(0,), value=0, dtype=dtypes.get_default_dtype()),)
    ]
    width = sum(shape_of(b)[1] for b in blocks)
    rows, left = [], 0
    for b in blocks:
        right = width - left - shape_of(b)[1]
        rows.append(m.pad(b, widths=((0, 0), (left, right)), value=0))
        left += shape_of(b)[1]
    return cat(rows, 0)


for _name, _target in {"concat": cat, "concatenate": cat, "row_stack": vstack}.items():
    alias(_name, _target, method=False)


@function(method=False)
def cartesian_prod(*tensors: Tensor) -> Tensor:
    """Every combination of the elements of vectors, one row each.

    >>> import tracejit as tj
    >>> tj.cartesian_prod(tj.tensor([1, 2]), tj.tensor([3]))
    tensor([[1, 3],
            [2, 3]])
    """
    for x in tensors:
        if x.ndim != 1:
            raise RuntimeError(f"Expect a 1D vector, but got shape {list(x.shape)}")
    if len(tensors) == 1:
        return tensors[0]
    grids = meshgrid(*tensors)
    return stack([m.reshape(g, shape=(g.spec.numel,)) for g in grids], 1)
