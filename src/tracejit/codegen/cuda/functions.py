"""Scalar functions that only device kernels call: division by a run-time constant, and the exact remainder.

They are kernel-language source like those of `scalar_math`: the same text runs on NumPy scalars and is lowered for
the device. `fmod` is one instruction of the host's language and none of the device's: LLVM would approximate it
there by x - trunc(x / y) y, which is wrong as soon as the quotient needs more bits than a float has.
"""

from __future__ import annotations

import inspect

from tracejit.scalar_math import library as scalar_math
from tracejit.scalar_math.primitives import (
    bits_f32,
    bits_f64,
    copysign_f32,
    copysign_f64,
    f32,
    f64,
    float32,
    float64,
    int32,
    int64,
    nan,
    select,
    u32,
    uint32,
    uint64,
)
from tracejit.scalar_math.random import mulhi_u32
from tracejit.scalar_math.unfused import scale_f32, scale_f64

__all__ = ["divisor", "source_of"]

#: Primitives of the host that are functions here.
RENAMED = {"fmod_f32": "exact_fmod_f32", "fmod_f64": "exact_fmod_f64"}


def quotient_u32(n: u32, multiplier: u32, shift: u32) -> u32:
    """n // d for n < 2^31, with the multiplier and shift that `divisor(d)` gives (Granlund and Montgomery 1994)."""
    return uint32(uint32(mulhi_u32(n, multiplier) + n) >> shift)


def exact_fmod_f32(x: f32, y: f32) -> f32:
    """The remainder of x / y with the sign of x, exact (C's fmod), by long division of the significands."""
    a = bits_f32(x) & uint32(0x7FFFFFFF)
    b = bits_f32(y) & uint32(0x7FFFFFFF)
    if (a >= uint32(0x7F800000)) or (b > uint32(0x7F800000)) or (b == uint32(0)):
        return float32(nan)
    if a < b:
        return x
    # Subnormal numbers have the exponent of the smallest normal ones, and no hidden bit.
    p = select(a < uint32(0x00800000), int32(1), int32(a >> uint32(23)))
    q = select(b < uint32(0x00800000), int32(1), int32(b >> uint32(23)))
    m = select(a < uint32(0x00800000), a, (a & uint32(0x007FFFFF)) | uint32(0x00800000))
    n = select(b < uint32(0x00800000), b, (b & uint32(0x007FFFFF)) | uint32(0x00800000))
    divisor = uint64(n)
    rest = uint64(m) % divisor
    left = p - q
    while left > int32(0):
        step = select(left < int32(40), left, int32(40))
        rest = uint64(rest << uint64(step)) % divisor
        left = left - step
    return copysign_f32(scale_f32(float32(int32(rest)), q - int32(150)), x)


def exact_fmod_f64(x: f64, y: f64) -> f64:
    """The remainder of x / y with the sign of x, exact (C's fmod), by long division of the significands."""
    a = bits_f64(x) & uint64(0x7FFFFFFFFFFFFFFF)
    b = bits_f64(y) & uint64(0x7FFFFFFFFFFFFFFF)
    if (a >= uint64(0x7FF0000000000000)) or (b > uint64(0x7FF0000000000000)) or (b == uint64(0)):
        return float64(nan)
    if a < b:
        return x
    hidden = uint64(0x0010000000000000)
    p = select(a < hidden, int32(1), int32(a >> uint64(52)))
    q = select(b < hidden, int32(1), int32(b >> uint64(52)))
    m = select(a < hidden, a, (a & uint64(0x000FFFFFFFFFFFFF)) | hidden)
    divisor = select(b < hidden, b, (b & uint64(0x000FFFFFFFFFFFFF)) | hidden)
    rest = m % divisor
    left = p - q
    while left > int32(0):
        step = select(left < int32(11), left, int32(11))
        rest = uint64(rest << uint64(step)) % divisor
        left = left - step
    return copysign_f64(scale_f64(float64(int64(rest)), q - int32(1075)), x)


FUNCTIONS = {f.__name__: f for f in (quotient_u32, exact_fmod_f32, exact_fmod_f64)}


def source_of(name: str) -> str | None:
    """The source text of a function that device kernels can call, or None when there is none.

    >>> "rest" in source_of("fmod_f32"), source_of("exp_f32") == scalar_math.source_of("exp_f32")
    (True, True)
    >>> print(source_of("divided_u8").splitlines()[-1].strip())
    return a // b
    """
    name = RENAMED.get(name, name)
    if name in FUNCTIONS:
        return inspect.getsource(FUNCTIONS[name])
    if name.startswith("divided_u"):  # which devices can do
        kind = name.removeprefix("divided_")
        return f"def {name}(a: {kind}, b: {kind}) -> {kind}:\n    return a // b\n"
    return scalar_math.source_of(name)


def divisor(d: int) -> tuple[int, int]:
    """The multiplier and the shift with which `quotient_u32` divides by d, for 1 <= d < 2^31.

    >>> import numpy as np
    >>> multiplier, shift = map(np.uint32, divisor(7))
    >>> [int(quotient_u32(np.uint32(n), multiplier, shift)) for n in (0, 6, 7, 2**31 - 1)]
    [0, 0, 1, 306783378]
    """
    shift = max(d - 1, 0).bit_length()
    return ((1 << 32) * ((1 << shift) - d)) // d + 1, shift
