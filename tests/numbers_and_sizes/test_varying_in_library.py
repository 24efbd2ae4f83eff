"""Numbers that vary from call to call reach the computations of layers, clipping and distributions as they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tracejit as tj

D = tj.distributions
X = tj.linspace(-1.0, 1.0, 6)


def _clipped(clip: Callable[..., Any], number: float) -> Any:
    weight = tj.ones(3, requires_grad=True)
    (weight * 3.0).sum().backward()
    clip([weight], number)
    return weight.grad


CALLS: dict[str, Callable[[float], Any]] = {
    "a bound of norms": lambda v: _clipped(tj.nn.utils.clip_grad_norm_, v),
    "a bound of values": lambda v: _clipped(tj.nn.utils.clip_grad_value_, v),
    "a deviation": lambda v: D.Normal(0.5, v).log_prob(X),
    "a deviation beside means": lambda v: D.Normal(X, v).entropy(),
    "a probability": lambda v: D.Bernoulli(v).log_prob((X > 0).float()),
    "a concentration": lambda v: D.Beta(v, 2.0).log_prob(X.abs() * 0.5 + 0.1),
    "one of several": lambda v: tj.tensor([[v, 1.0], [2.0, v * 2]]) * 3.0,
    "one of several in half precision": lambda v: tj.tensor([v, 1.0], dtype=tj.float16) + 1.0,
}


@pytest.mark.parametrize("name", CALLS)
def test_two_recordings_are_enough(name: str) -> None:
    function = CALLS[name]

    def call(v: float) -> Any:
        return function(v)

    compiled = tj.compile(call)
    for step in range(8):
        value = 0.125 + 0.09375 * step
        assert tj.allclose(compiled(value), function(value), rtol=1e-5, atol=1e-6)
    assert compiled.stats.recordings == 2
    assert compiled.stats.compiled_calls == 6


def test_numbers_of_tensors_side_by_side() -> None:
    def beside(x: tj.Tensor, y: tj.Tensor) -> tj.Tensor:
        return tj.tensor([x.sum(), y.mean(), 2.0]) * 3.0

    compiled = tj.compile(beside)
    for step in range(6):
        x, y = X + step, X * (step + 1.0) + 0.5
        assert tj.allclose(compiled(x, y), beside(x, y), rtol=1e-5)
    assert compiled.stats.recordings == 2


def test_whole_numbers_side_by_side() -> None:
    def beside(n: int) -> tj.Tensor:
        return tj.tensor([[n, 1], [2, n * 2]])

    compiled = tj.compile(beside)
    for n in range(3, 11):
        found = compiled(n)
        assert found.dtype is tj.int64
        assert found.tolist() == [[n, 1], [2, n * 2]]
    assert compiled.stats.compiled_calls >= 4


def test_plain_averages_of_batches() -> None:
    layers = [tj.nn.BatchNorm1d(3, momentum=None) for _ in range(2)]
    compiled = tj.compile(layers[1])
    for step in range(6):
        x = tj.arange(12.0).reshape(4, 3) * (step + 1)
        assert tj.allclose(layers[0](x), compiled(x), atol=1e-6)
    assert tj.allclose(layers[0].running_mean, layers[1].running_mean)
    assert tj.allclose(layers[0].running_var, layers[1].running_var)
    assert compiled.stats.recordings == 2


@pytest.mark.parametrize("dtype", [tj.int64, tj.bool, tj.float16, tj.float64], ids=str)
def test_a_padding_that_varies_keeps_the_dtype(dtype: tj.dtype) -> None:
    def padded(x: tj.Tensor, value: float) -> tj.Tensor:
        return tj.nn.functional.pad(x, (1, 2), value=value)

    compiled, x = tj.compile(padded), tj.tensor([1, 0]).to(dtype)
    for value in (1.0, 2.5, 0.0, 4.25, 3.0):
        found, expected = compiled(x, value), padded(x, value)
        assert (found.dtype, found.tolist()) == (expected.dtype, expected.tolist())
    assert compiled.stats.compiled_calls == 3


@pytest.mark.parametrize("dtype", [tj.complex64, tj.complex128])
@pytest.mark.parametrize(
    "fill",
    [
        lambda x, v: tj.full((2,), v, dtype=x.dtype),
        lambda x, v: x.masked_fill(x.real > 0, v),
        lambda x, v: tj.nn.functional.pad(x, (1, 0, 0, 1), value=v),
    ],
    ids=["full", "masked_fill", "pad"],
)
def test_what_fills_complex_numbers_has_no_other_part(fill: Any, dtype: Any) -> None:
    x = tj.complex(tj.tensor([[1.0, -0.0]]), tj.tensor([[-0.0, 2.0]])).to(dtype)
    compiled = tj.compile(fill)
    for value in (1.0, 2.0, float("inf"), float("-inf"), float("nan"), -0.0) * 2:
        found, expected = tj.view_as_real(compiled(x, value)), tj.view_as_real(fill(x, value))
        assert str(found.tolist()) == str(expected.tolist())
    assert compiled.stats.compiled_calls >= 6


@pytest.mark.parametrize("dtype", [tj.int8, tj.uint8, tj.int32])
def test_tensors_of_numbers_that_their_type_does_not_hold(dtype: Any) -> None:
    def made(value: int) -> Any:
        return tj.tensor(value, dtype=dtype)

    compiled = tj.compile(made)
    for value in (1, 2, 3, 300, -200, 2**40, 5):
        found = []
        for run in (made, compiled):
            try:
                found.append(run(value).tolist())
            except RuntimeError as error:
                found.append(str(error).split("\n")[0])
        assert found[0] == found[1]
