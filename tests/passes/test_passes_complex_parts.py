"""Complex arithmetic on parts: the same bits as of complex numbers, fused with what is around it."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.ir import parse, run, verify
from tracejit.passes.products.complex_parts import complex_parts

Function = Callable[..., Any]


def rotated(x: tj.Tensor, turns: tj.Tensor) -> tj.Tensor:
    """Rotary positions as many models write them."""
    pairs = tj.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
    return tj.view_as_real(pairs * turns[:, None]).flatten(-2).type_as(x)


def turns(length: int, count: int) -> tj.Tensor:
    angles = tj.outer(tj.arange(length).float(), 0.1 ** tj.arange(count).float())
    return tj.polar(tj.ones_like(angles), angles)


@pytest.mark.parametrize("dtype", [tj.float32, tj.float64, tj.bfloat16], ids=str)
def test_rotations_of_pairs_are_one_pass(dtype: tj.dtype) -> None:
    compiled = tj.compile(rotated, strict=True)
    for length in (6, 9):
        x, t = tj.randn(2, length, 3, 8).to(dtype), turns(length, 4)
        for _ in range(2):
            found = compiled(x, t)
        expected = rotated(x, t)
        assert found.dtype is dtype
        np.testing.assert_allclose(
            found.double().numpy(), expected.double().numpy(), 1e-2 if dtype.is_half else 1e-6, 1e-6
        )
    assert not any("k_mul_pairs" in kernel.name for kernel in compiled.kernels)


def test_gradients() -> None:
    x, t = tj.randn(2, 6, 3, 8, requires_grad=True), turns(6, 4)
    compiled = tj.compile(rotated, strict=True)
    found = []
    for function in (rotated, compiled, compiled):
        x.grad = None
        (function(x, t) * x.detach().cos()).sum().backward()
        assert x.grad is not None
        found.append(x.grad.numpy())
    for gradient in found[1:]:
        np.testing.assert_allclose(gradient, found[0], 1e-5, 1e-6)


PROGRAMS: dict[str, Function] = {
    "product": lambda a, b, r: a * b,
    "sum": lambda a, b, r: (a + b) - a.conj() * b,
    "numbers": lambda a, b, r: (2.5 * a - 1) * (1j * b),
    "real factors": lambda a, b, r: a * r + b * r,
    "broadcast": lambda a, b, r: a[:, :1] * b[0] + r,
    "negated": lambda a, b, r: -(a * a.conj()) - b,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_bits_are_those_of_complex_kernels(name: str) -> None:
    special = [0.0, -0.0, 1.5, -2.0, np.inf, -np.inf, np.nan]
    pairs = np.array(list(itertools.product(special, special)), np.float32)
    a, b = tj.tensor(pairs[:, None]), tj.tensor(pairs[None])
    r = tj.tensor(pairs[:, :1])

    def on_pairs(a: tj.Tensor, b: tj.Tensor, r: tj.Tensor) -> tj.Tensor:
        a, b = a.expand(-1, 49, 2).contiguous(), b.expand(49, -1, 2).contiguous()
        return tj.view_as_real(PROGRAMS[name](tj.view_as_complex(a), tj.view_as_complex(b), r))

    compiled = tj.compile(on_pairs, strict=True)
    for _ in range(2):
        found = compiled(a, b, r).numpy()
    expected = on_pairs(a, b, r).numpy()
    np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))
    np.testing.assert_array_equal(found, expected)
    assert (np.signbit(found) == np.signbit(expected))[~np.isnan(found)].all()


WHOLE = """graph f(x: f32[4, 2], y: c64[4], z: c64[4]) {
    %0: c64[4] = complex_of_parts(x)
    %1: c64[4] = mul(%0, y)
    %2: c64[4] = add(%1, z)
    %3: f32[4, 2] = parts_of_complex(%2)
    return OUTPUTS
}"""


@pytest.mark.parametrize("outputs", ["%3", "%3, %2", "%3, %1", "%3, %0"])
def test_what_is_needed_whole_stays_whole(outputs: str, rng: np.random.Generator) -> None:
    graph = parse(WHOLE.replace("OUTPUTS", outputs))
    found = complex_parts(graph)
    verify(found)
    numbers = [
        rng.standard_normal((*v.spec.shape, 2)).astype(v.spec.dtype.to_real().np)
        for v in graph.inputs
    ]
    x, y, z = (n.view(v.spec.dtype.np)[..., 0] for n, v in zip(numbers, graph.inputs, strict=True))
    for mine, expected in zip(run(found, [x, y, z]), run(graph, [x, y, z]), strict=True):
        np.testing.assert_allclose(mine, expected, 1e-6)


@pytest.mark.parametrize(
    "statement", ["clone(y)", "reshape(y, shape=(2, 2))", "log1p(y)", "pow(y, 0.5)"]
)
def test_what_computes_nothing_and_what_has_no_rule_stays(statement: str) -> None:
    shape = "2, 2" if "reshape" in statement else "4"
    graph = parse(f"graph f(y: c64[4]) {{ %0: c64[{shape}] = {statement} return %0 }}")
    assert complex_parts(graph) is graph
