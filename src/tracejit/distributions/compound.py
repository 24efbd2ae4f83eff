"""Distributions made of others: independent, transformed and mixed ones, and normal vectors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..autograd.grad_mode import no_grad
from ..ops.functions.linear_algebra import cholesky, inverse
from ..ops.functions.sampling import randn
from ..ops.functions.systems import solve_triangular
from ..ops.functions.triangles import eye
from .discrete import Categorical
from .distribution import Distribution, divergence, kl_divergence
from .gaussian import Normal
from .transforms import ComposeTransform, ExpTransform, Transform

__all__ = [
    "Independent",
    "LogNormal",
    "MixtureSameFamily",
    "MultivariateNormal",
    "TransformedDistribution",
]


def _summed(x: Any, count: int) -> Any:
    """The sum over the last ``count`` dimensions."""
    return x.sum(tuple(range(-count, 0))) if count else x


class Independent(Distribution):
    """A distribution whose last batch dimensions are one event. Raises ``ValueError`` for more than there are.

    >>> import tracejit as tj
    >>> normal = tj.distributions.Normal(tj.zeros(2, 3), 1.0)
    >>> tj.distributions.Independent(normal, 1).log_prob(tj.zeros(2, 3)).shape
    tracejit.Size([2])
    """

    def __init__(
        self,
        base_distribution: Distribution,
        reinterpreted_batch_ndims: int,
        validate_args: bool | None = None,
    ) -> None:
        count, batch = reinterpreted_batch_ndims, tuple(base_distribution.batch_shape)
        if count > len(batch):
            raise ValueError(
                "Expected reinterpreted_batch_ndims <= len(base_distribution.batch_shape), "
                f"actual {count} vs {len(batch)}"
            )
        self.base_dist = base_distribution
        self.reinterpreted_batch_ndims = count
        cut = len(batch) - count
        event = (*batch[cut:], *base_distribution.event_shape)
        super().__init__(batch[:cut], event, validate_args)

    @property
    def has_rsample(self) -> bool:  # type: ignore[override]
        """As the base has."""
        return self.base_dist.has_rsample

    @property
    def mean(self) -> Any:
        """Of the base."""
        return self.base_dist.mean

    @property
    def variance(self) -> Any:
        """Of the base."""
        return self.base_dist.variance

    @property
    def mode(self) -> Any:
        """Of the base."""
        return self.base_dist.mode

    def sample(self, sample_shape: Sequence[int] = ()) -> Any:
        """Draws of the base."""
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        """Draws of the base."""
        return self.base_dist.rsample(sample_shape)

    def log_prob(self, value: Any) -> Any:
        """The sum over the event."""
        return _summed(self.base_dist.log_prob(value), self.reinterpreted_batch_ndims)

    def entropy(self) -> Any:
        """The sum over the event."""
        return _summed(self.base_dist.entropy(), self.reinterpreted_batch_ndims)


@divergence(Independent)
def _between_independents(p: Independent, q: Independent) -> Any:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError("independent over different numbers of dimensions")
    return _summed(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)


class TransformedDistribution(Distribution):
    """What a variable of ``base_distribution`` becomes by one or several transforms.

    >>> import tracejit as tj
    >>> D = tj.distributions
    >>> squashed = D.TransformedDistribution(D.Normal(0.0, 1.0), D.TanhTransform())
    >>> squashed.log_prob(tj.tensor(0.0))
    tensor(-0.9189)
    """

    def __init__(
        self,
        base_distribution: Distribution,
        transforms: Transform | Sequence[Transform],
        validate_args: bool | None = None,
    ) -> None:
        given = [transforms] if isinstance(transforms, Transform) else list(transforms)
        self.transforms = given
        self._all = ComposeTransform(given)
        extra = max(self._all.event_dim - len(base_distribution.event_shape), 0)
        self.base_dist = Independent(base_distribution, extra) if extra else base_distribution
        base, count = self.base_dist, len(self.base_dist.event_shape)
        shape = self._all.forward_shape((*base.batch_shape, *base.event_shape))
        cut = len(shape) - count
        super().__init__(shape[:cut], shape[cut:], validate_args)

    @property
    def has_rsample(self) -> bool:  # type: ignore[override]
        """As the base has."""
        return self.base_dist.has_rsample

    def sample(self, sample_shape: Sequence[int] = ()) -> Any:
        """Transformed draws without gradients."""
        with no_grad():
            return self._all(self.base_dist.sample(sample_shape))

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        """Transformed draws."""
        return self._all(self.base_dist.rsample(sample_shape))

    def _turned(self, value: Any) -> Any:
        """The share below, or above where the transforms turn the order of values around."""
        return self._all.sign * (value - 0.5) + 0.5

    def cdf(self, value: Any) -> Any:
        """The probability that what the value came from is exceeded by nothing that comes before it."""
        if self._validate_args:
            self._validate_sample(value)
        return self._turned(self.base_dist.cdf(self._all._inverse(value)))

    def icdf(self, value: Any) -> Any:
        """What becomes of the base's value of this probability."""
        return self._all(self.base_dist.icdf(self._turned(value)))

    def log_prob(self, value: Any) -> Any:
        """That of what the value came from, minus the logarithm of the slope there."""
        if self._validate_args:
            self._validate_sample(value)
        x = self._all._inverse(value)
        size = self._all.log_abs_det_jacobian(x, value)
        extra = len(self._event_shape) - self._all.event_dim
        return self.base_dist.log_prob(x) - _summed(size, extra)


class LogNormal(TransformedDistribution):
    """exp of normal variables.

    >>> import tracejit as tj
    >>> tj.distributions.LogNormal(0.0, 1.0).mean
    tensor(1.6487)
    """

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        super().__init__(Normal(loc, scale, validate_args), ExpTransform(), validate_args)

    @property
    def loc(self) -> Any:
        """The mean of the logarithm."""
        return self.base_dist.loc  # type: ignore[attr-defined]

    @property
    def scale(self) -> Any:
        """The standard deviation of the logarithm."""
        return self.base_dist.scale  # type: ignore[attr-defined]

    @property
    def mode(self) -> Any:
        """exp(loc - scale²)."""
        return (self.loc - self.scale.square()).exp()

    @property
    def mean(self) -> Any:
        """exp(loc + scale² / 2)."""
        return (self.loc + self.scale.pow(2) / 2).exp()

    @property
    def variance(self) -> Any:
        """(exp(scale²) - 1) exp(2 loc + scale²)."""
        square = self.scale.pow(2)
        return square.expm1() * (2 * self.loc + square).exp()

    def entropy(self) -> Any:
        """That of the logarithm, plus ``loc``."""
        return self.base_dist.entropy() + self.loc


@divergence(LogNormal)
def _between_log_normals(p: LogNormal, q: LogNormal) -> Any:
    return kl_divergence(p.base_dist, q.base_dist)


class MixtureSameFamily(Distribution):
    """Draws of one of several ``component_distribution``, chosen by a categorical ``mixture_distribution``.

    >>> import tracejit as tj
    >>> D = tj.distributions
    >>> mixture = D.MixtureSameFamily(D.Categorical(tj.ones(2)), D.Normal(tj.tensor([-1.0, 1.0]), 1.0))
    >>> mixture.mean
    tensor(0.)
    """

    def __init__(
        self,
        mixture_distribution: Categorical,
        component_distribution: Distribution,
        validate_args: bool | None = None,
    ) -> None:
        if not isinstance(mixture_distribution, Categorical):
            raise ValueError(
                " The Mixture distribution needs to be an  instance of distributions.Categorical"
            )
        self.mixture_distribution = mixture_distribution
        self.component_distribution = component_distribution
        parts = component_distribution
        super().__init__(parts.batch_shape[:-1], parts.event_shape, validate_args)

    def _weights(self) -> Any:
        probs = self.mixture_distribution.probs
        return probs.reshape((*probs.shape, *(1 for _ in self._event_shape)))

    @property
    def mean(self) -> Any:
        """The mean of the means."""
        parts: Any = self.component_distribution
        return (self._weights() * parts.mean).sum(-1 - len(self._event_shape))

    @property
    def variance(self) -> Any:
        """The mean of the variances and the variance of the means."""
        parts: Any = self.component_distribution
        dim = -1 - len(self._event_shape)
        within = (self._weights() * parts.variance).sum(dim)
        return within + (self._weights() * (parts.mean - self.mean.unsqueeze(dim)) ** 2).sum(dim)

    def sample(self, sample_shape: Sequence[int] = ()) -> Any:
        """Draws without gradients."""
        with no_grad():
            dim = -1 - len(self._event_shape)
            chosen = self.mixture_distribution.sample(sample_shape)
            drawn = self.component_distribution.sample(sample_shape)
            at = chosen.reshape((*chosen.shape, 1, *(1 for _ in self._event_shape)))
            shape = (*at.shape[:-1], *self._event_shape[-1:]) if self._event_shape else at.shape
            return drawn.gather(dim, at.expand(shape)).squeeze(dim)

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the weighted sum of densities."""
        if self._validate_args:
            self._validate_sample(value)
        value = value.unsqueeze(-1 - len(self._event_shape))
        each = self.component_distribution.log_prob(value)
        return (each + self.mixture_distribution.logits).logsumexp(-1)


def scale_of(covariance_matrix: Any, precision_matrix: Any, scale_tril: Any) -> Any:
    """The lower triangular factor of a covariance that is given in one of three ways."""
    ways = {"covariance_matrix": covariance_matrix, "precision_matrix": precision_matrix}
    ways["scale_tril"] = scale_tril
    given = [(name, x) for name, x in ways.items() if x is not None]
    if len(given) != 1:
        raise ValueError(
            "Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified."
        )
    ((name, matrix),) = given
    if matrix.ndim < 2:
        raise ValueError(
            f"{name} must be at least two-dimensional, with optional leading batch dimensions"
        )
    if scale_tril is not None:
        return scale_tril
    if covariance_matrix is None:
        return _precision_to_scale_tril(precision_matrix)
    return cholesky(covariance_matrix)


def _precision_to_scale_tril(P: Any) -> Any:  # noqa: N803  (PyTorch's spelling)
    """The lower triangular factor of the inverse of a positive definite matrix.

    >>> import tracejit as tj
    >>> _precision_to_scale_tril(tj.tensor([[4.0, 0.0], [0.0, 0.25]]))
    tensor([[0.5000, 0.0000],
            [0.0000, 2.0000]])
    """
    root = cholesky(P.flip(-2, -1)).flip(-2, -1).mT
    return solve_triangular(root, eye(P.shape[-1], dtype=P.dtype), upper=False)


class MultivariateNormal(Distribution):
    """Normal vectors with mean ``loc`` and a covariance, its inverse, or its lower triangular factor.

    Raises ``ValueError`` unless exactly one of the three is given.

    >>> import tracejit as tj
    >>> tj.distributions.MultivariateNormal(tj.zeros(2), tj.eye(2)).log_prob(tj.zeros(2))
    tensor(-1.8379)
    """

    has_rsample = True

    def __init__(
        self,
        loc: Any,
        covariance_matrix: Any = None,
        precision_matrix: Any = None,
        scale_tril: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        scale_tril = scale_of(covariance_matrix, precision_matrix, scale_tril)
        from ..ops.functions.shaping import broadcast_shapes

        n = loc.shape[-1]
        batch = broadcast_shapes(tuple(loc.shape[:-1]), tuple(scale_tril.shape[:-2]))
        self.loc = loc.expand((*batch, n))
        self.scale_tril = scale_tril.expand((*batch, n, n))
        super().__init__(batch, (n,), validate_args)

    @property
    def mean(self) -> Any:
        """``loc``."""
        return self.loc

    mode = mean

    @property
    def covariance_matrix(self) -> Any:
        """The covariance."""
        return self.scale_tril @ self.scale_tril.mT

    @property
    def precision_matrix(self) -> Any:
        """The inverse of the covariance."""
        return inverse(self.covariance_matrix)

    @property
    def variance(self) -> Any:
        """The diagonal of the covariance."""
        return self.scale_tril.pow(2).sum(-1)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        """``loc + scale_tril @ noise``."""
        noise = randn(self._extended(sample_shape), dtype=self.loc.dtype)
        return self.loc + (self.scale_tril @ noise.unsqueeze(-1)).squeeze(-1)

    def _half_log_det(self) -> Any:
        return self.scale_tril.diagonal(dim1=-2, dim2=-1).log().sum(-1)

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density."""
        if self._validate_args:
            self._validate_sample(value)
        away = (inverse(self.scale_tril) @ (value - self.loc).unsqueeze(-1)).squeeze(-1)
        size = self._event_shape[0] * math.log(2 * math.pi)
        return -0.5 * (size + away.pow(2).sum(-1)) - self._half_log_det()

    def entropy(self) -> Any:
        """n (1 + log 2π) / 2 + log |scale_tril|."""
        return 0.5 * self._event_shape[0] * (1.0 + math.log(2 * math.pi)) + self._half_log_det()


@divergence(MultivariateNormal)
def _between_vectors(p: MultivariateNormal, q: MultivariateNormal) -> Any:
    back = inverse(q.scale_tril)
    spread = (back @ p.scale_tril).pow(2).sum((-2, -1))
    away = (back @ (q.loc - p.loc).unsqueeze(-1)).squeeze(-1).pow(2).sum(-1)
    return q._half_log_det() - p._half_log_det() + 0.5 * (spread + away - p._event_shape[0])
