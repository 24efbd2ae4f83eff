"""asin, acos, atan and atan2, in single and double precision.

asin is a polynomial on |x| <= 1/2 and follows from asin(sqrt((1 - |x|) / 2)) above. atan2 divides the smaller operand
by the larger, subtracting pi/4 where the quotient exceeds tan(pi/8), so one polynomial serves everything.
"""

from __future__ import annotations

from tracejit.scalar_math.primitives import (
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
    select,
    sqrt_f32,
    sqrt_f64,
)


def asin_small_f32(x: f32, z: f32) -> f32:
    """asin(x) for |x| <= 1/2, z = x^2."""
    p = float32(0.042227913)
    p = fma_f32(z, p, float32(0.024142807))
    p = fma_f32(z, p, float32(0.045477916))
    p = fma_f32(z, p, float32(0.074952364))
    p = fma_f32(z, p, float32(0.16666754))
    return fma_f32(x, z * p, x)


def asin_small_f64(x: f64, z: f64) -> f64:
    """asin(x) for |x| <= 1/2, z = x^2."""
    p = float64(0.03270227919633926)
    p = fma_f64(z, p, float64(-0.021116764612077427))
    p = fma_f64(z, p, float64(0.02179054369912883))
    p = fma_f64(z, p, float64(0.0036723012640765373))
    p = fma_f64(z, p, float64(0.010789265032493152))
    p = fma_f64(z, p, float64(0.011397308846543091))
    p = fma_f64(z, p, float64(0.013981015717512065))
    p = fma_f64(z, p, float64(0.017351595825719452))
    p = fma_f64(z, p, float64(0.02237221588184646))
    p = fma_f64(z, p, float64(0.03038194267636482))
    p = fma_f64(z, p, float64(0.04464285717525879))
    p = fma_f64(z, p, float64(0.0749999999997013))
    p = fma_f64(z, p, float64(0.16666666666666763))
    return fma_f64(x, z * p, x)


def asin_f32(x: f32) -> f32:
    """The angle in [-pi/2, pi/2] whose sine is x."""
    a = fabs_f32(x)
    small = a <= float32(0.5)
    z = select(small, x * x, (float32(1.0) - a) * float32(0.5))
    y = asin_small_f32(select(small, a, sqrt_f32(z)), z)
    y = select(small, y, (float32(1.5707964) - float32(2.0) * y) + float32(-4.371139e-08))
    return copysign_f32(y, x)


def asin_f64(x: f64) -> f64:
    """The angle in [-pi/2, pi/2] whose sine is x."""
    a = fabs_f64(x)
    small = a <= float64(0.5)
    z = select(small, x * x, (float64(1.0) - a) * float64(0.5))
    y = asin_small_f64(select(small, a, sqrt_f64(z)), z)
    far = float64(1.5707963267948966) - (float64(2.0) * y - float64(6.123233995736766e-17))
    return copysign_f64(select(small, y, far), x)


def acos_f32(x: f32) -> f32:
    """The angle in [0, pi] whose cosine is x."""
    a = fabs_f32(x)
    small = a <= float32(0.5)
    z = select(small, x * x, (float32(1.0) - a) * float32(0.5))
    y = asin_small_f32(select(small, x, sqrt_f32(z)), z)
    near = float32(1.5707964) - (y - float32(-4.371139e-08))
    far = select(
        x < float32(0.0),
        float32(3.1415927) - (float32(2.0) * y - float32(-8.742278e-08)),
        float32(2.0) * y,
    )
    return select(small, near, far)


def acos_f64(x: f64) -> f64:
    """The angle in [0, pi] whose cosine is x."""
    a = fabs_f64(x)
    small = a <= float64(0.5)
    z = select(small, x * x, (float64(1.0) - a) * float64(0.5))
    y = asin_small_f64(select(small, x, sqrt_f64(z)), z)
    near = float64(1.5707963267948966) - (y - float64(6.123233995736766e-17))
    far = select(
        x < float64(0.0),
        float64(3.141592653589793) - (float64(2.0) * y - float64(1.2246467991473532e-16)),
        float64(2.0) * y,
    )
    return select(small, near, far)


def atan_ratio_f32(low: f32, high: f32) -> f32:
    """atan(low / high) for 0 <= low <= high."""
    fold = low > float32(0.41421357) * high
    q = select(fold, low - high, low) / select(fold, low + high, high)
    z = q * q
    p = float32(-0.060811814)
    p = fma_f32(z, p, float32(0.10595157))
    p = fma_f32(z, p, float32(-0.14243743))
    p = fma_f32(z, p, float32(0.19998485))
    p = fma_f32(z, p, float32(-0.33333316))
    y = fma_f32(q, z * p, q)
    return select(fold, float32(0.7853982) + (y + float32(-2.1855694e-08)), y)


def atan_ratio_f64(low: f64, high: f64) -> f64:
    """atan(low / high) for 0 <= low <= high."""
    fold = low > float64(0.41421356237309503) * high
    q = select(fold, low - high, low) / select(fold, low + high, high)
    z = q * q
    p = float64(-0.01790765719404714)
    p = fma_f64(z, p, float64(0.03806525327104061))
    p = fma_f64(z, p, float64(-0.050393432055629066))
    p = fma_f64(z, p, float64(0.05847900333768701))
    p = fma_f64(z, p, float64(-0.06663105898778274))
    p = fma_f64(z, p, float64(0.07692060405947623))
    p = fma_f64(z, p, float64(-0.09090897770022988))
    p = fma_f64(z, p, float64(0.1111111078394332))
    p = fma_f64(z, p, float64(-0.1428571428020751))
    p = fma_f64(z, p, float64(0.19999999999953713))
    p = fma_f64(z, p, float64(-0.333333333333332))
    y = fma_f64(q, z * p, q)
    return select(fold, float64(0.7853981633974483) + (y + float64(3.061616997868383e-17)), y)


def atan_f32(x: f32) -> f32:
    """The angle in [-pi/2, pi/2] whose tangent is x."""
    a = fabs_f32(x)
    large = a > float32(1.0)
    y = atan_ratio_f32(select(large, float32(1.0), a), select(large, a, float32(1.0)))
    return copysign_f32(select(large, float32(1.5707964) - (y - float32(-4.371139e-08)), y), x)


def atan_f64(x: f64) -> f64:
    """The angle in [-pi/2, pi/2] whose tangent is x."""
    a = fabs_f64(x)
    large = a > float64(1.0)
    y = atan_ratio_f64(select(large, float64(1.0), a), select(large, a, float64(1.0)))
    far = float64(1.5707963267948966) - (y - float64(6.123233995736766e-17))
    return copysign_f64(select(large, far, y), x)


def atan2_f32(y: f32, x: f32) -> f32:
    """The angle of the point (x, y), with the special cases of C."""
    # Doubles make the quotient exact enough and cannot overflow or underflow here.
    a = fabs_f64(float64(x))
    b = fabs_f64(float64(y))
    steep = b > a
    low = select(steep, a, b)
    high = select(steep, b, a)
    same = low == high
    low = select(same, float64(1.0), low)
    high = select(same, float64(1.0), high)
    fold = low > float64(0.41421356237309503) * high
    q = float32(select(fold, low - high, low) / select(fold, low + high, high))
    z = q * q
    p = float32(-0.060811814)
    p = fma_f32(z, p, float32(0.10595157))
    p = fma_f32(z, p, float32(-0.14243743))
    p = fma_f32(z, p, float32(0.19998485))
    p = fma_f32(z, p, float32(-0.33333316))
    angle = fma_f32(q, z * p, q)
    angle = select(fold, float32(0.7853982) + (angle + float32(-2.1855694e-08)), angle)
    return atan2_quadrant_f32(y, x, select(same & (a == float64(0.0)), float32(0.0), angle))


def atan2_quadrant_f32(y: f32, x: f32, angle: f32) -> f32:
    """Move `angle`, the angle of (|x|, |y|) folded below pi/4, to the octant of (x, y)."""
    steep = fabs_f32(y) > fabs_f32(x)
    angle = select(steep, float32(1.5707964) - (angle - float32(-4.371139e-08)), angle)
    left = copysign_f32(float32(1.0), x) < float32(0.0)
    angle = select(left, float32(3.1415927) - (angle - float32(-8.742278e-08)), angle)
    return select((x != x) | (y != y), x + y, copysign_f32(angle, y))


def atan2_f64(y: f64, x: f64) -> f64:
    """The angle of the point (x, y), with the special cases of C."""
    a = fabs_f64(x)
    b = fabs_f64(y)
    # Halved or blown up, so that neither the sum in the fold nor the quotient leaves the normal range early.
    huge = (a > float64(1e300)) | (b > float64(1e300))
    tiny = (a < float64(1e-290)) & (b < float64(1e-290))
    scale = select(huge, float64(0.25), select(tiny, float64(1.2676506002282294e30), float64(1.0)))
    steep = b > a
    low = select(steep, a, b) * scale
    high = select(steep, b, a) * scale
    same = low == high
    low = select(same, float64(1.0), low)
    high = select(same, float64(1.0), high)
    angle = select(same & (a == float64(0.0)), float64(0.0), atan_ratio_f64(low, high))
    angle = select(
        steep, float64(1.5707963267948966) - (angle - float64(6.123233995736766e-17)), angle
    )
    left = copysign_f64(float64(1.0), x) < float64(0.0)
    far = float64(3.141592653589793) - (angle - float64(1.2246467991473532e-16))
    angle = select(left, far, angle)
    return select((x != x) | (y != y), x + y, copysign_f64(angle, y))
