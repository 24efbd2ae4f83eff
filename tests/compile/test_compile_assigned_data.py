"""compile(): tensors that are given other memory (``.data =``), written to after that, and shown by others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit import nn


class Limited(nn.Linear):
    """A layer whose weights are kept short by its own forward, as networks for brain signals do."""

    def forward(self, x):
        self.weight.data = tj.renorm(self.weight.data, p=2, dim=0, maxnorm=0.5)
        return super().forward(x)


def model() -> nn.Module:
    tj.manual_seed(3)
    return nn.Sequential(Limited(3, 4), nn.ELU(), Limited(4, 2)).double()


OPTIMIZERS: dict[str, Callable[[Any], tj.optim.Optimizer]] = {
    "sgd": lambda p: tj.optim.SGD(p, lr=0.3, momentum=0.9),
    "adam": lambda p: tj.optim.Adam(p, lr=0.1),
    "one by one": lambda p: tj.optim.AdamW(p, lr=0.1, foreach=False),
}


@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_steps_of_layers_that_limit_their_weights(kind: str) -> None:
    found = []
    for compiled in (False, True):
        net = model()
        optimizer = OPTIMIZERS[kind](net.parameters())

        def step(x, y, net=net, optimizer=optimizer):
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(net(x), y)
            loss.backward()
            optimizer.step()
            return loss.detach()

        run = tj.compile(step) if compiled else step
        random = np.random.default_rng(0)
        losses = [
            run(*(tj.tensor(random.normal(size=(5, n))) for n in (3, 2))).item() for _ in range(6)
        ]
        weights = [p.detach().numpy() for p in net.parameters()]
        found.append((losses, weights, [p._version for p in net.parameters()]))
    assert run.stats.compiled_calls >= 4
    assert found[0][2] == found[1][2]
    np.testing.assert_allclose(found[1][0], found[0][0], rtol=1e-9)
    for one, other in zip(found[0][1], found[1][1], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


def moved_and_written(w, x):
    w.data = w.data * 0.9
    with tj.no_grad():
        w.add_(x.detach(), alpha=0.1)
        w[0] = 0.5
    return (w * x).sum()


def moved_twice(w, x):
    w.data = w.data.clamp(-1, 1)
    with tj.no_grad():
        w.mul_(0.9)
    y = (w * x).sum()
    w.data = w.data.flip(0)
    with tj.no_grad():
        w.sub_(0.1)
    return y.detach() + (w * x).sum()


def differentiable_source(w, x):
    kept = w.clamp(-0.5, 0.5)
    w.data = kept
    y = (kept * x).sum()
    y.backward()
    del kept, y
    with tj.no_grad():
        w.add_(w.grad, alpha=-0.1)
    return w.detach().sum()


@pytest.mark.parametrize("step", [moved_and_written, moved_twice, differentiable_source])
def test_written_to_after_it_was_given_memory(step) -> None:
    found = []
    for run in (step, tj.compile(step, fullgraph=True)):
        w = nn.Parameter(tj.linspace(-1, 1, 9, dtype=tj.float64).reshape(3, 3))
        values = []
        for number in range(4):
            x = tj.full((3, 3), 0.5 + number, dtype=tj.float64).tril()
            y = run(w, x)
            if y.requires_grad:
                y.backward()
            values.append((y.item(), w.tolist(), w.grad.tolist(), w._version))
        found.append(values)
    assert found[0][-1][3] == found[1][-1][3]
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(other[0], one[0], rtol=1e-12)
        np.testing.assert_allclose(other[1], one[1], rtol=1e-12)
        np.testing.assert_allclose(other[2], one[2], rtol=1e-12)


def source_read_later(w, x):
    source = w.detach() * 0.75
    w.data = source
    with tj.no_grad():
        w.add_(1.0)
    return (source * x).sum()


def view_of_source_read_later(w, x):
    source = w.detach() * 0.75
    row = source[0]
    w.data = source
    del source
    with tj.no_grad():
        w.mul_(2.0)
    return (row * x).sum()


def tape_reads_source(w, x):
    source = (w * x).exp()
    w.data = source
    y = source * 2
    del source
    with tj.no_grad():
        w.mul_(3.0)
    return y.sum()


@pytest.mark.parametrize("step", [source_read_later, view_of_source_read_later, tape_reads_source])
def test_who_else_shows_that_memory_sees_the_write(step) -> None:
    found = []
    for run in (step, tj.compile(step)):
        w = nn.Parameter(tj.linspace(-1, 1, 9, dtype=tj.float64).reshape(3, 3))
        values = []
        for number in range(3):
            w.grad = None
            # numbers with few bits: their sums are exact in every order
            y = run(w, tj.full((3, 3), 0.5 + number, dtype=tj.float64))
            if y.requires_grad:
                y.backward()
            values.append((y.item(), w.tolist(), None if w.grad is None else w.grad.tolist()))
        found.append(values)
    assert found[0] == found[1]


@pytest.mark.parametrize("show", [lambda t: t.detach(), lambda t: t, lambda t: t[0]])
def test_results_share_the_memory_that_was_given(show) -> None:
    def step(w, v):
        given = v.sin()
        w.data = given
        return show(given)

    run = tj.compile(step)
    for _ in range(3):
        w, v = (nn.Parameter(tj.full((2, 2), n, dtype=tj.float64)) for n in (0.25, 0.75))
        out = run(w, v)
        with tj.no_grad():
            w.add_(1.0)
        assert out.tolist() == show(w).tolist()


def test_two_tensors_are_given_one_memory() -> None:
    def step(w, v, x):
        given = x.exp()
        w.data = given
        v.data = given
        return x.sum()

    run = tj.compile(step)
    x = tj.ones(2, requires_grad=True)
    for _ in range(3):
        w, v = (nn.Parameter(tj.zeros(2)) for _ in range(2))
        run(w, v, x)
        with tj.no_grad():
            w.zero_()
        assert v.tolist() == [0.0, 0.0]
