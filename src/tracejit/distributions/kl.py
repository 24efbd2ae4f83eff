"""Divergences between kinds of distributions: minus the entropy of one, minus the mean log density of the other.

That mean needs a few moments only, so each kind states its moments and each kind what it needs of them. Where one
distribution reaches values that the other never takes, the divergence is infinite.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ..ops.functions.factories import full
from .bounded import Pareto
from .counts import Geometric, Poisson
from .discrete import Bernoulli
from .distribution import Distribution, divergence, kl_divergence, register_kl
from .exponential_families import ContinuousBernoulli
from .gaussian import Normal, Uniform
from .positive import Beta, Exponential, Gamma
from .tails import Gumbel, Laplace
from .trials import Binomial
from .utils import euler_constant

__all__ = ["kl_divergence", "register_kl"]

Moment = Callable[[Any], Any]


def _uniform_log(p: Any) -> Any:
    low, high = p.low.clamp(min=0), p.high.clamp(min=0)
    return (high.xlogy(high) - low.xlogy(low)) / (p.high - p.low) - 1


#: The mean of log x.
_LOG: dict[type[Distribution], Moment] = {
    Beta: lambda p: p.concentration1.digamma() - (p.concentration1 + p.concentration0).digamma(),
    Exponential: lambda p: -p.rate.log() - euler_constant,
    Gamma: lambda p: p.concentration.digamma() - p.rate.log(),
    Pareto: lambda p: p.scale.log() + p.alpha.reciprocal(),
    Uniform: _uniform_log,
}
#: The mean of exp(-x / scale).
_DECAY: dict[type[Distribution], Callable[[Any, Any], Any]] = {
    Exponential: lambda p, scale: p.rate * scale / (1 + p.rate * scale),
    Gamma: lambda p, scale: (1 + (p.rate * scale).reciprocal()).pow(-p.concentration),
    Normal: lambda p, scale: (0.5 * (p.scale / scale).square() - p.loc / scale).exp(),
    Uniform: lambda p, scale: (
        scale * ((-p.low / scale).exp() - (-p.high / scale).exp()) / (p.high - p.low)
    ),
}
_BELOW_ZERO = (Gumbel, Laplace, Normal)


def _by_moments(kind: type[Distribution], other: type[Distribution], mean_log: Any) -> None:
    """Declare the divergence of ``kind`` from ``other``, whose mean log density is ``mean_log(p, q)``."""
    register_kl(kind, other)(lambda p, q: -p.entropy() - mean_log(p, q))


def _log_normal_density(p: Any, q: Any) -> Any:
    squares = p.variance + (p.mean - q.loc).square()
    return -0.5 * math.log(2 * math.pi) - q.scale.log() - squares / (2 * q.scale.square())


def _log_exponential(p: Any, q: Any) -> Any:
    found = q.rate.log() - q.rate * p.mean
    return found.masked_fill(p.low < 0, -math.inf) if isinstance(p, Uniform) else found


def _log_gamma(p: Any, q: Any) -> Any:
    a, b = q.concentration, q.rate
    found = a * b.log() - a.lgamma() + (a - 1) * _LOG[_kind(p)](p) - b * p.mean
    return found.masked_fill(p.low < 0, -math.inf) if isinstance(p, Uniform) else found


def _log_gumbel(p: Any, q: Any) -> Any:
    decay = (q.loc / q.scale).exp() * _DECAY[_kind(p)](p, q.scale)
    return (q.loc - p.mean) / q.scale - decay - q.scale.log()


def _kind(p: Any) -> type[Distribution]:
    return next(kind for kind in type(p).__mro__ if kind in _LOG or kind in _DECAY)


_p: type[Distribution]
_q: type[Distribution]
for _p in (Beta, Exponential, Gamma, Gumbel, Laplace, Pareto, Uniform):
    _by_moments(_p, Normal, _log_normal_density)
for _p in (Beta, Gamma, Pareto, Uniform):
    _by_moments(_p, Exponential, _log_exponential)
for _p in (Beta, Exponential, Pareto, Uniform):
    _by_moments(_p, Gamma, _log_gamma)
for _p in (Exponential, Gamma, Normal, Uniform):
    _by_moments(_p, Gumbel, _log_gumbel)
_by_moments(ContinuousBernoulli, Normal, _log_normal_density)
_by_moments(ContinuousBernoulli, Exponential, lambda p, q: q.rate.log() - q.rate * p.mean)
for _p in (Beta, Uniform):
    _by_moments(_p, ContinuousBernoulli, lambda p, q: q.logits * p.mean - q._log_normalizer())
_by_moments(Bernoulli, Poisson, lambda p, q: p.probs * q.rate.log() - q.rate)


def _infinite(p: Any, q: Any) -> Any:
    return full(p.batch_shape, math.inf, dtype=p.mean.dtype)


_NEVER: list[tuple[type[Distribution], type[Distribution]]] = [
    *((kind, other) for kind in _BELOW_ZERO for other in (Beta, Exponential, Gamma, Pareto)),
    *((kind, Uniform) for kind in (Exponential, Gamma, Pareto, *_BELOW_ZERO)),
    *((kind, Beta) for kind in (Exponential, Gamma, Pareto)),
    *((kind, Pareto) for kind in (Beta, Exponential, Gamma)),
    *((kind, ContinuousBernoulli) for kind in (Exponential, Gamma, Pareto, *_BELOW_ZERO)),
    (ContinuousBernoulli, Pareto),
    (Poisson, Bernoulli),
    (Poisson, Binomial),
]
for _p, _q in _NEVER:
    register_kl(_p, _q)(_infinite)


@register_kl(ContinuousBernoulli, Uniform)
@register_kl(Beta, Uniform)
def _from_shares_to_uniform(p: Any, q: Uniform) -> Any:
    found = -p.entropy() + (q.high - q.low).log()
    return found.masked_fill((q.low > 0) | (q.high < 1), math.inf)


@divergence(Uniform)
def _between_uniforms(p: Uniform, q: Uniform) -> Any:
    found = ((q.high - q.low) / (p.high - p.low)).log()
    return found.masked_fill((q.low > p.low) | (q.high < p.high), math.inf)


@register_kl(Uniform, Beta)
def _from_uniform_to_beta(p: Uniform, q: Beta) -> Any:
    a, b = q.concentration1, q.concentration0
    mirrored = Uniform(1 - p.high, 1 - p.low, False)
    mean = (a - 1) * _uniform_log(p) + (b - 1) * _uniform_log(mirrored)
    found = -p.entropy() - (mean + (a + b).lgamma() - a.lgamma() - b.lgamma())
    return found.masked_fill((p.low < 0) | (p.high > 1), math.inf)


@register_kl(Uniform, Pareto)
def _from_uniform_to_pareto(p: Uniform, q: Pareto) -> Any:
    mean = q.alpha.log() + q.alpha * q.scale.log() - (q.alpha + 1) * _uniform_log(p)
    return (-p.entropy() - mean).masked_fill(p.low < q.scale, math.inf)


@register_kl(Normal, Laplace)
def _from_normal_to_laplace(p: Normal, q: Laplace) -> Any:
    away = (p.loc - q.loc) / p.scale
    folded = math.sqrt(2 / math.pi) * (-0.5 * away.square()).exp()
    distance = p.scale * (folded + away * (away / math.sqrt(2)).erf())
    return -p.entropy() + (2 * q.scale).log() + distance / q.scale


@divergence(Geometric)
def _between_geometrics(p: Geometric, q: Geometric) -> Any:
    return -p.entropy() - (p.mean * (-q.probs).log1p() + q.probs.log())
