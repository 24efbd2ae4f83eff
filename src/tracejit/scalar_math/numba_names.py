"""The names of the kernel language as Numba functions, for running kernel text through Numba.

Numba takes a second to import and is not on the compiler's own path, so everything here imports it on first use.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tracejit.scalar_math import library as scalar_math
from tracejit.scalar_math.primitives import TABLES


def _bit_cast(source: Any, target: Any, llvm_type: Any) -> Any:
    from numba.extending import intrinsic

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], llvm_type)

    def convert(typing_context: Any, value: Any) -> Any:
        return target(source), build

    return intrinsic(convert)


def _bit_casts() -> dict[str, Any]:
    from llvmlite import ir
    from numba.core import types as nb

    return {
        "bits_f32": _bit_cast(nb.float32, nb.uint32, ir.IntType(32)),
        "bits_f64": _bit_cast(nb.float64, nb.uint64, ir.IntType(64)),
        "f32_from_bits": _bit_cast(nb.uint32, nb.float32, ir.FloatType()),
        "f64_from_bits": _bit_cast(nb.uint64, nb.float64, ir.DoubleType()),
    }


def _fused(scalar: Any) -> Any:
    from numba.extending import intrinsic

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.fma(*arguments)

    def fma(typing_context: Any, a: Any, b: Any, c: Any) -> Any:
        return scalar(scalar, scalar, scalar), build

    return intrinsic(fma)


def _primitives() -> dict[str, Any]:
    import numba

    table = np.array(TABLES["two_over_pi"], np.uint64)

    @numba.njit  # type: ignore[untyped-decorator, unused-ignore]
    def select(condition: Any, yes: Any, no: Any) -> Any:
        return yes if condition else no

    @numba.njit  # type: ignore[untyped-decorator, unused-ignore]
    def two_over_pi_word(index: Any) -> Any:
        return table[index]

    def turn(side: int) -> Any:
        def turned(to: Any, at: Any, step: Any, source: Any, begin: Any, stride: Any) -> Any:
            for j in range(side):
                for i in range(side):
                    to[at + j * step + i] = source[begin + i * stride + j]
            return 0

        return numba.njit(turned)

    @numba.njit  # type: ignore[untyped-decorator, unused-ignore]
    def columns(start: Any, stop: Any, expected: Any) -> Any:
        return range(start, stop)

    @numba.njit  # type: ignore[untyped-decorator, unused-ignore]
    def ask_for(source: Any, at: Any) -> Any:
        return 0

    @numba.njit  # type: ignore[untyped-decorator, unused-ignore]
    def settled(x: Any) -> Any:
        return x

    @numba.njit  # type: ignore[untyped-decorator, unused-ignore]
    def together(start: Any, stop: Any) -> Any:
        return range(start, stop)

    names: dict[str, Any] = {"select": select, "two_over_pi_word": two_over_pi_word}
    names["columns"], names["ask_for"], names["together"] = columns, ask_for, together
    names["settled_f32"] = names["settled_f64"] = settled
    names |= {"turn_8": turn(8), "turn_16": turn(16)}
    names |= {"inf": math.inf, "nan": math.nan, **_bit_casts()}
    names |= {"fma_f32": _fused(numba.float32), "fma_f64": _fused(numba.float64)}
    functions: dict[str, Any] = {"sqrt": np.sqrt, "floor": np.floor, "ceil": np.ceil}
    functions |= {"trunc": np.trunc, "round": np.rint, "fabs": np.fabs}
    functions["copysign"] = np.copysign
    for name, function in functions.items():
        names[f"{name}_f32"] = names[f"{name}_f64"] = function
    names["c_fmod_f64"] = math.fmod
    integers = [f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)]
    return names | {cast: getattr(np, cast) for cast in ("float32", "float64", "bool_", *integers)}


def numba_namespace() -> dict[str, Any]:
    """Every name a kernel may use, compiled by Numba on first call."""
    import numba

    names = _primitives()
    for name in scalar_math.function_names():
        source = scalar_math.source_of(name)
        assert source is not None
        # Annotations name kernel-language types, which mean nothing to Numba; strings keep them unevaluated.
        exec("from __future__ import annotations\n" + source, names)
        names[name] = numba.njit(error_model="numpy")(names[name])
    # Functions look names up when they are first compiled.
    names |= {f"ldexp_{suffix}": names[f"scale_{suffix}"] for suffix in ("f32", "f64")}
    return names
