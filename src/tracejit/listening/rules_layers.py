"""Gradients of layers' operators as operators; see :mod:`tracejit.listening.rules`."""

from __future__ import annotations

from typing import Any

from ..aten import ATEN as A
from .rules import rules

__all__: list[str] = []

rules(
    "_softmax",
    self=lambda g, dim, self_dtype, result: A._softmax_backward_data(g, result, dim, self_dtype),
)
rules(
    "_log_softmax",
    self=lambda g, dim, self_dtype, result: A._log_softmax_backward_data(
        g, result, dim, self_dtype
    ),
)
rules("relu", self=lambda g, result: A.threshold_backward(g, result, 0))
rules("threshold", self=lambda g, self, threshold: A.threshold_backward(g, self, threshold))
rules("gelu", self=lambda g, self, approximate: A.gelu_backward(g, self, approximate=approximate))
rules("silu", self=lambda g, self: A.silu_backward(g, self))
rules("mish", self=lambda g, self: A.mish_backward(g, self))
rules("hardswish", self=lambda g, self: A.hardswish_backward(g, self))
rules("hardsigmoid", self=lambda g, self: A.hardsigmoid_backward(g, self))
rules(
    "hardtanh",
    self=lambda g, self, min_val, max_val: A.hardtanh_backward(g, self, min_val, max_val),
)
rules(
    "leaky_relu",
    self=lambda g, self, negative_slope: A.leaky_relu_backward(g, self, negative_slope, False),
)
rules(
    "elu",
    self=lambda g, self, alpha, scale, input_scale: A.elu_backward(
        g, alpha, scale, input_scale, False, self
    ),
)
rules("celu", self=lambda g, self, alpha: A.elu_backward(g, alpha, 1, 1.0 / alpha, False, self))
rules(
    "softplus", self=lambda g, self, beta, threshold: A.softplus_backward(g, self, beta, threshold)
)
rules("glu", self=lambda g, self, dim: A.glu_backward(g, self, dim))
rules("log_sigmoid_forward", self=lambda g, self, result1: A.log_sigmoid_backward(g, self, result1))


def _prelu(g: Any, self: Any, weight: Any) -> Any:
    own, slope = A._prelu_kernel_backward(g, self, weight)
    return {"self": own, "weight": slope}


rules("_prelu_kernel", self=_prelu, weight=_prelu)


def _dropout(g: Any, result1: Any, p: float) -> Any:
    return A.native_dropout_backward(g, result1, 1.0 / (1.0 - p) if p < 1 else 0.0)


rules("native_dropout", input=_dropout)


def _mask(*values: Any) -> list[bool]:
    return [x is not None and x.requires_grad for x in values]


def _layer_norm(
    g: Any, input: Any, normalized_shape: Any, weight: Any, bias: Any, result1: Any, result2: Any
) -> Any:
    found = A.native_layer_norm_backward(
        g, input, normalized_shape, result1, result2, weight, bias, _mask(input, weight, bias)
    )
    return dict(zip(("input", "weight", "bias"), found, strict=True))


rules("native_layer_norm", input=_layer_norm, weight=_layer_norm, bias=_layer_norm)


def _group_norm(
    g: Any,
    input: Any,
    weight: Any,
    bias: Any,
    N: int,  # noqa: N803
    C: int,  # noqa: N803
    HxW: int,  # noqa: N803
    group: int,
    result1: Any,
    result2: Any,
) -> Any:
    found = A.native_group_norm_backward(
        g, input, result1, result2, weight, N, C, HxW, group, _mask(input, weight, bias)
    )
    return dict(zip(("input", "weight", "bias"), found, strict=True))


rules("native_group_norm", input=_group_norm, weight=_group_norm, bias=_group_norm)


def _batch_norm(
    g: Any,
    input: Any,
    weight: Any,
    bias: Any,
    running_mean: Any,
    running_var: Any,
    training: bool,
    eps: float,
    result1: Any,
    result2: Any,
) -> Any:
    found = A.native_batch_norm_backward(
        g,
        input,
        weight,
        running_mean,
        running_var,
        result1,
        result2,
        training,
        eps,
        _mask(input, weight, bias),
    )
    return dict(zip(("input", "weight", "bias"), found, strict=True))


rules("native_batch_norm", input=_batch_norm, weight=_batch_norm, bias=_batch_norm)


def _convolution(
    g: Any,
    input: Any,
    weight: Any,
    bias: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: int,
) -> Any:
    sizes = [0] if bias is None else list(bias.shape)
    window = stride, padding, dilation, transposed, output_padding, groups
    mask = _mask(input, weight, bias)
    found = A.convolution_backward(g, input, weight, sizes, *window, mask)
    return dict(zip(("input", "weight", "bias"), found, strict=True))


rules("convolution", input=_convolution, weight=_convolution, bias=_convolution)
rules(
    "max_pool2d_with_indices",
    self=lambda g, self, kernel_size, stride, padding, dilation, ceil_mode, result1: (
        A.max_pool2d_with_indices_backward(
            g, self, kernel_size, stride, padding, dilation, ceil_mode, result1
        )
    ),
)
rules(
    "avg_pool2d",
    self=lambda g, self, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override: (
        A.avg_pool2d_backward(
            g, self, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
        )
    ),
)
rules("_adaptive_avg_pool2d", self=lambda g, self: A._adaptive_avg_pool2d_backward(g, self))
rules(
    "adaptive_max_pool2d",
    self=lambda g, self, result1: A.adaptive_max_pool2d_backward(g, self, result1),
)
rules(
    "upsample_nearest2d",
    self=lambda g, self_shape, output_size, scales_h, scales_w: A.upsample_nearest2d_backward(
        g, output_size, self_shape, scales_h, scales_w
    ),
)


def _resized(name: str) -> Any:
    def resized(
        g: Any,
        self_shape: Any,
        output_size: Any,
        align_corners: bool,
        scales_h: Any,
        scales_w: Any,
    ) -> Any:
        backward = getattr(A, f"{name}_backward")
        return backward(g, output_size, self_shape, align_corners, scales_h, scales_w)

    return resized


for _name in ("upsample_bilinear2d", "upsample_bicubic2d"):
    rules(_name, self=_resized(_name))
rules(
    "reflection_pad2d", self=lambda g, self, padding: A.reflection_pad2d_backward(g, self, padding)
)
rules(
    "replication_pad2d",
    self=lambda g, self, padding: A.replication_pad2d_backward(g, self, padding),
)
rules(
    "im2col",
    self=lambda g, self_shape, kernel_size, dilation, padding, stride: A.col2im(
        g, list(self_shape[-2:]), kernel_size, dilation, padding, stride
    ),
)
rules(
    "col2im",
    self=lambda g, kernel_size, dilation, padding, stride: A.im2col(
        g, kernel_size, dilation, padding, stride
    ),
)
rules(
    "embedding",
    weight=lambda g, indices, weight_shape, padding_idx, scale_grad_by_freq: (
        A.embedding_dense_backward(g, indices, weight_shape[0], padding_idx, scale_grad_by_freq)
    ),
)
rules(
    "nll_loss_forward",
    self=lambda g, self, target, weight, reduction, ignore_index, result1: A.nll_loss_backward(
        g, self, target, weight, reduction, ignore_index, result1
    ),
)
rules(
    "mse_loss",
    self=lambda g, self, target, reduction: A.mse_loss_backward(g, self, target, reduction),
    target=lambda g, self, target, reduction: A.mse_loss_backward(g, target, self, reduction),
)
rules(
    "smooth_l1_loss",
    self=lambda g, self, target, reduction, beta: A.smooth_l1_loss_backward(
        g, self, target, reduction, beta
    ),
    target=lambda g, self, target, reduction, beta: A.smooth_l1_loss_backward(
        g, target, self, reduction, beta
    ),
)
rules(
    "huber_loss",
    self=lambda g, self, target, reduction, delta: A.huber_loss_backward(
        g, self, target, reduction, delta
    ),
    target=lambda g, self, target, reduction, delta: A.huber_loss_backward(
        g, target, self, reduction, delta
    ),
)


def _bce(g: Any, self: Any, target: Any, weight: Any, reduction: int) -> Any:
    return A.binary_cross_entropy_backward(g, self, target, weight, reduction)


rules("binary_cross_entropy", self=_bce)


def _attention(
    g: Any,
    query: Any,
    key: Any,
    value: Any,
    dropout_p: float,
    is_causal: bool,
    attn_mask: Any,
    scale: Any,
    result: Any,
    result1: Any,
) -> Any:
    found = A._scaled_dot_product_flash_attention_for_cpu_backward(
        g,
        query,
        key,
        value,
        result,
        result1,
        dropout_p,
        is_causal,
        attn_mask=attn_mask,
        scale=scale,
    )
    return dict(zip(("query", "key", "value"), found, strict=True))


rules(
    "_scaled_dot_product_flash_attention_for_cpu",
    query=_attention,
    key=_attention,
    value=_attention,
)
