"""Elementwise ops: arithmetic, comparison, logic, selection, rounding, exponentials and trigonometry."""

from __future__ import annotations

import numpy as np

from . import promotion as p
from .namespace import special, xp
from .table import Array, elementwise

POSITIVE = (0.05, 4.0)
UNIT = (-0.95, 0.95)

# --- arithmetic ------------------------------------------------------------------------------------------------


@elementwise("x + y", promotion=p.same, grad={"x": lambda g: g, "y": lambda g: g})
def add(x: Array, y: Array) -> Array:
    """x + y."""
    return xp(x, y).add(x, y)


@elementwise("x - y", promotion=p.numeric, grad={"x": lambda g: g, "y": lambda g: -g})
def sub(x: Array, y: Array) -> Array:
    """x - y."""
    return xp(x, y).subtract(x, y)


@elementwise("x * y", promotion=p.same, grad={"x": lambda g, y: g * y, "y": lambda g, x: g * x})
def mul(x: Array, y: Array) -> Array:
    """x * y."""
    return xp(x, y).multiply(x, y)


@elementwise(
    "x / y",
    promotion=p.to_float,
    grad={"x": lambda g, y: g / y, "y": lambda g, out, y: -g * (out / y)},
    domain={"x": (-3.0, 3.0), "y": POSITIVE},
)
def div(x: Array, y: Array) -> Array:
    """x / y in floating point."""
    return xp(x, y).true_divide(x, y)


@elementwise("-x", promotion=p.numeric, grad=lambda g: -g)
def neg(x: Array) -> Array:
    """-x."""
    return xp(x).negative(x)


@elementwise("x", promotion=p.same, grad=lambda g: g)
def clone(x: Array) -> Array:
    """A contiguous copy of x."""
    return xp(x).array(x, copy=True)


@elementwise("x", promotion=p.same)
def detach_copy(x: Array) -> Array:
    """x without its history; in the IR this marks where gradients stop."""
    return x


@elementwise("convert(x, dtype)", promotion=p.cast, grad=lambda g, x_type: g.to(x_type.dtype))
def cast(x: Array, *, dtype: object) -> Array:
    """x converted to ``dtype``; floats truncate towards zero when they become integers."""
    return x.astype(dtype.np)  # type: ignore[attr-defined]


@elementwise(
    "pow(x, y)",
    promotion=p.numeric,
    grad={
        "x": lambda g, x, y: g * pow_grad_base(x, y),
        "y": lambda g, out, x, y: pow_grad_exponent(g, out, x, y),
    },
    domain={"x": POSITIVE, "y": (-2.0, 2.0)},
)
def pow(x: Array, y: Array) -> Array:
    """x to the power y."""
    return xp(x, y).power(x, y)


def pow_grad_base(x: Array, y: Array) -> Array:
    """d(x**y)/dx = y * x**(y-1), and zero where the exponent is zero."""
    if isinstance(y, (bool, int, float)):
        return x * 0 if y == 0 else y * x ** (y - 1)
    return where(y == 0, 0.0, y * x ** (y - 1))


def pow_grad_exponent(g: Array, out: Array, x: Array, y: Array) -> Array:
    """d(x**y)/dy = x**y * log(x), and zero where x == 0 and y >= 0."""
    slope = out * (log(x) if not isinstance(x, (bool, int, float)) else float(np.log(x)) if x > 0 else (0.0 if x == 0 else float("nan")))
    if isinstance(x, (bool, int, float)):
        return where(y >= 0, 0.0, g * (out * float("-inf"))) if x == 0 else g * slope
    return where((x == 0) & (y >= 0), 0.0, g * slope)


@elementwise("floor_divide(x, y)", promotion=p.numeric, domain={"x": (-9.0, 9.0), "y": (0.5, 3.0)})
def floor_divide(x: Array, y: Array) -> Array:
    """The floor of x / y; integer division by zero raises."""
    return _checked_integer_division(xp(x, y).floor_divide, x, y)


@elementwise(
    "remainder(x, y)",
    promotion=p.numeric,
    grad={"x": lambda g: g, "y": lambda g, x, y: -g * (x / y).floor()},
    domain={"x": (-9.0, 9.0), "y": (0.6, 3.0)},
)
def remainder(x: Array, y: Array) -> Array:
    """x modulo y, with the sign of y; integer modulus by zero raises."""
    return _checked_integer_division(xp(x, y).remainder, x, y)


@elementwise(
    "fmod(x, y)",
    promotion=p.numeric,
    grad={"x": lambda g: g, "y": lambda g, x, y: -g * (x / y).trunc()},
    domain={"x": (-9.0, 9.0), "y": (0.6, 3.0)},
)
def fmod(x: Array, y: Array) -> Array:
    """x modulo y, with the sign of x; integer modulus by zero raises."""
    return _checked_integer_division(xp(x, y).fmod, x, y)


def _checked_integer_division(function: Array, x: Array, y: Array) -> Array:
    if x.dtype.kind in "iu" and not y.all():
        raise RuntimeError("ZeroDivisionError")
    return function(x, y)


@elementwise(
    "maximum(x, y)",
    promotion=p.same,
    grad={
        "x": lambda g, x, y: where(x > y, g, where(x == y, g * 0.5, 0.0)),
        "y": lambda g, x, y: where(y > x, g, where(x == y, g * 0.5, 0.0)),
    },
)
def maximum(x: Array, y: Array) -> Array:
    """The larger of x and y; NaN if either is."""
    return xp(x, y).maximum(x, y)


@elementwise(
    "minimum(x, y)",
    promotion=p.same,
    grad={
        "x": lambda g, x, y: where(x < y, g, where(x == y, g * 0.5, 0.0)),
        "y": lambda g, x, y: where(y < x, g, where(x == y, g * 0.5, 0.0)),
    },
)
def minimum(x: Array, y: Array) -> Array:
    """The smaller of x and y; NaN if either is."""
    return xp(x, y).minimum(x, y)


@elementwise("abs(x)", promotion=p.same, grad=lambda g, x: g * x.sign())
def abs(x: Array) -> Array:
    """The absolute value of x."""
    return xp(x).absolute(x)


@elementwise("sign(x)", promotion=p.same, grad=lambda g: g * 0)
def sign(x: Array) -> Array:
    """-1, 0 or 1 by the sign of x; NaN gives 0."""
    return xp(x).where(x != x, x.dtype.type(0), xp(x).sign(x)) if x.dtype.kind not in "biu" else _integer_sign(x)


def _integer_sign(x: Array) -> Array:
    return x if x.dtype.kind == "b" else xp(x).sign(x)


@elementwise("x * x", promotion=p.same, grad=lambda g, x: g * (x * 2))
def square(x: Array) -> Array:
    """x * x."""
    return xp(x).multiply(x, x)


@elementwise("1 / x", promotion=p.to_float, grad=lambda g, out: -g * (out * out), domain=POSITIVE)
def reciprocal(x: Array) -> Array:
    """1 / x."""
    return xp(x).true_divide(x.dtype.type(1), x)


# --- comparison, logic, selection ------------------------------------------------------------------------------


@elementwise("x == y", promotion=p.compare)
def eq(x: Array, y: Array) -> Array:
    """x == y."""
    return xp(x, y).equal(x, y)


@elementwise("x != y", promotion=p.compare)
def ne(x: Array, y: Array) -> Array:
    """x != y."""
    return xp(x, y).not_equal(x, y)


@elementwise("x < y", promotion=p.compare)
def lt(x: Array, y: Array) -> Array:
    """x < y."""
    return xp(x, y).less(x, y)


@elementwise("x <= y", promotion=p.compare)
def le(x: Array, y: Array) -> Array:
    """x <= y."""
    return xp(x, y).less_equal(x, y)


@elementwise("x > y", promotion=p.compare)
def gt(x: Array, y: Array) -> Array:
    """x > y."""
    return xp(x, y).greater(x, y)


@elementwise("x >= y", promotion=p.compare)
def ge(x: Array, y: Array) -> Array:
    """x >= y."""
    return xp(x, y).greater_equal(x, y)


@elementwise("x & y", promotion=p.logical)
def logical_and(x: Array, y: Array) -> Array:
    """True where x and y are both non-zero."""
    return xp(x, y).logical_and(x, y)


@elementwise("x | y", promotion=p.logical)
def logical_or(x: Array, y: Array) -> Array:
    """True where x or y is non-zero."""
    return xp(x, y).logical_or(x, y)


@elementwise("x ^ y", promotion=p.logical)
def logical_xor(x: Array, y: Array) -> Array:
    """True where exactly one of x and y is non-zero."""
    return xp(x, y).logical_xor(x, y)


@elementwise("~x", promotion=p.logical)
def logical_not(x: Array) -> Array:
    """True where x is zero."""
    return xp(x).logical_not(x)


@elementwise("x & y", promotion=p.bitwise)
def bitwise_and(x: Array, y: Array) -> Array:
    """Bitwise and."""
    return xp(x, y).bitwise_and(x, y)


@elementwise("x | y", promotion=p.bitwise)
def bitwise_or(x: Array, y: Array) -> Array:
    """Bitwise or."""
    return xp(x, y).bitwise_or(x, y)


@elementwise("x ^ y", promotion=p.bitwise)
def bitwise_xor(x: Array, y: Array) -> Array:
    """Bitwise exclusive or."""
    return xp(x, y).bitwise_xor(x, y)


@elementwise("~x", promotion=p.bitwise)
def bitwise_not(x: Array) -> Array:
    """Bitwise complement; logical not for bool."""
    return xp(x).invert(x)


@elementwise(
    "select(condition, x, y)",
    promotion=p.select,
    grad={
        "x": lambda g, condition: where(condition, g, 0.0),
        "y": lambda g, condition: where(condition, 0.0, g),
    },
)
def where(condition: Array, x: Array, y: Array) -> Array:
    """x where the condition holds, else y."""
    return xp(condition, x, y).where(condition, x, y)


@elementwise("isnan(x)", promotion=p.compare)
def isnan(x: Array) -> Array:
    """True where x is NaN."""
    return x != x


@elementwise("isinf(x)", promotion=p.compare)
def isinf(x: Array) -> Array:
    """True where x is positive or negative infinity."""
    return xp(x).isinf(x)


@elementwise("isfinite(x)", promotion=p.compare)
def isfinite(x: Array) -> Array:
    """True where x is neither NaN nor infinite."""
    return xp(x).isfinite(x)


# --- rounding --------------------------------------------------------------------------------------------------


@elementwise("floor(x)", promotion=p.numeric, grad=lambda g: g * 0)
def floor(x: Array) -> Array:
    """The largest integer not above x."""
    return xp(x).floor(x)


@elementwise("ceil(x)", promotion=p.numeric, grad=lambda g: g * 0)
def ceil(x: Array) -> Array:
    """The smallest integer not below x."""
    return xp(x).ceil(x)


@elementwise("round(x)", promotion=p.numeric, grad=lambda g: g * 0)
def round_half_even(x: Array) -> Array:
    """x rounded to the nearest integer, halves to even."""
    return xp(x).rint(x) if x.dtype.kind not in "iu" else x


@elementwise("trunc(x)", promotion=p.numeric, grad=lambda g: g * 0)
def trunc(x: Array) -> Array:
    """x without its fractional part."""
    return xp(x).trunc(x)


# --- exponentials and their kin --------------------------------------------------------------------------------


@elementwise("exp(x)", promotion=p.to_float, grad=lambda g, out: g * out)
def exp(x: Array) -> Array:
    """e to the power x."""
    return xp(x).exp(x)


@elementwise("exp2(x)", promotion=p.to_float, grad=lambda g, out: g * (out * 0.6931471805599453))
def exp2(x: Array) -> Array:
    """2 to the power x."""
    return xp(x).exp2(x)


@elementwise("expm1(x)", promotion=p.to_float, grad=lambda g, out: g * (out + 1.0))
def expm1(x: Array) -> Array:
    """exp(x) - 1, accurate near zero."""
    return xp(x).expm1(x)


@elementwise("log(x)", promotion=p.to_float, grad=lambda g, x: g / x, domain=POSITIVE)
def log(x: Array) -> Array:
    """The natural logarithm of x."""
    return xp(x).log(x)


@elementwise("log2(x)", promotion=p.to_float, grad=lambda g, x: g / (x * 0.6931471805599453), domain=POSITIVE)
def log2(x: Array) -> Array:
    """The logarithm of x to base 2."""
    return xp(x).log2(x)


@elementwise("log10(x)", promotion=p.to_float, grad=lambda g, x: g / (x * 2.302585092994046), domain=POSITIVE)
def log10(x: Array) -> Array:
    """The logarithm of x to base 10."""
    return xp(x).log10(x)


@elementwise("log1p(x)", promotion=p.to_float, grad=lambda g, x: g / (x + 1.0), domain=(-0.9, 4.0))
def log1p(x: Array) -> Array:
    """log(1 + x), accurate near zero."""
    return xp(x).log1p(x)


@elementwise("sqrt(x)", promotion=p.to_float, grad=lambda g, out: g / (out * 2.0), domain=POSITIVE)
def sqrt(x: Array) -> Array:
    """The square root of x."""
    return xp(x).sqrt(x)


@elementwise(
    "1 / sqrt(x)", promotion=p.to_float, grad=lambda g, out: g * (out * out * out * -0.5), domain=POSITIVE
)
def rsqrt(x: Array) -> Array:
    """1 / sqrt(x)."""
    return xp(x).true_divide(x.dtype.type(1), xp(x).sqrt(x))


@elementwise("sigmoid(x)", promotion=p.to_float, grad=lambda g, out: g * (out * (1.0 - out)))
def sigmoid(x: Array) -> Array:
    """1 / (1 + exp(-x))."""
    return special(x).expit(x.astype(np.float32)) if x.dtype.itemsize == 2 else special(x).expit(x)


@elementwise("erf(x)", promotion=p.to_float, grad=lambda g, x: g * (1.1283791670955126 * (-(x * x)).exp()))
def erf(x: Array) -> Array:
    """The error function of x."""
    return special(x).erf(x.astype(np.float32)) if x.dtype.itemsize == 2 else special(x).erf(x)


@elementwise("erfc(x)", promotion=p.to_float, grad=lambda g, x: g * (-1.1283791670955126 * (-(x * x)).exp()))
def erfc(x: Array) -> Array:
    """1 - erf(x), accurate for large x."""
    return special(x).erfc(x.astype(np.float32)) if x.dtype.itemsize == 2 else special(x).erfc(x)


# --- trigonometry ----------------------------------------------------------------------------------------------


@elementwise("sin(x)", promotion=p.to_float, grad=lambda g, x: g * x.cos())
def sin(x: Array) -> Array:
    """The sine of x in radians."""
    return xp(x).sin(x)


@elementwise("cos(x)", promotion=p.to_float, grad=lambda g, x: -g * x.sin())
def cos(x: Array) -> Array:
    """The cosine of x in radians."""
    return xp(x).cos(x)


@elementwise("tan(x)", promotion=p.to_float, grad=lambda g, out: g * (out * out + 1.0), domain=(-1.3, 1.3))
def tan(x: Array) -> Array:
    """The tangent of x in radians."""
    return xp(x).tan(x)


@elementwise("asin(x)", promotion=p.to_float, grad=lambda g, x: g * (1.0 - x * x).rsqrt(), domain=UNIT)
def asin(x: Array) -> Array:
    """The angle whose sine is x."""
    return xp(x).arcsin(x)


@elementwise("acos(x)", promotion=p.to_float, grad=lambda g, x: -g * (1.0 - x * x).rsqrt(), domain=UNIT)
def acos(x: Array) -> Array:
    """The angle whose cosine is x."""
    return xp(x).arccos(x)


@elementwise("atan(x)", promotion=p.to_float, grad=lambda g, x: g / (x * x + 1.0))
def atan(x: Array) -> Array:
    """The angle whose tangent is x."""
    return xp(x).arctan(x)


@elementwise(
    "atan2(x, y)",
    promotion=p.to_float,
    grad={
        "x": lambda g, x, y: g * (y / (x * x + y * y)),
        "y": lambda g, x, y: -g * (x / (x * x + y * y)),
    },
    domain={"x": (-3.0, 3.0), "y": POSITIVE},
)
def atan2(x: Array, y: Array) -> Array:
    """The angle of the point (y, x): atan(x / y) in the right quadrant."""
    return xp(x, y).arctan2(x, y)


@elementwise("sinh(x)", promotion=p.to_float, grad=lambda g, x: g * x.cosh())
def sinh(x: Array) -> Array:
    """The hyperbolic sine of x."""
    return xp(x).sinh(x)


@elementwise("cosh(x)", promotion=p.to_float, grad=lambda g, x: g * x.sinh())
def cosh(x: Array) -> Array:
    """The hyperbolic cosine of x."""
    return xp(x).cosh(x)


@elementwise("tanh(x)", promotion=p.to_float, grad=lambda g, out: g * (1.0 - out * out))
def tanh(x: Array) -> Array:
    """The hyperbolic tangent of x.

    >>> import tracejit as tj
    >>> tj.tensor([0.0, 1.0]).tanh()
    tensor([0.0000, 0.7616])
    """
    return xp(x).tanh(x)


@elementwise("maximum(x, 0)", promotion=p.numeric, grad=lambda g, out: where(out > 0, g, 0.0))
def relu(x: Array) -> Array:
    """max(x, 0); NaN stays NaN."""
    return xp(x).maximum(x, x.dtype.type(0))
