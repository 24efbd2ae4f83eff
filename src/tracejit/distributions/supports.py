"""Where the values of each kind of distribution lie: its ``support``, a constraint."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from . import constraints as c
from .bounded import FisherSnedecor, InverseGamma, Kumaraswamy, Pareto, Weibull
from .circular import VonMises
from .compound import Independent, LogNormal, MixtureSameFamily, MultivariateNormal
from .counts import (
    Geometric,
    OneHotCategorical,
    Poisson,
    RelaxedBernoulli,
    RelaxedOneHotCategorical,
)
from .discrete import Bernoulli, Categorical
from .distribution import Distribution
from .exponential_families import ContinuousBernoulli, GeneralizedPareto
from .gaussian import Normal, Uniform
from .half import HalfCauchy, HalfNormal
from .low_rank import LogisticNormal, LowRankMultivariateNormal
from .matrix_valued import LKJCholesky, Wishart
from .positive import Beta, Dirichlet, Exponential, Gamma
from .tails import Cauchy, Gumbel, Laplace, StudentT
from .trials import Binomial, Multinomial, NegativeBinomial

__all__: list[str] = []

#: One constraint for all distributions of a kind.
_FIXED: dict[c.Constraint, tuple[type[Distribution], ...]] = {
    c.real: (Normal, Laplace, Cauchy, Gumbel, StudentT, VonMises),
    c.real_vector: (MultivariateNormal, LowRankMultivariateNormal),
    c.positive: (FisherSnedecor, InverseGamma, LogNormal, Weibull),
    c.nonnegative: (Exponential, Gamma, HalfCauchy, HalfNormal),
    c.unit_interval: (Beta, ContinuousBernoulli, Kumaraswamy, RelaxedBernoulli),
    c.simplex: (Dirichlet, LogisticNormal, RelaxedOneHotCategorical),
    c.nonnegative_integer: (Geometric, NegativeBinomial, Poisson),
    c.boolean: (Bernoulli,),
    c.one_hot: (OneHotCategorical,),
    c.positive_definite: (Wishart,),
    c.corr_cholesky: (LKJCholesky,),
}


def _independent(p: Independent) -> c.Constraint:
    support: c.Constraint = p.base_dist.support
    count = p.reinterpreted_batch_ndims
    return c.independent(support, count) if count else support


def _above(p: GeneralizedPareto) -> c.Constraint:
    ends = p.concentration < 0
    most = p.loc - p.scale / p.concentration.where(ends, -1.0)
    return c.interval(p.loc, most.where(ends, math.inf))


#: Constraints that depend on parameters.
_OF_PARAMETERS: dict[type[Distribution], Callable[[Any], c.Constraint]] = {
    Uniform: lambda p: c.interval(p.low, p.high),
    GeneralizedPareto: _above,
    Pareto: lambda p: c.greater_than_eq(p.scale),
    Binomial: lambda p: c.integer_interval(0, p.total_count),
    Multinomial: lambda p: c.multinomial(p.total_count),
    Categorical: lambda p: c.integer_interval(0, p.probs.shape[-1] - 1),
    Independent: _independent,
    MixtureSameFamily: lambda p: p.component_distribution.support,
}

for _support, _kinds in _FIXED.items():
    for _kind in _kinds:
        _kind.support = _support
for _kind, _given in _OF_PARAMETERS.items():
    _kind.support = c.dependent_property(
        _given,
        is_discrete=_kind in (Binomial, Categorical, Multinomial),
        event_dim=int(_kind is Multinomial),
    )
