"""Running kernels in tests: object code loaded in memory, and a few kernels that several files use."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from typing import Any

import numpy as np

from tracejit.codegen import llvm as codegen
from tracejit.codegen.lower.lower import lower_kernel
from tracejit.runtime.machine_code.loader import load_object

RANGE = 'lo: "i64", hi: "i64", worker: "i64"'


class Loaded:
    """Object code in memory, called with arrays for pointers and NumPy scalars for scalars."""

    def __init__(self, code: bytes, entry: str) -> None:
        address = load_object(code, entry)
        types = [ctypes.c_void_p, *[ctypes.c_int64] * 3]
        self.entry = ctypes.CFUNCTYPE(ctypes.c_int32, *types)(address)

    def __call__(self, *arguments: Any) -> int:
        *values, low, high, worker = arguments
        block = np.zeros(max(len(values), 1), np.int64)
        for word, value in zip(range(len(values)), values, strict=True):
            block[word : word + 1].view(np.uint8)[:] = np.frombuffer(self.word(value), np.uint8)
        return int(self.entry(block.ctypes.data, low, high, worker))

    @staticmethod
    def word(value: Any) -> bytes:
        if isinstance(value, np.ndarray):
            return struct.pack("<q", value.ctypes.data)
        if isinstance(value, np.generic):
            # Junk above the scalar: only its own bits may count.
            return value.tobytes().ljust(8, b"\xa5")
        return struct.pack("<q", value)


def compiled(source: str, entry: str = "k", **options: Any) -> Loaded:
    return Loaded(codegen.compile_source(source, entry, **options), entry)


def kernel(parameters: str, body: str) -> str:
    lines = "\n".join("    " + line for line in body.strip("\n").splitlines())
    return f'def k({parameters}, {RANGE}) -> "i32":\n{lines}\n'


SOFTMAX = kernel(
    'x: "f32*", out: "f32*", n1: "i64", x_s0: "i64"',
    """
for i0 in range(lo, hi):
    m = float32(-inf)
    for i1 in range(n1):
        m = maximum_f32(m, x[i0 * x_s0 + i1])
    s = float32(0.0)
    for i1 in range(n1):
        s += exp_f32(x[i0 * x_s0 + i1] - m)
    for i1 in range(n1):
        out[i0 * n1 + i1] = exp_f32(x[i0 * x_s0 + i1] - m) / s
return 0
""",
)
ADD = kernel(
    'x: "f32*", y: "f32*", out: "f32*"',
    "for i in range(lo, hi):\n    out[i] = x[i] + y[i]\nreturn 0",
)
DOT = kernel(
    'x: "f32*", y: "f32*", out: "f32*", n: "i64"',
    """
for i in range(lo, hi):
    s = float32(0.0)
    for j in range(n):
        s += x[i * n + j] * y[i * n + j]
    out[i] = s
return 0
""",
)
MAXIMUM = kernel(
    'x: "f32*", out: "f32*", n: "i64"',
    """
for i in range(lo, hi):
    m = float32(-inf)
    for j in range(n):
        m = maximum_f32(m, x[i * n + j])
    out[i] = m
return 0
""",
)
GATHER = kernel(
    'x: "f64*", index: "i64*", out: "f64*", n: "i64"',
    """
'''Take x[index], counting negative indices from the end.'''
for i in range(lo, hi):
    j = index[i]
    if j < 0:
        j = j + n
    if j < 0 or j >= n:
        return 7
    out[i] = x[j]
return 0
""",
)


def three_ways(source: str) -> list[Callable[..., int]]:
    return [
        codegen.as_python(source, "k"),
        codegen.compile_with_numba(source, "k"),
        compiled(source),
        compiled(source, thorough=True),
    ]


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


#: Numbers of elements that fill vectors, and that do not.
COUNTS = (0, 1, 2, 3, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 130, 200)


def is_widened(source: str, bits: int = 512) -> bool:
    """Are all innermost loops printed as vectors of so many bits?"""
    return lower_kernel(
        source, "k", noalias=True, vector_bits=bits, lacking=codegen._lacking(), widen=bits
    ).widened
