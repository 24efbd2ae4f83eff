"""Dropout of whole channels and of self-normalising networks, and activations with random slopes."""

from __future__ import annotations

from typing import Any, ClassVar

from . import functional as F
from .dropout import Dropout
from .module import Module

__all__ = ["AlphaDropout", "Dropout1d", "Dropout2d", "Dropout3d", "FeatureAlphaDropout", "RReLU"]


class _NamedDropout(Dropout):
    """Dropout by one of the functions of that name."""

    function: ClassVar[str]

    def forward(self, input: Any) -> Any:
        """The input with elements or channels dropped while training."""
        result = getattr(F, self.function)(input, self.p, self.training)
        return input._assign(result) if self.inplace and self.training else result


class Dropout1d(_NamedDropout):
    """Zeroes whole channels of (N, C, L) or (C, L) with probability ``p`` while training."""

    function = "dropout1d"


class Dropout2d(_NamedDropout):
    """Zeroes whole channels of (N, C, H, W) or (N, C, L) with probability ``p`` while training."""

    function = "dropout2d"


class Dropout3d(_NamedDropout):
    """Zeroes whole channels of (N, C, D, H, W) or (C, D, H, W) with probability ``p`` while training."""

    function = "dropout3d"


class AlphaDropout(_NamedDropout):
    """Dropout that keeps mean and variance of self-normalising networks."""

    function = "alpha_dropout"


class FeatureAlphaDropout(_NamedDropout):
    """AlphaDropout of whole channels (dimensions 0 and 1)."""

    function = "feature_alpha_dropout"


class RReLU(Module):
    """x above zero, ``slope * x`` below, slopes drawn from [lower, upper) while training, else their mean."""

    def __init__(
        self, lower: float = 1.0 / 8, upper: float = 1.0 / 3, inplace: bool = False
    ) -> None:
        super().__init__()
        self.lower = lower
        self.upper = upper
        self.inplace = inplace

    def forward(self, input: Any) -> Any:
        """rrelu(x)."""
        return F.rrelu(input, self.lower, self.upper, self.training, self.inplace)

    def extra_repr(self) -> str:
        """The range of slopes."""
        return f"lower={self.lower}, upper={self.upper}" + (", inplace=True" * self.inplace)
