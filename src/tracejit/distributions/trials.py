"""Counts of successes: binomial, negative binomial and multinomial distributions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..autograd.grad_mode import no_grad
from ..ops.functions.activations import logsigmoid
from ..ops.functions.embeddings import one_hot
from ..ops.functions.older import poisson
from ..ops.functions.sampling import bernoulli
from ..ops.functions.shaping import broadcast_shapes
from .counts import OverCategories
from .discrete import OfChances, all_values
from .distribution import divergence
from .positive import Gamma

__all__ = ["Binomial", "Multinomial", "NegativeBinomial"]


class _Trials(OfChances):
    """Counts of trials that succeed with ``probs``, or sigmoid(``logits``)."""

    total_count: Any

    def __init__(
        self,
        total_count: Any,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        self._take_one(probs, logits, validate_args, total_count=total_count)
        self.total_count = self.total_count.to(self._param.dtype)


def _choices(total: Any, value: Any) -> Any:
    """The logarithm of the number of ways to choose."""
    return (total + 1).lgamma() - (value + 1).lgamma() - (total - value + 1).lgamma()


class Binomial(_Trials):
    """Successes in ``total_count`` trials of probability ``probs`` (or sigmoid(``logits``)).

    Raises ``ValueError`` unless exactly one is given, within [0, 1].

    >>> import tracejit as tj
    >>> tj.distributions.Binomial(2, probs=tj.tensor(0.5)).log_prob(tj.tensor(1.0)).exp()
    tensor(0.5000)
    """

    def __init__(
        self,
        total_count: Any = 1,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        super().__init__(total_count, probs, logits, validate_args)

    @property
    def mean(self) -> Any:
        """total_count * probs."""
        return self.total_count * self.probs

    @property
    def variance(self) -> Any:
        """total_count * probs * (1 - probs)."""
        return self.total_count * self.probs * (1 - self.probs)

    has_enumerate_support = True

    def enumerate_support(self, expand: bool = True) -> Any:
        """All counts. Raises ``NotImplementedError`` when numbers of trials differ."""
        most = int(self.total_count.max())
        if not bool((self.total_count == most).all()):
            raise NotImplementedError(
                "Inhomogeneous total count not supported by `enumerate_support`."
            )
        return all_values(self, 1 + most, self._param.dtype, expand)

    @property
    def mode(self) -> Any:
        """The likeliest count."""
        return ((self.total_count + 1) * self.probs).floor().clamp(max=self.total_count)

    def sample(self, sample_shape: Sequence[int] = ()) -> Any:
        """Counts of successes among as many draws as there are trials."""
        with no_grad():
            most = int(self.total_count.max().item()) if self.total_count.numel() else 0
            shape = self._extended(sample_shape)
            drawn = bernoulli(self.probs.expand(shape).unsqueeze(0).expand((most, *shape)))
            trial = self.total_count.new_ones(most).cumsum(0).reshape(most, *(1 for _ in shape))
            return (drawn * (trial <= self.total_count)).sum(0)

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the probability."""
        if self._validate_args:
            self._validate_sample(value)
        x = self.logits
        above = (x.clamp(min=0) + x - x.clamp(max=0)) / 2  # whose slope at 0 is a half
        odds = value * x - self.total_count * above
        rest = self.total_count * (-x.abs()).exp().log1p()
        return _choices(self.total_count, value) + odds - rest

    def entropy(self) -> Any:
        """The sum of -p log p over all counts."""
        log_p = self.log_prob(self.enumerate_support(expand=False))
        return -(log_p.exp() * log_p).sum(0)


@divergence(Binomial)
def _between_binomials(p: Binomial, q: Binomial) -> Any:
    if bool((p.total_count < q.total_count).any()):
        raise NotImplementedError("KL of a binomial distribution from one of more trials")
    each = p.probs * (p.logits - q.logits) + (-p.probs).log1p() - (-q.probs).log1p()
    return (p.total_count * each).masked_fill(p.total_count > q.total_count, float("inf"))


class NegativeBinomial(_Trials):
    """Successes of probability ``probs`` (or sigmoid(``logits``)) before ``total_count`` failures.

    Raises ``ValueError`` unless exactly one is given, within [0, 1].

    >>> import tracejit as tj
    >>> tj.distributions.NegativeBinomial(1.0, probs=tj.tensor(0.5)).mean
    tensor(1.)
    """

    @property
    def mean(self) -> Any:
        """total_count * exp(logits)."""
        return self.total_count * self.logits.exp()

    @property
    def mode(self) -> Any:
        """(total_count - 1) * exp(logits) rounded down, zero for one failure or less."""
        return ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0)

    @property
    def variance(self) -> Any:
        """mean / (1 - probs)."""
        return self.mean / (-self.logits).sigmoid()

    def sample(self, sample_shape: Sequence[int] = ()) -> Any:
        """Poisson counts of rates that are drawn themselves."""
        with no_grad():
            rates = Gamma(self.total_count, (-self.logits).exp(), validate_args=False)
            return poisson(rates.sample(sample_shape))

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the probability."""
        if self._validate_args:
            self._validate_sample(value)
        total = self.total_count
        unnormalised = total * logsigmoid(-self.logits) + value * logsigmoid(self.logits)
        ways = (total + value).lgamma() - (1.0 + value).lgamma() - total.lgamma()
        return unnormalised + ways.masked_fill(total + value == 0, 0.0)


class Multinomial(OverCategories):
    """How often each of several categories occurs among ``total_count`` draws.

    Raises ``ValueError`` unless one of ``probs`` and ``logits`` is given, which have the categories last.

    >>> import tracejit as tj
    >>> tj.distributions.Multinomial(4, probs=tj.tensor([1.0, 3.0])).mean
    tensor([1., 3.])
    """

    def __init__(
        self,
        total_count: int = 1,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        if not isinstance(total_count, int):
            raise NotImplementedError("inhomogeneous total_count is not supported")
        self.total_count = total_count
        super().__init__(probs, logits, validate_args)
        if self._validate_args and total_count < 0:
            raise ValueError(f"Expected total_count to be at least 0, but found {total_count}")

    @property
    def mean(self) -> Any:
        """total_count * probs."""
        return self.probs * self.total_count

    @property
    def variance(self) -> Any:
        """total_count * probs * (1 - probs)."""
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Sequence[int] = ()) -> Any:
        """Counts of categories that are drawn one by one."""
        with no_grad():
            drawn = self._categorical.sample((self.total_count, *sample_shape))
            hot = one_hot(drawn, self._event_shape[0])
            return hot.sum(0).to(self._param.dtype)

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the probability."""
        if self._validate_args:
            self._validate_sample(value)
        logits = self.logits.expand(broadcast_shapes(self.logits.shape, value.shape))
        logits = logits.masked_fill((value == 0) & (logits == -float("inf")), 0)
        ways = (value.sum(-1) + 1).lgamma() - (value + 1).lgamma().sum(-1)
        return ways + (logits * value).sum(-1)

    def entropy(self) -> Any:
        """The entropy: a sum over how often each category may occur."""
        n = self.total_count
        single = Binomial(n, self.probs, validate_args=False)
        counts = single.enumerate_support(expand=False)[1:]
        spread = (single.log_prob(counts).exp() * (counts + 1).lgamma()).sum((0, -1))
        return n * self._categorical.entropy() - math.lgamma(n + 1) + spread
