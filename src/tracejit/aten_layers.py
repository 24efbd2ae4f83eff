"""Operators that PyTorch's functions of layers are made of, forward and backward, by the names in ``ops.aten``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from . import nn
from .aten_parts import _gradients, _of
from .ops.functions.native_forms import NATIVE_FORMS
from .tensor import Tensor

__all__ = ["LAYERS"]

F = nn.functional
_REDUCTIONS = ("none", "mean", "sum")


def _softmax(x: Tensor, dim: int, half_to_float: bool = False) -> Any:
    return F.softmax(x.float() if half_to_float else x, dim)


def _log_softmax(x: Tensor, dim: int, half_to_float: bool = False) -> Any:
    return F.log_softmax(x.float() if half_to_float else x, dim)


def _softmax_backward(g: Tensor, out: Tensor, dim: int, input_dtype: Any) -> Any:
    weighted = g * out
    found = weighted - out * weighted.sum(dim, keepdim=True)
    return found.to(input_dtype)


def _log_softmax_backward(g: Tensor, out: Tensor, dim: int, input_dtype: Any) -> Any:
    return (g - out.exp() * g.sum(dim, keepdim=True)).to(input_dtype)


def _elu(x: Tensor, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Any:
    if input_scale == 1 and scale == 1:
        return F.elu(x, float(alpha))
    negative = ((x * input_scale).clamp(max=0).expm1() * alpha) * scale
    return (x * scale).where(x > 0, negative)


def _elu_backward(
    g: Tensor, alpha: float, scale: float, input_scale: float, is_result: bool, x: Tensor
) -> Any:
    if is_result:
        return g * (x > 0).where(x > 0, 0).to(g.dtype).mul(scale) + g * (
            (x + alpha * scale) * input_scale
        ).masked_fill(x > 0, 0)
    inside = (x * input_scale).exp() * (input_scale * alpha * scale)
    return g * (x.new_full(x.shape, float(scale)).where(x > 0, inside))


def _leaky_backward(g: Tensor, x: Tensor, slope: float, is_result: bool = False) -> Any:
    return g.where(x > 0, g * slope)


def _hardtanh_backward(g: Tensor, x: Tensor, low: float, high: float) -> Any:
    return g.masked_fill((x <= low) | (x >= high), 0.0)


def _prelu(x: Tensor, weight: Tensor) -> Any:
    return x.where(x > 0, weight * x)


def _prelu_backward(g: Tensor, x: Tensor, weight: Tensor) -> Any:
    return g.where(x > 0, weight * g), (x * g).masked_fill(x > 0, 0.0)


def _log_sigmoid_backward(g: Tensor, x: Tensor, buffer: Tensor) -> Any:
    del buffer
    return _gradients(F.logsigmoid, [x], g)[0]


def _dropped(x: Tensor, p: float, train: bool | None) -> tuple[Any, Any]:
    """What ``F.dropout`` gives, and which elements it kept."""
    state = _random_state()
    out = F.dropout(x, p, bool(train))
    _random_state(state)
    ones = F.dropout(x.new_ones(x.shape), p, bool(train))
    return out, ones != 0


def _random_state(state: Any = None) -> Any:
    from .random import get_rng_state, set_rng_state

    return get_rng_state() if state is None else set_rng_state(state)


def _loss(function: Callable[..., Any], option: str = "") -> Callable[..., Any]:
    def loss(x: Tensor, target: Tensor, reduction: int = 1, *value: Any, **named: Any) -> Any:
        named = named or dict.fromkeys([option], value[0] if value else 1.0) if option else {}
        return function(x, target, reduction=_REDUCTIONS[reduction], **named)

    return loss


def _loss_backward(function: Callable[..., Any], option: str = "") -> Callable[..., Any]:
    def backward(g: Tensor, x: Tensor, target: Tensor, reduction: int, value: Any = None) -> Any:
        named = {} if value is None else {option: value}
        run = lambda x: function(x, target, reduction=_REDUCTIONS[reduction], **named)  # noqa: E731
        return _gradients(run, [x], g)[0]

    return backward


def _bce(x: Tensor, target: Tensor, weight: Any = None, reduction: int = 1) -> Any:
    return F.binary_cross_entropy(x, target, weight, reduction=_REDUCTIONS[reduction])


def _bce_backward(
    g: Tensor, x: Tensor, target: Tensor, weight: Any = None, reduction: int = 1
) -> Any:
    return _gradients(lambda x: _bce(x, target, weight, reduction), [x], g)[0]


def _bce_logits(
    x: Tensor, target: Tensor, weight: Any = None, pos_weight: Any = None, reduction: int = 1
) -> Any:
    kind = _REDUCTIONS[reduction]
    return F.binary_cross_entropy_with_logits(
        x, target, weight, pos_weight=pos_weight, reduction=kind
    )


# --- normalization --------------------------------------------------------------------------------


def _masked(found: Sequence[Any], mask: Sequence[bool]) -> tuple[Any, ...]:
    return tuple([x if wanted else None for x, wanted in zip(found, mask, strict=True)])


def _group_norm_backward(
    g: Tensor,
    x: Tensor,
    mean: Tensor,
    rstd: Tensor,
    weight: Any,
    n: int,
    channels: int,
    positions: int,
    groups: int,
    mask: Sequence[bool],
) -> Any:
    def normalized(x: Tensor, weight: Any, bias: Any) -> Any:
        rows = x.reshape(n, groups, -1)
        centre = rows.mean(-1, keepdim=True)
        # The epsilon is in what was saved: the spread that this computes is corrected to it.
        spread = (rows - centre).square().mean(-1, keepdim=True)
        eps = rstd.reshape(n, groups, 1).double() ** -2 - spread.detach().double()
        out = (rows - centre) * (spread + eps.to(spread.dtype)).rsqrt()
        out = out.reshape(n, channels, -1)
        if weight is not None:
            out = out * weight.reshape(1, -1, 1)
        return (out + bias.reshape(1, -1, 1)).reshape(x.shape)

    bias = x.new_zeros(channels)
    return _masked(_gradients(normalized, [x, weight, bias], g), mask)


def _batch_norm_backward(
    g: Tensor,
    x: Tensor,
    weight: Any,
    running_mean: Any,
    running_var: Any,
    save_mean: Any,
    save_invstd: Any,
    train: bool,
    eps: float,
    mask: Sequence[bool],
) -> Any:
    bias = x.new_zeros(x.shape[1])

    def normalized(x: Tensor, weight: Any, bias: Any) -> Any:
        mean, var = (None, None) if train else (running_mean, running_var)
        return F.batch_norm(x, mean, var, weight, bias, train, 0.0, eps)

    return _masked(_gradients(normalized, [x, weight, bias], g), mask)


LAYERS: dict[str, Callable[..., Any]] = {
    "_softmax": _softmax,
    "_log_softmax": _log_softmax,
    "_softmax_backward_data": _softmax_backward,
    "_log_softmax_backward_data": _log_softmax_backward,
    "elu": _elu,
    "elu_backward": _elu_backward,
    "leaky_relu_backward": _leaky_backward,
    "hardtanh_backward": _hardtanh_backward,
    "hardswish_backward": _of(F.hardswish, 0),
    "hardsigmoid_backward": _of(F.hardsigmoid, 0),
    "mish_backward": _of(F.mish, 0),
    "softplus_backward": _of(F.softplus, 0),
    "glu_backward": _of(F.glu, 0),
    "_prelu_kernel": _prelu,
    "_prelu_kernel_backward": _prelu_backward,
    "log_sigmoid_backward": _log_sigmoid_backward,
    "native_dropout": _dropped,
    "mse_loss": _loss(F.mse_loss),
    "mse_loss_backward": _loss_backward(F.mse_loss),
    "smooth_l1_loss": _loss(F.smooth_l1_loss, "beta"),
    "smooth_l1_loss_backward": _loss_backward(F.smooth_l1_loss, "beta"),
    "huber_loss": _loss(F.huber_loss, "delta"),
    "huber_loss_backward": _loss_backward(F.huber_loss, "delta"),
    "binary_cross_entropy": _bce,
    "binary_cross_entropy_backward": _bce_backward,
    "binary_cross_entropy_with_logits": _bce_logits,
    "native_group_norm_backward": _group_norm_backward,
    "native_batch_norm_backward": _batch_norm_backward,
    "embedding": NATIVE_FORMS["embedding"],
}
