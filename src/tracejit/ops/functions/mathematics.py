"""Arithmetic of several steps: lerp, addcmul, nan_to_num, logit, xlogy and the like."""

from __future__ import annotations

import math
from typing import Any

from ...dtypes import DType, bool_
from ...errors import ArgumentError, DtypeError
from .. import comparison as c
from .. import elementwise as e
from .. import entropies
from .. import transcendental as t
from ..complex_numbers import complex_of_parts, magnitude, parts_of_complex
from ..table import METHODS, function
from ..underived import underived
from .common import (
    Number,
    Tensor,
    as_type,
    check_tensor,
    is_tensor,
    promoted,
    refuse,
    refuse_bool,
    refuse_overflow,
    require_float,
    upcast,
)
from .exponents import times_power


@function()
def frac(input: Tensor) -> Tensor:
    """The fractional part, with the sign of ``input``.

    >>> import tracejit as tj
    >>> tj.frac(tj.tensor([1.5, -2.25]))
    tensor([ 0.5000, -0.2500])
    """
    require_float("frac", input)
    return e.sub(input, e.trunc(input))


@function(steady=True, large=True)
def lerp(input: Tensor, end: Tensor, weight: Tensor | Number) -> Tensor:
    """``input + weight * (end - input)``, exact at both ends.

    Raises ``RuntimeError`` for an ``end`` of another dtype, and for such a ``weight`` of more than one number.

    >>> import tracejit as tj
    >>> tj.lerp(tj.tensor([0.0, 10.0]), tj.tensor([1.0, 20.0]), 0.5)
    tensor([ 0.5000, 15.0000])
    """
    if end.dtype is not input.dtype:
        raise DtypeError(f"expected dtype {input.dtype} for `end` but got dtype {end.dtype}")
    refuse("lerp", input.dtype, "bool int")
    if is_tensor(weight) and weight.dtype is not input.dtype:
        if weight.ndim:
            raise DtypeError(
                f"expected dtype {input.dtype} for `weight` but got dtype {weight.dtype}"
            )
        weight = as_type(weight, input.dtype) if weight.dtype is bool_ else weight
    dtype = promoted(input, end, weight)
    start, end = upcast(input), upcast(end)
    weight = upcast(weight) if is_tensor(weight) else weight
    difference = e.sub(end, start)
    from_start = e.add(start, e.mul(weight, difference))
    if not is_tensor(weight):
        found = from_start if abs(weight) < 0.5 else _from_end(end, difference, weight)
        return _narrowed(found, dtype)
    size = magnitude(weight) if weight.dtype.is_complex else e.abs(weight)
    found = e.where(c.lt(size, 0.5), from_start, _from_end(end, difference, weight))
    return _narrowed(found, dtype)


def _from_end(end: Tensor, difference: Tensor, weight: Tensor | Number) -> Tensor:
    rest = e.sub(1.0, weight) if is_tensor(weight) else 1.0 - weight
    return e.sub(end, e.mul(difference, rest))


def _in_one_dtype(*xs: Tensor) -> tuple[list[Tensor], DType]:
    """Operands in the dtype of their result, half precision as float32; and that dtype."""
    dtype = promoted(*xs)
    return [upcast(as_type(x, dtype)) for x in xs], dtype


def _narrowed(found: Tensor, dtype: DType) -> Tensor:
    return as_type(found, dtype) if dtype.is_half else found


def _factor(value: Number, dtype: DType) -> Number:
    """``value`` in ``dtype``: cut to a whole number, refused where it is too large, or complex among real ones."""
    if isinstance(value, complex) and not dtype.is_complex:
        raise RuntimeError(f"value cannot be converted to type {dtype.name} without overflow")
    refuse_overflow(dtype, value)
    return value if dtype.is_floating_point or dtype.is_complex else int(value)


@function(steady=True, large=True)
def addcmul(
    input: Tensor, tensor1: Tensor, tensor2: Tensor, *older: Tensor, value: Number = 1
) -> Tensor:
    """``input + value * tensor1 * tensor2``.

    >>> import tracejit as tj
    >>> tj.addcmul(tj.ones(2), tj.tensor([1.0, 2.0]), tj.tensor([3.0, 4.0]), value=0.5)
    tensor([2.5000, 5.0000])
    """
    if older:  # addcmul(input, value, tensor1, tensor2)
        value, tensor1, (tensor2,) = tensor1, tensor2, older
    check_tensor("addcmul", tensor1, "tensor1", 2)
    check_tensor("addcmul", tensor2, "tensor2", 3)
    (base, first, second), dtype = _in_one_dtype(input, tensor1, tensor2)
    refuse_bool("addcmul_cpu_out", dtype)
    factor = _factor(value, dtype)
    scaled = first if factor == 1 else e.mul(first, factor)
    return _narrowed(e.add(base, e.mul(scaled, second)), dtype)


@function(steady=True, large=True)
def addcdiv(
    input: Tensor, tensor1: Tensor, tensor2: Tensor, *older: Tensor, value: Number = 1
) -> Tensor:
    """``input + value * tensor1 / tensor2``.

    Raises ``RuntimeError`` for integers, whose division is not an integer.

    >>> import tracejit as tj
    >>> tj.addcdiv(tj.ones(2), tj.tensor([1.0, 2.0]), tj.tensor([4.0, 4.0]))
    tensor([1.2500, 1.5000])
    """
    if older:  # addcdiv(input, value, tensor1, tensor2)
        value, tensor1, (tensor2,) = tensor1, tensor2, older
    if not promoted(tensor1, tensor2).is_differentiable:
        raise RuntimeError(
            "Integer division with addcdiv is no longer supported, and in a future release addcdiv "
            "will perform a true division of tensor1 and tensor2."
        )
    (base, first, second), dtype = _in_one_dtype(input, tensor1, tensor2)
    factor = _factor(value, dtype)
    scaled = first if factor == 1 else e.mul(first, factor)
    return _narrowed(e.add(base, e.div(scaled, second)), dtype)


@function(large=True)
def nan_to_num(
    input: Tensor,
    nan: float | None = 0.0,
    posinf: float | None = None,
    neginf: float | None = None,
) -> Tensor:
    """``input`` with NaN and infinities replaced (by default: 0 and the largest finite values), each part of its own.

    >>> import tracejit as tj
    >>> tj.nan_to_num(tj.tensor([float("nan"), float("inf"), 1.0]), posinf=9.0)
    tensor([0., 9., 1.])
    """
    dtype = input.spec.dtype
    if isinstance(nan, complex):
        raise ArgumentError("nan_to_num(): argument 'nan' (position 2) must be float, not complex")
    if dtype.is_complex:
        return complex_of_parts(nan_to_num(parts_of_complex(input), nan, posinf, neginf))
    if not dtype.is_floating_point:
        return e.clone(input)
    high, low = _finite_limits(dtype)
    finite = e.where(c.isnan(input), 0.0 if nan is None else nan, input)
    finite = e.where(c.eq(input, float("inf")), high if posinf is None else posinf, finite)
    return e.where(c.eq(input, float("-inf")), low if neginf is None else neginf, finite)


def _finite_limits(dtype: Any) -> tuple[float, float]:
    import ml_dtypes

    limits = ml_dtypes.finfo(dtype.np)  # type: ignore[no-untyped-call]
    return float(limits.max), float(limits.min)


@function()
def logit(input: Tensor, eps: float | None = None) -> Tensor:
    """``log(x / (1 - x))``, with ``x`` first limited to [eps, 1 - eps].

    >>> import tracejit as tj
    >>> tj.logit(tj.tensor([0.5, 0.75]))
    tensor([0.0000, 1.0986])
    """
    if eps is None:
        return entropies.log_odds(input)
    limited = e.where(c.gt(input, 1.0 - eps), 1.0 - eps, input)  # not NaN, nor its gradient
    return entropies.log_odds(e.where(c.lt(input, eps), eps, limited))


@function()
def xlogy(input: Tensor | Number, other: Tensor | Number) -> Tensor:
    """``input * log(other)``, zero where ``input`` is zero (unless ``other`` is NaN).

    >>> import tracejit as tj
    >>> tj.xlogy(tj.tensor([0.0, 2.0]), tj.tensor([0.0, 1.0]))
    tensor([0., 0.])
    """
    return entropies.xlogy(input, other)


@function()
def sinc(input: Tensor) -> Tensor:
    """``sin(pi x) / (pi x)``, one at zero; half precision is rounded once.

    >>> import tracejit as tj
    >>> tj.sinc(tj.tensor([0.0, 0.5]))
    tensor([1.0000, 0.6366])
    """
    if input.dtype.is_complex:
        zero = c.eq(input, 0)
        angle = e.mul(e.where(zero, 1.0, input), math.pi)
        return e.where(zero, 1.0, e.div(t.sin(angle), angle))
    angle = e.mul(upcast(input), math.pi)
    # Near zero the gradient of the quotient would be a difference of equals.
    near = c.lt(e.abs(angle), 0.1)
    square = e.square(e.where(near, angle, 0.0))
    series: Any = 1.0
    for divisor in (72.0, 42.0, 20.0, 6.0):
        series = e.sub(1.0, e.mul(e.div(square, divisor), series))
    far = e.where(near, 1.0, angle)
    found = e.where(near, series, e.div(t.sin(far), far))
    return as_type(found, input.dtype) if input.dtype.is_half else found


@function()
def deg2rad(input: Tensor) -> Tensor:
    """Degrees as radians.

    >>> import tracejit as tj
    >>> tj.deg2rad(tj.tensor([180.0]))
    tensor([3.1416])
    """
    refuse("deg2rad", input.dtype, "complex")
    return e.mul(input, 0.017453292519943295)


@function()
def rad2deg(input: Tensor) -> Tensor:
    """Radians as degrees.

    >>> import tracejit as tj
    >>> tj.rad2deg(tj.tensor([1.0]))
    tensor([57.2958])
    """
    refuse("rad2deg", input.dtype, "complex")
    return e.mul(input, 57.29577951308232)


@function()
def heaviside(input: Tensor, values: Tensor) -> Tensor:
    """``values`` at zero, 1 above, 0 elsewhere.

    >>> import tracejit as tj
    >>> tj.heaviside(tj.tensor([-1.0, 0.0, 2.0]), tj.tensor(0.5))
    tensor([0.0000, 0.5000, 1.0000])
    """
    check_tensor("heaviside", input)
    check_tensor("heaviside", values, "values", 2)
    if input.dtype is not values.dtype:
        raise RuntimeError("heaviside is not yet implemented for tensors with different dtypes.")
    found = e.where(c.eq(input, 0), values, as_type(c.gt(input, 0), input.dtype))
    return underived(found, input, values, what="aten::heaviside")


@function(large=True)
def ldexp(input: Tensor, other: Tensor) -> Tensor:
    """``input * 2**other``, which whole exponents take where ``2**other`` alone would be too large or too small.

    >>> import tracejit as tj
    >>> tj.ldexp(tj.tensor([1.0, 0.0]), tj.tensor([3, 200]))
    tensor([8., 0.])
    """
    kind = promoted(input, other)  # whole exponents change no dtype
    if not kind.is_differentiable:
        return e.mul(input, e.pow(2.0, other))
    if not (kind.is_complex or other.dtype.is_differentiable):
        return as_type(times_power(upcast(as_type(input, kind)), other), kind)
    wide, exponent = (upcast(as_type(x, kind)) for x in (input, other))
    return as_type(e.mul(wide, e.pow(2.0, exponent)), kind)


@function()
def polygamma(n: int, input: Tensor) -> Tensor:
    """The derivative of order ``n`` of digamma.

    Raises ``RuntimeError`` for a negative order.

    >>> import tracejit as tj
    >>> tj.polygamma(1, tj.tensor([1.0]))
    tensor([1.6449])
    """
    if n < 0:
        raise RuntimeError("polygamma(n, x) does not support negative n.")
    if n < 2:
        return t.trigamma(input) if n else t.digamma(input)
    return t.polygamma(input, order=n)


def _polygamma_of(self: Tensor, n: int) -> Tensor:
    """:func:`tracejit.polygamma` of order ``n``."""
    return polygamma(n, self)


METHODS["polygamma"] = _polygamma_of
