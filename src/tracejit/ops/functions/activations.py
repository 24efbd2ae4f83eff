"""Activations and softmax, with PyTorch's formulas and defaults."""

from __future__ import annotations

import math

from ...errors import ArgumentValueError, DtypeError
from .. import comparison as c
from .. import elementwise as e
from .. import limits
from .. import transcendental as t
from ..complex_numbers import magnitude
from ..precision import lower_precision
from ..table import alias, function
from .common import (
    Number,
    Tensor,
    as_type,
    check_tensor,
    dim_of,
    refuse_bool,
    refuse_overflow,
    require_float,
    shape_of,
    upcast,
)


@function()
def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """``max(input, 0)``; NaN stays; the gradient at zero is zero.

    >>> import tracejit as tj
    >>> tj.relu(tj.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """
    return _finish(input, e.relu(input), inplace)


@function(method=False, steady=True, large=True)
def gelu(input: Tensor, approximate: str = "none") -> Tensor:
    """``x * Phi(x)`` with the normal distribution function, or its tanh approximation.

    Raises ``RuntimeError`` unless ``approximate`` is "none" or "tanh".

    >>> import tracejit as tj
    >>> tj.gelu(tj.tensor([-1.0, 0.0, 1.0]))
    tensor([-0.1587,  0.0000,  0.8413])
    """
    require_float("gelu", input)
    x = upcast(input)
    if approximate == "none":
        result = x * 0.5 * (1.0 + t.erf(x * math.sqrt(0.5)))
    elif approximate == "tanh":
        result = 0.5 * x * (1.0 + t.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * (x * x * x))))
    else:
        raise RuntimeError("approximate argument must be either none or tanh.")
    return as_type(result, input.dtype)


@function(method=False, steady=True, large=True)
def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """``x * sigmoid(x)``.

    >>> import tracejit as tj
    >>> tj.silu(tj.tensor([0.0, 1.0]))
    tensor([0.0000, 0.7311])
    """
    check_tensor("silu", input)
    if not input.dtype.is_complex:
        require_float("silu", input)
    x = upcast(input)
    return _finish(input, as_type(x * t.sigmoid(x), input.dtype), inplace)


def _finish(input: Tensor, result: Tensor, inplace: bool) -> Tensor:
    return input._assign(result) if inplace else result


@function(method=False, steady=True, large=True)
def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """``x`` above zero, ``negative_slope * x`` below.

    >>> import tracejit as tj
    >>> tj.leaky_relu(tj.tensor([-1.0, 2.0]), 0.1)
    tensor([-0.1000,  2.0000])
    """
    check_tensor("leaky_relu", input)
    require_float("leaky_relu", input)
    return _finish(input, e.leaky(input, negative_slope), inplace)


@function(within=lower_precision)
def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """``x`` above zero, ``weight * x`` below; one weight, or one per channel (dimension 1).

    Raises ``RuntimeError`` when the number of weights fits neither.

    >>> import tracejit as tj
    >>> tj.prelu(tj.tensor([-1.0, 2.0]), tj.tensor([0.5]))
    tensor([-0.5000,  2.0000])
    """
    require_float("prelu", input)
    if weight.dtype is not input.dtype:
        raise DtypeError(
            f"prelu: Type promoting not supported. Got {input.dtype.title} and {weight.dtype.title}"
        )
    count = weight.spec.numel
    if weight.ndim > 1:
        raise RuntimeError(
            f"prelu: Expected `weight` to be a scalar or 1D tensor, but got: ndim = {weight.ndim}"
        )
    if count != 1:
        channels = shape_of(input)[1] if input.ndim > 1 else 1
        if count != channels:
            raise RuntimeError(
                "Mismatch of parameter numbers and input channel size. Found parameter numbers = "
                f"{count} and channel size = {channels}."
            )
        weight = weight.reshape((1, count) + (1,) * (input.ndim - 2))
    elif not input.ndim:
        weight = weight.reshape(())
    return e.leaky(input, weight)


@function(method=False, steady=True, large=True)
def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """``x`` above zero, ``alpha * (exp(x) - 1)`` below.

    >>> import tracejit as tj
    >>> tj.elu(tj.tensor([-1.0, 2.0]))
    tensor([-0.6321,  2.0000])
    """
    require_float("elu", input)
    x = upcast(input)
    above = c.ge(x, 0)  # zero has the slope of what is below, but no curvature; NaN is below
    found = e.where(above, e.leaky(x, alpha), alpha * t.exponential_rise(e.where(above, 0.0, x)))
    return _finish(input, as_type(found, input.dtype), inplace)


@function(large=True)
def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """The self-normalising elu: ``scale * elu(x, alpha)`` with fixed constants.

    >>> import tracejit as tj
    >>> tj.selu(tj.tensor([-1.0, 2.0]))
    tensor([-1.1113,  2.1014])
    """
    require_float("selu", input)
    scale, alpha = 1.0507009873554804934193349852946, 1.6732632423543772848170429916717
    return _finish(input, as_type(scale * elu(upcast(input), alpha), input.dtype), inplace)


@function(large=True)
def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """``x`` above zero, ``alpha * (exp(x / alpha) - 1)`` below.

    Raises ``RuntimeError`` when ``alpha`` is zero.

    >>> import tracejit as tj
    >>> tj.celu(tj.tensor([-1.0, 2.0]), 2.0)
    tensor([-0.7869,  2.0000])
    """
    require_float("celu", input)
    if alpha == 0:
        raise RuntimeError("ZeroDivisionError: alpha cannot be 0 for CELU")
    x = upcast(input)
    above = c.ge(x, 0)
    found = e.where(above, x, alpha * t.exponential_rise(e.where(above, 0.0, x) / alpha))
    return _finish(input, as_type(found, input.dtype), inplace)


@function(method=False, steady=True, large=True)
def softplus(input: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """``log(1 + exp(beta * x)) / beta``, and ``x`` itself where ``beta * x`` exceeds the threshold.

    >>> import tracejit as tj
    >>> tj.softplus(tj.tensor([0.0, 100.0]))
    tensor([  0.6931, 100.0000])
    """
    require_float("softplus", input)
    x = upcast(input)
    scaled = x * beta
    linear = c.gt(scaled, threshold)
    found = e.where(linear, x, t.log1p(t.exp(e.where(linear, 0.0, scaled))) / beta)
    return as_type(found, input.dtype)


@function(method=False, steady=True, large=True)
def softsign(input: Tensor) -> Tensor:
    """``x / (1 + |x|)``.

    >>> import tracejit as tj
    >>> tj.softsign(tj.tensor([-1.0, 3.0]))
    tensor([-0.5000,  0.7500])
    """
    size = magnitude(input) if input.dtype.is_complex else e.abs(input)
    return input / (size + 1)


@function(method=False, steady=True, large=True)
def logsigmoid(input: Tensor) -> Tensor:
    """``log(sigmoid(x))`` without underflow.

    >>> import tracejit as tj
    >>> tj.logsigmoid(tj.tensor([0.0, -100.0]))
    tensor([  -0.6931, -100.0000])
    """
    require_float("logsigmoid", input)
    below = c.lt(input, 0)  # zero is on one side: both orders of derivatives are right there
    return e.where(below, input, 0.0) - t.log1p(t.exp(e.where(below, input, e.neg(input))))


@function(method=False, large=True)
def hardtanh(
    input: Tensor, min_val: Number = -1.0, max_val: Number = 1.0, inplace: bool = False
) -> Tensor:
    """``x`` limited to [min_val, max_val]; no gradient at the bounds.

    Raises ``ValueError`` where the bounds cross.

    >>> import tracejit as tj
    >>> tj.hardtanh(tj.tensor([-2.0, 0.5]))
    tensor([-1.0000,  0.5000])
    """
    if min_val > max_val:
        raise ArgumentValueError("min_val cannot be greater than max_val")
    refuse_bool("hardtanh", input.dtype)
    if input.dtype.category == "int":
        min_val, max_val = int(min_val), int(max_val)
        if min_val < 0 and not input.dtype.is_signed:
            raise RuntimeError("cannot do hardtanh on an unsigned type with negative limits")
    refuse_overflow(input.dtype, min_val, max_val)
    return _finish(input, limits.clamp_inside(input, min_val, max_val), inplace)


@function(method=False, large=True)
def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """``x`` limited to [0, 6].

    >>> import tracejit as tj
    >>> tj.relu6(tj.tensor([-1.0, 3.0, 8.0]))
    tensor([0., 3., 6.])
    """
    return hardtanh(input, 0.0, 6.0, inplace)


@function(method=False, steady=True, large=True)
def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """``x / 6 + 1/2`` limited to [0, 1].

    >>> import tracejit as tj
    >>> tj.hardsigmoid(tj.tensor([-4.0, 0.0, 4.0]))
    tensor([0.0000, 0.5000, 1.0000])
    """
    require_float("hardsigmoid", input)
    return _finish(input, as_type(relu6(upcast(input) + 3.0) / 6.0, input.dtype), inplace)


@function(method=False, steady=True, large=True)
def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """``x * hardsigmoid(x)``.

    >>> import tracejit as tj
    >>> tj.hardswish(tj.tensor([-4.0, 1.0, 4.0]))
    tensor([-0.0000, 0.6667, 4.0000])
    """
    require_float("hardswish", input)
    x = upcast(input)
    return _finish(input, as_type(x * relu6(x + 3.0) / 6.0, input.dtype), inplace)


@function(method=False, steady=True, large=True)
def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """``x * tanh(softplus(x))``.

    >>> import tracejit as tj
    >>> tj.mish(tj.tensor([0.0, 1.0]))
    tensor([0.0000, 0.8651])
    """
    require_float("mish", input)
    return _finish(input, input * t.tanh(softplus(input)), inplace)


@function(method=False, large=True)
def tanhshrink(input: Tensor) -> Tensor:
    """``x - tanh(x)``.

    >>> import tracejit as tj
    >>> tj.tanhshrink(tj.tensor([0.0, 1.0]))
    tensor([0.0000, 0.2384])
    """
    return input - t.tanh(input)


@function(large=True)
def hardshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """``x``, with zero between ``-lambd`` and ``lambd``.

    >>> import tracejit as tj
    >>> tj.hardshrink(tj.tensor([-1.0, 0.3]))
    tensor([-1.,  0.])
    """
    require_float("hardshrink", input)
    stays = c.logical_not(c.le(e.abs(input), lambd))  # NaN does
    return e.chosen(stays, input, 0.0)


@function(method=False, large=True)
def softshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """``x`` moved towards zero by ``lambd``, and zero when closer.

    Raises ``RuntimeError`` for a negative ``lambd``.

    >>> import tracejit as tj
    >>> tj.softshrink(tj.tensor([-1.0, 0.3, 2.0]))
    tensor([-0.5000,  0.0000,  1.5000])
    """
    require_float("softshrink", input)
    if lambd < 0:
        raise RuntimeError(f"lambda must be greater or equal to 0, but found to be {lambd}.")
    close = c.logical_and(c.ge(input, -lambd), c.le(input, lambd))  # NaN is not: it stays
    moved = e.where(c.gt(input, lambd), input - lambd, input + lambd)
    return e.chosen(c.logical_not(close), moved, 0.0)


@function(method=False, large=True)
def threshold(input: Tensor, threshold: Number, value: Number, inplace: bool = False) -> Tensor:
    """``x`` above ``threshold``, or NaN, else ``value``.

    >>> import tracejit as tj
    >>> tj.threshold(tj.tensor([0.5, 2.0]), 1.0, -1.0)
    tensor([-1.,  2.])
    """
    refuse_bool("threshold_cpu", input.dtype)
    if input.dtype.category == "int":
        refuse_overflow(input.dtype, threshold, value)
        threshold, value = int(threshold), int(value)
    return _finish(input, e.chosen(c.logical_not(c.le(input, threshold)), input, value), inplace)


@function(method=False, steady=True, large=True)
def glu(input: Tensor, dim: int = -1) -> Tensor:
    """The first half along ``dim`` times the sigmoid of the second.

    Raises ``RuntimeError`` when ``dim`` has an odd extent.

    >>> import tracejit as tj
    >>> tj.glu(tj.tensor([2.0, 0.0]))
    tensor([1.])
    """
    require_float("glu", input)
    d = dim_of(dim, input)
    extent = shape_of(input)[d] if input.ndim else 1
    if extent % 2:
        raise RuntimeError(f"Halving dimension must be even, but dimension {d} is size {extent}")
    first, gate = input.chunk(2, d)
    return first * t.sigmoid(gate)


@function(method=False, steady=True, large=True)
def normalize(input: Tensor, p: Number = 2.0, dim: int = 1, eps: float = 1e-12) -> Tensor:
    """``input`` divided by its ``p`` norm along ``dim`` (at least ``eps``).

    >>> import tracejit as tj
    >>> tj.normalize(tj.tensor([[3.0, 4.0]]))
    tensor([[0.6000, 0.8000]])
    """
    from .norms import vector_norm

    return input / limits.clamp_min(vector_norm(input, p, dim, True), eps)


alias("log_sigmoid", logsigmoid, method=False)
alias("swish", silu, method=False)
