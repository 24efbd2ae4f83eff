"""Elementwise ops beyond arithmetic: exponentials, logarithms, cubes and roots, trigonometry, special functions."""

# mypy: disable-error-code="has-type"
# (gradient rules name ops that are declared by the very decorator they stand in)

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..dtypes import bool_
from . import promotion as p
from .elementwise import POSITIVE, cast, square, where
from .library_functions import digamma_of, function_of, inverse_error_of, lgamma_of, trigamma_of
from .namespace import special, wide, xp
from .slabs import shared
from .table import Array, elementwise

UNIT = (-0.95, 0.95)


# --- exponentials and logarithms ----------------------------------------------------------------


@elementwise("exp(x)", ufunc="exp", promotion=p.to_float_or_complex, grad=lambda g, out: g * out)
def exp(x: Array) -> Array:
    """e to the power x."""


@elementwise(
    "exp2(x)", promotion=p.to_float_or_complex, grad=lambda g, out: g * (out * math.log(2))
)
def exp2(x: Array) -> Array:
    """2 to the power x."""
    n = xp(x)
    if x.dtype.kind != "c":
        return n.exp2(x)
    parts = n.stack((x.real, x.imag), -1) * x.real.dtype.type(math.log(2))
    return n.exp(parts.view(x.dtype)[..., 0])


@elementwise(
    "expm1(x)", ufunc="expm1", promotion=p.to_float_or_complex, grad=lambda g, out: g * (out + 1.0)
)
def expm1(x: Array) -> Array:
    """exp(x) - 1, accurate near zero. Its gradient is told by the result, which rounds it far below zero."""


@elementwise(
    "expm1(x)", ufunc="expm1", promotion=p.to_float_or_complex, grad=lambda g, x: g * exp(x)
)
def exponential_rise(x: Array) -> Array:
    """exp(x) - 1, with a gradient that is accurate everywhere: for what is made of it."""


@elementwise(
    "log(x)", ufunc="log", promotion=p.to_float_or_complex, grad=lambda g, x: g / x, domain=POSITIVE
)
def log(x: Array) -> Array:
    """The natural logarithm of x."""


@elementwise(
    "log2(x)",
    ufunc="log2",
    promotion=p.to_float_or_complex,
    grad=lambda g, x: g / (x * math.log(2)),
    domain=POSITIVE,
)
def log2(x: Array) -> Array:
    """The logarithm of x to base 2."""


@elementwise(
    "log10(x)",
    ufunc="log10",
    promotion=p.to_float_or_complex,
    grad=lambda g, x: g / (x * math.log(10)),
    domain=POSITIVE,
)
def log10(x: Array) -> Array:
    """The logarithm of x to base 10."""


@elementwise(
    "log1p(x)",
    promotion=p.to_float_or_complex,
    grad=lambda g, x: g / (x + 1.0),
    domain=(-0.9, 4.0),
)
def log1p(x: Array) -> Array:
    """log(1 + x), accurate near zero."""
    return xp(x).log1p(x) if x.dtype.kind != "c" else _log1p_of_complex(x)


def _log1p_of_complex(x: Array) -> Array:
    """From the square of the size less one, where sizes are near one and would lose it."""
    n, a, b = xp(x), x.real, x.imag
    out = n.asarray(n.log(x + 1))  # of a number too
    near = n.hypot(a, b) < 0.5
    excess = n.where(near, a * (a + 2) + b * b, 0)
    out.real = n.where(near, n.where(excess == 0, a, n.log1p(excess) / 2), out.real)
    out.imag = n.arctan2(b, a + 1)
    return out


def _number_of(x: Any, g: Any) -> Any:
    """A truth value, of which nothing can be subtracted, as a number of the gradient's type."""
    if isinstance(x, bool):
        return int(x)
    return cast(x, dtype=g.spec.dtype) if getattr(x, "spec", g.spec).dtype is bool_ else x


@elementwise(
    "logaddexp(x, y)",
    ufunc="logaddexp",
    promotion=p.floats_only,
    grad={
        "x": lambda g, x, y: g / (exp(_number_of(y, g) - _number_of(x, g)) + 1.0),
        "y": lambda g, x, y: g / (exp(_number_of(x, g) - _number_of(y, g)) + 1.0),
    },
)
def logaddexp(x: Array, y: Array) -> Array:
    """log(exp(x) + exp(y)) without overflow."""


@elementwise("x * x * x", promotion=p.numeric, grad=lambda g, x: g * (x * x * 3))
def cube(x: Array) -> Array:
    """x * x * x; half precision computes in float32, and is rounded once."""
    x = wide(x)
    n = shared(x)
    return n.multiply(n.multiply(x, x), x)


@elementwise("x * x * (x * x)", promotion=p.numeric, grad=lambda g, x: g * (x * x * x * 4))
def fourth(x: Array) -> Array:
    """The square of x * x; half precision computes in float32, and is rounded once."""
    x = wide(x)
    n = shared(x)
    square = n.multiply(x, x)
    return n.multiply(square, square)


@elementwise(
    "sqrt(x)",
    ufunc="sqrt",
    promotion=p.to_float_or_complex,
    grad=lambda g, out: g / (out * 2.0),
    domain=POSITIVE,
)
def sqrt(x: Array) -> Array:
    """The square root of x."""


@elementwise(
    "1 / sqrt(x)",
    promotion=p.to_float_or_complex,
    grad=lambda g, out: g * (out * out * out * -0.5),
    domain=POSITIVE,
)
def rsqrt(x: Array) -> Array:
    """1 / sqrt(x)."""
    n = shared(x)
    return n.true_divide(x.dtype.type(1), n.sqrt(x))


@elementwise(
    "sigmoid(x)", promotion=p.to_float_or_complex, grad=lambda g, out: g * (out * (1.0 - out))
)
def sigmoid(x: Array) -> Array:
    """1 / (1 + exp(-x))."""
    if x.dtype.kind == "c":
        return 1 / (1 + xp(x).exp(-x))
    return function_of("expit", x)


@elementwise(
    "erf(x)",
    promotion=p.to_float,
    grad=lambda g, x: g * (2 / math.sqrt(math.pi) * exp(-(x * x))),
)
def erf(x: Array) -> Array:
    """The error function of x."""
    return function_of("erf", x)


@elementwise(
    "erfc(x)",
    promotion=p.to_float,
    grad=lambda g, x: g * (-2 / math.sqrt(math.pi) * exp(-(x * x))),
)
def erfc(x: Array) -> Array:
    """1 - erf(x), accurate for large x."""
    return function_of("erfc", x)


@elementwise(
    "erfinv(x)",
    promotion=p.to_float,
    grad=lambda g, x: g * (math.sqrt(math.pi) / 2 * exp(square(erfinv(x)))),
    domain=(-0.9, 0.9),
)
def erfinv(x: Array) -> Array:
    """The number whose error function is x."""
    return inverse_error_of(x)


@elementwise("lgamma(x)", promotion=p.to_float, grad=lambda g, x: g * digamma(x), domain=POSITIVE)
def lgamma(x: Array) -> Array:
    """The logarithm of the absolute value of the gamma function at x."""
    return lgamma_of(x)


@elementwise(
    "digamma(x)",
    promotion=p.to_float,
    grad=lambda g, x: g * trigamma(x),
    domain=POSITIVE,
)
def digamma(x: Array) -> Array:
    """The derivative of lgamma at x; -inf at 0 and NaN at negative integers."""
    return digamma_of(x)


@elementwise(
    "trigamma(x)",
    promotion=p.to_float,
    grad=lambda g, x: g * polygamma(x, order=2),
    domain=POSITIVE,
)
def trigamma(x: Array) -> Array:
    """The derivative of digamma at x; inf at 0 and at negative integers."""
    return trigamma_of(x)


@elementwise(
    None,
    promotion=p.to_float,
    grad=lambda g, x, order: g * polygamma(x, order=order + 1),
    domain=(0.5, 4.0),
)
def polygamma(x: Array, *, order: int = 1) -> Array:
    """The derivative of order ``order`` of digamma at x."""
    found = special("polygamma", x)(xp(x).asarray(order), x.astype(np.float64))
    return found if order < 2 else xp(x).where(x == math.inf, math.nan, found)


# --- trigonometry -------------------------------------------------------------------------------


@elementwise("sin(x)", ufunc="sin", promotion=p.to_float_or_complex, grad=lambda g, x: g * cos(x))
def sin(x: Array) -> Array:
    """The sine of x in radians."""


@elementwise("cos(x)", ufunc="cos", promotion=p.to_float_or_complex, grad=lambda g, x: -g * sin(x))
def cos(x: Array) -> Array:
    """The cosine of x in radians."""


@elementwise(
    "tan(x)",
    ufunc="tan",
    promotion=p.to_float_or_complex,
    grad=lambda g, out: g * (out * out + 1.0),
    domain=(-1.3, 1.3),
)
def tan(x: Array) -> Array:
    """The tangent of x in radians."""


@elementwise(
    "asin(x)",
    ufunc="arcsin",
    promotion=p.to_float_or_complex,
    grad=lambda g, x: g * rsqrt(1.0 - x * x),
    domain=UNIT,
)
def asin(x: Array) -> Array:
    """The angle whose sine is x."""


@elementwise(
    "acos(x)",
    ufunc="arccos",
    promotion=p.to_float_or_complex,
    grad=lambda g, x: -g * rsqrt(1.0 - x * x),
    domain=UNIT,
)
def acos(x: Array) -> Array:
    """The angle whose cosine is x."""


@elementwise(
    "atan(x)", ufunc="arctan", promotion=p.to_float_or_complex, grad=lambda g, x: g / (x * x + 1.0)
)
def atan(x: Array) -> Array:
    """The angle whose tangent is x."""


def _squared_distance(x: Any, y: Any) -> Any:
    """From the origin; infinite there, where an angle has the gradient zero."""
    squared = x * x + y * y
    return where(squared == 0.0, math.inf, squared)


@elementwise(
    "atan2(x, y)",
    ufunc="arctan2",
    promotion=p.to_float,
    grad={
        "x": lambda g, x, y: g * (y / _squared_distance(x, y)),
        "y": lambda g, x, y: -g * (x / _squared_distance(x, y)),
    },
    domain={"x": (-3.0, 3.0), "y": POSITIVE},
)
def atan2(x: Array, y: Array) -> Array:
    """The angle of the point (y, x): atan(x / y) in the right quadrant."""


@elementwise(
    "hypot(x, y)",
    ufunc="hypot",
    promotion=p.floats_only,
    grad={"x": lambda g, x, out: g * (x / out), "y": lambda g, y, out: g * (y / out)},
    domain=POSITIVE,
)
def hypot(x: Array, y: Array) -> Array:
    """The length of the vector (x, y), without overflow on the way."""


@elementwise(
    "sinh(x)", ufunc="sinh", promotion=p.to_float_or_complex, grad=lambda g, x: g * cosh(x)
)
def sinh(x: Array) -> Array:
    """The hyperbolic sine of x."""


@elementwise(
    "cosh(x)", ufunc="cosh", promotion=p.to_float_or_complex, grad=lambda g, x: g * sinh(x)
)
def cosh(x: Array) -> Array:
    """The hyperbolic cosine of x."""


@elementwise(
    "tanh(x)",
    ufunc="tanh",
    promotion=p.to_float_or_complex,
    grad=lambda g, out: g * (1.0 - out * out),
)
def tanh(x: Array) -> Array:
    """The hyperbolic tangent of x.

    >>> import tracejit as tj
    >>> tj.tensor([0.0, 1.0]).tanh()
    tensor([0.0000, 0.7616])
    """


@elementwise(
    "asinh(x)",
    ufunc="arcsinh",
    promotion=p.to_float_or_complex,
    grad=lambda g, x: g * rsqrt(x * x + 1.0),
)
def asinh(x: Array) -> Array:
    """The number whose hyperbolic sine is x."""


def _acosh_grad(g: Any, x: Any) -> Any:
    """One root for real numbers; for complex ones two, whose product is on the right branch."""
    if x.spec.dtype.is_complex:
        return g * (rsqrt(x - 1.0) * rsqrt(x + 1.0))
    return g * rsqrt(x * x - 1.0)


@elementwise(
    "acosh(x)",
    ufunc="arccosh",
    promotion=p.to_float_or_complex,
    grad=lambda g, x: _acosh_grad(g, x),
    domain=(1.1, 4.0),
)
def acosh(x: Array) -> Array:
    """The number not below zero whose hyperbolic cosine is x."""


@elementwise(
    "atanh(x)",
    ufunc="arctanh",
    promotion=p.to_float_or_complex,
    grad=lambda g, x: g / (1.0 - x * x),
    domain=UNIT,
)
def atanh(x: Array) -> Array:
    """The number whose hyperbolic tangent is x."""
