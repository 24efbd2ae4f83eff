"""Functions made of straight pieces, differentiated twice: zeros where a choice hung on an input, as in PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tracejit as tj
from tracejit import nn
from tracejit.nn import functional as F

KINKS: dict[str, Callable[[Any], Any]] = {
    "relu": F.relu,
    "leaky_relu": lambda x: F.leaky_relu(x, 0.2),
    "prelu": lambda x: F.prelu(x, tj.tensor([0.25])),
    "relu6": F.relu6,
    "hardtanh": F.hardtanh,
    "max_pool1d": lambda x: F.max_pool1d(x[None], 2),
    "avg_pool1d": lambda x: F.avg_pool1d(x[None], 2),
    "adaptive_avg_pool1d": lambda x: F.adaptive_avg_pool1d(x[None], 4),
    "threshold": lambda x: F.threshold(x, 0.2, 9.0),
    "hardshrink": lambda x: F.hardshrink(x, 0.35),
    "softshrink": lambda x: F.softshrink(x, 0.35),
    "rrelu": F.rrelu,
    "abs": tj.abs,
    "l1_loss": lambda x: F.l1_loss(x, tj.zeros(6)),
    "nll_loss": lambda x: F.nll_loss(x.reshape(2, 3), tj.tensor([2, 0]), reduction="none"),
}


def fresh() -> Any:
    return tj.tensor([-2.0, -0.4, 0.3, 0.7, 1.6, 0.1], requires_grad=True)


@pytest.mark.parametrize("name", KINKS)
@pytest.mark.parametrize("compiled", [False, True])
def test_the_second_derivative_is_zero_and_there(name: str, compiled: bool) -> None:
    kink = tj.compile(KINKS[name]) if compiled else KINKS[name]
    for _ in range(3):
        x = fresh()
        (slope,) = tj.autograd.grad(kink(x).sum(), x, create_graph=True)
        (bend,) = tj.autograd.grad(slope.sum(), x)
        assert bend.tolist() == [0.0] * 6


@pytest.mark.parametrize("name", KINKS)
def test_first_derivatives_ask_for_nothing_more(name: str) -> None:
    x = fresh()
    (slope,) = tj.autograd.grad(KINKS[name](x).sum(), x)
    assert not slope.requires_grad
    assert slope.shape == x.shape


@pytest.mark.parametrize("compiled", [False, True])
def test_penalties_give_gradients_to_every_bias_before_a_kink(compiled: bool) -> None:
    """An optimizer with momentum moves a parameter whose gradient is zero, and leaves one without gradient alone."""
    tj.manual_seed(0)
    critic = nn.Sequential(
        nn.Linear(3, 8), nn.LeakyReLU(0.2), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1)
    )

    def penalty(x: Any) -> Any:
        critic.zero_grad()
        x = x.detach().requires_grad_()
        (slope,) = tj.autograd.grad(critic(x).sum(), x, create_graph=True)
        (slope.norm(2, dim=1) - 1).square().mean().backward()
        return slope.detach()

    run = tj.compile(penalty, strict=True) if compiled else penalty
    for _ in range(3):
        run(tj.randn(5, 3))
        first, _, second, _, last = critic
        assert first.bias.grad.tolist() == second.bias.grad.tolist() == [0.0] * 8
        assert last.bias.grad is None
        assert first.weight.grad.abs().sum() > 0
    assert not compiled or run.stats.compiled_calls >= 1


def test_dtypes_of_leaky_units() -> None:
    for bad in (tj.tensor([1, -2]), tj.tensor([True])):
        with pytest.raises(NotImplementedError, match="not implemented for"):
            F.leaky_relu(bad)
    with pytest.raises(RuntimeError, match="Got Half and Float"):
        F.prelu(tj.tensor([1.0, -2.0]).half(), tj.tensor([0.5]))
    found = F.leaky_relu(tj.tensor([7.0, -100.0]).bfloat16(), 0.1234)
    assert found.tolist() == [7.0, -12.3125]
