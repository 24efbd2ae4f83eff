"""Distributions of waiting times and shares: exponential, gamma, chi-squared, beta, Dirichlet.

Gamma variables are drawn by inverting their distribution function: draws of gamma, beta and Dirichlet distributions
are functions of uniform noise and carry gradients.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..autograd.grad_mode import no_grad
from ..dtypes import float64
from ..modes import MODES
from ..ops.elementwise import where
from ..ops.functions.factories import zeros_like
from ..ops.functions.ranges import arange
from ..ops.functions.sampling import rand
from ..ops.special_functions import igamma, igamma_inverse
from ..tensor_make import as_tensor
from .distribution import broadcast, divergence
from .exp_family import ExponentialFamily

__all__ = [
    "Beta",
    "Chi2",
    "Dirichlet",
    "Exponential",
    "Gamma",
]


class Exponential(ExponentialFamily):
    """Waiting times at a ``rate``: density ``rate * exp(-rate * x)``. Raises ``ValueError`` unless rates are positive.

    >>> import tracejit as tj
    >>> tj.distributions.Exponential(2.0).log_prob(tj.tensor(0.0))
    tensor(0.6931)
    """

    has_rsample = True

    rate: Any

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        self._take(validate_args, rate=rate)

    @property
    def mean(self) -> Any:
        """1 / rate."""
        return self.rate.reciprocal()

    stddev = mean

    @property
    def variance(self) -> Any:
        """1 / rate²."""
        return self.rate.pow(-2)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        """-log(1 - noise) / rate."""
        return -(-rand(self._extended(sample_shape), dtype=self.rate.dtype)).log1p() / self.rate

    def log_prob(self, value: Any) -> Any:
        """log(rate) - rate * value."""
        if self._validate_args:
            self._validate_sample(value)
        return self.rate.log() - self.rate * value

    def cdf(self, value: Any) -> Any:
        """1 - exp(-rate * value)."""
        if self._validate_args:
            self._validate_sample(value)
        return 1 - (-self.rate * value).exp()

    @property
    def mode(self) -> Any:
        """0."""
        return zeros_like(self.rate)

    def icdf(self, value: Any) -> Any:
        """-log(1 - value) / rate."""
        return -(-value).log1p() / self.rate

    def entropy(self) -> Any:
        """1 - log(rate)."""
        return 1.0 - self.rate.log()


@divergence(Exponential)
def _between_exponentials(p: Exponential, q: Exponential) -> Any:
    ratio = q.rate / p.rate
    return ratio - 1 - ratio.log()


class Gamma(ExponentialFamily):
    """Gamma distributions of shape ``concentration`` and ``rate``. Raises ``ValueError`` unless both are positive.

    >>> import tracejit as tj
    >>> tj.distributions.Gamma(2.0, 1.0).mean
    tensor(2.)
    """

    has_rsample = True

    concentration: Any
    rate: Any

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        self._take(validate_args, concentration=concentration, rate=rate)

    @property
    def mean(self) -> Any:
        """concentration / rate."""
        return self.concentration / self.rate

    @property
    def variance(self) -> Any:
        """concentration / rate²."""
        return self.concentration / self.rate.pow(2)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        """Standard gamma variables / rate."""
        return _gamma(self.concentration, self._extended(sample_shape)) / self.rate

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density."""
        value = as_tensor(value, dtype=self.rate.dtype, device=self.rate.device)
        if self._validate_args:
            self._validate_sample(value)
        a, b = self.concentration, self.rate
        return a.xlogy(b) + (a - 1).xlogy(value) - b * value - a.lgamma()

    @property
    def mode(self) -> Any:
        """(concentration - 1) / rate, zero up to 1."""
        return ((self.concentration - 1) / self.rate).clamp(min=0)

    def cdf(self, value: Any) -> Any:
        """The regularised lower incomplete gamma function at rate * value."""
        if self._validate_args:
            self._validate_sample(value)
        return igamma(self.concentration, self.rate * value)

    def entropy(self) -> Any:
        """a - log(b) + log Γ(a) + (1 - a) ψ(a)."""
        a = self.concentration
        return a - self.rate.log() + a.lgamma() + (1.0 - a) * a.digamma()


def _gamma(concentration: Any, shape: tuple[int, ...]) -> Any:
    """Standard gamma variables, above zero."""
    noise, kind = rand(shape, dtype=float64), concentration.dtype
    with no_grad():
        a = concentration.detach().expand(shape).double()
        found = igamma_inverse(a, noise).to(kind).clamp(min=1e-30)
    if not (MODES.grad and concentration.requires_grad):
        return found
    with (
        no_grad()
    ):  # how the quantile of this noise moves with the concentration, to about eight digits
        step = 1e-4 * a
        apart = igamma_inverse(a + step, noise) - igamma_inverse(a - step, noise)
        slope = (apart / (2 * step)).to(kind)
    return found + slope * (concentration - concentration.detach())


@divergence(Gamma)
def _between_gammas(p: Gamma, q: Gamma) -> Any:
    a, b = p.concentration, q.concentration
    first = b * (p.rate / q.rate).log() + b.lgamma() - a.lgamma()
    return first + (a - b) * a.digamma() + (q.rate - p.rate) * (a / p.rate)


class Chi2(Gamma):
    """Sums of ``df`` squared standard normal variables.

    >>> import tracejit as tj
    >>> tj.distributions.Chi2(3.0).mean
    tensor(3.)
    """

    def __init__(self, df: Any, validate_args: bool | None = None) -> None:
        (degrees,) = broadcast(df)
        super().__init__(0.5 * degrees, 0.5, validate_args)

    @property
    def df(self) -> Any:
        """Degrees of freedom."""
        return self.concentration * 2


class Dirichlet(ExponentialFamily):
    """Shares that add up to one, of ``concentration`` along the last dimension. Raises ``ValueError`` unless positive.

    >>> import tracejit as tj
    >>> tj.distributions.Dirichlet(tj.tensor([1.0, 3.0])).mean
    tensor([0.2500, 0.7500])
    """

    has_rsample = True

    def __init__(self, concentration: Any, validate_args: bool | None = None) -> None:
        if concentration.ndim < 1:
            raise ValueError("`concentration` parameter must be at least one-dimensional.")
        self.concentration = concentration
        super().__init__(concentration.shape[:-1], concentration.shape[-1:], validate_args)

    @property
    def mean(self) -> Any:
        """Shares of the concentrations."""
        return self.concentration / self.concentration.sum(-1, True)

    @property
    def mode(self) -> Any:
        """Shares of what concentrations exceed one by; where none does, the first vector of those at the corners."""
        above = (self.concentration - 1).clamp(min=0)
        found = above / above.sum(-1, True)
        below = (self.concentration < 1).all(-1, True)
        first = arange(found.shape[-1]) == 0
        return where(below, first.to(found.dtype), found)

    @property
    def variance(self) -> Any:
        """mean (1 - mean) / (total + 1)."""
        total = self.concentration.sum(-1, True)
        return self.mean * (1 - self.mean) / (total + 1)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        """Shares of gamma variables."""
        parts = _gamma(self.concentration, self._extended(sample_shape))
        return parts / parts.sum(-1, True)

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density."""
        if self._validate_args:
            self._validate_sample(value)
        a = self.concentration
        weights = (a - 1.0).xlogy(value).sum(-1)
        return weights + a.sum(-1).lgamma() - a.lgamma().sum(-1)

    def entropy(self) -> Any:
        """The mean of -log p."""
        a, k = self.concentration, self.concentration.shape[-1]
        total = a.sum(-1)
        first = a.lgamma().sum(-1) - total.lgamma() - (k - total) * total.digamma()
        return first - ((a - 1.0) * a.digamma()).sum(-1)


@divergence(Dirichlet)
def _between_dirichlets(p: Dirichlet, q: Dirichlet) -> Any:
    a, b = p.concentration, q.concentration
    total = a.sum(-1)
    first = total.lgamma() - b.sum(-1).lgamma() - (a.lgamma() - b.lgamma()).sum(-1)
    return first + ((a - b) * (a.digamma() - total.digamma().unsqueeze(-1))).sum(-1)


class Beta(ExponentialFamily):
    """Shares between 0 and 1. Raises ``ValueError`` unless both concentrations are positive.

    >>> import tracejit as tj
    >>> tj.distributions.Beta(1.0, 3.0).mean
    tensor(0.2500)
    """

    has_rsample = True

    concentration1: Any
    concentration0: Any

    def __init__(
        self, concentration1: Any, concentration0: Any, validate_args: bool | None = None
    ) -> None:
        self._take(validate_args, concentration1=concentration1, concentration0=concentration0)

    def _pair(self) -> Dirichlet:
        both = self.concentration1.unsqueeze(-1), self.concentration0.unsqueeze(-1)
        from ..ops.functions.joining import cat

        return Dirichlet(cat(both, -1), validate_args=False)

    @property
    def mean(self) -> Any:
        """a / (a + b)."""
        return self.concentration1 / (self.concentration1 + self.concentration0)

    @property
    def mode(self) -> Any:
        """(a - 1) / (a + b - 2); 0 or 1 where both are below one."""
        return self._pair().mode[..., 0]

    @property
    def variance(self) -> Any:
        """a b / ((a + b)² (a + b + 1))."""
        total = self.concentration1 + self.concentration0
        return self.concentration1 * self.concentration0 / (total.pow(2) * (total + 1))

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        """The share of one of two gamma variables."""
        return self._pair().rsample(sample_shape)[..., 0]

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density."""
        if self._validate_args:
            self._validate_sample(value)
        a, b = self.concentration1, self.concentration0
        weights = (a - 1.0).xlogy(value) + (b - 1.0).xlogy(1.0 - value)
        return weights + (a + b).lgamma() - a.lgamma() - b.lgamma()

    def entropy(self) -> Any:
        """The mean of -log p."""
        return self._pair().entropy()


@divergence(Beta)
def _between_betas(p: Beta, q: Beta) -> Any:
    return _between_dirichlets(p._pair(), q._pair())
