"""Distributions to draw from and to compute likelihoods with, under PyTorch's names."""

from __future__ import annotations

from . import constraints, kl, transforms, utils
from .bounded import (
    FisherSnedecor,
    InverseGamma,
    Kumaraswamy,
    Pareto,
    Weibull,
)
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
    register_kl,
)
from .gaussian import (
    Normal,
    Uniform,
)
from .half import (
    HalfCauchy,
    HalfNormal,
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
    Laplace,
    StudentT,
)
from .transforms import (
    AbsTransform,
    AffineTransform,
    ComposeTransform,
    ExpTransform,
    PowerTransform,
    SigmoidTransform,
    SoftmaxTransform,
    SoftplusTransform,
    StickBreakingTransform,
    TanhTransform,
    Transform,
    identity_transform,
)
from .trials import (
    Binomial,
    Multinomial,
    NegativeBinomial,
)

__all__ = [
    "AbsTransform",
    "AffineTransform",
    "Bernoulli",
    "Beta",
    "Binomial",
    "Categorical",
    "Cauchy",
    "Chi2",
    "ComposeTransform",
    "Dirichlet",
    "Distribution",
    "ExpTransform",
    "Exponential",
    "FisherSnedecor",
    "Gamma",
    "Geometric",
    "Gumbel",
    "HalfCauchy",
    "HalfNormal",
    "Independent",
    "InverseGamma",
    "Kumaraswamy",
    "Laplace",
    "LogNormal",
    "MixtureSameFamily",
    "Multinomial",
    "MultivariateNormal",
    "NegativeBinomial",
    "Normal",
    "OneHotCategorical",
    "OneHotCategoricalStraightThrough",
    "Pareto",
    "Poisson",
    "PowerTransform",
    "RelaxedBernoulli",
    "RelaxedOneHotCategorical",
    "SigmoidTransform",
    "SoftmaxTransform",
    "SoftplusTransform",
    "StickBreakingTransform",
    "StudentT",
    "TanhTransform",
    "Transform",
    "TransformedDistribution",
    "Uniform",
    "Weibull",
    "constraints",
    "identity_transform",
    "kl",
    "kl_divergence",
    "register_kl",
    "transforms",
    "utils",
]

from . import paths as _paths  # noqa: F401  (when all names are there)
