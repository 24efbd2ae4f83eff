"""Distributions to draw from and to compute likelihoods with, under PyTorch's names."""

from __future__ import annotations

from .compound import (
    Independent,
    LogNormal,
    MixtureSameFamily,
    MultivariateNormal,
    TransformedDistribution,
)
from .counts import (
    Geometric,
    OneHotCategorical,
    OneHotCategoricalStraightThrough,
    Poisson,
    RelaxedBernoulli,
    RelaxedOneHotCategorical,
)
from .discrete import (
    Bernoulli,
    Categorical,
)
from .distribution import (
    Distribution,
    kl_divergence,
)
from .gaussian import (
    Normal,
    Uniform,
)
from .positive import (
    Beta,
    Chi2,
    Dirichlet,
    Exponential,
    Gamma,
)
from .tails import (
    Cauchy,
    Gumbel,
    HalfNormal,
    Laplace,
    StudentT,
)
from .transforms import (
    AffineTransform,
    ComposeTransform,
    ExpTransform,
    PowerTransform,
    SigmoidTransform,
    SoftplusTransform,
    TanhTransform,
    Transform,
)

__all__ = [
    "AffineTransform",
    "Bernoulli",
    "Beta",
    "Categorical",
    "Cauchy",
    "Chi2",
    "ComposeTransform",
    "Dirichlet",
    "Distribution",
    "ExpTransform",
    "Exponential",
    "Gamma",
    "Geometric",
    "Gumbel",
    "HalfNormal",
    "Independent",
    "Laplace",
    "LogNormal",
    "MixtureSameFamily",
    "MultivariateNormal",
    "Normal",
    "OneHotCategorical",
    "OneHotCategoricalStraightThrough",
    "Poisson",
    "PowerTransform",
    "RelaxedBernoulli",
    "RelaxedOneHotCategorical",
    "SigmoidTransform",
    "SoftplusTransform",
    "StudentT",
    "TanhTransform",
    "Transform",
    "TransformedDistribution",
    "Uniform",
    "kl_divergence",
]
