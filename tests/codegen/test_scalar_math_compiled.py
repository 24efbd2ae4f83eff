"""One result for every function: NumPy, machine code and Numba agree bit for bit; the machine code is vector code."""

from __future__ import annotations

import ast
import platform
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from kernel_tools import compiled
from scalar_tools import DTYPES, any_bits, rng_for, same_bits, special_values
from tracejit.codegen import llvm as codegen
from tracejit.codegen.lower.module import LIBRARY
from tracejit.scalar_math import library as scalar_math
from tracejit.scalar_math.library import ULP_BOUND, evaluate


def kernel_for(name: str, parameters: Sequence[str], result: str) -> str:
    stored = ["u8" if p == "b1" else p for p in (*parameters, result)]
    heads = ", ".join(f'p{i}: "{p}*"' for i, p in enumerate(stored[:-1]))
    given = [
        f"(p{i}[i] != uint8(0))" if p == "b1" else f"p{i}[i]" for i, p in enumerate(parameters)
    ]
    call = f"{name}({', '.join(given)})"
    call = f"uint8({call})" if result == "b1" else call
    return (
        f'def k({heads}, out: "{stored[-1]}*", lo: "i64", hi: "i64", worker: "i64") -> "i32":\n'
        f"    for i in range(lo, hi):\n        out[i] = {call}\n    return 0\n"
    )


# Parts of other functions: exercised through them, and meaningless outside their own domain.
PARTS = (
    "window_",
    "turn_",
    "quarter_",
    "within_",
    "scale_",
    "power_of_two_",
    "mantissa_",
    "exponent_",
)
PARTS += (
    "normal_bits_",
    "exp_reduced_",
    "exp_above_",
    "exp_bounded_",
    "exp_sum_",
    "log_sum_",
    "power_",
    "atan_ratio_",
)
PARTS += ("expm1_reduced_", "exp2_reduced_", "erf_far_", "plain_")
PARTS += (
    "divided_",
    "sin_reduced_",
    "cos_reduced_",
    "asin_small_",
    "erf_near_",
    "erfc_far_",
    "log_series_",
    "log_less_",
    "lgamma_beside_",
    "lgamma_stirling_",
    "sine_of_half_turns_",
    "digamma_beside_",
    "digamma_tail_",
    "trigamma_tail_",
    "cotangent_of_half_turns_",
    "erfinv_inside_",
)
WHOLE = [n for n in scalar_math.function_names() if not n.startswith(PARTS)]


def mixed_operands(name: str, types: Sequence[str], count: int) -> list[np.ndarray[Any, Any]]:
    """Arbitrary bit patterns mixed with ordinary values and every special value."""
    rng, found = rng_for(name), []
    for type_name in types:
        dtype = DTYPES[type_name]
        x = any_bits(rng, dtype, count)
        if dtype.kind == "f":
            x = np.where(rng.random(count) < 0.5, rng.uniform(-4, 4, count).astype(dtype), x)
            special = rng.permutation(special_values(dtype))
            x[: special.size] = special
        else:
            x = np.where(rng.random(count) < 0.3, rng.integers(0, 20, count).astype(dtype), x)
        found.append(x)
    return found


def signature(name: str) -> tuple[list[str], str]:
    function = LIBRARY.function(name, ast.Name(name))
    return [parameter.name for parameter in function.parameters], function.result.name


@pytest.mark.sampled(12)
@pytest.mark.parametrize("name", WHOLE)
def test_compiled_functions_equal_numpy_bit_for_bit(name: str) -> None:
    parameters, result = signature(name)
    count = 517
    arrays = mixed_operands(name, parameters, count)
    out = np.zeros(count, DTYPES[result])
    source = kernel_for(name, parameters, result)
    assert compiled(source)(*arrays, out, 0, count, 0) == 0
    expected = np.asarray(evaluate(name, *arrays)).astype(out.dtype, copy=False)
    assert same_bits(out, expected)


@pytest.mark.sampled(4)
@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="reads x86 assembly")
@pytest.mark.parametrize("name", sorted(ULP_BOUND))
def test_functions_are_vector_code_without_calls(name: str) -> None:
    parameters, result = signature(name)
    text = codegen.assembly(kernel_for(name, parameters, result), "k")
    assert "ymm" in text or "zmm" in text or "+avx" not in codegen.target_description()
    calls = [line.split()[-1] for line in text.splitlines() if line.strip().startswith("call")]
    assert calls in ([], ["k.body"])


@pytest.mark.sampled(8)
@pytest.mark.parametrize("name", ["pow_f32", "sin_f64", "normal_f32", "bf16_from_f32", "pow_i8"])
def test_numba_gives_the_same_bits(name: str) -> None:
    parameters, result = signature(name)
    arrays = mixed_operands(name, parameters, 300)
    out = np.zeros(300, DTYPES[result])
    codegen.compile_with_numba(kernel_for(name, parameters, result), "k")(*arrays, out, 0, 300, 0)
    assert same_bits(out, np.asarray(evaluate(name, *arrays)).astype(out.dtype, copy=False))
