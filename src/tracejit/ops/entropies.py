"""Products with logarithms of what may be zero, and logarithms of odds: parts of entropies and likelihoods.

Their gradients are PyTorch's, who gives none to a factor of zero where the logarithm has no finite value.
"""

# mypy: disable-error-code="has-type"
# (gradient rules name ops that are declared by the very decorator they stand in)

from __future__ import annotations

import math
from typing import Any

from . import promotion as p
from .elementwise import POSITIVE, where
from .namespace import wide
from .slabs import shared
from .table import Array, elementwise
from .transcendental import log, log1p


def _unless_zero(x: Array, y: Array, found: Array) -> Array:
    """What was found of y, zero where x is (unless y is NaN)."""
    return shared(x, y).where((x == 0) & (y == y), x.dtype.type(0), found)


@elementwise(
    "xlogy(x, y)",
    promotion=p.to_float,
    grad={
        "x": lambda g, x, y: where((x == 0) & (y <= 0), 0.0, xlogy(g, y)),
        "y": lambda g, x, y: g * x / y,
    },
    domain=POSITIVE,
)
def xlogy(x: Array, y: Array) -> Array:
    """``x * log(y)``, zero where x is (unless y is NaN)."""
    x, y = wide(x), wide(y)
    n = shared(x, y)
    return _unless_zero(x, y, n.multiply(x, n.log(y)))


@elementwise(
    "xlog1py(x, y)",
    promotion=p.to_float,
    grad={
        "x": lambda g, x, y: where((x == 0) & (y <= -1), 0.0, xlog1py(g, y)),
        "y": lambda g, x, y: g * x / (y + 1.0),
    },
    domain=POSITIVE,
)
def xlog1py(x: Array, y: Array) -> Array:
    """``x * log(1 + y)``, zero where x is (unless y is NaN)."""
    x, y = wide(x), wide(y)
    n = shared(x, y)
    return _unless_zero(x, y, n.multiply(x, n.log1p(y)))


@elementwise(
    "entr(x)", promotion=p.to_float, grad=lambda g, x: -g * (log(x) + 1.0), domain=POSITIVE
)
def entr(x: Array) -> Array:
    """``-x * log(x)``: 0 at zero, -inf below."""
    x = wide(x)
    n = shared(x)
    below: Any = n.where(x == 0, x.dtype.type(0), x.dtype.type(-math.inf))
    found = n.negative(n.multiply(x, n.log(x)))
    return n.where(x != x, x, n.where(x > 0, found, below))


@elementwise(
    "log(x / (1 - x))",
    promotion=p.to_float,
    grad=lambda g, x: where((x >= 0) & (x <= 1), g / abs(x * (1.0 - x)), math.nan),
    domain=(0.05, 0.95),
)
def log_odds(x: Array) -> Array:
    """log(x / (1 - x)), NaN below zero and above one."""
    x = wide(x)
    n = shared(x)
    return n.log(n.true_divide(x, n.subtract(x.dtype.type(1), x)))


def _slope_of_entropy(g: Any, x: Any, y: Any) -> Any:
    spread = x * (1.0 - x)
    return g * (x + y * -1.0) / where(spread < 1e-12, 1e-12, spread)


@elementwise(
    "(y - 1) * maximum(log1p(-x), -100) - y * maximum(log(x), -100)",
    promotion=p.to_float,
    grad={"x": _slope_of_entropy, "y": lambda g, x, y: g * (log1p(x * -1.0) - log(x))},
    domain={"x": (0.05, 0.95), "y": (0.05, 0.95)},
)
def cross_entropy_of_two(x: Array, y: Array) -> Array:
    """``-(y log(x) + (1 - y) log(1 - x))``, logarithms at least -100; slopes have a bound where x is nearly certain."""
    x, y = wide(x), wide(y)
    n, one, least = shared(x, y), x.dtype.type(1), x.dtype.type(-100)
    yes = n.maximum(n.log(x), least)
    no = n.maximum(n.log1p(n.negative(x)), least)
    return n.subtract(n.multiply(n.subtract(y, one), no), n.multiply(y, yes))
