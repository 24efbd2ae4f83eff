"""The upper incomplete gamma function of small arguments, where SciPy sums forty zeta functions for each element.

There it is one less x^a / gamma(a + 1), and less what the series of the lower function has beyond its first term:
SciPy's formula (Boost's), with the logarithm of gamma(a + 1) by the same series, whose coefficients are looked up.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from .namespace import special, wide, xp
from .table import Array

__all__ = ["upper_gamma"]

#: Elements from which on a series of whole arrays takes less time.
FEW = 64
_EULER = 0.57721566490153286
_TERMS, _POWERS = 60, 56


def upper_gamma(x: Array, y: Array) -> Array:
    """The regularised upper incomplete gamma function of order x from y on.

    >>> round(float(upper_gamma(np.full(100, 0.5), np.full(100, 0.25))[0]), 14)
    0.47950012218695
    """
    library = special("gammaincc", x, y)
    x, y = wide(x), wide(y)
    if xp(x, y) is not np or max(x.size, y.size) < FEW:
        return library(x, y)
    orders, starts = np.broadcast_arrays(x, y)
    slow = _is_small(orders, starts)
    if not slow.any():
        return library(x, y)
    found = np.empty(slow.shape, np.result_type(x, y))
    found[slow] = _by_series(orders[slow].astype(np.float64), starts[slow].astype(np.float64))
    found[~slow] = library(orders[~slow], starts[~slow])
    return found


def _is_small(x: Array, y: Array) -> Array:
    """Where the library would sum the series of the upper function."""
    bound = np.where(y <= 0.5, -0.4 / np.log(np.where(y > 0, y, 0.5)), y * 1.1)
    return (x > 0) & (y > 0) & (y <= 1.1) & (x <= bound)


def _by_series(a: Array, x: Array) -> Array:
    power = a * np.log(x) - _log_gamma_after(a)
    factor, total = np.ones_like(a), np.zeros_like(a)
    for n in range(1, _TERMS):
        factor *= -x / n
        term = factor / (a + n)
        total += term
        if (np.abs(term) <= 1e-17 * np.abs(total)).all():
            break
    return -np.expm1(power) - a * np.exp(power) * total


def _log_gamma_after(a: Array) -> Array:
    """The logarithm of gamma(a + 1) for 0 < a < 1.5, accurate also near zero, where that is zero."""
    high = a > 0.5
    near = np.where(high, a - 1, a)
    total = np.zeros_like(a)
    for coefficient in reversed(_coefficients()):
        total = total * near + coefficient
    return total * near + np.where(high, np.log(a), 0)


@cache
def _coefficients() -> tuple[float, ...]:
    """Of the powers of a in the logarithm of gamma(a + 1), from the first on."""
    n = np.arange(2, _POWERS)
    values = special("zeta", n)(n.astype(np.float64), 1.0) / n
    return (-_EULER, *(values * np.where(n % 2, -1, 1)).tolist())
