"""Tensors written out in a program are made once, before its first call, and are no steps of it."""

from __future__ import annotations

import numpy as np

import tracejit as tj


def test_constants_are_no_calls() -> None:
    @tj.compile
    def f(x: tj.Tensor) -> tj.Tensor:
        return x[:, [2, 0]] * tj.linspace(0, 1, 2) + x[:, [1, 1]]

    x = tj.randn(3, 4, requires_grad=True)
    for _ in range(3):
        f(x).sum().backward()
    assert "literal" not in "".join(k.name for k in f.kernels)
    with tj.profiling.profile() as profile:
        f(x).sum().backward()
    assert "(library)" not in str(profile)


def test_a_returned_constant_is_new_in_every_call() -> None:
    @tj.compile
    def f(x: tj.Tensor) -> tuple[tj.Tensor, tj.Tensor]:
        places = tj.tensor([[1, 0]])
        return x[:, [1, 0]], places

    for _ in range(4):
        _, places = f(tj.arange(4.0).reshape(2, 2))
        assert places.tolist() == [[1, 0]]
        places.zero_()


def test_constants_in_loops_and_products() -> None:
    def f(x: tj.Tensor, n: int) -> tj.Tensor:
        turn = tj.tensor([[0.0, 1.0], [-1.0, 0.0]])
        for _ in range(n):
            x = (x @ turn)[:, [1, 0]] * 0.5 + tj.linspace(0, 1, 2)
        return x

    compiled = tj.compile(f)
    for n in (12, 12, 20, 20):
        x = tj.randn(3, 2, requires_grad=True)
        grads = []
        for function in (f, compiled):
            x.grad = None
            out = function(x, n)
            out.square().sum().backward()
            grads.append((out.detach().numpy(), x.grad.numpy()))
        for eager, found in zip(*grads, strict=True):
            np.testing.assert_allclose(found, eager, rtol=1e-5, atol=1e-6)
