"""Layers that normalise along one dimension into weights that sum to one."""

from __future__ import annotations

from typing import Any

from ..ops.functions.softmax import dim_left_out, implicit_dim
from . import functional as F
from .module import Module

__all__ = ["LogSoftmax", "Softmax", "Softmax2d", "Softmin"]


class _AlongDim(Module):
    """A normalisation along one dimension."""

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def extra_repr(self) -> str:
        """The dimension."""
        return f"dim={self.dim}"


class Softmax(_AlongDim):
    """exp(x) / sum(exp(x)) along ``dim``.

    >>> import tracejit as tj
    >>> tj.nn.Softmax(dim=0)(tj.zeros(2))
    tensor([0.5000, 0.5000])
    """

    def forward(self, input: Any) -> Any:
        """softmax(x)."""
        return F.softmax(input, dim=_dim(self.dim, input, "softmax"))


class LogSoftmax(_AlongDim):
    """log(softmax(x)) along ``dim``, without overflow."""

    def forward(self, input: Any) -> Any:
        """log_softmax(x)."""
        return F.log_softmax(input, dim=_dim(self.dim, input, "log_softmax"))


class Softmin(_AlongDim):
    """softmax(-x) along ``dim``."""

    def forward(self, input: Any) -> Any:
        """softmin(x)."""
        return F.softmax(-input, dim=_dim(self.dim, input, "softmin"))


class Softmax2d(Module):
    """softmax over channels of (N, C, H, W) or (C, H, W); ``ValueError`` for other ranks."""

    def forward(self, input: Any) -> Any:
        """softmax along dimension -3."""
        if input.ndim not in (3, 4):
            raise ValueError(f"Softmax2d: expected input to be 3D or 4D, got {input.ndim}D instead")
        return F.softmax(input, dim=-3)


def _dim(dim: int | None, input: Any, name: str) -> int:
    """``dim``, or PyTorch's implicit dimension, with a warning."""
    if dim is None:
        dim_left_out(name)
    return implicit_dim(dim, input)
