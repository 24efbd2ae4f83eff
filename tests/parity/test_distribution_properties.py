"""Modes, distribution functions and their inverses, supports and divergences between kinds, against PyTorch."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pytest
from parity_tools import close

import tracejit as tj

torch = pytest.importorskip("torch", reason="the oracle of these tests is PyTorch")

RNG = np.random.default_rng(9)
A, B, PROBS = RNG.uniform(0.4, 3, 3), RNG.uniform(0.4, 3, 3), RNG.uniform(0.1, 0.9, 3)
SHARES, AT = RNG.uniform(0.1, 2, (2, 4)), RNG.uniform(0.05, 0.95, (5, 3))

KINDS = {
    "Normal": "D.Normal(a - 1, b)",
    "LogNormal": "D.LogNormal(a - 1, b)",
    "Laplace": "D.Laplace(a - 1, b)",
    "Cauchy": "D.Cauchy(a - 1, b)",
    "Gumbel": "D.Gumbel(a - 1, b)",
    "StudentT": "D.StudentT(a, b, a)",
    "Exponential": "D.Exponential(a)",
    "Gamma": "D.Gamma(a, b)",
    "Chi2": "D.Chi2(a)",
    "Beta": "D.Beta(a, b)",
    "HalfNormal": "D.HalfNormal(a)",
    "HalfCauchy": "D.HalfCauchy(a)",
    "Pareto": "D.Pareto(a, b + 2)",
    "Pareto of heavy tails": "D.Pareto(a, b / 3)",
    "Weibull": "D.Weibull(a, b + 1)",
    "Kumaraswamy": "D.Kumaraswamy(a, b)",
    "InverseGamma": "D.InverseGamma(a, b)",
    "FisherSnedecor": "D.FisherSnedecor(a * 3, b * 5)",
    "Uniform": "D.Uniform(a - 4, a + b)",
    "Uniform of shares": "D.Uniform(p / 2, p / 2 + 0.4)",
    "Poisson": "D.Poisson(a)",
    "Geometric": "D.Geometric(p)",
    "Bernoulli": "D.Bernoulli(p)",
    "Binomial": "D.Binomial(t.tensor([2.0, 3.0, 4.0], dtype=t.float64), p)",
    "NegativeBinomial": "D.NegativeBinomial(t.tensor([2.0, 3.0, 4.0], dtype=t.float64), p)",
    "Categorical": "D.Categorical(s)",
    "OneHotCategorical": "D.OneHotCategorical(s)",
    "Dirichlet": "D.Dirichlet(s * 3)",
    "Dirichlet at the corners": "D.Dirichlet(s / 3)",
    "turned around": "D.TransformedDistribution(D.Normal(a, b), [D.AffineTransform(1.0, -a)])",
    "squashed": "D.TransformedDistribution(D.Normal(a, b), [D.AffineTransform(1.0, 2.0), D.TanhTransform()])",
}


def made(t: Any, code: str) -> Any:
    known = {"a": t.tensor(A), "b": t.tensor(B), "p": t.tensor(PROBS), "s": t.tensor(SHARES)}
    return eval(code, {**known, "t": t, "D": t.distributions})


def compared(ours: Any, theirs: Any, ask: Any) -> None:
    """What ``ask`` gets of both; what PyTorch does not have is nothing to compare with."""
    try:
        expected = ask(theirs, torch)
    except (NotImplementedError, AttributeError):
        return
    close(ask(ours, tj), expected, 1e-7)


@pytest.mark.parametrize("name", KINDS)
def test_properties(name: str) -> None:
    ours, theirs = made(tj, KINDS[name]), made(torch, KINDS[name])
    facts = ("mean", "mode", "variance", "stddev")
    for fact in facts if name != "Kumaraswamy" else ("mean", "variance"):  # PyTorch's mode is NaN
        compared(ours, theirs, lambda d, t, fact=fact: getattr(d, fact))
    for expand in (True, False):
        compared(ours, theirs, lambda d, t, e=expand: d.enumerate_support(expand=e))
    assert ours.has_enumerate_support == theirs.has_enumerate_support


@pytest.mark.filterwarnings("ignore:Implementation of the TransformedDistribution")
@pytest.mark.parametrize("name", [name for name in KINDS if "(s" not in KINDS[name]])
def test_distribution_functions(name: str) -> None:
    ours, theirs = made(tj, KINDS[name]), made(torch, KINDS[name])
    compared(ours, theirs, lambda d, t: d.icdf(t.tensor(AT)))
    inside = AT if theirs.has_rsample and name != "Pareto" else AT.round()
    shift = 4.0 if name.startswith("Pareto") else 0.0
    for d in (ours, theirs):
        d._validate_args = False
    compared(ours, theirs, lambda d, t: d.cdf(t.tensor(inside + shift)))


@pytest.mark.parametrize("name", KINDS)
def test_larger_batches(name: str) -> None:
    batch = tuple(made(torch, KINDS[name]).batch_shape)
    ours, theirs = (made(t, KINDS[name]).expand((4, *batch)) for t in (tj, torch))
    assert tuple(ours.batch_shape) == tuple(theirs.batch_shape)
    assert tuple(ours.sample((2,)).shape) == tuple(theirs.sample((2,)).shape)
    value = theirs.sample()
    close(ours.log_prob(tj.tensor(value.numpy())), theirs.log_prob(value), 1e-7)


#: What is asked of densities: outside every support, no number, of a shape that fits nowhere, no tensor.
WRONG = {
    "below": lambda t, shape: t.full(shape, -1000.5, dtype=t.float64),
    "above": lambda t, shape: t.full(shape, 1000.5, dtype=t.float64),
    "nan": lambda t, shape: t.full(shape, float("nan"), dtype=t.float64),
    "shape": lambda t, shape: t.full((7, 7), 0.5, dtype=t.float64),
    "number": lambda t, shape: 0.5,
}


@pytest.mark.parametrize("ask", ["log_prob", "cdf"])
@pytest.mark.parametrize(
    "name", [name for name in KINDS if name != "Gumbel"]
)  # whose cdf asks more in PyTorch
def test_values_that_are_refused(name: str, ask: str) -> None:
    """By PyTorch and here, by compiled code, too."""
    made_by = {t: made(t, KINDS[name]) for t in (tj, torch)}
    shape = tuple(made_by[torch].sample().shape)

    def refuses(t: Any, run: Any, wrong: str) -> bool:
        try:
            run(made_by[t], WRONG[wrong](t, shape))
        except NotImplementedError:
            return False
        except ValueError:
            return True
        except (AttributeError, RuntimeError, TypeError):  # of what a value is handed on to
            assert ask == "cdf"
            return True
        return False

    def run(d: Any, value: Any) -> Any:
        return getattr(d, ask)(value)

    for wrong in WRONG.keys() - ({"number"} if ask == "cdf" else set()):
        expected = refuses(torch, run, wrong)
        compiled = tj.compile(run)
        found = [refuses(tj, f, wrong) for f in (run, compiled, compiled)]
        assert found == [expected] * 3, wrong
    if (
        not hasattr(made_by[tj], "base_dist") and name != "Categorical"
    ):  # they have checks further on
        made_by[tj]._validate_args = False
        assert not refuses(tj, run, "nan")


PAIRS = [(p, q) for p in KINDS for q in KINDS if p != q]


def test_divergences() -> None:
    """Between every two kinds for which PyTorch has one."""
    found = 0
    for p, q in PAIRS:
        try:
            expected = torch.distributions.kl_divergence(
                made(torch, KINDS[p]), made(torch, KINDS[q])
            )
        except (NotImplementedError, RuntimeError):
            continue
        ours = tj.distributions.kl_divergence(made(tj, KINDS[p]), made(tj, KINDS[q]))
        np.testing.assert_allclose(
            ours.numpy(), expected.numpy(), rtol=1e-6, atol=1e-8, err_msg=f"{p} {q}"
        )
        found += 1
    assert found > 60


@pytest.mark.parametrize(
    "kind", ["Cauchy", "Gumbel", "HalfNormal", "Uniform", "Laplace", "Pareto", "Gamma", "Beta"]
)
def test_divergences_within_a_kind(kind: str) -> None:
    sides = []
    for t in (tj, torch):
        D = getattr(t.distributions, kind)
        if kind == "HalfNormal":
            pair = D(t.tensor(A)), D(t.tensor(B))
        elif kind == "Uniform":
            pair = D(-t.tensor(A), t.tensor(B)), D(-t.tensor(A) * 1.2, t.tensor(B) * 1.1)
        else:
            pair = D(t.tensor(A), t.tensor(B)), D(t.tensor(B), t.tensor(A))
        sides.append(t.distributions.kl_divergence(*pair))
    np.testing.assert_allclose(sides[0].numpy(), sides[1].numpy(), rtol=1e-7, atol=1e-9)


def test_families_are_told_and_have_an_entropy() -> None:
    def families(t: Any) -> list[str]:
        d = t.distributions
        kinds = [(n, getattr(d, n)) for n in dir(d)]
        return sorted(
            n for n, k in kinds if isinstance(k, type) and issubclass(k, d.ExponentialFamily)
        )

    assert families(tj) == families(torch)

    def entropy(t: Any) -> list[float]:  # its graph leads to copies of the parameters
        class Waiting(t.distributions.ExponentialFamily):  # type: ignore[misc]
            """Exponential waiting times by their natural parameter."""

            def __init__(self, rate: Any) -> None:
                self.rate = rate
                super().__init__(rate.shape, validate_args=False)

            _mean_carrier_measure = 0

            @property
            def _natural_params(self) -> Any:
                return (-self.rate,)

            def _log_normalizer(self, x: Any) -> Any:
                return -t.log(-x)

        rate = t.tensor([0.5, 2.0])
        found = Waiting(rate).entropy()
        expected = t.distributions.Exponential(rate).entropy()
        assert t.allclose(found, expected)
        found.sum().backward()
        values: list[float] = found.tolist()
        return values

    assert entropy(tj) == pytest.approx(entropy(torch))


@pytest.mark.parametrize("t", [tj, torch], ids=["ours", "theirs"])
def test_distributions_and_transforms_of_ones_own(t: Any) -> None:
    d = t.distributions

    class Triangle(d.Distribution):  # type: ignore[misc]
        arg_constraints: ClassVar[Any] = {"width": d.constraints.positive}
        support = d.constraints.unit_interval

        def __init__(self, width: Any, validate_args: Any = None) -> None:
            self.width = width
            super().__init__(width.shape, validate_args=validate_args)

        def log_prob(self, value: Any) -> Any:
            if self._validate_args:
                self._validate_sample(value)
            return (2 * value * self.width).log()

        def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
            new = self._get_checked_instance(Triangle, _instance)
            new.width = self.width.expand(batch_shape)
            super(Triangle, new).__init__(batch_shape, validate_args=False)
            new._validate_args = self._validate_args
            return new

    class Shift(d.Transform, t.nn.Module):  # type: ignore[misc]
        domain = codomain = d.constraints.real
        bijective = True
        __hash__ = t.nn.Module.__hash__

        def __init__(self, cache_size: int = 0) -> None:
            super().__init__(cache_size=cache_size)
            self.by = t.nn.Parameter(t.ones(2))

        def _call(self, x: Any) -> Any:
            return x + self.by

    class Learned(d.Distribution, t.nn.Module):  # type: ignore[misc]
        arg_constraints: ClassVar[Any] = {}

        def __init__(self) -> None:
            super().__init__((2,))
            self.centre = t.nn.Parameter(t.ones(2))

    with pytest.raises(ValueError, match="support"):
        Triangle(t.ones(2)).log_prob(t.full((2,), 2.0))
    unchecked = Triangle(t.ones(2), validate_args=False)
    assert unchecked.log_prob(t.full((2,), 2.0)).tolist() == pytest.approx([1.3862944] * 2)
    assert unchecked.expand((3, 2)).batch_shape == (3, 2)
    assert not unchecked.expand((3, 2))._validate_args
    assert [n for n, _ in Shift().named_parameters()] == ["by"]
    assert Shift()(t.zeros(2)).tolist() == [1.0, 1.0]
    assert len(list(Learned().parameters())) == 1
    before = d.Distribution._validate_args
    d.Distribution.set_default_validate_args(False)
    try:
        assert not d.Normal(0.0, -1.0)._validate_args
    finally:
        d.Distribution.set_default_validate_args(before)


@pytest.mark.parametrize("t", [tj, torch], ids=["ours", "theirs"])
def test_transforms_keep_their_latest_pair(t: Any) -> None:
    tanh = t.distributions.TanhTransform(cache_size=1)
    x, y = t.tensor(0.25), t.tensor(0.5)
    assert tanh._cached_x_y == (None, None)
    assert tanh.inv(tanh(x)) is x
    found = tanh.inv(y)
    assert tanh(found) is y
    assert tanh._cached_x_y[1] is y
    with pytest.raises(ValueError, match="cache_size must be 0 or 1"):
        t.distributions.TanhTransform(cache_size=2)
