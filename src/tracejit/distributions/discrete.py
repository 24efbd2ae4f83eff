"""Distributions of counts: Bernoulli and categorical, given by probabilities or by logits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from math import prod
from typing import Any

from ..autograd.grad_mode import no_grad
from ..dtypes import int64
from ..number_limits import finfo
from ..ops.functions.activations import softplus
from ..ops.functions.losses import binary_cross_entropy_with_logits
from ..ops.functions.ranges import arange
from ..ops.functions.sampling import multinomial, rand
from ..ops.functions.shaping import broadcast_shapes
from .distribution import Distribution, broadcast, divergence
from .exp_family import ExponentialFamily
from .lazy import lazy_property
from .utils import logits_to_probs, probs_to_logits

__all__ = ["Bernoulli", "Categorical"]


def _one_of(probs: Any, logits: Any) -> None:
    if (probs is None) == (logits is None):
        raise ValueError("Either `probs` or `logits` must be specified, but not both.")


def all_values(distribution: Distribution, count: int, dtype: Any, expand: bool) -> Any:
    """0, 1, ... along a new first dimension, for each distribution of the batch with ``expand``."""
    batch = distribution.batch_shape
    values = arange(count, dtype=dtype).reshape((count, *(1 for _ in batch)))
    return values.expand((count, *batch)) if expand else values


class OfChances(Distribution):
    """Given by ``probs`` or by ``logits``, their log-odds: each tells the other when it is asked for."""

    def _take_one(self, probs: Any, logits: Any, validate_args: bool | None, **others: Any) -> None:
        _one_of(probs, logits)
        name, given = ("logits", logits) if probs is None else ("probs", probs)
        self._take(validate_args, **{name: given}, **others)
        self._param = self.__dict__[name]

    @lazy_property
    def probs(self) -> Any:
        """sigmoid(logits)."""
        return logits_to_probs(self.logits, is_binary=True)

    @lazy_property
    def logits(self) -> Any:
        """log(p / (1 - p))."""
        return probs_to_logits(self.probs, is_binary=True)

    @property
    def param_shape(self) -> Any:
        """The shape of what is given."""
        return self._param.shape


class Bernoulli(OfChances, ExponentialFamily):
    """One with probability ``probs`` (or sigmoid(``logits``)), else zero.

    Raises ``ValueError`` unless exactly one of the two is given, with probabilities in [0, 1].

    >>> import tracejit as tj
    >>> tj.distributions.Bernoulli(tj.tensor([0.25])).log_prob(tj.tensor([1.0]))
    tensor([-1.3863])
    """

    def __init__(
        self, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        self._take_one(probs, logits, validate_args)

    @property
    def mean(self) -> Any:
        """The probability of one."""
        return self.probs

    @property
    def variance(self) -> Any:
        """p * (1 - p)."""
        return self.probs * (1 - self.probs)

    has_enumerate_support = True

    @property
    def mode(self) -> Any:
        """1 where it is the more probable value; NaN where both are as probable."""
        return (self.probs >= 0.5).to(self._param.dtype).masked_fill(self.probs == 0.5, math.nan)

    def enumerate_support(self, expand: bool = True) -> Any:
        """0 and 1."""
        return all_values(self, 2, self._param.dtype, expand)

    def sample(self, sample_shape: Sequence[int] = ()) -> Any:
        """Zeros and ones."""
        with no_grad():
            drawn = rand(self._extended(sample_shape), dtype=self._param.dtype)
            return (drawn < self.probs).to(self._param.dtype)

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the probability of ``value``."""
        if self._validate_args:
            self._validate_sample(value)
        return -binary_cross_entropy_with_logits(*broadcast(self.logits, value), reduction="none")

    def entropy(self) -> Any:
        """-p log p - (1 - p) log(1 - p)."""
        return binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none")


@divergence(Bernoulli)
def _between_bernoullis(p: Bernoulli, q: Bernoulli) -> Any:
    yes = p.probs * (softplus(-q.logits) - softplus(-p.logits))
    no = (1 - p.probs) * (softplus(q.logits) - softplus(p.logits))
    yes = yes.masked_fill(q.probs == 0, math.inf).masked_fill(p.probs == 0, 0.0)
    return yes + no.masked_fill(q.probs == 1, math.inf).masked_fill(p.probs == 1, 0.0)


class Categorical(Distribution):
    """Index ``i`` with probability proportional to ``probs[..., i]`` (or exp(``logits[..., i]``)).

    Raises ``ValueError`` unless exactly one of the two is given, with at least one dimension and no negative weight.

    >>> import tracejit as tj
    >>> tj.distributions.Categorical(tj.tensor([1.0, 3.0])).log_prob(tj.tensor(1))
    tensor(-0.2877)
    """

    def __init__(
        self, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        _one_of(probs, logits)
        given = logits if probs is None else probs
        if given.ndim < 1:
            name = "logits" if probs is None else "probs"
            raise ValueError(f"`{name}` parameter must be at least one-dimensional.")
        if probs is None:
            self._param = self.logits = given.log_softmax(-1)
        else:
            self._param = self.probs = given / given.sum(-1, keepdim=True)
        self._num_events = given.shape[-1]
        super().__init__(given.shape[:-1], (), validate_args)

    @lazy_property
    def probs(self) -> Any:
        """exp(logits)."""
        return logits_to_probs(self.logits)

    @lazy_property
    def logits(self) -> Any:
        """log(probs), kept from infinity."""
        return probs_to_logits(self.probs)

    @property
    def param_shape(self) -> Any:
        """The shape of the probabilities."""
        return self._param.shape

    @property
    def mode(self) -> Any:
        """The most probable index."""
        return self.probs.argmax(-1)

    has_enumerate_support = True

    @property
    def mean(self) -> Any:
        """NaN: categories have no mean."""
        return self._param.new_full(self._batch_shape, math.nan)

    variance = mean

    def enumerate_support(self, expand: bool = True) -> Any:
        """All indices."""
        return all_values(self, self._num_events, int64, expand)

    def sample(self, sample_shape: Sequence[int] = ()) -> Any:
        """Indices."""
        with no_grad():
            rows = self.probs.reshape(-1, self._num_events)
            drawn = multinomial(rows, prod(sample_shape), True)
            return drawn.T.reshape(self._extended(sample_shape))

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the probability of the indices ``value``."""
        if self._validate_args:
            self._validate_sample(value)
        shape = broadcast_shapes(tuple(value.shape), tuple(self.batch_shape))
        index = value.long().expand(shape).unsqueeze(-1)
        logits = self.logits.expand((*shape, self.logits.shape[-1]))
        return logits.gather(-1, index).squeeze(-1)

    def entropy(self) -> Any:
        """-Σ p log p."""
        logits = self.logits.clamp(min=finfo(self.logits.dtype).min)  # a slope where p is zero, too
        return -(logits * self.probs).sum(-1)


@divergence(Categorical)
def _between_categoricals(p: Categorical, q: Categorical) -> Any:
    each = p.probs * (p.logits - q.logits)
    return each.masked_fill(q.probs == 0, math.inf).masked_fill(p.probs == 0, 0.0).sum(-1)
