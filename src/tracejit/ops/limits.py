"""Ops that hold numbers between bounds."""

from __future__ import annotations

from typing import Any

from . import promotion as p
from .elementwise import bent, where
from .extremes import larger, smaller
from .table import Array, elementwise

_BOUNDS = {"x": (-3.0, 3.0), "low": (-1.0, 0.0), "high": (0.5, 1.5)}


@elementwise(
    "maximum(x, low)",
    promotion=p.numeric,
    grad={
        "x": lambda g, x, low: where(x >= low, g, 0.0),
        "low": lambda g, x, low: where(x < low, g, 0.0),
    },
)
def clamp_min(x: Array, low: Array) -> Array:
    """x, but not below ``low``; at the bound the gradient goes to x."""
    return larger(x, low)


@elementwise(
    "minimum(x, high)",
    promotion=p.numeric,
    grad={
        "x": lambda g, x, high: where(x <= high, g, 0.0),
        "high": lambda g, x, high: where(x > high, g, 0.0),
    },
)
def clamp_max(x: Array, high: Array) -> Array:
    """x, but not above ``high``; at the bound the gradient goes to x."""
    return smaller(x, high)


@elementwise(
    "clamp(x, low, high)",
    promotion=p.numeric,
    grad={
        "x": lambda g, x, low, high: where((x >= low) & (x <= high), g, 0.0),
        "low": lambda g, x, low, high: where(_below(x, low, high), g, 0.0),
        "high": lambda g, x, low, high: where(_above(x, low, high), g, 0.0),
    },
    domain=_BOUNDS,
)
def clamp_between(x: Array, low: Array, high: Array) -> Array:
    """x between ``low`` and ``high``; ``high`` wins where the bounds cross."""
    return smaller(larger(x, low), high)


def _below(x: Any, low: Any, high: Any) -> Any:
    return (x < low) & (low < high)


def _above(x: Any, low: Any, high: Any) -> Any:
    return (x > high) | (high < low)


@elementwise(
    "clamp(x, low, high)",
    promotion=p.numeric,
    grad={"x": lambda g, x, low, high: bent(where((x > low) & (x < high), g, 0.0), x)},
    domain=_BOUNDS,
)
def clamp_inside(x: Array, low: Array, high: Array) -> Array:
    """x between ``low`` and ``high``, without a gradient from the bounds on: the hard hyperbolic tangent."""
    return smaller(larger(x, low), high)
