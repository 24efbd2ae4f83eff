"""Loops whose rounds compute with other numbers, and results of which the last round alone is wanted."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tracejit as tj
from tracejit import nn
from tracejit.ir.loops import is_loop

ROUNDS = 60
SCHEDULE = [round(0.1 + 0.37 * math.sin(9.0 * k) ** 2, 6) for k in range(ROUNDS)]


def annealed(x):
    for t in range(ROUNDS):
        x = x - 0.1 * (1.0 - t / ROUNDS) * (x * 1.5).tanh()
    return x


def scheduled(x):
    for t in range(ROUNDS):
        x = x * SCHEDULE[t] + (x / (1.0 + t / 7)).sin() * 0.5
    return x


def compared(x):
    for t in range(ROUNDS):
        x = (x < SCHEDULE[t]) * 0.5 + (x - SCHEDULE[-1 - t]).cos()
    return x


def doubling(x):
    for t in range(60):
        x = (x / 2 ** (t % 20)).sin() + 2.0**-t * x
    return x


def special(x):
    for t in range(ROUNDS):
        x = (x + (math.nan if t == 7 else -0.0)) * [1.0, -1.0, 0.0, -0.0][t % 4]
    return x


def helper(x, t):
    return (x * (t / ROUNDS)).sin()


def runge_kutta(x):
    for t in range(ROUNDS):
        k1 = helper(x, t)
        k2 = helper(x + 0.05 * k1, t + 0.5)
        k3 = helper(x + 0.05 * k2, t + 0.5)
        k4 = helper(x + 0.1 * k3, t + 1.0)
        x = x + (k1 + 2 * k2 + 2 * k3 + k4) * (0.1 / 6)
    return x


PROGRAMS = [annealed, scheduled, compared, doubling, special, runge_kutta]


def rounds_of(f):
    """The lengths of the loops of the one graph."""
    (graph,) = f.graphs
    return [int(v.attributes["count"]) for v in graph.values if is_loop(v)]


def given(dtype, *shape):
    return tj.tensor(np.random.default_rng(3).normal(size=shape), dtype=dtype)


def assert_same(found, expected):
    a, b = found.numpy(), expected.numpy()
    assert (a.dtype, a.shape) == (b.dtype, b.shape)
    np.testing.assert_allclose(a, b, 1e-5, 1e-6)
    zeros = (a == 0) & (b == 0)
    assert (np.signbit(a) == np.signbit(b))[zeros].all()


@pytest.mark.parametrize("dtype", [tj.float32, tj.float64])
@pytest.mark.parametrize("function", PROGRAMS, ids=lambda f: f.__name__)
def test_one_loop_does_what_the_rounds_do(function, dtype):
    f = tj.compile(function, strict=True)
    x = given(dtype, 7, 33)
    with tj.no_grad():
        for _ in range(3):
            assert_same(f(x), function(x))
    assert len(rounds_of(f)) == 1
    assert f.stats.recordings == 1


@pytest.mark.parametrize("function", PROGRAMS[:3], ids=lambda f: f.__name__)
def test_gradients_are_those_of_the_rounds(function):
    f = tj.compile(function, strict=True)
    found = []
    for one in (f, f, function):
        x = given(tj.float64, 5, 9).requires_grad_()
        one(x).square().sum().backward()
        found.append(x.grad)
    for grad in found[:-1]:
        assert_same(grad, found[-1])


@pytest.mark.parametrize("dtype", [tj.int64, tj.bfloat16, tj.float16])
def test_types_that_numbers_do_not_fit_stay_as_they_are(dtype):
    def growing(x):
        for t in range(ROUNDS):
            x = x * (1 + t % 3) + x * SCHEDULE[t]
        return x

    f = tj.compile(growing, strict=True)
    x = given(tj.float32, 6).to(dtype)
    with tj.no_grad():
        for _ in range(2):
            found, expected = f(x), growing(x)
            assert found.dtype == expected.dtype
            assert tj.equal(found, expected)


def test_few_numbers_stay_a_straight_list():
    def polynomial(x):
        y = x * 0.0
        for c in SCHEDULE[:40]:
            y = y * x + c
        return y

    f = tj.compile(polynomial, strict=True)
    x = given(tj.float32, 100)
    with tj.no_grad():
        for _ in range(2):
            assert_same(f(x), polynomial(x))
    assert rounds_of(f) == []


def test_numbers_too_large_for_the_type_stay_where_they_are():
    def overflowing(x):
        for t in range(20):
            x = (x * 10.0 ** (30 + t)).clamp(-1.0, 1.0)
        return x

    f = tj.compile(overflowing, strict=True)
    x = given(tj.float32, 10)
    with tj.no_grad():
        for _ in range(2):
            assert_same(f(x), overflowing(x))


def sampled(x, net):
    """A sampler that returns what its last step made of it, too."""
    for t in range(ROUNDS, 0, -1):
        noise = net(x)
        clean = x - noise * 0.1 * (t / ROUNDS)
        x = clean * 0.9 + 0.1 * noise
    return x, clean


def test_a_result_of_the_last_round_is_carried_not_collected():
    tj.manual_seed(0)
    net = nn.Sequential(nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 16))
    f = tj.compile(sampled, strict=True)
    x = tj.randn(8, 16)
    with tj.no_grad():
        for _ in range(3):
            for found, expected in zip(f(x, net), sampled(x, net), strict=True):
                assert_same(found, expected)
    (loop,) = [v for v in f.graphs[0].values if is_loop(v)]
    assert [tuple(map(int, kind.shape)) for kind in loop.spec.parts] == [(8, 16), (8, 16)]


def test_gradients_of_a_result_of_the_last_round():
    tj.manual_seed(0)
    net = nn.Sequential(nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 16)).double()
    f = tj.compile(sampled, strict=True)
    found = []
    for one in (f, f, sampled):
        net.zero_grad()
        x, clean = one(given(tj.float64, 8, 16), net)
        (x.sum() + clean.square().sum()).backward()
        found.append([p.grad.clone() for p in net.parameters()])
    for grads in found[:-1]:
        for a, b in zip(grads, found[-1], strict=True):
            assert_same(a, b)


def test_the_last_round_and_all_rounds_of_one_value():
    def both(x):
        seen = []
        for t in range(20):
            half = (x * 0.5).sin()
            seen.append(half)
            x = half + t
        return tj.stack(seen), half, x

    f = tj.compile(both, strict=True)
    x = given(tj.float32, 4, 5)
    with tj.no_grad():
        for _ in range(3):
            for found, expected in zip(f(x), both(x), strict=True):
                assert_same(found, expected)
        stacked, half, _ = f(x)
        half.add_(1.0)  # memory of its own, as in eager execution
        assert not tj.equal(stacked[-1], half)
