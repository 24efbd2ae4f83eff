"""The module paths that PyTorch has for distributions: ``from tracejit.distributions.normal import Normal``."""

from __future__ import annotations

import sys
from typing import Any

from ..made_modules import make_module
from . import transforms
from .normal_vectors import _precision_to_scale_tril
from .relaxed import ExpRelaxedCategorical, LogitRelaxedBernoulli

__all__: list[str] = []

_PATHS = (
    *("bernoulli", "beta", "binomial", "categorical", "cauchy", "chi2", "continuous_bernoulli"),
    *("dirichlet", "exponential", "fishersnedecor", "gamma", "geometric", "gumbel", "half_cauchy"),
    *(
        "generalized_pareto",
        "half_normal",
        "independent",
        "inverse_gamma",
        "kl",
        "kumaraswamy",
        "laplace",
        "lkj_cholesky",
        "log_normal",
    ),
    *("logistic_normal", "lowrank_multivariate_normal", "mixture_same_family", "multinomial"),
    *("multivariate_normal", "negative_binomial", "normal", "one_hot_categorical", "pareto"),
    *("poisson", "relaxed_bernoulli", "relaxed_categorical", "studentT", "uniform", "von_mises"),
    *("transformed_distribution", "weibull", "wishart"),
)

#: What is in one of them only.
_APART: dict[str, Any] = {
    "multivariate_normal": _precision_to_scale_tril,
    "relaxed_bernoulli": LogitRelaxedBernoulli,
    "relaxed_categorical": ExpRelaxedCategorical,
}


def _make_all() -> None:
    package = sys.modules[__package__ or ""]
    for name in _PATHS:
        make_module(f"distributions.{name}", package, transforms)
    for name, found in _APART.items():
        sys.modules[f"{__package__}.{name}"].__dict__[found.__name__] = found


_make_all()
