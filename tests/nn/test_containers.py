"""Sequences of modules that grow and repeat."""

from __future__ import annotations

import tracejit as tj
from tracejit import nn


def test_sequences_grow_in_place():
    first, second = nn.Tanh(), nn.ReLU()
    net = same = nn.Sequential(first)
    net += nn.Sequential(second)
    net *= 2
    assert net is same
    assert list(net) == [first, second] * 2
    assert list(net._modules) == ["0", "1", "2", "3"]


def test_sequences_repeat():
    net = nn.Sequential(nn.Tanh(), nn.ReLU())
    assert [list(x) for x in (net * 2, 2 * net)] == [[*net, *net]] * 2


def test_a_tensor_says_which_parameter():
    first, second = (nn.Parameter(tj.ones(n)) for n in (1, 2))
    parameters = nn.ParameterList([first, second])
    assert parameters[tj.tensor(1)] is second
    parameters[tj.tensor(0)] = second
    assert parameters[0] is second
