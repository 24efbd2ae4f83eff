"""Operands for tests of `scalar_math`: types, special values, arbitrary bit patterns, and equality of bits."""

from __future__ import annotations

import math
import zlib
from typing import Any

import numpy as np

INF, NAN = math.inf, math.nan
DTYPES = {"f32": np.dtype("f4"), "f64": np.dtype("f8"), "b1": np.dtype("u1")}
DTYPES |= {f"{k}{b}": np.dtype(f"{k}{b // 8}") for k in "iu" for b in (8, 16, 32, 64)}
FLOATS = ("f32", "f64")


def rng_for(name: str) -> np.random.Generator:
    return np.random.default_rng(zlib.crc32(name.encode()))


def any_bits(rng: np.random.Generator, dtype: np.dtype[Any], count: int) -> np.ndarray[Any, Any]:
    return rng.integers(0, 256, count * dtype.itemsize, dtype=np.uint8).view(dtype)


def special_values(dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    info = np.finfo(dtype)
    tiny = [info.tiny, info.smallest_subnormal, info.smallest_subnormal * 5, info.max]
    values = [0.0, 1, 2, 3, 0.5, 1.5, 2.5, 10, 100, 1000, 1e10, 1e-10, 2.0**24 + 2, 2.0**53 + 2]
    positive = [*values, *tiny, 1 + info.eps, 1 - info.epsneg, INF]
    return np.array([*positive, *(-v for v in positive), NAN], dtype)


def same_bits(a: Any, b: Any) -> bool:
    """Equal with the sign of zeros; any nan equals any nan."""
    a, b = np.asarray(a), np.asarray(b)
    bits = np.dtype(f"u{a.dtype.itemsize}")
    same = a.view(bits) == b.view(bits)
    return bool(np.all(same | ((a != a) & (b != b))))
