"""Reductions: sums, products, extremes and truth along dimensions."""

# mypy: disable-error-code="has-type"
# (gradient rules name ops that are declared by the very decorator they stand in)

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from .. import dtypes
from ..dtypes import DType
from ..errors import DimensionError
from ..types import Shape, TensorType
from . import slabs
from .comparison import isnan
from .elementwise import cast, where
from .long_sums import added
from .movement import expand, unsqueeze
from .namespace import wide, xp
from .narrow_sums import narrow_sum
from .promotion import UnsupportedDtypeError
from .row_products import row_product
from .table import Array, Sample, reduction

SHAPES = (
    Sample(((3, 4),), {"dims": (0, 1), "keepdim": False}),
    Sample(((3, 4),), {"dims": (0,), "keepdim": False}),
    Sample(((3, 4),), {"dims": (1,), "keepdim": True}),
    Sample(((2, 3, 4),), {"dims": (1,), "keepdim": False}),
    Sample(((2, 3, 4),), {"dims": (0, 2), "keepdim": True}),
    Sample(((),), {"dims": (), "keepdim": False}),
    Sample(((1, 1),), {"dims": (0,), "keepdim": False}),
)
EMPTY = (
    Sample(((0, 3),), {"dims": (0,), "keepdim": False}),
    Sample(((3, 0),), {"dims": (0, 1), "keepdim": False}),
)


def accumulated(dtype: DType) -> DType:
    """Sums and products of bools and integers are int64."""
    return dtype if dtype.is_differentiable else dtypes.int64


def unchanged(dtype: DType) -> DType:
    """The operand's dtype."""
    return dtype


def truth(dtype: DType) -> DType:
    """bool."""
    return dtypes.bool_


def index(dtype: DType) -> DType:
    """int64 positions."""
    return dtypes.int64


def check_order(x: TensorType) -> None:
    """Raise ``RuntimeError`` for complex numbers, of which none is the larger one."""
    if x.dtype.is_complex:
        raise UnsupportedDtypeError(f"{x.dtype.title} elements have no order, and no extremes")


def nonempty(x: TensorType, attributes: Mapping[str, Any]) -> None:
    """Extremes need an order, and at least one element along every reduced dimension."""
    check_order(x)
    for dim in attributes["dims"]:
        if x.shape[dim] == 0:
            raise DimensionError(
                f"Expected reduction dim {dim} to have non-zero size, got {x} (an empty set has no extreme)"
            )


def expand_like(g: Any, x_type: TensorType, dims: Shape, keepdim: bool) -> Any:
    """Undo a reduction's shape: put the reduced dimensions back and broadcast along them."""
    if not keepdim and dims != tuple(range(len(dims))):  # leading dimensions come with broadcasting
        g = kept(g, x_type, dims, keepdim)
    return expand(g, shape=x_type.shape)


def kept(value: Any, x_type: TensorType, dims: Shape, keepdim: bool) -> Any:
    """``value`` of the reduced shape with the reduced dimensions back as extents of one."""
    if keepdim or not dims:
        return value
    return unsqueeze(value, dims=dims)


_REDUCTIONS: dict[str, Any] = {
    "sum": added,
    "prod": np.multiply.reduce,
    "max": np.maximum.reduce,
    "min": np.minimum.reduce,
    "any": partial(np.logical_or.reduce, dtype=np.bool_),
    "all": partial(np.logical_and.reduce, dtype=np.bool_),
}


def over(name: str, x: Array, dims: Shape, keepdim: bool) -> Array:
    """The function ``name`` of the array's module along ``dims``; on the host what that function ends in."""
    n = xp(x)
    function = _REDUCTIONS[name] if n is np else getattr(n, name)
    if n is np and x.size >= slabs.REDUCED:
        found = slabs.reduced(function, x, dims, keepdim)
        if found is not None:
            return found
    return function(x, axis=dims, keepdims=keepdim)


@reduction(
    "sum",
    result_dtype=accumulated,
    grad=lambda g, x_type, dims, keepdim: expand_like(g, x_type, dims, keepdim),
    samples=SHAPES + EMPTY,
)
def sum(x: Array, *, dims: Shape, keepdim: bool) -> Array:
    """The sum of x along ``dims``."""
    x = wide(x)
    if len(dims) == 1 and xp(x) is np:
        found = narrow_sum(x, dims[0])
        if found is not None:
            return np.expand_dims(found, dims[0]) if keepdim else found
    return over("sum", x, dims, keepdim)


@reduction(
    "prod",
    result_dtype=accumulated,
    grad=lambda g, x, dims, keepdim: _prod_grad(g, x, dims, keepdim),
    samples=SHAPES + EMPTY,
)
def prod(x: Array, *, dims: Shape, keepdim: bool) -> Array:
    """The product of x along ``dims``."""
    x = wide(x)
    found = row_product(x, dims) if xp(x) is np else None
    if found is None:
        return over("prod", x, dims, keepdim)
    return found[..., None] if keepdim else found


def _prod_grad(g: Any, x: Any, dims: Shape, keepdim: bool) -> Any:
    """The product of all other elements, exact also where elements are zero, and so are its own derivatives.

    For these the one other zero of a product is a factor that can be differentiated, not a constant.
    """
    zero = x == 0
    filled = where(zero, 1.0, x)
    others = prod(filled, dims=dims, keepdim=True)
    zeros = sum(zero, dims=dims, keepdim=True)
    null = sum(where(zero, x, 0.0), dims=dims, keepdim=True)  # the zero itself where there is one
    rest = others / filled
    nonzero = where(zeros == 0, rest, where(zeros == 1, null * rest, 0.0))
    alone = where(zeros == 1, others, where(zeros == 2, (null - x) * others, 0.0))
    return kept(g, _type(x), dims, keepdim) * where(zero, alone, nonzero)


def _type(x: Any) -> TensorType:
    return TensorType(tuple(x.shape), x.dtype)


def _extreme_grad(g: Any, x: Any, out: Any, dims: Shape, keepdim: bool, missing: bool) -> Any:
    """Spread the gradient evenly over the elements equal to the extreme; none is where that is NaN, unless ``missing``.

    With ``missing`` NaN counts as equal to NaN, and a gradient without limits stays with the chosen elements; without
    it the gradient is NaN then.
    """
    x_type = _type(x)
    best = kept(out, x_type, dims, keepdim)
    chosen = x == best
    if missing:
        chosen = chosen | (isnan(x) & isnan(best))
    parts = cast(chosen, dtype=x.dtype)
    share = kept(g, x_type, dims, keepdim)
    if missing:
        return where(chosen, share / sum(parts, dims=dims, keepdim=True), 0.0)
    return share * parts / sum(parts, dims=dims, keepdim=True)


@reduction(
    "max",
    result_dtype=unchanged,
    check=nonempty,
    grad=lambda g, x, out, dims, keepdim, missing: _extreme_grad(g, x, out, dims, keepdim, missing),
    samples=SHAPES,
)
def amax(x: Array, *, dims: Shape, keepdim: bool, missing: bool = False) -> Array:
    """The largest element along ``dims``; NaN if one is there."""
    return over("max", wide(x), dims, keepdim)


@reduction(
    "min",
    result_dtype=unchanged,
    check=nonempty,
    grad=lambda g, x, out, dims, keepdim, missing: _extreme_grad(g, x, out, dims, keepdim, missing),
    samples=SHAPES,
)
def amin(x: Array, *, dims: Shape, keepdim: bool, missing: bool = False) -> Array:
    """The smallest element along ``dims``; NaN if one is there."""
    return over("min", wide(x), dims, keepdim)


@reduction("any", result_dtype=truth, samples=SHAPES + EMPTY)
def any_true(x: Array, *, dims: Shape, keepdim: bool) -> Array:
    """True where some element along ``dims`` is non-zero."""
    return over("any", x, dims, keepdim)


@reduction("all", result_dtype=truth, samples=SHAPES + EMPTY)
def all_true(x: Array, *, dims: Shape, keepdim: bool) -> Array:
    """True where every element along ``dims`` is non-zero."""
    return over("all", x, dims, keepdim)


ONE_DIM = (
    Sample(((3, 4),), {"dims": (1,), "keepdim": False}),
    Sample(((3, 4),), {"dims": (0,), "keepdim": True}),
    Sample(((2, 3, 4),), {"dims": (1,), "keepdim": False}),
    Sample(((5,),), {"dims": (0,), "keepdim": False}),
)


@reduction(None, result_dtype=index, check=nonempty, samples=ONE_DIM)
def argmax(x: Array, *, dims: Shape, keepdim: bool) -> Array:
    """The first position of the largest element along the one dimension in ``dims``."""
    return (
        xp(x).argmax(x, axis=dims[0], keepdims=keepdim) if dims else xp(x).zeros(x.shape, np.int64)
    )


@reduction(None, result_dtype=index, check=nonempty, samples=ONE_DIM)
def argmin(x: Array, *, dims: Shape, keepdim: bool) -> Array:
    """The first position of the smallest element along the one dimension in ``dims``."""
    return (
        xp(x).argmin(x, axis=dims[0], keepdims=keepdim) if dims else xp(x).zeros(x.shape, np.int64)
    )
