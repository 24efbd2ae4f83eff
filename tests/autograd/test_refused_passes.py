"""Backward programs that end because a result needs an exception: the gradients are those of eager code."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import tracejit as tj
from compiled_tools import host_ops, loops
from tracejit.codegen.products.vector_machine import vector_machine
from tracejit.runtime.counts import COUNTS

pytestmark = pytest.mark.skipif(vector_machine() is None, reason="no vectors with masks")


def solved(x: tj.Tensor) -> tj.Tensor:
    """Solutions of small systems, one after the other."""
    a = x[:4] @ x[:4].T + 4 * tj.eye(4)
    y = x[4:]
    for _ in range(10):
        y = tj.linalg.solve(a, y + 1)
    return y


def transformed(x: tj.Tensor) -> tj.Tensor:
    """A smooth function, smoother in every round."""
    weights = 1 / (1 + tj.arange(x.shape[-1] // 2 + 1))
    for _ in range(10):
        x = tj.fft.irfft(weights * tj.fft.rfft(x), n=x.shape[-1])
    return x


FUNCTIONS = [solved, transformed]


def gradient(
    function: Callable[[tj.Tensor], tj.Tensor], x: tj.Tensor, scale: float
) -> tuple[tj.Tensor, tj.Tensor]:
    """The result, and the gradient of its sum of squares times ``scale``, one of which may be no number."""
    y = x.clone().requires_grad_()
    found = function(y)
    (found * found * scale).sum().backward()
    assert y.grad is not None
    return found.detach(), y.grad


@pytest.mark.parametrize("function", FUNCTIONS)
def test_rounds_of_backward_passes_are_native(function: Callable[..., tj.Tensor]) -> None:
    x = tj.tensor(np.random.default_rng(0).standard_normal((8, 8)).astype(np.float32))
    compiled = tj.compile(function)
    wanted = gradient(function, x, 1.0)
    for _ in range(4):
        found = gradient(compiled, x, 1.0)
        tj.testing.assert_close(found, wanted)
    assert [len(found) for found in loops(compiled)] == [1, 1]
    assert host_ops(compiled) == set()


@pytest.mark.parametrize("scale", [np.inf, np.nan])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_gradients_that_are_not_finite_are_those_of_eager_code(
    function: Callable[..., tj.Tensor], scale: float
) -> None:
    x = tj.tensor(np.random.default_rng(0).standard_normal((8, 8)).astype(np.float32))
    compiled = tj.compile(function)
    wanted, plain = gradient(function, x, scale), gradient(function, x, 1.0)
    for _ in range(3):
        for _ in range(2):
            found = gradient(compiled, x, scale)
            np.testing.assert_array_equal(found[1].isnan().numpy(), wanted[1].isnan().numpy())
            np.testing.assert_array_equal(found[1].isinf().numpy(), wanted[1].isinf().numpy())
        tj.testing.assert_close(gradient(compiled, x, 1.0), plain)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_passes_that_are_refused_twice_have_plans_that_refuse_none(
    function: Callable[..., tj.Tensor],
) -> None:
    x = tj.tensor(np.random.default_rng(0).standard_normal((8, 8)).astype(np.float32))
    compiled = tj.compile(function)
    for _ in range(6):
        gradient(compiled, x, np.nan)
    made = COUNTS.plans_made
    for _ in range(4):
        gradient(compiled, x, np.nan)
    assert COUNTS.plans_made == made


def test_one_pass_of_many_is_refused() -> None:
    """Gradients are added up where they are, whether a pass was served by kernels or not."""
    x = tj.tensor(np.random.default_rng(1).standard_normal((8, 8)).astype(np.float32))
    a, b = x.clone().requires_grad_(), x.clone().requires_grad_()
    compiled = tj.compile(transformed)
    for scale in (1.0, 2.0, np.nan, 1.0, 3.0):
        for y, function in ((a, transformed), (b, compiled)):
            if np.isnan(scale):
                y.grad = None
            (function(y).square() * scale).sum().backward()
    assert a.grad is not None
    assert b.grad is not None
    assert bool(a.grad.isnan().all())
    np.testing.assert_array_equal(a.grad.isnan().numpy(), b.grad.isnan().numpy())
