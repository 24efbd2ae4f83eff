"""Batch norm folded into the convolution or linear layer before it, for evaluation."""

from __future__ import annotations

import copy
from typing import Any

from ...autograd.grad_mode import no_grad
from ..parameter import Parameter

__all__ = [
    "fuse_conv_bn_eval",
    "fuse_conv_bn_weights",
    "fuse_linear_bn_eval",
    "fuse_linear_bn_weights",
]


def _folded(
    weight: Any, bias: Any, mean: Any, var: Any, eps: float, scale: Any, shift: Any, dim: int
) -> tuple[Any, Any]:
    with no_grad():
        factor = (var + eps).rsqrt() * (1 if scale is None else scale)
        shape = [1] * weight.ndim
        shape[dim] = -1
        start = -mean if bias is None else bias - mean
        return weight * factor.reshape(shape), start * factor + (0 if shift is None else shift)


def fuse_conv_bn_weights(
    conv_w: Any,
    conv_b: Any,
    bn_rm: Any,
    bn_rv: Any,
    bn_eps: float,
    bn_w: Any,
    bn_b: Any,
    transpose: bool = False,
) -> tuple[Parameter, Parameter]:
    """Weight and bias of a convolution that does what convolution and batch norm do in evaluation.

    >>> import tracejit as tj
    >>> w, b = fuse_conv_bn_weights(tj.ones(1, 1, 1), None, tj.ones(1), tj.ones(1), 0.0, None, None)
    >>> w.detach(), b.detach()
    (tensor([[[1.]]]), tensor([-1.]))
    """
    dim = 1 if transpose else 0
    weight, bias = _folded(conv_w, conv_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, dim)
    return Parameter(weight, conv_w.requires_grad), Parameter(bias, conv_w.requires_grad)


def fuse_linear_bn_weights(
    linear_w: Any, linear_b: Any, bn_rm: Any, bn_rv: Any, bn_eps: float, bn_w: Any, bn_b: Any
) -> tuple[Parameter, Parameter]:
    """The same for a linear layer.

    >>> import tracejit as tj
    >>> w, b = fuse_linear_bn_weights(tj.ones(1, 1), None, tj.ones(1), tj.ones(1), 0.0, None, None)
    >>> w.detach(), b.detach()
    (tensor([[1.]]), tensor([-1.]))
    """
    return fuse_conv_bn_weights(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b)


def fuse_conv_bn_eval(conv: Any, bn: Any, transpose: bool = False) -> Any:
    """A copy of ``conv`` that does what ``bn(conv(x))`` does in evaluation.

    Raises ``AssertionError`` unless both are in evaluation mode.

    >>> import tracejit as tj
    >>> conv, bn = tj.nn.Conv1d(1, 1, 1).eval(), tj.nn.BatchNorm1d(1).eval()
    >>> x = tj.ones(1, 1, 2)
    >>> tj.allclose(fuse_conv_bn_eval(conv, bn)(x), bn(conv(x)))
    True
    """
    if conv.training or bn.training:
        raise AssertionError("Fusion only for eval!")
    fused = copy.deepcopy(conv)
    fused.weight, fused.bias = fuse_conv_bn_weights(
        fused.weight,
        fused.bias,
        bn.running_mean,
        bn.running_var,
        bn.eps,
        bn.weight,
        bn.bias,
        transpose,
    )
    return fused


def fuse_linear_bn_eval(linear: Any, bn: Any) -> Any:
    """The same for a linear layer.

    >>> import tracejit as tj
    >>> layer, bn = tj.nn.Linear(1, 1).eval(), tj.nn.BatchNorm1d(1).eval()
    >>> x = tj.ones(2, 1)
    >>> tj.allclose(fuse_linear_bn_eval(layer, bn)(x), bn(layer(x)))
    True
    """
    return fuse_conv_bn_eval(linear, bn)
