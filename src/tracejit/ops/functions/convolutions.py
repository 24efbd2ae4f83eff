"""Convolution, transposed convolution, and windows as columns, for one to three spatial dimensions."""

from __future__ import annotations

from typing import Any

from ...dtypes import DType, int64
from ...errors import DtypeError, ShapeError
from .. import convolution as cv
from .. import elementwise as e
from .. import movement as m
from ..precision import lower_precision
from ..table import function
from ..windows import Windows
from .common import Tensor, as_type, check_tensor, refuse, shape_of
from .matrices import before_a_sum
from .spatial import Shape, Sizes, batched, per_dim, unbatched


def _check_options(stride: Shape, padding: Shape, dilation: Shape, groups: int) -> None:
    if any(n < 1 for n in stride):
        raise ShapeError("non-positive stride is not supported")
    if any(n < 0 for n in padding):
        raise ShapeError("negative padding is not supported")
    if any(n < 1 for n in dilation):
        raise ShapeError(f"dilation should be greater than zero, but got {list(dilation)}")
    if groups < 1:
        raise ShapeError("non-positive groups is not supported")


def _check_weight(name: str, weight: Tensor, rank: int, groups: int) -> None:
    check_tensor(name, weight, "weight", 2)
    refuse(f"slow_{name}", weight.dtype, "bool")
    shape = shape_of(weight)
    if len(shape) != rank + 2:
        raise ShapeError(
            f"Expected a {rank + 2}-dimensional weight for {name}, but got weight of size {list(shape)}"
        )
    if any(n < 1 for n in shape[2:]):
        raise ShapeError(f"kernel size should be greater than zero, but got {list(shape[2:])}")
    if shape[0] < groups:
        raise ShapeError(
            f"Given groups={groups}, expected weight to be at least {groups} at dimension 0, but got "
            f"weight of size {list(shape)} instead"
        )
    if shape[0] % groups:
        raise ShapeError(
            f"Given groups={groups}, expected weight to be divisible by {groups} at dimension 0, but "
            f"got weight of size {list(shape)} instead"
        )


def _with_bias(
    x: Tensor, bias: Tensor | None, weight: Tensor, transposed: bool, kind: DType
) -> Tensor:
    """One number added per channel, in ``kind``; sums that are not rounded yet are rounded afterwards."""
    if bias is None:
        return x
    channels = shape_of(x)[1]
    if shape_of(bias) != (channels,):
        raise ShapeError(
            f"Given {'transposed=1, ' * transposed}weight of size {list(shape_of(weight))}, expected "
            f"bias to be 1-dimensional with {channels} elements, but got bias of size "
            f"{list(shape_of(bias))} instead"
        )
    if bias.dtype is not kind:
        raise DtypeError(
            f"Input type ({kind.name}) and bias type ({bias.dtype.name}) should be the same"
        )
    found = e.add(x, m.reshape(bias, shape=(1, channels, *(1 for _ in range(x.ndim - 2)))))
    return as_type(found, kind)


def _unrounded(x: Tensor, weight: Tensor, bias: Tensor | None) -> dict[str, DType]:
    """What says that sums are not to be rounded before a bias is added."""
    wide = None if bias is None else before_a_sum(x, weight)
    return {} if wide is None else {"dtype": wide}


def _padding(padding: Any, name: str, rank: int, windows: Windows) -> tuple[tuple[int, int], ...]:
    """(before, after) along each dimension; "same" keeps extents, and puts the odd element after."""
    if padding == "valid":
        return ((0, 0),) * rank
    if padding == "same":
        if any(s != 1 for s in windows.stride):
            raise ShapeError("padding='same' is not supported for strided convolutions")
        return tuple(((n - 1) // 2, n // 2) for n in windows.reach())
    if isinstance(padding, str):
        raise ShapeError(f"Invalid padding string: '{padding}'")
    return tuple((n, n) for n in per_dim(name, "padding", padding, rank))


def _convolution(
    rank: int,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Sizes,
    padding: Any,
    dilation: Sizes,
    groups: int,
) -> Tensor:
    name = f"conv{rank}d"
    x, added = batched(name, input, rank)
    _check_weight(name, weight, rank, max(groups, 1))
    steps = per_dim(name, "stride", stride, rank)
    apart = per_dim(name, "dilation", dilation, rank)
    windows = Windows(shape_of(weight)[2:], steps, ((0, 0),) * rank, apart)
    pairs = _padding(padding, name, rank, windows)
    _check_options(steps, tuple(a for a, _ in pairs), apart, groups)
    wide = _unrounded(x, weight, bias)
    result = cv.convolution(
        x, weight, stride=steps, padding=pairs, dilation=apart, groups=int(groups), **wide
    )
    kind = x.dtype if wide else result.dtype
    return unbatched(_with_bias(result, bias, weight, False, kind), added)


@function(method=False, within=lower_precision)
def conv1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sizes = 1,
    padding: Any = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Tensor:
    """Cross-correlation of ``input`` (N, C, L) or (C, L) with ``weight`` (out, C / groups, kernel).

    ``padding`` may be "same" or "valid". Raises ``RuntimeError`` when shapes, dtypes or options do not fit.

    >>> import tracejit as tj
    >>> tj.conv1d(tj.tensor([[1.0, 2.0, 4.0]]), tj.tensor([[[1.0, -1.0]]]))
    tensor([[-1., -2.]])
    """
    return _convolution(1, input, weight, bias, stride, padding, dilation, groups)


@function(method=False, within=lower_precision)
def conv2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sizes = 1,
    padding: Any = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Tensor:
    """Cross-correlation of ``input`` (N, C, H, W) or (C, H, W) with ``weight`` (out, C / groups, kH, kW).

    ``padding`` may be "same" or "valid". Raises ``RuntimeError`` when shapes, dtypes or options do not fit.

    >>> import tracejit as tj
    >>> tj.conv2d(tj.ones(1, 1, 3, 3), tj.ones(1, 1, 2, 2), padding=1)[0, 0]
    tensor([[1., 2., 2., 1.],
            [2., 4., 4., 2.],
            [2., 4., 4., 2.],
            [1., 2., 2., 1.]])
    """
    return _convolution(2, input, weight, bias, stride, padding, dilation, groups)


@function(method=False, within=lower_precision)
def conv3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sizes = 1,
    padding: Any = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Tensor:
    """Cross-correlation of ``input`` (N, C, D, H, W) or (C, D, H, W) with ``weight`` (out, C / groups, kD, kH, kW).

    ``padding`` may be "same" or "valid". Raises ``RuntimeError`` when shapes, dtypes or options do not fit.

    >>> import tracejit as tj
    >>> tj.conv3d(tj.ones(1, 1, 3, 3, 3), tj.ones(4, 1, 2, 2, 2)).shape
    tracejit.Size([1, 4, 2, 2, 2])
    """
    return _convolution(3, input, weight, bias, stride, padding, dilation, groups)


def _check_output_padding(extra: Shape, stride: Shape, dilation: Shape) -> None:
    if any(n < 0 for n in extra):
        raise ShapeError("negative output_padding is not supported")
    if any(n >= s and n >= d for n, s, d in zip(extra, stride, dilation, strict=True)):
        raise ShapeError(
            "output padding must be smaller than either stride or dilation, but got output_padding: "
            f"{list(extra)} stride: {list(stride)} dilation: {list(dilation)}"
        )


def _transposed(
    rank: int,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Sizes,
    padding: Sizes,
    output_padding: Sizes,
    groups: int,
    dilation: Sizes,
) -> Tensor:
    name = f"conv_transpose{rank}d"
    x, added = batched(name, input, rank)
    _check_weight(name, weight, rank, max(groups, 1))
    steps = per_dim(name, "stride", stride, rank)
    around = per_dim(name, "padding", padding, rank)
    apart = per_dim(name, "dilation", dilation, rank)
    if x.dtype is not int64:
        refuse(f"slow_{name}", x.dtype, "int")
    extra = per_dim(name, "output_padding", output_padding, rank)
    _check_options(steps, around, apart, groups)
    _check_output_padding(extra, steps, apart)
    pairs = tuple((a, a - n) for a, n in zip(around, extra, strict=True))
    size = Windows(shape_of(weight)[2:], steps, pairs, apart).sizes(shape_of(x)[2:])
    if any(n < 1 for n in size):
        raise ShapeError(
            f"Given input size per channel: {list(shape_of(x)[2:])}. Calculated output size per "
            f"channel: {list(size)}. Output size is too small"
        )
    wide = _unrounded(x, weight, bias)
    options = {"stride": steps, "padding": pairs, "dilation": apart, "groups": int(groups)}
    result = cv.convolution_input(x, weight, size=size, **options, **wide)
    kind = x.dtype if wide else result.dtype
    return unbatched(_with_bias(result, bias, weight, True, kind), added)


@function(method=False, within=lower_precision)
def conv_transpose1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sizes = 1,
    padding: Sizes = 0,
    output_padding: Sizes = 0,
    groups: int = 1,
    dilation: Sizes = 1,
) -> Tensor:
    """The transpose of :func:`conv1d`: ``input`` (N, C, L) or (C, L), ``weight`` (C, out / groups, kernel).

    Raises ``RuntimeError`` when shapes, dtypes or options do not fit.

    >>> import tracejit as tj
    >>> tj.conv_transpose1d(tj.tensor([[1.0, 2.0]]), tj.tensor([[[1.0, 10.0]]]), stride=2)
    tensor([[ 1., 10.,  2., 20.]])
    """
    return _transposed(1, input, weight, bias, stride, padding, output_padding, groups, dilation)


@function(method=False, within=lower_precision)
def conv_transpose2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sizes = 1,
    padding: Sizes = 0,
    output_padding: Sizes = 0,
    groups: int = 1,
    dilation: Sizes = 1,
) -> Tensor:
    """The transpose of :func:`conv2d`: ``input`` (N, C, H, W) or (C, H, W), ``weight`` (C, out / groups, kH, kW).

    Raises ``RuntimeError`` when shapes, dtypes or options do not fit.

    >>> import tracejit as tj
    >>> tj.conv_transpose2d(tj.ones(1, 2, 3, 3), tj.ones(2, 4, 2, 2), stride=2).shape
    tracejit.Size([1, 4, 6, 6])
    """
    return _transposed(2, input, weight, bias, stride, padding, output_padding, groups, dilation)


@function(method=False, within=lower_precision)
def conv_transpose3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sizes = 1,
    padding: Sizes = 0,
    output_padding: Sizes = 0,
    groups: int = 1,
    dilation: Sizes = 1,
) -> Tensor:
    """The transpose of :func:`conv3d`: ``input`` (N, C, D, H, W), ``weight`` (C, out / groups, kD, kH, kW).

    Raises ``RuntimeError`` when shapes, dtypes or options do not fit.

    >>> import tracejit as tj
    >>> tj.conv_transpose3d(tj.ones(1, 2, 3, 3, 3), tj.ones(2, 4, 2, 2, 2)).shape
    tracejit.Size([1, 4, 4, 4, 4])
    """
    return _transposed(3, input, weight, bias, stride, padding, output_padding, groups, dilation)
