"""Fusion where dimensions meet in unusual ways: outer combinations of one value, repeats, extents that coincide."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj

CASES: dict[str, Callable[[Any], Any]] = {
    "outer": lambda x: (lambda y: y.unsqueeze(1) - y)(x * 2),
    "outer_of_vector": lambda x: (lambda y: y.unsqueeze(1) * y.unsqueeze(0))((x + 1).sum(0)),
    "outer_of_rows": lambda x: (lambda y: y.unsqueeze(0) / (1 + y.unsqueeze(1).abs()))(x.exp()),
    "with_transpose": lambda x: (lambda y: y + y.T)(x * 3),
    "transpose_and_reduce": lambda x: (lambda y: (y * y.T).sum(1))(x * 3),
    "sum_of_repeats": lambda x: (lambda y: y.unsqueeze(0).expand(5, *y.shape).sum())(x.sum(0)),
    "sum_of_scalar_repeats": lambda x: x.sum().to(tj.int32).unsqueeze(-1).expand(6).sum(),
    "sum_of_inner_repeats": lambda x: (
        (x * 2).unsqueeze(1).expand(x.shape[0], 4, x.shape[1]).sum((0, 1, 2))
    ),
    "mean_of_repeated_rows": lambda x: (x * 2).sum(1, keepdim=True).expand(*x.shape).mean(),
    "prod_of_repeats": lambda x: (x * 0.5).sum(1, keepdim=True).expand(x.shape[0], 3).prod(1),
    "rows_and_columns": lambda x: x / (x.sum(0) + x.sum(1, keepdim=True) + 9),
    "row_on_column": lambda x: x.sum(1) + x.sum(0),
    "row_used_as_column": lambda x: x * x.sum(1),
    "column_used_as_row": lambda x: x * x.sum(0).unsqueeze(1),
}


@pytest.mark.sampled(12)
@pytest.mark.parametrize("extent", [1, 2, 5, 40])
@pytest.mark.parametrize("name", CASES)
def test_square_inputs(name: str, extent: int) -> None:
    """Equal extents leave the axes ambiguous; values and gradients must not be."""
    function = CASES[name]
    values = np.random.default_rng(extent).standard_normal((extent, extent))
    compiled = tj.compile(function, strict=True)
    for _ in range(2):
        results = []
        for call in (function, compiled):
            x = tj.from_numpy(values.copy()).requires_grad_()
            out = call(x)
            if out.requires_grad:
                (
                    out * tj.from_numpy(np.cos(np.arange(out.numel())).reshape(out.shape))
                ).sum().backward()
            results.append((out.detach().numpy(), None if x.grad is None else x.grad.numpy()))
        (eager, eager_grad), (found, found_grad) = results
        np.testing.assert_allclose(found, eager, rtol=1e-10, atol=1e-10)
        assert (eager_grad is None) == (found_grad is None)
        if eager_grad is not None:
            np.testing.assert_allclose(found_grad, eager_grad, rtol=1e-9, atol=1e-9)
    assert compiled.stats.compiled_calls == 1


def test_a_sum_over_one_of_several_broadcast_dimensions():
    """The sum has an element per repeated row; a group over the row alone has no loop that makes them."""

    def f(x):
        return (x[:, ::2].sum(1, keepdim=True) + x).mean(0)

    compiled = tj.compile(f)
    weights = tj.arange(7.0)
    gradients = []
    for function in (f, compiled, compiled):
        x = tj.arange(35.0).reshape(5, 7).requires_grad_()
        (function(x) * weights).sum().backward()
        gradients.append(x.grad.tolist())
    assert gradients[0] == gradients[1] == gradients[2]
    assert compiled.stats.compiled_calls == 1
