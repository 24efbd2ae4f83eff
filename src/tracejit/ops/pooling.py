"""Pooling as ops: the largest element or the sum of every window of the last dimensions, and their transposes.

``max_windows`` gives the values; its gradient goes where ``argmax_windows`` says the largest element is: the number
of an element of the kernel, which needs a byte where a position needs eight. ``pick_windows`` and ``put_windows`` read
and write at such numbers and are each other's transposes, as ``sum_windows`` and ``spread_windows`` are. As in a scan
of the window, the first of equal elements and the last NaN wins, and padding never does.
"""

# mypy: disable-error-code="has-type"
# (gradient rules name ops that are declared by the very decorator they stand in)

from __future__ import annotations

from typing import Any

import numpy as np

from .. import dtypes
from ..dtypes import DType
from ..errors import ShapeError
from ..types import Shape, TensorType
from .elementwise import bent
from .namespace import wide, xp
from .table import Array, Ints, Sample, contraction, indexing
from .window_scans import lead_of, lowest, numbers_of_largest, rows_of
from .windows import Pairs, Windows, volume

_PAIRS = {"kernel": (2,), "stride": (2,), "padding": ((0, 0),), "dilation": (1,)}
_OVER = {"kernel": (3,), "stride": (1,), "padding": ((1, 2),), "dilation": (2,)}
_PLANE = {"kernel": (2, 3), "stride": (1, 2), "padding": ((0, 1), (1, 1)), "dilation": (1, 1)}
_TIES = np.array([[1.0, 1.0, 0.0, 2.0, 2.0, 2.0]])
_NANS = np.array([[np.nan, 1.0, np.nan, np.nan, -np.inf, -np.inf]])
_LOW = np.array([[-np.inf, -np.inf, -np.inf, -np.inf]])


def counts_of(x: TensorType, windows: Windows) -> Shape:
    """How many windows fit along each of the last dimensions; ``RuntimeError`` when none does."""
    lead = x.ndim - len(windows.kernel)
    counts = windows.counts(x.shape[lead:])
    if any(count < 1 for count in counts):
        given = "x".join(map(str, x.shape[max(lead - 1, 0) :]))
        found = "x".join(map(str, (*x.shape[max(lead - 1, 0) : lead], *counts)))
        raise ShapeError(
            f"Given input size: ({given}). Calculated output size: ({found}). Output size is too small"
        )
    return counts


def _pooled_type(
    x: TensorType, *, kernel: Shape, stride: Shape, padding: Pairs, dilation: Shape
) -> TensorType:
    counts = counts_of(x, Windows(kernel, stride, padding, dilation))
    return TensorType((*x.shape[: x.ndim - len(kernel)], *counts), x.dtype)


def _number_dtype(kernel: Shape) -> DType:
    """The smallest dtype of this table that numbers the kernel's elements."""
    return dtypes.uint8 if volume(kernel) <= 256 else dtypes.int32


def _number_type(
    x: TensorType, *, kernel: Shape, stride: Shape, padding: Pairs, dilation: Shape
) -> TensorType:
    pooled = _pooled_type(x, kernel=kernel, stride=stride, padding=padding, dilation=dilation)
    return TensorType(pooled.shape, _number_dtype(kernel))


def _one_after_the_other(
    x: Array, windows: Windows, axis: int, combine: Any, padding: Any
) -> Array:
    """Windows along one of their dimensions combined; those of several dimensions are done one dimension at a time."""
    n, one = xp(x), windows.along(axis)
    dim = x.ndim - len(windows.kernel) + axis
    rest = (np.s_[:],) * (x.ndim - dim - 1)
    counts = one.counts(x.shape[dim : dim + 1])
    (before, after), size = one.padding[0], x.shape[dim]
    if before > 0 or after > 0:
        shape = (*x.shape[:dim], *one.buffer((size,)), *x.shape[dim + 1 :])
        padded = n.full(shape, padding, x.dtype)
        padded[(*one.inside((size,)), *rest)] = x
        x = padded
    result: Any = None
    for _, index in one.taps(counts):
        part = x[(*index, *rest)]
        # Of equal operands (zeros of both signs) x86's maximum is the second: the earlier element stays.
        result = part.copy() if result is None else combine(part, result, out=result)
    return result


def _masked(x: Array, mask: Array) -> Array:
    """x where ``mask`` is True, zero bits elsewhere: without a branch, and exact for NaN and infinity."""
    bits = np.dtype(f"i{x.dtype.itemsize}")
    return x.view(bits) & -(mask.astype(bits))


def _max_grad(g: Any, x: Any, kernel: Shape, stride: Shape, padding: Pairs, dilation: Shape) -> Any:
    where = argmax_windows(x, kernel=kernel, stride=stride, padding=padding, dilation=dilation)
    shape = x.spec.shape
    return put_windows(
        g,
        where,
        size=shape[len(shape) - len(kernel) :],
        kernel=kernel,
        stride=stride,
        padding=padding,
        dilation=dilation,
    )


@contraction(
    _pooled_type,
    total=True,
    grad=lambda g, x, kernel, stride, padding, dilation: bent(
        _max_grad(g, x, kernel, stride, padding, dilation), x
    ),
    samples=(
        Sample(((2, 6),), _PAIRS),
        Sample(((2, 5),), _OVER),
        Sample(((2, 3, 5),), _PLANE),
        Sample(((0, 5),), _OVER),
        Sample(((2, 1),), _PAIRS, RuntimeError, "Output size is too small"),
    ),
)
def max_windows(
    x: Array, *, kernel: Shape, stride: Shape, padding: Pairs, dilation: Shape
) -> Array:
    """The largest element of every window of x's last dimensions; NaN if one is there."""
    windows = Windows(kernel, stride, padding, dilation)
    found = wide(x)
    for axis in reversed(range(len(kernel))):
        found = _one_after_the_other(found, windows, axis, xp(x).maximum, lowest(x))
    return found.astype(x.dtype, copy=False)


@indexing(
    _number_type,
    samples=(
        Sample(((2, 6),), _PAIRS),
        Sample(((2, 5),), _OVER),
        Sample(((2, 3, 5),), _PLANE),
        Sample((_TIES,), _PAIRS),
        Sample((_NANS,), {**_PAIRS, "kernel": (3,)}),
        Sample((_LOW,), _OVER),
        Sample(((0, 5),), _OVER),
    ),
)
def argmax_windows(
    x: Array, *, kernel: Shape, stride: Shape, padding: Pairs, dilation: Shape
) -> Array:
    """Which element of the kernel each window's largest element is."""
    windows = Windows(kernel, stride, padding, dilation)
    return numbers_of_largest(wide(x), windows, _number_dtype(kernel).np)


def _pick_type(
    x: TensorType,
    number: TensorType,
    *,
    kernel: Shape,
    stride: Shape,
    padding: Pairs,
    dilation: Shape,
) -> TensorType:
    pooled = _pooled_type(x, kernel=kernel, stride=stride, padding=padding, dilation=dilation)
    if pooled.shape != number.shape:
        raise ShapeError(
            f"pick_windows: expected numbers of shape {list(pooled.shape)}, got {number}"
        )
    return pooled


@indexing(
    _pick_type,
    grad={
        "x": lambda g, x, x_type, number, kernel, stride, padding, dilation: bent(
            put_windows(
                g,
                number,
                size=x_type.shape[len(x_type.shape) - len(kernel) :],
                kernel=kernel,
                stride=stride,
                padding=padding,
                dilation=dilation,
            ),
            x,
        )
    },
    samples=(
        Sample(((2, 6), Ints((2, 3), 0, 2)), _PAIRS),
        Sample(((2, 5), Ints((2, 4), 0, 3)), _OVER),
        Sample(((2, 3, 5), Ints((2, 3, 3), 0, 6)), _PLANE),
        Sample(((2, 6), Ints((2, 2), 0, 2)), _PAIRS, RuntimeError, "expected numbers of shape"),
    ),
)
def pick_windows(
    x: Array, number: Array, *, kernel: Shape, stride: Shape, padding: Pairs, dilation: Shape
) -> Array:
    """The element of every window that has the window's number in the kernel; zero in the padding."""
    n = xp(x)
    windows = Windows(kernel, stride, padding, dilation)
    source = windows.pad(x)
    result = n.zeros(number.shape, x.dtype)
    bits = result.view(f"i{x.dtype.itemsize}")
    for tap, index in windows.taps(number.shape[number.ndim - len(kernel) :]):
        bits |= _masked(source[index], number == tap)
    return result


def _put_type(
    x: TensorType,
    number: TensorType,
    *,
    size: Shape,
    kernel: Shape,
    stride: Shape,
    padding: Pairs,
    dilation: Shape,
) -> TensorType:
    counts = Windows(kernel, stride, padding, dilation).counts(size)
    if x.shape[x.ndim - len(kernel) :] != counts or x.shape != number.shape:
        raise ShapeError(
            f"put_windows: extents {list(size)} have windows {list(counts)}; got {x} and {number}"
        )
    return TensorType((*x.shape[: x.ndim - len(kernel)], *size), x.dtype)


@indexing(
    _put_type,
    grad={
        "x": lambda g, number, kernel, stride, padding, dilation: pick_windows(
            g, number, kernel=kernel, stride=stride, padding=padding, dilation=dilation
        )
    },
    samples=(
        Sample(((2, 3), Ints((2, 3), 0, 2)), {**_PAIRS, "size": (7,)}),
        Sample(((2, 4), Ints((2, 4), 0, 3)), {**_OVER, "size": (5,)}),
        Sample(((2, 3, 3), Ints((2, 3, 3), 0, 6)), {**_PLANE, "size": (3, 5)}),
        Sample(
            ((2, 3), Ints((2, 3), 0, 2)),
            {**_PAIRS, "size": (4,)},
            RuntimeError,
            "have windows",
        ),
    ),
)
def put_windows(
    x: Array,
    number: Array,
    *,
    size: Shape,
    kernel: Shape,
    stride: Shape,
    padding: Pairs,
    dilation: Shape,
) -> Array:
    """The transpose of :func:`pick_windows`: each element added where its number says, over extents ``size``."""
    n = xp(x)
    windows = Windows(kernel, stride, padding, dilation)
    values = wide(x)
    lead = lead_of(x, size)
    if windows.sees_all(size) and x.size:
        found = n.zeros((*lead, volume(size)), values.dtype)
        n.put_along_axis(
            found, rows_of(number, size).astype(n.int64), rows_of(values, size) + 0, -1
        )
        return found.reshape(*lead, *size).astype(x.dtype, copy=False)
    buffer = n.zeros((*lead, *windows.buffer(size)), values.dtype)
    for tap, index in windows.taps(x.shape[x.ndim - len(kernel) :]):
        place = buffer[index]
        place += _masked(values, number == tap).view(values.dtype)
    return n.ascontiguousarray(buffer[windows.inside(size)]).astype(x.dtype, copy=False)


@contraction(
    _pooled_type,
    total=True,
    grad=lambda g, x, x_type, kernel, stride, padding, dilation: bent(
        spread_windows(
            g,
            size=x_type.shape[len(x_type.shape) - len(kernel) :],
            kernel=kernel,
            stride=stride,
            padding=padding,
            dilation=dilation,
        ),
        x,
    ),
    samples=(
        Sample(((2, 6),), _PAIRS),
        Sample(((2, 5),), _OVER),
        Sample(((2, 3, 5),), _PLANE),
        Sample(((0, 5),), _OVER),
        Sample(((2, 1),), _PAIRS, RuntimeError, "Output size is too small"),
    ),
)
def sum_windows(
    x: Array, *, kernel: Shape, stride: Shape, padding: Pairs, dilation: Shape
) -> Array:
    """The sum of every window of x's last dimensions."""
    windows = Windows(kernel, stride, padding, dilation)
    found = wide(x)
    for axis in range(len(kernel)):
        found = _one_after_the_other(found, windows, axis, xp(x).add, 0)
    return found.astype(x.dtype, copy=False)


def _spread_type(
    x: TensorType, *, size: Shape, kernel: Shape, stride: Shape, padding: Pairs, dilation: Shape
) -> TensorType:
    counts = Windows(kernel, stride, padding, dilation).counts(size)
    if x.shape[x.ndim - len(kernel) :] != counts:
        raise ShapeError(
            f"spread_windows: extents {list(size)} have windows {list(counts)}; got {x}"
        )
    return TensorType((*x.shape[: x.ndim - len(kernel)], *size), x.dtype)


@contraction(
    _spread_type,
    total=True,
    grad=lambda g, kernel, stride, padding, dilation: sum_windows(
        g, kernel=kernel, stride=stride, padding=padding, dilation=dilation
    ),
    samples=(
        Sample(((2, 3),), {**_PAIRS, "size": (7,)}),
        Sample(((2, 4),), {**_OVER, "size": (5,)}),
        Sample(((2, 3, 3),), {**_PLANE, "size": (3, 5)}),
        Sample(((2, 3),), {**_PAIRS, "size": (4,)}, RuntimeError, "have windows"),
    ),
)
def spread_windows(
    x: Array, *, size: Shape, kernel: Shape, stride: Shape, padding: Pairs, dilation: Shape
) -> Array:
    """The transpose of :func:`sum_windows`: each element added to its whole window, over extents ``size``."""
    windows = Windows(kernel, stride, padding, dilation)
    found = wide(x)
    for axis in range(len(kernel)):
        found = _spread_along(found, windows, axis, size[axis])
    return found.astype(x.dtype, copy=False)


def _spread_along(x: Array, windows: Windows, axis: int, size: int) -> Array:
    """Each element added to its window along one dimension."""
    n, one = xp(x), windows.along(axis)
    dim = x.ndim - len(windows.kernel) + axis
    rest = (np.s_[:],) * (x.ndim - dim - 1)
    shape = (*x.shape[:dim], *one.buffer((size,)), *x.shape[dim + 1 :])
    buffer = n.zeros(shape, x.dtype)
    for _, index in one.taps(x.shape[dim : dim + 1]):
        place = buffer[(*index, *rest)]
        place += x
    return n.ascontiguousarray(buffer[(*one.inside((size,)), *rest)])
