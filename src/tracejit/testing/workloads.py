"""Small real programs to measure: what ``tracejit bench`` and the benchmark suite run.

A workload makes a function and its arguments from a namespace and a size. Only names that PyTorch has too are used, so
the namespace may be ``tracejit`` or ``torch``, and the same program can be measured in both.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["WORKLOADS", "Workload", "runner"]

Program = tuple[Callable[..., Any], tuple[Any, ...]]


@dataclass(frozen=True)
class Workload:
    """A program to measure.

    ``make(tj, size)`` gives a function and its arguments. ``mode`` says what one measurement runs: the function under
    ``no_grad`` ("forward"), the function and ``backward()`` of its result ("backward"), or that and an optimizer
    ("step"). ``sizes`` are those of a full run, ``quick`` the one of a short run.
    """

    name: str
    make: Callable[[Any, int], Program]
    mode: str
    sizes: tuple[int, ...]
    quick: int


def runner(workload: Workload, tj: Any, function: Callable[..., Any], args: Sequence[Any]) -> Any:
    """A callable without arguments that runs one measurement and returns the function's result.

    ``function`` is what ``workload.make`` gave, as it is or compiled. Gradients are cleared first, so every run of
    the callable does the same work.

    >>> import tracejit as tj
    >>> softmax = next(w for w in WORKLOADS if w.name == "softmax")
    >>> function, args = softmax.make(tj, 2)
    >>> runner(softmax, tj, function, args)().shape == args[0].shape
    True
    """
    leaves = [x for x in args if getattr(x, "requires_grad", False)]
    optimizer = tj.optim.SGD(leaves, lr=1e-3) if workload.mode == "step" else None

    def forward() -> Any:
        with tj.no_grad():
            return function(*args)

    def train() -> Any:
        for leaf in leaves:
            leaf.grad = None
        loss = function(*args)
        loss.backward()
        if optimizer is not None:
            optimizer.step()
        return loss

    return forward if workload.mode == "forward" else train


def _uniform(tj: Any, low: float, high: float, *shape: int, seed: int = 0) -> Any:
    """A float32 tensor of uniform draws; NumPy draws them, so every namespace gets the same."""
    draws = np.random.default_rng(seed).uniform(low, high, shape)
    return tj.from_numpy(draws.astype(np.float32))


def _normal_cdf(x: Any) -> Any:
    return 0.5 * (1.0 + (x * math.sqrt(0.5)).erf())


def _call_price(spot: Any, strike: Any, years: Any, rate: Any, volatility: Any) -> Any:
    """Black and Scholes (1973): the price of a European call option."""
    spread = volatility * years.sqrt()
    d1 = ((spot / strike).log() + (rate + 0.5 * volatility * volatility) * years) / spread
    discount = (-rate * years).exp()
    return spot * _normal_cdf(d1) - strike * discount * _normal_cdf(d1 - spread)


def _market(tj: Any, size: int) -> tuple[Any, ...]:
    ranges = ((80.0, 120.0), (90.0, 110.0), (0.2, 2.0), (0.01, 0.05), (0.1, 0.5))
    return tuple(_uniform(tj, *ends, size, seed=k) for k, ends in enumerate(ranges))


def _black_scholes(tj: Any, size: int) -> Program:
    return _call_price, _market(tj, size)


def _black_scholes_gradient(tj: Any, size: int) -> Program:
    def value(spot: Any, strike: Any, years: Any, rate: Any, volatility: Any) -> Any:
        return _call_price(spot, strike, years, rate, volatility).sum()

    return value, tuple(x.requires_grad_() for x in _market(tj, size))


def _softmax(tj: Any, size: int) -> Program:
    def softmax(x: Any) -> Any:
        return tj.nn.functional.softmax(x, dim=-1)

    return softmax, (_uniform(tj, -4.0, 4.0, size, 768),)


def _layer_norm(tj: Any, size: int) -> Program:
    def layer_norm(x: Any, weight: Any, bias: Any) -> Any:
        return tj.nn.functional.layer_norm(x, (768,), weight, bias)

    parameters = _uniform(tj, 0.5, 1.5, 768, seed=1), _uniform(tj, -0.5, 0.5, 768, seed=2)
    return layer_norm, (_uniform(tj, -4.0, 4.0, size, 768), *parameters)


def _classifier(tj: Any, batch: int, widths: Sequence[int]) -> Program:
    """Cross entropy of a fully connected network with ReLU between its layers."""

    def loss(x: Any, labels: Any, *parameters: Any) -> Any:
        for weight, bias in zip(parameters[0:-2:2], parameters[1:-2:2], strict=True):
            x = tj.nn.functional.relu(x @ weight + bias)
        return tj.nn.functional.cross_entropy(x @ parameters[-2] + parameters[-1], labels)

    labels = np.random.default_rng(1).integers(0, widths[-1], batch)
    args = [_uniform(tj, -1.0, 1.0, batch, widths[0]), tj.from_numpy(labels)]
    for seed, (fan_in, fan_out) in enumerate(itertools.pairwise(widths)):
        bound = 1.0 / math.sqrt(fan_in)
        args.append(_uniform(tj, -bound, bound, fan_in, fan_out, seed=seed).requires_grad_())
        args.append(_uniform(tj, -bound, bound, fan_out, seed=seed + 9).requires_grad_())
    return loss, tuple(args)


def _mlp(tj: Any, size: int) -> Program:
    return _classifier(tj, size, (64, 128, 128, 10))


def _tiny_mlp(tj: Any, size: int) -> Program:
    return _classifier(tj, size, (4, 8, 2))


def _branch(tj: Any, size: int) -> Program:
    def branch(x: Any) -> Any:
        y = x.tanh() * 2.0 if x.sum() > 0 else x.sigmoid() - 1.0
        return (y * y + x).sum()

    return branch, (_uniform(tj, -0.5, 1.0, size).requires_grad_(),)


WORKLOADS: tuple[Workload, ...] = (
    Workload("black_scholes", _black_scholes, "forward", (1_000, 1_000_000), 10_000),
    Workload("black_scholes_grad", _black_scholes_gradient, "backward", (1_000, 1_000_000), 10_000),
    Workload("softmax", _softmax, "forward", (4096,), 128),
    Workload("layer_norm", _layer_norm, "forward", (4096,), 128),
    Workload("mlp_step", _mlp, "step", (64, 512), 64),
    Workload("tiny_mlp", _tiny_mlp, "forward", (3,), 3),
    Workload("tiny_mlp_grad", _tiny_mlp, "backward", (3,), 3),
    Workload("branch", _branch, "backward", (1_000, 100_000), 1_000),
)
