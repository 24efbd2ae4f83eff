"""exp, exp2, expm1, sigmoid and tanh.

All reduce x = n log(2) + r, |r| <= log(2)/2, with log(2) split in two so that n times the high part is exact, and
evaluate (exp(r) - 1 - r) / r^2 by a polynomial fitted here (Remez, weighted for relative error).
"""

from __future__ import annotations

from tracejit.scalar_math.primitives import (
    copysign_f32,
    f32,
    f32_from_bits,
    fabs_f32,
    float32,
    i32,
    int32,
    round_f32,
    select,
    uint32,
)


def power_of_two_f32(n: i32) -> f32:
    """2^n for -126 <= n <= 127."""
    return f32_from_bits(uint32((n + int32(127)) << int32(23)))


def scale_f32(x: f32, n: i32) -> f32:
    """x 2^n for |n| <= 252, rounded once even when the result is subnormal."""
    half = n >> int32(1)
    return x * power_of_two_f32(half) * power_of_two_f32(n - half)


def exp_reduced_f32(r: f32) -> f32:
    """exp(r) - 1 for |r| <= 0.35."""
    q = float32(0.0013813026)
    q = float32(0.008369416) + r * q
    q = float32(0.04166846) + r * q
    q = float32(0.16666515) + r * q
    q = float32(0.49999994) + r * q
    return r + r * r * q


def exp_f32(x: f32) -> f32:
    """The exponential of x."""
    x = select(x > float32(89.0), float32(89.0), x)
    x = select(x < float32(-104.0), float32(-104.0), x)
    n = round_f32(x * float32(1.442695))
    r = (x - n * float32(0.693145751953125)) - n * float32(1.4286068e-06)
    return scale_f32(float32(1.0) + exp_reduced_f32(r), int32(n))


def exp_bounded_f32(x: f32) -> f32:
    """exp(x) for |x| <= 87, where one power of two suffices; nan stays nan."""
    n = round_f32(x * float32(1.442695))
    r = (x - n * float32(0.693145751953125)) - n * float32(1.4286068e-06)
    return (float32(1.0) + exp_reduced_f32(r)) * power_of_two_f32(int32(n))


def tanh_f32(x: f32) -> f32:
    """The hyperbolic tangent of x."""
    a = fabs_f32(x)
    z = x * x
    p = float32(0.002147616)
    p = float32(-0.008182768) + z * p
    p = float32(0.021703009) + z * p
    p = float32(-0.053947214) + z * p
    p = float32(0.1333321) + z * p
    p = float32(-0.3333333) + z * p
    near = x + x * (z * p)
    bounded = select(a > float32(10.0), float32(10.0), a)
    far = float32(1.0) - float32(2.0) / (exp_bounded_f32(bounded + bounded) + float32(1.0))
    return select(a < float32(0.625), near, copysign_f32(far, x))
