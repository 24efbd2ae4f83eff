"""Distributions made of others: independent, transformed and mixed ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..autograd.grad_mode import no_grad
from .composed import ComposeTransform
from .discrete import Categorical
from .distribution import Distribution, divergence, kl_divergence
from .gaussian import Normal
from .transforms import ExpTransform, Transform

__all__ = [
    "Independent",
    "LogNormal",
    "MixtureSameFamily",
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

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_dist!r}, {self.reinterpreted_batch_ndims})"

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
        given = [transforms] if isinstance(transforms, Transform) else transforms
        if not isinstance(given, list) or not all(isinstance(t, Transform) for t in given):
            raise ValueError(f"transforms must be a Transform or a list of them, but was {given}")
        self.transforms = given
        self._all = ComposeTransform(given)
        before, after = self._all._dims()
        base = base_distribution
        if len(base.batch_shape) + len(base.event_shape) < before:
            raise ValueError(f"base_distribution needs a shape of at least {before} dimensions")
        shape = self._all.forward_shape((*base.batch_shape, *base.event_shape))
        whole = self._all.inverse_shape(shape)
        batch = whole[: len(whole) - len(base.event_shape)]
        if batch != tuple(base.batch_shape):
            base = base.expand(batch)
        extra = max(before - len(base.event_shape), 0)
        self.base_dist = base = Independent(base, extra) if extra else base
        cut = len(shape) - len(base.event_shape) + before - after
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
        before = self._all._inverse(value)
        if (
            self._validate_args
        ):  # which values at the ends of the support may be, other than with densities
            self.base_dist._validate_sample(before)
        return self._turned(self.base_dist.cdf(before))

    def icdf(self, value: Any) -> Any:
        """What becomes of the base's value of this probability."""
        return self._all(self.base_dist.icdf(self._turned(value)))

    def log_prob(self, value: Any) -> Any:
        """That of what the value came from, minus the logarithm of the slope there."""
        if self._validate_args:
            self._validate_sample(value)
        x = self._all._inverse(value)
        size = self._all.log_abs_det_jacobian(x, value)
        return self.base_dist.log_prob(x) - _summed(
            size, len(self._event_shape) - self._all._dims()[1]
        )


@divergence(TransformedDistribution)
def _between_transformed(p: TransformedDistribution, q: TransformedDistribution) -> Any:
    """As between what was transformed, where that was done alike."""
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise NotImplementedError("divergence between other transforms")
    extra = len(p.event_shape) - len(p.base_dist.event_shape)
    return _summed(kl_divergence(p.base_dist, q.base_dist), extra)


class LogNormal(TransformedDistribution):
    """exp of normal variables.

    >>> import tracejit as tj
    >>> tj.distributions.LogNormal(0.0, 1.0).mean
    tensor(1.6487)
    """

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        super().__init__(Normal(loc, scale, validate_args), ExpTransform(), validate_args)

    def _check_arguments(self) -> None:
        """Nothing: the normal distribution has looked at them."""

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


def _check_mixed(mixture: Categorical, parts: Distribution) -> None:
    """``ValueError`` unless there are weights for as many parts as there are, in batches that fit."""
    *batch, count = parts.batch_shape or (None,)
    pairs = zip(reversed(mixture.batch_shape), reversed(batch), strict=False)
    if any(size != other and 1 not in (size, other) for size, other in pairs):
        raise ValueError(
            f"`mixture_distribution.batch_shape` ({tuple(mixture.batch_shape)}) is not compatible with "
            f"`component_distribution.batch_shape`({tuple(parts.batch_shape)})"
        )
    if count != mixture.param_shape[-1]:
        raise ValueError(
            f"`mixture_distribution component` ({mixture.param_shape[-1]}) does not equal "
            f"`component_distribution.batch_shape[-1]` ({count})"
        )


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
        if not isinstance(component_distribution, Distribution):
            raise ValueError(
                "The Component distribution need to be an instance of torch.distributions.Distribution"
            )
        _check_mixed(mixture_distribution, component_distribution)
        self.mixture_distribution = mixture_distribution
        self.component_distribution = component_distribution
        parts = component_distribution
        super().__init__(parts.batch_shape[:-1], parts.event_shape, validate_args)

    def __repr__(self) -> str:
        parts = f"{self.mixture_distribution!r},\n  {self.component_distribution!r}"
        return f"{type(self).__name__}(\n  {parts})"

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

    def cdf(self, value: Any) -> Any:
        """The weighted sum of probabilities of being at most ``value``."""
        below = self.component_distribution.cdf(value.unsqueeze(-1 - len(self._event_shape)))
        return (below * self.mixture_distribution.probs).sum(-1)

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the weighted sum of densities."""
        if self._validate_args:
            self._validate_sample(value)
        value = value.unsqueeze(-1 - len(self._event_shape))
        each = self.component_distribution.log_prob(value)
        return (each + self.mixture_distribution.logits).logsumexp(-1)
