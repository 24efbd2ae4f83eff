"""Products with logarithms of what may be zero: parts of entropies and likelihoods.

Their gradients are PyTorch's, who gives none to a factor of zero where the logarithm has no finite value.
"""

# mypy: disable-error-code="has-type"
# (gradient rules name ops that are declared by the very decorator they stand in)

from __future__ import annotations

import math
from typing import Any

import numpy as np

from . import promotion as p
from .elementwise import POSITIVE, where
from .namespace import xp
from .slabs import shared
from .table import Array, elementwise
from .transcendental import log


def _wide(x: Array) -> Array:
    """Half precision computes in float32, and is rounded once."""
    return x.astype(np.float32) if x.dtype.itemsize == 2 else x


def _product(x: Array, y: Array, name: str) -> Array:
    x, y = _wide(x), _wide(y)
    n = shared(x, y)
    found = n.multiply(x, getattr(n, name)(y))
    return xp(x, y).where((x == 0) & (y == y), x.dtype.type(0), found)


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
    return _product(x, y, "log")


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
    return _product(x, y, "log1p")


@elementwise(
    "entr(x)", promotion=p.to_float, grad=lambda g, x: -g * (log(x) + 1.0), domain=POSITIVE
)
def entr(x: Array) -> Array:
    """``-x * log(x)``: 0 at zero, -inf below."""
    x = _wide(x)
    n = shared(x)
    below: Any = n.where(x == 0, x.dtype.type(0), x.dtype.type(-math.inf))
    found = n.negative(n.multiply(x, n.log(x)))
    return n.where(x != x, x, n.where(x > 0, found, below))
