"""The names of the kernel language as Numba functions, for running kernel text through Numba.

Only imported on request: Numba takes a second to import and is not on the compiler's own path.
"""

from __future__ import annotations

import math
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from tracejit import scalar_math
from tracejit.scalar_math.primitives import TABLES

_jit = numba.njit(error_model="numpy")


def _bit_cast(source: Any, target: Any) -> Any:
    @intrinsic  # type: ignore[untyped-decorator]
    def cast(typing_context: Any, value: Any) -> Any:
        def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.bitcast(arguments[0], context.get_value_type(target))

        return target(source), build

    return cast


@intrinsic  # type: ignore[untyped-decorator]
def _from_half(typing_context: Any, value: Any) -> Any:
    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        half = builder.bitcast(arguments[0], ir.HalfType())
        return builder.fpext(half, ir.FloatType())

    return types.float32(types.uint16), build


@intrinsic  # type: ignore[untyped-decorator]
def _to_half(typing_context: Any, value: Any) -> Any:
    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        half = builder.fptrunc(arguments[0], ir.HalfType())
        return builder.bitcast(half, ir.IntType(16))

    return types.uint16(types.float32), build


@_jit
def _select(condition: Any, yes: Any, no: Any) -> Any:
    return yes if condition else no


_TWO_OVER_PI = np.array(TABLES["two_over_pi"], np.uint64)


@_jit
def _two_over_pi_word(index: Any) -> Any:
    return _TWO_OVER_PI[index]


def _primitives() -> dict[str, Any]:
    names: dict[str, Any] = {
        "select": _select,
        "two_over_pi_word": _two_over_pi_word,
        "f32_from_f16": _from_half,
        "f16_from_f32": _to_half,
        "bits_f32": _bit_cast(types.float32, types.uint32),
        "bits_f64": _bit_cast(types.float64, types.uint64),
        "f32_from_bits": _bit_cast(types.uint32, types.float32),
        "f64_from_bits": _bit_cast(types.uint64, types.float64),
        "inf": math.inf,
        "nan": math.nan,
    }
    functions = {"sqrt": np.sqrt, "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc}
    functions |= {"round": np.rint, "fabs": np.fabs, "copysign": np.copysign, "fmod": math.fmod}
    for name, function in functions.items():
        names[f"{name}_f32"] = names[f"{name}_f64"] = function
    for cast in ("float32", "float64", "bool_"):
        names[cast] = getattr(np, cast)
    for bits in (8, 16, 32, 64):
        names[f"int{bits}"] = getattr(np, f"int{bits}")
        names[f"uint{bits}"] = getattr(np, f"uint{bits}")
    return names


def numba_namespace() -> dict[str, Any]:
    """Every name a kernel may use, compiled by Numba on first call."""
    names = _primitives()
    for name in scalar_math.function_names():
        source = scalar_math.source_of(name)
        assert source is not None
        # Annotations name kernel-language types, which mean nothing to Numba; strings keep them unevaluated.
        exec("from __future__ import annotations\n" + source, names)
        names[name] = _jit(names[name])
    return names
