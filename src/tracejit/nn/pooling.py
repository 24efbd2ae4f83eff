"""Pooling layers: maxima, means and norms of windows, and pooling to a given size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from . import functional as F
from .convolution import repeated
from .module import Module

__all__ = [
    "AdaptiveAvgPool1d",
    "AdaptiveAvgPool2d",
    "AdaptiveAvgPool3d",
    "AdaptiveMaxPool1d",
    "AdaptiveMaxPool2d",
    "AdaptiveMaxPool3d",
    "AvgPool1d",
    "AvgPool2d",
    "AvgPool3d",
    "LPPool1d",
    "LPPool2d",
    "LPPool3d",
    "MaxPool1d",
    "MaxPool2d",
    "MaxPool3d",
    "MaxUnpool1d",
    "MaxUnpool2d",
    "MaxUnpool3d",
]

Sizes = int | Sequence[int]


class _MaxPool(Module):
    """The largest element of every window; with positions when ``return_indices``."""

    rank: ClassVar[int]

    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        dilation: Sizes = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding
        self.dilation = dilation
        self.return_indices = return_indices
        self.ceil_mode = ceil_mode

    def forward(self, input: Any) -> Any:
        """The maxima of (N, C, *) or (C, *)."""
        return getattr(F, f"max_pool{self.rank}d")(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.dilation,
            ceil_mode=self.ceil_mode,
            return_indices=self.return_indices,
        )

    def extra_repr(self) -> str:
        """The windows."""
        return (
            f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, "
            f"dilation={self.dilation}, ceil_mode={self.ceil_mode}"
        )


class MaxPool1d(_MaxPool):
    """The largest element of every window of (N, C, L) or (C, L)."""

    rank = 1


class MaxPool2d(_MaxPool):
    """The largest element of every window of (N, C, H, W) or (C, H, W).

    >>> import tracejit as tj
    >>> tj.nn.MaxPool2d(2)(tj.arange(16.0).reshape(1, 4, 4))
    tensor([[[ 5.,  7.],
             [13., 15.]]])
    """

    rank = 2


class MaxPool3d(_MaxPool):
    """The largest element of every window of (N, C, D, H, W) or (C, D, H, W)."""

    rank = 3


class _MaxUnpool(Module):
    """Values put back where max pooling found them, zero elsewhere."""

    rank: ClassVar[int]

    def __init__(self, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0) -> None:
        super().__init__()
        self.kernel_size = repeated(kernel_size, self.rank)
        self.stride = self.kernel_size if stride is None else repeated(stride, self.rank)
        self.padding = repeated(padding, self.rank)

    def forward(self, input: Any, indices: Any, output_size: Sequence[int] | None = None) -> Any:
        """The values of (N, C, *) at their positions."""
        return getattr(F, f"max_unpool{self.rank}d")(
            input, indices, self.kernel_size, self.stride, self.padding, output_size
        )

    def extra_repr(self) -> str:
        """The windows."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class MaxUnpool1d(_MaxUnpool):
    """The inverse of MaxPool1d, for its results and positions."""

    rank = 1


class MaxUnpool2d(_MaxUnpool):
    """The inverse of MaxPool2d, for its results and positions."""

    rank = 2


class MaxUnpool3d(_MaxUnpool):
    """The inverse of MaxPool3d, for its results and positions."""

    rank = 3


class AvgPool1d(Module):
    """The mean of every window of (N, C, L) or (C, L)."""

    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        super().__init__()
        self.kernel_size = repeated(kernel_size, 1)
        self.stride = self.kernel_size if stride is None else repeated(stride, 1)
        self.padding = repeated(padding, 1)
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad

    def forward(self, input: Any) -> Any:
        """The means."""
        return F.avg_pool1d(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
        )

    def extra_repr(self) -> str:
        """The windows."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class _AvgPool(Module):
    """The mean of every window, or its sum divided by ``divisor_override``."""

    rank: ClassVar[int]

    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad
        self.divisor_override = divisor_override

    def forward(self, input: Any) -> Any:
        """The means of (N, C, *) or (C, *)."""
        return getattr(F, f"avg_pool{self.rank}d")(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
            self.divisor_override,
        )

    def extra_repr(self) -> str:
        """The windows."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AvgPool2d(_AvgPool):
    """The mean of every window of (N, C, H, W) or (C, H, W)."""

    rank = 2


class AvgPool3d(_AvgPool):
    """The mean of every window of (N, C, D, H, W) or (C, D, H, W)."""

    rank = 3


class _LPPool(Module):
    """The ``norm_type`` norm of every window."""

    rank: ClassVar[int]

    def __init__(
        self,
        norm_type: float,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self.norm_type = norm_type
        self.kernel_size = kernel_size
        self.stride = stride
        self.ceil_mode = ceil_mode

    def forward(self, input: Any) -> Any:
        """The norms of (N, C, *) or (C, *)."""
        return getattr(F, f"lp_pool{self.rank}d")(
            input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode
        )

    def extra_repr(self) -> str:
        """The norm and the windows."""
        return (
            f"norm_type={self.norm_type}, kernel_size={self.kernel_size}, stride={self.stride}, "
            f"ceil_mode={self.ceil_mode}"
        )


class LPPool1d(_LPPool):
    """The norm of every window of (N, C, L) or (C, L)."""

    rank = 1


class LPPool2d(_LPPool):
    """The norm of every window of (N, C, H, W) or (C, H, W)."""

    rank = 2


class LPPool3d(_LPPool):
    """The norm of every window of (N, C, D, H, W) or (C, D, H, W)."""

    rank = 3


class _Adaptive(Module):
    """Pooling to extents ``output_size``; None keeps an extent."""

    function: ClassVar[str]

    def __init__(self, output_size: Any) -> None:
        super().__init__()
        self.output_size = output_size

    def forward(self, input: Any) -> Any:
        """The means of (N, C, *) or (C, *)."""
        return getattr(F, self.function)(input, self.output_size)

    def extra_repr(self) -> str:
        """The extents."""
        return f"output_size={self.output_size}"


class AdaptiveAvgPool1d(_Adaptive):
    """Means of (N, C, L) or (C, L) so that L becomes ``output_size``."""

    function = "adaptive_avg_pool1d"


class AdaptiveAvgPool2d(_Adaptive):
    """Means of (N, C, H, W) or (C, H, W) so that (H, W) becomes ``output_size``.

    >>> import tracejit as tj
    >>> tj.nn.AdaptiveAvgPool2d((2, None))(tj.zeros(1, 3, 5, 7)).shape
    tracejit.Size([1, 3, 2, 7])
    """

    function = "adaptive_avg_pool2d"


class AdaptiveAvgPool3d(_Adaptive):
    """Means of (N, C, D, H, W) or (C, D, H, W) so that (D, H, W) becomes ``output_size``."""

    function = "adaptive_avg_pool3d"


class _AdaptiveMax(_Adaptive):
    """Maxima; with positions when ``return_indices``."""

    def __init__(self, output_size: Any, return_indices: bool = False) -> None:
        super().__init__(output_size)
        self.return_indices = return_indices

    def forward(self, input: Any) -> Any:
        """The maxima of (N, C, *) or (C, *)."""
        return getattr(F, self.function)(input, self.output_size, self.return_indices)


class AdaptiveMaxPool1d(_AdaptiveMax):
    """Maxima of (N, C, L) or (C, L) so that L becomes ``output_size``."""

    function = "adaptive_max_pool1d"


class AdaptiveMaxPool2d(_AdaptiveMax):
    """Maxima of (N, C, H, W) or (C, H, W) so that (H, W) becomes ``output_size``."""

    function = "adaptive_max_pool2d"


class AdaptiveMaxPool3d(_AdaptiveMax):
    """Maxima of (N, C, D, H, W) or (C, D, H, W) so that (D, H, W) becomes ``output_size``."""

    function = "adaptive_max_pool3d"
