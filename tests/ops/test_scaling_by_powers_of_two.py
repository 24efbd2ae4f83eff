"""``ldexp`` with whole exponents is rounded once, whatever the power of two alone would be."""

from __future__ import annotations

import numpy as np
import pytest

import tracejit as tj
from each_way import assert_each, results

INF, NAN = float("inf"), float("nan")


def test_the_power_alone_would_be_infinite() -> None:
    x, powers = tj.tensor([0.0, 1e-40, 1e-30]), tj.tensor([200, 200, 130])
    assert_each([0.0, 1.6069293830420667e20, 1361129472.0], tj.ldexp, x, powers)
    assert_each([0.0, 1.6069293830420667e20, 1361129472.0], lambda x, n: x.ldexp_(n), x, powers)
    assert_each([3.0000000054977558e38], lambda x: tj.ldexp(*tj.frexp(x)), tj.tensor([3e38]))


def test_results_among_the_subnormal_numbers() -> None:
    x, powers = tj.tensor([1.5, 2.0**20, 3e38, 1.0]), tj.tensor([-149, -160, -270, -150])
    expected = [2.802596928649634e-45, 7.174648137343064e-43, 1.5834672646870433e-43, 0.0]
    assert_each(expected, tj.ldexp, x, powers)


def test_what_stays() -> None:
    x = tj.tensor([NAN, INF, -INF, -0.0, 1.0, 1.0])
    assert_each(
        [NAN, INF, -INF, -0.0, INF, 0.0], tj.ldexp, x, tj.tensor([1, -300, 2, 5, 2**40, -(2**40)])
    )


def test_doubles() -> None:
    x = tj.tensor([0.0, 1e-300, 2.0, 1.5], dtype=tj.float64)
    powers = tj.tensor([1025, 1400, 1024, -1074])
    assert_each([0.0, 2.766902970275812e121, INF, 1e-323], tj.ldexp, x, powers)


@pytest.mark.parametrize("kind", ["uint8", "int8", "int16", "int32", "int64"])
def test_every_kind_of_whole_exponent(kind: str) -> None:
    powers = tj.tensor([100, 3, 0], dtype=getattr(tj, kind))
    assert_each([0.0, 16.0, 1.5], tj.ldexp, tj.tensor([0.0, 2.0, 1.5]), powers)


@pytest.mark.parametrize(("kind", "reach"), [("float32", 320), ("float64", 2200), ("float16", 60)])
def test_every_power(kind: str, reach: int) -> None:
    powers = np.arange(-reach, reach)
    rng = np.random.default_rng(0)
    numbers = np.ldexp(
        rng.uniform(1, 2, powers.size), rng.integers(-reach // 3, reach // 3, powers.size)
    )
    dtype = getattr(tj, kind)
    x = tj.tensor(numbers).to(dtype)
    with np.errstate(
        over="ignore"
    ):  # doubles reach further than the others, so each is rounded once
        expected = np.ldexp(x.double().numpy(), powers).astype(dtype.np)
    for found in results(tj.ldexp, x, tj.tensor(powers)):
        assert found.dtype is dtype
        assert found.numpy().tobytes() == expected.tobytes()


def test_gradients() -> None:
    def slopes(x: tj.Tensor, powers: tj.Tensor) -> tj.Tensor:
        (found,) = tj.autograd.grad(tj.ldexp(x, powers).sum(), x)
        return found

    compiled = tj.compile(slopes)
    for call in (slopes, compiled, compiled, compiled):
        x = tj.tensor([2.0, 1e30, 0.0], requires_grad=True)
        assert call(x, tj.tensor([3, -1, 100])).tolist() == [8.0, 0.5, 2.0**100]
