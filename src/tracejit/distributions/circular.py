"""Distributions of angles."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..autograd.grad_mode import no_grad
from ..ops.elementwise import where
from ..ops.functions.sampling import rand
from ..ops.special_functions import i0e, i1e
from .distribution import Distribution

__all__ = ["VonMises"]


class VonMises(Distribution):
    """Angles in [-π, π) around ``loc``: density exp(κ cos(x - loc)) / (2π I₀(κ)), κ the ``concentration``.

    Raises ``ValueError`` unless concentrations are positive.

    >>> import tracejit as tj
    >>> tj.distributions.VonMises(0.0, 1.0).log_prob(tj.tensor(0.0))
    tensor(-1.0738)
    """

    loc: Any
    concentration: Any

    def __init__(self, loc: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self._take(validate_args, loc=loc, concentration=concentration)

    @property
    def mean(self) -> Any:
        """``loc``, the mean direction."""
        return self.loc

    @property
    def mode(self) -> Any:
        """``loc``."""
        return self.loc

    @property
    def variance(self) -> Any:
        """1 - I₁(κ) / I₀(κ), the circular variance."""
        return 1 - i1e(self.concentration) / i0e(self.concentration)

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density."""
        if self._validate_args:
            self._validate_sample(value)
        size = (
            math.log(2 * math.pi)
            + i0e(self.concentration).log()  # I₀ without its exponential growth
            + self.concentration
        )
        return self.concentration * (value - self.loc).cos() - size

    def sample(self, sample_shape: Sequence[int] = ()) -> Any:
        """Draws by rejection from a wrapped Cauchy distribution (Best and Fisher, 1979)."""
        with no_grad():
            shape = self._extended(sample_shape)
            k = self.concentration.double()
            tau = 1 + (1 + 4 * k * k).sqrt()
            rho = (tau - (2 * tau).sqrt()) / (2 * k)
            r = where(k < 1e-5, 1 / k + k, (1 + rho * rho) / (2 * rho)).expand(shape)
            angle = r * 0
            done = angle > 1
            while not bool(done.all()):
                first, second, side = rand((3, *shape), dtype=k.dtype)
                z = (math.pi * first).cos()
                f = (1 + r * z) / (r + z)
                c = k * (r - f)
                accepted = (c * (2 - c) > second) | ((c / second).log() + 1 - c >= 0)
                found = (side - 0.5).sign() * f.clamp(-1, 1).acos()
                angle = where(accepted & ~done, found, angle)
                done = done | accepted
            turned = (angle + math.pi + self.loc) % (2 * math.pi) - math.pi
            return turned.to(self.loc.dtype)
