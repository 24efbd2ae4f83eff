"""Where the values of each kind of distribution lie, its ``support``, and its parameters, its ``arg_constraints``."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from . import constraints as c
from .bounded import FisherSnedecor, InverseGamma, Kumaraswamy, Pareto, Weibull
from .circular import VonMises
from .compound import Independent, LogNormal, MixtureSameFamily, TransformedDistribution
from .counts import Geometric, OneHotCategorical, Poisson
from .discrete import Bernoulli, Categorical
from .distribution import Distribution
from .domains import widened
from .exponential_families import ContinuousBernoulli, GeneralizedPareto
from .gaussian import Moved, Normal, Uniform
from .half import HalfCauchy, HalfNormal
from .low_rank import LogisticNormal, LowRankMultivariateNormal
from .matrix_valued import LKJCholesky, Wishart
from .normal_vectors import MultivariateNormal
from .positive import Beta, Chi2, Dirichlet, Exponential, Gamma
from .relaxed import (
    ExpRelaxedCategorical,
    LogitRelaxedBernoulli,
    RelaxedBernoulli,
    RelaxedOneHotCategorical,
)
from .tails import Cauchy, Gumbel, Laplace, StudentT
from .trials import Binomial, Multinomial, NegativeBinomial

__all__: list[str] = []

#: One constraint for all distributions of a kind.
_FIXED: dict[c.Constraint, tuple[type[Distribution], ...]] = {
    c.real: (Normal, Laplace, LogitRelaxedBernoulli, Cauchy, Gumbel, StudentT, VonMises),
    c.real_vector: (ExpRelaxedCategorical, MultivariateNormal, LowRankMultivariateNormal),
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


def _transformed(p: TransformedDistribution) -> Any:
    end = p.transforms[-1].codomain if p.transforms else p.base_dist.support
    return widened(end, len(p.event_shape))


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
    TransformedDistribution: _transformed,
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


#: What parameters must satisfy, of all distributions of some kinds.
_MOVED = {"loc": c.real, "scale": c.positive}
_CHANCES = {"probs": c.unit_interval, "logits": c.real}
_CATEGORIES = {"probs": c.simplex, "logits": c.real_vector}
_GAMMA = {"concentration": c.positive, "rate": c.positive}
_ROOTS = {
    "covariance_matrix": c.positive_definite,
    "precision_matrix": c.positive_definite,
    "scale_tril": c.lower_cholesky,
}

_CONSTRAINTS: dict[tuple[type[Distribution], ...], dict[str, Any]] = {
    (Gumbel, Moved, LogNormal, LogisticNormal): _MOVED,
    (Bernoulli, ContinuousBernoulli, Geometric): _CHANCES,
    (LogitRelaxedBernoulli, RelaxedBernoulli): _CHANCES,
    (Binomial,): {"total_count": c.nonnegative_integer, **_CHANCES},
    (NegativeBinomial,): {
        "total_count": c.greater_than_eq(0),
        "probs": c.half_open_interval(0.0, 1.0),
        "logits": c.real,
    },
    (Categorical, Multinomial, OneHotCategorical): _CATEGORIES,
    (ExpRelaxedCategorical, RelaxedOneHotCategorical): _CATEGORIES,
    (Gamma, InverseGamma): _GAMMA,
    (Chi2,): {"df": c.positive},
    (Dirichlet,): {"concentration": c.independent(c.positive, 1)},
    (Exponential,): {"rate": c.positive},
    (Poisson,): {"rate": c.nonnegative},
    (FisherSnedecor,): {"df1": c.positive, "df2": c.positive},
    (GeneralizedPareto,): {**_MOVED, "concentration": c.real},
    (HalfCauchy, HalfNormal): {"scale": c.positive},
    (Beta, Kumaraswamy): {"concentration1": c.positive, "concentration0": c.positive},
    (LKJCholesky,): {"concentration": c.positive},
    (LowRankMultivariateNormal,): {
        "loc": c.real_vector,
        "cov_factor": c.independent(c.real, 2),
        "cov_diag": c.independent(c.positive, 1),
    },
    (MultivariateNormal,): {"loc": c.real_vector, **_ROOTS},
    (Pareto,): {"alpha": c.positive, "scale": c.positive},
    (StudentT,): {"df": c.positive, **_MOVED},
    (VonMises,): {"loc": c.real, "concentration": c.positive},
    (Weibull,): {"scale": c.positive, "concentration": c.positive},
}

#: Those of one parameter that depend on others.
_OF_OTHERS: dict[type[Distribution], Callable[[Any], dict[str, Any]]] = {
    Uniform: lambda p: {"low": c.less_than(p.high), "high": c.greater_than(p.low)},
    Wishart: lambda p: {**_ROOTS, "df": c.greater_than(p.event_shape[-1] - 1)},
}

for _kinds, _constraints in _CONSTRAINTS.items():
    for _kind in _kinds:
        _kind.arg_constraints = _constraints
for _kind, _bounds in _OF_OTHERS.items():
    _kind.arg_constraints = property(_bounds)

#: Those of which the class already says that draws are functions of the parameters.
for _kind in (HalfCauchy, HalfNormal, InverseGamma, Kumaraswamy, LogNormal, LogisticNormal):
    setattr(_kind, "has_rsample", True)  # noqa: B010  (a property of the class below)
for _kind in (RelaxedBernoulli, RelaxedOneHotCategorical):
    setattr(_kind, "has_rsample", True)  # noqa: B010
