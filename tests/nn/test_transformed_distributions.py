"""Distributions that are others transformed: what they are made of, and what follows from that."""

from __future__ import annotations

from typing import Any

import pytest
from tracejit.distributions.relaxed_bernoulli import LogitRelaxedBernoulli
from tracejit.distributions.relaxed_categorical import ExpRelaxedCategorical

import tracejit as tj
from tracejit import distributions as d

#: How to make one, what is transformed, by how many transforms.
MADE: dict[str, tuple[Any, type, int]] = {
    "gumbel": (lambda x: d.Gumbel(x, 2.0), d.Uniform, 4),
    "half cauchy": (d.HalfCauchy, d.Cauchy, 1),
    "half normal": (d.HalfNormal, d.Normal, 1),
    "inverse gamma": (lambda x: d.InverseGamma(x, 2.0), d.Gamma, 1),
    "kumaraswamy": (lambda x: d.Kumaraswamy(x, 2.0), d.Uniform, 3),
    "pareto": (lambda x: d.Pareto(0.1, x), d.Exponential, 2),
    "weibull": (lambda x: d.Weibull(2.0, x), d.Exponential, 2),
    "relaxed": (lambda x: d.RelaxedBernoulli(tj.tensor(0.7), x / 2), LogitRelaxedBernoulli, 1),
    "relaxed vector": (
        lambda x: d.RelaxedOneHotCategorical(tj.tensor(0.7), x),
        ExpRelaxedCategorical,
        1,
    ),
}
X = [0.5, 1.5]


@pytest.mark.parametrize("name", MADE)
def test_what_it_is_made_of(name: str) -> None:
    make, base, count = MADE[name]
    found = make(tj.tensor(X))
    assert isinstance(found, d.TransformedDistribution)
    assert isinstance(found.base_dist, base)
    assert len(found.transforms) == count
    assert found.has_rsample
    larger = found.expand((3, *found.batch_shape))
    assert type(larger) is type(found)
    assert larger.base_dist.batch_shape == larger.batch_shape == (3, *found.batch_shape)
    value = found.sample()
    assert larger.log_prob(value).shape == larger.batch_shape
    assert tj.allclose(larger.log_prob(value)[2], found.log_prob(value))


@pytest.mark.parametrize("name", [name for name in MADE if "relaxed" not in name])
def test_distribution_functions_and_their_slopes(name: str) -> None:
    """The density is the slope of the distribution function, which rises; its inverse takes it back."""
    found = MADE[name][0](tj.tensor(X, dtype=tj.float64))
    x = tj.tensor([0.3, 0.7], dtype=tj.float64, requires_grad=True)
    below = found.cdf(x)
    (slope,) = tj.autograd.grad(below.sum(), x)
    assert bool((slope > 0).all())
    assert tj.allclose(slope, found.log_prob(x).exp(), atol=1e-9)
    if name != "inverse gamma":  # whose base has no inverse
        assert tj.allclose(found.icdf(below), x, atol=1e-9)


def test_powers_that_fall_turn_the_order_around() -> None:
    assert d.PowerTransform(-2.0).sign == -1
    assert d.PowerTransform(tj.tensor([2.0, -1.0])).sign.tolist() == [1, -1]
    assert d.PowerTransform(2.0) == d.PowerTransform(tj.tensor(2.0))


def test_values_of_fewer_dimensions_than_the_batch() -> None:
    """The slope of a transform of vectors counts once for each vector, however the value is repeated."""
    base = d.Normal(tj.zeros(4, 3), 1.0)
    shares = d.TransformedDistribution(base, d.StickBreakingTransform())
    value = tj.tensor([0.1, 0.2, 0.3, 0.4])
    assert tj.allclose(shares.log_prob(value), shares.log_prob(value.expand(4, 4)))


def test_temperatures_are_those_given() -> None:
    temperature = tj.tensor(0.7)
    found = d.RelaxedBernoulli(temperature, tj.tensor([0.3, 0.6])).expand((3, 2))
    assert found.temperature is temperature
    assert found.logits.shape == found.probs.shape == (3, 2)


@pytest.mark.parametrize(
    ("transform", "shape"),
    [
        (d.StickBreakingTransform(), (2, 4)),
        (d.ReshapeTransform((3,), (1, 3)), (2, 1, 3)),
        (d.CorrCholeskyTransform(), (2, 3, 3)),
    ],
    ids=lambda x: type(x).__name__,
)
def test_shapes_of_tensors_become_shapes_of_tensors(transform: Any, shape: tuple[int, ...]) -> None:
    found = transform.forward_shape(tj.Size([2, 3]))
    assert (type(found), found) == (tj.Size, shape)
    assert type(transform.inverse_shape(found)) is tj.Size
    assert type(transform.forward_shape((2, 3))) is tuple
