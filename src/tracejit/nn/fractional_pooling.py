"""Layers of max pooling with windows at random places."""

from __future__ import annotations

from typing import Any, ClassVar

from ..errors import ArgumentValueError
from . import functional as F
from .convolution import repeated
from .module import Module

__all__ = ["FractionalMaxPool2d", "FractionalMaxPool3d"]


class _FractionalMaxPool(Module):
    """The maxima of windows at random places; with positions when ``return_indices``."""

    rank: ClassVar[int]

    def __init__(
        self,
        kernel_size: Any,
        output_size: Any = None,
        output_ratio: Any = None,
        return_indices: bool = False,
        _random_samples: Any = None,
    ) -> None:
        super().__init__()
        self.kernel_size = repeated(kernel_size, self.rank)
        self.return_indices = return_indices
        self.output_size = output_size if output_size is None else repeated(output_size, self.rank)
        self.output_ratio = (
            output_ratio if output_ratio is None else repeated(output_ratio, self.rank)
        )
        self.register_buffer("_random_samples", _random_samples)
        name = type(self).__name__
        if output_size is None and output_ratio is None:
            raise ArgumentValueError(
                f"{name} requires specifying either an output size, or a pooling ratio"
            )
        if output_size is not None and output_ratio is not None:
            raise ArgumentValueError(
                f"only one of output_size and output_ratio may be specified ({name})"
            )
        shares = output_ratio if isinstance(output_ratio, (tuple, list)) else [output_ratio]
        if output_ratio is not None and not all(0 < share < 1 for share in shares):
            raise ArgumentValueError(f"output_ratio must be between 0 and 1 (got {output_ratio})")

    def forward(self, input: Any) -> Any:
        """The maxima of (N, C, *) or (C, *)."""
        return getattr(F, f"fractional_max_pool{self.rank}d")(
            input,
            self.kernel_size,
            self.output_size,
            self.output_ratio,
            self.return_indices,
            _random_samples=self._random_samples,
        )


class FractionalMaxPool2d(_FractionalMaxPool):
    """Over the last two dimensions.

    >>> import tracejit as tj
    >>> tj.nn.FractionalMaxPool2d(2, output_ratio=0.5)(tj.ones(1, 3, 8, 8)).shape
    tracejit.Size([1, 3, 4, 4])
    """

    rank = 2


class FractionalMaxPool3d(_FractionalMaxPool):
    """Over the last three dimensions.

    >>> import tracejit as tj
    >>> tj.nn.FractionalMaxPool3d(2, output_size=2)(tj.ones(3, 4, 4, 4)).shape
    tracejit.Size([3, 2, 2, 2])
    """

    rank = 3
