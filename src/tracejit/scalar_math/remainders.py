"""Remainders of floating-point numbers, exact however large the quotient is.

Usually the quotient has few bits. Then it is found by one division, off by one at most, and what a fused multiply-add
leaves is exact. Quotients of single precision numbers have up to 277 bits: in double precision, a quotient of up to 50
bits is found with one product by a reciprocal, and six such steps do, each with the divisor moved up by 50 bits less
than in the one before. For those of double precision numbers there is the C library, which divides bit by bit.
"""

from __future__ import annotations

from tracejit.scalar_math.primitives import (
    c_fmod_f64,
    copysign_f32,
    copysign_f64,
    f32,
    f64,
    fabs_f32,
    fabs_f64,
    float32,
    float64,
    fma_f32,
    fma_f64,
    inf,
    select,
    trunc_f32,
    trunc_f64,
)
from tracejit.scalar_math.usual import usually_f32, usually_f64


def rest_f64(r: f64, y: f64, inverse: f64) -> f64:
    """r modulo y for 0 <= r < 2^50 y of 25 bits each, where `inverse` is nearly 1 / y."""
    r = fma_f64(-trunc_f64(r * inverse), y, r)
    r = select(r < float64(0.0), r + y, r)
    return select(r >= y, r - y, r)


def fmod_anywhere_f32(x: f32, y: f32) -> f32:
    """The remainder of x / y with the sign of x, for any x and y."""
    d = float64(fabs_f32(y))
    inverse = float64(1.0) / d
    r = float64(fabs_f32(x))
    r = rest_f64(r, d * float64(1.8092513943330656e75), inverse * float64(5.527147875260445e-76))
    r = rest_f64(r, d * float64(1.6069380442589903e60), inverse * float64(6.223015277861142e-61))
    r = rest_f64(r, d * float64(1.42724769270596e45), inverse * float64(7.006492321624085e-46))
    r = rest_f64(r, d * float64(1.2676506002282294e30), inverse * float64(7.888609052210118e-31))
    r = rest_f64(r, d * float64(1125899906842624.0), inverse * float64(8.881784197001252e-16))
    r = rest_f64(r, d, inverse)
    whole = (fabs_f32(y) == float32(inf)) & (fabs_f32(x) < float32(inf))
    return select(whole, x, copysign_f32(float32(r), x))


def fmod_nearby_f32(x: f32, y: f32) -> f32:
    """The remainder of x / y with the sign of x, where the quotient is below 2^22 and y is a normal number."""
    a = fabs_f32(x)
    b = fabs_f32(y)
    r = fma_f32(-trunc_f32(a / b), b, a)
    return copysign_f32(select(r < float32(0.0), r + b, r), x)


def fmod_f32(x: f32, y: f32) -> f32:
    """The remainder of x / y with the sign of x, exact (C's fmod)."""
    b = fabs_f32(y)
    few = fabs_f32(x) < b * float32(4194304.0)
    near = (b > float32(1e-30)) & (b < float32(inf)) & few
    return usually_f32(near, fmod_nearby_f32(x, y), fmod_anywhere_f32(x, y))


def fmod_nearby_f64(x: f64, y: f64) -> f64:
    """The remainder of x / y with the sign of x, where the quotient is below 2^50 and y is a normal number."""
    a = fabs_f64(x)
    b = fabs_f64(y)
    r = fma_f64(-trunc_f64(a / b), b, a)
    return copysign_f64(select(r < float64(0.0), r + b, r), x)


def fmod_f64(x: f64, y: f64) -> f64:
    """The remainder of x / y with the sign of x, exact (C's fmod)."""
    b = fabs_f64(y)
    few = fabs_f64(x) < b * float64(1125899906842624.0)
    near = (b > float64(1e-290)) & (b < float64(inf)) & few
    return usually_f64(near, fmod_nearby_f64(x, y), c_fmod_f64(x, y))
