"""Gradients of convolutions as functions: with respect to what is convolved, and to the weight."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..ops.convolution import convolution_input, convolution_weight
from ..ops.functions.spatial import per_dim
from ..tensor import Tensor

__all__ = [
    "conv1d_input",
    "conv1d_weight",
    "conv2d_input",
    "conv2d_weight",
    "conv3d_input",
    "conv3d_weight",
]


def _options(
    name: str, rank: int, stride: Any, padding: Any, dilation: Any, groups: int
) -> dict[str, Any]:
    around = per_dim(name, "padding", padding, rank)
    return {
        "stride": per_dim(name, "stride", stride, rank),
        "padding": tuple((n, n) for n in around),
        "dilation": per_dim(name, "dilation", dilation, rank),
        "groups": groups,
    }


def _of_input(
    size: Sequence[int], weight: Tensor, grad_output: Tensor, options: dict[str, Any]
) -> Tensor:
    made: Tensor = convolution_input(grad_output, weight, size=tuple(size[2:]), **options)
    return made


def _of_weight(
    x: Tensor, size: Sequence[int], grad_output: Tensor, options: dict[str, Any]
) -> Tensor:
    made: Tensor = convolution_weight(x, grad_output, kernel=tuple(size[2:]), **options)
    return made


def conv1d_input(
    input_size: Sequence[int],
    weight: Tensor,
    grad_output: Tensor,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """The gradient of ``conv1d`` with respect to its input, of (N, C, L), from that of its result.

    Raises ``RuntimeError`` where the sizes do not belong together.

    >>> import tracejit as tj
    >>> conv1d_input((1, 1, 3), tj.tensor([[[1.0, 2.0]]]), tj.tensor([[[1.0, 1.0]]]))
    tensor([[[1., 3., 2.]]])
    """
    options = _options("conv1d_input", 1, stride, padding, dilation, groups)
    return _of_input(input_size, weight, grad_output, options)


def conv1d_weight(
    input: Tensor,
    weight_size: Sequence[int],
    grad_output: Tensor,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """The gradient of ``conv1d`` with respect to its weight, of (out, C / groups, K), from that of its result.

    Raises ``RuntimeError`` where the sizes do not belong together.

    >>> import tracejit as tj
    >>> conv1d_weight(tj.tensor([[[1.0, 2.0, 3.0]]]), (1, 1, 2), tj.tensor([[[1.0, 1.0]]]))
    tensor([[[3., 5.]]])
    """
    options = _options("conv1d_weight", 1, stride, padding, dilation, groups)
    return _of_weight(input, weight_size, grad_output, options)


def conv2d_input(
    input_size: Sequence[int],
    weight: Tensor,
    grad_output: Tensor,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """The gradient of ``conv2d`` with respect to its input, of (N, C, H, W), from that of its result.

    Raises ``RuntimeError`` where the sizes do not belong together.

    >>> import tracejit as tj
    >>> conv2d_input((1, 1, 1, 3), tj.tensor([[[[1.0, 2.0]]]]), tj.tensor([[[[1.0, 1.0]]]]))
    tensor([[[[1., 3., 2.]]]])
    """
    options = _options("conv2d_input", 2, stride, padding, dilation, groups)
    return _of_input(input_size, weight, grad_output, options)


def conv2d_weight(
    input: Tensor,
    weight_size: Sequence[int],
    grad_output: Tensor,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """The gradient of ``conv2d`` with respect to its weight, of (out, C / groups, kH, kW), from that of its result.

    Raises ``RuntimeError`` where the sizes do not belong together.

    >>> import tracejit as tj
    >>> conv2d_weight(tj.tensor([[[[1.0, 2.0, 3.0]]]]), (1, 1, 1, 2), tj.tensor([[[[1.0, 1.0]]]]))
    tensor([[[[3., 5.]]]])
    """
    options = _options("conv2d_weight", 2, stride, padding, dilation, groups)
    return _of_weight(input, weight_size, grad_output, options)


def conv3d_input(
    input_size: Sequence[int],
    weight: Tensor,
    grad_output: Tensor,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """The gradient of ``conv3d`` with respect to its input, of (N, C, D, H, W), from that of its result.

    Raises ``RuntimeError`` where the sizes do not belong together.

    >>> import tracejit as tj
    >>> conv3d_input((1, 1, 1, 1, 2), tj.ones(1, 1, 1, 1, 2), tj.full((1, 1, 1, 1, 1), 3.0))
    tensor([[[[[3., 3.]]]]])
    """
    options = _options("conv3d_input", 3, stride, padding, dilation, groups)
    return _of_input(input_size, weight, grad_output, options)


def conv3d_weight(
    input: Tensor,
    weight_size: Sequence[int],
    grad_output: Tensor,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """The gradient of ``conv3d`` with respect to its weight, of (out, C / groups, kD, kH, kW), from that of its result.

    Raises ``RuntimeError`` where the sizes do not belong together.

    >>> import tracejit as tj
    >>> conv3d_weight(tj.ones(1, 1, 1, 1, 2), (1, 1, 1, 1, 2), tj.full((1, 1, 1, 1, 1), 3.0))
    tensor([[[[[3., 3.]]]]])
    """
    options = _options("conv3d_weight", 3, stride, padding, dilation, groups)
    return _of_weight(input, weight_size, grad_output, options)
