"""Layers that drop elements at random while training."""

from __future__ import annotations

from typing import Any

from . import functional as F
from .module import Module

__all__ = ["Dropout"]


class Dropout(Module):
    """While training, zeroes elements with probability ``p`` and scales the others by 1 / (1 - p).

    Raises ``ValueError`` unless 0 <= p <= 1.

    >>> import tracejit as tj
    >>> tj.nn.Dropout(0.5).eval()(tj.ones(2))
    tensor([1., 1.])
    """

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if not 0 <= p <= 1:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        self.p = p
        self.inplace = inplace

    def forward(self, input: Any) -> Any:
        """dropout(x)."""
        return F.dropout(input, self.p, self.training, self.inplace)

    def extra_repr(self) -> str:
        """Probability, and whether the input is overwritten."""
        return f"p={self.p}, inplace={self.inplace}"
