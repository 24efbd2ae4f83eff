"""Convolution as ops: the product of windows and weights, its two transposes, and windows as a dimension of their own.

The three products are one trilinear form read in three directions, so each one's gradients are the other two, to any
order. One entry serves every number of spatial dimensions; attributes are normalised before they get here: a tuple per
attribute, padding as (before, after) pairs.
"""

# mypy: disable-error-code="has-type"
# (gradient rules name ops that are declared by the very decorator they stand in)

from __future__ import annotations

from ..dtypes import DType
from ..errors import DtypeError, ShapeError
from ..types import Shape, TensorType
from . import convolve
from .contraction import rounded
from .namespace import wide
from .programs import product_by_program
from .table import Array, Sample, contraction
from .windows import Pairs, Windows, volume

_ONE = {"stride": (1,), "padding": ((0, 0),), "dilation": (1,), "groups": 1}
_WIDE = {"stride": (2,), "padding": ((2, 1),), "dilation": (2,), "groups": 2}
_CUT = {"stride": (3,), "padding": ((1, -1),), "dilation": (1,), "groups": 1}
_TWO = {"stride": (1, 2), "padding": ((1, 0), (0, 1)), "dilation": (1, 1), "groups": 1}
_DEEP = {"stride": (1, 1), "padding": ((0, 1), (1, 1)), "dilation": (2, 1), "groups": 3}


def _check_dtypes(name: str, x: TensorType, y: TensorType) -> None:
    if x.dtype is not y.dtype:
        raise DtypeError(
            f"expected scalar type {x.dtype.title} but found {y.dtype.title} ({name}: {x} and {y})"
        )


def _check_positive(counts: Shape, x: TensorType, windows: Windows) -> None:
    for count, n, (a, b), span in zip(
        counts, x.shape[2:], windows.padding, windows.reach(), strict=True
    ):
        if count < 1:
            raise ShapeError(
                f"Calculated padded input size per channel: ({n + a + b}) at one dimension. "
                f"Kernel size: ({span}). Kernel size can't be greater than actual input size"
            )


def _convolution_type(
    x: TensorType,
    weight: TensorType,
    *,
    stride: Shape,
    padding: Pairs,
    dilation: Shape,
    groups: int,
    dtype: DType | None = None,
) -> TensorType:
    _check_dtypes("convolution", x, weight)
    if x.ndim != weight.ndim or x.shape[1] != weight.shape[1] * groups:
        raise ShapeError(
            f"Given groups={groups}, weight of size {list(weight.shape)}, expected input"
            f"{list(x.shape)} to have {weight.shape[1] * groups} channels, but got "
            f"{x.shape[1]} channels instead"
        )
    windows = Windows(weight.shape[2:], stride, padding, dilation)
    counts = windows.counts(x.shape[2:])
    _check_positive(counts, x, windows)
    return TensorType((x.shape[0], weight.shape[0], *counts), dtype or x.dtype)


@contraction(
    _convolution_type,
    total=True,
    grad={
        "x": lambda g, x_type, weight, stride, padding, dilation, groups: convolution_input(
            rounded(g, weight),
            weight,
            size=x_type.shape[2:],
            stride=stride,
            padding=padding,
            dilation=dilation,
            groups=groups,
        ),
        "weight": lambda g, x, weight_type, stride, padding, dilation, groups: convolution_weight(
            x,
            rounded(g, x),
            kernel=weight_type.shape[2:],
            stride=stride,
            padding=padding,
            dilation=dilation,
            groups=groups,
        ),
    },
    samples=(
        Sample(((1, 2, 5), (3, 2, 3)), _ONE),
        Sample(((2, 2, 5), (2, 1, 2)), _WIDE),
        Sample(((1, 1, 7), (2, 1, 3)), _CUT),
        Sample(((1, 2, 3, 4), (2, 2, 2, 2)), _TWO),
        Sample(((1, 3, 3, 3), (3, 1, 2, 2)), _DEEP),
        Sample(((0, 2, 5), (3, 2, 3)), _ONE),
        Sample(((1, 2, 5), (3, 1, 3)), _ONE, RuntimeError, "to have 1 channels, but got 2"),
        Sample(((1, 2, 2), (3, 2, 3)), _ONE, RuntimeError, "greater than actual input size"),
    ),
)
def convolution(
    x: Array,
    weight: Array,
    *,
    stride: Shape,
    padding: Pairs,
    dilation: Shape,
    groups: int,
    dtype: DType | None = None,
) -> Array:
    """The products of ``weight`` (out, channels / groups, *kernel) with every window of x (N, channels, *size).

    Sums of half precision are float32, and rounded once; with ``dtype=float32`` they are not.
    """
    windows = Windows(weight.shape[2:], stride, padding, dilation)
    counts = windows.counts(x.shape[2:])
    options = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    attributes = {**options, **_unless_rounded(dtype)}
    work = x.shape[0] * volume(counts) * int(weight.size)
    served = product_by_program(convolution, (x, weight), attributes, work)
    if served is not None:
        return served
    left, right = wide(x), wide(weight)
    found = convolve.forward(left, right, windows, groups, counts)
    return found if dtype is not None else found.astype(x.dtype, copy=False)


def _unless_rounded(dtype: DType | None) -> dict[str, DType]:
    return {} if dtype is None else {"dtype": dtype}


def _convolution_input_type(
    y: TensorType,
    weight: TensorType,
    *,
    size: Shape,
    stride: Shape,
    padding: Pairs,
    dilation: Shape,
    groups: int,
    dtype: DType | None = None,
) -> TensorType:
    _check_dtypes("convolution_input", y, weight)
    if y.ndim != weight.ndim or y.shape[1] != weight.shape[0]:
        raise ShapeError(
            f"Given transposed=1, weight of size {list(weight.shape)}, expected input"
            f"{list(y.shape)} to have {weight.shape[0]} channels, but got {y.shape[1]} channels instead"
        )
    _check_counts(
        "convolution_input", y, size, Windows(weight.shape[2:], stride, padding, dilation)
    )
    return TensorType((y.shape[0], weight.shape[1] * groups, *size), dtype or y.dtype)


def _check_counts(name: str, y: TensorType, size: Shape, windows: Windows) -> None:
    counts = windows.counts(size)
    if tuple(y.shape[2:]) != counts:
        raise ShapeError(
            f"{name}: extents {list(size)} have windows {list(counts)}, but got {y} of them"
        )


@contraction(
    _convolution_input_type,
    total=True,
    grad={
        "y": lambda g, weight, stride, padding, dilation, groups: convolution(
            rounded(g, weight),
            weight,
            stride=stride,
            padding=padding,
            dilation=dilation,
            groups=groups,
        ),
        "weight": lambda g, y, weight_type, stride, padding, dilation, groups: convolution_weight(
            rounded(g, y),
            y,
            kernel=weight_type.shape[2:],
            stride=stride,
            padding=padding,
            dilation=dilation,
            groups=groups,
        ),
    },
    samples=(
        Sample(((1, 3, 3), (3, 2, 3)), {**_ONE, "size": (5,)}),
        Sample(((2, 2, 3), (2, 1, 2)), {**_WIDE, "size": (5,)}),
        Sample(((1, 2, 2), (2, 1, 3)), {**_CUT, "size": (7,)}),
        Sample(((1, 2, 3, 2), (2, 2, 2, 2)), {**_TWO, "size": (3, 4)}),
        Sample(((1, 3, 2, 4), (3, 1, 2, 2)), {**_DEEP, "size": (3, 3)}),
        Sample(((1, 2, 3), (3, 2, 3)), {**_ONE, "size": (5,)}, RuntimeError, "to have 3 channels"),
        Sample(((1, 3, 4), (3, 2, 3)), {**_ONE, "size": (5,)}, RuntimeError, "have windows"),
    ),
)
def convolution_input(
    y: Array,
    weight: Array,
    *,
    size: Shape,
    stride: Shape,
    padding: Pairs,
    dilation: Shape,
    groups: int,
    dtype: DType | None = None,
) -> Array:
    """The transpose of :func:`convolution` in x: y's elements spread by ``weight`` over extents ``size``."""
    windows = Windows(weight.shape[2:], stride, padding, dilation)
    options = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    attributes = {"size": size, **options, **_unless_rounded(dtype)}
    work = y.shape[0] * volume(y.shape[2:]) * int(weight.size)
    served = product_by_program(convolution_input, (y, weight), attributes, work)
    if served is not None:
        return served
    left, right = wide(y), wide(weight)
    found = convolve.input_gradient(left, right, windows, groups, size)
    return found if dtype is not None else found.astype(y.dtype, copy=False)


def _convolution_weight_type(
    x: TensorType,
    y: TensorType,
    *,
    kernel: Shape,
    stride: Shape,
    padding: Pairs,
    dilation: Shape,
    groups: int,
) -> TensorType:
    _check_dtypes("convolution_weight", x, y)
    _check_counts("convolution_weight", y, x.shape[2:], Windows(kernel, stride, padding, dilation))
    return TensorType((y.shape[1], x.shape[1] // groups, *kernel), x.dtype)


@contraction(
    _convolution_weight_type,
    total=True,
    grad={
        "x": lambda g, x_type, y, stride, padding, dilation, groups: convolution_input(
            y,
            g,
            size=x_type.shape[2:],
            stride=stride,
            padding=padding,
            dilation=dilation,
            groups=groups,
        ),
        "y": lambda g, x, stride, padding, dilation, groups: convolution(
            x, g, stride=stride, padding=padding, dilation=dilation, groups=groups
        ),
    },
    samples=(
        Sample(((1, 2, 5), (1, 3, 3)), {**_ONE, "kernel": (3,)}),
        Sample(((2, 2, 5), (2, 2, 3)), {**_WIDE, "kernel": (2,)}),
        Sample(((1, 1, 7), (1, 2, 2)), {**_CUT, "kernel": (3,)}),
        Sample(((1, 2, 3, 4), (1, 2, 3, 2)), {**_TWO, "kernel": (2, 2)}),
        Sample(((1, 3, 3, 3), (1, 3, 2, 4)), {**_DEEP, "kernel": (2, 2)}),
        Sample(((1, 2, 5), (1, 3, 4)), {**_ONE, "kernel": (3,)}, RuntimeError, "have windows"),
    ),
)
def convolution_weight(
    x: Array,
    y: Array,
    *,
    kernel: Shape,
    stride: Shape,
    padding: Pairs,
    dilation: Shape,
    groups: int,
) -> Array:
    """The transpose of :func:`convolution` in its weight: the products of x's windows with y, summed over positions."""
    windows = Windows(kernel, stride, padding, dilation)
    shape = (y.shape[1], x.shape[1] // groups, *kernel)
    options = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    work = y.shape[0] * volume(y.shape[2:]) * volume(shape)
    served = product_by_program(convolution_weight, (x, y), {"kernel": kernel, **options}, work)
    if served is not None:
        return served
    left, right = wide(x), wide(y)
    return convolve.weight_gradient(left, right, windows, groups, shape).astype(x.dtype, copy=False)


def _unfold_type(
    x: TensorType, *, kernel: Shape, stride: Shape, padding: Pairs, dilation: Shape
) -> TensorType:
    windows = Windows(kernel, stride, padding, dilation)
    lead = x.ndim - len(kernel)
    counts = windows.counts(x.shape[lead:])
    if any(count < 1 for count in counts):
        raise ShapeError(f"unfold_windows: {windows} do not fit into {x}")
    return TensorType((*x.shape[:lead], *kernel, *counts), x.dtype)


_LAID = {"kernel": (3,), "stride": (2,), "padding": ((1, 2),), "dilation": (1,)}
_LAID_2D = {
    "kernel": (2, 1),
    "stride": (1, 2),
    "padding": ((0, 0), (1, 0)),
    "dilation": (2, 1),
}


@contraction(
    _unfold_type,
    total=True,
    grad=lambda g, x_type, kernel, stride, padding, dilation: fold_windows(
        g,
        size=x_type.shape[len(x_type.shape) - len(kernel) :],
        kernel=kernel,
        stride=stride,
        padding=padding,
        dilation=dilation,
    ),
    samples=(
        Sample(((2, 4),), _LAID),
        Sample(((2, 3, 4),), _LAID_2D),
        Sample(((2, 0, 4),), _LAID),
        Sample(((2, 2, 4),), _LAID_2D, RuntimeError, "do not fit"),
    ),
)
def unfold_windows(
    x: Array, *, kernel: Shape, stride: Shape, padding: Pairs, dilation: Shape
) -> Array:
    """Every window of x's last dimensions: (*leading, *size) to (*leading, *kernel, *windows)."""
    windows = Windows(kernel, stride, padding, dilation)
    counts = windows.counts(x.shape[x.ndim - len(kernel) :])
    return windows.view(windows.pad(x), counts).copy()


def _fold_type(
    x: TensorType, *, size: Shape, kernel: Shape, stride: Shape, padding: Pairs, dilation: Shape
) -> TensorType:
    counts = Windows(kernel, stride, padding, dilation).counts(size)
    lead = x.shape[: x.ndim - 2 * len(kernel)]
    if x.shape != (*lead, *kernel, *counts):
        raise ShapeError(
            f"fold_windows: expected {[*lead, *kernel, *counts]} for extents {list(size)}, got {x}"
        )
    return TensorType((*lead, *size), x.dtype)


@contraction(
    _fold_type,
    total=True,
    grad=lambda g, kernel, stride, padding, dilation: unfold_windows(
        g, kernel=kernel, stride=stride, padding=padding, dilation=dilation
    ),
    samples=(
        Sample(((2, 3, 3),), {**_LAID, "size": (4,)}),
        Sample(((2, 2, 1, 1, 3),), {**_LAID_2D, "size": (3, 4)}),
        Sample(((2, 3, 2),), {**_LAID, "size": (4,)}, RuntimeError, "expected"),
    ),
)
def fold_windows(
    x: Array, *, size: Shape, kernel: Shape, stride: Shape, padding: Pairs, dilation: Shape
) -> Array:
    """The transpose of :func:`unfold_windows`: windows added up where they came from, over extents ``size``."""
    found: Array = Windows(kernel, stride, padding, dilation).fold(wide(x), size)
    return found.astype(x.dtype, copy=False)
