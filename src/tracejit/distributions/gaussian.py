"""Distributions of real numbers: normal and uniform."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..ops.functions.sampling import rand, randn
from .distribution import Distribution, divergence
from .exp_family import ExponentialFamily

__all__ = ["Normal", "Uniform"]


class Moved(Distribution):
    """A distribution moved by ``loc`` and stretched by ``scale``."""

    has_rsample = True

    loc: Any
    scale: Any

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self._take(validate_args, loc=loc, scale=scale)

    @property
    def mode(self) -> Any:
        """``loc``."""
        return self.loc


class Normal(Moved, ExponentialFamily):
    """Normal distributions with means ``loc`` and standard deviations ``scale``.

    Raises ``ValueError`` unless every scale is positive.

    >>> import tracejit as tj
    >>> normal = tj.distributions.Normal(tj.tensor([0.0, 1.0]), 2.0)
    >>> normal.log_prob(tj.tensor([0.0, 1.0]))
    tensor([-1.6121, -1.6121])
    """

    @property
    def mean(self) -> Any:
        """``loc``."""
        return self.loc

    @property
    def stddev(self) -> Any:
        """``scale``."""
        return self.scale

    @property
    def variance(self) -> Any:
        """``scale`` squared."""
        return self.scale * self.scale

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        """``loc + scale * noise``."""
        noise = randn(self._extended(sample_shape), dtype=self.loc.dtype)
        return self.loc + self.scale * noise

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density."""
        if self._validate_args:
            self._validate_sample(value)
        away = (value - self.loc) / self.scale
        return -0.5 * away * away - self.scale.log() - 0.5 * math.log(2 * math.pi)

    def cdf(self, value: Any) -> Any:
        """The probability of less than ``value``."""
        if self._validate_args:
            self._validate_sample(value)
        return 0.5 * (1 + ((value - self.loc) / (self.scale * math.sqrt(2))).erf())

    def icdf(self, value: Any) -> Any:
        """The number below which lies probability ``value``."""
        return self.loc + self.scale * (2 * value - 1).erfinv() * math.sqrt(2)

    def entropy(self) -> Any:
        """1/2 + log(2π)/2 + log(scale)."""
        return 0.5 + 0.5 * math.log(2 * math.pi) + self.scale.log()


@divergence(Normal)
def _between_normals(p: Normal, q: Normal) -> Any:
    ratio = (p.scale / q.scale) ** 2
    away = ((p.loc - q.loc) / q.scale) ** 2
    return 0.5 * (ratio + away - 1 - ratio.log())


class Uniform(Distribution):
    """Uniform distributions on [low, high).

    Raises ``ValueError`` unless low < high everywhere.

    >>> import tracejit as tj
    >>> tj.distributions.Uniform(0.0, 2.0).log_prob(tj.tensor([1.0, 2.0]))
    tensor([-0.6931,    -inf])
    """

    has_rsample = True

    low: Any
    high: Any

    def __init__(self, low: Any, high: Any, validate_args: bool | None = None) -> None:
        self._take(validate_args, low=low, high=high)

    @property
    def mean(self) -> Any:
        """The middle."""
        return (self.low + self.high) / 2

    @property
    def variance(self) -> Any:
        """Width squared over twelve."""
        return (self.high - self.low) ** 2 / 12

    @property
    def stddev(self) -> Any:
        """Width over the root of twelve."""
        return (self.high - self.low) / math.sqrt(12)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        """``low + (high - low) * noise``."""
        noise = rand(self._extended(sample_shape), dtype=self.low.dtype)
        return self.low + (self.high - self.low) * noise

    def log_prob(self, value: Any) -> Any:
        """-log(high - low) inside, -inf outside."""
        if self._validate_args:
            self._validate_sample(value)
        inside = (value >= self.low) & (value < self.high)
        return inside.to(self.low.dtype).log() - (self.high - self.low).log()

    @property
    def mode(self) -> Any:
        """NaN: all values are as probable."""
        return self.high * math.nan

    def cdf(self, value: Any) -> Any:
        """The share of the interval below ``value``."""
        if self._validate_args:
            self._validate_sample(value)
        return ((value - self.low) / (self.high - self.low)).clamp(0, 1)

    def icdf(self, value: Any) -> Any:
        """``low + (high - low) * value``."""
        return value * (self.high - self.low) + self.low

    def entropy(self) -> Any:
        """log(high - low)."""
        return (self.high - self.low).log()
