"""compile(): where the backward pass of compiled code ends in leaves."""

from __future__ import annotations

import numpy as np

import tracejit as tj


def test_a_leaf_never_shares_the_gradient_it_started_from() -> None:
    """backward() starts from ones that all passes share; gradients that pass through must be copies."""

    @tj.compile
    def f(a, b):
        return a + b

    for _ in range(3):
        a, b = tj.tensor(1.0, requires_grad=True), tj.tensor(2.0, requires_grad=True)
        f(a, b).backward()
        a.grad.mul_(5.0)
        assert (a.grad.item(), b.grad.item()) == (5.0, 1.0)


def test_hooks_see_what_the_short_way_to_leaves_would_skip() -> None:
    def f(a, b):
        return (a * b).sum()

    def run(function):
        a = tj.tensor([1.0, 2.0], requires_grad=True)
        b = tj.tensor([3.0, 4.0], requires_grad=True)
        seen: list[object] = []
        accumulated = seen.append
        for k in range(5):
            if k == 2:
                handle = a.register_hook(lambda g: g * 2)
                b.register_post_accumulate_grad_hook(lambda t: accumulated(t.grad.tolist()))
            if k == 4:
                handle.remove()
            loss = function(a, b)
            if k == 3:
                loss.register_hook(lambda g: g.mul_(3.0))
            loss.backward(retain_graph=True)
            loss.backward()
            seen += [a.grad.tolist(), b.grad.tolist()]
        return seen

    assert run(tj.compile(f)) == run(f)


def test_one_leaf_twice_gets_one_gradient() -> None:
    """The sum of both is added to what is there, as eagerly: not one after the other."""
    w = tj.tensor([0.1, 0.2, 0.3], requires_grad=True)

    @tj.compile
    def f(x):
        return (x * w * 1.7).sum() + (x * x).sum()

    for _ in range(3):
        f(tj.ones(3, requires_grad=True)).backward()
    w.grad = tj.tensor([1e-8, 1.0, 1e8])
    f(w).backward()
    expected = tj.tensor([1e-8, 1.0, 1e8]) + 2 * w.detach() * (1.7 + 1.0)
    np.testing.assert_allclose(w.grad.numpy(), expected.numpy(), rtol=1e-6)
