"""The NumPy meaning of the names that are machine instructions in compiled kernels.

Every function takes NumPy scalars or arrays of the type its name says and works elementwise, so the functions written
in terms of them run vectorised in plain Python. `codegen.lower.primitives` holds the same names as LLVM instructions.
"""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import numpy as np

from tracejit.scalar_math.fused import fused_f32, fused_f64

# Annotations of the kernel language. Statically they are Any: each name stands for a scalar and for an array of them.
f32: TypeAlias = Any
f64: TypeAlias = Any
i8: TypeAlias = Any
i16: TypeAlias = Any
i32: TypeAlias = Any
i64: TypeAlias = Any
u8: TypeAlias = Any
u16: TypeAlias = Any
u32: TypeAlias = Any
u64: TypeAlias = Any
b1: TypeAlias = Any

inf = math.inf
nan = math.nan

float32: Any = np.float32
float64: Any = np.float64
int8: Any = np.int8
int16: Any = np.int16
int32: Any = np.int32
int64: Any = np.int64
uint8: Any = np.uint8
uint16: Any = np.uint16
uint32: Any = np.uint32
uint64: Any = np.uint64
bool_: Any = np.bool_


def select(condition: b1, yes: Any, no: Any) -> Any:
    """`yes` where `condition` holds, else `no`; both are evaluated."""
    return np.where(condition, yes, no)[()]


def bits_f32(x: f32) -> u32:
    """The bit pattern of x."""
    return np.asarray(x, np.float32).view(np.uint32)[()]


def bits_f64(x: f64) -> u64:
    """The bit pattern of x."""
    return np.asarray(x, np.float64).view(np.uint64)[()]


def f32_from_bits(bits: u32) -> f32:
    """The value with the given bit pattern."""
    return np.asarray(bits, np.uint32).view(np.float32)[()]


def f64_from_bits(bits: u64) -> f64:
    """The value with the given bit pattern."""
    return np.asarray(bits, np.uint64).view(np.float64)[()]


def fma_f32(a: f32, b: f32, c: f32) -> f32:
    """a * b + c, rounded once."""
    return fused_f32(a, b, c)


def fma_f64(a: f64, b: f64, c: f64) -> f64:
    """a * b + c, rounded once."""
    return fused_f64(a, b, c)


def ldexp_f32(x: f32, n: i32) -> f32:
    """x 2^n for |n| <= 252, rounded once even when the result is subnormal."""
    # Numbers for which 2^n is no double occur with a nan only.
    power = np.ldexp(np.float64(1.0), np.clip(n, -300, 300))
    return np.float32(np.float64(x) * power)


def ldexp_f64(x: f64, n: i32) -> f64:
    """x 2^n for |n| <= 2044, rounded once even when the result is subnormal."""
    n = np.clip(n, -2044, 2044)
    half = n >> 1
    one = np.float64(1.0)
    return x * np.ldexp(one, half) * np.ldexp(one, n - half)


def _fraction_words(count: int) -> tuple[int, ...]:
    """The first `64 * count` bits of 2/pi after the binary point, as 64-bit words."""
    bits = 64 * count + 64
    # Machin: pi/4 = 4 atan(1/5) - atan(1/239), in integers with `bits` fraction bits.
    unity = 1 << bits

    def arctan_inverse(n: int) -> int:
        term = unity // n
        total, divisor, sign = term, 1, 1
        while term:
            term //= n * n
            divisor, sign = divisor + 2, -sign
            total += sign * (term // divisor)
        return total

    pi = 4 * (4 * arctan_inverse(5) - arctan_inverse(239))
    fraction = (2 * unity * unity // pi) >> 64
    mask = (1 << 64) - 1
    return tuple(fraction >> (64 * (count - 1 - k)) & mask for k in range(count))


# 1024 bits of exponent range, 53 of mantissa and 128 of result need 19 words; one leading zero word serves |x| < 1.
TABLES: dict[str, tuple[int, ...]] = {"two_over_pi": (0, *_fraction_words(20))}
_TWO_OVER_PI = np.array(TABLES["two_over_pi"], np.uint64)


def two_over_pi_word(index: i64) -> u64:
    """64 bits of 2/pi: word 0 is zero, word k holds fraction bits 64 (k - 1) .. 64 k - 1."""
    return _TWO_OVER_PI[index]


def sqrt_f32(x: f32) -> f32:
    """Square root, correctly rounded."""
    return np.sqrt(x)


def floor_f32(x: f32) -> f32:
    """The largest integral value not above x."""
    return np.floor(x)


def ceil_f32(x: f32) -> f32:
    """The smallest integral value not below x."""
    return np.ceil(x)


def trunc_f32(x: f32) -> f32:
    """x without its fraction."""
    return np.trunc(x)


def round_f32(x: f32) -> f32:
    """The nearest integral value, ties to even."""
    return np.rint(x)


def fabs_f32(x: f32) -> f32:
    """|x|."""
    return np.fabs(x)


def copysign_f32(x: f32, sign: f32) -> f32:
    """|x| with the sign bit of `sign`."""
    return np.copysign(x, sign)


def c_fmod_f64(x: f64, y: f64) -> f64:
    """The remainder of x / y with the sign of x, exact (C's fmod)."""
    return np.fmod(x, y)


def _turned(side: int, to: Any, at: i64, step: i64, source: Any, begin: i64, stride: i64) -> i64:
    for j in range(side):
        for i in range(side):
            to[at + j * step + i] = source[begin + i * stride + j]
    return 0


def turn_8(to: Any, at: i64, step: i64, source: Any, begin: i64, stride: i64) -> i64:
    """Copy a square of memory, rows ``stride`` apart, to one with rows ``step`` apart, its columns becoming rows."""
    return _turned(8, to, at, step, source, begin, stride)


def turn_16(to: Any, at: i64, step: i64, source: Any, begin: i64, stride: i64) -> i64:
    """The same for squares of twice the side."""
    return _turned(16, to, at, step, source, begin, stride)


def ask_for(source: Any, at: i64) -> i64:
    """Have memory brought near that will be read soon; there may be no such element."""
    return 0


def settled_f32(x: f32) -> f32:
    """x, or any number where x came out of an extreme that was told to expect no nan and met one."""
    return x


sqrt_f64, floor_f64, ceil_f64, trunc_f64 = sqrt_f32, floor_f32, ceil_f32, trunc_f32
round_f64, fabs_f64, copysign_f64 = round_f32, fabs_f32, copysign_f32
settled_f64 = settled_f32

NAMES: tuple[str, ...] = (
    "select",
    *(
        f"{name}_{suffix}"
        for name in (
            "bits",
            "sqrt",
            "floor",
            "ceil",
            "trunc",
            "round",
            "fabs",
            "copysign",
            "fma",
        )
        for suffix in ("f32", "f64")
    ),
    "c_fmod_f64",
    "f32_from_bits",
    "f64_from_bits",
    "two_over_pi_word",
    "turn_8",
    "turn_16",
    "ask_for",
    "settled_f32",
    "settled_f64",
)


def together(start: i64, stop: i64) -> Any:
    """The rows from ``start`` to ``stop``, whose elements are folded for several of them together."""
    return range(start, stop)


def columns(start: i64, stop: i64, expected: i64) -> Any:
    """The columns from ``start`` to ``stop``, which are folded side by side; about so many are ``expected``."""
    return range(start, stop)
