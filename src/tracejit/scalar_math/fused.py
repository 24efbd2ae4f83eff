"""The NumPy meaning of the fused multiply-add: a * b + c rounded once, on machines and in NumPy that have none.

Single precision goes through double precision, where the product is exact. The sum is rounded there to odd (Boldo and
Melquiond, "Emulation of FMA and correctly rounded sums", 2008): its last bit then tells that something was dropped, so
the second rounding cannot be fooled by a tie that was none. Double precision carries the product as an exact sum of two
doubles; where an operand's exponent could make a part overflow or underflow, it is exact rational arithmetic instead.
"""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = Any

# 2^27 + 1 splits a double into two halves of 26 bits (Dekker).
_SPLIT = 134217729.0
_SAFE_LOW, _SAFE_HIGH = 2.0**-400, 2.0**400


def _round_to_odd(total: Array, lost: Array) -> Array:
    """`total` moved to the neighbour with an odd last bit, on the side of `lost`, where `lost` is not zero."""
    bits = np.asarray(total).view(np.int64)
    # The bit pattern grows away from zero: one less when the exact value is nearer to zero than `total`.
    inwards = (np.signbit(lost) != np.signbit(total)).astype(np.int64)
    odd = np.where((bits & 1) == 0, bits + 1 - 2 * inwards, bits)
    return np.where(lost != 0, odd, bits).view(np.float64)


def _two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """a + b rounded, and what the rounding lost, exactly (Knuth)."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def fused_f32(a: Array, b: Array, c: Array) -> Array:
    """a * b + c in single precision with one rounding.

    >>> e = np.float32(2.0**-12)
    >>> float(fused_f32(1 + e, 1 - e, np.float32(-1.0))) == -(2.0**-24)
    True
    """
    wide = [np.asarray(x, np.float32).astype(np.float64) for x in (a, b, c)]
    total, lost = _two_sum(wide[0] * wide[1], wide[2])
    # An infinity or a nan is final; its "lost" part is nan.
    lost = np.where(np.isfinite(total), lost, 0.0)
    return _round_to_odd(total, lost).astype(np.float32)[()]


def _two_product(a: Array, b: Array) -> tuple[Array, Array]:
    """a * b rounded, and what the rounding lost, exactly in the range where nothing overflows or underflows."""
    product = a * b
    ah = a * _SPLIT
    ah = ah - (ah - a)
    bh = b * _SPLIT
    bh = bh - (bh - b)
    al, bl = a - ah, b - bh
    return product, al * bl - (((product - ah * bh) - al * bh) - ah * bl)


def _exact_f64(a: float, b: float, c: float) -> float:
    """a * b + c of finite numbers, a and b not zero, through rational numbers."""
    from fractions import Fraction

    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact == 0:
        return 0.0
    try:
        size = abs(exact.numerator) / exact.denominator
    except OverflowError:
        size = math.inf
    return size if exact > 0 else -size


def _safe(x: Array) -> Array:
    size = np.fabs(x)
    return (size > _SAFE_LOW) & (size < _SAFE_HIGH)


def fused_f64(a: Array, b: Array, c: Array) -> Array:
    """a * b + c in double precision with one rounding.

    >>> e = np.float64(2.0**-27)
    >>> float(fused_f64(1 + e, 1 - e, np.float64(-1.0))) == -(2.0**-54)
    True
    """
    a, b, c = np.broadcast_arrays(*(np.asarray(x, np.float64) for x in (a, b, c)))
    shape = a.shape
    a, b, c = a.ravel(), b.ravel(), c.ravel()
    product, rest = _two_product(a, b)
    high, low = _two_sum(c, rest)
    top, middle = _two_sum(product, high)
    total, lost = _two_sum(middle, low)
    result = top + _round_to_odd(total, lost)
    # A zero factor has nothing to round, and an infinity or a nan is final.
    finite = np.isfinite(a) & np.isfinite(b)
    simple = (a == 0) | (b == 0) | ~finite | ~np.isfinite(c)
    # A finite product is no infinity, even where `product` is.
    result = np.where(simple, np.where(finite & np.isinf(c), c, product + c), result)
    slow = ~simple & ~(_safe(a) & _safe(b) & (np.fabs(c) < _SAFE_HIGH))
    for at in np.nonzero(slow)[0].tolist():
        result[at] = _exact_f64(float(a[at]), float(b[at]), float(c[at]))
    return result.reshape(shape)[()]
