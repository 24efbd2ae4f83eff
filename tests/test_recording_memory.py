"""The memory of a recorded run: what nobody can reach any more is let go, and nothing else changes."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

import tracejit as tj
from tracejit.trace import kept_alive


def peak_of(function, *arguments):
    tracemalloc.start()
    try:
        function(*arguments)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def stencil(x):
    for _ in range(60):
        x = x + (x[1:-1].sum() * 1e-9 - x) * 0.1
    return x


def test_a_loop_needs_the_memory_of_a_few_rounds():
    x = tj.ones(1 << 20)  # 4 MiB; three new ones in every round
    with tj.no_grad():
        peak = peak_of(tj.compile(stencil, strict=True), x)
    assert peak < 80 << 20


def test_large_temporaries_take_each_others_place():
    def chain(x):
        y = x
        for k in range(12):
            y = (y * 0.5 + k).t().t()
        return y

    x = tj.ones(512, 1024)  # 2 MiB
    with tj.no_grad():
        f = tj.compile(chain, strict=True)
        peak = peak_of(f, x)
        assert f.stats.recordings == 1
        assert f(x).tolist() == chain(x).tolist()
    assert peak < 16 << 20  # of 24 temporaries


def test_latest_tensors_in_use_stay():
    gone = []
    kept = kept_alive.KeptAlive(lambda: gone.append, most_bytes=1 << 30)
    held = []
    for k in range(20):
        large = tj.ones(1 << 18)
        kept.append(large)
        if k % 5 == 0:
            held += [large, large[:9], tj.ones(3)]
            kept.append(held[-2])
            kept.append(held[-1])
        del large
    assert {*map(id, kept.tensors)} >= {*map(id, held)}
    assert [id(x) for x in kept.tensors if any(x is h for h in held)] == [*map(id, held)]
    assert len(gone) >= 15


@pytest.fixture
def at_once(monkeypatch):
    """Everything goes as soon as it can."""
    wanted = kept_alive.KeptAlive.__init__
    monkeypatch.setattr(
        kept_alive.KeptAlive, "__init__", lambda self, forget: wanted(self, forget, most_bytes=0)
    )


def views_and_writes(x):
    y = (x * 2).t()[1:]
    y[0] += 1.0
    z = y.clone()
    for i in range(4):
        z = z + y.sum(0) * i
        w = z[:1]
        w.mul_(0.5)
    return z, y, w


def trained(x):
    weight = (x * 0.5).detach().requires_grad_()
    for _ in range(3):
        loss = ((weight @ x.t()).tanh() ** 2).mean()
        loss.backward()
        with tj.no_grad():
            weight -= weight.grad
        weight.grad = None
    return weight.detach(), loss.detach()


@pytest.mark.parametrize("function", [views_and_writes, trained])
def test_the_same_results(at_once, function):
    compiled = tj.compile(function, strict=True)
    for seed in range(3):
        x = tj.from_numpy(np.random.default_rng(seed).standard_normal((3, 3)).astype(np.float32))
        for have, want in zip(compiled(x.clone()), function(x.clone()), strict=True):
            np.testing.assert_allclose(have.numpy(), want.numpy(), 1e-5, 1e-6)
