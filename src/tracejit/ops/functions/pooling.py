"""Pooling over windows: maxima (with positions), means and power means for one to three spatial dimensions."""

from __future__ import annotations

from typing import Any

from ... import dtypes
from ...errors import ShapeError
from ...extents import is_symbolic
from .. import elementwise as e
from .. import movement as m
from .. import source as s
from ..precision import full_precision, widened
from ..shapes import numel
from ..table import function
from ..windows import Windows
from .arithmetic import div
from .common import Number, Tensor, as_type, refuse, shape_of, upcast
from .pooling_windows import largest_and_numbers, largest_of, positions_of, sums_of, windows_of
from .spatial import Shape, Sizes, batched, per_dim, unbatched


def check_not_empty(name: str, x: Tensor) -> None:
    """``RuntimeError`` when a dimension other than the batch is empty."""
    if any(n == 0 for n in shape_of(x)[1:]):
        raise ShapeError(
            f"Expected {x.ndim - 1}D or {x.ndim}D (batch mode) tensor with optional 0 dim batch size for "
            f"input, but got:{list(shape_of(x))} ({name})"
        )


def _max_pool(
    rank: int,
    input: Tensor,
    kernel_size: Sizes,
    stride: Any,
    padding: Sizes,
    dilation: Sizes,
    ceil_mode: bool,
    return_indices: bool,
) -> Any:
    name = f"max_pool{rank}d"
    x, added = batched(name, input, rank)
    alone = rank == 1 and not return_indices
    refuse(
        f"{name}_impl" if alone else name, x.dtype, "bool int complex" if alone else "bool complex"
    )
    check_not_empty(name, x)
    size = shape_of(x)[2:]
    windows = windows_of(name, size, kernel_size, stride, padding, dilation, ceil_mode)
    if not return_indices:
        return unbatched(largest_of(x, windows), added)
    values, numbers = largest_and_numbers(x, windows)
    return unbatched(values, added), unbatched(positions_of(numbers, windows, size), added)


@function(method=False)
def max_pool1d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Any = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The maximum of every window of (N, C, L) or (C, L); NaN if one is there. With positions if asked for.

    Raises ``RuntimeError`` when no window fits or options are out of range.

    >>> import tracejit as tj
    >>> tj.max_pool1d(tj.tensor([[1.0, 3.0, 2.0, 0.0]]), 2)
    tensor([[3., 2.]])
    """
    return _max_pool(1, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


@function(method=False)
def max_pool2d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Any = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The maximum of every window of (N, C, H, W) or (C, H, W); NaN if one is there. With positions if asked for.

    Raises ``RuntimeError`` when no window fits or options are out of range.

    >>> import tracejit as tj
    >>> tj.max_pool2d(tj.arange(16.0).reshape(1, 4, 4), 2, return_indices=True)
    (tensor([[[ 5.,  7.],
             [13., 15.]]]), tensor([[[ 5,  7],
             [13, 15]]]))
    """
    return _max_pool(2, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


@function(method=False)
def max_pool3d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Any = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The maximum of every window of (N, C, D, H, W) or (C, D, H, W); NaN if one is there. With positions if asked for.

    Raises ``RuntimeError`` when no window fits or options are out of range.

    >>> import tracejit as tj
    >>> tj.max_pool3d(tj.arange(8.0).reshape(1, 2, 2, 2), 2)
    tensor([[[[7.]]]])
    """
    x = input if return_indices else widened(input)  # what tells positions is on no list
    return _max_pool(3, x, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


# --- means --------------------------------------------------------------------------------------


def _divisor(
    windows: Windows, size: Shape, around: Shape, counts: Shape, include_pad: bool, like: Tensor
) -> Tensor | int:
    """How many elements each window averages: padding may count, what lies beyond it never does."""
    result: Any = 1
    for axis, (n, a, count) in enumerate(zip(size, around, counts, strict=True)):
        k, step = windows.kernel[axis], windows.stride[axis]
        outer = n + a if include_pad else n
        if (include_pad or not a) and (count - 1) * step - a + k <= outer:
            result = result * k  # the first window is whole, and so is the last
            continue
        result = _spans(k, step, -a, (-a if include_pad else 0, outer), count, axis, like) * result
    return result


def _spans(
    k: int, step: int, first: int, ends: tuple[int, int], count: int, axis: int, like: Tensor
) -> Tensor:
    """How much of each window along an axis lies between ``ends``."""
    low, high = ends
    shape = tuple(count if d == axis else 1 for d in range(like.ndim - 2))
    if is_symbolic(count) or is_symbolic(high):
        starts = s.arange(start=first, step=step, count=count, dtype=dtypes.int64)
        spans = e.minimum(starts + k, high) - e.maximum(starts, low)
        return m.reshape(as_type(spans, like.dtype), shape=shape)
    spans = tuple(min(i + k, high) - max(i, low) for i in range(first, first + step * count, step))
    return s.literal(values=spans, shape=shape, dtype=like.dtype)


def _avg_pool(
    rank: int,
    input: Tensor,
    kernel_size: Sizes,
    stride: Any,
    padding: Sizes,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None = None,
) -> Tensor:
    name = f"avg_pool{rank}d"
    x, added = batched(name, input, rank)
    if x.dtype is not dtypes.int64:
        refuse(name, x.dtype, "bool int")
    if divisor_override == 0:
        raise ShapeError("divisor must be not zero")
    check_not_empty(name, x)
    size = shape_of(x)[2:]
    windows = windows_of(name, size, kernel_size, stride, padding, 1, ceil_mode)
    wide = upcast(x)
    total = sums_of(wide, windows)
    counts = shape_of(total)[2:]
    around = tuple(a for a, _ in windows.padding)
    divisor = divisor_override or _divisor(windows, size, around, counts, count_include_pad, wide)
    if not x.dtype.is_floating_point:
        return unbatched(div(total, divisor, rounding_mode="trunc"), added)
    return unbatched(as_type(e.div(total, divisor), x.dtype), added)


@function(method=False)
def avg_pool1d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Any = None,
    padding: Sizes = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:
    """The mean of every window of (N, C, L) or (C, L); padding counts as zeros unless ``count_include_pad`` is False.

    Raises ``RuntimeError`` when no window fits or options are out of range.

    >>> import tracejit as tj
    >>> tj.avg_pool1d(tj.tensor([[1.0, 3.0, 2.0, 0.0]]), 2)
    tensor([[2., 1.]])
    """
    return _avg_pool(1, input, kernel_size, stride, padding, ceil_mode, count_include_pad)


@function(method=False)
def avg_pool2d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Any = None,
    padding: Sizes = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """The mean of every window of (N, C, H, W) or (C, H, W), or the sum divided by ``divisor_override``.

    Raises ``RuntimeError`` when no window fits or options are out of range.

    >>> import tracejit as tj
    >>> tj.avg_pool2d(tj.arange(16.0).reshape(1, 4, 4), 2)
    tensor([[[ 2.5000,  4.5000],
             [10.5000, 12.5000]]])
    """
    return _avg_pool(
        2, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
    )


@function(method=False, within=full_precision)
def avg_pool3d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Any = None,
    padding: Sizes = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """The mean of every window of (N, C, D, H, W) or (C, D, H, W), or the sum divided by ``divisor_override``.

    Raises ``RuntimeError`` when no window fits or options are out of range.

    >>> import tracejit as tj
    >>> tj.avg_pool3d(tj.arange(8.0).reshape(1, 2, 2, 2), 2)
    tensor([[[[3.5000]]]])
    """
    return _avg_pool(
        3, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
    )


def _lp_pool(
    rank: int,
    input: Tensor,
    norm_type: Number,
    kernel_size: Sizes,
    stride: Any,
    ceil_mode: bool,
) -> Tensor:
    power = e.pow(input, norm_type)
    mean = _avg_pool(rank, power, kernel_size, stride, 0, ceil_mode, True)
    kept = e.mul(e.sign(mean), e.relu(e.abs(mean)))
    count = numel(per_dim(f"lp_pool{rank}d", "kernel_size", kernel_size, rank))
    return e.pow(e.mul(kept, count), 1.0 / norm_type)


def _make_lp_pool(rank: int) -> Any:
    def pool(
        input: Tensor,
        norm_type: Number,
        kernel_size: Sizes,
        stride: Any = None,
        ceil_mode: bool = False,
    ) -> Tensor:
        return _lp_pool(rank, input, norm_type, kernel_size, stride, ceil_mode)

    name = f"lp_pool{rank}d"
    shape = ", ".join(["1", *["2"] * rank])
    pool.__name__ = pool.__qualname__ = name
    pool.__doc__ = (
        f"The ``norm_type`` norm of every window of {rank} spatial dimensions.\n\n"
        "Raises ``RuntimeError`` when no window fits.\n\n"
        f">>> import tracejit as tj\n>>> tj.{name}(tj.ones({shape}), 1, 2).item()\n{2.0**rank}\n"
    )
    return pool


for _rank in (1, 2, 3):
    function(method=False)(_make_lp_pool(_rank))


def _with_indices(rank: int) -> Any:
    def pool(
        input: Tensor,
        kernel_size: Sizes,
        stride: Any = None,
        padding: Sizes = 0,
        dilation: Sizes = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> Any:
        return _max_pool(rank, input, kernel_size, stride, padding, dilation, ceil_mode, True)

    name = f"max_pool{rank}d_with_indices"
    shape = ", ".join(["1", *["2"] * rank])
    pool.__name__ = pool.__qualname__ = name
    pool.__doc__ = (
        f"``max_pool{rank}d`` with positions.\n\n>>> import tracejit as tj\n"
        f">>> tj.{name}(tj.ones({shape}), 2)[1].item()\n0\n"
    )
    return pool


for _rank in (1, 2, 3):
    function(method=False)(_with_indices(_rank))
