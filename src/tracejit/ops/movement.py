"""Movement ops: views (reshape, permute, expand, slice, squeeze, unsqueeze, diagonal) and copies (cat, pad).

Attributes are normalised before they get here: dimensions are non-negative, ``slice`` carries a start, a count and a
step for every dimension. What a view does to strides is its rule in ``ops.strides``.
"""

# mypy: disable-error-code="has-type"
# (gradient rules name ops that are declared by the very decorator they stand in)

from __future__ import annotations

import builtins
from typing import Any

import numpy as np

from ..dtypes import from_numpy
from ..errors import DtypeError, ShapeError
from ..types import Shape, TensorType
from . import shapes, strides
from .conversions import convert_scalar
from .namespace import xp
from .source import full
from .table import Array, Sample, movement


def _reshape_type(x: TensorType, *, shape: Shape) -> TensorType:
    if shapes.numel(shape) != x.numel:
        raise ShapeError(f"shape '{list(shape)}' is invalid for input of size {x.numel}")
    return TensorType(shape, x.dtype)


@movement(
    _reshape_type,
    strides=strides.reshaped,
    grad=lambda g, x_type: reshape(g, shape=x_type.shape),
    write=lambda base, value, shape: reshape(value, shape=tuple(base.shape)),
    samples=(
        Sample(((2, 3, 4),), {"shape": (6, 4)}),
        Sample(((6,),), {"shape": (2, 1, 3)}),
        Sample(((),), {"shape": (1, 1)}),
        Sample(((0, 3),), {"shape": (3, 0)}),
        Sample(((2, 3),), {"shape": (5,)}, RuntimeError, "invalid for input of size 6"),
    ),
)
def reshape(x: Array, *, shape: Shape) -> Array:
    """x with another shape; a view when the strides allow it, else a copy."""
    return x.reshape(shape)


def _permute_type(x: TensorType, *, dims: Shape) -> TensorType:
    if sorted(dims) != list(range(x.ndim)):
        raise ShapeError(
            "permute(sparse_coo): number of dimensions in the tensor input does not match the length "
            f"of the desired ordering of dimensions i.e. input.dim() = {x.ndim} is not equal to "
            f"len(dims) = {len(dims)}"
        )
    return TensorType(tuple(x.shape[d] for d in dims), x.dtype)


def _inverse(dims: Shape) -> Shape:
    return tuple(sorted(range(len(dims)), key=dims.__getitem__))


@movement(
    _permute_type,
    strides=strides.permuted,
    grad=lambda g, dims: permute(g, dims=_inverse(dims)),
    write=lambda base, value, dims: permute(value, dims=_inverse(dims)),
    samples=(
        Sample(((2, 3, 4),), {"dims": (2, 0, 1)}),
        Sample(((2, 3),), {"dims": (1, 0)}),
        Sample(((2, 3),), {"dims": (0,)}, RuntimeError, "number of dimensions"),
    ),
)
def permute(x: Array, *, dims: Shape) -> Array:
    """x with its dimensions in another order."""
    return x.transpose(dims)


def _expand_type(x: TensorType, *, shape: Shape) -> TensorType:
    ahead = len(shape) - x.ndim
    if ahead < 0 or builtins.any(
        not (e is n or e == n or e == 1)
        for e, n in zip(x.shape, shape[max(ahead, 0) :], strict=False)
    ):
        raise ShapeError(
            f"The expanded size of the tensor {list(shape)} must match the existing size {list(x.shape)} "
            "at every non-singleton dimension"
        )
    return TensorType(shape, x.dtype)


def _write_expanded(base: Any, value: Any, *, shape: Shape) -> Any:
    """Only where nothing is repeated: then the view has the elements of its base."""
    if shapes.numel(shape) != base.spec.numel:
        raise RuntimeError(
            "unsupported operation: more than one element of the written-to tensor refers to a "
            "single memory location. Please clone() the tensor before performing the operation."
        )
    return reshape(value, shape=tuple(base.shape))


@movement(
    _expand_type,
    strides=strides.expanded,
    grad=lambda g, x_type: sum_to(g, x_type.shape),
    write=_write_expanded,
    samples=(
        Sample(((3, 1),), {"shape": (3, 4)}),
        Sample(((3,),), {"shape": (2, 3)}),
        Sample(((),), {"shape": (2, 2)}),
        Sample(((2, 3),), {"shape": (2, 4)}, RuntimeError, "must match the existing size"),
    ),
)
def expand(x: Array, *, shape: Shape) -> Array:
    """x repeated along extents of one, without copying."""
    n = xp(x)
    if n is np and x.flags.c_contiguous and x.size:
        return _spread(x, shape)
    view = n.broadcast_to(x, shape)
    if view.size == x.size and getattr(x.flags, "writeable", False):
        view.flags.writeable = True  # nothing is repeated: a view like any other
    return view


def _spread(x: Array, shape: Shape) -> Array:
    """``np.broadcast_to`` of an array without gaps, in one step."""
    ahead = len(shape) - x.ndim
    if ahead < 0 or (shape and min(shape) < 0):
        raise ValueError(f"cannot broadcast an array of shape {x.shape} to shape {shape}")
    steps = [0] * ahead
    for extent, step, wanted in zip(x.shape, x.strides, shape[ahead:], strict=True):
        if extent == wanted:
            steps.append(step)
        elif extent == 1:
            steps.append(0)
        else:
            raise ValueError(f"cannot broadcast an array of shape {x.shape} to shape {shape}")
    view: Array = np.ndarray(shape, x.dtype, x, 0, steps)
    if view.size != x.size:
        view.flags.writeable = False  # elements stand for several
    return view


def sum_to(g: Any, shape: Shape) -> Any:
    """Sum ``g`` over the dimensions along which ``shape`` was broadcast: the one place broadcasting is undone."""
    own = g.spec.shape
    ahead = len(own) - len(shape)
    if not ahead and own == tuple(shape):  # tuples of any lengths compare their extents
        return g
    from .reduction import sum as sum_op

    dims = tuple(
        [d for d, extent in enumerate(own) if d < ahead or (shape[d - ahead] == 1 and extent != 1)]
    )
    if ahead and dims == tuple(range(ahead)):
        return sum_op(g, dims=dims, keepdim=False)
    result = sum_op(g, dims=dims, keepdim=True) if dims else g
    return reshape(result, shape=shape) if ahead else result


def _unsqueeze_type(x: TensorType, *, dims: Shape) -> TensorType:
    shape = list(x.shape)
    for d in dims:
        shape.insert(d, 1)
    return TensorType(tuple(shape), x.dtype)


@movement(
    _unsqueeze_type,
    strides=strides.unsqueezed,
    grad=lambda g, dims: squeeze(g, dims=dims),
    write=lambda base, value, dims: squeeze(value, dims=dims),
    samples=(
        Sample(((2, 3),), {"dims": (1,)}),
        Sample(((2,),), {"dims": (0, 2)}),
        Sample(((),), {"dims": (0,)}),
    ),
)
def unsqueeze(x: Array, *, dims: Shape) -> Array:
    """x with extents of one inserted so that they stand at ``dims`` of the result."""
    shape = list(x.shape)
    for d in dims:
        shape.insert(d, 1)
    return x.reshape(shape)


def _squeeze_type(x: TensorType, *, dims: Shape) -> TensorType:
    if builtins.any(x.shape[d] != 1 for d in dims):
        raise ShapeError(f"squeeze: {x} has other extents than 1 among dimensions {list(dims)}")
    return TensorType(shapes.reduced(x.shape, dims, False), x.dtype)


@movement(
    _squeeze_type,
    strides=strides.squeezed,
    grad=lambda g, dims: unsqueeze(g, dims=dims),
    write=lambda base, value, dims: unsqueeze(value, dims=dims),
    samples=(Sample(((2, 1, 3),), {"dims": (1,)}), Sample(((1, 1),), {"dims": (0, 1)})),
)
def squeeze(x: Array, *, dims: Shape) -> Array:
    """x without the extents of one at ``dims``."""
    return x.squeeze(dims)


def _zeros(g: Any, shape: Shape) -> Any:
    return full(shape=tuple(shape), value=0, dtype=g.dtype)


def _slice_type(x: TensorType, *, starts: Shape, counts: Shape, steps: Shape) -> TensorType:
    return TensorType(counts, x.dtype)


def basic_index(starts: Shape, counts: Shape, steps: Shape) -> tuple[builtins.slice, ...]:
    """The NumPy index that takes ``counts`` elements from ``starts`` with ``steps`` along each dimension."""
    return tuple([_one_slice(*part) for part in zip(starts, counts, steps, strict=True)])


def _one_slice(start: int, count: int, step: int) -> builtins.slice:
    if count == 0:
        return builtins.slice(0, 0)
    if step == 1:
        return builtins.slice(start, start + count)
    stop = start + (count - 1) * step + (1 if step > 0 else -1)
    return builtins.slice(start, None if stop < 0 else stop, step)


@movement(
    _slice_type,
    strides=strides.sliced,
    grad=lambda g, x_type, starts, counts, steps: slice_scatter(
        _zeros(g, x_type.shape), g, starts=starts, counts=counts, steps=steps
    ),
    write=lambda base, value, starts, counts, steps: slice_scatter(
        base, value, starts=starts, counts=counts, steps=steps
    ),
    samples=(
        Sample(((5, 6),), {"starts": (1, 0), "counts": (3, 3), "steps": (1, 2)}),
        Sample(((5,),), {"starts": (4,), "counts": (5,), "steps": (-1,)}),
        Sample(((4, 3),), {"starts": (0, 0), "counts": (0, 3), "steps": (1, 1)}),
    ),
)
def slice(x: Array, *, starts: Shape, counts: Shape, steps: Shape) -> Array:
    """``counts`` elements of x from ``starts`` with ``steps`` along each dimension."""
    return x[basic_index(starts, counts, steps) or ...]  # x[()] is no view


def _slice_scatter_type(
    x: TensorType, value: TensorType, *, starts: Shape, counts: Shape, steps: Shape
) -> TensorType:
    if value.shape != counts:
        raise ShapeError(f"slice_scatter: expected a value of shape {list(counts)}, got {value}")
    return x


def _slice(x: Any, starts: Shape, counts: Shape, steps: Shape) -> Any:
    return slice(x, starts=starts, counts=counts, steps=steps)


@movement(
    _slice_scatter_type,
    grad={
        "x": lambda g, value_type, starts, counts, steps: slice_scatter(
            g, _zeros(g, value_type.shape), starts=starts, counts=counts, steps=steps
        ),
        "value": lambda g, starts, counts, steps: _slice(g, starts, counts, steps),
    },
    samples=(Sample(((5, 6), (3, 3)), {"starts": (1, 0), "counts": (3, 3), "steps": (1, 2)}),),
)
def slice_scatter(x: Array, value: Array, *, starts: Shape, counts: Shape, steps: Shape) -> Array:
    """A copy of x with ``value`` written where :func:`slice` would read."""
    result = xp(x).array(x, copy=True, order="C")
    result[basic_index(starts, counts, steps)] = value
    return result


def _diagonal_type(x: TensorType, *, offset: int, dim1: int, dim2: int) -> TensorType:
    rest = tuple(e for d, e in enumerate(x.shape) if d not in (dim1, dim2))
    rows, columns = x.shape[dim1] + min(offset, 0), x.shape[dim2] - max(offset, 0)
    return TensorType((*rest, max(min(rows, columns), 0)), x.dtype)


@movement(
    _diagonal_type,
    strides=strides.on_diagonal,
    grad=lambda g, x_type, offset, dim1, dim2: diagonal_scatter(
        _zeros(g, x_type.shape), g, offset=offset, dim1=dim1, dim2=dim2
    ),
    write=lambda base, value, offset, dim1, dim2: diagonal_scatter(
        base, value, offset=offset, dim1=dim1, dim2=dim2
    ),
    samples=(
        Sample(((3, 4),), {"offset": 0, "dim1": 0, "dim2": 1}),
        Sample(((2, 3, 4),), {"offset": -1, "dim1": 1, "dim2": 2}),
    ),
)
def diagonal(x: Array, *, offset: int, dim1: int, dim2: int) -> Array:
    """The diagonal of dimensions ``dim1`` and ``dim2`` as a last dimension."""
    result = xp(x).diagonal(x, offset, dim1, dim2)
    if xp(x) is np and result.base is not None and x.flags.writeable:
        result.flags.writeable = True
    return result


@movement(
    lambda x, value, *, offset, dim1, dim2: x,
    grad={
        "x": lambda g, value_type, offset, dim1, dim2: diagonal_scatter(
            g, _zeros(g, value_type.shape), offset=offset, dim1=dim1, dim2=dim2
        ),
        "value": lambda g, offset, dim1, dim2: diagonal(g, offset=offset, dim1=dim1, dim2=dim2),
    },
    samples=(Sample(((3, 4), (3,)), {"offset": 0, "dim1": 0, "dim2": 1}),),
)
def diagonal_scatter(x: Array, value: Array, *, offset: int, dim1: int, dim2: int) -> Array:
    """A copy of x with ``value`` on the diagonal."""
    result = xp(x).array(x, copy=True, order="C")
    view = xp(x).diagonal(result, offset, dim1, dim2)
    if xp(x) is np:
        view.flags.writeable = True
    view[...] = value
    return result


def _cat_type(*xs: TensorType, dim: int) -> TensorType:
    first = xs[0]
    total = 0
    for x in xs:
        if x.ndim != first.ndim:
            raise ShapeError(
                f"Tensors must have same number of dimensions: got {first.ndim} and {x.ndim} (cat)"
            )
        if builtins.any(
            a != b for d, (a, b) in enumerate(zip(x.shape, first.shape, strict=True)) if d != dim
        ):
            raise ShapeError(
                f"Sizes of tensors must match except in dimension {dim}. Got {first} and {x} (cat)"
            )
        if x.dtype is not first.dtype:
            raise DtypeError(f"cat: expected equal dtypes, got {first} and {x}")
        total += x.shape[dim]
    return TensorType((*first.shape[:dim], total, *first.shape[dim + 1 :]), first.dtype)


def _cat_grad(g: Any, position: int, types: tuple[TensorType, ...], dim: int) -> Any:
    start = builtins.sum(t.shape[dim] for t in types[:position])
    shape = types[position].shape
    starts = tuple(start if d == dim else 0 for d in range(len(shape)))
    return _slice(g, starts, shape, (1,) * len(shape))


@movement(
    _cat_type,
    grad={"xs": lambda g, position, types, dim: _cat_grad(g, position, types, dim)},
    samples=(
        Sample(((2, 3), (2, 1), (2, 2)), {"dim": 1}),
        Sample(((2,), (0,), (3,)), {"dim": 0}),
        Sample(
            ((2, 3), (3, 3)),
            {"dim": 1},
            RuntimeError,
            "Sizes of tensors must match except in dimension 1",
        ),
    ),
)
def cat(*xs: Array, dim: int) -> Array:
    """The tensors one after the other along ``dim``."""
    return xp(*xs).concatenate(xs, axis=dim)


def _pad_type(x: TensorType, *, widths: tuple[tuple[int, int], ...], value: Any) -> TensorType:
    return TensorType(tuple(e + a + b for e, (a, b) in zip(x.shape, widths, strict=True)), x.dtype)


@movement(
    _pad_type,
    grad=lambda g, x_type, widths: _slice(
        g, tuple(a for a, _ in widths), x_type.shape, (1,) * len(widths)
    ),
    samples=(
        Sample(((2, 3),), {"widths": ((1, 0), (0, 2)), "value": 0.5}),
        Sample(((3,),), {"widths": ((2, 2),), "value": 0}),
    ),
)
def pad(x: Array, *, widths: tuple[tuple[int, int], ...], value: Any) -> Array:
    """x with ``value`` added before and after along each dimension."""
    number = convert_scalar(value, from_numpy(x.dtype))[()]
    shape = [a + e + b for e, (a, b) in zip(x.shape, widths, strict=True)]
    inside = result = xp(x).empty(shape, x.dtype)
    for dim, (before, after) in enumerate(widths):
        end = inside.shape[dim] - after
        lead = (builtins.slice(None),) * dim
        if before:
            inside[(*lead, builtins.slice(before))] = number
        if after:
            inside[(*lead, builtins.slice(end, None))] = number
        inside = inside[(*lead, builtins.slice(before, end))]
    inside[...] = x
    return result
