"""Transforms one after the other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .transforms import Transform
from .utils import _sum_rightmost

__all__ = ["ComposeTransform", "identity_transform"]


class ComposeTransform(Transform):
    """One function after the other.

    >>> import tracejit as tj
    >>> D = tj.distributions
    >>> D.ComposeTransform([D.AffineTransform(0.0, 2.0), D.TanhTransform()])(tj.tensor(0.0))
    tensor(0.)
    """

    _compared = ("parts",)

    def __init__(self, parts: Sequence[Transform], cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.parts = list(parts)
        self.event_dim = max((p.event_dim for p in self.parts), default=0)

    def __repr__(self) -> str:
        parts = ",\n    ".join(map(repr, self.parts))
        return f"{type(self).__name__}(\n    {parts}\n)"

    @property
    def sign(self) -> Any:
        """The product of those of its parts."""
        return math.prod(part.sign for part in self.parts)

    def forward_shape(self, shape: Sequence[int]) -> Sequence[int]:
        """Through all of the parts."""
        for part in self.parts:
            shape = part.forward_shape(shape)
        return shape

    def inverse_shape(self, shape: Sequence[int]) -> Sequence[int]:
        """Back through all of the parts."""
        for part in reversed(self.parts):
            shape = part.inverse_shape(shape)
        return shape

    def _call(self, x: Any) -> Any:
        """The function."""
        for part in self.parts:
            x = part(x)
        return x

    def _inverse(self, y: Any) -> Any:
        for part in reversed(self.parts):
            y = part._inv_call(y)
        return y

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """The sum of those of the parts; without any, a zero for each number."""
        total: Any = 0.0 if self.parts else x.new_zeros(x.shape)
        batch = x.ndim - self._dims()[0]
        for part in self.parts:
            after = part(x)
            size = part.log_abs_det_jacobian(x, after)
            total = total + _sum_rightmost(size, size.ndim - batch)
            x = after
        return total


identity_transform = ComposeTransform([])
