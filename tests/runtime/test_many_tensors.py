"""Programs of very many tensors: their text goes through them in loops, and does what that of few does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.runtime.program import MANY

COUNTS = [MANY // 4, MANY, 2 * MANY]


def leaves(count: int) -> list[tj.Tensor]:
    rng = np.random.default_rng(7)
    made = [tj.tensor(rng.standard_normal((3, 2))).float().requires_grad_() for _ in range(count)]
    for p in made:
        p.grad = tj.tensor(rng.standard_normal((3, 2))).float()
    return made


def steps(
    count: int, compiles: bool, change: Any = None
) -> tuple[list[np.ndarray], Any, list[int]]:
    params = leaves(count)
    optimizer = tj.optim.Adam(params, lr=0.1)

    def update() -> None:
        optimizer.step()

    run = tj.compile(update) if compiles else update
    for number in range(6):
        if change is not None and number == 4:
            change(params)
        run()
    return [p.detach().numpy().copy() for p in params], run, [p._version for p in params]


def other_memory(params: list[tj.Tensor]) -> None:
    params[1].data = params[1].detach().clone() * 2.0


def other_gradients(params: list[tj.Tensor]) -> None:
    for p in params:
        p.grad = p.detach() * 0.5


def one_gradient_is_a_parameter(params: list[tj.Tensor]) -> None:
    params[-1].grad = params[0].detach()


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize(
    "change", [None, other_memory, other_gradients, one_gradient_is_a_parameter]
)
def test_steps_over_many_parameters(count: int, change: Any) -> None:
    found, step, versions = steps(count, True, change)
    expected, _, counted = steps(count, False, change)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a, b)
    assert versions == counted
    assert step.stats.compiled_calls > 0
    assert ("for x in t]" in step.source()) is (4 * count >= MANY)
    assert ("for one in (" in step.source()) is (count >= MANY)


@pytest.mark.parametrize("count", COUNTS)
def test_results_beside_inputs(count: int) -> None:
    """Some are written in place and others returned; one is not read at all."""

    @tj.compile
    def function(tensors: list[tj.Tensor]) -> list[Any]:
        for x in tensors[:-1]:
            x.mul_(2.0)
        return [x + 1.0 for x in tensors[:-1]]

    given = [tj.full((2,), float(k)) for k in range(count)]
    for turn in range(1, 4):
        results = function(given)
        for k, (x, y) in enumerate(zip(given, results, strict=False)):
            assert x.tolist() == [k * 2.0**turn] * 2
            assert y.tolist() == [k * 2.0**turn + 1.0] * 2
    assert given[-1].tolist() == [count - 1.0] * 2


@pytest.mark.parametrize("count", COUNTS)
def test_sums_of_many_tensors(count: int) -> None:
    @tj.compile(strict=True)
    def function(*tensors: tj.Tensor) -> Any:
        total = tensors[0]
        for x in tensors[1:]:
            total = total + x
        return total, total.exp()

    for shape in ((3,), (5,), (3,)):
        given = [tj.full(shape, 0.01 * k) for k in range(count)]
        for _ in range(2):
            total, power = function(*given)
        expected = sum(given[1:], given[0])
        assert tj.equal(total, expected)
        assert tj.allclose(power, expected.exp())
