"""Gradients where several elements are the extreme or limits are infinite, and numbers of slices that do not fit."""

from __future__ import annotations

import math
from typing import Any

import pytest

import tracejit as tj

X = [[0.0, 2.0], [2.0, 1.0]]
Y = [[0.0, 0.0], [4.0, 4.0], [2.0, 1.0]]


def _run(function: Any, compiled: bool) -> Any:
    return tj.compile(function) if compiled else function


@pytest.mark.parametrize("compiled", [False, True])
def test_each_of_the_largest_differences_has_the_whole_gradient(compiled: bool) -> None:
    weights = tj.arange(6.0).reshape(2, 3)
    call = _run(lambda x: (tj.cdist(x, tj.tensor(Y), p=math.inf) * weights).sum(), compiled)
    for _ in range(3):
        x = tj.tensor(X, requires_grad=True)
        loss = call(x)
        assert loss.item() == 26.0
        assert tj.autograd.grad(loss, x)[0].tolist() == [[-3.0, 0.0], [3.0, -4.0]]
    rows = tj.tensor([[0.0, 1.0], [2.0, 3.0], [math.inf, 0.0]], requires_grad=True)
    found = tj.pdist(rows, math.inf)
    assert found.tolist() == [2.0, math.inf, math.inf]
    assert tj.autograd.grad(found[0], rows)[0].tolist() == [[-1, -1], [1, 1], [0, 0]]
    assert tj.pdist(tj.ones(3, 0), math.inf).tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("name", ["max", "min"])
def test_gradients_without_limits_stay_with_the_extreme(name: str, compiled: bool) -> None:
    call = _run(lambda x: getattr(x, name)(), compiled)
    sign = 1.0 if name == "max" else -1.0
    for _ in range(3):
        x = (tj.tensor([1.0, 5.0, 5.0]) * sign).requires_grad_()
        (slope,) = tj.autograd.grad(call(x), x, tj.tensor(math.inf))
        assert slope.tolist() == [0.0, math.inf, math.inf]


@pytest.mark.parametrize("compiled", [False, True])
def test_absolute_values_of_complex_numbers_may_be_written_to(compiled: bool) -> None:
    def loudness(z: Any) -> Any:
        return z.abs().clamp_(min=1e-3).log_().sum()

    call = _run(loudness, compiled)
    for _ in range(3):
        z = tj.tensor([3 + 4j, 0, -2j], requires_grad=True)
        (slope,) = tj.autograd.grad(call(z), z)
        assert tj.allclose(slope, tj.tensor([0.12 + 0.16j, 0, -0.5j]))


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: tj.zeros(3).index_copy(0, tj.tensor([1]), tj.ones(2)), IndexError),
        (lambda: tj.zeros(3, 5).index_copy(1, tj.tensor([1, 2]), tj.ones(3, 1)), IndexError),
        (
            lambda: tj.zeros(3, 5).index_reduce(1, tj.tensor([1]), tj.ones(3, 2), "amax"),
            RuntimeError,
        ),
        (lambda: tj.zeros(3, 5).index_add(1, tj.tensor([1]), tj.ones(3, 2)), RuntimeError),
    ],
)
def test_there_is_a_slice_for_every_index(call: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="Number of indices"):
        call()
