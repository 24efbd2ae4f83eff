"""Ops that address elements by integer tensors: take and put, gather and scatter.

``take``/``put`` use one index tensor of any shape along one dimension; ``gather``/``scatter`` an index per element.
All advanced indexing is made of these.
"""

# mypy: disable-error-code="has-type"
# (gradient rules name ops that are declared by the very decorator they stand in)

from __future__ import annotations

from typing import Any

import numpy as np

from .. import dtypes
from ..dtypes import DType
from ..errors import DtypeError, ShapeError
from ..types import Shape, TensorType
from .combining import combine_elements, combine_rows
from .comparison import eq
from .elementwise import cast, where
from .movement import pad, reshape, slice
from .namespace import wide, xp
from .positions import aligned, check_index, taken_along, wrapped
from .programs import by_program
from .source import arange, full
from .table import Array, Ints, Sample, indexing

# --- one index tensor along one dimension -------------------------------------------------------


def _take_type(x: TensorType, index: TensorType, *, dim: int, **_: bool) -> TensorType:
    check_index("index", index)
    return TensorType((*x.shape[:dim], *index.shape, *x.shape[dim + 1 :]), x.dtype)


def _zeros(shape: Shape, dtype: DType) -> Any:
    return full(shape=tuple(shape), value=0, dtype=dtype)


@indexing(
    _take_type,
    grad={
        "x": lambda g, x_type, index, dim, negative: put(
            _zeros(x_type.shape, g.dtype),
            index,
            g,
            dim=dim,
            accumulate=True,
            **({} if negative else {"negative": False}),
        )
    },
    samples=(
        Sample(((5, 3), Ints((4,), 0, 5)), {"dim": 0}),
        Sample(((2, 5), Ints((2, 3), -5, 5)), {"dim": 1}),
        Sample(((2, 3, 4), Ints((), 0, 3)), {"dim": 1}),
        Sample(((3, 2), Ints((0,), 0, 3)), {"dim": 0}),
        Sample(((5, 3), Ints((4,), 0, 5)), {"dim": 0, "negative": False}),
        Sample(((3,), Ints((2,), 3, 4)), {"dim": 0}, IndexError, "index 3 is out of bounds"),
        Sample(
            ((3,), Ints((2,), -1, 0)),
            {"dim": 0, "negative": False},
            IndexError,
            "index -1 is out of bounds",
        ),
    ),
)
def take(x: Array, index: Array, *, dim: int, negative: bool = True, shared: bool = False) -> Array:
    """The slices of x at the positions ``index`` (of any shape) along ``dim``; ``negative`` ones count from the end.

    ``shared`` says that eager execution shows the memory of x, for one position.
    """
    return xp(x).take(x, wrapped(index, x.shape[dim], dim, negative), axis=dim)


def _put_type(
    x: TensorType,
    index: TensorType,
    value: TensorType,
    *,
    dim: int,
    accumulate: bool,
    negative: bool = True,
) -> TensorType:
    expected = _take_type(x, index, dim=dim)
    if value.shape != expected.shape:
        raise ShapeError(
            f"shape mismatch: value tensor of shape {list(value.shape)} cannot be broadcast to "
            f"indexing result of shape {list(expected.shape)}"
        )
    if value.dtype is not x.dtype:
        raise DtypeError(
            "Index put requires the source and destination dtypes match, got "
            f"{x.dtype.title} for the destination and {value.dtype.title} for the source."
        )
    return x


def _put_grad(g: Any, index: Any, dim: int, accumulate: bool) -> Any:
    if accumulate:
        return g
    hole = _zeros(_take_type(g.spec, index.spec, dim=dim).shape, g.dtype)
    return put(g, index, hole, dim=dim, accumulate=False)


@indexing(
    _put_type,
    grad={
        "x": lambda g, index, dim, accumulate: _put_grad(g, index, dim, accumulate),
        "value": lambda g, index, dim: take(g, index, dim=dim),
    },
    samples=(
        Sample(((5, 3), Ints((4,), 0, 5), (4, 3)), {"dim": 0, "accumulate": True}),
        Sample(((2, 5), np.array([[0, -1], [2, 3]]), (2, 2, 2)), {"dim": 1, "accumulate": False}),
        Sample(((4,), np.array(2), ()), {"dim": 0, "accumulate": False}),
        Sample(
            ((3,), Ints((2,), -5, -4), (2,)),
            {"dim": 0, "accumulate": True},
            IndexError,
            "-5 is out",
        ),
        Sample(
            ((3,), Ints((2,), -1, 0), (2,)),
            {"dim": 0, "accumulate": False, "negative": False},
            IndexError,
            "-1 is out",
        ),
    ),
)
def put(
    x: Array, index: Array, value: Array, *, dim: int, accumulate: bool, negative: bool = True
) -> Array:
    """A copy of x with ``value`` written (or added) where :func:`take` would read."""
    result = xp(x).array(x, copy=True, order="C")
    places = wrapped(index, x.shape[dim], dim, negative)
    where_to: Any = (np.s_[:],) * dim + (places,)
    if not accumulate:
        result[where_to] = value
        return result
    total = wide(result)
    if xp(x) is np:
        if not combine_rows("add", total, places, value, dim):
            np.add.at(total, where_to, value)
    else:
        total = _added_on_device(total, where_to, value)
    return total.astype(x.dtype, copy=False)


def _added_on_device(total: Array, where_to: Any, value: Array) -> Array:
    """``total`` with values added; devices add floats and unsigned words, whose bits are those of signed ones."""
    if total.dtype.kind in "biu":
        total, value = (a.astype(np.int64).view(np.uint64) for a in (total, value))
    parts = ("real", "imag") if total.dtype.kind == "c" else ("real",)
    for part in parts:
        xp(total).add.at(getattr(total, part), where_to, getattr(value, part))
    return total


def _wrap_type(index: TensorType, *, size: int, dim: int) -> TensorType:
    check_index("index", index)
    return TensorType(index.shape, dtypes.int64)


@indexing(
    _wrap_type,
    samples=(
        Sample((Ints((4,), -3, 3),), {"size": 3, "dim": 0}),
        Sample((Ints((4,), 3, 4),), {"size": 3, "dim": 1}, IndexError, "index 3 is out of bounds"),
    ),
)
def wrap_index(index: Array, *, size: int, dim: int) -> Array:
    """``index`` as non-negative int64 positions of a dimension of extent ``size``."""
    return wrapped(index, size, dim).astype(np.int64, copy=False)


# --- an index per element -----------------------------------------------------------------------


def _check_gather(name: str, x: TensorType, index: TensorType, dim: int) -> None:
    check_index(name, index)
    if x.ndim != index.ndim:
        raise ShapeError("Index tensor must have the same number of dimensions as self tensor")
    for d, (extent, limit) in enumerate(zip(index.shape, x.shape, strict=True)):
        if d != dim and extent > limit:
            raise ShapeError(
                f"Size does not match at dimension {d} expected index {list(index.shape)} to be no "
                f"larger than self {list(x.shape)} apart from dimension {dim}"
            )


def _gather_type(x: TensorType, index: TensorType, *, dim: int) -> TensorType:
    _check_gather("gather", x, index, dim)
    return TensorType(index.shape, x.dtype)


def _gather_grad(g: Any, x_type: TensorType, index: Any, dim: int) -> Any:
    """A comparison with the position when one element is taken (it fuses), else a scatter."""
    same = all(
        a == b or d == dim
        for d, (a, b) in enumerate(zip(index.spec.shape, x_type.shape, strict=True))
    )
    if not same or not x_type.shape or index.spec.shape[dim] != 1:
        return scatter_add(_zeros(x_type.shape, g.dtype), index, g, dim=dim)
    positions = arange(start=0, step=1, count=x_type.shape[dim], dtype=dtypes.int64)
    shape = tuple(x_type.shape[dim] if d == dim else 1 for d in range(len(x_type.shape)))
    return where(eq(reshape(positions, shape=shape), index), g, 0.0)


@indexing(
    _gather_type,
    grad={"x": lambda g, x_type, index, dim: _gather_grad(g, x_type, index, dim)},
    samples=(
        Sample(((3, 4), Ints((3, 1), 0, 4)), {"dim": 1}),
        Sample(((3, 4), Ints((2, 4), 0, 3)), {"dim": 0}),
        Sample(((3, 4), Ints((2, 6), 0, 4)), {"dim": 1}),
        Sample(((3, 4), Ints((0, 4), 0, 3)), {"dim": 0}),
        Sample(((3, 4), Ints((3, 1), 4, 5)), {"dim": 1}, RuntimeError, "index 4 is out of bounds"),
        Sample(((3, 4), Ints((3,), 0, 3)), {"dim": 0}, RuntimeError, "same number of dimensions"),
    ),
)
def gather(x: Array, index: Array, *, dim: int) -> Array:
    """``x[i, index[i, j]]``-like: one element of x along ``dim`` per element of ``index``."""
    if not x.ndim:
        return xp(x).take(x.reshape(1), wrapped(index, 1, 0, negative=False))
    found = by_program(gather, (x, index), {"dim": dim}, same_bits=True)
    return taken_along(x, index, dim) if found is None else found


def _scatter_type(
    x: TensorType, index: TensorType, value: TensorType, *, dim: int, **_: Any
) -> TensorType:
    _check_gather("scatter", x, index, dim)
    if value.ndim != index.ndim:
        raise ShapeError("Index tensor must have the same number of dimensions as src tensor")
    if any(i > v for i, v in zip(index.shape, value.shape, strict=True)):
        raise ShapeError(
            f"Expected index {list(index.shape)} to be no larger than src {list(value.shape)}"
        )
    if value.dtype is not x.dtype:
        raise DtypeError("scatter(): Expected self.dtype to be equal to src.dtype")
    return x


def _value_grad(g: Any, value_type: TensorType, index: Any, dim: int) -> Any:
    """The gradient of the part of ``value`` that ``index`` covers; zero elsewhere."""
    taken = gather(g, index, dim=dim)
    widths = tuple((0, v - i) for i, v in zip(index.spec.shape, value_type.shape, strict=True))
    return pad(taken, widths=widths, value=0) if any(b for _, b in widths) else taken


def _used(value: Array, index: Array) -> Array:
    return value[tuple(np.s_[:n] for n in index.shape)]


_SCATTER_SAMPLES = (
    Sample(((3, 5), np.array([[0, 2], [1, 4], [3, 0]]), (3, 2)), {"dim": 1}),
    Sample(((3, 5), np.array([[0, 2, 1]]), (2, 3)), {"dim": 0}),
    Sample(((3, 5), Ints((3, 1), 5, 6), (3, 1)), {"dim": 1}, RuntimeError, "index 5 is out of"),
    Sample(((3, 5), Ints((3, 2), 0, 5), (3, 1)), {"dim": 1}, RuntimeError, "no larger than src"),
)


@indexing(
    _scatter_type,
    grad={
        "x": lambda g, index, dim: scatter(g, index, _zeros(index.spec.shape, g.dtype), dim=dim),
        "value": lambda g, value_type, index, dim: _value_grad(g, value_type, index, dim),
    },
    samples=_SCATTER_SAMPLES,
)
def scatter(x: Array, index: Array, value: Array, *, dim: int) -> Array:
    """A copy of x with elements of ``value`` written where :func:`gather` would read."""
    found = by_program(scatter, (x, index, value), {"dim": dim}, same_bits=True)
    if found is not None:
        return found
    result = xp(x).array(x, copy=True, order="C")
    if not x.ndim:
        return _used(value, index).reshape(()) if index.size else result
    result[aligned(index, x.shape, dim)] = _used(value, index)
    return result


@indexing(
    _scatter_type,
    grad={
        "x": lambda g: g,
        "value": lambda g, value_type, index, dim: _value_grad(g, value_type, index, dim),
    },
    samples=(
        *_SCATTER_SAMPLES,
        Sample(((2, 3), np.array([[0, 0, 2], [1, 1, 1]]), (2, 3)), {"dim": 1}),
    ),
)
def scatter_add(x: Array, index: Array, value: Array, *, dim: int) -> Array:
    """A copy of x with elements of ``value`` added where :func:`gather` would read."""
    return _accumulated(x, index, value, dim, "add")


def _accumulated(x: Array, index: Array, value: Array, dim: int, name: str) -> Array:
    n = xp(x)
    total = wide(n.array(x, copy=True, order="C"))
    flat = total.reshape(1) if not x.ndim else total
    index = index.reshape(1) if not x.ndim else index
    value = value.reshape(1) if not x.ndim else value
    combine, values = getattr(n, name), _used(value, index)
    places = aligned(index, flat.shape, dim)
    if n is np:
        if not combine_elements(name, flat, index, values, dim):
            combine.at(flat, places, values)
    else:
        _combine_in_order(combine, flat, places, values, dim)
    return total.astype(x.dtype, copy=False)


def _combine_in_order(
    combine: Any, target: Array, places: tuple[Array, ...], values: Array, dim: int
) -> None:
    """Values combined into the places one slice along ``dim`` after the other: within one no place comes twice."""
    for k in range(values.shape[dim]):
        here = tuple(p if p.shape[dim] == 1 else _slice_at(p, k, dim) for p in places)
        target[here] = combine(target[here], _slice_at(values, k, dim))


def _slice_at(x: Array, k: int, dim: int) -> Array:
    return x[(np.s_[:],) * dim + (np.s_[k : k + 1],)]


_REDUCES = {"prod": ("multiply", 1), "amax": ("maximum", None), "amin": ("minimum", None)}


def _scatter_reduce_grad(g: Any, x: Any, index: Any, value: Any, out: Any, dim: int) -> Any:
    """How much of ``g`` one equal contributor gets: extremes share evenly; NaN where none is equal to NaN."""
    hits = cast(eq(x, out), dtype=g.dtype)
    chosen = eq(value, gather(out, index, dim=dim))
    return g / scatter_add(hits, index, cast(chosen, dtype=g.dtype), dim=dim)


@indexing(
    lambda x, index, value, *, dim, reduce: _scatter_type(x, index, value, dim=dim),
    grad={
        "x": lambda g, x, index, value, out, dim, reduce: _reduced_grad_x(
            g, x, index, value, out, dim, reduce
        ),
        "value": lambda g, x, index, value, out, dim, reduce: _reduced_grad_value(
            g, x, index, value, out, dim, reduce
        ),
    },
    samples=(
        Sample(((2, 3), np.array([[0, 0, 2], [1, 1, 1]]), (2, 3)), {"dim": 1, "reduce": "amax"}),
        Sample(((2, 3), np.array([[0, 0, 2], [1, 1, 1]]), (2, 3)), {"dim": 1, "reduce": "amin"}),
        Sample(((2, 3), np.array([[0, 0, 2], [1, 1, 1]]), (2, 3)), {"dim": 1, "reduce": "prod"}),
    ),
)
def scatter_combine(x: Array, index: Array, value: Array, *, dim: int, reduce: str) -> Array:
    """A copy of x combined with elements of ``value`` by "prod", "amax" or "amin"."""
    return _accumulated(x, index, value, dim, _REDUCES[reduce][0])


def _reduced_grad_x(g: Any, x: Any, index: Any, value: Any, out: Any, dim: int, reduce: str) -> Any:
    if reduce == "prod":
        ones = full(shape=tuple(x.spec.shape), value=1, dtype=g.dtype)
        return g * scatter_combine(ones, index, value, dim=dim, reduce="prod")
    share = _scatter_reduce_grad(g, x, index, value, out, dim)
    return share * cast(eq(x, out), dtype=g.dtype)


def _product_of_others(g: Any, x: Any, index: Any, used: Any, out: Any, dim: int) -> Any:
    """``g`` times the product of what else comes to the same place, exact also where that is zero.

    What is at the place itself stays a factor, by which this can be differentiated, be it zero.
    """
    zero = eq(used, 0)
    none = full(shape=tuple(x.spec.shape), value=0, dtype=g.dtype)
    zeros = scatter_add(none, index, cast(zero, dtype=g.dtype), dim=dim)
    filled = where(zero, 1.0, used)
    rest = scatter_combine(x, index, filled, dim=dim, reduce="prod")
    alone = gather(where(eq(zeros, 1), g * rest, 0.0), index, dim=dim)
    return where(zero, alone, gather(g * out, index, dim=dim) / filled)


def _reduced_grad_value(
    g: Any, x: Any, index: Any, value: Any, out: Any, dim: int, reduce: str
) -> Any:
    used = slice(
        value,
        starts=(0,) * len(index.spec.shape),
        counts=index.spec.shape,
        steps=(1,) * len(index.spec.shape),
    )
    if reduce == "prod":
        part = _product_of_others(g, x, index, used, out, dim)
    else:
        share = _scatter_reduce_grad(g, x, index, used, out, dim)
        chosen = cast(eq(used, gather(out, index, dim=dim)), dtype=g.dtype)
        part = chosen * gather(share, index, dim=dim)
    widths = tuple((0, v - i) for i, v in zip(index.spec.shape, value.spec.shape, strict=True))
    return pad(part, widths=widths, value=0)
