"""Special functions in long double, as references of those in double and single precision."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import scipy.special

Array = np.ndarray[Any, Any]
LONG = np.longdouble
EULER = LONG("0.57721566490153286060651209008240243104")
PI = 4 * np.arctan(LONG(1))
#: The zero of digamma above zero, as a sum.
ROOT, ROOT_TAIL = LONG(1.4616321449683622), LONG("9.54999542996569771518419907597e-17")
#: B(2k) of Stirling's series.
BERNOULLI = [
    (1, 6),
    (-1, 30),
    (1, 42),
    (-1, 30),
    (5, 66),
    (-691, 2730),
    (7, 6),
    (-3617, 510),
    (43867, 798),
    (-174611, 330),
    (854513, 138),
    (-236364091, 2730),
]


def erf_series(x: Array) -> Array:
    """erf for |x| <= 2 by the all-positive series 2 / sqrt(pi) exp(-x^2) sum 2^n x^(2n+1) / (2n+1)!!."""
    term = x.copy()
    total = x.copy()
    for n in range(1, 80):
        term = term * (2 * x * x) / (2 * n + 1)
        total = total + term
    return np.exp(-x * x) * total / np.sqrt(np.arctan(LONG(1)))


def erfc_fraction(x: Array) -> Array:
    """erfc for x >= 2 by its continued fraction."""
    fraction = x.copy()
    for n in range(240, 0, -1):
        fraction = x + LONG(n) / 2 / fraction
    return np.exp(-x * x) / fraction / np.sqrt(4 * np.arctan(LONG(1)))


def long_erf(x: Array) -> Array:
    far = np.copysign(1 - erfc_fraction(np.maximum(np.abs(x), LONG(2))), x)
    return np.where(np.abs(x) < 2, erf_series(np.clip(x, LONG(-2), LONG(2))), far)


def long_erfc(x: Array) -> Array:
    return np.where(x < 2, 1 - long_erf(x), erfc_fraction(np.maximum(x, LONG(2))))


def long_erfinv(x: Array) -> Array:
    """erfinv of doubles: SciPy's, and two steps of Newton's method, from 1/2 on for 1 - x, which is exact."""
    a = np.abs(x)
    y = scipy.special.erfinv(np.minimum(a, 0.9).astype("f8")).astype(LONG)
    tail = np.clip(1 - a, LONG(1e-30), LONG(1))
    y = np.where(a < 0.9, y, scipy.special.erfcinv(tail.astype("f8")).astype(LONG))
    for _ in range(2):
        off = np.where(a < 0.5, a - long_erf(y), long_erfc(y) - tail)
        y = y + off * np.exp(y * y) * np.sqrt(PI) / 2
    y = np.where(a < 1, y, np.where(a == 1, LONG(np.inf), LONG(np.nan)))
    return np.copysign(y, x)


@cache
def zeta_less_one(k: int) -> Any:
    """zeta(k) - 1, by the sum of Euler and Maclaurin."""
    n, s = LONG(1000), LONG(k)
    total = np.sum(np.arange(999, 1, -1).astype(LONG) ** -s)
    total += n ** (1 - s) / (s - 1) + n**-s / 2 + s * n ** (-s - 1) / 12
    total -= s * (s + 1) * (s + 2) * n ** (-s - 3) / 720
    return total + s * (s + 1) * (s + 2) * (s + 3) * (s + 4) * n ** (-s - 5) / 30240


def lgamma_beside_two(y: Array) -> Array:
    """lgamma(2 + y) for |y| <= 1/2, by its Taylor series."""
    total = np.zeros_like(y)
    for k in range(44, 1, -1):
        total = (total + (-1) ** k * zeta_less_one(k) / k) * y
    return (total + (1 - EULER)) * y


def long_lgamma(x: Array) -> Array:
    """lgamma for x >= 0."""
    small, low = x < 0.5, x < 1.5
    # From 1.5 on the argument goes down by whole numbers; those are factors.
    down = np.where(low | (x > 12), 0, np.floor(np.clip(x, 1.5, 12) - 1.5)).astype(int)
    factors = np.ones_like(x)
    for k in range(1, 12):
        factors = np.where(k <= down, factors * (x - k), factors)
    y = np.where(small, x, np.where(low, x - 1, np.where(x < 13, x - down - 2, 0)))
    taken = np.where(small, np.log1p(y) + np.log(np.where(small, x, 1)), np.log1p(y))
    near = lgamma_beside_two(y) - np.where(low, taken, 0) + np.log(factors)
    far = np.maximum(x, 12)
    series = np.zeros_like(x)
    for k, (p, q) in reversed(list(enumerate(BERNOULLI, 1))):
        series = series / far / far + LONG(p) / q / (2 * k * (2 * k - 1))
    stirling = (far - LONG(0.5)) * (np.log(far) - 1) + (np.log(2 * PI) - 1) / 2 + series / far
    return np.where(x > 12, stirling, near)


def digamma_by_recurrence(x: Array) -> Array:
    """digamma for x > 0, without regard to its zero."""
    total, far = np.zeros_like(x), x.copy()
    for _ in range(13):
        low = far < 12
        total = total - np.where(low, 1 / far, 0)
        far = np.where(low, far + 1, far)
    series = np.zeros_like(x)
    for k, (p, q) in reversed(list(enumerate(BERNOULLI, 1))):
        series = (series + LONG(p) / q / (2 * k)) / far / far
    return total + (np.log(far) - 1 / (2 * far) - series)


def digamma_beside_root(x: Array) -> Array:
    """digamma for 1 <= x <= 2: (x - root) sum 1 / ((n + x) (n + root)), whose rest is an integral and corrections."""
    apart = (x - ROOT) - ROOT_TAIL
    total, count = np.zeros_like(x), 400
    root = ROOT + ROOT_TAIL
    a, b = count + x, count + root
    first, second = 1 / a + 1 / b, 1 / (a * a) + 1 / (a * b) + 1 / (b * b)
    # The derivatives of f(n) = 1 / (a b) are -f first, and so on.
    total = total + 1 / (2 * a * b) + first / (12 * a * b)
    total = total - 6 * (first * second - 1 / (a * b) * first) / (720 * a * b)
    for n in range(count - 1, -1, -1):
        total = total + 1 / ((n + x) * (n + root))
    return apart * total + np.log1p(apart / b)


def long_digamma(x: Array) -> Array:
    """digamma for x >= 0."""
    inside = (x >= 1) & (x <= 2)
    root = digamma_beside_root(np.clip(x, LONG(1), LONG(2)))
    return np.where(inside, root, digamma_by_recurrence(x))


def long_trigamma(x: Array) -> Array:
    """trigamma for x >= 0."""
    total, far = np.zeros_like(x), x.copy()
    for _ in range(13):
        low = far < 12
        with np.errstate(divide="ignore", over="ignore"):
            total = total + np.where(low, 1 / far / far, 0)
        far = np.where(low, far + 1, far)
    series = np.zeros_like(x)
    for p, q in reversed(BERNOULLI):
        series = (series + LONG(p) / q) / far / far
    return total + (series + 1 + 1 / (2 * far)) / far
