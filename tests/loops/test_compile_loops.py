"""Python loops compiled as native loops: values, gradients and second derivatives at several lengths."""

from __future__ import annotations

import numpy as np
import pytest

import tracejit as tj
from tracejit.ir.loops import is_loop


def recurrence(x, w):
    h = tj.zeros(x.shape[1], w.shape[0])
    total = 0.0
    for t in range(x.shape[0]):
        h = (x[t] @ w + h * 0.5).tanh()
        total = total + (h * h).sum()
    return total


def arguments(rounds, rows):
    rng = np.random.default_rng(rounds * 100 + rows)
    x = tj.tensor(rng.standard_normal((rounds, rows, 3)), dtype=tj.float64)
    w = tj.tensor(rng.standard_normal((3, 3)) * 0.4, dtype=tj.float64)
    return x.requires_grad_(), w.requires_grad_()


@pytest.fixture(autouse=True)
def _double():
    tj.set_default_dtype(tj.float64)
    yield
    tj.set_default_dtype(tj.float32)


def test_one_plan_for_all_lengths_and_batches():
    compiled = tj.compile(recurrence)
    for rounds, rows in ((8, 4), (9, 5), (30, 2), (12, 7)):
        wanted = None
        for function in (recurrence, compiled, compiled):
            x, w = arguments(rounds, rows)
            result = function(x, w)
            result.backward()
            found = [result.item(), x.grad.numpy(), w.grad.numpy()]
            if wanted is None:
                wanted = found
            for a, b in zip(found, wanted, strict=True):
                np.testing.assert_allclose(a, b, 1e-10, 1e-12)
    assert any(is_loop(v) for v in compiled.graphs[0].values)
    assert compiled.plans.made == 1
    assert compiled.stats.compiled_calls == 4


def test_second_derivatives_at_several_sizes():
    compiled = tj.compile(recurrence)
    for rounds, rows in ((8, 4), (10, 5)):
        wanted = None
        for function in (recurrence, compiled, compiled):
            x, w = arguments(rounds, rows)
            (slope,) = tj.autograd.grad(function(x, w), w, create_graph=True)
            (slope * slope).sum().backward()
            found = [slope.detach().numpy(), x.grad.numpy(), w.grad.numpy()]
            wanted = wanted or found
            for a, b in zip(found, wanted, strict=True):
                np.testing.assert_allclose(a, b, 1e-9, 1e-11)
    assert compiled.stats.compiled_calls == 2
