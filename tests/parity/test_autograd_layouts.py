"""How gradients of matrix products lie in memory, beside PyTorch: programs show them by ``view(-1)``."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from parity_tools import close, torch

import tracejit as tj

LEFT, WEIGHT = np.random.default_rng(0).standard_normal((2, 6, 6)).astype(np.float32)

PROGRAMS = {
    "weight of linear": lambda t, x, w: t.nn.functional.linear(x, w),
    "weight and bias": lambda t, x, w: t.nn.functional.linear(x, w, w[0]),
    "transposed right": lambda t, x, w: x @ w.t(),
    "transposed left": lambda t, x, w: x.T @ w,
    "both": lambda t, x, w: t.mm(x.t(), w.t()),
    "none": lambda t, x, w: x @ w,
    "rows of rows": lambda t, x, w: t.nn.functional.linear(x.view(2, -1, 6), w),
    "added": lambda t, x, w: t.addmm(w[0], x, w.T),
    "through two layers": lambda t, x, w: t.tanh(t.nn.functional.linear(x, w)) @ w.mT,
}


def gradients(t: Any, program: Any, again: bool) -> list[Any]:
    x, w = t.tensor(LEFT), t.tensor(WEIGHT)
    x.requires_grad_()
    w.requires_grad_()
    found = program(t, x, w)
    grads = t.autograd.grad((found * found).sum(), (x, w), create_graph=again)
    if again:
        grads = (*grads, *t.autograd.grad(sum((g * g).sum() for g in grads), (x, w)))
    return list(grads)


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients_lie_as_in_pytorch(name: str, again: bool) -> None:
    program = PROGRAMS[name]
    theirs = gradients(torch, program, again)
    ours = gradients(tj, program, again)
    compiled = tj.compile(lambda: gradients(tj, program, again))
    for found in (ours, compiled(), compiled(), compiled()):
        for a, b in zip(found, theirs, strict=True):
            close(a, b, 1e-4)
        for a, b in zip(found[:2], theirs[:2], strict=True):
            assert a.stride() == b.stride()


def test_gradients_are_flattened() -> None:
    """As programs do that need products with the Hessian."""
    net = tj.nn.Sequential(tj.nn.Linear(4, 8), tj.nn.Tanh(), tj.nn.Linear(8, 3))
    x = tj.randn(5, 4)

    def product(v: Any) -> Any:
        grads = tj.autograd.grad(net(x).pow(2).sum(), net.parameters(), create_graph=True)
        flat = tj.cat([g.view(-1) for g in grads])
        again = tj.autograd.grad((flat * v).sum(), net.parameters())
        return tj.cat([g.contiguous().view(-1) for g in again])

    v = tj.randn(sum(p.numel() for p in net.parameters()))
    compiled = tj.compile(product)
    for _ in range(3):
        assert tj.allclose(compiled(v), product(v), rtol=1e-4, atol=1e-4)
