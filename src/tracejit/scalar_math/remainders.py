"""The remainder of single precision numbers, exact however large the quotient is, without a loop that ends with data.

The C library divides bit by bit and one number at a time. In double precision a quotient of up to 50 bits is found with
one product by a reciprocal, off by one at most, and what a fused multiply-add leaves has 25 bits, which are exact.
Quotients of single precision numbers have up to 277 bits: six such steps, each with the divisor moved up by 50 bits
less than in the one before.
"""

from __future__ import annotations

from tracejit.scalar_math.primitives import (
    copysign_f32,
    f32,
    f64,
    fabs_f32,
    float32,
    float64,
    fma_f64,
    inf,
    select,
    trunc_f64,
)


def rest_f64(r: f64, y: f64, inverse: f64) -> f64:
    """r modulo y for 0 <= r < 2^50 y of 25 bits each, where `inverse` is nearly 1 / y."""
    r = fma_f64(-trunc_f64(r * inverse), y, r)
    r = select(r < float64(0.0), r + y, r)
    return select(r >= y, r - y, r)


def fmod_f32(x: f32, y: f32) -> f32:
    """The remainder of x / y with the sign of x, exact (C's fmod)."""
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
