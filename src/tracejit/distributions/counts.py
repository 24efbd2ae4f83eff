"""Distributions of counts and of one among several: Poisson, geometric, one-hot, and their relaxed forms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..autograd.grad_mode import no_grad
from ..dtypes import float64
from ..ops.functions.embeddings import one_hot
from ..ops.functions.factories import zeros_like
from ..ops.functions.losses import binary_cross_entropy_with_logits
from ..ops.functions.sampling import rand
from ..ops.special_functions import poisson_quantile
from .constraints import positive
from .discrete import Categorical, OfChances
from .distribution import Distribution, broadcast, divergence
from .exp_family import ExponentialFamily

__all__ = [
    "Geometric",
    "OneHotCategorical",
    "OneHotCategoricalStraightThrough",
    "Poisson",
]


class Poisson(ExponentialFamily):
    """Counts with mean ``rate``. Raises ``ValueError`` for negative rates.

    >>> import tracejit as tj
    >>> tj.distributions.Poisson(2.0).log_prob(tj.tensor(0.0))
    tensor(-2.)
    """

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast(rate)
        super().__init__(self.rate.shape, (), validate_args)

    @property
    def mean(self) -> Any:
        """``rate``."""
        return self.rate

    variance = mean

    @property
    def mode(self) -> Any:
        """``rate`` rounded down."""
        return self.rate.floor()

    def sample(self, sample_shape: Sequence[int] = ()) -> Any:
        """Counts, by inversion."""
        with no_grad():
            noise = rand(self._extended(sample_shape), dtype=float64)
            return poisson_quantile(noise, self.rate.double()).to(self.rate.dtype)

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the probability."""
        if self._validate_args:
            self._validate_sample(value)
        return value.xlogy(self.rate) - self.rate - (value + 1).lgamma()


@divergence(Poisson)
def _between_poissons(p: Poisson, q: Poisson) -> Any:
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


class Geometric(OfChances):
    """Failures before the first success, which has probability ``probs`` (or sigmoid(``logits``)).

    Raises ``ValueError`` unless exactly one is given, with probabilities in (0, 1].

    >>> import tracejit as tj
    >>> tj.distributions.Geometric(0.5).log_prob(tj.tensor(1.0))
    tensor(-1.3863)
    """

    def __init__(
        self, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        self._take_one(probs, logits, validate_args)
        if self._validate_args and probs is not None:
            self._check("probs", self.probs, positive)

    @property
    def mean(self) -> Any:
        """1 / p - 1."""
        return 1.0 / self.probs - 1.0

    @property
    def mode(self) -> Any:
        """0."""
        return zeros_like(self.probs)

    @property
    def variance(self) -> Any:
        """(1 / p - 1) / p."""
        return (1.0 / self.probs - 1.0) / self.probs

    def sample(self, sample_shape: Sequence[int] = ()) -> Any:
        """Counts, by inversion."""
        with no_grad():
            u = rand(self._extended(sample_shape), dtype=self.probs.dtype).clamp(min=1e-38)
            return (u.log() / (-self.probs).log1p()).floor()

    def log_prob(self, value: Any) -> Any:
        """value log(1 - p) + log p."""
        if self._validate_args:
            self._validate_sample(value)
        value, probs = broadcast(value, self.probs)
        kept = probs.masked_fill((probs == 1) & (value == 0), 0.0)
        return value * (-kept).log1p() + self.probs.log()

    def entropy(self) -> Any:
        """(-(1 - p) log(1 - p) - p log p) / p."""
        entropy = binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none")
        return entropy / self.probs


class OverCategories(Distribution):
    """A vector with one element per category, by the probabilities of a :class:`Categorical`."""

    def __init__(
        self, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        self._categorical = Categorical(probs, logits, validate_args)
        shape = self._categorical.param_shape
        super().__init__(shape[:-1], shape[-1:], validate_args)

    @property
    def probs(self) -> Any:
        """The probabilities."""
        return self._categorical.probs

    @property
    def logits(self) -> Any:
        """The logarithms of the probabilities."""
        return self._categorical.logits

    @property
    def _param(self) -> Any:
        return self._categorical._param

    @property
    def param_shape(self) -> Any:
        """The shape of the probabilities."""
        return self._categorical.param_shape

    def _check_arguments(self) -> None:
        """Nothing: the categories are a distribution that has looked at them."""


class OneHotCategorical(OverCategories):
    """A one among zeros, where :class:`Categorical` gives an index.

    >>> import tracejit as tj
    >>> tj.distributions.OneHotCategorical(tj.tensor([1.0, 3.0])).log_prob(tj.tensor([0.0, 1.0]))
    tensor(-0.2877)
    """

    @property
    def mean(self) -> Any:
        """The probabilities."""
        return self.probs

    @property
    def variance(self) -> Any:
        """p (1 - p)."""
        return self.probs * (1 - self.probs)

    has_enumerate_support = True

    def _vectors(self, index: Any) -> Any:
        return one_hot(index, self._event_shape[-1]).to(self._param.dtype)

    @property
    def mode(self) -> Any:
        """The vector of the most probable category."""
        return self._vectors(self._categorical.mode)

    def enumerate_support(self, expand: bool = True) -> Any:
        """The vectors of all categories."""
        return self._vectors(self._categorical.enumerate_support(expand))

    def sample(self, sample_shape: Sequence[int] = ()) -> Any:
        """One-hot vectors."""
        with no_grad():
            return self._vectors(self._categorical.sample(sample_shape))

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the probability."""
        if self._validate_args:
            self._validate_sample(value)
        return self._categorical.log_prob(value.argmax(-1))

    def entropy(self) -> Any:
        """-Σ p log p."""
        return self._categorical.entropy()


@divergence(OneHotCategorical)
def _between_one_hots(p: OneHotCategorical, q: OneHotCategorical) -> Any:
    from .distribution import kl_divergence

    return kl_divergence(p._categorical, q._categorical)


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """One-hot draws whose gradients are those of the probabilities (Bengio et al., 2013).

    >>> import tracejit as tj
    >>> tj.distributions.OneHotCategoricalStraightThrough(tj.tensor([0.0, 3.0])).rsample()
    tensor([0., 1.])
    """

    has_rsample = True

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        """A draw, with the gradients of the probabilities."""
        return self.sample(sample_shape) + (self.probs - self.probs.detach())
