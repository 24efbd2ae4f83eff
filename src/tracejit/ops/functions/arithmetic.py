"""Arithmetic as PyTorch spells it: ``alpha``, rounding modes, and the published elementwise ops."""

from __future__ import annotations

from typing import Any

from ...dtypes import bool_, float64, get_default_dtype, int64
from ...errors import ArgumentValueError
from .. import comparison as c
from .. import elementwise as e
from .. import transcendental as t
from ..table import alias, function
from .common import Number, Tensor, as_type, constant, is_tensor, promoted, require_float

publish = function()
for _op in (
    *(e.mul, e.neg, e.reciprocal, e.remainder, e.fmod, e.floor_divide),
    *(e.maximum, e.minimum, e.fmax, e.fmin, e.abs, e.sign, e.copysign, e.floor, e.ceil, e.trunc),
    *(t.exp, t.exp2, t.expm1, t.log, t.log2, t.log10, t.log1p, t.logaddexp, t.sqrt, t.rsqrt),
    *(t.sigmoid, t.erf, t.erfc, t.erfinv, t.lgamma, t.digamma, t.hypot, t.atan2),
    *(t.sin, t.cos, t.tan, t.asin, t.acos, t.atan, t.sinh, t.cosh, t.tanh),
    *(t.asinh, t.acosh, t.atanh, c.signbit, c.bitwise_not),
):
    publish(_op)


def _scaled(name: str, other: Tensor | Number, alpha: Number, dtype: Any) -> Tensor | Number:
    """``alpha * other``, with PyTorch's checks of ``alpha``."""
    if isinstance(alpha, bool) and dtype is not bool_:
        raise RuntimeError("Boolean alpha only supported for Boolean results.")
    if isinstance(alpha, float) and not dtype.is_floating_point:
        raise RuntimeError(
            "For integral input tensors, argument alpha must not be a floating point number."
        )
    return e.mul(other, alpha) if is_tensor(other) else other * alpha


@function()
def add(input: Tensor, other: Tensor | Number, *, alpha: Number = 1) -> Tensor:
    """``input + alpha * other``, broadcast and promoted; a logical or for bools.

    Raises ``RuntimeError`` when shapes do not broadcast or ``alpha`` does not fit the dtype.

    >>> import tracejit as tj
    >>> tj.add(tj.tensor([1, 2]), 10, alpha=2)
    tensor([21, 22])
    """
    if alpha != 1:
        other = _scaled("add", other, alpha, promoted(input, other))
    return e.add(input, other)


@function()
def sub(input: Tensor, other: Tensor | Number, *, alpha: Number = 1) -> Tensor:
    """``input - alpha * other``, broadcast and promoted.

    Raises ``RuntimeError`` for bool operands and shapes that do not broadcast.

    >>> import tracejit as tj
    >>> tj.sub(tj.tensor([1, 2]), tj.tensor([[1], [2]]))
    tensor([[ 0,  1],
            [-1,  0]])
    """
    _refuse_bool(input, other)
    if alpha != 1:
        other = _scaled("sub", other, alpha, promoted(input, other))
    return e.sub(input, other)


def _refuse_bool(*operands: Tensor | Number) -> None:
    bools = [is_tensor(x) and x.type.dtype is bool_ or isinstance(x, bool) for x in operands]
    if all(bools):
        raise RuntimeError(
            "Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or "
            "`logical_xor()` operator instead."
        )
    if any(bools):
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
        return e.floor_divide(input, other)
    if rounding_mode != "trunc":
        raise RuntimeError(
            "div expected rounding_mode to be one of None, 'trunc', or 'floor' but found "
            f"'{rounding_mode}'"
        )
    if promoted(input, other).is_floating_point:
        return e.trunc(e.div(input, other))
    below = e.floor_divide(input, other)
    inexact = c.ne(e.mul(below, other), input)
    return e.add(below, as_type(c.logical_and(inexact, c.lt(below, 0)), below.dtype))


@function()
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
    """Squares and roots are exact operations of their own; the other powers go through ``pow``."""
    dtype = promoted(input, exponent)
    if exponent == 2 and dtype is input.type.dtype and dtype is not bool_:
        return e.square(input)
    if dtype.category == "int" and exponent < 0:
        raise RuntimeError("Integers to negative integer powers are not allowed.")
    return e.pow(input, exponent)


@function()
def square(input: Tensor) -> Tensor:
    """``input * input``; int64 for bools.

    >>> import tracejit as tj
    >>> tj.square(tj.tensor([-3, 2]))
    tensor([9, 4])
    """
    return e.square(as_type(input, int64) if input.type.dtype is bool_ else input)


@function()
def positive(input: Tensor) -> Tensor:
    """``input`` itself.

    Raises ``RuntimeError`` for bools.

    >>> import tracejit as tj
    >>> tj.positive(tj.tensor([-3]))
    tensor([-3])
    """
    if input.type.dtype is bool_:
        raise RuntimeError("The `+` operator, on a bool tensor is not supported.")
    return input


@function()
def float_power(input: Tensor | Number, exponent: Tensor | Number) -> Tensor:
    """``input`` to the power ``exponent``, computed and returned in float64.

    >>> import tracejit as tj
    >>> tj.float_power(tj.tensor([2, 3]), -1)
    tensor([0.5000, 0.3333], dtype=tracejit.float64)
    """
    wide = [as_type(x, float64) if is_tensor(x) else x for x in (input, exponent)]
    return pow(*wide)


@function()
def round(input: Tensor, *, decimals: int = 0) -> Tensor:
    """The nearest integers (or multiples of ``10**-decimals``), halves to even.

    >>> import tracejit as tj
    >>> tj.round(tj.tensor([0.5, 1.5, -2.4])), tj.round(tj.tensor([1.234]), decimals=1)
    (tensor([0., 2., -2.]), tensor([1.2000]))
    """
    if decimals == 0:
        return e.round_half_even(input)
    scale = 10.0 ** abs(decimals)
    if decimals > 0:
        return e.div(e.round_half_even(e.mul(input, scale)), scale)
    return e.mul(e.round_half_even(e.div(input, scale)), scale)


@function()
def clamp(
    input: Tensor, min: Tensor | Number | None = None, max: Tensor | Number | None = None
) -> Tensor:
    """``input`` limited to [min, max]; ``max`` wins where the bounds cross; NaN stays.

    Raises ``RuntimeError`` when both bounds are None.

    >>> import tracejit as tj
    >>> tj.clamp(tj.tensor([-2.0, 0.5, 3.0]), -1, 1)
    tensor([-1.0000,  0.5000,  1.0000])
    """
    if min is not None and max is not None:
        return e.clamp_between(input, min, max)
    if min is not None:
        return e.clamp_min(input, min)
    if max is not None:
        return e.clamp_max(input, max)
    raise RuntimeError(
        "torch.clamp: At least one of 'min' or 'max' must not be None".replace(
            "torch.", "tracejit."
        )
    )


@function()
def clamp_min(input: Tensor, min: Tensor | Number) -> Tensor:
    """``input``, but not below ``min``.

    >>> import tracejit as tj
    >>> tj.clamp_min(tj.tensor([-2, 3]), 0)
    tensor([0, 3])
    """
    return e.clamp_min(input, min)


@function()
def clamp_max(input: Tensor, max: Tensor | Number) -> Tensor:
    """``input``, but not above ``max``.

    >>> import tracejit as tj
    >>> tj.clamp_max(tj.tensor([-2, 3]), 0)
    tensor([-2,  0])
    """
    return e.clamp_max(input, max)


@function()
def frac(input: Tensor) -> Tensor:
    """The fractional part, with the sign of ``input``.

    >>> import tracejit as tj
    >>> tj.frac(tj.tensor([1.5, -2.25]))
    tensor([ 0.5000, -0.2500])
    """
    require_float("frac", input)
    return e.sub(input, e.trunc(input))


@function()
def lerp(input: Tensor, end: Tensor, weight: Tensor | Number) -> Tensor:
    """``input + weight * (end - input)``, exact at both ends.

    >>> import tracejit as tj
    >>> tj.lerp(tj.tensor([0.0, 10.0]), tj.tensor([1.0, 20.0]), 0.5)
    tensor([ 0.5000, 15.0000])
    """
    difference = e.sub(end, input)
    from_start = e.add(input, e.mul(weight, difference))
    if not is_tensor(weight):
        return from_start if abs(weight) < 0.5 else _from_end(end, difference, weight)
    return e.where(c.lt(e.abs(weight), 0.5), from_start, _from_end(end, difference, weight))


def _from_end(end: Tensor, difference: Tensor, weight: Tensor | Number) -> Tensor:
    rest = e.sub(1.0, weight) if is_tensor(weight) else 1.0 - weight
    return e.sub(end, e.mul(difference, rest))


@function()
def addcmul(input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Number = 1) -> Tensor:
    """``input + value * tensor1 * tensor2``.

    >>> import tracejit as tj
    >>> tj.addcmul(tj.ones(2), tj.tensor([1.0, 2.0]), tj.tensor([3.0, 4.0]), value=0.5)
    tensor([2.5000, 5.0000])
    """
    scaled = tensor1 if value == 1 else e.mul(tensor1, value)
    return e.add(input, e.mul(scaled, tensor2))


@function()
def addcdiv(input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Number = 1) -> Tensor:
    """``input + value * tensor1 / tensor2``.

    Raises ``RuntimeError`` for integers, whose division is not an integer.

    >>> import tracejit as tj
    >>> tj.addcdiv(tj.ones(2), tj.tensor([1.0, 2.0]), tj.tensor([4.0, 4.0]))
    tensor([1.2500, 1.5000])
    """
    if not promoted(tensor1, tensor2).is_floating_point:
        raise RuntimeError(
            "Integer division with addcdiv is no longer supported, and in a future release addcdiv "
            "will perform a true division of tensor1 and tensor2."
        )
    scaled = tensor1 if value == 1 else e.mul(tensor1, value)
    return e.add(input, e.div(scaled, tensor2))


@function()
def nan_to_num(
    input: Tensor, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None
) -> Tensor:
    """``input`` with NaN and infinities replaced (by default: 0 and the largest finite values).

    >>> import tracejit as tj
    >>> tj.nan_to_num(tj.tensor([float("nan"), float("inf"), 1.0]), posinf=9.0)
    tensor([0., 9., 1.])
    """
    dtype = input.type.dtype
    if not dtype.is_floating_point:
        return e.clone(input)
    high, low = _finite_limits(dtype)
    finite = e.where(c.isnan(input), float(nan), input)
    finite = e.where(c.eq(input, float("inf")), high if posinf is None else posinf, finite)
    return e.where(c.eq(input, float("-inf")), low if neginf is None else neginf, finite)


def _finite_limits(dtype: Any) -> tuple[float, float]:
    import ml_dtypes

    limits = ml_dtypes.finfo(dtype.np)
    return float(limits.max), float(limits.min)


@function()
def logit(input: Tensor, eps: float | None = None) -> Tensor:
    """``log(x / (1 - x))``, with ``x`` first limited to [eps, 1 - eps].

    >>> import tracejit as tj
    >>> tj.logit(tj.tensor([0.5, 0.75]))
    tensor([0.0000, 1.0986])
    """
    x = input if eps is None else clamp(input, eps, 1.0 - eps)
    return t.log(e.div(x, e.sub(1.0, x)))


@function()
def xlogy(input: Tensor | Number, other: Tensor | Number) -> Tensor:
    """``input * log(other)``, zero where ``input`` is zero (unless ``other`` is NaN).

    >>> import tracejit as tj
    >>> tj.xlogy(tj.tensor([0.0, 2.0]), tj.tensor([0.0, 1.0]))
    tensor([0., 0.])
    """
    zero = c.logical_and(c.eq(input, 0), c.logical_not(c.isnan(other)))
    dtype = promoted(input, other)
    dtype = dtype if dtype.is_floating_point else get_default_dtype()
    wide = [as_type(x, dtype) if is_tensor(x) else constant(x, dtype) for x in (input, other)]
    return e.mul(wide[0], t.log(e.where(zero, 1.0, wide[1])))


@function()
def sinc(input: Tensor) -> Tensor:
    """``sin(pi x) / (pi x)``, one at zero.

    >>> import tracejit as tj
    >>> tj.sinc(tj.tensor([0.0, 0.5]))
    tensor([1.0000, 0.6366])
    """
    zero = c.eq(input, 0)
    angle = e.mul(e.where(zero, 1.0, input), 3.141592653589793)
    return e.where(zero, 1.0, e.div(t.sin(angle), angle))


@function()
def deg2rad(input: Tensor) -> Tensor:
    """Degrees as radians.

    >>> import tracejit as tj
    >>> tj.deg2rad(tj.tensor([180.0]))
    tensor([3.1416])
    """
    return e.mul(input, 0.017453292519943295)


@function()
def rad2deg(input: Tensor) -> Tensor:
    """Radians as degrees.

    >>> import tracejit as tj
    >>> tj.rad2deg(tj.tensor([1.0]))
    tensor([57.2958])
    """
    return e.mul(input, 57.29577951308232)


@function()
def heaviside(input: Tensor, values: Tensor) -> Tensor:
    """0 below zero, 1 above, ``values`` at zero; NaN stays.

    >>> import tracejit as tj
    >>> tj.heaviside(tj.tensor([-1.0, 0.0, 2.0]), tj.tensor(0.5))
    tensor([0.0000, 0.5000, 1.0000])
    """
    if input.dtype is not values.dtype:
        raise RuntimeError("heaviside is not yet implemented for tensors with different dtypes.")
    step = as_type(c.gt(input, 0), input.dtype)
    return e.where(c.eq(input, 0), values, e.where(c.isnan(input), input, step))


@function()
def ldexp(input: Tensor, other: Tensor) -> Tensor:
    """``input * 2**other``.

    >>> import tracejit as tj
    >>> tj.ldexp(tj.tensor([1.0]), tj.tensor([3]))
    tensor([8.])
    """
    return e.mul(input, t.exp2(other))


@function()
def polygamma(n: int, input: Tensor) -> Tensor:
    """The derivative of order ``n`` of digamma.

    Raises ``ValueError`` for a negative order.

    >>> import tracejit as tj
    >>> tj.polygamma(1, tj.tensor([1.0]))
    tensor([1.6449])
    """
    if n < 0:
        raise ArgumentValueError("polygamma(n, x) does not support negative n.")
    return t.digamma(input) if n == 0 else t.polygamma(input, order=n)


for _name, _target in {
    "subtract": sub,
    "multiply": e.mul,
    "divide": div,
    "true_divide": e.div,
    "negative": e.neg,
    "absolute": e.abs,
    "clip": clamp,
    "fix": e.trunc,
    "sgn": e.sign,
    "arcsin": t.asin,
    "arccos": t.acos,
    "arctan": t.atan,
    "arctan2": t.atan2,
    "arcsinh": t.asinh,
    "arccosh": t.acosh,
    "arctanh": t.atanh,
}.items():
    alias(_name, _target)
