"""compile(): results that need gradients of leaves whose values the call replaced, and of what was kept of buffers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit import nn


def normalised(w, b, x):
    with tj.no_grad():
        w.copy_(w / (w.norm(dim=1, keepdim=True) + 1e-4))
    return x @ (w / w.norm())


def used_before(w, b, x):
    y = w.sum()
    with tj.no_grad():
        w.mul_(0.9)
    return x @ w + y


def parts(w, b, x):
    with tj.no_grad():
        w[0].mul_(0.5)
        w[1] = 1.0
        w[:, 2] += x.detach()[0]
    return x @ w


def through_data(w, b, x):
    w.data.clamp_(-0.5, 0.5)
    return x @ w


def halved_through_data(w, b, x):
    w.data.mul_(0.9)
    return (x @ w).tanh()


def buffer_through_data(w, b, x):
    b.data.mul_(0.9)
    return (x @ b).sin() * x


def through_detach(w, b, x):
    w.detach().mul_(0.9)
    return x @ w


def assigned(w, b, x):
    w.data = w.data * 0.9
    return x @ w


def view_from_before(w, b, x):
    row = w[0]
    with tj.no_grad():
        w.mul_(0.9)
        row.add_(0.1)
    return (x * row).sum(1) + (x @ w)[:, 0]


def several(w, b, x):
    with tj.no_grad():
        for _ in range(3):
            w.mul_(0.9).add_(0.01)
    if x.sum() > 0:
        return (x @ w).tanh()
    return x @ w.t()


def from_the_argument(w, b, x):
    with tj.no_grad():
        w.copy_(x[:4])
    return x @ w


def not_finite(w, b, x):
    with tj.no_grad():
        w.mul_(float("inf"))
        w.nan_to_num_(1.0, 2.0, 3.0)
    return (w * x[:4]).sum()


def differentiated_inside(w, b, x):
    with tj.no_grad():
        w.mul_(0.9)
    (g,) = tj.autograd.grad((x @ w).sum(), w, create_graph=True)
    return (g * w).sum()


def handed_out(w, b, x):
    with tj.no_grad():
        w.fill_(0.3)
    return w * 1, w, w[0]


def codebook(w, b, x):
    nearest = tj.cdist(x, b).argmin(1)
    found = nn.functional.embedding(nearest, b)
    b.data.copy_(b * 0.9 + 0.1 * x.detach().mean(0))
    return x + (found - x).detach(), (found - x).square().mean()


def kept_by_nothing(w, b, x):
    y = w.sum() + (x.detach() @ w).sum()
    w.data.mul_(1.01)
    return y + x.sum()


COMPILED = [
    *(normalised, used_before, parts, through_data, through_detach, assigned, view_from_before),
    *(halved_through_data, buffer_through_data),
    *(several, from_the_argument, not_finite, differentiated_inside, handed_out, codebook),
    kept_by_nothing,
]


def kept_by_a_step(w, b, x):
    y = x @ b
    b.data.mul_(0.9)
    return y


def kept_by_a_step_to_the_leaf(w, b, x):
    y = (w * w).sum()
    w.data.mul_(0.9)
    return y + x.sum()


def kept_and_assigned(w, b, x):
    y = (w * w).sum()
    w.data = w.data * 0.9
    return x @ w + y


def kept_by_a_function(w, b, x):
    y = Scaled.apply(x, b)
    b.data.mul_(0.9)
    return y


class Scaled(tj.autograd.Function):
    @staticmethod
    def forward(ctx, x, b):
        ctx.save_for_backward(b)
        return x * b[0]

    @staticmethod
    def backward(ctx, g):
        (b,) = ctx.saved_tensors
        return g * b[0], None


EAGER = [
    *(kept_by_a_step, kept_by_a_step_to_the_leaf, kept_and_assigned),
    kept_by_a_function,
]


def numbers(count: int, shift: float) -> Any:
    return (tj.arange(count) * 0.7 + shift).cos()


def told(function: Callable[..., Any], compiles: bool, twice: bool) -> tuple[list[Any], Any]:
    """Results, gradients and what is left in the leaf and the buffer, call after call."""
    w = nn.Parameter(numbers(16, 1.0).view(4, 4))
    b = numbers(16, 2.0).view(4, 4)

    def run(x):
        return function(w, b, x)

    run = tj.compile(run) if compiles else run
    seen: list[Any] = []
    for call in range(8):
        x = numbers(20, call).view(5, 4).requires_grad_()
        found = run(x)
        results = found if isinstance(found, tuple) else (found,)
        total = sum((r * r).sum() * (k + 1) for k, r in enumerate(results))
        w.grad = None
        if twice:
            slopes = tj.autograd.grad(total, [w, x], create_graph=True, allow_unused=True)
            total = sum(g.square().sum() for g in slopes if g is not None)
        total.backward()
        seen += [r.tolist() for r in results] + [r.requires_grad for r in results]
        seen += [[] if t.grad is None else t.grad.tolist() for t in (w, x)]
        seen += [w.tolist(), b.tolist(), w._version, b._version, w.is_leaf]
    return seen, run


@pytest.mark.sampled(4)
@pytest.mark.parametrize("twice", [False, True])
@pytest.mark.parametrize("function", COMPILED + EAGER)
def test_leaves_go_on_with_other_values(function, twice) -> None:
    expected, _ = told(function, False, twice)
    found, compiled = told(function, True, twice)
    for a, b in zip(expected, found, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-4, atol=1e-5)
    assert compiled.stats.compiled_calls >= (6 if function in COMPILED else 0), compiled.explain()
    assert function in COMPILED or not compiled.stats.compiled_calls


def test_a_network_that_normalises_its_weights() -> None:
    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(numbers(12, 0.0).view(3, 4))

        def forward(self, x):
            if self.training:
                with tj.no_grad():
                    self.weight.copy_(nn.functional.normalize(self.weight, dim=1))
            return nn.functional.linear(x, self.weight * 0.5)

    def train(compiles: bool) -> tuple[list[Any], Any]:
        layer = Layer()
        model = tj.compile(layer) if compiles else layer
        optimizer = tj.optim.SGD(layer.parameters(), lr=0.1)
        losses = []
        for call in range(8):
            loss = model(numbers(8, call).view(2, 4)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses += [loss.item(), layer.weight.tolist()]
        return losses, model

    (found, model), (expected, _) = train(True), train(False)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    assert model.stats.compiled_calls >= 6


def test_what_was_written_through_data_may_not_change_before_the_pass() -> None:
    def run(compiles: bool) -> list[Any]:
        b = tj.tensor([1.0, 2.0])

        def function(x):
            b.data.mul_(0.5)
            return (x * b).sum()

        f, seen = tj.compile(function) if compiles else function, []
        for call in range(4):
            x = tj.ones(2, requires_grad=True)
            y = f(x)
            if call % 2:
                b.add_(1.0)
                with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                    y.backward()
            else:
                y.backward()
                seen.append(x.grad.tolist())
        return seen

    assert run(True) == run(False)
