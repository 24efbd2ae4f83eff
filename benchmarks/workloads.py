"""The programs the benchmarks measure, written once for every namespace with PyTorch's names.

A :class:`Case` builds a call without arguments: one measurement. ``make(tj, wrap, size)`` takes the namespace
(``tracejit`` or ``torch``) and the compiler (``tracejit.compile``, ``torch.compile`` or the identity), so that eager
and compiled, ours and theirs, run the very same lines. ``jax_workloads`` has each case again as JAX users write it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Call = Callable[[], Any]
Wrap = Callable[[Any], Any]

DIGITS = (64, 128, 10)
TINY = (4, 8, 2)
LEARNING_RATE, BETA1, BETA2, EPSILON = 1e-3, 0.9, 0.999, 1e-8


@dataclass(frozen=True)
class Case:
    """A program to measure at one or more sizes; a call returns its results and gradients."""

    name: str
    make: Callable[[Any, Wrap, int], Call]
    sizes: tuple[int, ...]
    small: int


def eager(function: Any) -> Any:
    """The ``wrap`` of code that is not compiled."""
    return function


# --- data: NumPy draws it, so that every namespace gets the same ---------------------------------


def uniform(low: float, high: float, *shape: int, seed: int = 0) -> np.ndarray:
    """Float32 draws."""
    return np.random.default_rng(seed).uniform(low, high, shape).astype(np.float32)


def market(size: int) -> list[np.ndarray]:
    """Spot, strike, years, rate and volatility of ``size`` options."""
    ranges = ((80.0, 120.0), (90.0, 110.0), (0.2, 2.0), (0.01, 0.05), (0.1, 0.5))
    return [uniform(*ends, size, seed=k) for k, ends in enumerate(ranges)]


def classes(count: int, size: int) -> np.ndarray:
    """Labels of ``size`` examples."""
    return np.random.default_rng(1).integers(0, count, size)


def parameters(widths: tuple[int, ...]) -> list[np.ndarray]:
    """Weight (out, in) and bias of every layer, in order."""
    found = []
    for seed, (fan_in, fan_out) in enumerate(itertools.pairwise(widths)):
        bound = 1.0 / math.sqrt(fan_in)
        found.append(uniform(-bound, bound, fan_out, fan_in, seed=2 * seed + 2))
        found.append(uniform(-bound, bound, fan_out, seed=2 * seed + 3))
    return found


# --- what one measurement is --------------------------------------------------------------------


def forward_call(tj: Any, function: Any, args: tuple[Any, ...]) -> Call:
    """The function under ``no_grad``."""

    def call() -> list[Any]:
        with tj.no_grad():
            return [function(*args)]

    return call


def gradient_call(function: Any, args: tuple[Any, ...], leaves: list[Any]) -> Call:
    """The function, and ``backward()`` of its result into cleared gradients."""

    def call() -> list[Any]:
        for leaf in leaves:
            leaf.grad = None
        result = function(*args)
        result.backward()
        return [result, *(leaf.grad for leaf in leaves)]

    return call


# --- pointwise chains ---------------------------------------------------------------------------


def _normal_cdf(x: Any) -> Any:
    return 0.5 * (1.0 + (x * math.sqrt(0.5)).erf())


def call_price(spot: Any, strike: Any, years: Any, rate: Any, volatility: Any) -> Any:
    """Black and Scholes (1973): the price of a European call option."""
    spread = volatility * years.sqrt()
    d1 = ((spot / strike).log() + (rate + 0.5 * volatility * volatility) * years) / spread
    discount = (-rate * years).exp()
    return spot * _normal_cdf(d1) - strike * discount * _normal_cdf(d1 - spread)


def black_scholes(tj: Any, wrap: Wrap, size: int) -> Call:
    return forward_call(tj, wrap(call_price), tuple(map(tj.from_numpy, market(size))))


def black_scholes_grad(tj: Any, wrap: Wrap, size: int) -> Call:
    def value(spot: Any, strike: Any, years: Any, rate: Any, volatility: Any) -> Any:
        return call_price(spot, strike, years, rate, volatility).sum()

    args = tuple(tj.from_numpy(x).requires_grad_() for x in market(size))
    return gradient_call(wrap(value), args, list(args))


# --- rows ---------------------------------------------------------------------------------------


def softmax(tj: Any, wrap: Wrap, size: int) -> Call:
    def function(x: Any) -> Any:
        return tj.nn.functional.softmax(x, dim=-1)

    return forward_call(tj, wrap(function), (tj.from_numpy(uniform(-4.0, 4.0, size, 768)),))


def layer_norm(tj: Any, wrap: Wrap, size: int) -> Call:
    def function(x: Any, weight: Any, bias: Any) -> Any:
        return tj.nn.functional.layer_norm(x, (768,), weight, bias)

    arrays = (
        uniform(-4.0, 4.0, size, 768),
        uniform(0.5, 1.5, 768, seed=1),
        uniform(-0.5, 0.5, 768, seed=2),
    )
    return forward_call(tj, wrap(function), tuple(map(tj.from_numpy, arrays)))


# --- networks -----------------------------------------------------------------------------------


def classifier(tj: Any, widths: tuple[int, int, int]) -> Any:
    """Linear, ReLU, Linear with the parameters every namespace gets."""
    first, hidden, last = widths
    nn = tj.nn
    model = nn.Sequential(nn.Linear(first, hidden), nn.ReLU(), nn.Linear(hidden, last))
    with tj.no_grad():
        for parameter, value in zip(model.parameters(), parameters(widths), strict=True):
            parameter.copy_(tj.from_numpy(value))
    return model


def loss_of(tj: Any, model: Any) -> Callable[[Any, Any], Any]:
    """Cross entropy of a model's logits."""

    def loss(x: Any, labels: Any) -> Any:
        return tj.nn.functional.cross_entropy(model(x), labels)

    return loss


def batch(tj: Any, widths: tuple[int, ...], size: int) -> tuple[Any, Any]:
    x, labels = uniform(-1.0, 1.0, size, widths[0]), classes(widths[-1], size)
    return tj.from_numpy(x), tj.from_numpy(labels)


def tiny_mlp(tj: Any, wrap: Wrap, size: int) -> Call:
    model = classifier(tj, TINY)
    return forward_call(tj, wrap(loss_of(tj, model)), batch(tj, TINY, size))


def tiny_mlp_grad(tj: Any, wrap: Wrap, size: int) -> Call:
    model = classifier(tj, TINY)
    function = wrap(loss_of(tj, model))
    return gradient_call(function, batch(tj, TINY, size), list(model.parameters()))


def digits_step(tj: Any, wrap: Wrap, size: int) -> Call:
    """Forward, backward and Adam, as a training loop has them; compiled code takes the fused optimizer with it."""
    model = classifier(tj, DIGITS)
    optimizer = tj.optim.Adam(
        model.parameters(),
        lr=LEARNING_RATE,
        betas=(BETA1, BETA2),
        eps=EPSILON,
        fused=wrap is not eager,
    )
    function, args = wrap(loss_of(tj, model)), batch(tj, DIGITS, size)
    weights = list(model.parameters())

    def call() -> list[Any]:
        optimizer.zero_grad()
        loss = function(*args)
        loss.backward()
        optimizer.step()
        return [loss, *weights]

    return call


# --- Python's own control flow ------------------------------------------------------------------


def branch(tj: Any, wrap: Wrap, size: int) -> Call:
    def function(x: Any) -> Any:
        y = x.tanh() * 2.0 if x.sum() > 0 else x.sigmoid() - 1.0
        return (y * y + x).sum()

    x = tj.from_numpy(uniform(-0.5, 1.0, size)).requires_grad_()
    return gradient_call(wrap(function), (x,), [x])


CASES: tuple[Case, ...] = (
    Case("black_scholes", black_scholes, (1_000, 1_000_000), 16),
    Case("black_scholes_grad", black_scholes_grad, (1_000, 1_000_000), 16),
    Case("softmax", softmax, (4096,), 4),
    Case("layer_norm", layer_norm, (4096,), 4),
    Case("tiny_mlp", tiny_mlp, (3,), 3),
    Case("tiny_mlp_grad", tiny_mlp_grad, (3,), 3),
    Case("branch", branch, (8, 1_000), 8),
    Case("digits_step", digits_step, (64,), 8),
)


def find(name: str) -> Case:
    """The case called ``name``; ``KeyError`` when there is none."""
    return {case.name: case for case in CASES}[name]
