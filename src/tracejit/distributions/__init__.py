"""Distributions to draw from and to compute likelihoods with, under PyTorch's names."""

from __future__ import annotations

from . import constraint_registry, constraints, domains, kl, supports, transforms, utils
from .bounded import (
    FisherSnedecor,
    InverseGamma,
    Kumaraswamy,
    Pareto,
    Weibull,
)
from .circular import VonMises
from .composed import ComposeTransform, identity_transform
from .compound import (
    Independent,
    LogNormal,
    MixtureSameFamily,
    TransformedDistribution,
)
from .constraint_registry import biject_to, transform_to
from .counts import (
    Geometric,
    OneHotCategorical,
    OneHotCategoricalStraightThrough,
    Poisson,
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
from .exp_family import ExponentialFamily
from .exponential_families import ContinuousBernoulli, GeneralizedPareto
from .gaussian import (
    Normal,
    Uniform,
)
from .half import (
    HalfCauchy,
    HalfNormal,
)
from .joined_transforms import (
    CatTransform,
    CorrCholeskyTransform,
    CumulativeDistributionTransform,
    IndependentTransform,
    LowerCholeskyTransform,
    PositiveDefiniteTransform,
    ReshapeTransform,
    StackTransform,
    StickBreakingTransform,
)
from .low_rank import LogisticNormal, LowRankMultivariateNormal
from .matrix_valued import LKJCholesky, Wishart
from .normal_vectors import MultivariateNormal
from .one_way import AbsTransform, SoftmaxTransform
from .positive import (
    Beta,
    Chi2,
    Dirichlet,
    Exponential,
    Gamma,
)
from .relaxed import (
    RelaxedBernoulli,
    RelaxedOneHotCategorical,
)
from .tails import (
    Cauchy,
    Gumbel,
    Laplace,
    StudentT,
)
from .transforms import (
    AffineTransform,
    ExpTransform,
    PowerTransform,
    SigmoidTransform,
    SoftplusTransform,
    TanhTransform,
    Transform,
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
    "CatTransform",
    "Categorical",
    "Cauchy",
    "Chi2",
    "ComposeTransform",
    "ContinuousBernoulli",
    "CorrCholeskyTransform",
    "CumulativeDistributionTransform",
    "Dirichlet",
    "Distribution",
    "ExpTransform",
    "Exponential",
    "ExponentialFamily",
    "FisherSnedecor",
    "Gamma",
    "GeneralizedPareto",
    "Geometric",
    "Gumbel",
    "HalfCauchy",
    "HalfNormal",
    "Independent",
    "IndependentTransform",
    "InverseGamma",
    "Kumaraswamy",
    "LKJCholesky",
    "Laplace",
    "LogNormal",
    "LogisticNormal",
    "LowRankMultivariateNormal",
    "LowerCholeskyTransform",
    "MixtureSameFamily",
    "Multinomial",
    "MultivariateNormal",
    "NegativeBinomial",
    "Normal",
    "OneHotCategorical",
    "OneHotCategoricalStraightThrough",
    "Pareto",
    "Poisson",
    "PositiveDefiniteTransform",
    "PowerTransform",
    "RelaxedBernoulli",
    "RelaxedOneHotCategorical",
    "ReshapeTransform",
    "SigmoidTransform",
    "SoftmaxTransform",
    "SoftplusTransform",
    "StackTransform",
    "StickBreakingTransform",
    "StudentT",
    "TanhTransform",
    "Transform",
    "TransformedDistribution",
    "Uniform",
    "VonMises",
    "Weibull",
    "Wishart",
    "biject_to",
    "constraint_registry",
    "constraints",
    "domains",
    "identity_transform",
    "kl",
    "kl_divergence",
    "register_kl",
    "supports",
    "transform_to",
    "transforms",
    "utils",
]

from . import paths as _paths  # noqa: F401  (when all names are there)
