"""Continuous Bernoulli numbers, exponentials cut off at one; and generalised Pareto numbers, the tails of others."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..ops.functions.sampling import rand
from .discrete import OfChances
from .distribution import Distribution, divergence
from .exp_family import ExponentialFamily
from .lazy import lazy_property
from .utils import clamp_probs, logits_to_probs

__all__ = ["ContinuousBernoulli", "GeneralizedPareto"]

#: B(2k) / (2k)!, with Bernoulli numbers: what log(sinh(x / 2) / (x / 2)) and its derivatives are made of.
_SERIES = (1 / 12, -1 / 720, 1 / 30240, -1 / 1209600, 1 / 47900160)
#: Log-odds below which that series is the more precise.
_NEAR = 0.5


def _polynomial(x: Any, factors: Sequence[float]) -> Any:
    """``factors[0] + factors[1] * x + ...``."""
    found: Any = 0.0
    for factor in reversed(factors):
        found = found * x + factor
    return found


class ContinuousBernoulli(OfChances, ExponentialFamily):
    """Density proportional to ``probs**x * (1 - probs)**(1 - x)`` on [0, 1] (Loaiza-Ganem and Cunningham, 2019).

    ``lims`` changes nothing: the density is as precise near ``probs = 1/2``. Raises ``ValueError`` unless exactly one
    of ``probs`` and ``logits`` is given, within [0, 1].

    >>> import tracejit as tj
    >>> tj.distributions.ContinuousBernoulli(0.5).log_prob(tj.tensor(0.3)).exp()
    tensor(1.)
    """

    has_rsample = True

    def __init__(
        self,
        probs: Any = None,
        logits: Any = None,
        lims: tuple[float, float] = (0.499, 0.501),
        validate_args: bool | None = None,
    ) -> None:
        self._take_one(probs, logits, validate_args)
        if probs is not None:
            self._param = self.probs = clamp_probs(self.probs)

    @lazy_property
    def probs(self) -> Any:
        """sigmoid(logits), kept from 0 and 1."""
        return clamp_probs(logits_to_probs(self.logits, is_binary=True))

    def _parts(self) -> tuple[Any, Any, Any]:
        """Where log-odds are near zero, those, and the others; each as numbers that do no harm elsewhere."""
        near = self.logits.abs() < _NEAR
        return near, self.logits.where(near, 0.0), self.logits.where(~near, 1.0)

    def _log_normalizer(self) -> Any:
        """``log((exp(logits) - 1) / logits)``, the logarithm of the integral of exp(logits * x)."""
        near, small, large = self._parts()
        square = small * small
        even = square * _polynomial(square, [c / (2 * k + 2) for k, c in enumerate(_SERIES)])
        size = large.abs()
        far = large.clamp(min=0) + (-(-size).expm1()).log() - size.log()
        return (small / 2 + even).where(near, far)

    @property
    def mean(self) -> Any:
        """1 / (1 - exp(-logits)) - 1 / logits."""
        near, small, large = self._parts()
        series = 0.5 + small * _polynomial(small * small, _SERIES)
        return series.where(near, -1 / (-large).expm1() - 1 / large)

    @property
    def variance(self) -> Any:
        """1 / logits² - 1 / (2 sinh(logits / 2))²."""
        near, small, large = self._parts()
        factors = [c * (2 * k + 1) for k, c in enumerate(_SERIES)]
        series = _polynomial(small * small, factors)
        size = large.abs()
        return series.where(near, 1 / large.square() - (-size).exp() / (-size).expm1().square())

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        """By inversion."""
        return self.icdf(rand(self._extended(sample_shape), dtype=self._param.dtype))

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density."""
        if self._validate_args:
            self._validate_sample(value)
        return self.logits * value - self._log_normalizer()

    def cdf(self, value: Any) -> Any:
        """``(exp(logits * value) - 1) / (exp(logits) - 1)``, 0 below zero and 1 above one."""
        if self._validate_args:
            self._validate_sample(value)
        x = value.clamp(0, 1)
        rising = self.logits > 0  # then the share that lies above: nothing overflows
        tiny, slope = self._falling()
        y = (1 - x).where(rising, x)
        below = (y + slope * y * (y - 1) / 2).where(tiny, (slope * y).expm1() / slope.expm1())
        return (1 - below).where(rising, below)

    def icdf(self, value: Any) -> Any:
        """The number that is not exceeded with this probability."""
        rising = self.logits > 0
        tiny, slope = self._falling()
        u = (1 - value).where(rising, value)
        found = (u - slope * u * (u - 1) / 2).where(tiny, (u * slope.expm1()).log1p() / slope)
        return (1 - found).where(rising, found)

    def _falling(self) -> tuple[Any, Any]:
        """Where minus the size of the log-odds is nearly zero, and that; it is never zero, so that it divides."""
        slope = -self.logits.abs()
        return slope > -1e-4, slope.where(slope < 0, -1e-30)

    def entropy(self) -> Any:
        """The logarithm of the integral, less ``logits * mean``."""
        return self._log_normalizer() - self.logits * self.mean


@divergence(ContinuousBernoulli)
def _between_continuous_bernoullis(p: ContinuousBernoulli, q: ContinuousBernoulli) -> Any:
    return -p.entropy() - (q.logits * p.mean - q._log_normalizer())


class GeneralizedPareto(Distribution):
    """Density ``(1 + concentration * z)**(-1 - 1 / concentration) / scale`` at ``z = (x - loc) / scale`` above zero.

    With a ``concentration`` of zero it is exponential, below zero it ends at ``loc - scale / concentration``. Raises
    ``ValueError`` unless ``scale`` is positive.

    >>> import tracejit as tj
    >>> tj.distributions.GeneralizedPareto(0.0, 1.0, 0.5).mean
    tensor(2.)
    """

    has_rsample = True

    loc: Any
    scale: Any
    concentration: Any

    def __init__(
        self, loc: Any, scale: Any, concentration: Any, validate_args: bool | None = None
    ) -> None:
        self._take(validate_args, loc=loc, scale=scale, concentration=concentration)

    def _curved(self) -> tuple[Any, Any]:
        """Where the concentration is zero, and what to divide by: it, or one there."""
        zero = self.concentration.abs() <= 1e-8
        return zero, self.concentration.where(~zero, 1.0)

    @property
    def mean(self) -> Any:
        """loc + scale / (1 - concentration); NaN for a concentration of one or more."""
        valid = self.concentration < 1
        found = self.loc + self.scale / (1 - self.concentration.where(valid, 0.5))
        return found.where(valid, math.nan)

    @property
    def variance(self) -> Any:
        """scale² / ((1 - concentration)² (1 - 2 concentration)); NaN for a half or more."""
        valid = self.concentration < 0.5
        c = self.concentration.where(valid, 0.25)
        return (self.scale.square() / ((1 - c).square() * (1 - 2 * c))).where(valid, math.nan)

    @property
    def mode(self) -> Any:
        """``loc``."""
        return self.loc

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        """By inversion."""
        return self.icdf(rand(self._extended(sample_shape), dtype=self.loc.dtype))

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density."""
        if self._validate_args:
            self._validate_sample(value)
        z = (value - self.loc) / self.scale
        zero, c = self._curved()
        power = 1 / c + 1
        flat = power == 0  # uniform, and of no other density at the end
        curved = power * (c * z).where(~flat, 0.0).log1p()
        return -self.scale.log() - z.where(zero, curved)

    def log_survival_function(self, value: Any) -> Any:
        """The logarithm of the probability of more than ``value``."""
        z = (value - self.loc) / self.scale
        zero, c = self._curved()
        return (-z).where(zero, -(c * z).log1p() / c)

    def log_cdf(self, value: Any) -> Any:
        """The logarithm of the probability of at most ``value``."""
        return (-self.log_survival_function(value).exp()).log1p()

    def cdf(self, value: Any) -> Any:
        """The probability of at most ``value``."""
        return self.log_cdf(value).exp()

    def icdf(self, value: Any) -> Any:
        """The number that is not exceeded with this probability."""
        logarithm = (-value).log1p()
        zero, c = self._curved()
        return self.loc + self.scale * (-logarithm).where(zero, (-c * logarithm).expm1() / c)

    def entropy(self) -> Any:
        """log(scale) + concentration + 1."""
        return self.scale.log() + self.concentration + 1
