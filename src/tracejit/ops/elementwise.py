"""Elementwise ops: arithmetic, powers, extremes, rounding, selection and casts."""

# mypy: disable-error-code="has-type"
# (gradient rules name ops that are declared by the very decorator they stand in)

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..dtypes import float8_e4m3fn
from ..modes import MODES
from . import powers, printed, remainders
from . import promotion as p
from .comparison import eq as eq
from .comparison import isnan as isnan
from .comparison import ne as ne
from .extremes import larger, smaller, zero_of
from .namespace import wide, xp
from .slabs import converted, copied, shared
from .source import full
from .table import Array, Sample, elementwise

POSITIVE = (0.05, 4.0)
MISMATCH = Sample(((2, 3), (2, 4)), {}, RuntimeError, "must match the size of tensor b")


def zeros_like(g: Any) -> Any:
    """Zeros of the type of ``g``: exact where ``g * 0`` would be NaN."""
    return full(shape=tuple(g.shape), value=0, dtype=g.dtype)


# --- arithmetic ---------------------------------------------------------------------------------


@elementwise(
    "x + y",
    ufunc="add",
    promotion=p.same_or_complex,
    grad={"x": lambda g: g, "y": lambda g: g},
    samples=(MISMATCH,),
)
def add(x: Array, y: Array) -> Array:
    """x + y; a logical or for bools."""


@elementwise(
    "x - y",
    ufunc="subtract",
    promotion=p.numeric_or_complex,
    grad={"x": lambda g: g, "y": lambda g: -g},
    samples=(MISMATCH,),
)
def sub(x: Array, y: Array) -> Array:
    """x - y."""


@elementwise(
    "x * y",
    ufunc="multiply",
    promotion=p.factors,
    grad={"x": lambda g, y: g * y, "y": lambda g, x: g * x},
    samples=(MISMATCH,),
)
def mul(x: Array, y: Array) -> Array:
    """x * y; a logical and for bools."""


@elementwise(
    "x / y",
    ufunc="true_divide",
    promotion=p.quotients,
    grad={"x": lambda g, y: g / y, "y": lambda g, x, y: -g * ((x / y) / y)},
    domain={"x": (-3.0, 3.0), "y": POSITIVE},
    samples=(MISMATCH,),
)
def div(x: Array, y: Array) -> Array:
    """x / y in floating point. Its gradient divides again: programs write to quotients."""


@elementwise("-x", ufunc="negative", promotion=p.negated, grad=lambda g: -g)
def neg(x: Array) -> Array:
    """The negative of x."""


@elementwise("x", promotion=p.same_or_complex, grad=lambda g: g)
def clone(x: Array) -> Array:
    """A contiguous copy of x."""
    return copied(x)


@elementwise("x", promotion=p.same_or_complex)
def detach_copy(x: Array) -> Array:
    """x without its history; in the IR this marks where gradients stop."""
    return copied(x)


@elementwise("x", promotion=p.same_or_complex, grad={"x": lambda g: g, "y": zeros_like})
def overwritten(x: Array, y: Array) -> Array:
    """x written over the whole of y, whose place on the tape it takes: in the IR only."""
    return xp(x).broadcast_to(x, np.broadcast_shapes(x.shape, y.shape)).copy()


def bent(g: Any, x: Any) -> Any:
    """``g``, a gradient that ``x`` decided about: differentiated again it gives zeros for ``x``, not nothing."""
    if hasattr(g, "_edge") and not (MODES.grad and x.requires_grad):
        return g  # a tensor that no node will be made for
    return overwritten(g, x)


@elementwise("convert(x, dtype)", promotion=p.cast, grad=lambda g, x_type: g.to(x_type.dtype))
def cast(x: Array, *, dtype: Any) -> Array:
    """x converted to ``dtype``: floats truncate towards zero when they become integers, complex numbers lose a part."""
    if x.dtype.kind == "c" and dtype.category in ("int", "float"):
        x = x.real
    if (
        dtype is float8_e4m3fn
    ):  # which has no infinity: what is beyond it becomes the largest number
        x = xp(x).clip(x.astype(np.float32), -448.0, 448.0)
    return converted(x, dtype.np)


@elementwise("x * x", promotion=p.numeric_or_complex, grad=lambda g, x: g * (x * 2))
def square(x: Array) -> Array:
    """x * x."""
    return shared(x).multiply(x, x)


@elementwise(
    "1 / x", promotion=p.to_float_or_complex, grad=lambda g, out: -g * (out * out), domain=POSITIVE
)
def reciprocal(x: Array) -> Array:
    """1 / x."""
    return shared(x).true_divide(x.dtype.type(1), x)


# --- powers -------------------------------------------------------------------------------------


@elementwise(
    "pow(x, y)",
    promotion=p.numeric_or_complex,
    grad={
        "x": lambda g, x, y: _pow_grad_base(g, x, y),
        "y": lambda g, out, x, y: _pow_grad_exponent(g, out, x, y),
    },
    domain={"x": POSITIVE, "y": (-2.0, 2.0)},
    samples=(MISMATCH,),
)
def pow(x: Array, y: Array) -> Array:
    """x to the power y. A negative integer power of an integer is 0, or 1 and -1 for units."""
    return powers.of_integers(x, y) if x.dtype.kind in "iu" else powers.of_floats(x, y)


def _is_number(x: Any) -> bool:
    return isinstance(x, (bool, int, float))


def _pow_grad_base(g: Any, x: Any, y: Any) -> Any:
    """d(x**y)/dx = y * x**(y-1), and zero where the exponent is zero."""
    if _is_number(y):
        return zeros_like(g) if y == 0 else g * (y * x ** (y - 1))
    return where(y == 0, 0.0, g * where(y == 0, 1.0, y * x ** (y - 1)))


def _pow_grad_exponent(g: Any, out: Any, x: Any, y: Any) -> Any:
    """d(x**y)/dy = x**y * log(x), and zero where x == 0 and y >= 0; the logarithm is one of the result's dtype."""
    if not _is_number(x):
        x = x.to(out.dtype)
        none = x == 0 if out.dtype.is_complex else (x == 0) & (y >= 0)
        return where(none, 0.0, g * (out * where(none, 1.0, x).log()))
    if x == 0:
        return where(y >= 0, 0.0, g * where(y >= 0, 1.0, out * -math.inf))
    turn = 0.0 if x > 0 else 1j * math.pi if out.dtype.is_complex else math.nan
    return g * (out * (math.log(math.fabs(x)) + turn))  # ``abs`` is the op here


# --- division with a remainder ------------------------------------------------------------------


@elementwise(
    "floor_divide(x, y)",
    promotion=p.whole_quotients,
    grad=dict.fromkeys("xy", lambda g, flat: remainders.flat_slope(zeros_like(g), flat)),
    domain={"x": (-9.0, 9.0), "y": (0.5, 3.0)},
    samples=(Sample(((3, 4), (3, 4)), {"flat": True}),),
)
def floor_divide(x: Array, y: Array, *, flat: bool = False) -> Array:
    """The floor of x / y; integer division by zero raises. It has a gradient, of zeros, only if ``flat``."""
    return _divided(floor_divide, x, y)


@elementwise(
    "trunc(x / y)",
    promotion=p.cut_quotients,
    grad={"x": lambda g: zeros_like(g), "y": lambda g: zeros_like(g)},
    domain={"x": (-9.0, 9.0), "y": (0.5, 3.0)},
)
def trunc_divide(x: Array, y: Array) -> Array:
    """x / y without its fraction; half precision computes in float32, and is rounded once."""
    n = shared(x := wide(x), y := wide(y))
    return n.trunc(n.divide(x, y))


@elementwise(
    "remainder(x, y)",
    promotion=p.numeric,
    grad={"x": lambda g: g, "y": lambda g, x, y: -g * floor_divide(x, y, flat=True)},
    domain={"x": (-9.0, 9.0), "y": (0.6, 3.0)},
)
def remainder(x: Array, y: Array) -> Array:
    """x modulo y, with the sign of y; integer modulus by zero raises."""
    return _divided(remainder, x, y)


@elementwise(
    "fmod(x, y)",
    promotion=p.numeric,
    grad={"x": lambda g: g, "y": lambda g, x, y: -g * trunc_divide(x, y)},
    domain={"x": (-9.0, 9.0), "y": (0.6, 3.0)},
)
def fmod(x: Array, y: Array) -> Array:
    """x modulo y, with the sign of x; integer modulus by zero raises."""
    return _divided(fmod, x, y)


def _divided(op: Any, x: Array, y: Array) -> Array:
    """The result of one of NumPy's divisions, whose name is the op's."""
    whole, n = x.dtype.kind in "iu", xp(x, y)
    if whole and x.size and not y.all():
        raise RuntimeError("ZeroDivisionError")
    if n is not np:
        return remainders.on_device(n, op.name, x, y)
    found = printed.divided(op, x, y) if whole else None
    return remainders.on_host(op.name, x, y) if found is None else found


# --- extremes and signs -------------------------------------------------------------------------


@elementwise(
    "maximum(x, y)",
    promotion=p.same,
    grad={
        "x": lambda g, x, y: where(x == y, g * 0.5, where(x < y, 0.0, g)),
        "y": lambda g, x, y: where(x == y, g * 0.5, where(y < x, 0.0, g)),
    },
)
def maximum(x: Array, y: Array) -> Array:
    """The larger of x and y; NaN if either is. Equal operands share the gradient."""
    return larger(x, y)


@elementwise(
    "minimum(x, y)",
    promotion=p.same,
    grad={
        "x": lambda g, x, y: where(x == y, g * 0.5, where(x > y, 0.0, g)),
        "y": lambda g, x, y: where(x == y, g * 0.5, where(y > x, 0.0, g)),
    },
)
def minimum(x: Array, y: Array) -> Array:
    """The smaller of x and y; NaN if either is. Equal operands share the gradient."""
    return smaller(x, y)


@elementwise(
    "fmax(x, y)",
    ufunc="fmax",
    promotion=p.same,
    grad={
        "x": lambda g, x, y: where((x >= y) | (y != y), g, 0.0),
        "y": lambda g, x, y: where((x >= y) | (y != y), 0.0, g),
    },
)
def fmax(x: Array, y: Array) -> Array:
    """The larger of x and y; the other one where one is NaN."""


@elementwise(
    "fmin(x, y)",
    ufunc="fmin",
    promotion=p.same,
    grad={
        "x": lambda g, x, y: where((x <= y) | (y != y), g, 0.0),
        "y": lambda g, x, y: where((x <= y) | (y != y), 0.0, g),
    },
)
def fmin(x: Array, y: Array) -> Array:
    """The smaller of x and y; the other one where one is NaN."""


@elementwise(
    "abs(x)", ufunc="absolute", promotion=p.numeric, grad=lambda g, x: bent(g * sign(x), x)
)
def abs(x: Array) -> Array:
    """The absolute value of x."""


@elementwise("sign(x)", promotion=p.same, grad=lambda g: zeros_like(g))
def sign(x: Array) -> Array:
    """-1, 0 or 1 by the sign of x; NaN gives 0."""
    if x.dtype.kind == "b":
        return x.copy()
    if x.dtype.kind in "iu":
        return xp(x).sign(x)
    return (x > 0).astype(x.dtype) - (x < 0).astype(x.dtype)


@elementwise(
    "copysign(x, y)",
    ufunc="copysign",
    promotion=p.to_float,
    grad={"x": lambda g, out, x: g * where(x == 0, 0.0, out / x), "y": lambda g: zeros_like(g)},
    domain={"x": POSITIVE, "y": POSITIVE},
)
def copysign(x: Array, y: Array) -> Array:
    """The magnitude of x with the sign of y."""


@elementwise(
    "select(x < 0, 0, x)",
    promotion=p.numeric,
    grad=lambda g, out: bent(where(out <= 0, 0.0, g), out),
)
def relu(x: Array) -> Array:
    """max(x, 0); NaN stays NaN, and -0.0 stays -0.0."""
    return shared(x).where(x < 0, zero_of(x), x)


@elementwise(
    "select(x > 0, x, x * slope)",
    promotion=p.real(p.factors),
    grad={
        "x": lambda g, x, slope: bent(where(x > 0, g, g * slope), x),
        "slope": lambda g, x: where(x > 0, 0.0, g * x),
    },
)
def leaky(x: Array, slope: Array) -> Array:
    """x above zero, else ``slope * x``."""
    n = shared(x, slope)
    return n.where(n.greater(x, 0), x, n.multiply(x, slope).astype(x.dtype, copy=False))


# --- selection ----------------------------------------------------------------------------------


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
    return shared(condition, x, y).where(condition, x, y)


@elementwise(
    "select(condition, x, y)",
    promotion=p.select,
    grad={
        "x": lambda g, condition, x: bent(where(condition, g, 0.0), x),
        "y": lambda g, condition: where(condition, 0.0, g),
    },
)
def chosen(condition: Array, x: Array, y: Array) -> Array:
    """x where the condition holds, which x decides about, else y."""
    return shared(condition, x, y).where(condition, x, y)


# --- rounding -----------------------------------------------------------------------------------


@elementwise("floor(x)", promotion=p.numeric, grad=lambda g: zeros_like(g))
def floor(x: Array) -> Array:
    """The largest integer not above x."""
    return x.copy() if x.dtype.kind in "iu" else shared(x).floor(x)


@elementwise("ceil(x)", promotion=p.numeric, grad=lambda g: zeros_like(g))
def ceil(x: Array) -> Array:
    """The smallest integer not below x."""
    return x.copy() if x.dtype.kind in "iu" else shared(x).ceil(x)


@elementwise("round(x)", promotion=p.numeric, grad=lambda g: zeros_like(g))
def round_half_even(x: Array) -> Array:
    """x rounded to the nearest integer, halves to even."""
    return x.copy() if x.dtype.kind in "iu" else shared(x).rint(x)


@elementwise("trunc(x)", promotion=p.numeric, grad=lambda g: zeros_like(g))
def trunc(x: Array) -> Array:
    """x without its fractional part."""
    return x.copy() if x.dtype.kind in "iu" else shared(x).trunc(x)
