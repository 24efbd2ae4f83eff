"""Distributions of absolute values: half normal and half Cauchy."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from ..ops.functions.factories import full_like, zeros_like
from .compound import TransformedDistribution
from .distribution import Distribution
from .gaussian import Normal
from .one_way import AbsTransform
from .tails import Cauchy

__all__ = ["HalfCauchy", "HalfNormal"]


class _Half(TransformedDistribution):
    """Absolute values of variables that are as often positive as negative."""

    whole: ClassVar[type[Distribution]]

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        base = self.whole(0, scale, validate_args=False)  # type: ignore[arg-type]
        super().__init__(base, AbsTransform(), validate_args)

    @property
    def scale(self) -> Any:
        """The scale before signs are taken off."""
        return self.base_dist.scale  # type: ignore[attr-defined]

    @property
    def mode(self) -> Any:
        """0."""
        return zeros_like(self.scale)

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density, twice that of positive and negative values; -inf below zero."""
        if self._validate_args:
            self._validate_sample(value)
        inside = self.base_dist.log_prob(value) + math.log(2)
        return inside + (value >= 0).to(self.scale.dtype).log()

    def cdf(self, value: Any) -> Any:
        """Twice what is between zero and ``value``."""
        if self._validate_args:
            self._validate_sample(value)
        return 2 * self.base_dist.cdf(value) - 1

    def icdf(self, prob: Any) -> Any:
        """The value that is not exceeded with this probability."""
        return self.base_dist.icdf((prob + 1) / 2)

    def entropy(self) -> Any:
        """log 2 less than that of positive and negative values."""
        return self.base_dist.entropy() - math.log(2)


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
