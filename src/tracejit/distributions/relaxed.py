"""Relaxed forms of choices: numbers and shares that become zeros and ones as a temperature falls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..ops.functions.factories import full_like
from ..ops.functions.sampling import rand
from .compound import TransformedDistribution
from .counts import OverCategories
from .discrete import OfChances
from .distribution import Distribution, broadcast
from .transforms import ExpTransform, SigmoidTransform
from .utils import clamp_probs

__all__ = [
    "ExpRelaxedCategorical",
    "LogitRelaxedBernoulli",
    "RelaxedBernoulli",
    "RelaxedOneHotCategorical",
]


class _Tempered(Distribution):
    """A distribution with a ``temperature`` that all of a batch share."""

    temperature: Any

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        """The same for a larger batch, at the same temperature."""
        made = super().expand(batch_shape, _instance)
        made.temperature = self.temperature
        return made


class _Relaxed(TransformedDistribution):
    """What a tempered distribution is made into, with the parameters of that."""

    base_dist: Any

    @property
    def temperature(self) -> Any:
        """How far from zeros and ones the numbers are."""
        return self.base_dist.temperature

    @property
    def logits(self) -> Any:
        """The log-odds, or the logarithms of the probabilities of the categories."""
        return self.base_dist.logits

    @property
    def probs(self) -> Any:
        """The probabilities of ones, or of the categories."""
        return self.base_dist.probs


class LogitRelaxedBernoulli(_Tempered, OfChances):
    """The log-odds of relaxed Bernoulli numbers (Maddison et al., 2017): logistic noise around ``logits``, divided.

    >>> import tracejit as tj
    >>> from tracejit.distributions.relaxed_bernoulli import LogitRelaxedBernoulli
    >>> LogitRelaxedBernoulli(tj.tensor(1.0), tj.tensor(0.5)).log_prob(tj.tensor(0.0)).exp()
    tensor(0.2500)
    """

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: Any = None
    ) -> None:
        self.temperature = temperature
        self._take_one(probs, logits, validate_args)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        """(log-odds of the probability + log-odds of uniform noise) / temperature."""
        shape = self._extended(sample_shape)
        probs = clamp_probs(self.probs.expand(shape))
        u = clamp_probs(rand(shape, dtype=probs.dtype))
        return (u.log() - (-u).log1p() + probs.log() - (-probs).log1p()) / self.temperature

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density."""
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast(self.logits, value)
        away = logits - value * self.temperature
        return self.temperature.log() + away - 2 * away.exp().log1p()


class RelaxedBernoulli(_Relaxed):
    """Numbers between 0 and 1 that become zeros and ones as ``temperature`` falls (Maddison et al., 2017).

    >>> import tracejit as tj
    >>> tj.distributions.RelaxedBernoulli(tj.tensor(1.0), tj.tensor(0.5)).log_prob(tj.tensor(0.5))
    tensor(0.)
    """

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: Any = None
    ) -> None:
        base = LogitRelaxedBernoulli(temperature, probs, logits)
        super().__init__(base, SigmoidTransform(), validate_args)


class ExpRelaxedCategorical(_Tempered, OverCategories):
    """Logarithms of relaxed one-hot vectors (Maddison et al., 2017): Gumbel noise around ``logits``, normalised.

    >>> import tracejit as tj
    >>> from tracejit.distributions.relaxed_categorical import ExpRelaxedCategorical
    >>> ExpRelaxedCategorical(tj.tensor(1.0), tj.ones(3)).rsample().exp().sum().round()
    tensor(1.)
    """

    has_rsample = True

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: Any = None
    ) -> None:
        super().__init__(probs, logits, validate_args)
        self.temperature = temperature

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        """log_softmax((logits + Gumbel noise) / temperature)."""
        shape = self._extended(sample_shape)
        u = clamp_probs(rand(shape, dtype=self.logits.dtype))
        scores = (self.logits - (-u.log()).log()) / self.temperature
        return scores - scores.logsumexp(-1, True)

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density."""
        if self._validate_args:
            self._validate_sample(value)
        count = self._event_shape[-1]
        logits, value = broadcast(self.logits, value)
        size = full_like(self.temperature, float(count)).lgamma()
        score = logits - value * self.temperature
        score = (score - score.logsumexp(-1, True)).sum(-1)
        return score + (size + self.temperature.log() * (count - 1))


class RelaxedOneHotCategorical(_Relaxed):
    """Shares that become one-hot vectors as ``temperature`` falls (Jang et al., 2017).

    >>> import tracejit as tj
    >>> gumbel = tj.distributions.RelaxedOneHotCategorical(tj.tensor(1.0), tj.ones(3))
    >>> gumbel.rsample().sum().round()
    tensor(1.)
    """

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: Any = None
    ) -> None:
        base = ExpRelaxedCategorical(temperature, probs, logits, validate_args)
        super().__init__(base, ExpTransform(), validate_args)
