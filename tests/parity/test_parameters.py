"""Parameters of distributions and ends of transforms against PyTorch: what they must satisfy, and what is refused."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tracejit as tj

torch = pytest.importorskip("torch", reason="the oracle of these tests is PyTorch")

KINDS = [
    name
    for name in tj.distributions.__all__
    if isinstance(kind := getattr(tj.distributions, name), type)
    and issubclass(kind, tj.distributions.Distribution)
    and name not in ("Distribution", "ExponentialFamily", "Uniform", "Wishart")
]


@pytest.fixture(autouse=True)
def _parameters_are_checked() -> Iterator[None]:
    """torch.compile, which other tests may have used, leaves PyTorch's distributions without their checks."""
    kind = torch.distributions.Distribution
    before = kind._validate_args
    kind.set_default_validate_args(True)
    yield
    kind.set_default_validate_args(before)


def shown(x: Any) -> str:
    return str(x).replace("torch.", "").replace("tracejit.", "")


@pytest.mark.parametrize("name", KINDS)
def test_constraints_of_parameters_are_those_of_pytorch(name: str) -> None:
    ours, theirs = (getattr(m.distributions, name).arg_constraints for m in (tj, torch))
    assert {k: shown(v) for k, v in ours.items()} == {k: shown(v) for k, v in theirs.items()}


def test_constraints_that_depend_on_other_parameters() -> None:
    for make in (
        lambda t: t.distributions.Uniform(0.0, 1.0),
        lambda t: t.distributions.Wishart(t.tensor(4.0), t.eye(3)),
    ):
        ours, theirs = (make(m).arg_constraints for m in (tj, torch))
        assert {k: shown(v) for k, v in ours.items()} == {k: shown(v) for k, v in theirs.items()}


REFUSED = """
D.Normal(float("nan"), 1.0) ; D.Normal(0.0, 0.0) ; D.Normal(0.0, float("nan")) ; D.Laplace(float("nan"), 1.0)
D.StudentT(1.0, float("nan")) ; D.Uniform(1.0, 1.0) ; D.Uniform(2.0, 1.0) ; D.Uniform(float("nan"), 1.0) ; D.Bernoulli(1.5)
D.Bernoulli(logits=float("nan")) ; D.Categorical(t.zeros(2)) ; D.Categorical(t.tensor([1.0, float("inf")]))
D.Categorical(logits=t.tensor([0.0, float("nan")])) ; D.OneHotCategorical(logits=t.tensor([0.0, float("nan")])) ; D.Geometric(0.0)
D.Binomial(-1, 0.5) ; D.Binomial(1.5, 0.5) ; D.NegativeBinomial(1.0, t.tensor(1.0)) ; D.Multinomial(-1, t.ones(2)) ; D.Poisson(-1.0)
D.Dirichlet(t.tensor([1.0, 0.0])) ; D.Beta(0.0, 1.0) ; D.Gamma(1.0, -1.0) ; D.Chi2(-1.0) ; D.GeneralizedPareto(0.0, 1.0, float("nan"))
D.MultivariateNormal(t.zeros(2), t.tensor([[1.0, 2.0], [2.0, 1.0]])) ; D.MultivariateNormal(t.zeros(2), t.tensor([[1.0, 0.2], [0.1, 1.0]]))
D.MultivariateNormal(t.zeros(2), scale_tril=t.tensor([[1.0, 0.2], [0.1, 1.0]])) ; D.MultivariateNormal(t.tensor([0.0, float("nan")]), t.eye(2))
D.MultivariateNormal(t.tensor(0.0), t.eye(1)) ; D.Wishart(t.tensor(1.0), t.eye(3)) ; D.LKJCholesky(3, 0.0) ; D.VonMises(float("nan"), 1.0)
D.LowRankMultivariateNormal(t.tensor([0.0, float("nan")]), t.ones(2, 1), t.ones(2)) ; D.LogNormal(float("nan"), 1.0)
D.RelaxedBernoulli(t.tensor(1.0), 1.5) ; D.Normal(None, 1.0) ; D.Normal([0.0], 1.0)
D.MixtureSameFamily(D.Categorical(t.ones(4)), D.Normal(t.zeros(3), 1.0)) ; D.MixtureSameFamily(D.Categorical(t.ones(3)), 3)
D.MixtureSameFamily(D.Categorical(t.ones(2, 3)), D.Normal(t.zeros(5, 3), 1.0)) ; D.TransformedDistribution(D.Normal(0.0, 1.0), "exp")
D.TransformedDistribution(D.Normal(0.0, 1.0), D.StickBreakingTransform())
"""  # noqa: E501
CASES = [c.strip() for line in REFUSED.strip().splitlines() for c in line.split(" ; ")]


@pytest.mark.parametrize("case", CASES)
def test_what_no_distribution_has_is_refused(case: str) -> None:
    for t in (torch, tj):
        with pytest.raises(ValueError):
            eval(case, {"t": t, "D": t.distributions})


def test_the_message_names_parameter_distribution_and_constraint() -> None:
    messages = []
    for t in (torch, tj):
        with pytest.raises(ValueError) as caught:
            t.distributions.Normal(t.tensor([0.0, math.nan]), t.ones(2))
        messages.append(shown(caught.value))
    assert messages[0] == messages[1]


GIVEN = [
    "Bernoulli(p)",
    "Bernoulli(logits=p)",
    "Binomial(3, p)",
    "NegativeBinomial(2.0, logits=p)",
    "Geometric(logits=p)",
    "ContinuousBernoulli(p)",
    "Categorical(p)",
    "Categorical(logits=p)",
    "MultivariateNormal(p[0], t.eye(3))",
    "MultivariateNormal(p[0], scale_tril=t.eye(3))",
    "Independent(D.Normal(p, 1.0), 1)",
    "MixtureSameFamily(D.Categorical(logits=p[0]), D.Normal(p[1], 1.0))",
]


@pytest.mark.parametrize("made", GIVEN)
def test_only_what_is_given_is_shown_and_the_rest_follows(made: str) -> None:
    p = np.random.default_rng(0).uniform(0.2, 0.8, (2, 3)).astype("f")
    d, e = (
        eval(f"D.{made}", {"t": t, "D": t.distributions, "p": t.tensor(p)}) for t in (tj, torch)
    )
    assert shown(d) == shown(e)
    for name in ("probs", "logits", "covariance_matrix", "scale_tril", "precision_matrix"):
        assert hasattr(d, name) == hasattr(e, name)
        if hasattr(e, name):
            np.testing.assert_allclose(getattr(d, name).numpy(), getattr(e, name).numpy(), 1e-5)
            assert shown(d) == shown(e)  # with what was asked for
    shape = getattr(e, "param_shape", None)
    assert shape is None or tuple(d.param_shape) == tuple(shape)


def test_means_that_no_parameter_changes_have_no_history() -> None:
    a, b = tj.ones(3, requires_grad=True), tj.ones(3, requires_grad=True)
    d = tj.distributions
    for found in (
        *(
            d.Categorical(a).mean,
            d.Categorical(a).variance,
            d.Cauchy(a, b).mean,
            d.HalfCauchy(a).mean,
        ),
        *(
            d.Cauchy(a, b).variance,
            d.Exponential(a).mode,
            d.HalfNormal(a).mode,
            d.Geometric(a).mode,
        ),
    ):
        assert not found.requires_grad


def test_density_of_vectors_does_not_follow_what_lies_above_the_diagonal() -> None:
    def slope(t: Any) -> Any:
        root = t.tensor([[1.0, 0.0], [0.5, 2.0]], requires_grad=True)
        d = t.distributions.MultivariateNormal(t.zeros(2), scale_tril=root)
        d.log_prob(t.tensor([1.0, -2.0])).backward()
        return root.grad.numpy()

    np.testing.assert_allclose(slope(tj), slope(torch), 1e-5)
    np.testing.assert_allclose(tj.compile(slope)(tj), slope(torch), 1e-5)


TRANSFORMS = """
AbsTransform() ; AffineTransform(1.0, -2.0) ; AffineTransform(t.zeros(4, 2, 1), 2.0) ; AffineTransform(0.0, t.ones(3), event_dim=1)
ExpTransform() ; PowerTransform(t.tensor([1.0, 2.0, 3.0])) ; SigmoidTransform() ; TanhTransform() ; SoftplusTransform()
SoftmaxTransform() ; StickBreakingTransform() ; StickBreakingTransform().inv ; CorrCholeskyTransform() ; ExpTransform().inv
ComposeTransform([D.AffineTransform(0.0, 2.0), D.StickBreakingTransform()]) ; IndependentTransform(D.ExpTransform(), 1)
ComposeTransform([D.ExpTransform(), D.ReshapeTransform((3,), (3, 1)), D.AffineTransform(1.0, 2.0)])
CumulativeDistributionTransform(D.Normal(0.0, 1.0)) ; ReshapeTransform((3,), (3, 1)) ; CatTransform([D.ExpTransform()], -1, [3])
"""  # noqa: E501
MADE = [c.strip() for line in TRANSFORMS.strip().splitlines() for c in line.split(" ; ")]


@pytest.mark.parametrize("made", MADE)
def test_ends_and_shapes_of_transforms(made: str) -> None:
    def facts(t: Any) -> list[Any]:
        d = t.distributions
        transform = eval(f"D.{made}", {"t": t, "D": d})
        whole = d.TransformedDistribution(d.Normal(t.zeros(2, 3), 1.0), transform)
        value = whole.sample((5,))
        return [
            shown(transform.domain),
            shown(transform.codomain),
            transform.domain.event_dim,
            tuple(transform.forward_shape((2, 3))),
            *(tuple(s) for s in (whole.batch_shape, whole.event_shape, value.shape)),
            shown(whole.support),
            tuple(whole.expand((7, *whole.batch_shape)).sample().shape),
        ]

    assert facts(tj) == facts(torch)


def test_density_through_transforms_that_change_shapes() -> None:
    def density(t: Any, x: Any) -> Any:
        d = t.distributions
        parts = [d.ExpTransform(), d.ReshapeTransform((4,), (2, 2)), d.AffineTransform(1.0, 2.0)]
        return d.TransformedDistribution(d.Normal(t.zeros(3, 4), 1.0), parts).log_prob(x)

    x = np.random.default_rng(0).uniform(2, 4, (3, 2, 2))
    wanted = density(torch, torch.tensor(x)).numpy()
    np.testing.assert_allclose(density(tj, tj.tensor(x)).numpy(), wanted)
    compiled = tj.compile(lambda x: density(tj, x))
    for _ in range(3):
        np.testing.assert_allclose(compiled(tj.tensor(x)).numpy(), wanted)


def test_values_outside_of_a_transformed_support_are_refused() -> None:
    for t in (torch, tj):
        d = t.distributions
        positive = d.TransformedDistribution(d.Normal(0.0, 1.0), [d.ExpTransform()])
        with pytest.raises(ValueError, match="support"):
            positive.log_prob(t.tensor(-1.0))


def test_transforms_are_equal_by_what_they_do() -> None:
    d = tj.distributions
    assert d.ExpTransform() == d.ExpTransform() != d.TanhTransform()
    assert d.AffineTransform(0.0, tj.ones(2)) == d.AffineTransform(0.0, tj.ones(2))
    assert d.AffineTransform(0.0, 1.0) != d.AffineTransform(0.0, 2.0)
    assert d.ComposeTransform([d.ExpTransform()]) == d.ComposeTransform([d.ExpTransform()])
    assert d.ExpTransform().inv == d.ExpTransform().inv
    assert len({d.ExpTransform(), d.ExpTransform()}) == 1


DIVERGENCES = [
    "D.TransformedDistribution(D.Normal(a, b), [D.ExpTransform(), D.AffineTransform(1.0, 2.0)])",
    "D.TransformedDistribution(D.Normal(a, b), D.StickBreakingTransform())",
    "D.InverseGamma(a, b)",
    "D.LogisticNormal(a, b)",
    "D.LogNormal(a, b)",
]


@pytest.mark.parametrize("made", DIVERGENCES)
def test_divergences_of_what_was_transformed_alike(made: str) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.uniform(0.5, 2, (2, 3)), rng.uniform(0.5, 2, (2, 3))

    def divergence(t: Any) -> Any:
        x, y = t.tensor(a), t.tensor(b)
        names = {"t": t, "D": t.distributions}
        pair = (eval(made, {**names, "a": p, "b": q}) for p, q in ((x, y), (y, x)))
        return t.distributions.kl_divergence(*pair).numpy()

    np.testing.assert_allclose(divergence(tj), divergence(torch))


def test_other_transforms_have_no_divergence() -> None:
    for t in (torch, tj):
        d = t.distributions
        first = d.TransformedDistribution(d.Normal(0.0, 1.0), d.ExpTransform())
        other = d.TransformedDistribution(d.Normal(0.0, 1.0), d.TanhTransform())
        with pytest.raises(NotImplementedError):
            d.kl_divergence(first, other)


def test_distribution_function_of_mixtures() -> None:
    x = np.linspace(-2, 2, 5)

    def below(t: Any) -> Any:
        d = t.distributions
        parts = d.Normal(t.tensor([-1.0, 1.0], dtype=t.float64), 1.0)
        mixed = d.MixtureSameFamily(d.Categorical(t.tensor([0.3, 0.7], dtype=t.float64)), parts)
        return mixed.cdf(t.tensor(x)).numpy()

    np.testing.assert_allclose(below(tj), below(torch))


@pytest.mark.parametrize("scale", [2.0, "tensor"])
def test_slopes_of_affine_transforms_at_infinity(scale: Any) -> None:
    found = []
    for t in (torch, tj):
        s = t.tensor([2.0, 3.0]) if scale == "tensor" else scale
        x = t.tensor([math.inf, 1.0])
        found.append(t.distributions.AffineTransform(0.0, s).log_abs_det_jacobian(x, s * x).numpy())
    np.testing.assert_array_equal(*found)
