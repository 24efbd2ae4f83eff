"""Convolutions, pooling, resizing, padding and attention as operators; see :mod:`tracejit.listening.forms`."""

from __future__ import annotations

import math
from typing import Any

from ..aten import ATEN as A
from .forms import AS_WRITTEN, form

__all__: list[str] = []


def _row(x: Any, rank: int) -> list[int]:
    return (
        [int(x)] * rank
        if isinstance(x, int)
        else [int(n) for n in x] * (rank if len(x) == 1 else 1)
    )


def _convolved(
    rank: int,
    input: Any,
    weight: Any,
    bias: Any,
    windows: tuple[Any, Any, Any, Any],
    transposed: bool,
    groups: int,
) -> Any:
    """The operator for samples, or a single one; ``windows`` are strides, paddings, dilations and output paddings."""
    if len(input.shape) not in (rank + 1, rank + 2):
        return AS_WRITTEN
    alone = len(input.shape) == rank + 1
    *rows, output_padding = [_row(x, rank) for x in windows]
    x = A.unsqueeze(input, 0) if alone else input
    out = A.convolution(x, weight, bias, *rows, transposed, output_padding, groups)
    return A.squeeze(out, 0) if alone else out


def _convolution(rank: int) -> Any:
    def convolve(
        input: Any,
        weight: Any,
        bias: Any = None,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
    ) -> Any:
        if isinstance(padding, str):
            if padding != "valid":
                return AS_WRITTEN
            padding = 0
        windows = stride, padding, dilation, 0
        return _convolved(rank, input, weight, bias, windows, False, groups)

    return convolve


def _transposed(rank: int) -> Any:
    def convolve(
        input: Any,
        weight: Any,
        bias: Any = None,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        dilation: Any = 1,
    ) -> Any:
        windows = stride, padding, dilation, output_padding
        return _convolved(rank, input, weight, bias, windows, True, groups)

    return convolve


for _n in (1, 2, 3):
    form(f"conv{_n}d")(_convolution(_n))
    form(f"conv_transpose{_n}d")(_transposed(_n))


def _max_pool(rank: int) -> Any:
    name = f"max_pool{rank}d_with_indices"

    def pool(
        input: Any,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> Any:
        strides = [] if stride is None or stride == [] else _row(stride, rank)
        rows = [_row(kernel_size, rank), strides, _row(padding, rank), _row(dilation, rank)]
        found = getattr(A, name)(input, *rows, ceil_mode)
        return tuple(found) if return_indices else found[0]

    return pool


for _n in (2, 3):
    form(f"max_pool{_n}d", f"F.max_pool{_n}d")(_max_pool(_n))


@form("max_pool1d", "F.max_pool1d")
def _max_pool1d(
    input: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    k, p, d = _row(kernel_size, 1), _row(padding, 1), _row(dilation, 1)
    s = k if stride is None or stride == [] else _row(stride, 1)
    rows = [1, *k], [1, *s], [0, *p], [1, *d]
    found = A.max_pool2d_with_indices(A.unsqueeze(input, -2), *rows, ceil_mode)
    values, places = [A.squeeze(x, -2) for x in found]
    return (values, places) if return_indices else values


@form("avg_pool1d", "F.avg_pool1d")
def _avg_pool1d(
    input: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Any:
    k, p = _row(kernel_size, 1), _row(padding, 1)
    s = k if stride is None or stride == [] else _row(stride, 1)
    x = A.unsqueeze(input, -2)
    return A.squeeze(A.avg_pool2d(x, [1, *k], [1, *s], [0, *p], ceil_mode, count_include_pad), -2)


def _avg_pool(rank: int) -> Any:
    def pool(
        input: Any,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: Any = None,
    ) -> Any:
        strides = [] if stride is None or stride == [] else _row(stride, rank)
        rows = [_row(kernel_size, rank), strides, _row(padding, rank)]
        options = ceil_mode, count_include_pad, divisor_override
        return getattr(A, f"avg_pool{rank}d")(input, *rows, *options)

    return pool


for _n in (2, 3):
    form(f"avg_pool{_n}d", f"F.avg_pool{_n}d")(_avg_pool(_n))


@form("adaptive_avg_pool2d", "F.adaptive_avg_pool2d")
def _adaptive_avg_pool2d(input: Any, output_size: Any) -> Any:
    size = [output_size] * 2 if output_size is None or isinstance(output_size, int) else output_size
    shape = [n if m is None else m for m, n in zip(size, input.shape[-2:], strict=True)]
    if shape == [1, 1]:
        return A.mean(input, [-1, -2], True)
    return A._adaptive_avg_pool2d(input, shape)


@form("adaptive_avg_pool1d", "F.adaptive_avg_pool1d")
def _adaptive_avg_pool1d(input: Any, output_size: Any) -> Any:
    size = _row(output_size, 1)
    out = _adaptive_avg_pool2d(A.unsqueeze(input, -2), [1, *size])
    return A.squeeze(out, -2)


@form("F.adaptive_max_pool2d")
def _adaptive_max_pool2d(input: Any, output_size: Any, return_indices: bool = False) -> Any:
    size = [output_size] * 2 if output_size is None or isinstance(output_size, int) else output_size
    shape = [n if m is None else m for m, n in zip(size, input.shape[-2:], strict=True)]
    found = A.adaptive_max_pool2d(input, shape)
    return tuple(found) if return_indices else found[0]


_RESIZED = {
    ("nearest", 1): "upsample_nearest1d",
    ("nearest", 2): "upsample_nearest2d",
    ("nearest", 3): "upsample_nearest3d",
    ("linear", 1): "upsample_linear1d",
    ("bilinear", 2): "upsample_bilinear2d",
    ("bicubic", 2): "upsample_bicubic2d",
    ("trilinear", 3): "upsample_trilinear3d",
}


@form("F.interpolate")
def _interpolate(
    input: Any,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: Any = None,
    recompute_scale_factor: Any = None,
    antialias: bool = False,
) -> Any:
    rank = len(input.shape) - 2
    name = _RESIZED.get((mode, rank))
    if name is None or antialias or (size is None) == (scale_factor is None):
        return AS_WRITTEN
    scales: list[Any] = [None] * rank
    if size is not None:
        shape = _row(size, rank)
    else:
        many = isinstance(scale_factor, (list, tuple))
        factors = [float(x) for x in (scale_factor if many else [scale_factor] * rank)]
        shape = [math.floor(n * x) for n, x in zip(input.shape[2:], factors, strict=True)]
        if not recompute_scale_factor:
            scales = list(factors)
    corners = [] if mode == "nearest" else [bool(align_corners)]
    return getattr(A, name)(input, shape, *corners, *scales)


@form("F.pad")
def _pad(input: Any, pad: Any, mode: str = "constant", value: Any = None) -> Any:
    pad = [int(n) for n in pad]
    if mode == "constant" and len(pad) % 2 == 0 and len(pad) <= 2 * len(input.shape):
        return A.constant_pad_nd(input, pad, 0.0 if value is None else value)
    name = {"reflect": "reflection_pad", "replicate": "replication_pad"}.get(mode)
    rank = len(pad) // 2
    if name is None or value is not None or len(input.shape) not in (rank + 1, rank + 2):
        return AS_WRITTEN
    return getattr(A, f"{name}{rank}d")(input, pad)


@form("F.unfold")
def _unfold(
    input: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
) -> Any:
    return A.im2col(input, *[_row(x, 2) for x in (kernel_size, dilation, padding, stride)])


@form("F.fold")
def _fold(
    input: Any,
    output_size: Any,
    kernel_size: Any,
    dilation: Any = 1,
    padding: Any = 0,
    stride: Any = 1,
) -> Any:
    rows = (output_size, kernel_size, dilation, padding, stride)
    return A.col2im(input, *[_row(x, 2) for x in rows])


@form("scaled_dot_product_attention")
def _attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: Any = None,
    enable_gqa: bool = False,
) -> Any:
    shapes = {(*x.shape[:2], x.shape[-1]) for x in (query, key, value) if len(x.shape) == 4}
    ranks = {len(x.shape) for x in (query, key, value)}
    if ranks != {4} or len(shapes) != 1 or enable_gqa or dropout_p or 0 in query.shape:
        return AS_WRITTEN
    if attn_mask is not None and (is_causal or attn_mask.requires_grad):
        return AS_WRITTEN
    name = A._scaled_dot_product_flash_attention_for_cpu
    return name(query, key, value, dropout_p, is_causal, attn_mask=attn_mask, scale=scale)[0]
