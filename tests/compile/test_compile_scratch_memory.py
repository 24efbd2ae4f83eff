"""compile(): custom functions that put values into memory they are given, as solvers of differential equations do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tracejit as tj


class Put(tj.autograd.Function):
    """Writes a value into a part of a tensor without a word to autograd, and returns the tensor."""

    @staticmethod
    def forward(ctx, scratch, value, index):
        ctx.index = index
        scratch.data[index] = value
        return scratch

    @staticmethod
    def backward(ctx, g):
        return g, g[ctx.index], None


def two_columns(x):
    k = tj.zeros(3, 2)
    k = Put.apply(k, x, (..., 0))
    k = Put.apply(k, x * 2, (..., 1))
    return k.sum() + (k * x[:, None]).sum()


def steps(x):
    k, y = tj.zeros(3, 4), x
    for j in range(4):
        k = Put.apply(k, (y * 1.5).tanh(), (..., j))
        y = x + (k[..., : j + 1] * tj.tensor([0.1, 0.2, 0.3, 0.4])[: j + 1]).sum(-1)
    return y, (k * 2).sum()


def steps_of_a_learned_size(x):
    k, y, size = tj.zeros(3, 4), x, (x * x).sum() * 0.1
    for j in range(4):
        k = Put.apply(k, (y * 1.5).tanh(), (..., j))
        y = x + (k[..., : j + 1] * size).sum(-1)
    return y


def rounds_that_end(x):
    y, left = x, 3
    while left > 0:
        k = tj.zeros(3, 2)
        k = Put.apply(k, y.sin(), (..., 0))
        k = Put.apply(k, (y + k[..., 0] * 0.1).cos(), (..., 1))
        if k.detach().abs().sum() > 0.5:
            y = y + (k * tj.tensor([0.2, 0.3])).sum(-1)
        left -= 1
    return y


def older_names(x):
    first = tj.zeros(3, 2)
    second = Put.apply(first, x, (..., 0))
    third = Put.apply(second, x * 2, (..., 1))
    return second * 1, first * 1, third * x[:, None]


def written_after(x):
    first = tj.zeros(3, 2)
    second = Put.apply(first, x, (..., 0))
    second.data.mul_(2)
    return first * 1, second * 1


def written_to_the_base(x):
    first = tj.zeros(3, 2)
    second = Put.apply(first, x, (..., 0))
    first.data.mul_(2)
    return first * 1, second * 1


def kept_and_overwritten(x):
    k = Put.apply(tj.zeros(3, 2), x, (..., 0))
    y = (k * k).sum()
    return y + Put.apply(k, x * 2, (..., 0)).sum()


def values_that_autograd_does_not_see(x):
    y = x * 2
    y.data.clamp_(-0.5, 0.5)
    z = x * 3
    with tj.no_grad():
        z.round_()
        z[0] += 1
    return y * x, z.sum()


COMPILED = [
    *(two_columns, steps, steps_of_a_learned_size, rounds_that_end),
    values_that_autograd_does_not_see,
]
EAGER = [older_names, written_after, written_to_the_base, kept_and_overwritten]


def told(function: Any) -> list[Any]:
    seen: list[Any] = []
    for call in range(8):
        x = (tj.arange(3) * 0.7 + call).cos().requires_grad_()
        found = function(x)
        results = found if isinstance(found, tuple) else (found,)
        sum(r.square().sum() * (k + 1) for k, r in enumerate(results) if r.requires_grad).backward()
        seen += [x.grad.tolist(), *[[r.tolist(), r.requires_grad] for r in results]]
    return seen


@pytest.mark.sampled(6)
@pytest.mark.parametrize("function", COMPILED + EAGER)
def test_values_put_into_scratch_memory(function) -> None:
    compiled = tj.compile(function)
    found, expected = told(compiled), told(function)
    for a, b in zip(found, expected, strict=True):
        if isinstance(a[-1], bool):
            assert a[-1] is b[-1]
            a, b = a[0], b[0]
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
    if function in EAGER:
        assert compiled.stats.compiled_calls == 0
    else:
        assert compiled.stats.compiled_calls >= 5, compiled.explain()
