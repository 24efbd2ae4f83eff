"""Distributions of absolute values: half normal and half Cauchy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

from ..ops.functions.factories import full_like, zeros_like
from .distribution import Distribution, divergence, kl_divergence
from .gaussian import Normal
from .tails import Cauchy

__all__ = ["HalfCauchy", "HalfNormal"]


class _Half(Distribution):
    """Absolute values of variables that are as often positive as negative."""

    has_rsample = True
    whole: ClassVar[type[Distribution]]

    scale: Any

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        self._take(validate_args, scale=scale)

    def _whole(self) -> Any:
        return self.whole(0.0 * self.scale, self.scale, False)

    @property
    def mode(self) -> Any:
        """0."""
        return zeros_like(self.scale)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        """Absolute values of draws."""
        return self._whole().rsample(sample_shape).abs()

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density, twice that of positive and negative values; -inf below zero."""
        if self._validate_args:
            self._validate_sample(value)
        inside = self._whole().log_prob(value) + math.log(2)
        return inside + (value >= 0).to(self.scale.dtype).log()

    def cdf(self, value: Any) -> Any:
        """Twice what is between zero and ``value``."""
        if self._validate_args:
            self._validate_sample(value)
        return 2 * self._whole().cdf(value) - 1

    def icdf(self, value: Any) -> Any:
        """The value that is not exceeded with this probability."""
        return self._whole().icdf((value + 1) / 2)

    def entropy(self) -> Any:
        """log 2 less than that of positive and negative values."""
        return self._whole().entropy() - math.log(2)


class HalfNormal(_Half):
    """Absolute values of normal variables of standard deviation ``scale``. Raises ``ValueError`` unless it is positive.

    >>> import tracejit as tj
    >>> tj.distributions.HalfNormal(1.0).mean
    tensor(0.7979)
    """

    whole = Normal

    @property
    def mean(self) -> Any:
        """scale √(2 / π)."""
        return self.scale * math.sqrt(2 / math.pi)

    @property
    def variance(self) -> Any:
        """scale² (1 - 2 / π)."""
        return self.scale.pow(2) * (1 - 2 / math.pi)


class HalfCauchy(_Half):
    """Absolute values of Cauchy variables of this ``scale``. Raises ``ValueError`` unless it is positive.

    >>> import tracejit as tj
    >>> tj.distributions.HalfCauchy(1.0).cdf(tj.tensor(1.0))
    tensor(0.5000)
    """

    whole = Cauchy

    @property
    def mean(self) -> Any:
        """Infinite."""
        return full_like(self.scale, math.inf)

    variance = mean


@divergence(HalfNormal)
@divergence(HalfCauchy)
def _between_halves(p: _Half, q: _Half) -> Any:
    """As between what the signs were taken of."""
    return kl_divergence(p._whole(), q._whole())
