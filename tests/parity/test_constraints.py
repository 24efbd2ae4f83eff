"""Transforms onto constrained sets, their slopes and inverses, and supports, beside PyTorch."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from parity_tools import compare, same_error, torch

import tracejit as tj

RNG = np.random.default_rng(8)
X = RNG.standard_normal((2, 6))
M = RNG.standard_normal((2, 3, 3))

SETS = [
    "c.real",
    "c.positive",
    "c.nonnegative",
    "c.greater_than(2.0)",
    "c.greater_than_eq(-1.0)",
    "c.less_than(0.5)",
    "c.unit_interval",
    "c.interval(-1.0, 3.0)",
    "c.half_open_interval(0.0, 2.0)",
    "c.simplex",
    "c.real_vector",
    "c.independent(c.positive, 1)",
    "c.lower_cholesky",
    "c.positive_definite",
    "c.positive_semidefinite",
    "c.corr_cholesky",
    "c.cat([c.positive, c.unit_interval], dim=-1, lengths=[2, 4])",
    "c.stack([c.positive, c.real], dim=0)",
]


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("registry", ["biject_to", "transform_to"])
def test_onto_sets(name: str, registry: str) -> None:
    def go(t: Any, f: Any, x: Any) -> Any:
        found = eval(name, {"c": t.distributions.constraints})
        onto = getattr(t.distributions, registry)(found)
        y = onto(x)
        assert bool(found.check(y).all())
        return y, onto.inv(y)

    matrices = "definite" in name or name == "c.lower_cholesky"
    if matrices and registry == "biject_to":  # other matrices come to the same
        same_error(lambda t, f: go(t, f, t.tensor(M)))
        return
    compare(go, [M if matrices else X], second=False)


JACOBIANS = [
    "D.CorrCholeskyTransform()",
    "D.IndependentTransform(D.ExpTransform(), 1)",
    "D.ReshapeTransform((6,), (2, 3))",
    "D.CatTransform([D.ExpTransform(), D.AffineTransform(1.0, 2.0)], -1, [4, 2])",
    "D.StackTransform([D.ExpTransform(), D.SigmoidTransform()], 0)",
    "D.CumulativeDistributionTransform(D.Normal(x[0].detach() * 0 + 0.5, 2 + 0 * x[0].detach()))",
    "D.StickBreakingTransform()",
]


@pytest.mark.parametrize("text", JACOBIANS)
def test_slopes(text: str) -> None:
    def go(t: Any, f: Any, x: Any) -> Any:
        transform = eval(text, {"D": t.distributions, "x": x})
        y = transform(x)
        assert tuple(transform.forward_shape(tuple(x.shape))) == tuple(y.shape)
        return y, transform.log_abs_det_jacobian(x, y), transform.inv(y)

    compare(go, [X], second=False)


KINDS = [
    "D.Normal(x, 1.0)",
    "D.Gamma(x.exp(), 1.0)",
    "D.Beta(x.exp(), 1.0)",
    "D.Dirichlet(x.exp())",
    "D.Uniform(x, x + 1)",
    "D.Poisson(x.exp())",
    "D.Categorical(logits=x)",
    "D.Bernoulli(logits=x)",
    "D.Binomial(3, logits=x)",
    "D.Independent(D.Normal(x, 1.0), 1)",
    "D.MultivariateNormal(x, 2 * t.eye(6, dtype=x.dtype))",
    "D.OneHotCategorical(logits=x)",
    "D.VonMises(x, 1.0)",
    "D.LKJCholesky(3, 1.0)",
    "D.MixtureSameFamily(D.Categorical(logits=x), D.Normal(x, 1.0))",
]


@pytest.mark.parametrize("text", KINDS)
def test_supports(text: str) -> None:
    for values in (X, np.abs(X) % 1, np.round(np.abs(X)), -np.ones((2, 6))):
        found = []
        for t in (tj, torch):
            p = eval(text, {"t": t, "D": t.distributions, "x": t.tensor(X)})
            value = t.tensor(values[:, :1] if "Mixture" in text else values)
            if "LKJ" in text:
                value = value.reshape(2, 2, 3)[:, :1].expand(2, 3, 3)
            found.append(np.asarray(p.support.check(value)))
        np.testing.assert_array_equal(*found)


def test_registered_by_users() -> None:
    class Even(tj.distributions.constraints.Constraint):
        pass

    tj.distributions.biject_to.register(Even)(lambda found: tj.distributions.AffineTransform(0, 2))
    assert tj.distributions.biject_to(Even())(tj.tensor(1.5)).item() == 3.0


@pytest.mark.parametrize(
    "call",
    [
        lambda t, f: t.distributions.biject_to(t.distributions.constraints.boolean),
        lambda t, f: t.distributions.biject_to.register(3, lambda x: x),
        lambda t, f: t.distributions.ReshapeTransform((2,), (3,)),
        lambda t, f: t.distributions.CorrCholeskyTransform()(t.ones(2)),
        lambda t, f: t.distributions.VonMises(0.0, -1.0),
        lambda t, f: t.distributions.LKJCholesky(1),
        lambda t, f: t.distributions.Wishart(t.tensor(0.5), t.eye(2)),
        lambda t, f: t.distributions.LowRankMultivariateNormal(t.ones(2), t.ones(3, 1), t.ones(2)),
    ],
)
def test_errors(call: Any) -> None:
    same_error(call)


OF_THEIR_OWN_CLASS = [
    "boolean",
    "corr_cholesky",
    "lower_cholesky",
    "lower_triangular",
    "nonnegative",
    "nonnegative_integer",
    "one_hot",
    "positive",
    "positive_definite",
    "positive_integer",
    "positive_semidefinite",
    "real",
    "real_vector",
    "simplex",
    "square",
    "symmetric",
    "unit_interval",
]


@pytest.mark.parametrize("name", OF_THEIR_OWN_CLASS)
def test_sets_have_classes_of_their_own(name: str) -> None:
    ours, theirs = (getattr(t.distributions.constraints, name) for t in (tj, torch))
    assert type(ours).__name__ == type(theirs).__name__
    assert repr(ours) == repr(theirs)
    assert (ours.is_discrete, ours.event_dim) == (theirs.is_discrete, theirs.event_dim)
    assert isinstance(pickle.loads(pickle.dumps(ours)), type(ours))


def test_classes_of_sets_are_derived_from() -> None:
    def registered(t: Any) -> Any:
        c, D = t.distributions.constraints, t.distributions

        class Softly(type(c.positive)):  # type: ignore[misc]
            def __init__(self) -> None:
                super().__init__(lower_bound=0.0)

        class Root(type(c.lower_cholesky)):  # type: ignore[misc]
            pass

        softly, root = Softly(), Root()
        D.transform_to.register(softly)(lambda constraint: D.transforms.SoftplusTransform())
        D.transform_to.register(root)(lambda constraint: D.transforms.ExpTransform())
        made = [type(D.transform_to(x)).__name__ for x in (softly, root, c.lower_cholesky)]
        return made, repr(softly), repr(root), root.check(t.eye(2)).item()

    assert registered(tj) == registered(torch)
