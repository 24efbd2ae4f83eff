"""Derivatives of products with zeros among the factors, first and second, eager and compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj

ROWS = [
    [1.5, -2.0, 3.0, 0.5],
    [0.0, -2.0, 3.0, 0.5],
    [1.5, 0.0, 3.0, 0.5],
    [1.5, 0.0, 0.0, 2.0],
    [0.0, 2.0, 0.0, 3.0],
    [0.0, 0.0, 0.0, 2.0],
    [2.0, -1.0, 4.0, 0.0],
]
FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "prod of rows": lambda x: x.prod(1),
    "prod of columns": lambda x: x.prod(0, keepdim=True),
    "prod": lambda x: x[:3].prod(),
    "cumprod of rows": lambda x: x.cumprod(1),
    "cumprod of columns": lambda x: x.cumprod(0),
}


def one_by_one(name: str, x: Any) -> Any:
    """The same products, written as products of two."""
    if name == "prod":
        factors, cumulative, axis = [*x[:3].reshape(-1)], False, 0
    else:
        axis = 1 if name.endswith("rows") else 0
        factors, cumulative = [*x.unbind(axis)], name.startswith("cumprod")
    running = [factors[0]]
    for factor in factors[1:]:
        running.append(running[-1] * factor)
    if cumulative:
        return tj.stack(running, axis)
    return running[-1].unsqueeze(0) if name == "prod of columns" else running[-1]


def derivatives(function: Callable[[Any], Any]) -> list[Any]:
    x = tj.tensor(ROWS, dtype=tj.float64, requires_grad=True)
    y = function(x)
    weights = tj.arange(1.0, y.numel() + 1, dtype=tj.float64).reshape(y.shape).requires_grad_()
    (g,) = tj.autograd.grad((y * weights).sum(), x, create_graph=True)
    turned = tj.arange(1.0, 29.0, dtype=tj.float64).sin().reshape(7, 4)
    found = tj.autograd.grad((g * turned).sum(), (x, weights))
    return [t.detach().numpy() for t in (y, g, *found)]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_products_are_differentiated_like_products_of_two(name: str) -> None:
    function = FUNCTIONS[name]
    expected = derivatives(lambda x: one_by_one(name, x))
    compiled = tj.compile(function)
    for run in (function, compiled, compiled):
        for found, value in zip(derivatives(run), expected, strict=True):
            np.testing.assert_allclose(found, value, rtol=1e-12, atol=1e-12)


def test_a_number_is_the_product_of_itself() -> None:
    x = tj.tensor(0.0, requires_grad=True)
    for product in (x.prod(), x.cumprod(0)):
        (g,) = tj.autograd.grad(product * 3, x)
        assert g.item() == 3.0


def test_gradients_after_a_zero_are_zeros_beside_infinities() -> None:
    x = tj.tensor([0.0, float("inf"), 2.0], requires_grad=True)
    (g,) = tj.autograd.grad(x.cumprod(0)[:1].sum(), x)
    assert not g[1:].isnan().any()


def test_inner_products_are_sums_of_products() -> None:
    x, y = tj.randn(1000, requires_grad=True), tj.randn(1000, requires_grad=True)
    for function in (lambda a, b: a @ b, tj.compile(lambda a, b: a @ b, strict=True)):
        for _ in range(3):
            x.grad = y.grad = None
            found = function(x, y)
            found.backward()
        np.testing.assert_allclose(
            found.item(), x.detach().numpy() @ y.detach().numpy(), rtol=1e-4, atol=1e-4
        )
        assert x.grad.equal(y.detach())
        assert y.grad.equal(x.detach())
    with tj.autocast("cpu"):
        assert (x @ y).dtype is tj.bfloat16
        assert tj.dot(x, y).dtype is tj.inner(x, y).dtype is tj.float32
    with pytest.raises(RuntimeError):
        x @ tj.ones(1)
