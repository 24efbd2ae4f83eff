"""sin, cos and tan, accurate for every finite argument.

The argument is reduced modulo pi/2. Usually it is not large: then the nearest number of quarter turns is subtracted in
three steps, the first of which is exact (Cody and Waite 1980, with fused operations). Others are reduced as in
:mod:`tracejit.scalar_math.quarter_turns`.
"""

from __future__ import annotations

from tracejit.scalar_math.primitives import (
    b1,
    bits_f32,
    bits_f64,
    f32,
    f32_from_bits,
    f64,
    f64_from_bits,
    fabs_f32,
    fabs_f64,
    float32,
    float64,
    fma_f32,
    fma_f64,
    inf,
    nan,
    select,
    uint32,
    uint64,
)
from tracejit.scalar_math.quarter_turns import (
    quarter_turns_f32,
    quarter_turns_f64,
    within_quarter_f32,
    within_quarter_f64,
    within_quarter_tail_f64,
)
from tracejit.scalar_math.usual import usually_f32, usually_f64


def sin_reduced_f32(r: f32) -> f32:
    """sin(r) for |r| <= pi/4."""
    z = r * r
    p = float32(-0.00019516973)
    p = fma_f32(z, p, float32(0.008332176))
    p = fma_f32(z, p, float32(-0.16666655))
    return fma_f32(r, z * p, r)


def cos_reduced_f32(r: f32) -> f32:
    """cos(r) for |r| <= pi/4."""
    z = r * r
    p = float32(2.443803e-05)
    p = fma_f32(z, p, float32(-0.0013887364))
    p = fma_f32(z, p, float32(0.041666646))
    return fma_f32(z, fma_f32(z, p, float32(-0.5)), float32(1.0))


def sin_anywhere_f32(x: f32) -> f32:
    """The sine of an x of any size."""
    r = within_quarter_f32(x)
    n = quarter_turns_f32(x)
    y = select((n & uint64(1)) == uint64(0), sin_reduced_f32(r), cos_reduced_f32(r))
    flip = uint32(uint32(n >> uint64(1)) << uint32(31)) ^ (bits_f32(x) & uint32(0x80000000))
    y = f32_from_bits(bits_f32(y) ^ flip)
    return select(fabs_f32(x) < float32(inf), y, float32(nan))


def cos_anywhere_f32(x: f32) -> f32:
    """The cosine of an x of any size."""
    r = within_quarter_f32(x)
    n = quarter_turns_f32(x)
    y = select((n & uint64(1)) == uint64(0), cos_reduced_f32(r), sin_reduced_f32(r))
    flip = uint32(uint32((n + uint64(1)) >> uint64(1)) << uint32(31))
    y = f32_from_bits(bits_f32(y) ^ flip)
    return select(fabs_f32(x) < float32(inf), y, float32(nan))


def tan_anywhere_f32(x: f32) -> f32:
    """The tangent of an x of any size."""
    r = within_quarter_f32(x)
    even = (quarter_turns_f32(x) & uint64(1)) == uint64(0)
    s = sin_reduced_f32(r)
    c = cos_reduced_f32(r)
    y = select(even, s, -c) / select(even, c, s)
    y = f32_from_bits(bits_f32(y) ^ (bits_f32(x) & uint32(0x80000000)))
    return select(fabs_f32(x) < float32(inf), y, float32(nan))


def turned_f32(a: f32) -> f32:
    """The number of quarter turns nearest to a, for 0 <= a <= 2^17, plus 1.5 2^23: its last bits are the number's."""
    return fma_f32(a, float32(0.63661975), float32(12582912.0))


def nearby_f32(a: f32) -> f32:
    """a less its nearest number of quarter turns, in radians, for 0 <= a <= 2^17."""
    n = turned_f32(a) - float32(12582912.0)
    r = fma_f32(-n, float32(1.570796251296997), a)
    r = fma_f32(-n, float32(7.549789415861596e-08), r)
    return fma_f32(-n, float32(5.390302529957765e-15), r)


def sin_nearby_f32(x: f32) -> f32:
    """The sine of x, for |x| <= 2^17."""
    r = nearby_f32(fabs_f32(x))
    n = bits_f32(turned_f32(fabs_f32(x)))
    y = select((n & uint32(1)) == uint32(0), sin_reduced_f32(r), cos_reduced_f32(r))
    flip = uint32((n & uint32(2)) << uint32(30)) ^ (bits_f32(x) & uint32(0x80000000))
    return f32_from_bits(bits_f32(y) ^ flip)


def cos_nearby_f32(x: f32) -> f32:
    """The cosine of x, for |x| <= 2^17."""
    r = nearby_f32(fabs_f32(x))
    n = bits_f32(turned_f32(fabs_f32(x)))
    y = select((n & uint32(1)) == uint32(0), cos_reduced_f32(r), sin_reduced_f32(r))
    flip = uint32(uint32(uint32(n + uint32(1)) & uint32(2)) << uint32(30))
    return f32_from_bits(bits_f32(y) ^ flip)


def tan_nearby_f32(x: f32) -> f32:
    """The tangent of x, for |x| <= 2^17."""
    r = nearby_f32(fabs_f32(x))
    even = (bits_f32(turned_f32(fabs_f32(x))) & uint32(1)) == uint32(0)
    s = sin_reduced_f32(r)
    c = cos_reduced_f32(r)
    y = select(even, s, -c) / select(even, c, s)
    return f32_from_bits(bits_f32(y) ^ (bits_f32(x) & uint32(0x80000000)))


def is_nearby_f32(x: f32) -> b1:
    """|x| <= 2^17, or nan."""
    return ~(fabs_f32(x) > float32(131072.0))


def sin_f32(x: f32) -> f32:
    """The sine of x."""
    return usually_f32(is_nearby_f32(x), sin_nearby_f32(x), sin_anywhere_f32(x))


def cos_f32(x: f32) -> f32:
    """The cosine of x."""
    return usually_f32(is_nearby_f32(x), cos_nearby_f32(x), cos_anywhere_f32(x))


def tan_f32(x: f32) -> f32:
    """The tangent of x."""
    return usually_f32(is_nearby_f32(x), tan_nearby_f32(x), tan_anywhere_f32(x))


def sin_reduced_f64(r: f64, tail: f64) -> f64:
    """sin(r + tail) for |r| <= pi/4 and a tail below r's last place."""
    z = r * r
    p = float64(1.5896681251573867e-10)
    p = fma_f64(z, p, float64(-2.5050756259727743e-08))
    p = fma_f64(z, p, float64(2.7557313680926464e-06))
    p = fma_f64(z, p, float64(-0.00019841269829778922))
    p = fma_f64(z, p, float64(0.008333333333322382))
    p = fma_f64(z, p, float64(-0.16666666666666632))
    return r + fma_f64(r, z * p, tail * fma_f64(z, float64(-0.5), float64(1.0)))


def cos_reduced_f64(r: f64, tail: f64) -> f64:
    """cos(r + tail) for |r| <= pi/4 and a tail below r's last place."""
    z = r * r
    p = float64(-1.1359557573548717e-11)
    p = fma_f64(z, p, float64(2.0875721596797642e-09))
    p = fma_f64(z, p, float64(-2.755731434052955e-07))
    p = fma_f64(z, p, float64(2.480158728944338e-05))
    p = fma_f64(z, p, float64(-0.0013888888888874066))
    p = fma_f64(z, p, float64(0.0416666666666666))
    half = float64(0.5) * z
    w = float64(1.0) - half
    return w + (((float64(1.0) - w) - half) + fma_f64(-r, tail, z * (z * p)))


def sin_anywhere_f64(x: f64) -> f64:
    """The sine of an x of any size."""
    r = within_quarter_f64(x)
    tail = within_quarter_tail_f64(x)
    n = quarter_turns_f64(x)
    even = (n & uint64(1)) == uint64(0)
    y = select(even, sin_reduced_f64(r, tail), cos_reduced_f64(r, tail))
    flip = uint64((n >> uint64(1)) << uint64(63)) ^ (bits_f64(x) & uint64(0x8000000000000000))
    y = f64_from_bits(bits_f64(y) ^ flip)
    return select(fabs_f64(x) < float64(inf), y, float64(nan))


def cos_anywhere_f64(x: f64) -> f64:
    """The cosine of an x of any size."""
    r = within_quarter_f64(x)
    tail = within_quarter_tail_f64(x)
    n = quarter_turns_f64(x)
    even = (n & uint64(1)) == uint64(0)
    y = select(even, cos_reduced_f64(r, tail), sin_reduced_f64(r, tail))
    flip = uint64(((n + uint64(1)) >> uint64(1)) << uint64(63))
    y = f64_from_bits(bits_f64(y) ^ flip)
    return select(fabs_f64(x) < float64(inf), y, float64(nan))


def tan_anywhere_f64(x: f64) -> f64:
    """The tangent of an x of any size."""
    r = within_quarter_f64(x)
    tail = within_quarter_tail_f64(x)
    even = (quarter_turns_f64(x) & uint64(1)) == uint64(0)
    s = sin_reduced_f64(r, tail)
    c = cos_reduced_f64(r, tail)
    y = select(even, s, -c) / select(even, c, s)
    y = f64_from_bits(bits_f64(y) ^ (bits_f64(x) & uint64(0x8000000000000000)))
    return select(fabs_f64(x) < float64(inf), y, float64(nan))


def turned_f64(a: f64) -> f64:
    """The number of quarter turns nearest to a, for 0 <= a <= 2^27, plus 1.5 2^52: its last bits are the number's."""
    return fma_f64(a, float64(0.6366197723675814), float64(6755399441055744.0))


def nearby_f64(a: f64) -> f64:
    """a less its nearest number of quarter turns, in radians, for 0 <= a <= 2^27."""
    n = turned_f64(a) - float64(6755399441055744.0)
    return fma_f64(-n, float64(1.5707963267948966), a) - n * float64(6.123233995736765e-17)


def nearby_tail_f64(a: f64) -> f64:
    """What `nearby_f64` rounded away."""
    n = turned_f64(a) - float64(6755399441055744.0)
    first = fma_f64(-n, float64(1.5707963267948966), a)
    second = n * float64(6.123233995736765e-17)
    r = first - second
    back = first - r
    below = (first - (r + back)) + (back - second)
    below = below - fma_f64(n, float64(6.123233995736765e-17), -second)
    return fma_f64(-n, float64(1.0828566739219139e-32), below)


def sin_nearby_f64(x: f64) -> f64:
    """The sine of x, for |x| <= 2^27."""
    a = fabs_f64(x)
    r = nearby_f64(a)
    tail = nearby_tail_f64(a)
    n = bits_f64(turned_f64(a))
    even = (n & uint64(1)) == uint64(0)
    y = select(even, sin_reduced_f64(r, tail), cos_reduced_f64(r, tail))
    flip = uint64((n & uint64(2)) << uint64(62)) ^ (bits_f64(x) & uint64(0x8000000000000000))
    return f64_from_bits(bits_f64(y) ^ flip)


def cos_nearby_f64(x: f64) -> f64:
    """The cosine of x, for |x| <= 2^27."""
    a = fabs_f64(x)
    r = nearby_f64(a)
    tail = nearby_tail_f64(a)
    n = bits_f64(turned_f64(a))
    even = (n & uint64(1)) == uint64(0)
    y = select(even, cos_reduced_f64(r, tail), sin_reduced_f64(r, tail))
    flip = uint64(uint64(uint64(n + uint64(1)) & uint64(2)) << uint64(62))
    return f64_from_bits(bits_f64(y) ^ flip)


def tan_nearby_f64(x: f64) -> f64:
    """The tangent of x, for |x| <= 2^27."""
    a = fabs_f64(x)
    r = nearby_f64(a)
    tail = nearby_tail_f64(a)
    even = (bits_f64(turned_f64(a)) & uint64(1)) == uint64(0)
    s = sin_reduced_f64(r, tail)
    c = cos_reduced_f64(r, tail)
    y = select(even, s, -c) / select(even, c, s)
    return f64_from_bits(bits_f64(y) ^ (bits_f64(x) & uint64(0x8000000000000000)))


def is_nearby_f64(x: f64) -> b1:
    """|x| <= 2^27, or nan."""
    return ~(fabs_f64(x) > float64(134217728.0))


def sin_f64(x: f64) -> f64:
    """The sine of x."""
    return usually_f64(is_nearby_f64(x), sin_nearby_f64(x), sin_anywhere_f64(x))


def cos_f64(x: f64) -> f64:
    """The cosine of x."""
    return usually_f64(is_nearby_f64(x), cos_nearby_f64(x), cos_anywhere_f64(x))


def tan_f64(x: f64) -> f64:
    """The tangent of x."""
    return usually_f64(is_nearby_f64(x), tan_nearby_f64(x), tan_anywhere_f64(x))
