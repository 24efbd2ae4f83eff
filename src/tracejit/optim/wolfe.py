"""A line search: how far to go along a direction so that the strong Wolfe conditions hold."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

__all__ = ["Evaluate", "strong_wolfe"]

#: From a step size to loss and gradient there.
Evaluate = Callable[[float], tuple[float, Any]]

_DECREASE = 1e-4
_CURVATURE = 0.9


@dataclass(slots=True)
class _Point:
    """A step size, the loss there, the gradient there, and the slope along the direction."""

    t: float
    loss: float
    grad: Any
    slope: float


def minimum_of_cubic(a: _Point, b: _Point, low: float, high: float) -> float:
    """Where the cubic through two points with their slopes is least, within bounds; their middle if nowhere.

    >>> a, b = _Point(0.0, 1.0, None, -2.0), _Point(2.0, 1.0, None, 2.0)
    >>> minimum_of_cubic(a, b, 0.0, 2.0)
    1.0
    """
    if a.t > b.t:
        a, b = b, a
    d1 = a.slope + b.slope - 3 * (a.loss - b.loss) / (a.t - b.t)
    square = d1 * d1 - a.slope * b.slope
    if not square >= 0:
        return (low + high) / 2
    d2 = math.sqrt(square)
    below = b.slope - a.slope + 2 * d2
    if below == 0:
        return (low + high) / 2
    return min(max(b.t - (b.t - a.t) * ((b.slope + d2 - d1) / below), low), high)


def strong_wolfe(
    evaluate: Evaluate,
    t: float,
    direction: Any,
    start: tuple[float, Any, float],
    least: float,
    most: int = 25,
) -> tuple[float, float, Any]:
    """Step size, loss and gradient of a point with sufficient decrease and a flat enough slope.

    ``start`` holds loss, gradient and slope at zero; a bracket narrower than ``least`` ends the search, and
    so do ``most`` points.

    >>> import numpy as np
    >>> d = np.array([-2.0])  # downhill from 1 on x**2
    >>> at = lambda t: (float((1 - 2 * t) ** 2), np.array([2 * (1 - 2 * t)]))
    >>> t, loss, _ = strong_wolfe(at, 1.0, d, (1.0, np.array([2.0]), -4.0), 1e-9)
    >>> round(t, 6), round(loss, 6)
    (0.5, 0.0)
    """
    origin = _Point(0.0, start[0], start[1], start[2])

    def point(size: float) -> _Point:
        loss, grad = evaluate(size)
        return _Point(size, loss, grad, float(grad @ direction))

    bracket, tries = _bracket(point, t, origin, most)
    if len(bracket) == 2:
        bracket = _zoom(point, bracket, origin, least, most - tries)
    best = min(bracket, key=lambda p: p.loss if p.loss == p.loss else math.inf)
    return best.t, best.loss, best.grad


def _fails(new: _Point, origin: _Point) -> bool:
    return not new.loss <= origin.loss + _DECREASE * new.t * origin.slope


def _flat(new: _Point, origin: _Point) -> bool:
    return abs(new.slope) <= -_CURVATURE * origin.slope


def _bracket(
    point: Callable[[float], _Point], t: float, origin: _Point, most: int
) -> tuple[list[_Point], int]:
    """Two points around an acceptable one, or one that is acceptable; and how many were tried."""
    before, new, tries = origin, point(t), 0
    while tries < most:
        if _fails(new, origin) or (tries > 1 and new.loss >= before.loss):
            return [before, new], tries
        if _flat(new, origin):
            return [new], tries
        if new.slope >= 0:
            return [before, new], tries
        low, high = new.t + 0.01 * (new.t - before.t), new.t * 10
        further = minimum_of_cubic(before, new, low, high)
        before, new = new, point(further)
        tries += 1
    return [origin, new], tries


def _zoom(
    point: Callable[[float], _Point],
    bracket: list[_Point],
    origin: _Point,
    least: float,
    most: int,
) -> list[_Point]:
    """Narrow a bracket until its better end is acceptable."""
    stuck, tries = False, 0
    low, high = sorted(bracket, key=lambda p: p.loss if p.loss == p.loss else math.inf)
    while tries < most and abs(high.t - low.t) * 1.0 > least:
        left, right = min(low.t, high.t), max(low.t, high.t)
        t = minimum_of_cubic(low, high, left, right)
        margin = 0.1 * (right - left)
        if min(right - t, t - left) < margin:
            if stuck or t >= right or t <= left:
                t = right - margin if abs(t - right) < abs(t - left) else left + margin
                stuck = False
            else:
                stuck = True
        else:
            stuck = False
        new = point(t)
        tries += 1
        if _fails(new, origin) or new.loss >= low.loss:
            high = new
            if high.loss < low.loss:
                low, high = high, low
            continue
        if _flat(new, origin):
            return [new]
        if new.slope * (high.t - low.t) >= 0:
            high = low
        low = new
    return [low, high]
