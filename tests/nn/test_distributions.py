"""Distributions: densities against their formulas, draws against their means, gradients, divergences."""

from __future__ import annotations

import math
from typing import Any

import pytest

import tracejit as tj
from tracejit import distributions
from tracejit.distributions import Bernoulli, Categorical, Normal, Uniform, kl_divergence


def test_normal():
    loc = tj.tensor([0.0, 1.0], requires_grad=True)
    normal = Normal(loc, 2.0)
    value = tj.tensor([[1.0, 1.0], [3.0, -1.0]])
    expected = -((value - loc) ** 2) / 8 - math.log(2) - 0.5 * math.log(2 * math.pi)
    assert tj.allclose(normal.log_prob(value), expected)
    normal.log_prob(value).sum().backward()
    assert tj.allclose(loc.grad, tj.tensor([1.0, -0.5]))
    assert normal.entropy()[0].item() == pytest.approx(0.5 * math.log(2 * math.pi * math.e * 4))
    assert tj.allclose(normal.icdf(normal.cdf(value)), value, atol=1e-4)


def test_draws_follow_their_moments_and_carry_gradients_where_they_can():
    tj.manual_seed(0)
    scale = tj.tensor(2.0, requires_grad=True)
    draws = Normal(1.0, scale).rsample((4000,))
    assert abs(draws.mean().item() - 1) < 0.15
    assert abs(draws.std().item() - 2) < 0.15
    draws.mean().backward()
    assert scale.grad is not None
    assert not Normal(1.0, scale).sample((3, 2)).requires_grad
    assert Uniform(tj.zeros(2), 3.0).rsample((5,)).shape == (5, 2)
    assert abs(Bernoulli(tj.tensor(0.3)).sample((4000,)).mean().item() - 0.3) < 0.05
    counts = tj.bincount(Categorical(tj.tensor([1.0, 3.0])).sample((4000,)))
    assert abs(counts[1].item() / 4000 - 0.75) < 0.05


@pytest.mark.parametrize("by_logits", [False, True])
def test_categorical(by_logits):
    p = tj.tensor([[0.2, 0.3, 0.5], [0.1, 0.1, 0.8]])
    found = Categorical(logits=p.log() + 3) if by_logits else Categorical(p * 7)
    value = tj.tensor([[0, 2], [1, 1], [2, 0]])
    expected = p[tj.arange(2), value].log()
    assert tj.allclose(found.log_prob(value), expected, atol=1e-6)
    assert tj.allclose(found.entropy(), -(p * p.log()).sum(-1), atol=1e-6)
    assert found.sample((4, 3)).shape == (4, 3, 2)
    assert found.mode.tolist() == [2, 2]


@pytest.mark.parametrize("by_logits", [False, True])
def test_bernoulli(by_logits):
    p = tj.tensor([0.2, 0.9])
    found = Bernoulli(logits=p.logit()) if by_logits else Bernoulli(p)
    value = tj.tensor([1.0, 0.0])
    assert tj.allclose(found.log_prob(value), tj.tensor([0.2, 0.1]).log(), atol=1e-6)
    expected = -(p * p.log() + (1 - p) * (1 - p).log())
    assert tj.allclose(found.entropy(), expected, atol=1e-6)
    assert Bernoulli(tj.tensor(1.0)).entropy().item() == pytest.approx(1.1920933e-07)  # PyTorch's


def test_divergences_are_means_of_log_ratios():
    p, q = Categorical(tj.tensor([0.2, 0.8])), Categorical(tj.tensor([0.5, 0.5]))
    every = tj.arange(2)
    expected = (p.probs * (p.log_prob(every) - q.log_prob(every))).sum()
    assert tj.allclose(kl_divergence(p, q), expected)
    assert kl_divergence(Bernoulli(tj.tensor(0.8)), Bernoulli(tj.tensor(0.5))).item() == (
        pytest.approx(expected.item(), rel=1e-5)
    )
    assert kl_divergence(Normal(1.0, 2.0), Normal(1.0, 2.0)).item() == 0.0
    with pytest.raises(NotImplementedError, match="No KL"):
        kl_divergence(p, Normal(0.0, 1.0))


def test_parameters_that_cannot_be():
    for make in (
        lambda: Normal(0.0, -1.0),
        lambda: Uniform(1.0, 0.0),
        lambda: Bernoulli(tj.tensor(1.5)),
        lambda: Categorical(tj.tensor([-1.0, 2.0])),
    ):
        with pytest.raises(ValueError, match="constraint"):
            make()
    with pytest.raises(ValueError, match="but not both"):
        Categorical(tj.ones(2), tj.ones(2))
    with pytest.raises(ValueError, match="one-dimensional"):
        Categorical(tj.tensor(1.0))
    Normal(0.0, -1.0, validate_args=False)


def test_a_policy_gradient_compiles():
    @tj.compile
    def loss(logits, actions):
        policy = Categorical(logits=logits)
        return -(policy.log_prob(actions) + 0.1 * policy.entropy()).mean()

    logits = tj.linspace(-1, 1, 6).reshape(2, 3).requires_grad_()
    actions = tj.tensor([0, 2])
    results = []
    for _ in range(3):
        logits.grad = None
        value = loss(logits, actions)
        value.backward()
        results.append((value.item(), logits.grad.tolist()))
    assert results[0][0] == pytest.approx(results[2][0])
    assert tj.allclose(tj.tensor(results[0][1]), tj.tensor(results[2][1]))
    assert loss.stats.compiled_calls == 2


def test_lazy_properties_outlive_the_mode_they_are_read_in():
    """As in PyTorch: they are computed with gradients wherever they are first read."""
    p = tj.tensor([0.3], requires_grad=True)
    geometric = tj.distributions.Geometric(p)
    with tj.no_grad():
        logits = geometric.logits
    assert logits.requires_grad
    assert geometric.logits is logits
    assert tj.allclose(logits, p.logit())
    assert tj.distributions.Geometric(logits=p).logits is not None
    member = tj.distributions.Geometric.logits
    assert member.__wrapped__ is member.wrapped


class Turned(distributions.Transform):
    """A transform of vectors, which says so by where they come from."""

    domain = codomain = distributions.constraints.real_vector

    def _call(self, x: Any) -> Any:
        return x.flip(-1) * 2

    def _inverse(self, y: Any) -> Any:
        return y.flip(-1) / 2

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return x.sum(-1) * 0 + x.shape[-1] * math.log(2)


def test_transforms_that_programs_define():
    normal = distributions.Normal(tj.zeros(2, 3), 1.0)
    for transform, factor, extra in ((Turned(), 0.5, -1), (Turned().inv, 2.0, 1)):
        made = distributions.TransformedDistribution(normal, [transform])
        assert (made.event_shape, made.batch_shape) == ((3,), (2,))
        expected = normal.log_prob(tj.ones(2, 3) * factor).sum(-1) + extra * 3 * math.log(2)
        assert tj.allclose(made.log_prob(tj.ones(2, 3)), expected)
    inverse = Turned().inv
    assert isinstance(inverse, distributions.transforms._InverseTransform)
    assert (inverse.domain, inverse.bijective) == (Turned.codomain, True)
    assert inverse._inv is inverse.inv

    class Longer(Turned):
        codomain = distributions.constraints.independent(distributions.constraints.real, 2)
        domain = Turned.domain

    with pytest.raises(ValueError, match=r"use either \.domain\.event_dim"):
        Longer().event_dim  # noqa: B018


def test_how_transforms_print():
    exp = distributions.ExpTransform()
    assert (repr(exp), repr(exp.inv)) == ("ExpTransform()", "_InverseTransform(ExpTransform())")
    both = distributions.ComposeTransform([exp, Turned()])
    assert repr(both) == "ComposeTransform(\n    ExpTransform(),\n    Turned()\n)"
    several = distributions.IndependentTransform(exp, 1)
    assert repr(several) == "IndependentTransform(ExpTransform(), 1)"


def test_no_transforms_at_all() -> None:
    nothing = distributions.ComposeTransform([])
    x = tj.tensor([[1.0, float("inf")], [3.0, 4.0]])
    for same in (nothing, nothing.inv):
        assert same(x).equal(x)
        assert same.log_abs_det_jacobian(x, x).tolist() == [[0.0, 0.0], [0.0, 0.0]]
    summed = distributions.IndependentTransform(nothing, 1).log_abs_det_jacobian(x, x)
    assert summed.tolist() == [0.0, 0.0]
