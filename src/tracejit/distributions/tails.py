"""Distributions of real numbers with tails of their own: Laplace, Cauchy, Gumbel, Student's."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..number_limits import finfo
from ..ops.functions.factories import full_like, ones_like
from ..ops.functions.sampling import rand, randn
from .compound import TransformedDistribution
from .distribution import Distribution, broadcast, divergence
from .gaussian import Moved, Uniform
from .positive import Chi2
from .transforms import AffineTransform, ExpTransform
from .utils import euler_constant

__all__ = ["Cauchy", "Gumbel", "Laplace", "StudentT"]


class Laplace(Moved):
    """Density ``exp(-|x - loc| / scale) / (2 scale)``. Raises ``ValueError`` unless scales are positive.

    >>> import tracejit as tj
    >>> tj.distributions.Laplace(0.0, 1.0).log_prob(tj.tensor(0.0))
    tensor(-0.6931)
    """

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
        if self._validate_args:
            self._validate_sample(value)
        return -(2 * self.scale).log() - (value - self.loc).abs() / self.scale

    def cdf(self, value: Any) -> Any:
        """Half an exponential on either side of ``loc``."""
        if self._validate_args:
            self._validate_sample(value)
        away = value - self.loc
        return 0.5 - 0.5 * away.sign() * (-away.abs() / self.scale).expm1()

    def icdf(self, value: Any) -> Any:
        """The value that is not exceeded with this probability."""
        away = value - 0.5
        return self.loc - self.scale * away.sign() * (-2 * away.abs()).log1p()

    def entropy(self) -> Any:
        """1 + log(2 scale)."""
        return 1 + (2 * self.scale).log()


@divergence(Laplace)
def _between_laplaces(p: Laplace, q: Laplace) -> Any:
    ratio, away = p.scale / q.scale, (p.loc - q.loc).abs()
    return -ratio.log() + away / q.scale + ratio * (-away / p.scale).exp() - 1


class Cauchy(Moved):
    """Density ``1 / (π scale (1 + ((x - loc) / scale)²))``: no mean, no variance.

    >>> import tracejit as tj
    >>> tj.distributions.Cauchy(0.0, 1.0).log_prob(tj.tensor(0.0))
    tensor(-1.1447)
    """

    @property
    def mean(self) -> Any:
        """NaN."""
        return full_like(self.loc, math.nan)

    @property
    def variance(self) -> Any:
        """Infinite."""
        return full_like(self.scale, math.inf)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        """``loc + scale * tan(π (noise - 1/2))``."""
        u = rand(self._extended(sample_shape), dtype=self.loc.dtype)
        return self.loc + self.scale * (math.pi * (u - 0.5)).tan()

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density."""
        if self._validate_args:
            self._validate_sample(value)
        away = (value - self.loc) / self.scale
        return -math.log(math.pi) - self.scale.log() - (away**2).log1p()

    def cdf(self, value: Any) -> Any:
        """1/2 + atan((value - loc) / scale) / π."""
        if self._validate_args:
            self._validate_sample(value)
        return ((value - self.loc) / self.scale).atan() / math.pi + 0.5

    def icdf(self, value: Any) -> Any:
        """loc + scale tan(π (value - 1/2))."""
        return (math.pi * (value - 0.5)).tan() * self.scale + self.loc

    def entropy(self) -> Any:
        """log(4π scale)."""
        return math.log(4 * math.pi) + self.scale.log()


@divergence(Cauchy)
def _between_cauchies(p: Cauchy, q: Cauchy) -> Any:
    """Chyzak and Nielsen, "A closed-form formula for the Kullback-Leibler divergence between Cauchy distributions"."""
    apart = (p.scale + q.scale).square() + (p.loc - q.loc).square()
    return apart.log() - (4 * p.scale * q.scale).log()


class Gumbel(TransformedDistribution):
    """The largest of many: density ``exp(-z - exp(-z)) / scale`` at ``z = (x - loc) / scale``.

    >>> import tracejit as tj
    >>> tj.distributions.Gumbel(0.0, 1.0).log_prob(tj.tensor(0.0))
    tensor(-1.)
    """

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast(loc, scale)
        ends, one = finfo(self.loc.dtype), ones_like(self.scale)
        noise = Uniform(ends.tiny * one, (1 - ends.eps) * one, validate_args)
        parts = [
            ExpTransform().inv,
            AffineTransform(0, -one),
            ExpTransform().inv,
            AffineTransform(self.loc, -self.scale),
        ]
        super().__init__(noise, parts, validate_args)

    @property
    def mode(self) -> Any:
        """``loc``."""
        return self.loc

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

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density."""
        if self._validate_args:
            self._validate_sample(value)
        y = (self.loc - value) / self.scale
        return y - y.exp() - self.scale.log()

    def entropy(self) -> Any:
        """log(scale) + 1 + Euler's constant."""
        return self.scale.log() + (1 + euler_constant)


@divergence(Gumbel)
def _between_gumbels(p: Gumbel, q: Gumbel) -> Any:
    ratio, away = p.scale / q.scale, (q.loc - p.loc) / q.scale
    moment = (away + (1 + ratio).lgamma()).exp()
    return moment - away - ratio.log() + ratio * euler_constant - (1 + euler_constant)


class StudentT(Distribution):
    """Student's distribution with ``df`` degrees of freedom, moved by ``loc`` and scaled.

    >>> import tracejit as tj
    >>> tj.distributions.StudentT(3.0).log_prob(tj.tensor(0.0))
    tensor(-1.0009)
    """

    has_rsample = True

    df: Any
    loc: Any
    scale: Any

    def __init__(
        self, df: Any, loc: Any = 0.0, scale: Any = 1.0, validate_args: bool | None = None
    ) -> None:
        self._take(validate_args, df=df, loc=loc, scale=scale)

    @property
    def mean(self) -> Any:
        """``loc``; NaN for one degree of freedom or less."""
        return self.loc.masked_fill(self.df <= 1, math.nan)

    @property
    def mode(self) -> Any:
        """``loc``."""
        return self.loc

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
        if self._validate_args:
            self._validate_sample(value)
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
