"""Windows of pooling functions: options, what is largest in each or their sums, and where that is."""

from __future__ import annotations

import itertools
import math
from typing import Any

from ... import dtypes
from ...errors import ShapeError
from ...extents import is_symbolic
from .. import comparison as c
from .. import elementwise as e
from .. import movement as m
from .. import pooling as p
from .. import reduction as r
from .. import source as s
from ..shapes import numel
from ..windows import MOST_TAPS, Windows
from .common import Tensor, as_type, constant, shape_of
from .spatial import Shape, per_dim

#: Up to so many quotients are told apart by comparing.
_MOST_COMPARED = 16


def windows_of(
    name: str,
    size: Shape,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    ceil_mode: bool,
) -> Windows:
    """The windows of a pooling function; ``RuntimeError`` for options out of range.

    With ``ceil_mode`` the last window may reach over the end, as long as it starts before it.
    """
    rank = len(size)
    kernel = per_dim(name, "kernel_size", kernel_size, rank)
    given = stride is not None and stride != ()
    steps = per_dim(name, "stride", stride, rank) if given else kernel
    around = per_dim(name, "padding", padding, rank)
    apart = per_dim(name, "dilation", dilation, rank)
    _check_options(name, kernel, steps, around, apart)
    windows = Windows(kernel, steps, tuple((n, n) for n in around), apart)
    if not ceil_mode:
        return windows
    pairs = []
    for n, a, s_, span in zip(size, around, steps, windows.reach(), strict=True):
        count = -(-(n + 2 * a - span) // s_) + 1
        count -= (count - 1) * s_ >= n + a
        pairs.append((a, (count - 1) * s_ + span - n - a))
    return windows._replace(padding=tuple(pairs))


def _check_options(
    name: str, kernel: Shape, stride: Shape, padding: Shape, dilation: Shape
) -> None:
    if any(n < 1 for n in stride):
        raise ShapeError(f"stride should not be zero ({name}: {list(stride)})")
    if any(n < 1 for n in kernel):
        raise ShapeError(
            f"kernel size should be greater than zero, but got {list(kernel)} ({name})"
        )
    if any(n < 1 for n in dilation):
        raise ShapeError(f"dilation should be greater than zero, but got {list(dilation)} ({name})")
    for n, k, d in zip(padding, kernel, dilation, strict=True):
        if n < 0:
            raise ShapeError(f"pad must be non-negative, but got pad: {n} ({name})")
        if n > ((k - 1) * d + 1) // 2:
            raise ShapeError(
                "pad should be at most half of effective kernel size, but got "
                f"pad={n}, kernel_size={k} and dilation={d} ({name})"
            )


def positions_of(numbers: Tensor, windows: Windows, size: Shape) -> Tensor:
    """Elements of the kernel, by number, as positions in the flattened spatial dimensions."""
    rank, shape = len(size), shape_of(numbers)
    left = as_type(numbers, dtypes.int64)
    flat: Any = 0
    for axis in range(rank):
        one = windows.along(axis)
        (before, _), dim = one.padding[0], numbers.ndim - rank + axis
        tap, left = _divided(left, one.kernel[0], numel(windows.kernel[axis + 1 :]))
        starts = s.arange(start=-before, step=one.stride[0], count=shape[dim], dtype=dtypes.int64)
        starts = m.reshape(
            starts, shape=tuple(shape[d] if d == dim else 1 for d in range(len(shape)))
        )
        flat = e.add(
            e.mul(e.add(starts, e.mul(tap, one.dilation[0])), numel(size[axis + 1 :])), flat
        )
    return flat


def _divided(left: Tensor, count: int, by: int) -> tuple[Tensor, Tensor]:
    """Quotients below ``count`` and remainders; few of them are found by comparing, which kernels can do."""
    if is_symbolic(count) or count > _MOST_COMPARED:
        tap = e.floor_divide(left, by)
    elif not is_symbolic(by) and by == 1:
        return left, constant(0, left.dtype)
    else:
        tap = constant(0, left.dtype)
        for k in range(1, count):
            tap = e.add(as_type(c.ge(left, k * by), left.dtype), tap)
    return tap, e.sub(left, e.mul(tap, by))


def _are_large(windows: Windows) -> bool:
    """Have windows too many elements to look at them one after the other?"""
    steps = (*windows.kernel, *(n for pair in windows.padding for n in pair))
    return not any(map(is_symbolic, steps)) and numel(windows.kernel) > MOST_TAPS


def _stages(windows: Windows, size: Shape) -> list[list[tuple[int, Windows]]]:
    """Windows of many elements along one dimension at a time; none where they are taken at once.

    For each dimension the windows to be taken one after the other, with what their numbers count. A pass over rows and
    one over columns looks at as many elements as a row and a column of the kernel have. What sees everything there is
    stays whole: that is one reduction.
    """
    if not _are_large(windows) or windows.sees_all(size):
        return []
    axes = [d for d in range(len(size)) if windows.only([d]) != windows.only([])]
    found = [_parts(windows, axis) for axis in axes]
    return found if sum(map(len, found)) > 1 else []


def _parts(windows: Windows, axis: int) -> list[tuple[int, Windows]]:
    """Windows along a dimension; those of very many elements as windows of windows side by side."""
    one, weight = windows.only([axis]), numel(windows.kernel[axis + 1 :])
    count, step, apart = (x[axis] for x in (one.kernel, one.stride, one.dilation))
    inner = next((n for n in range(MOST_TAPS, 1, -1) if count % n == 0), 1)
    # Windows that lie in the padding in front would come first where there is nothing but minus infinity.
    if count <= MOST_TAPS or count // inner > MOST_TAPS or one.padding[axis][0]:
        return [(weight, one)]
    between = math.gcd(step, inner * apart)

    def along(kernel: int, stride: int, padding: tuple[int, int], dilation: int) -> Windows:
        parts = ((kernel, 1), (stride, 1), (padding, (0, 0)), (dilation, 1))
        each = (
            tuple(x if d == axis else rest for d in range(len(one.kernel))) for x, rest in parts
        )
        return Windows(*each)  # type: ignore[arg-type]

    first = along(inner, between, one.padding[axis], apart)
    second = along(count // inner, step // between, (0, 0), inner * apart // between)
    return [(weight, first), (weight * inner, second)]


def largest_of(x: Tensor, windows: Windows) -> Tensor:
    """The largest element of every window of (N, C, ...)."""
    stages = _stages(windows, shape_of(x)[2:])
    for _, part in itertools.chain(*reversed(stages)):
        x = p.max_windows(x, **part._asdict())
    return x if stages else p.max_windows(x, **windows._asdict())


def largest_and_numbers(x: Tensor, windows: Windows) -> tuple[Tensor, Tensor]:
    """The largest element of every window of (N, C, ...), and its number among the elements of the kernel."""
    stages = _stages(windows, shape_of(x)[2:])
    if not stages:
        numbers = p.argmax_windows(x, **windows._asdict())
        return p.pick_windows(x, numbers, **windows._asdict()), numbers
    # The first of equal rows has the first of equal elements, and the last row with a NaN has the last NaN.
    total: Tensor | None = None
    for weight, part in itertools.chain(*reversed(stages)):
        options = part._asdict()
        tap = p.argmax_windows(x, **options)
        number = e.mul(as_type(tap, dtypes.int64), weight)
        if total is not None:
            number = e.add(number, p.pick_windows(total, tap, **options))
        x, total = p.pick_windows(x, tap, **options), number
    assert total is not None
    return x, total


def sums_of(x: Tensor, windows: Windows) -> Tensor:
    """The sum of every window of (N, C, ...)."""
    size = shape_of(x)[2:]
    if _are_large(windows) and windows.sees_all(size):
        return r.sum(x, dims=tuple(range(2, x.ndim)), keepdim=True)
    stages = _stages(windows, size)
    for _, part in itertools.chain(*stages):
        x = p.sum_windows(x, **part._asdict())
    return x if stages else p.sum_windows(x, **windows._asdict())
