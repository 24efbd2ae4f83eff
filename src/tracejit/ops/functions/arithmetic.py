"""Arithmetic as PyTorch spells it: ``alpha``, rounding modes, and the published elementwise ops."""

from __future__ import annotations

from typing import Any

from ...dtypes import bool_, complex128, float16, float32, float64, int64
from .. import comparison as c
from .. import elementwise as e
from .. import limits
from .. import transcendental as t
from ..table import alias, function
from .common import (
    Number,
    Tensor,
    as_type,
    constant,
    is_tensor,
    promoted,
    refuse_overflow,
    require_float,
    upcast,
    with_zero_gradient,
)

publish = function()
for _op in (
    *(e.mul, e.neg, e.reciprocal, e.remainder, e.fmod, e.floor_divide),
    *(e.maximum, e.minimum, e.fmax, e.fmin, e.sign, e.copysign, e.floor, e.ceil, e.trunc),
    *(t.exp, t.exp2, t.expm1, t.log, t.log2, t.log10, t.log1p, t.sqrt, t.rsqrt),
    *(t.sigmoid, t.erf, t.erfc, t.erfinv, t.lgamma, t.digamma, t.hypot, t.atan2),
    *(t.sin, t.cos, t.tan, t.asin, t.acos, t.atan, t.sinh, t.cosh, t.tanh),
    *(t.asinh, t.acosh, t.atanh, c.signbit, c.bitwise_not),
):
    publish(_op)


def _with_scaled(op: Any, input: Tensor, other: Tensor | Number, alpha: Number) -> Tensor:
    """A sum or a difference of ``input`` and ``alpha * other``, with PyTorch's checks of ``alpha``; rounded once."""
    dtype = promoted(input, other)
    if isinstance(alpha, bool) and dtype is not bool_:
        raise RuntimeError("Boolean alpha only supported for Boolean results.")
    if isinstance(alpha, float) and not dtype.is_differentiable:
        raise RuntimeError(
            "For integral input tensors, argument alpha must not be a floating point number."
        )
    if isinstance(alpha, complex) and not dtype.is_complex:
        raise RuntimeError(
            "For non-complex input tensors, argument alpha must not be a complex number."
        )
    refuse_overflow(dtype, alpha)
    if not is_tensor(other):
        scaled = other * alpha
        return op(input, bool(scaled) if dtype is bool_ else scaled)
    if dtype is bool_:
        return op(input, e.mul(other, bool(alpha)))
    if not dtype.is_half:
        return op(input, e.mul(as_type(other, dtype), alpha))
    factor = upcast(as_type(constant(alpha, float32), dtype))  # rounded, as PyTorch does
    return as_type(op(upcast(input), e.mul(upcast(other), factor)), dtype)


@function()
def add(input: Tensor, other: Tensor | Number, *older: Tensor, alpha: Number = 1) -> Tensor:
    """``input + alpha * other``, broadcast and promoted; a logical or for bools.

    Raises ``RuntimeError`` when shapes do not broadcast or ``alpha`` does not fit the dtype.

    >>> import tracejit as tj
    >>> tj.add(tj.tensor([1, 2]), 10, alpha=2)
    tensor([21, 22])
    """
    if older:  # add(input, alpha, other)
        alpha, (other,) = other, older
    if alpha != 1 or alpha is True:
        return _with_scaled(e.add, input, other, alpha)
    return e.add(input, other)


@function()
def sub(input: Tensor, other: Tensor | Number, *older: Tensor, alpha: Number = 1) -> Tensor:
    """``input - alpha * other``, broadcast and promoted.

    Raises ``RuntimeError`` for bool operands and shapes that do not broadcast.

    >>> import tracejit as tj
    >>> tj.sub(tj.tensor([1, 2]), tj.tensor([[1], [2]]))
    tensor([[ 0,  1],
            [-1,  0]])
    """
    if older:  # sub(input, alpha, other)
        alpha, (other,) = other, older
    _refuse_bool(input, other)
    if alpha != 1 or alpha is True:
        return _with_scaled(e.sub, input, other, alpha)
    return e.sub(input, other)


def _refuse_bool(*operands: Tensor | Number) -> None:
    bools = [(x.spec.dtype is bool_) if is_tensor(x) else isinstance(x, bool) for x in operands]
    if True not in bools:
        return
    if False not in bools:
        raise RuntimeError(
            "Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or "
            "`logical_xor()` operator instead."
        )
    raise RuntimeError(
        "Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying "
        "to invert a mask, use the `~` or `logical_not()` operator instead."
    )


@function()
def rsub(input: Tensor, other: Tensor | Number, *, alpha: Number = 1) -> Tensor:
    """``other - alpha * input``.

    >>> import tracejit as tj
    >>> tj.rsub(tj.tensor([1, 2]), 10)
    tensor([9, 8])
    """
    return sub(other, input, alpha=alpha)


@function()
def div(input: Tensor, other: Tensor | Number, *, rounding_mode: str | None = None) -> Tensor:
    """``input / other``: true division, or rounded towards zero ("trunc") or down ("floor").

    True division of integers gives the default float dtype; rounded division keeps integers.
    Raises ``RuntimeError`` for another mode, and for rounded integer division by zero.

    >>> import tracejit as tj
    >>> tj.div(tj.tensor([7, -7]), 2), tj.div(tj.tensor([7, -7]), 2, rounding_mode="floor")
    (tensor([ 3.5000, -3.5000]), tensor([ 3, -4]))
    """
    if rounding_mode is None:
        return e.div(input, other)
    if rounding_mode == "floor":
        return e.floor_divide(input, other, flat=True)
    if rounding_mode != "trunc":
        raise RuntimeError(
            "div expected rounding_mode to be one of None, 'trunc', or 'floor' but found "
            f"'{rounding_mode}'"
        )
    dtype = promoted(input, other)
    if dtype.is_half and is_tensor(other) and other.ndim:
        # Rounded before what is behind the point is cut, unlike by one number; the slope is zero all the same.
        cut = e.trunc(e.div(*[e.detach_copy(x) if is_tensor(x) else x for x in (input, other)]))
        return with_zero_gradient(with_zero_gradient(cut, other), input)
    if dtype.is_floating_point:
        return e.trunc_divide(input, other)
    below = e.floor_divide(input, other)
    inexact = c.ne(e.mul(below, other), input)
    return e.add(below, as_type(c.logical_and(inexact, c.lt(below, 0)), below.dtype))


@function(steady=True)
def pow(input: Tensor | Number, exponent: Tensor | Number) -> Tensor:
    """``input`` to the power ``exponent``, broadcast and promoted.

    Raises ``RuntimeError`` for an integer tensor with a negative Python exponent.

    >>> import tracejit as tj
    >>> tj.pow(tj.tensor([1.0, 2.0, 3.0]), 2)
    tensor([1., 4., 9.])
    """
    if isinstance(exponent, (int, float)) and is_tensor(input):
        return _power_of_number(input, exponent)
    return e.pow(input, exponent)


def _power_of_number(input: Tensor, exponent: Number) -> Tensor:
    """Squares, roots, third and fourth powers are operations of their own; the others go through ``pow``."""
    dtype = promoted(input, exponent)
    if dtype is bool_:
        return e.clone(input) if exponent else c.eq(input, input)
    if exponent == 2 and dtype is input.spec.dtype:
        return e.square(input)
    multiplied = dtype in (float32, float64) or dtype.category == "int"
    if exponent in (3, 4) and dtype is input.spec.dtype and multiplied:
        return (t.cube if exponent == 3 else t.fourth)(input)
    if dtype.category == "int" and exponent < 0:
        raise RuntimeError("Integers to negative integer powers are not allowed.")
    if dtype.category == "int" or dtype.is_half:
        refuse_overflow(dtype, exponent)
    if dtype.is_floating_point and dtype is not float16 and exponent in (0.5, -0.5):
        return (t.sqrt if exponent > 0 else t.rsqrt)(as_type(input, dtype))
    return e.pow(input, exponent)


@function()
def square(input: Tensor) -> Tensor:
    """``input * input``; int64 for bools.

    >>> import tracejit as tj
    >>> tj.square(tj.tensor([-3, 2]))
    tensor([9, 4])
    """
    return e.square(as_type(input, int64) if input.spec.dtype is bool_ else input)


@function()
def positive(input: Tensor) -> Tensor:
    """``input`` itself.

    Raises ``RuntimeError`` for bools.

    >>> import tracejit as tj
    >>> tj.positive(tj.tensor([-3]))
    tensor([-3])
    """
    return +input


@function()
def float_power(input: Tensor | Number, exponent: Tensor | Number) -> Tensor:
    """``input`` to the power ``exponent``, computed and returned in float64 (complex numbers: complex128).

    >>> import tracejit as tj
    >>> tj.float_power(tj.tensor([2, 3]), -1)
    tensor([0.5000, 0.3333], dtype=tracejit.float64)
    """
    kind = complex128 if promoted(input, exponent).is_complex else float64
    wide = [as_type(x, kind) if is_tensor(x) else x for x in (input, exponent)]
    return pow(*wide)


@function()
def round(input: Tensor, *, decimals: int = 0) -> Tensor:
    """The nearest integers (or multiples of ``10**-decimals``), halves to even; half precision is rounded once.

    Raises ``RuntimeError`` for ``decimals`` of integers, which have none.

    >>> import tracejit as tj
    >>> tj.round(tj.tensor([0.5, 1.5, -2.4])), tj.round(tj.tensor([1.234]), decimals=1)
    (tensor([ 0.,  2., -2.]), tensor([1.2000]))
    """
    if decimals == 0:
        return e.round_half_even(input)
    require_float("round_cpu", input)
    scale, x = 10.0 ** abs(decimals), upcast(input)
    if decimals > 0:
        found = e.div(e.round_half_even(e.mul(x, scale)), scale)
    else:
        found = e.mul(e.round_half_even(e.div(x, scale)), scale)
    return as_type(found, input.dtype) if input.dtype.is_half else found


@function(steady=True, large=True)
def clamp(
    input: Tensor, min: Tensor | Number | None = None, max: Tensor | Number | None = None
) -> Tensor:
    """``input`` limited to [min, max]; ``max`` wins where the bounds cross; NaN stays.

    Raises ``RuntimeError`` when both bounds are None.

    >>> import tracejit as tj
    >>> tj.clamp(tj.tensor([-2.0, 0.5, 3.0]), -1, 1)
    tensor([-1.0000,  0.5000,  1.0000])
    """
    _refuse_bounds(input, min, max)
    if min is not None and max is not None:
        return limits.clamp_between(input, min, max)
    if min is not None:
        return clamp_min(input, min)
    if max is not None:
        return clamp_max(input, max)
    raise RuntimeError(
        "torch.clamp: At least one of 'min' or 'max' must not be None".replace(
            "torch.", "tracejit."
        )
    )


def _refuse_bounds(input: Tensor, *bounds: Tensor | Number | None) -> None:
    """Raise ``RuntimeError`` for a number that the result's dtype cannot hold."""
    for bound in bounds:
        if bound is not None and not is_tensor(bound):
            refuse_overflow(promoted(input, bound), bound)


@function()
def clamp_min(input: Tensor, min: Tensor | Number) -> Tensor:
    """``input``, but not below ``min``.

    >>> import tracejit as tj
    >>> tj.clamp_min(tj.tensor([-2, 3]), 0)
    tensor([0, 3])
    """
    _refuse_bounds(input, min)
    if promoted(input, min) is bool_:
        return c.logical_or(input, min)
    return limits.clamp_min(input, min)


@function()
def clamp_max(input: Tensor, max: Tensor | Number) -> Tensor:
    """``input``, but not above ``max``.

    >>> import tracejit as tj
    >>> tj.clamp_max(tj.tensor([-2, 3]), 0)
    tensor([-2,  0])
    """
    _refuse_bounds(input, max)
    if promoted(input, max) is bool_:
        return c.logical_and(input, max)
    return limits.clamp_max(input, max)


for _name, _target in {
    "subtract": sub,
    "multiply": e.mul,
    "divide": div,
    "true_divide": e.div,
    "negative": e.neg,
    "clip": clamp,
    "fix": e.trunc,
    "arcsin": t.asin,
    "arccos": t.acos,
    "arctan": t.atan,
    "arctan2": t.atan2,
    "arcsinh": t.asinh,
    "arccosh": t.acosh,
    "arctanh": t.atanh,
}.items():
    alias(_name, _target)
