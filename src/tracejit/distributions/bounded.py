"""Distributions of positive numbers and of shares that are others transformed: Pareto, Weibull, Kumaraswamy and kin."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..ops.functions.factories import ones_like, zeros_like
from .compound import TransformedDistribution
from .distribution import Distribution, broadcast, divergence
from .gaussian import Uniform
from .positive import Exponential, Gamma
from .transforms import AffineTransform, ExpTransform, PowerTransform
from .utils import euler_constant

__all__ = [
    "FisherSnedecor",
    "InverseGamma",
    "Kumaraswamy",
    "Pareto",
    "Weibull",
]


class Pareto(TransformedDistribution):
    """Numbers above ``scale`` whose tails fall as the power ``alpha``. Raises ``ValueError`` unless both are positive.

    >>> import tracejit as tj
    >>> tj.distributions.Pareto(1.0, 2.0).mean
    tensor(2.)
    """

    def __init__(self, scale: Any, alpha: Any, validate_args: bool | None = None) -> None:
        self.scale, self.alpha = broadcast(scale, alpha)
        parts = [ExpTransform(), AffineTransform(0, self.scale)]
        super().__init__(Exponential(self.alpha, validate_args), parts, validate_args)

    @property
    def mean(self) -> Any:
        """scale * alpha / (alpha - 1); infinite for heavy tails."""
        a = self.alpha.clamp(min=1)
        return a * self.scale / (a - 1)

    @property
    def mode(self) -> Any:
        """scale."""
        return self.scale

    @property
    def variance(self) -> Any:
        """scale² alpha / ((alpha - 1)² (alpha - 2)); infinite for heavy tails."""
        a = self.alpha.clamp(min=2)
        return self.scale.pow(2) * a / ((a - 1).pow(2) * (a - 2))

    def entropy(self) -> Any:
        """log(scale / alpha) + 1 + 1 / alpha."""
        return (self.scale / self.alpha).log() + (1 + self.alpha.reciprocal())


@divergence(Pareto)
def _between_paretos(p: Pareto, q: Pareto) -> Any:
    ratio, shape = p.scale / q.scale, q.alpha / p.alpha
    found = q.alpha * ratio.log() - shape.log() + shape - 1
    return found.masked_fill(p.scale < q.scale, float("inf"))


class Weibull(TransformedDistribution):
    """Powers 1 / ``concentration`` of waiting times, times ``scale``. Raises ``ValueError`` unless both are positive.

    >>> import tracejit as tj
    >>> tj.distributions.Weibull(2.0, 1.0).mean
    tensor(2.)
    """

    def __init__(self, scale: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.scale, self.concentration = broadcast(scale, concentration)
        self.concentration_reciprocal = self.concentration.reciprocal()
        parts = [PowerTransform(self.concentration_reciprocal), AffineTransform(0, self.scale)]
        waiting = Exponential(ones_like(self.scale), validate_args)
        super().__init__(waiting, parts, validate_args)

    def _moment(self, power: int) -> Any:
        return (1 + power * self.concentration_reciprocal).lgamma()

    @property
    def mean(self) -> Any:
        """scale Γ(1 + 1 / concentration)."""
        return self.scale * self._moment(1).exp()

    @property
    def mode(self) -> Any:
        """scale ((concentration - 1) / concentration)^(1 / concentration)."""
        share = (self.concentration - 1) / self.concentration
        return self.scale * share.pow(self.concentration_reciprocal)

    @property
    def variance(self) -> Any:
        """scale² (Γ(1 + 2 / c) - Γ(1 + 1 / c)²)."""
        return self.scale.pow(2) * (self._moment(2).exp() - (2 * self._moment(1)).exp())

    def entropy(self) -> Any:
        """γ (1 - 1 / c) + log(scale / c) + 1."""
        inverse = self.concentration_reciprocal
        return euler_constant * (1 - inverse) + (self.scale * inverse).log() + 1


class InverseGamma(TransformedDistribution):
    """What one over a gamma variable is. Raises ``ValueError`` unless both parameters are positive.

    >>> import tracejit as tj
    >>> tj.distributions.InverseGamma(3.0, 4.0).mean
    tensor(2.)
    """

    base_dist: Gamma

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        base = Gamma(concentration, rate, validate_args)
        super().__init__(base, PowerTransform(-base.rate.new_ones(())), validate_args)

    @property
    def concentration(self) -> Any:
        """The shape of the gamma variable."""
        return self.base_dist.concentration

    @property
    def rate(self) -> Any:
        """The rate of the gamma variable."""
        return self.base_dist.rate

    @property
    def mean(self) -> Any:
        """rate / (concentration - 1); infinite up to 1."""
        found = self.rate / (self.concentration - 1)
        return found.masked_fill(self.concentration <= 1, float("inf"))

    @property
    def mode(self) -> Any:
        """rate / (concentration + 1)."""
        return self.rate / (self.concentration + 1)

    @property
    def variance(self) -> Any:
        """mean² / (concentration - 2); infinite up to 2."""
        a = self.concentration
        found = self.rate.square() / ((a - 1).square() * (a - 2))
        return found.masked_fill(a <= 2, float("inf"))

    def entropy(self) -> Any:
        """a + log(b) + log Γ(a) - (1 + a) ψ(a)."""
        a = self.concentration
        return a + self.rate.log() + a.lgamma() - (1 + a) * a.digamma()


class Kumaraswamy(TransformedDistribution):
    """Shares with distribution function 1 - (1 - x^a)^b. Raises ``ValueError`` unless both are positive.

    >>> import tracejit as tj
    >>> tj.distributions.Kumaraswamy(1.0, 1.0).mean
    tensor(0.5000)
    """

    def __init__(
        self, concentration1: Any, concentration0: Any, validate_args: bool | None = None
    ) -> None:
        self.concentration1, self.concentration0 = a, b = broadcast(concentration1, concentration0)
        parts = [
            PowerTransform(b.reciprocal()),
            AffineTransform(1.0, -1.0),
            PowerTransform(a.reciprocal()),
        ]
        super().__init__(Uniform(zeros_like(b), ones_like(b), validate_args), parts, validate_args)

    def _moment(self, power: int) -> Any:
        at, b = 1 + power / self.concentration1, self.concentration0
        return b * (at.lgamma() + b.lgamma() - (at + b).lgamma()).exp()

    @property
    def mean(self) -> Any:
        """b B(1 + 1 / a, b)."""
        return self._moment(1)

    @property
    def variance(self) -> Any:
        """The second moment minus mean²."""
        return self._moment(2) - self.mean.pow(2)

    @property
    def mode(self) -> Any:
        """((a - 1) / (a b - 1))^(1 / a); NaN where either is below one."""
        a, b = self.concentration1, self.concentration0
        found = ((a - 1) / (a * b - 1)).log() / a
        return found.exp().masked_fill((a < 1) | (b < 1), math.nan)

    def entropy(self) -> Any:
        """(1 - 1/b) + (1 - 1/a) H(b) - log(a b)."""
        a, b = self.concentration1, self.concentration0
        harmonic = (b + 1).digamma() + euler_constant
        return (1 - b.reciprocal()) + (1 - a.reciprocal()) * harmonic - a.log() - b.log()


class FisherSnedecor(Distribution):
    """Ratios of chi-squared means of ``df1`` and ``df2`` degrees of freedom. Raises ``ValueError`` unless positive.

    >>> import tracejit as tj
    >>> tj.distributions.FisherSnedecor(1.0, 4.0).mean
    tensor(2.)
    """

    has_rsample = True

    df1: Any
    df2: Any

    def __init__(self, df1: Any, df2: Any, validate_args: bool | None = None) -> None:
        self._take(validate_args, df1=df1, df2=df2)

    @property
    def mean(self) -> Any:
        """df2 / (df2 - 2); not defined up to 2."""
        return (self.df2 / (self.df2 - 2)).masked_fill(self.df2 <= 2, float("nan"))

    @property
    def mode(self) -> Any:
        """(df1 - 2) df2 / (df1 (df2 + 2)); NaN up to df1 = 2."""
        found = (self.df1 - 2) / self.df1 * self.df2 / (self.df2 + 2)
        return found.masked_fill(self.df1 <= 2, math.nan)

    @property
    def variance(self) -> Any:
        """2 df2² (df1 + df2 - 2) / (df1 (df2 - 2)² (df2 - 4)); not defined up to 4."""
        m, n = self.df1, self.df2
        found = 2 * n.pow(2) * (m + n - 2) / (m * (n - 2).pow(2) * (n - 4))
        return found.masked_fill(n <= 4, float("nan"))

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        """The ratio of two gamma variables of mean one."""
        above, below = (
            Gamma(d * 0.5, d * 0.5, False).rsample(sample_shape) for d in (self.df1, self.df2)
        )
        return above / below

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density."""
        if self._validate_args:
            self._validate_sample(value)
        m, n, ratio = self.df1 * 0.5, self.df2 * 0.5, self.df1 / self.df2
        scale = (m + n).lgamma() - m.lgamma() - n.lgamma()
        tail = m * ratio.log() + (m - 1) * value.log()
        return scale + tail - (m + n) * (ratio * value).log1p()
