"""Distributions with outcomes that are certain, impossible or out of reach of the dtype, beside PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from parity_tools import torch

import tracejit as tj

LOGITS = np.array([[0.3, -0.2, 0.5, 0.1]], np.float32)
ALLOWED = np.array([[True, True, False, True]])
MASKS = {
    "logits": lambda t, x, m: t.distributions.Categorical(logits=x.masked_fill(~m, -float("inf"))),
    "low logits": lambda t, x, m: t.distributions.Categorical(logits=t.where(m, x, -1e8)),
    "probs": lambda t, x, m: t.distributions.Categorical(probs=x.softmax(-1) * m),
}
ASKED = {
    "entropy": lambda d, q: d.entropy(),
    "possible": lambda d, q: d.log_prob(d.probs.argmax(-1)),
    "divergence to": lambda d, q: torch_or_own(d).kl_divergence(d, q),
    "divergence from": lambda d, q: torch_or_own(d).kl_divergence(q, d),
}


def torch_or_own(distribution: Any) -> Any:
    return torch.distributions if "torch." in type(distribution).__module__ else tj.distributions


@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize("masked", MASKS)
@pytest.mark.parametrize("compiled", [False, True])
def test_categories_that_are_masked(masked: str, asked: str, compiled: bool) -> None:
    def go(t: Any, x: Any, mask: Any) -> Any:
        d = MASKS[masked](t, x, mask)
        q = t.distributions.Categorical(logits=x * 0.5)
        value = ASKED[asked](d, q)
        return value, *t.autograd.grad(value.sum(), x)

    def run(t: Any, function: Any) -> list[Any]:
        x = t.tensor(LOGITS).requires_grad_()
        return [y.detach().numpy() for y in function(t, x, t.tensor(ALLOWED))]

    function = tj.compile(go) if compiled else go
    expected = run(torch, go)
    for _ in range(3):
        for found, wanted in zip(run(tj, function), expected, strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


FUNCTIONS = {
    "impossible": lambda t, d, u: d.Categorical(probs=u.softmax(-1) * (u > 0)).log_prob(
        t.tensor(0)
    ),
    "one hot": lambda t, d, u: d.OneHotCategorical(u[1:]).log_prob(t.eye(6, dtype=u.dtype)[0]),
    "bernoulli": lambda t, d, u: d.Bernoulli(u).log_prob(t.ones_like(u)),
    "bernoulli entropy": lambda t, d, u: d.Bernoulli(logits=(u - 0.5) * 4000).entropy(),
    "bernoulli divergence": lambda t, d, u: d.kl_divergence(d.Bernoulli(u), d.Bernoulli(u.flip(0))),
    "geometric": lambda t, d, u: d.Geometric(u[1:]).log_prob(t.zeros_like(u[1:])),
    "geometric entropy": lambda t, d, u: d.Geometric(u[3:]).entropy(),
    "binomial": lambda t, d, u: d.Binomial(5, u).log_prob(t.full_like(u, 5.0)),
    "relaxed": lambda t, d, u: d.RelaxedBernoulli(t.tensor(0.5, dtype=u.dtype), u).log_prob(u),
    "sigmoid": lambda t, d, u: d.SigmoidTransform()((u - 0.5) * 4000),
    "sigmoid back": lambda t, d, u: d.SigmoidTransform().inv(u),
    "sticks": lambda t, d, u: d.StickBreakingTransform()((u - 0.5) * 400),
    "sticks back": lambda t, d, u: d.StickBreakingTransform().inv(
        d.StickBreakingTransform()((u - 0.5) * 400)
    ),
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_probabilities_near_zero_and_one(name: str, dtype: str) -> None:
    near = [0.0, 1e-30, 1e-12, 1e-3, 0.5, 1 - 1e-10, 1.0]
    found, expected = (
        FUNCTIONS[name](t, t.distributions, t.tensor(near, dtype=getattr(t, dtype))).numpy()
        for t in (tj, torch)
    )
    rtol = 1e-5 if dtype == "float32" else 1e-12
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=rtol)


AT_THE_EDGE = {
    "gamma": (lambda d, p: d.Gamma(p, p), [0.0, 1.0]),
    "beta": (lambda d, p: d.Beta(p, p), [0.0, 1.0]),
    "dirichlet": (lambda d, p: d.Dirichlet(p), [[0.0, 0.25, 0.75]]),
    "chi2": (lambda d, p: d.Chi2(2 * p), [0.0]),
    "binomial": (lambda d, p: d.Binomial(3, logits=p - 1), [0.0, 3.0]),
    "even binomial": (lambda d, p: d.Binomial(3, probs=p / 2), [0.0, 3.0]),
}


@pytest.mark.parametrize("name", AT_THE_EDGE)
def test_values_and_slopes_at_the_edge_of_the_support(name: str) -> None:
    made, values = AT_THE_EDGE[name]

    def of(t: Any) -> list[Any]:
        p = t.ones(3 if name == "dirichlet" else 1, dtype=t.float64).requires_grad_()
        found = [made(t.distributions, p).log_prob(t.tensor(v, dtype=t.float64)) for v in values]
        total = t.stack([y.sum() for y in found]).sum()
        slope = t.autograd.grad(total, p)[0] if t.isfinite(total) else p
        return [y.detach().numpy() for y in (*found, slope)]

    for ours, theirs in zip(of(tj), of(torch), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-12)


def test_entropy_of_counts_of_trials() -> None:
    found, expected = (
        t.distributions.Binomial(4, t.tensor([0.0, 0.3, 1.0])).entropy().numpy()
        for t in (tj, torch)
    )
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-5)
