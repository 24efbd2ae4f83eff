"""Rounds with convolutions, pooling and interpolation are loops; layers are not copied into a stack for one."""

from __future__ import annotations

import numpy as np
import pytest

import tracejit as tj
from tracejit import nn
from tracejit.ir.loops import is_loop

F = nn.functional
ROUNDS = 20


def automaton(x, conv, mix):
    """A cellular automaton: what each cell sees, mixed, is added to it."""
    for _ in range(ROUNDS):
        x = x + 0.1 * mix(conv(x).relu())
    return x


def spread(x, conv, mix):
    for _ in range(ROUNDS):
        x = F.conv_transpose2d(F.max_pool2d(x, 2), conv.weight[:3, :3, :2, :2], stride=2).tanh() + x
    return x


def blurred(x, conv, mix):
    for t in range(ROUNDS):
        small = F.avg_pool2d(x, 2)
        x = F.interpolate(small, scale_factor=2.0, mode="bilinear") * 0.9 + x * (0.1 * t / ROUNDS)
    return x


def layers():
    tj.manual_seed(3)
    return nn.Conv2d(3, 8, 3, padding=1).double(), nn.Conv2d(8, 3, 1).double()


def loops_of(f):
    return [int(v.attributes["count"]) for g in f.graphs for v in g.values if is_loop(v)]


@pytest.mark.parametrize("function", [automaton, spread, blurred], ids=lambda f: f.__name__)
def test_rounds_with_windows_are_a_loop(function):
    conv, mix = layers()
    f = tj.compile(function, strict=True)
    with tj.no_grad():
        for number in range(3):
            x = tj.tensor(np.random.default_rng(number).normal(size=(2, 3, 8, 8)))
            np.testing.assert_allclose(f(x, conv, mix), function(x, conv, mix), 1e-9, 1e-9)
    assert loops_of(f) == [ROUNDS]


@pytest.mark.parametrize("function", [automaton, spread, blurred], ids=lambda f: f.__name__)
def test_gradients_of_rounds_with_windows(function):
    conv, mix = layers()
    f = tj.compile(function, strict=True)
    parameters = [*conv.parameters(), *mix.parameters()]
    for number in range(3):
        found = []
        for one in (f, function):
            x = tj.tensor(np.random.default_rng(number).normal(size=(2, 3, 8, 8)))
            x.requires_grad_()
            for p in parameters:
                p.grad = None
            one(x, conv, mix).square().sum().backward()
            found.append([x.grad, *(p.grad for p in parameters)])
        for a, b in zip(*found, strict=True):
            assert (a is None) == (b is None)
            if a is not None:
                np.testing.assert_allclose(a, b, 1e-7, 1e-9)
    assert loops_of(f) == [ROUNDS, ROUNDS]  # backward, too


def test_layers_of_a_deep_network_are_not_copied():
    tj.manual_seed(0)
    blocks = [nn.Sequential(nn.Linear(160, 160), nn.GELU()) for _ in range(40)]
    model = nn.Sequential(*blocks)
    f = tj.compile(model, strict=True)
    x = tj.randn(2, 160)
    with tj.no_grad():
        for _ in range(3):
            np.testing.assert_allclose(f(x), model(x), 1e-4, 1e-5)
    assert loops_of(f) == []


def test_a_list_of_inputs_is_put_together_where_rounds_compute_much():
    tj.manual_seed(0)
    cell = nn.GRUCell(24, 24)

    def walk(xs):
        h = tj.zeros(16, 24)
        for x in xs:
            h = cell(x, h)
        return h

    f = tj.compile(walk, strict=True)
    xs = [tj.randn(16, 24) for _ in range(50)]
    with tj.no_grad():
        for _ in range(3):
            np.testing.assert_allclose(f(xs), walk(xs), 1e-4, 1e-5)
    assert loops_of(f) == [50]
