"""Loops over one argument, beside others whose lengths vary in another way."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

import tracejit as tj


def decayed(a: tj.Tensor, x: tj.Tensor) -> tj.Tensor:
    state = tj.zeros(4)
    for row in x:
        state = state * 0.5 + row
    return state


def backwards(a: tj.Tensor, x: tj.Tensor) -> tj.Tensor:
    state = tj.zeros(4)
    for i in reversed(range(len(x))):
        state = (state + x[i]).tanh()
    return state * a.sum()


def attended(a: tj.Tensor, x: tj.Tensor) -> tj.Tensor:
    state, found = tj.zeros(4), []
    for row in x:
        state = (state + row).tanh() + (a * 0.1).mean()
        found.append(state)
    return tj.stack(found).sum(0)


PAIRS = {
    "one less": [(n - 1, n) for n in (4, 5, 5, 6, 7, 8, 9)],
    "one more": [(3, 4), (4, 5), (4, 5), (5, 6), (6, 7), (3, 4), (9, 12)],
    "one fixed": [(3, n) for n in (4, 5, 6, 7, 8)],
    "the other fixed": [(n, 9) for n in (2, 3, 4, 5, 9)],
    "both": [(3, 9), (4, 7), (5, 8), (9, 9), (10, 3), (2, 11), (6, 6)],
}


@pytest.mark.parametrize("pairs", PAIRS.values(), ids=PAIRS.keys())
@pytest.mark.parametrize("f", [decayed, backwards, attended], ids=lambda f: f.__name__)
def test_results(f: Callable[..., tj.Tensor], pairs: Sequence[tuple[int, int]]) -> None:
    compiled, rng = tj.compile(f), np.random.default_rng(1)
    for n, m in pairs * 2:
        a, x = (
            tj.tensor(rng.normal(size=shape).astype(np.float32), requires_grad=True)
            for shape in ((n, 4), (m, 4))
        )
        results = []
        for run in (compiled, f):
            a.grad = x.grad = None
            y = run(a, x)
            y.sum().backward()
            assert x.grad is not None
            results.append((y.detach().numpy(), x.grad.numpy()))
        for found, expected in zip(*results, strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
