"""Operators of windows, attention and parts of tensors, forward and backward, by the names in ``ops.aten``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from . import nn
from .aten_parts import _gradients, _of
from .ops.table import FUNCTIONS
from .tensor import Tensor
from .tensor_make import tensor

__all__ = ["WINDOWS"]

F = nn.functional


def _masked(found: Sequence[Any], mask: Sequence[bool]) -> tuple[Any, ...]:
    return tuple([x if wanted else None for x, wanted in zip(found, mask, strict=True)])


def _convolution(
    x: Tensor,
    weight: Tensor,
    bias: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: int,
) -> Any:
    options = stride, padding, dilation, transposed, output_padding, groups
    return FUNCTIONS["convolution"](x, weight, bias, *options)


def _convolution_backward(
    g: Tensor,
    x: Tensor,
    weight: Tensor,
    bias_sizes: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: int,
    mask: Sequence[bool],
) -> Any:
    options = stride, padding, dilation, transposed, output_padding, groups
    run = lambda x, weight: _convolution(x, weight, None, *options)  # noqa: E731
    found = _gradients(run, [x, weight], g) if mask[0] or mask[1] else [None, None]
    bias = g.sum([0, *range(2, g.ndim)]) if mask[2] else None
    return _masked([*found, bias], mask)


def _window(rank: int, kernel: Any, stride: Any) -> Any:
    return stride if stride is not None and len(stride) else kernel


def _max_pool(rank: int) -> Callable[..., Any]:
    function = getattr(F, f"max_pool{rank}d")

    def pool(
        x: Tensor,
        kernel: Any,
        stride: Any = (),
        padding: Any = 0,
        dilation: Any = 1,
        ceil_mode: bool = False,
    ) -> Any:
        steps = _window(rank, kernel, stride)
        return function(x, kernel, steps, padding, dilation, ceil_mode, return_indices=True)

    return pool


def _avg_pool(rank: int) -> Callable[..., Any]:
    function = getattr(F, f"avg_pool{rank}d")

    def pool(x: Tensor, kernel: Any, stride: Any = (), *options: Any, **named: Any) -> Any:
        return function(x, kernel, _window(rank, kernel, stride), *options, **named)

    return pool


def _adaptive_max(x: Tensor, size: Any) -> Any:
    return F.adaptive_max_pool2d(x, size, return_indices=True)


def _picked(g: Tensor, x: Tensor, indices: Tensor) -> Any:
    flat = x.new_zeros(*x.shape[:-2], x.shape[-2] * x.shape[-1])
    return flat.scatter_add(-1, indices.flatten(-2), g.flatten(-2)).reshape(x.shape)


def _upsample_backward(mode: str) -> Callable[..., Any]:
    def backward(g: Tensor, output_size: Any, input_size: Any, *options: Any) -> Any:
        from .aten import ATEN

        forward = getattr(ATEN, f"upsample_{mode}2d")._function
        x = g.new_zeros(*input_size)
        return _gradients(lambda x: forward(x, output_size, *options), [x], g)[0]

    return backward


def _pad_backward(mode: str) -> Callable[..., Any]:
    def backward(g: Tensor, x: Tensor, padding: Any) -> Any:
        return _gradients(lambda x: F.pad(x, tuple(padding), mode=mode), [x], g)[0]

    return backward


def _flash(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    attn_mask: Any = None,
    scale: Any = None,
) -> tuple[Any, Any]:
    """Attention, and the logarithms of what its rows were divided by."""
    out = F.scaled_dot_product_attention(
        query, key, value, attn_mask, dropout_p, is_causal, scale=scale
    )
    factor = query.shape[-1] ** -0.5 if scale is None else scale
    scores = (query @ key.transpose(-1, -2)) * factor
    if is_causal:
        seen = scores.new_ones(scores.shape[-2:]).tril() > 0
        scores = scores.masked_fill(~seen, float("-inf"))
    if attn_mask is not None:
        plain = attn_mask.dtype.is_floating_point
        scores = scores + attn_mask if plain else scores.masked_fill(~attn_mask, float("-inf"))
    return out, scores.logsumexp(-1).detach()


def _flash_backward(
    g: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    out: Tensor,
    logsumexp: Tensor,
    dropout_p: float,
    is_causal: bool,
    *,
    attn_mask: Any = None,
    scale: Any = None,
) -> Any:
    def run(q: Tensor, k: Tensor, v: Tensor) -> Any:
        options = attn_mask, dropout_p, is_causal
        return F.scaled_dot_product_attention(q, k, v, *options, scale=scale)

    return tuple(_gradients(run, [query, key, value], g))


def _placed(show: Callable[..., Any]) -> Callable[..., Any]:
    """``(g, sizes, *where)`` to zeros with ``g`` at the place that ``show`` shows."""

    def backward(g: Tensor, sizes: Any, *where: Any) -> Any:
        x = g.new_zeros(*sizes) if len(sizes) else g.new_zeros(())
        show(x, *where).copy_(g)
        return x

    return backward


def _slice(x: Tensor, dim: int, start: int, end: int, step: int) -> Any:
    before = dim + x.ndim if dim < 0 else dim
    return x[(*[slice(None)] * before, slice(start, end, step))]


def _index_put(x: Tensor, indices: Any, values: Tensor, accumulate: bool = False) -> Any:
    return _index_put_(x.clone(), indices, values, accumulate)


def _index_put_(x: Tensor, indices: Any, values: Tensor, accumulate: bool = False) -> Any:
    key = tuple([slice(None) if i is None else i for i in indices])
    if not accumulate:
        x[key] = values
        return x
    places = tensor(range(x.numel())).reshape(x.shape)[key]
    flat = values.expand(places.shape).reshape(-1)
    if not x.is_contiguous():
        return x.copy_(x.reshape(-1).index_add(0, places.reshape(-1), flat).reshape(x.shape))
    x.view(-1).index_add_(0, places.reshape(-1), flat)
    return x


def _corrected(name: str) -> Callable[..., Any]:
    def spread(x: Tensor, dim: Any = None, *, correction: Any = None, keepdim: bool = False) -> Any:
        given = 1 if correction is None else correction
        rows = tuple(range(x.ndim)) if dim is None else tuple(dim)
        return FUNCTIONS[name](x, rows, correction=given, keepdim=keepdim)

    return spread


def _scalar(s: Any, dtype: Any = None, **options: Any) -> Any:
    return tensor(s, dtype=dtype, device=options.get("device"))


def _adaptive_backward(g: Tensor, x: Tensor) -> Any:
    size = tuple(g.shape[-2:])
    return _gradients(lambda x: F.adaptive_avg_pool2d(x, size), [x], g)[0]


def _padded_with(x: Tensor, pad: Any, value: Any = 0) -> Any:
    return F.pad(x, tuple(pad), value=value)


WINDOWS: dict[str, Callable[..., Any]] = {
    "convolution": _convolution,
    "convolution_backward": _convolution_backward,
    "max_pool2d_with_indices": _max_pool(2),
    "max_pool3d_with_indices": _max_pool(3),
    "avg_pool2d": _avg_pool(2),
    "avg_pool3d": _avg_pool(3),
    "avg_pool2d_backward": _of(_avg_pool(2), 0),
    "_adaptive_avg_pool2d_backward": _adaptive_backward,
    "adaptive_max_pool2d": _adaptive_max,
    "adaptive_max_pool2d_backward": _picked,
    **{
        f"upsample_{m}2d_backward": _upsample_backward(m)
        for m in ("nearest", "bilinear", "bicubic")
    },
    "reflection_pad2d_backward": _pad_backward("reflect"),
    "replication_pad2d_backward": _pad_backward("replicate"),
    "constant_pad_nd": _padded_with,
    "_scaled_dot_product_flash_attention_for_cpu": _flash,
    "_scaled_dot_product_flash_attention_for_cpu_backward": _flash_backward,
    "select_backward": _placed(lambda x, *where: x.select(*where)),
    "slice_backward": _placed(_slice),
    "diagonal_backward": _placed(lambda x, *where: x.diagonal(*where)),
    "index_put": _index_put,
    "index_put_": _index_put_,
    "scalar_tensor": _scalar,
    **{name: _corrected(name) for name in ("var", "std", "var_mean", "std_mean")},
}
