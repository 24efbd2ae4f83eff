"""Windows as columns: unfold and fold of images, and windows of a tensor along one dimension."""

from __future__ import annotations

from typing import Any

from ...errors import ShapeError
from .. import convolution as cv
from .. import memory_views as mv
from .. import movement as m
from ..shapes import numel
from ..table import function
from ..windows import Windows
from .common import Tensor, alone, check_tensor, dim_of, refuse, shape_of
from .spatial import Sizes, batched, per_dim, unbatched


def _windows(name: str, kernel: Any, stride: Any, padding: Any, dilation: Any) -> Windows:
    options = [
        per_dim(name, argument, value, 2)
        for argument, value in (
            ("kernel_size", kernel),
            ("stride", stride),
            ("padding", padding),
            ("dilation", dilation),
        )
    ]
    for argument, given in zip(("kernel size", "stride", "dilation"), (0, 1, 3), strict=True):
        if any(n < 1 for n in options[given]):
            raise ShapeError(
                f"{argument} should be greater than zero, but got {list(options[given])}"
            )
    if any(n < 0 for n in options[2]):
        raise ShapeError(f"padding should be non-negative, but got {list(options[2])}")
    kernels, steps, around, apart = options
    return Windows(kernels, steps, tuple((n, n) for n in around), apart)


@function(method=False)
def unfold(
    input: Tensor, kernel_size: Sizes, dilation: Sizes = 1, padding: Sizes = 0, stride: Sizes = 1
) -> Tensor:
    """The windows of images (N, C, H, W) or (C, H, W) as columns: (N, C * kH * kW, number of windows).

    Raises ``RuntimeError`` when no window fits or options are out of range.

    >>> import tracejit as tj
    >>> tj.unfold(tj.arange(6.0).reshape(1, 1, 2, 3), (2, 2))[0]
    tensor([[0., 1.],
            [1., 2.],
            [3., 4.],
            [4., 5.]])
    """
    refuse("im2col_out_cpu", input.dtype, "int")
    x, added = batched("unfold", input, 2)
    windows = _windows("unfold", kernel_size, stride, padding, dilation)
    counts = windows.counts(shape_of(x)[2:])
    if any(n < 1 for n in counts):
        raise ShapeError(
            f"Given input with spatial size {shape_of(x)[2:]}, {windows}, calculated shape of the array "
            f"of sliding blocks as {counts}, but its components must be at least one."
        )
    laid = cv.unfold_windows(x, **windows._asdict())
    samples, channels = shape_of(x)[:2]
    flat = m.reshape(laid, shape=(samples, channels * numel(windows.kernel), numel(counts)))
    return alone(unbatched(flat, added))


@function(method=False)
def fold(
    input: Tensor,
    output_size: Sizes,
    kernel_size: Sizes,
    dilation: Sizes = 1,
    padding: Sizes = 0,
    stride: Sizes = 1,
) -> Tensor:
    """Columns (N, C * kH * kW, windows) added up where their windows lie: (N, C, *output_size).

    Raises ``RuntimeError`` when the columns are not those of an image of that size.

    >>> import tracejit as tj
    >>> tj.fold(tj.ones(1, 4, 2), (2, 3), (2, 2))[0, 0]
    tensor([[1., 2., 1.],
            [1., 2., 1.]])
    """
    refuse("col2im_out_cpu", input.dtype, "int")
    check_tensor("fold", input)
    if input.ndim not in (2, 3):
        raise ShapeError(
            "Expected 2D or 3D (batch mode) tensor for input with possibly 0 batch size and non-zero "
            f"dimensions for input, but got: {list(shape_of(input))}"
        )
    added = input.ndim == 2
    x = m.unsqueeze(input, dims=(0,)) if added else input
    size = per_dim("fold", "output_size", output_size, 2)
    windows = _windows("fold", kernel_size, stride, padding, dilation)
    counts = windows.counts(size)
    samples, rows, columns = shape_of(x)
    if rows % numel(windows.kernel):
        raise ShapeError(
            "Expected size of input's dimension 1 to be divisible by the product of kernel_size, but "
            f"got input.size(1)={rows} and kernel_size={windows.kernel}."
        )
    if columns != numel(counts) or any(n < 1 for n in counts):
        raise ShapeError(
            f"Given output_size={size}, {windows}, expected size of input's dimension 2 to match the "
            f"calculated number of sliding blocks {counts[0]} * {counts[1]} = {numel(counts)}, but got "
            f"input.size(2)={columns}."
        )
    laid = m.reshape(x, shape=(samples, rows // numel(windows.kernel), *windows.kernel, *counts))
    return unbatched(cv.fold_windows(laid, size=size, **windows._asdict()), added)


@function(method="unfold", namespace=False)
def windows_along(self: Tensor, dimension: int, size: int, step: int) -> Tensor:
    """Windows of ``size`` elements along ``dimension``, ``step`` apart, as a new last dimension.

    A view. Raises ``RuntimeError`` unless a window fits and ``step`` is positive.

    >>> import tracejit as tj
    >>> tj.arange(5).unfold(0, 3, 2)
    tensor([[0, 1, 2],
            [2, 3, 4]])
    """
    d = dim_of(dimension, self)
    if not self.ndim:
        row = windows_along(m.reshape(self, shape=(1,)), 0, size, step)
        return m.reshape(row, shape=(size,))
    if size < 0:
        raise ShapeError(f"size is {size} but must be >= 0")
    if size > shape_of(self)[d]:
        raise ShapeError(
            f"maximum size for tensor at dimension {d} is {shape_of(self)[d]} but size is {size}"
        )
    if step < 1:
        raise ShapeError(f"step is {step} but must be > 0")
    return mv.unfold(self, dim=d, size=size, step=step)
