"""The names of the kernel language on single NumPy scalars, as the device computes them.

The functions of `scalar_math` are their own source text over these primitives. The primitives of `scalar_math`
itself work on whole arrays and spend microseconds on a scalar.
"""

from __future__ import annotations
import __future__

import math
import operator
import struct
from collections.abc import Callable
from typing import Any

import numpy as np

from tracejit.codegen.cuda.functions import RENAMED, source_of
from tracejit.scalar_math import library as scalar_math
from tracejit.scalar_math.fused import fused_f64

Scalar = Any


def select(condition: Scalar, yes: Scalar, no: Scalar) -> Scalar:
    return yes if condition else no


def fma_f32(a: Scalar, b: Scalar, c: Scalar) -> Scalar:
    """Through double precision, where the product is exact and the sum is rounded to odd."""
    product, addend = float(a) * float(b), float(c)
    total = product + addend
    part = total - product
    lost = (product - (total - part)) + (addend - part)
    if lost and math.isfinite(total) and not struct.unpack("<q", struct.pack("<d", total))[0] & 1:
        total = math.nextafter(total, math.copysign(math.inf, lost))
    return np.float32(total)


def whole(target: Any) -> Callable[[Scalar], Scalar]:
    """A cast to an integer type; floats that do not fit become what the kernel language says."""
    bits = np.dtype(target).itemsize * 8
    unsigned = np.dtype(target).kind == "u"

    def truncated(x: float, limit: int) -> int:
        return int(x) if -(2.0**limit) <= x < 2.0**limit else -(1 << limit)

    def cast(x: Scalar) -> Scalar:
        if isinstance(x, (float, np.floating)):
            value = float(x)
            if bits == 64 and unsigned:
                low = truncated(value, 63)
                number = low if value < 2.0**63 else truncated(value - 2.0**63, 63) ^ -(1 << 63)
            else:
                number = truncated(value, 63 if bits == 64 or (unsigned and bits == 32) else 31)
        else:
            number = int(x)
        number &= (1 << bits) - 1
        if not unsigned and number >> (bits - 1):
            number -= 1 << bits
        return target(number)

    return cast


def _extreme(larger: bool) -> Callable[[Scalar, Scalar], Scalar]:
    """The reduction `m = maximum_f32(m, v)`: the device's instruction, for which -0 is less than +0."""

    def combine(x: Scalar, y: Scalar) -> Scalar:
        if x != x or y != y:
            return x if x != x else y
        if x == y:
            return x if bool(np.signbit(x)) != larger else y
        return x if (x > y) == larger else y

    return combine


REDUCTIONS = {
    f"{name}_{kind}": _extreme(name == "maximum")
    for name in ("maximum", "minimum")
    for kind in ("f32", "f64")
}

PRIMITIVES: dict[str, Any] = {
    "inf": math.inf,
    "nan": math.nan,
    "select": select,
    "fma_f32": fma_f32,
    "fma_f64": lambda a, b, c: np.float64(fused_f64(a, b, c)),
    "bits_f32": lambda x: x.view(np.uint32),
    "bits_f64": lambda x: x.view(np.uint64),
    "f32_from_bits": lambda x: x.view(np.float32),
    "f64_from_bits": lambda x: x.view(np.float64),
    "float32": np.float32,
    "float64": np.float64,
    "bool_": np.bool_,
    **{
        f"{k}{b}": whole(np.dtype(f"{k}{b}").type) for k in ("int", "uint") for b in (8, 16, 32, 64)
    },
    "two_over_pi_word": lambda i: np.uint64(scalar_math.TABLES["two_over_pi"][i]),
    "mulhi_u32": lambda a, b: np.uint32((int(a) * int(b)) >> 32),
}
for _kind in ("f32", "f64"):
    for _name in ("sqrt", "floor", "ceil", "trunc", "fabs", "copysign"):
        PRIMITIVES[f"{_name}_{_kind}"] = getattr(np, _name)
    PRIMITIVES[f"round_{_kind}"] = np.rint
PRIMITIVES["ldexp_f32"] = scalar_math.namespace()["ldexp_f32"]
PRIMITIVES["ldexp_f64"] = scalar_math.namespace()["ldexp_f64"]


class Names(dict[str, Any]):
    """Global names of a kernel: primitives, and scalar functions made from their text when they are first used."""

    def __missing__(self, name: str) -> Any:
        source = source_of(name)
        if source is None:
            raise KeyError(name)
        flags = __future__.annotations.compiler_flag
        exec(compile(source, f"<{name}>", "exec", flags=flags), self)
        self[name] = self[RENAMED.get(name, name)]
        return self[name]


def equal_in_bits(a: Scalar, b: Scalar) -> bool:
    """For checks of results that several threads must agree on."""
    return bool(operator.eq(a, b)) or (a != a and b != b)
