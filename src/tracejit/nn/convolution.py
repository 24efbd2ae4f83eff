"""Convolution layers and their transposes for one to three spatial dimensions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

from ..dtypes import DType
from . import functional as F
from . import init
from .linear import empty_parameter
from .module import Module
from .parameter import Parameter

__all__ = [
    "Conv1d",
    "Conv2d",
    "Conv3d",
    "ConvTranspose1d",
    "ConvTranspose2d",
    "ConvTranspose3d",
]

Sizes = int | Sequence[int]
_PADDING_MODES = ("zeros", "reflect", "replicate", "circular")


def repeated(value: Any, rank: int) -> tuple[int, ...]:
    """One number for every dimension, or those given.

    >>> repeated(2, 3), repeated((1, 2), 2)
    ((2, 2, 2), (1, 2))
    """
    return tuple(value) if isinstance(value, (tuple, list)) else (value,) * rank


class _Convolution(Module):
    """What convolutions share: options, parameters and how they start."""

    rank: ClassVar[int]
    transposed: ClassVar[bool] = False
    weight: Parameter
    bias: Parameter | None
    padding: Any

    def _set(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes,
        padding: Any,
        dilation: Sizes,
        output_padding: Sizes,
        groups: int,
        padding_mode: str,
    ) -> None:
        if groups <= 0:
            raise ValueError("groups must be a positive integer")
        if in_channels % groups:
            raise ValueError("in_channels must be divisible by groups")
        if out_channels % groups:
            raise ValueError("out_channels must be divisible by groups")
        if padding_mode not in _PADDING_MODES:
            raise ValueError(
                f"padding_mode must be one of {set(_PADDING_MODES)}, but got padding_mode='{padding_mode}'"
            )
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = repeated(kernel_size, self.rank)
        self.stride = repeated(stride, self.rank)
        self.padding = padding if isinstance(padding, str) else repeated(padding, self.rank)
        self.dilation = repeated(dilation, self.rank)
        self.output_padding = repeated(output_padding, self.rank)
        self.groups = groups
        self.padding_mode = padding_mode
        # (before, after) from the last dimension on, as `pad` takes them; derived layers pad by it, too.
        self._reversed_padding_repeated_twice = self._widths()

    def _widths(self) -> list[int]:
        if self.padding == "valid":
            return [0, 0] * self.rank
        if self.padding == "same":
            totals = [d * (k - 1) for d, k in zip(self.dilation, self.kernel_size, strict=True)]
            pairs = [(n // 2, n - n // 2) for n in totals]
        else:
            pairs = [(n, n) for n in self.padding]
        return [n for pair in reversed(pairs) for n in pair]

    def _make(self, bias: bool, device: Any, dtype: DType | None) -> None:
        channels = (self.out_channels, self.in_channels // self.groups)
        if self.transposed:
            channels = (self.in_channels, self.out_channels // self.groups)
        self.weight = empty_parameter(*channels, *self.kernel_size, device=device, dtype=dtype)
        shift = empty_parameter(self.out_channels, device=device, dtype=dtype) if bias else None
        self.register_parameter("bias", shift)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new values, uniform on ±1/sqrt(fan_in)."""
        if not self.weight.spec.numel:
            return
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in = self.weight.spec.numel // self.weight.shape[0]
            bound = 1 / math.sqrt(fan_in) if fan_in else 0.0
            init.uniform_(self.bias, -bound, bound)

    def extra_repr(self) -> str:
        """Sizes and what is not the default."""
        nothing = (0,) * self.rank
        parts = [
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, "
            f"stride={self.stride}"
        ]
        if self.padding != nothing:
            parts.append(f"padding={self.padding}")
        if self.dilation != (1,) * self.rank:
            parts.append(f"dilation={self.dilation}")
        if self.output_padding != nothing:
            parts.append(f"output_padding={self.output_padding}")
        if self.groups != 1:
            parts.append(f"groups={self.groups}")
        if self.bias is None:
            parts.append("bias=False")
        if self.padding_mode != "zeros":
            parts.append(f"padding_mode={self.padding_mode}")
        return ", ".join(parts)


class _Conv(_Convolution):
    """A convolution that pads as ``padding_mode`` says."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: Any = 0,
        dilation: Sizes = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        if isinstance(padding, str):
            if padding not in ("same", "valid"):
                raise ValueError(
                    f"Invalid padding string '{padding}', should be one of {{'valid', 'same'}}"
                )
            if padding == "same" and any(s != 1 for s in repeated(stride, self.rank)):
                raise ValueError("padding='same' is not supported for strided convolutions")
        self._set(
            in_channels,
            out_channels,
            kernel_size,
            stride,
            padding,
            dilation,
            0,
            groups,
            padding_mode,
        )
        self._make(bias, device, dtype)

    def forward(self, input: Any) -> Any:
        """The convolution of (N, C, *) or (C, *)."""
        return self._conv_forward(input, self.weight, self.bias)

    def _conv_forward(self, input: Any, weight: Any, bias: Any) -> Any:
        """The same with other parameters: derived layers that compute theirs call it by this name."""
        padding = self.padding
        if self.padding_mode != "zeros":
            widths = self._reversed_padding_repeated_twice
            input = F.pad(input, widths, mode=self.padding_mode)
            padding = 0
        convolve = getattr(F, f"conv{self.rank}d")
        return convolve(input, weight, bias, self.stride, padding, self.dilation, self.groups)


class Conv1d(_Conv):
    """Cross-correlation of (N, C, L) or (C, L) with learned kernels (out, C / groups, kernel).

    ``padding`` may be "same" or "valid"; ``padding_mode`` is "zeros", "reflect", "replicate" or "circular". Raises
    ``ValueError`` for options that contradict each other.

    >>> import tracejit as tj
    >>> tj.nn.Conv1d(2, 4, 3, padding=1)(tj.zeros(1, 2, 5)).shape
    tracejit.Size([1, 4, 5])
    """

    rank = 1


class Conv2d(_Conv):
    """Cross-correlation of (N, C, H, W) or (C, H, W) with learned kernels (out, C / groups, kH, kW).

    ``padding`` may be "same" or "valid"; ``padding_mode`` is "zeros", "reflect", "replicate" or "circular". Raises
    ``ValueError`` for options that contradict each other.

    >>> import tracejit as tj
    >>> tj.nn.Conv2d(3, 8, 3, stride=2)(tj.zeros(1, 3, 9, 9)).shape
    tracejit.Size([1, 8, 4, 4])
    """

    rank = 2


class Conv3d(_Conv):
    """Cross-correlation of (N, C, D, H, W) or (C, D, H, W) with learned kernels (out, C / groups, kD, kH, kW).

    >>> import tracejit as tj
    >>> tj.nn.Conv3d(1, 2, 3)(tj.zeros(1, 1, 4, 5, 6)).shape
    tracejit.Size([1, 2, 2, 3, 4])
    """

    rank = 3


class _ConvTranspose(_Convolution):
    """The transpose of a convolution."""

    transposed = True

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: Sizes = 0,
        output_padding: Sizes = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Sizes = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        if padding_mode != "zeros":
            raise ValueError(f'Only "zeros" padding mode is supported for {type(self).__name__}')
        self._set(
            in_channels,
            out_channels,
            kernel_size,
            stride,
            padding,
            dilation,
            output_padding,
            groups,
            padding_mode,
        )
        self._make(bias, device, dtype)

    def forward(self, input: Any, output_size: Sequence[int] | None = None) -> Any:
        """The transposed convolution of (N, C, *) or (C, *); ``output_size`` chooses among the possible sizes."""
        sizes = self.stride, self.padding, self.kernel_size, self.rank, self.dilation
        extra = self._output_padding(input, output_size, *sizes)
        convolve = getattr(F, f"conv_transpose{self.rank}d")
        return convolve(
            input,
            self.weight,
            self.bias,
            self.stride,
            self.padding,
            extra,
            self.groups,
            self.dilation,
        )

    def _output_padding(
        self,
        input: Any,
        output_size: Sequence[int] | None,
        stride: Sequence[int],
        padding: Sequence[int],
        kernel_size: Sequence[int],
        num_spatial_dims: int,
        dilation: Sequence[int] | None = None,
    ) -> tuple[int, ...]:
        """The output padding that gives ``output_size`` (None: the layer's own); ``ValueError`` when none does."""
        if output_size is None:
            return repeated(self.output_padding, num_spatial_dims)
        rank, own = num_spatial_dims, tuple(input.shape)[-num_spatial_dims:]
        wanted = tuple(output_size)
        if len(wanted) == input.ndim:
            wanted = wanted[-rank:]
        if len(wanted) != rank:
            raise ValueError(
                f"{type(self).__name__}: for {input.ndim}D input, output_size must have {rank} or "
                f"{input.ndim} elements (got {len(output_size)})"
            )
        dilations = (1,) * rank if dilation is None else dilation
        least = [
            (n - 1) * s - 2 * p + d * (k - 1) + 1
            for n, s, p, d, k in zip(own, stride, padding, dilations, kernel_size, strict=True)
        ]
        most = [low + s - 1 for low, s in zip(least, stride, strict=True)]
        if any(not low <= n <= high for low, n, high in zip(least, wanted, most, strict=True)):
            raise ValueError(
                f"requested an output size of {wanted}, but valid sizes range from {least} to {most} "
                f"(for an input of {own})"
            )
        return tuple(n - low for n, low in zip(wanted, least, strict=True))


class ConvTranspose1d(_ConvTranspose):
    """The transpose of Conv1d: (N, C, L) or (C, L) with learned kernels (C, out / groups, kernel).

    >>> import tracejit as tj
    >>> tj.nn.ConvTranspose1d(2, 4, 2, stride=2)(tj.zeros(1, 2, 5)).shape
    tracejit.Size([1, 4, 10])
    """

    rank = 1


class ConvTranspose2d(_ConvTranspose):
    """The transpose of Conv2d: (N, C, H, W) or (C, H, W) with learned kernels (C, out / groups, kH, kW).

    >>> import tracejit as tj
    >>> tj.nn.ConvTranspose2d(3, 8, 4, stride=2, padding=1)(tj.zeros(1, 3, 5, 5)).shape
    tracejit.Size([1, 8, 10, 10])
    """

    rank = 2


class ConvTranspose3d(_ConvTranspose):
    """The transpose of Conv3d: (N, C, D, H, W) with learned kernels (C, out / groups, kD, kH, kW).

    >>> import tracejit as tj
    >>> tj.nn.ConvTranspose3d(1, 2, 3)(tj.zeros(1, 1, 2, 3, 4)).shape
    tracejit.Size([1, 2, 4, 5, 6])
    """

    rank = 3
