"""Rows of a few elements: worked on side by side, with the results of eager execution at every length and layout."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import tracejit as tj
from tracejit.nn import functional as F

FUNCTIONS: dict[str, Callable[[tj.Tensor], tj.Tensor]] = {
    "softmax": lambda x: x.softmax(-1),
    "log_softmax": lambda x: x.log_softmax(-1),
    "layer_norm": lambda x: F.layer_norm(x, x.shape[-1:]),
    "direction": lambda x: x * (x.square().sum(-1, keepdim=True) + 0.01).pow(-1.5),
    "extremes": lambda x: x.amax(-1) - x.amin(-1) * x.argmax(-1),
    "product": lambda x: x.prod(-1) + 1,
    "nested": lambda x: (x - x.mean(-1, keepdim=True)).abs().amax(-1).sqrt(),
    "total": lambda x: (x * x.softmax(-1)).sum(),
}


def _compiled(function: Callable[[tj.Tensor], tj.Tensor], x: tj.Tensor) -> np.ndarray:
    compiled = tj.compile(function)
    compiled(x)
    result: np.ndarray = compiled(x).detach().float().numpy()
    return result


@pytest.mark.sampled(64)
@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("length", [1, 2, 3, 7, 10, 11])
def test_as_eager(name: str, length: int) -> None:
    tj.manual_seed(length)
    function = FUNCTIONS[name]
    whole = tj.randn(37, 2 * length)
    whole[3, 0], whole[5, 1], whole[7, 0] = float("nan"), float("inf"), -0.0
    layouts = {
        "contiguous": whole[:, :length].contiguous(),
        "every other": whole[:, ::2],
        "across": whole[:, :length].T.contiguous().T,
        "deep": whole[:36, :length].reshape(4, 9, length).transpose(0, 1),
        "half": whole[:, :length].half(),
        "wide": whole[:, :length].double(),
    }
    for layout, x in layouts.items():
        eager = function(x).float().numpy()
        tolerance = 2e-3 if layout == "half" else 2e-5
        found = _compiled(function, x)
        np.testing.assert_allclose(found, eager, tolerance, tolerance, err_msg=layout)


@pytest.mark.parametrize("name", ["softmax", "layer_norm", "direction", "nested"])
def test_gradients_as_eager(name: str) -> None:
    function = FUNCTIONS[name]
    compiled = tj.compile(function)
    for rows in (5, 64):
        x, g = tj.randn(rows, 3, requires_grad=True), tj.randn(rows, 3)
        grads = []
        for f in (function, compiled, compiled):
            x.grad = None
            out = f(x)
            out.backward(g if out.ndim == 2 else g[:, 0])
            grads.append(x.grad.numpy())
        for other in grads[1:]:
            np.testing.assert_allclose(other, grads[0], rtol=2e-5, atol=2e-6)


def test_a_row_does_not_depend_on_where_it_lies() -> None:
    """Vector and scalar parts of the loop over rows compute the same bits."""
    x = tj.randn(1000, 5)
    f = tj.compile(lambda x: x.sum(-1) / x.square().sum(-1).sqrt())
    f(x)
    whole = f(x).numpy()
    for first in (1, 7, 993):
        f(x[first:])
        np.testing.assert_array_equal(f(x[first:]).numpy(), whole[first:])


def test_short_rows_have_no_loop_until_lengths_vary() -> None:
    f = tj.compile(lambda x: x / x.square().sum(-1, keepdim=True).sqrt(), dynamic=False)
    for rows in (10, 200, 3):
        for _ in range(2):
            f(tj.randn(rows, 3))
    assert len(f.kernels) == 1
    assert f.source().count("for ") == 1
    for length in (4, 5, 6, 7, 30, 500):
        for _ in range(2):
            f(tj.randn(6, length))
    assert len(f.kernels) == 3  # of length three, of length four, of any length
