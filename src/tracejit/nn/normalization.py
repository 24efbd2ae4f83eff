"""Layers that normalise: LayerNorm, RMSNorm, GroupNorm, CrossMapLRN2d."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..dtypes import DType
from ..ops.functions.joining import stack
from . import functional as F
from . import init
from .linear import empty_parameter
from .module import Module

__all__ = ["CrossMapLRN2d", "GroupNorm", "LayerNorm", "RMSNorm"]


def _as_shape(normalized_shape: int | Sequence[int]) -> tuple[int, ...]:
    return (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)


class _Affine(Module):
    """A normalisation with an optional scale and shift of one shape."""

    weight: Any
    bias: Any

    def _make(self, shape: tuple[int, ...], weight: bool, bias: bool, **place: Any) -> None:
        for name, wanted in (("weight", weight), ("bias", bias)):
            value = empty_parameter(*shape, **place) if wanted else None
            self.register_parameter(name, value)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Scale one, shift zero."""
        if self.weight is not None:
            init.ones_(self.weight)
        if getattr(self, "bias", None) is not None:
            init.zeros_(self.bias)


class LayerNorm(_Affine):
    """(x - mean) / sqrt(var + eps) * weight + bias over the last dimensions, ``normalized_shape``.

    >>> import tracejit as tj
    >>> tj.nn.LayerNorm(2)(tj.tensor([[1.0, 3.0]])).detach().round()
    tensor([[-1.,  1.]])
    """

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = _as_shape(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        self._make(
            self.normalized_shape,
            elementwise_affine,
            elementwise_affine and bias,
            device=device,
            dtype=dtype,
        )

    def forward(self, input: Any) -> Any:
        """layer_norm(x)."""
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        """Shape and options."""
        return (
            f"{self.normalized_shape}, eps={self.eps}, "
            f"elementwise_affine={self.elementwise_affine}, bias={self.bias is not None}"
        )


class RMSNorm(_Affine):
    """x / sqrt(mean(x²) + eps) * weight over the last dimensions; ``eps=None`` is the dtype's machine epsilon.

    >>> import tracejit as tj
    >>> tj.nn.RMSNorm(2)(tj.tensor([[2.0, 2.0]])).detach()
    tensor([[1., 1.]])
    """

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = _as_shape(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        weight = (
            empty_parameter(*self.normalized_shape, device=device, dtype=dtype)
            if elementwise_affine
            else None
        )
        self.register_parameter("weight", weight)
        self.reset_parameters()

    def forward(self, x: Any) -> Any:
        """rms_norm(x)."""
        return F.rms_norm(x, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        """Shape and options."""
        return (
            f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"
        )


class GroupNorm(_Affine):
    """Normalises groups of channels of (N, C, *); ``ValueError`` unless groups divide channels.

    >>> import tracejit as tj
    >>> tj.nn.GroupNorm(2, 4)(tj.ones(1, 4, 3)).shape
    tracejit.Size([1, 4, 3])
    """

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: Any = None,
        dtype: DType | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        if num_channels % num_groups:
            raise ValueError("num_channels must be divisible by num_groups")
        self.num_groups = num_groups
        self.num_channels = num_channels
        self.eps = eps
        self.affine = affine
        self._make((num_channels,), affine, affine and bias, device=device, dtype=dtype)

    def forward(self, input: Any) -> Any:
        """group_norm(x)."""
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        """Sizes and options."""
        return (
            f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, "
            f"bias={self.bias is not None}"
        )


class CrossMapLRN2d(Module):
    """``x / (k + alpha / size * sum of x**2 over neighbouring channels)**beta`` for (N, C, H, W).

    The older form of ``LocalResponseNorm``, which the layer of PyTorch differs from: its window of
    ``2 * ((size - 1) // 2) + 1`` channels keeps the first channel after it has left it. So does this one. Raises
    ``ValueError`` for what has not four dimensions.

    >>> import tracejit as tj
    >>> CrossMapLRN2d(2, alpha=2.0)(tj.ones(1, 3, 1, 1)).flatten()
    tensor([0.5946, 0.4387, 0.4387])
    """

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1) -> None:
        super().__init__()
        self.size, self.alpha, self.beta, self.k = size, alpha, beta, k

    def forward(self, input: Any) -> Any:
        """The same."""
        if input.dim() != 4:
            raise ValueError(f"CrossMapLRN2d: Expected input to be 4D, got {input.dim()}D instead.")
        squares = input.square().unbind(1)
        reach = int((self.size - 1) / 2 + 1)
        total = sum(squares[1:reach], start=squares[0])
        totals = [total]
        for channel in range(1, len(squares)):
            if channel + reach - 1 < len(squares):
                total = total + squares[channel + reach - 1]
            if channel > reach:
                total = total - squares[channel - reach]
            totals.append(total)
        scale = stack(totals, 1) * (self.alpha / self.size) + self.k
        return input * scale**-self.beta

    def extra_repr(self) -> str:
        """The options that are in the text of the layer."""
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"
