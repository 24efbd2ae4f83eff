"""Linear layers and normalisation layers as functions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ...dtypes import float32
from ...errors import ArgumentError, ArgumentValueError, DtypeError, ShapeError
from ...modes import MODES
from .. import elementwise as e
from .. import movement as m
from .. import reduction as r
from .. import transcendental as t
from ..leaning import leaned
from ..precision import lower_precision
from ..table import function
from ..underived import refuse_gradients
from .common import Tensor, alone, as_type, promoted, require_float, shape_of, upcast
from .matrices import before_a_sum, matmul, times
from .reductions import count


@function(method=False, steady=True)
def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """``input @ weight.T + bias``: ``input`` (..., in), ``weight`` (out, in) or (in,), ``bias`` (out,).

    Raises ``RuntimeError`` when inner sizes or dtypes differ.

    >>> import tracejit as tj
    >>> tj.linear(tj.tensor([1.0, 2.0]), tj.eye(2), tj.ones(2))
    tensor([2., 3.])
    """
    transposed = m.permute(weight, dims=tuple(range(len(weight.spec.shape)))[::-1])
    if bias is None:
        return matmul(input, transposed)
    return (_biased if MODES.autocast is None else _lowered)(input, transposed, bias)


def _biased(input: Tensor, transposed: Tensor, bias: Tensor) -> Tensor:
    wide = before_a_sum(input, transposed)
    found = e.add(times(input, transposed, wide), bias)
    return found if wide is None else as_type(found, promoted(input, bias))


_lowered = lower_precision(_biased)


@function(method=False, large=True)
def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """``x1^T W_k x2 + b_k`` for every output k.

    Raises ``RuntimeError`` for batches, sizes or dtypes that do not fit.

    >>> import tracejit as tj
    >>> tj.bilinear(tj.ones(1, 2), tj.ones(1, 3), tj.ones(4, 2, 3)).shape
    tracejit.Size([1, 4])
    """
    from .einsum import einsum

    _check_bilinear(input1, input2, weight, bias)
    result = einsum("...i,kij,...j->...k", input1, weight, input2).contiguous()
    if MODES.autocast is not None:  # the products are of its dtype, the sum is not
        result = as_type(result, input1.dtype)
    return result if bias is None else e.add(result, bias)


def _check_bilinear(x: Tensor, y: Tensor, weight: Tensor, bias: Tensor | None) -> None:
    kinds = {z.dtype for z in (x, y, weight, bias) if z is not None}
    if len(kinds) > 1:
        found = ", ".join(sorted(kind.title for kind in kinds))
        raise DtypeError(f"bilinear(): All tensors must have the same dtype, got {found}")
    if x.ndim != y.ndim:
        raise ShapeError(f"bilinear(): input dimensions do not match: got {x.ndim} and {y.ndim}")
    for d, (n, k) in enumerate(zip(shape_of(x)[:-1], shape_of(y)[:-1], strict=True)):
        if n != k:
            raise ShapeError(
                f"bilinear(): input batch dimensions do not match at dim {d}: got {n} and {k}"
            )
    outputs, *sizes = shape_of(weight)
    pairs = [("input1", shape_of(x)[-1:], sizes[:1]), ("input2", shape_of(y)[-1:], sizes[1:])]
    pairs += [] if bias is None else [("bias", shape_of(bias), [outputs])]
    for name, own, wanted in pairs:
        if list(own) != wanted:
            raise ShapeError(
                f"bilinear(): {name} size does not match weight size: got {math.prod(own)} but expected "
                f"{math.prod(wanted)}"
            )


def _standardized(x: Tensor, dims: tuple[int, ...], eps: float) -> Tensor:
    """Zero mean and unit variance over ``dims``, in two passes."""
    n = count(x, dims)
    centred = e.sub(x, e.div(r.sum(x, dims=dims, keepdim=True), n))
    variance = e.div(r.sum(e.square(centred), dims=dims, keepdim=True), n)
    return e.mul(centred, t.rsqrt(e.add(variance, eps)))


def _check_dtypes(input: Tensor, *parameters: Tensor | None) -> None:
    """``RuntimeError`` for parameters of another dtype, unless they are all float32 beside half precision."""
    kinds = {x.dtype for x in parameters if x is not None}
    if kinds <= {input.dtype} or (input.dtype.is_half and kinds == {float32}):
        return
    expected = float32 if input.dtype.is_half else input.dtype
    raise DtypeError(
        f"mixed dtype: expect parameter to have scalar type of {expected.title}, got "
        f"{', '.join(sorted(kind.title for kind in kinds))} beside an input of {input.dtype.title}"
    )


def _scaled(x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    x = x if weight is None else e.mul(x, upcast(weight))
    return x if bias is None else e.add(x, upcast(bias))


def _last_dims(
    name: str, input: Tensor, normalized_shape: Any, **parameters: Tensor | None
) -> tuple[int, ...]:
    if isinstance(normalized_shape, int):
        where = f"{name}(): argument 'normalized_shape' (position 2)"
        raise ArgumentError(f"{where} must be tuple of ints, not int")
    shape = tuple(normalized_shape)
    own = shape_of(input)
    if not shape:
        raise ShapeError(
            "Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one "
            f"element, but got normalized_shape = [] ({name})"
        )
    for role, parameter in parameters.items():
        if parameter is not None and shape_of(parameter) != shape:
            raise ShapeError(
                f"Expected {role} to be of same shape as normalized_shape, but got {role} of shape "
                f"{list(shape_of(parameter))} and normalized_shape = {list(shape)}"
            )
    if own[len(own) - len(shape) :] != shape:
        raise ShapeError(
            f"Given normalized_shape={list(shape)}, expected input with shape "
            f"[*, {', '.join(map(str, shape))}], but got input of size{list(own)} ({name})"
        )
    return tuple(range(len(own) - len(shape), len(own)))


@function(method=False, steady=True, large=True)
def layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-05,
) -> Tensor:
    """``(x - mean) / sqrt(var + eps) * weight + bias`` over the last dimensions.

    Raises ``RuntimeError`` when those are not ``normalized_shape``, and for parameters of another dtype, unless they
    are float32 beside half precision. That goes for the other normalisations too.

    >>> import tracejit as tj
    >>> tj.layer_norm(tj.tensor([1.0, 3.0]), (2,))
    tensor([-1.0000,  1.0000])
    """
    require_float("layer_norm", input)
    dims = _last_dims("layer_norm", input, normalized_shape, weight=weight, bias=bias)
    _check_dtypes(input, weight, bias)
    result = _scaled(_standardized(upcast(input), dims, eps), weight, bias)
    return as_type(result, input.dtype)


@function(method=False, steady=True, large=True)
def rms_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    eps: float | None = None,
) -> Tensor:
    """``x / sqrt(mean(x**2) + eps) * weight`` over the last dimensions.

    Raises ``RuntimeError`` when those are not ``normalized_shape``.

    >>> import tracejit as tj
    >>> tj.rms_norm(tj.tensor([3.0, 4.0]), (2,))
    tensor([0.8485, 1.1314])
    """
    if not input.dtype.is_complex:
        require_float("rms_norm", input)
    dims = _last_dims("rms_norm", input, normalized_shape, weight=weight)
    x = upcast(input)
    eps = _epsilon(x.dtype.name) if eps is None else eps
    mean = e.div(r.sum(e.square(x), dims=dims, keepdim=True), count(x, dims))
    return as_type(_scaled(e.mul(x, t.rsqrt(e.add(mean, eps))), weight, None), input.dtype)


def _epsilon(name: str) -> float:
    return 2.220446049250313e-16 if name in ("float64", "complex128") else 1.1920928955078125e-07


@function(method=False, steady=True, large=True)
def group_norm(
    input: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-05,
) -> Tensor:
    """Standardise each sample's groups of channels (dimension 1), then scale and shift per channel.

    Raises ``RuntimeError`` when the channels do not divide into groups.

    >>> import tracejit as tj
    >>> tj.group_norm(tj.tensor([[1.0, 3.0, 5.0, 9.0]]), 2)
    tensor([[-1.0000,  1.0000, -1.0000,  1.0000]])
    """
    shape = shape_of(input)
    if len(shape) < 2:
        raise RuntimeError(
            f"Expected at least 2 dimensions for input tensor but received {len(shape)}"
        )
    if shape[1] % num_groups:
        raise RuntimeError(
            "Expected number of channels in input to be divisible by num_groups, but got input of "
            f"shape {list(shape)} and num_groups={num_groups}"
        )
    for role, parameter in (("weight", weight), ("bias", bias)):
        if parameter is not None and shape_of(parameter) != shape[1:2]:
            raise ShapeError(
                f"Expected {role} to be a vector of size equal to the number of channels in input, but "
                f"got {role} of shape {list(shape_of(parameter))} and input of shape {list(shape)}"
            )
    require_float("GroupNormKernelImpl", input)
    _check_dtypes(input, weight, bias)
    # One shape for statistics, scales and shifts, so that they are found in one pass over each group.
    channels = shape[1] // num_groups
    places = input.spec.numel // max(shape[0] * shape[1], 1)
    x = m.reshape(upcast(input), shape=(shape[0], num_groups, channels, places))
    parts = (
        None if p is None else m.reshape(p, shape=(1, num_groups, channels, 1))
        for p in (weight, bias)
    )
    x = _scaled(_standardized(x, (2, 3), eps), *parts)
    return as_type(alone(m.reshape(x, shape=shape)), input.dtype)


def _check_channels(channels: int, **parameters: Tensor | None) -> None:
    for role, parameter in parameters.items():
        if parameter is not None and parameter.spec.numel != channels:
            raise ShapeError(
                f"{role} should contain {channels} elements not {parameter.spec.numel}"
            )


def _per_channel(x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    shape = (1, -1) + (1,) * (x.ndim - 2)
    parts = [None if p is None else p.reshape(shape) for p in (weight, bias)]
    return _scaled(x, *parts)


@function(method=False, steady=True, large=True)
def batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-05,
) -> Tensor:
    """Standardise each channel (dimension 1) over the others, by batch or running statistics.

    In training the running statistics are updated in place. Raises ``ValueError`` for one value per channel, and for
    an ``eps`` below zero (in training: not above zero); ``RuntimeError`` without statistics where it does not train.

    >>> import tracejit as tj
    >>> tj.batch_norm(tj.tensor([[1.0], [3.0]]), None, None, training=True)
    tensor([[-1.0000],
            [ 1.0000]])
    """
    if training and eps <= 0.0:
        raise ArgumentValueError(f"batch_norm eps must be positive during training, but got {eps}")
    if eps < 0.0:
        raise ArgumentValueError(f"batch_norm eps must be non-negative, but got {eps}")
    return normalized_by_batch(
        input, running_mean, running_var, weight, bias, training, momentum, eps
    )


def normalized_by_batch(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None,
    bias: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
) -> Tensor:
    """:func:`batch_norm` with any ``eps``.

    >>> import tracejit as tj
    >>> normalized_by_batch(tj.tensor([[1.0], [3.0]]), None, None, None, None, True, 0.1, 0.0).flatten()
    tensor([-1.,  1.])
    """
    if (running_mean is None) != (running_var is None):
        given = "running_mean and running_var must either both be None or neither be None"
        raise ArgumentValueError(given) if training else RuntimeError(given)
    if input.ndim > 1:
        _check_channels(
            shape_of(input)[1],
            running_mean=running_mean,
            running_var=running_var,
            weight=weight,
            bias=bias,
        )
    require_float("batch_norm", input)
    refuse_gradients("native_batch_norm", running_mean=running_mean, running_var=running_var)
    _check_dtypes(input, weight, bias, running_mean, running_var)
    x = upcast(input)
    if training or running_mean is None or running_var is None:
        if not input.spec.numel:
            return as_type(_per_channel(x, weight, bias), input.dtype)
        if not training:
            raise RuntimeError(
                "Expected running_mean and running_var to be defined when training=False"
            )
        x, mean, variance = _batch_statistics(x, eps)
        if running_mean is not None and running_var is not None:
            n = input.spec.numel // shape_of(input)[1]
            _update(running_mean, mean, momentum)
            _update(running_var, variance * (n / (n - 1)), momentum)
    else:
        shape = (1, -1) + (1,) * (x.ndim - 2) if x.ndim > 1 else (-1,)
        deviation = t.rsqrt(running_var.reshape(shape) + eps)
        x = leaned(x - running_mean.reshape(shape)) * deviation
    return as_type(_per_channel(x, weight, bias), input.dtype)


def _batch_statistics(x: Tensor, eps: float) -> tuple[Tensor, Tensor, Tensor]:
    dims = (0, *range(2, x.ndim))
    n = count(x, dims)
    if n == 1:
        raise ValueError(
            "Expected more than 1 value per channel when training, got input size "
            f"{list(shape_of(x))}"
        )
    mean = e.div(r.sum(x, dims=dims, keepdim=True), n)
    centred = e.sub(x, mean)
    variance = e.div(r.sum(e.square(centred), dims=dims, keepdim=True), n)
    return e.mul(centred, t.rsqrt(e.add(variance, eps))), mean, variance


def _update(running: Tensor, value: Tensor, momentum: float) -> None:
    fresh = e.detach_copy(m.reshape(value, shape=shape_of(running)))
    running._assign(as_type(running * (1 - momentum) + fresh * momentum, running.dtype))


@function(method=False, large=True)
def instance_norm(
    input: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-05,
) -> Tensor:
    """Standardise each channel of each sample; running statistics, where given, are updated in place.

    Raises ``ValueError`` for one element per channel.

    >>> import tracejit as tj
    >>> tj.instance_norm(tj.tensor([[[1.0, 3.0]]]))
    tensor([[[-1.0000,  1.0000]]])
    """
    if not use_input_stats:
        if running_mean is None or running_var is None:
            raise RuntimeError(
                "Expected running_mean and running_var to be defined when use_input_stats is false"
            )
        return batch_norm(input, running_mean, running_var, weight, bias, False, momentum, eps)
    dims = tuple(range(2, input.ndim))
    n = count(input, dims)
    if n == 1:
        raise ArgumentValueError(
            "Expected more than 1 spatial element when training, got input size "
            f"{list(shape_of(input))}"
        )
    _check_channels(shape_of(input)[1], weight=weight, bias=bias, running_mean=running_mean)
    require_float("batch_norm", input)
    _check_dtypes(input, weight, bias, running_mean, running_var)
    wide = upcast(input)
    if running_mean is not None and running_var is not None:
        mean = e.div(r.sum(wide, dims=dims, keepdim=True), n)
        variance = e.div(r.sum(e.square(e.sub(wide, mean)), dims=dims, keepdim=True), n - 1)
        samples = shape_of(input)[0]
        for running, found in ((running_mean, mean), (running_var, variance)):
            _update(running, e.div(r.sum(found, dims=(0,), keepdim=True), samples), momentum)
    x = _standardized(wide, dims, eps)
    return as_type(_per_channel(x, weight, bias), input.dtype)
