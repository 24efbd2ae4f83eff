"""Rounding to few levels while numbers stay floats: what training for quantized models does."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import dtypes
from ...errors import ArgumentValueError
from .. import comparison as c
from .. import elementwise as e
from .. import movement as m
from ..table import function
from .common import Number, Tensor, as_type, check_tensor, dim_of, is_tensor, shape_of


@function(method=False)
def fake_quantize_per_tensor_affine(
    input: Tensor, scale: Number | Tensor, zero_point: Any, quant_min: int, quant_max: int
) -> Tensor:
    """``input`` on the levels ``(q - zero_point) * scale`` for whole q from ``quant_min`` to ``quant_max``.

    ``scale`` and ``zero_point`` are numbers or tensors of one element. Gradients go through where no level was
    clamped. Raises ``RuntimeError`` for other dtypes than floats and for an empty range.

    >>> import tracejit as tj
    >>> tj.fake_quantize_per_tensor_affine(tj.tensor([0.26, -0.1, 9.0]), 0.1, 0, 0, 31)
    tensor([0.3000, 0.0000, 3.1000])
    """
    check_tensor("fake_quantize_per_tensor_affine", input)
    if is_tensor(scale):
        scale, zero_point = (m.reshape(x, shape=()) for x in (scale, zero_point))
    else:
        zero_point = int(zero_point)
        if not quant_min <= zero_point <= quant_max:
            raise RuntimeError("`zero_point` must be between `quant_min` and `quant_max`.")
    return _on_levels(input, scale, zero_point, quant_min, quant_max)


@function(method=False)
def fake_quantize_per_channel_affine(
    input: Tensor, scale: Tensor, zero_point: Tensor, axis: int, quant_min: int, quant_max: int
) -> Tensor:
    """As :func:`fake_quantize_per_tensor_affine`, with a ``scale`` and ``zero_point`` for each slice along ``axis``.

    Raises ``RuntimeError`` unless both are one-dimensional and as long as ``input`` is along ``axis``.

    >>> import tracejit as tj
    >>> x = tj.tensor([[0.26, 0.26], [9.0, 9.0]])
    >>> levels = tj.tensor([0.1, 1.0]), tj.tensor([0, 0], dtype=tj.int32)
    >>> tj.fake_quantize_per_channel_affine(x, *levels, axis=1, quant_min=0, quant_max=31)
    tensor([[0.3000, 0.0000],
            [3.1000, 9.0000]])
    """
    check_tensor("fake_quantize_per_channel_affine", input)
    d = dim_of(axis, input)
    extent = shape_of(input)[d]
    for name, x in (("scale", scale), ("zero_point", zero_point)):
        if x.ndim != 1 or shape_of(x)[0] != extent:
            raise RuntimeError(f"{name} should be a 1-D tensor of {extent} elements")
    shape = tuple(extent if i == d else 1 for i in range(input.ndim))
    scale, zero_point = (m.reshape(x, shape=shape) for x in (scale, zero_point))
    return _on_levels(input, scale, zero_point, quant_min, quant_max)


def _on_levels(x: Tensor, scale: Any, zero: Any, low: int, high: int) -> Tensor:
    """The nearest levels; the gradient is that of ``x`` where they lie in the range."""
    if not x.dtype.is_floating_point:
        raise RuntimeError(f"expected scalar type Float but found {x.dtype.title}")
    if low > high:
        raise ArgumentValueError("`quant_min` should be less than or equal to `quant_max`.")
    if is_tensor(zero):
        zero = as_type(e.detach_copy(zero), dtypes.float32)
    if is_tensor(scale):
        scale = as_type(e.detach_copy(scale), dtypes.float32)
        steps = e.mul(e.detach_copy(x), e.div(1.0, scale))
    else:
        scale = float(scale)
        steps = e.mul(e.detach_copy(x), float(np.float32(1.0) / np.float32(scale)))
    level = e.add(e.round_half_even(steps), zero)
    inside = c.logical_and(c.ge(level, low), c.le(level, high))
    clamped = e.minimum(e.maximum(level, float(low)), float(high))
    found = as_type(e.mul(e.sub(clamped, zero), scale), x.dtype)
    return e.add(found, e.where(inside, e.sub(x, e.detach_copy(x)), 0.0))
