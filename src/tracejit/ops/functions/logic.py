"""Comparison and logic as PyTorch spells them, and the selection functions."""

from __future__ import annotations

import builtins
from typing import Any

from ...dtypes import bool_, get_default_dtype, promote_types, uint8
from .. import comparison as c
from .. import elementwise as e
from .. import indexing as ix
from .. import movement as m
from .. import ordering as o
from .. import reduction as r
from ..table import FUNCTIONS, alias, function
from .common import (
    Number,
    Tensor,
    as_tensor_like,
    as_type,
    check_tensor,
    is_tensor,
    refuse,
    refuse_overflow,
)

publish = function()
for _op in (
    *(c.eq, c.ne, c.lt, c.le, c.gt, c.ge),
    *(c.logical_and, c.logical_or, c.logical_xor, c.logical_not),
    *(c.bitwise_and, c.bitwise_or, c.bitwise_xor, c.bitwise_left_shift, c.bitwise_right_shift),
    *(c.isnan, c.isinf, c.isfinite),
):
    publish(_op)
for _name, _target in {
    "not_equal": c.ne,
    "less": c.lt,
    "less_equal": c.le,
    "greater": c.gt,
    "greater_equal": c.ge,
}.items():
    alias(_name, _target)


#: From this many elements on a search among them takes less time than comparing each with each.
_MANY_WANTED = 64


def _all(x: Tensor) -> builtins.bool:
    return builtins.bool(r.all_true(x, dims=tuple(range(x.ndim)), keepdim=False))


@function()
def equal(input: Tensor, other: Tensor) -> builtins.bool:
    """Do two tensors have the same shape and elements? (A Python bool; NaN equals nothing.)

    >>> import tracejit as tj
    >>> tj.equal(tj.tensor([1, 2]), tj.tensor([1, 2]))
    True
    """
    check_tensor("equal", other, "other", 2)
    if tuple(input.shape) != tuple(other.shape):
        return False
    return _all(c.eq(input, other))


@function()
def isclose(
    input: Tensor,
    other: Tensor,
    rtol: float = 1e-05,
    atol: float = 1e-08,
    equal_nan: builtins.bool = False,
) -> Tensor:
    """Where ``|input - other| <= atol + rtol * |other|``; infinities of one sign are close.

    Raises ``RuntimeError`` when the dtypes differ and for negative tolerances.

    >>> import tracejit as tj
    >>> tj.isclose(tj.tensor([1.0, 2.0]), tj.tensor([1.0, 2.1]))
    tensor([ True, False])
    """
    check_tensor("isclose", input)
    check_tensor("isclose", other, "other", 2)
    for name, tolerance in (("rtol", rtol), ("atol", atol)):
        if tolerance < 0:
            raise RuntimeError(f"{name} must be greater than or equal to zero, but got {tolerance}")
    if input.dtype is not other.dtype:
        raise RuntimeError(f"{input.dtype.title} did not match {other.dtype.title}")
    close = c.eq(input, other)
    if equal_nan:
        close = c.logical_or(close, c.logical_and(c.isnan(input), c.isnan(other)))
    if input.dtype is bool_:
        return close
    if not input.dtype.is_differentiable:  # differences of integers could wrap around
        other = as_type(other, get_default_dtype())
    size = FUNCTIONS["abs"]  # of complex numbers too
    allowed = e.add(size(e.mul(other, rtol)), atol)
    gap = size(e.sub(input, other))
    return c.logical_or(close, c.logical_and(c.isfinite(gap), c.le(gap, allowed)))


@function()
def allclose(
    input: Tensor,
    other: Tensor,
    rtol: float = 1e-05,
    atol: float = 1e-08,
    equal_nan: builtins.bool = False,
) -> builtins.bool:
    """Are all elements close? See :func:`isclose`. (A Python bool.)

    >>> import tracejit as tj
    >>> tj.allclose(tj.ones(2), tj.ones(2) + 1e-9)
    True
    """
    return _all(isclose(input, other, rtol, atol, equal_nan))


@function(method=False, steady=True)
def where(
    condition: Tensor, input: Tensor | Number | None = None, other: Tensor | Number | None = None
) -> Tensor:
    """``input`` where ``condition`` holds, else ``other``; with one argument, ``nonzero`` per dimension.

    Raises ``RuntimeError`` when the condition is neither bool nor, as old masks are, uint8.

    >>> import tracejit as tj
    >>> x = tj.tensor([-1.0, 2.0])
    >>> tj.where(x > 0, x, 0.0)
    tensor([0., 2.])
    """
    if input is None and other is None:
        return condition.nonzero(as_tuple=True)
    return e.where(_mask(condition), *_fitting(input, other))


@function(namespace=False, method="where")
def where_method(self: Tensor, condition: Tensor, other: Tensor | Number) -> Tensor:
    """``self`` where ``condition`` holds, else ``other``.

    >>> import tracejit as tj
    >>> x = tj.tensor([-1.0, 2.0])
    >>> x.where(x > 0, 0.0)
    tensor([0., 2.])
    """
    return e.where(_mask(condition), *_fitting(self, other))


def _fitting(x: Any, y: Any) -> tuple[Any, Any]:
    """Both; ``RuntimeError`` for a number that the whole numbers of the other do not reach."""
    for tensor, number in ((x, y), (y, x)):
        if isinstance(number, int) and is_tensor(tensor) and tensor.dtype.category == "int":
            refuse_overflow(tensor.dtype, number)
    return x, y


def _mask(condition: Tensor) -> Tensor:
    """A mask of the time before there were bools: it holds where it is not 0."""
    old = is_tensor(condition) and condition.dtype is uint8
    return as_type(condition, bool_) if old else condition


@function(steady=True)
def masked_fill(input: Tensor, mask: Tensor, value: Tensor | Number) -> Tensor:
    """``input`` with ``value`` (a number or 0-d tensor) where ``mask`` is True.

    Raises ``RuntimeError`` when ``mask`` is not bool or ``value`` has dimensions.

    >>> import tracejit as tj
    >>> tj.masked_fill(tj.ones(3), tj.tensor([True, False, True]), 0.0)
    tensor([0., 1., 0.])
    """
    if mask.dtype is not bool_:
        raise RuntimeError(
            f"masked_fill_ only supports boolean masks, but got mask with dtype {mask.dtype.name}"
        )
    parts = value.dtype.is_complex if is_tensor(value) else isinstance(value, complex)
    if parts and not input.dtype.is_complex:
        raise RuntimeError(f"value cannot be converted to type {input.dtype.name} without overflow")
    if is_tensor(value) and value.ndim:
        raise RuntimeError(
            "masked_fill_ only supports a 0-dimensional value tensor, but got tensor with "
            f"{value.ndim} dimension(s)."
        )
    if not is_tensor(value):
        refuse_overflow(input.dtype, value)
    return e.where(mask, as_type(as_tensor_like(value, input), input.dtype), input)


@function()
def isin(
    elements: Tensor,
    test_elements: Tensor,
    *,
    assume_unique: builtins.bool = False,
    invert: builtins.bool = False,
) -> Tensor:
    """Which elements occur among ``test_elements``; one of the two may be a number.

    >>> import tracejit as tj
    >>> tj.isin(tj.tensor([1, 2, 3]), tj.tensor([2, 5]))
    tensor([False,  True, False])
    """
    if not is_tensor(test_elements):
        found = c.eq(elements, test_elements)
    elif not is_tensor(elements):
        pairs = c.eq(test_elements, elements)
        found = r.any_true(pairs, dims=tuple(range(pairs.ndim)), keepdim=False)
    else:
        for x in (elements, test_elements):
            refuse("isin", x.dtype, "bool complex")
        found = _among(elements, m.reshape(test_elements, shape=(test_elements.spec.numel,)))
    return c.logical_not(found) if invert else found


def _among(elements: Tensor, wanted: Tensor) -> Tensor:
    """Which elements are in a vector: by all pairs where that holds few, else by a search among what is sorted."""
    count, kind = wanted.spec.numel, promote_types(elements.dtype, wanted.dtype)
    if count < _MANY_WANTED or kind.is_complex:
        pairs = c.eq(elements.unsqueeze(-1), wanted)
        return r.any_true(pairs, dims=(pairs.ndim - 1,), keepdim=False)
    values, row = as_type(elements, kind), as_type(wanted, kind)
    known = c.eq(row, row)  # a search looks past NaN, which nothing is equal to
    if kind.is_floating_point:
        top = r.amax(e.where(known, row, float("-inf")), dims=(0,), keepdim=False)
        row = e.where(known, row, top)
    ordered = ix.gather(row, o.argsort(row, dim=0, descending=False), dim=0)
    places = o.search_sorted(ordered, values, right=False)
    nearest = ix.take(ordered, e.minimum(places, count - 1), dim=0)
    found = c.eq(nearest, values)
    return c.logical_and(found, r.any_true(known, dims=(0,), keepdim=False))


@function()
def isposinf(input: Tensor) -> Tensor:
    """True where ``input`` is +inf.

    >>> import tracejit as tj
    >>> tj.isposinf(tj.tensor([float("inf"), float("-inf")]))
    tensor([ True, False])
    """
    return c.logical_and(c.isinf(input), c.gt(input, 0))


@function()
def isneginf(input: Tensor) -> Tensor:
    """True where ``input`` is -inf.

    >>> import tracejit as tj
    >>> tj.isneginf(tj.tensor([float("inf"), float("-inf")]))
    tensor([False,  True])
    """
    return c.logical_and(c.isinf(input), c.lt(input, 0))


@function()
def isreal(input: Tensor) -> Tensor:
    """True where ``input`` has no imaginary part.

    >>> import tracejit as tj
    >>> tj.isreal(tj.ones(2))
    tensor([True, True])
    """
    if input.dtype.is_complex:
        return c.eq(FUNCTIONS["imag"](input), 0)
    return c.logical_or(c.eq(input, input), c.isnan(input))
