"""More distributions, gradients of draws, and distributions and transforms that programs write, beside PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from parity_tools import array, close, compare, same_error, torch

import tracejit as tj

RNG = np.random.default_rng(8)
A, B = RNG.uniform(0.4, 3, 4), RNG.uniform(0.4, 3, 4)
VALUE = RNG.uniform(0.05, 0.95, (3, 4))
COUNTS = RNG.integers(0, 5, (3, 4)).astype(float)

#: A distribution, a value for it, another one to compare it with, and what it has besides a density.
KINDS = """
D.Pareto(a, b + 2) | v * 3 + a | D.Pareto(a / 2, b) | mean variance mode entropy cdf
D.Weibull(a, b) | v | | mean variance mode entropy cdf
D.HalfCauchy(a) | v | | mode entropy cdf icdf
D.InverseGamma(a + 3, b) | v | | mean variance mode entropy
D.Kumaraswamy(a, b) | v | | mean variance entropy
D.FisherSnedecor(a, b + 5) | v | | mean variance
D.Binomial(7, probs=a / 4) | n | D.Binomial(7, probs=b / 4) | mean variance mode
D.Binomial(t.tensor([5, 6, 7, 8]), logits=a - b) | n | D.Binomial(5, logits=b) | mean variance mode
D.NegativeBinomial(a, probs=b / 4) | n | | mean variance
D.NegativeBinomial(5, logits=a - b) | n | | mean variance
D.Multinomial(9, probs=a, validate_args=False) | n | | mean variance entropy
D.Multinomial(9, logits=a - b, validate_args=False) | n | | mean variance
D.TransformedDistribution(D.Normal(a, b), [D.AffineTransform(0.0, 2.0), D.StickBreakingTransform()]) | share | |
"""
CASES = [tuple(p.strip() for p in line.split("|")) for line in KINDS.strip().splitlines()]


def names(t: Any, a: Any, b: Any) -> dict[str, Any]:
    value = t.tensor(VALUE)
    five = t.cat([value, 1 - value[:, :1]], -1)
    share = five / five.sum(-1, keepdim=True)
    return {
        "t": t,
        "D": t.distributions,
        "a": a,
        "b": b,
        "v": value,
        "n": t.tensor(COUNTS),
        "share": share,
    }


@pytest.mark.parametrize(("kind", "value", "other", "facts"), CASES)
def test_densities(kind: str, value: str, other: str, facts: str) -> None:
    def density(t: Any, f: Any, a: Any, b: Any) -> Any:
        known = names(t, a, b)
        return eval(kind, known).log_prob(eval(value, known))

    compare(density, [A, B], second=False, tolerance=1e-8)


@pytest.mark.parametrize(("kind", "value", "other", "facts"), CASES)
def test_facts(kind: str, value: str, other: str, facts: str) -> None:
    def measure(t: Any, f: Any, a: Any, b: Any) -> Any:
        known = names(t, a, b)
        p, found = eval(kind, known), []
        for fact in facts.split():
            member = getattr(p, fact)
            given = (
                (known["v"],) if fact == "icdf" else (eval(value, known),) if fact == "cdf" else ()
            )
            found.append(member(*given) if callable(member) else member)
        if other:
            found.append(t.distributions.kl_divergence(p, eval(other, known)))
        return [*found, a + b]

    compare(measure, [A, B], second=False, tolerance=1e-8)


@pytest.mark.parametrize(("kind", "value", "other", "facts"), CASES)
def test_draws_have_the_mean(kind: str, value: str, other: str, facts: str) -> None:
    tj.manual_seed(1)
    p = eval(kind, names(tj, tj.tensor(A), tj.tensor(B)))
    drawn = p.sample((4000,))
    assert drawn.shape == (4000, *p.batch_shape, *p.event_shape)
    if "mean" in facts:
        spread = array(p.variance) ** 0.5 if np.isfinite(array(p.variance)).all() else 1.0
        assert np.all(np.abs(array(drawn.mean(0)) - array(p.mean)) < 0.15 * spread + 0.02)


@pytest.mark.parametrize("rate", [0.3, 2.0])
def test_gradients_of_gamma_draws(rate: float) -> None:
    tj.manual_seed(2)
    a = tj.tensor([0.2, 0.9, 3.0, 40.0], dtype=tj.float64, requires_grad=True)
    drawn = tj.distributions.Gamma(a, tj.tensor(rate, dtype=tj.float64)).rsample((50,))
    (slopes,) = tj.autograd.grad(drawn.sum(), a)
    wide = torch.tensor(array(a)).expand(50, 4)
    theirs = torch._standard_gamma_grad(wide, torch.tensor(array(drawn)) * rate) / rate
    np.testing.assert_allclose(array(slopes), array(theirs.sum(0)), rtol=2e-3)


def test_gradients_of_shares() -> None:
    """The mean of many draws moves as the mean does."""
    tj.manual_seed(3)
    a = tj.tensor([0.7, 2.0, 4.0], dtype=tj.float64, requires_grad=True)
    (found,) = tj.autograd.grad(tj.distributions.Dirichlet(a).rsample((40000,)).mean(0)[0], a)
    (wanted,) = tj.autograd.grad(tj.distributions.Dirichlet(a).mean[0], a)
    np.testing.assert_allclose(array(found), array(wanted), atol=4e-3)
    b = tj.tensor(1.5, requires_grad=True)
    (found,) = tj.autograd.grad(tj.distributions.Beta(b, 2.0).rsample((40000,)).mean(), b)
    np.testing.assert_allclose(found.item(), 2.0 / 3.5**2, atol=4e-3)


def written(t: Any) -> tuple[Any, Any]:
    """A distribution and a transform as programs write them, on either library."""
    constraints = t.distributions.constraints
    all_of = __import__(
        f"{t.__name__}.distributions.utils", fromlist=["broadcast_all"]
    ).broadcast_all

    class Triangle(t.distributions.Distribution):  # type: ignore[misc, name-defined]
        arg_constraints = {"low": constraints.real, "width": constraints.positive}  # noqa: RUF012
        has_rsample = True

        def __init__(self, low: Any, width: Any, validate_args: Any = None) -> None:
            self.low, self.width = all_of(low, width)
            super().__init__(self.low.size(), validate_args=validate_args)

        @constraints.dependent_property(is_discrete=False, event_dim=0)
        def support(self) -> Any:
            return constraints.interval(self.low, self.low + self.width)

        def log_prob(self, value: Any) -> Any:
            if self._validate_args if hasattr(self, "_validate_args") else True:
                self._validate_sample(value)
            return (2 * (value - self.low) / self.width**2).log()

    class Tanh(t.distributions.transforms.Transform):  # type: ignore[misc, name-defined]
        domain = constraints.real
        codomain = constraints.interval(-1.0, 1.0)
        bijective = True
        sign = +1

        def __init__(self, cache_size: int = 1) -> None:
            super().__init__(cache_size=cache_size)

        def _call(self, x: Any) -> Any:
            return x.tanh()

        def _inverse(self, y: Any) -> Any:
            return 0.5 * (y.log1p() - (-y).log1p())

        def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
            return 2.0 * (0.6931471805599453 - x - t.nn.functional.softplus(-2.0 * x))

    return Triangle, Tanh


def test_distributions_of_programs() -> None:
    def density(t: Any, f: Any, a: Any, b: Any) -> Any:
        triangle, _ = written(t)
        p = triangle(a, b)
        return p.log_prob(a + b * 0.5), p.expand((2, 4)).low if t is tj else p.low.expand(2, 4)

    compare(density, [A, B], second=False)
    for low, width, value in ((0.0, -1.0, 0.5), (0.0, 1.0, 2.0)):
        same_error(
            lambda t, f, low=low, width=width, value=value: written(t)[0](
                t.tensor(low), t.tensor(width)
            ).log_prob(t.tensor(value))
        )


def test_transforms_of_programs() -> None:
    def squashed(t: Any, f: Any, a: Any, b: Any) -> Any:
        _, tanh = written(t)
        base = t.distributions.Normal(a, b)
        p = t.distributions.TransformedDistribution(base, [tanh()])
        y = (a * 0.3 + 0.1).tanh()
        return p.log_prob(y), p.transforms[0](a), p.transforms[0].inv(y)

    compare(squashed, [A, B], second=False, tolerance=1e-7)
    transform = written(tj)[1]()
    x = tj.tensor([30.0])
    assert transform.inv(transform(x)) is x


CONSTRAINTS = (
    *("real", "positive", "nonnegative", "unit_interval", "boolean", "nonnegative_integer"),
    *("positive_integer", "simplex", "lower_triangular", "lower_cholesky", "positive_definite"),
    *("real_vector", "one_hot", "interval(0,2)", "greater_than(0.5)", "less_than(0.5)"),
    *(
        "greater_than_eq(1.)",
        "half_open_interval(0.,1.)",
        "integer_interval(0,1)",
    ),
)


@pytest.mark.parametrize("name", CONSTRAINTS)
def test_constraints(name: str) -> None:
    for value in (
        np.array([[0.0, 1.0], [0.25, 0.75]]),
        np.array([[1.0, 0.0], [0.5, 2.0]]),
        np.array([[2.0, 0.5], [0.5, 1.0]]),
        np.array([[-1.0, np.nan], [3.0, 1.0]]),
    ):
        if name == "positive_definite" and np.isnan(value).any():
            continue
        found = [
            eval(f"c.{name}", {"c": t.distributions.constraints}).check(t.tensor(value))
            for t in (tj, torch)
        ]
        close(*found)


def test_divergences_that_programs_declare() -> None:
    class Mine(tj.distributions.Normal):
        pass

    p, q = Mine(0.0, 1.0), tj.distributions.Normal(1.0, 1.0)
    assert tj.distributions.kl_divergence(p, q).item() == 0.5

    @tj.distributions.register_kl(Mine, tj.distributions.StudentT)
    def _(p: Any, q: Any) -> float:
        return 7.0

    assert tj.distributions.kl_divergence(p, tj.distributions.StudentT(2.0)) == 7.0
    with pytest.raises(NotImplementedError):
        tj.distributions.kl_divergence(q, tj.distributions.StudentT(2.0))


@pytest.mark.parametrize("diag", [-2, -1, 0, 1])
def test_triangles_as_vectors(diag: int) -> None:
    for n in range(2, 6):
        if -n <= diag < n:
            count = torch.tril_indices(n, n, diag).shape[1]
            vec = RNG.standard_normal((2, count))
            if not count:
                continue
            ours, theirs = (
                t.distributions.utils.vec_to_tril_matrix(t.tensor(vec), diag) for t in (tj, torch)
            )
            close(ours, theirs, 0)
            ours, theirs = (
                t.distributions.utils.tril_matrix_to_vec(m, diag)
                for t, m in ((tj, ours), (torch, theirs))
            )
            close(ours, theirs, 0)
    same_error(lambda t, f: t.distributions.utils.vec_to_tril_matrix(t.ones(5)))
    same_error(lambda t, f: t.distributions.utils.tril_matrix_to_vec(t.ones(2, 2), 3))
