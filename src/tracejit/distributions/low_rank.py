"""Normal vectors whose covariance is of low rank but for a diagonal, and normal vectors as shares of a whole."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..ops.functions.linear_algebra import cholesky, inverse
from ..ops.functions.sampling import randn
from ..ops.functions.shaping import broadcast_shapes
from ..ops.functions.systems import solve_triangular
from ..ops.functions.triangles import diag_embed
from .compound import TransformedDistribution
from .distribution import Distribution, kl_divergence, register_kl
from .gaussian import Normal
from .joined_transforms import StickBreakingTransform
from .normal_vectors import MultivariateNormal

__all__ = ["LogisticNormal", "LowRankMultivariateNormal"]


class LowRankMultivariateNormal(Distribution):
    """Normal vectors (n,) of mean ``loc`` and covariance ``cov_factor @ cov_factor.mT + diag(cov_diag)``.

    ``cov_factor`` is (n, rank): densities cost rank² n instead of n³ (by Woodbury's identity). Raises ``ValueError``
    for shapes that do not fit.

    >>> import tracejit as tj
    >>> D = tj.distributions
    >>> D.LowRankMultivariateNormal(tj.zeros(2), tj.ones(2, 1), tj.ones(2)).covariance_matrix
    tensor([[2., 1.],
            [1., 2.]])
    """

    has_rsample = True

    def __init__(
        self, loc: Any, cov_factor: Any, cov_diag: Any, validate_args: bool | None = None
    ) -> None:
        if loc.ndim < 1:
            raise ValueError("loc must be at least one-dimensional.")
        n = loc.shape[-1]
        if cov_factor.ndim < 2 or cov_factor.shape[-2] != n:
            raise ValueError(
                f"cov_factor must be a batch of matrices with shape [..., {n}, m] for any m"
            )
        if cov_diag.ndim < 1 or cov_diag.shape[-1] != n:
            raise ValueError(f"cov_diag must be a batch of vectors with shape [..., {n}]")
        batch = broadcast_shapes(
            tuple(loc.shape[:-1]), tuple(cov_factor.shape[:-2]), tuple(cov_diag.shape[:-1])
        )
        self.loc = loc.expand((*batch, n))
        self.cov_factor = cov_factor.expand((*batch, *cov_factor.shape[-2:]))
        self.cov_diag = cov_diag.expand((*batch, n))
        super().__init__(batch, (n,), validate_args)
        scaled = self.cov_factor.mT / self.cov_diag.unsqueeze(-2)
        inner = scaled @ self.cov_factor
        self._inner = cholesky(inner + diag_embed(inner.new_ones(inner.shape[-1])))

    @property
    def mean(self) -> Any:
        """``loc``."""
        return self.loc

    @property
    def mode(self) -> Any:
        """``loc``."""
        return self.loc

    @property
    def variance(self) -> Any:
        """The diagonal of the covariance."""
        return self.cov_factor.pow(2).sum(-1) + self.cov_diag

    @property
    def covariance_matrix(self) -> Any:
        """The covariance."""
        return self.cov_factor @ self.cov_factor.mT + diag_embed(self.cov_diag)

    @property
    def scale_tril(self) -> Any:
        """The lower triangular root of the covariance."""
        return cholesky(self.covariance_matrix)

    @property
    def precision_matrix(self) -> Any:
        """The inverse of the covariance."""
        return inverse(self.covariance_matrix)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        """``loc + cov_factor @ noise + sqrt(cov_diag) * noise``."""
        shape = self._extended(sample_shape)
        few = (*shape[:-1], self.cov_factor.shape[-1])
        common = randn(few, dtype=self.loc.dtype).unsqueeze(-1)
        own = randn(shape, dtype=self.loc.dtype)
        return self.loc + (self.cov_factor @ common).squeeze(-1) + self.cov_diag.sqrt() * own

    def _log_det(self) -> Any:
        return 2 * self._inner.diagonal(dim1=-2, dim2=-1).log().sum(-1) + self.cov_diag.log().sum(
            -1
        )

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density."""
        if self._validate_args:
            self._validate_sample(value)
        away = value - self.loc
        scaled = (away / self.cov_diag).unsqueeze(-2) @ self.cov_factor
        batch = broadcast_shapes(tuple(scaled.shape[:-2]), tuple(self._inner.shape[:-2]))
        inner = self._inner.expand((*batch, *self._inner.shape[-2:]))
        within = solve_triangular(inner, scaled.mT, upper=False).pow(2).sum((-2, -1))
        square = (away.pow(2) / self.cov_diag).sum(-1) - within
        size = self._event_shape[0] * math.log(2 * math.pi)
        return -0.5 * (size + self._log_det() + square)

    def entropy(self) -> Any:
        """(n (1 + log 2π) + log |covariance|) / 2."""
        return 0.5 * (self._event_shape[0] * (1.0 + math.log(2 * math.pi)) + self._log_det())


def _whole(p: Any) -> MultivariateNormal:
    return (
        p if isinstance(p, MultivariateNormal) else MultivariateNormal(p.loc, p.covariance_matrix)
    )


def _between_whole(p: Any, q: Any) -> Any:
    if p.event_shape != q.event_shape:
        raise ValueError(
            "KL-divergence between two (Low Rank) Multivariate Normals with different event shapes cannot be computed"
        )
    return kl_divergence(_whole(p), _whole(q))


for _kinds in (
    (LowRankMultivariateNormal, LowRankMultivariateNormal),
    (LowRankMultivariateNormal, MultivariateNormal),
    (MultivariateNormal, LowRankMultivariateNormal),
):
    register_kl(*_kinds)(_between_whole)


class LogisticNormal(TransformedDistribution):
    """Shares of a whole, n + 1 of them, that normal vectors of n independent numbers are turned into.

    Raises ``ValueError`` unless every scale is positive.

    >>> import tracejit as tj
    >>> tj.distributions.LogisticNormal(tj.zeros(2), tj.ones(2)).event_shape
    tracejit.Size([3])
    """

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        base = Normal(loc, scale, validate_args=validate_args)
        if not base.batch_shape:
            base = base.expand((1,))
        super().__init__(base, StickBreakingTransform(), validate_args)

    def _check_arguments(self) -> None:
        """Nothing: the normal distribution has looked at them."""

    @property
    def loc(self) -> Any:
        """The means of the normal numbers."""
        base: Any = self.base_dist
        return base.base_dist.loc

    @property
    def scale(self) -> Any:
        """The standard deviations of the normal numbers."""
        base: Any = self.base_dist
        return base.base_dist.scale
