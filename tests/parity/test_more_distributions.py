"""Distributions against PyTorch: densities, moments, entropies, divergences and gradients; draws by their moments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from parity_tools import compare

import tracejit as tj

torch = pytest.importorskip("torch", reason="the oracle of these tests is PyTorch")

RNG = np.random.default_rng(3)
A, B = RNG.uniform(0.3, 2, 4), RNG.uniform(0.3, 2, 4)
VALUE = RNG.uniform(0.05, 0.95, (3, 4))
COUNTS = RNG.integers(0, 5, (3, 4)).astype(float)
SQUARES = (lambda x: x @ x.swapaxes(-1, -2) + 0.5 * np.eye(3))(RNG.standard_normal((2, 3, 3)))
ROOTS = np.linalg.cholesky([[[1, r, 0.1], [r, 1, -0.2], [0.1, -0.2, 1]] for r in (0.3, -0.6)])

KINDS = """
D.Exponential(a) | v | D.Exponential(b) ; D.Gamma(a, b) | v | D.Gamma(b, a) ; D.Chi2(a) | v | ; D.Beta(a, b) | v | D.Beta(b, a)
D.Dirichlet(a) | (v / v.sum(-1, keepdim=True)) | D.Dirichlet(b) ; D.Laplace(a, b) | v | D.Laplace(b, a) ; D.Cauchy(a, b) | v |
D.Gumbel(a, b) | v | ; D.HalfNormal(a) | v | ; D.StudentT(a, b, a) | v | ; D.LogNormal(a, b) | v | D.LogNormal(b, a)
D.Poisson(a) | n | D.Poisson(b) ; D.Geometric(a / 3) | n | ; D.OneHotCategorical(a) | h | D.OneHotCategorical(b)
D.RelaxedBernoulli(t.tensor(0.7, dtype=t.float64), a / 3) | v | ; D.Bernoulli(logits=a * 30) | h | D.Bernoulli(a / 3)
D.RelaxedOneHotCategorical(t.tensor(0.7, dtype=t.float64), a) | (v / v.sum(-1, keepdim=True)) |
D.Independent(D.Normal(a, b), 1) | v | D.Independent(D.Normal(b, a), 1)
D.TransformedDistribution(D.Normal(a, b), [D.TanhTransform()]) | v | ; D.TransformedDistribution(D.Normal(a, b), D.SigmoidTransform()) | v |
D.TransformedDistribution(D.Normal(a, b), [D.AffineTransform(1.0, b), D.ExpTransform()]) | v |
D.TransformedDistribution(D.Exponential(a), [D.PowerTransform(t.tensor(2.0, dtype=t.float64)), D.SoftplusTransform()]) | (v + 1) |
D.MultivariateNormal(a, t.diag(b) + 0.1) | v | D.MultivariateNormal(b, t.diag(a) + 0.2) ; D.MultivariateNormal(a, scale_tril=t.diag(b)) | v |
D.MixtureSameFamily(D.Categorical(a), D.Normal(b, a)) | v[:, 0] | ; D.MixtureSameFamily(D.Categorical(a[:2]), D.Independent(D.Normal(b.reshape(2, 2), 1.0), 1)) | v[:, :2] |
D.ContinuousBernoulli(a / 3) | v | D.ContinuousBernoulli(b / 3) ; D.ContinuousBernoulli(logits=a - b) | v | D.ContinuousBernoulli(logits=a * 9)
D.ContinuousBernoulli(a / 3) | v | D.Normal(a, b) ; D.ContinuousBernoulli(a / 3) | v | D.Exponential(b) ; D.Beta(a, b) | v | D.ContinuousBernoulli(b / 3)
D.ContinuousBernoulli(a / 3) | v | D.Uniform(-b, 1 + b) ; D.ContinuousBernoulli(a / 3) | v | D.Pareto(a, b) ; D.Normal(a, b) | v | D.ContinuousBernoulli(a / 3)
D.LogisticNormal(a[:3], b[:3]) | (v / v.sum(-1, keepdim=True)) |
D.LowRankMultivariateNormal(a, b.reshape(4, 1), b) | v | D.LowRankMultivariateNormal(b, a.reshape(4, 1), a)
D.LowRankMultivariateNormal(a, t.stack([a, b], -1), b) | v | D.MultivariateNormal(b, t.diag(a) + 0.2)
D.MultivariateNormal(b, t.diag(a) + 0.2) | v | D.LowRankMultivariateNormal(a, t.stack([a, b], -1), b)
D.Wishart(b[:1] + 3, t.diag(a[:3]) + 0.1) | m | D.Wishart(a[:1] + 4, t.diag(b[:3]) + 0.2)
D.Wishart(t.tensor(3.5, dtype=t.float64), scale_tril=t.diag(b[:3])) | m | ; D.LKJCholesky(3, b[0]) | r | ; D.LKJCholesky(3, b) | r[0] |
"""  # noqa: E501
CASES = [
    tuple(p.strip() for p in c.split("|"))
    for line in KINDS.strip().splitlines()
    for c in line.split(" ; ")
]


def names(t: Any, a: Any, b: Any) -> dict[str, Any]:
    hot = t.nn.functional.one_hot(t.tensor([0, 2, 3]), 4).to(t.float64)
    return {
        "t": t,
        "D": t.distributions,
        "a": a,
        "b": b,
        "v": t.tensor(VALUE),
        "n": t.tensor(COUNTS),
        "h": hot,
        "m": t.tensor(SQUARES),
        "r": t.tensor(ROOTS),
    }


@pytest.mark.parametrize(("kind", "value", "other"), CASES)
def test_densities(kind: str, value: str, other: str) -> None:
    def density(t: Any, f: Any, a: Any, b: Any) -> Any:
        known = names(t, a, b)
        return eval(kind, known).log_prob(eval(value, known))

    compare(density, [A, B], second=False, tolerance=1e-8)


@pytest.mark.parametrize(("kind", "value", "other"), CASES)
def test_moments_and_divergences(kind: str, value: str, other: str) -> None:
    for what in ("mean", "variance", "entropy", "kl"):

        def measure(t: Any, f: Any, a: Any, b: Any, what: str = what) -> Any:
            known = names(t, a, b)
            p = eval(kind, known)
            if what == "kl":
                return t.distributions.kl_divergence(p, eval(other, known))
            found = getattr(p, what)
            return found() if callable(found) else found

        try:
            measure(torch, None, torch.tensor(A), torch.tensor(B))
        except (NotImplementedError, SyntaxError, AttributeError):
            continue
        compare(measure, [A, B], second=False, gradients=False, tolerance=1e-8)


@pytest.mark.filterwarnings("ignore:Singular sample")
@pytest.mark.parametrize(
    "kind", [k for k, _, _ in CASES if "Cauchy" not in k and "StudentT" not in k]
)
def test_draws(kind: str) -> None:
    tj.manual_seed(0)
    p = eval(kind, names(tj, tj.tensor(A), tj.tensor(B)))
    theirs = eval(kind, names(torch, torch.tensor(A), torch.tensor(B)))
    drawn = p.sample((4000,))
    assert tuple(drawn.shape) == tuple(theirs.sample((4000,)).shape)
    assert drawn.dtype is tj.float64
    assert (p.batch_shape, p.event_shape) == (tuple(theirs.batch_shape), tuple(theirs.event_shape))
    try:
        mean, spread = theirs.mean.numpy(), np.sqrt(theirs.variance.numpy())
    except (NotImplementedError, AttributeError):
        expected = theirs.sample((4000,))
        mean, spread = expected.mean(0).numpy(), expected.std(0).numpy()
    assert np.all(np.abs(drawn.mean(0).numpy() - mean) < 8 * spread / 60 + 1e-9)
    if p.has_rsample:
        assert p.rsample((2,)).shape == p.sample((2,)).shape


@pytest.mark.parametrize("concentration", [0.0, 0.2, 0.7, 1.5, -0.3, -1.0])
def test_tails_of_others(concentration: float) -> None:
    """PyTorch takes no double precision."""

    def measure(t: Any, f: Any, a: Any, b: Any) -> Any:
        p = t.distributions.GeneralizedPareto(-a, b + 1, t.full((4,), concentration), False)
        v = t.tensor(VALUE).float()
        found = [p.log_prob(v), p.cdf(v), p.icdf(v), p.log_survival_function(v), p.entropy()]
        return [*found, p.mean, p.variance]

    single = [x.astype(np.float32) for x in (A, B)]
    compare(measure, single, second=False, tolerance=2e-5)
    p = tj.distributions.GeneralizedPareto(0.0, 1.0, concentration)
    assert float(p.support.upper_bound) == (
        -1 / np.float32(concentration) if concentration < 0 else np.inf
    )
    tj.manual_seed(0)
    assert bool(p.support.check(p.sample((100,))).all())


def test_shares_near_a_half() -> None:
    """PyTorch's polynomials there have six digits."""

    def measure(t: Any, f: Any, a: Any, b: Any) -> Any:
        p = t.distributions.ContinuousBernoulli(0.5 + (a - 1) * 1e-3)
        v = t.tensor(VALUE)
        return [p.log_prob(v), p.cdf(v), p.icdf(v), p.mean, p.variance, p.entropy()]

    compare(measure, [A, B], second=False, gradients=False, tolerance=1e-3)

    def steep(t: Any, f: Any, a: Any, b: Any) -> Any:
        p = t.distributions.ContinuousBernoulli(logits=(a - 1) * 20)
        v = t.tensor(VALUE)
        return [p.log_prob(v), p.cdf(v), p.icdf(v), p.mean, p.variance, p.entropy()]

    compare(steep, [A, B], second=False, tolerance=1e-5)


def test_angles() -> None:
    """PyTorch takes Bessel functions from polynomials with seven digits."""

    def density(t: Any, f: Any, a: Any, b: Any) -> Any:
        p = t.distributions.VonMises(a, b * 30)
        return p.log_prob(t.tensor(VALUE)), p.mean, p.variance

    compare(density, [A, B], second=False, tolerance=1e-6)
    tj.manual_seed(0)
    for concentration in (1e-7, 0.5, 4.0, 300.0):
        p, theirs = (t.distributions.VonMises(t.tensor(2.5), concentration) for t in (tj, torch))
        angles = p.sample((4000,))
        assert float(angles.min()) >= -np.pi
        assert float(angles.max()) < np.pi
        direction = float((angles - 2.5).cos().mean())
        assert abs(direction - (1 - float(theirs.variance))) < 0.05


@pytest.mark.parametrize(
    "code",
    [
        "D.LogNormal(a, b).cdf(v * 0)",
        "D.TransformedDistribution(D.Exponential(a), [D.AffineTransform(1.0, 2.0)]).cdf(v * 0 + 1.0)",
        "D.kl_divergence(D.Gamma(a, b), D.Beta(v, v))",
        "D.kl_divergence(D.Poisson(a), D.Binomial(3, v[:, :2]))",
        "t.tensor(D.AffineTransform(0.0, a).forward_shape((2, 4)).numel())",
        "t.tensor(D.ComposeTransform([D.ExpTransform(), D.AffineTransform(b, 2.0)]).inverse_shape((4,)).numel())",
        "t.tensor(D.SigmoidTransform().forward_shape(v.shape).numel())",
    ],
)
def test_ends_and_shapes(code: str) -> None:
    theirs, ours = (eval(code, names(t, t.tensor(A), t.tensor(B))).numpy() for t in (torch, tj))
    np.testing.assert_allclose(ours, theirs, rtol=1e-9)


def test_normal_vectors_of_other_lengths_have_no_divergence() -> None:
    for t in (torch, tj):
        d = t.distributions
        p = d.LowRankMultivariateNormal(t.zeros(4), t.ones(4, 1), t.ones(4))
        q = d.MultivariateNormal(t.zeros(3), t.eye(3))
        for pair in ((p, q), (q, p)):
            with pytest.raises(ValueError, match="KL-divergence"):
                d.kl_divergence(*pair)
