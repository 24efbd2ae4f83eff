"""Distributions of real numbers with tails of their own: Laplace, Cauchy, Gumbel, half normal, Student's."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..ops.functions.sampling import rand, randn
from .distribution import Distribution, broadcast, divergence
from .positive import Chi2
from .utils import euler_constant

__all__ = ["Cauchy", "Gumbel", "HalfNormal", "Laplace", "StudentT"]


class Laplace(Distribution):
    """Density ``exp(-|x - loc| / scale) / (2 scale)``. Raises ``ValueError`` unless scales are positive.

    >>> import tracejit as tj
    >>> tj.distributions.Laplace(0.0, 1.0).log_prob(tj.tensor(0.0))
    tensor(-0.6931)
    """

    has_rsample = True

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast(loc, scale)
        super().__init__(self.loc.shape, (), validate_args)
        self._check("scale", self.scale, self.scale > 0)

    @property
    def mean(self) -> Any:
        """``loc``."""
        return self.loc

    @property
    def variance(self) -> Any:
        """2 scale²."""
        return 2 * self.scale.pow(2)

    @property
    def stddev(self) -> Any:
        """√2 scale."""
        return 2**0.5 * self.scale

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        """``loc`` and a scaled difference, by inversion."""
        u = rand(self._extended(sample_shape), dtype=self.loc.dtype) * 2 - 1
        return self.loc - self.scale * u.sign() * (-u.abs()).clamp(min=-1 + 1e-7).log1p()

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density."""
        return -(2 * self.scale).log() - (value - self.loc).abs() / self.scale

    def entropy(self) -> Any:
        """1 + log(2 scale)."""
        return 1 + (2 * self.scale).log()


@divergence(Laplace)
def _between_laplaces(p: Laplace, q: Laplace) -> Any:
    ratio, away = p.scale / q.scale, (p.loc - q.loc).abs()
    return -ratio.log() + away / q.scale + ratio * (-away / p.scale).exp() - 1


class Cauchy(Laplace):
    """Density ``1 / (π scale (1 + ((x - loc) / scale)²))``: no mean, no variance.

    >>> import tracejit as tj
    >>> tj.distributions.Cauchy(0.0, 1.0).log_prob(tj.tensor(0.0))
    tensor(-1.1447)
    """

    @property
    def mean(self) -> Any:
        """NaN."""
        return self.loc * math.nan

    @property
    def variance(self) -> Any:
        """Infinite."""
        return self.scale * math.inf

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        """``loc + scale * tan(π (noise - 1/2))``."""
        u = rand(self._extended(sample_shape), dtype=self.loc.dtype)
        return self.loc + self.scale * (math.pi * (u - 0.5)).tan()

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density."""
        away = (value - self.loc) / self.scale
        return -math.log(math.pi) - self.scale.log() - (away**2).log1p()

    def entropy(self) -> Any:
        """log(4π scale)."""
        return math.log(4 * math.pi) + self.scale.log()


class Gumbel(Laplace):
    """The largest of many: density ``exp(-z - exp(-z)) / scale`` at ``z = (x - loc) / scale``.

    >>> import tracejit as tj
    >>> tj.distributions.Gumbel(0.0, 1.0).log_prob(tj.tensor(0.0))
    tensor(-1.)
    """

    @property
    def mean(self) -> Any:
        """loc + scale times Euler's constant."""
        return self.loc + self.scale * euler_constant

    @property
    def variance(self) -> Any:
        """π² scale² / 6."""
        return (math.pi / math.sqrt(6) * self.scale).pow(2)

    @property
    def stddev(self) -> Any:
        """π scale / √6."""
        return math.pi / math.sqrt(6) * self.scale

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        """``loc - scale * log(-log(noise))``."""
        u = rand(self._extended(sample_shape), dtype=self.loc.dtype).clamp(1e-7, 1 - 1e-7)
        return self.loc - self.scale * (-u.log()).log()

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density."""
        y = (self.loc - value) / self.scale
        return y - y.exp() - self.scale.log()

    def entropy(self) -> Any:
        """log(scale) + 1 + Euler's constant."""
        return self.scale.log() + (1 + euler_constant)


class HalfNormal(Distribution):
    """Absolute values of normal variables of standard deviation ``scale``.

    >>> import tracejit as tj
    >>> tj.distributions.HalfNormal(1.0).mean
    tensor(0.7979)
    """

    has_rsample = True

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        (self.scale,) = broadcast(scale)
        super().__init__(self.scale.shape, (), validate_args)
        self._check("scale", self.scale, self.scale > 0)

    @property
    def mean(self) -> Any:
        """scale √(2 / π)."""
        return self.scale * math.sqrt(2 / math.pi)

    @property
    def variance(self) -> Any:
        """scale² (1 - 2 / π)."""
        return self.scale.pow(2) * (1 - 2 / math.pi)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        """|scale * noise|."""
        return (self.scale * randn(self._extended(sample_shape), dtype=self.scale.dtype)).abs()

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density; -inf below zero."""
        away = value / self.scale
        inside = -0.5 * away * away - self.scale.log() + 0.5 * math.log(2 / math.pi)
        return inside + (value >= 0).to(self.scale.dtype).log()

    def entropy(self) -> Any:
        """1/2 + log(scale √(π / 2))."""
        return 0.5 + self.scale.log() + 0.5 * math.log(math.pi / 2)


class StudentT(Distribution):
    """Student's distribution with ``df`` degrees of freedom, moved by ``loc`` and scaled.

    >>> import tracejit as tj
    >>> tj.distributions.StudentT(3.0).log_prob(tj.tensor(0.0))
    tensor(-1.0009)
    """

    has_rsample = True

    def __init__(
        self, df: Any, loc: Any = 0.0, scale: Any = 1.0, validate_args: bool | None = None
    ) -> None:
        self.df, self.loc, self.scale = broadcast(df, loc, scale)
        super().__init__(self.df.shape, (), validate_args)
        self._check("df", self.df, self.df > 0)
        self._check("scale", self.scale, self.scale > 0)

    @property
    def mean(self) -> Any:
        """``loc``; NaN for one degree of freedom or less."""
        return self.loc.masked_fill(self.df <= 1, math.nan)

    @property
    def variance(self) -> Any:
        """scale² df / (df - 2); infinite up to two degrees, NaN up to one."""
        found = self.scale.pow(2) * self.df / (self.df - 2)
        found = found.masked_fill(self.df <= 2, math.inf)
        return found.masked_fill(self.df <= 1, math.nan)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        """Normal variables over the roots of chi-squared means."""
        shape = self._extended(sample_shape)
        spread = (Chi2(self.df).rsample(sample_shape) / self.df).rsqrt()
        return self.loc + self.scale * randn(shape, dtype=self.loc.dtype) * spread

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density."""
        y = (value - self.loc) / self.scale
        size = self.scale.log() + 0.5 * self.df.log() + 0.5 * math.log(math.pi)
        size = size + (0.5 * self.df).lgamma() - (0.5 * (self.df + 1.0)).lgamma()
        return -0.5 * (self.df + 1.0) * (y**2.0 / self.df).log1p() - size

    def entropy(self) -> Any:
        """The mean of -log p."""
        half, more = 0.5 * self.df, 0.5 * (self.df + 1)
        beta = half.lgamma() + math.lgamma(0.5) - more.lgamma()
        slope = more * (more.digamma() - half.digamma())
        return self.scale.log() + slope + 0.5 * self.df.log() + beta
