"""Every scalar function, compiled to PTX and executed as PTX, has the bits that NumPy gives for its source."""

from __future__ import annotations

import ast
from collections.abc import Sequence

import numpy as np
import ptx_machine
import pytest
from ptx_text import assert_sound
from test_scalar_math_compiled import WHOLE, mixed_operands

from scalar_tools import DTYPES, same_bits, special_values
from tracejit.codegen.cuda.functions import FUNCTIONS, divisor
from tracejit.codegen.cuda.lower import LIBRARY
from tracejit.codegen.cuda.ptx import ptx
from tracejit.scalar_math.library import evaluate

COUNT = 1024
ARCHITECTURES = ("sm_75", "sm_80", "sm_90")


def kernel_for(name: str, parameters: Sequence[str], result: str, call: str = "") -> str:
    """One element per thread."""
    stored = ["u8" if p == "b1" else p for p in (*parameters, result)]
    heads = ", ".join(f'p{i}: "{p}*"' for i, p in enumerate(stored[:-1]))
    given = [
        f"(p{i}[i] != uint8(0))" if p == "b1" else f"p{i}[i]" for i, p in enumerate(parameters)
    ]
    call = call or f"{name}({', '.join(given)})"
    call = f"uint8({call})" if result == "b1" else call
    return (
        f'def k({heads}, out: "{stored[-1]}*") -> "i32":\n    threads(256)\n'
        f"    i = block() * 256 + thread()\n    out[i] = {call}\n    return 0\n"
    )


def signature(name: str) -> tuple[list[str], str]:
    function = LIBRARY.function(name, ast.Name(name))
    return [parameter.name for parameter in function.parameters], function.result.name


def run(
    source: str, architecture: str, arrays: Sequence[np.ndarray], result: str
) -> tuple[str, np.ndarray]:
    """The PTX of a kernel and what it computes."""
    text = ptx(source, "k", architecture)
    out = np.zeros(len(arrays[0]), DTYPES[result])
    ptx_machine.launch(text, len(out) // 256, 256, *arrays, out)
    return text, out


@pytest.mark.sampled(48)
@pytest.mark.parametrize("name", WHOLE)
def test_functions_have_the_bits_of_their_source(name: str) -> None:
    parameters, result = signature(name)
    arrays = mixed_operands(name, parameters, COUNT)
    expected = np.asarray(evaluate(name, *arrays)).astype(DTYPES[result], copy=False)
    source = kernel_for(name, parameters, result)
    texts = set()
    for architecture in ARCHITECTURES:
        text, out = run(source, architecture, arrays, result)
        body = text[text.index("{") :]
        if body not in texts:
            assert_sound(text, source)
            assert same_bits(out, expected), architecture
        texts.add(body)


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_remainders_are_exact(dtype: str) -> None:
    """Also where the quotient has more bits than a float."""
    special = special_values(DTYPES[dtype])
    x, y = (np.ascontiguousarray(g).ravel() for g in np.meshgrid(special, special))
    x, y = (np.resize(v, -(-len(x) // 256) * 256) for v in (x, y))
    with np.errstate(all="ignore"):
        expected = np.fmod(x, y)
    _, out = run(kernel_for(f"fmod_{dtype}", [dtype, dtype], dtype), "sm_90", [x, y], dtype)
    assert same_bits(out, expected)
    some = slice(0, len(x), 7)
    with np.errstate(all="ignore"):
        plain = [
            FUNCTIONS[f"exact_fmod_{dtype}"](a, b) for a, b in zip(x[some], y[some], strict=True)
        ]
    assert same_bits(np.array(plain, DTYPES[dtype]), expected[some])


@pytest.mark.parametrize("target", ["i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"])
@pytest.mark.parametrize("source", ["f32", "f64"])
def test_conversions_of_what_does_not_fit_are_those_of_the_host(source: str, target: str) -> None:
    from kernel_tools import compiled

    name = {"i": "int", "u": "uint"}[target[0]] + target[1:]
    special = special_values(DTYPES[source])
    limits = np.array(
        [
            s * (2.0**b + d)
            for b in (7, 8, 15, 16, 31, 32, 63, 64)
            for d in (-1, 0, 1)
            for s in (1, -1)
        ]
    )
    x = np.resize(np.concatenate([special, limits.astype(DTYPES[source])]), 256)
    host = np.zeros(256, DTYPES[target])
    text = (
        f'def k(x: "{source}*", out: "{target}*", lo: "i64", hi: "i64", worker: "i64") -> "i32":\n'
    )
    text += f"    for i in range(lo, hi):\n        out[i] = {name}(x[i])\n    return 0\n"
    compiled(text)(x, host, 0, 256, 0)
    _, out = run(kernel_for(name, [source], target), "sm_90", [x], target)
    assert out.tolist() == host.tolist()


def test_division_by_a_constant() -> None:
    divisors = [1, 2, 3, 5, 7, 10, 64, 641, 1000, 65537, 2**30 + 1, 2**31 - 1]
    numbers = np.random.default_rng(0).integers(0, 2**31, 256).astype(np.uint32)
    numbers[:4] = 0, 1, 2**31 - 1, 2**31 - 2
    source = kernel_for("", ["u32", "u32", "u32"], "u32", "quotient_u32(p0[i], p1[i], p2[i])")
    for d in divisors:
        multiplier, shift = (np.full(256, v, np.uint32) for v in divisor(d))
        _, out = run(source, "sm_80", [numbers, multiplier, shift], "u32")
        assert out.tolist() == (numbers // np.uint32(d)).tolist(), d
