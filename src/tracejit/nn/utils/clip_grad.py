"""Gradient clipping by total norm or by value, in place."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from ... import dtypes
from ...autograd.grad_mode import no_grad
from ...autograd.slots import gradient_of
from ...cuda.arrays import is_on_device
from ...modes import MODES
from ...ops.elementwise import cast
from ...ops.functions.complex_numbers import view_as_real
from ...ops.reduction import sum as sum_of
from ...ops.source import full
from ...tensor import Tensor
from ...varying import as_number

#: Arrays of more elements are left to ops, which share them among threads.
LARGE = 1 << 17


def _gradients(parameters: Tensor | Iterable[Tensor]) -> list[Tensor]:
    tensors = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    return [g for g in map(gradient_of, tensors) if g is not None]


def get_total_norm(
    tensors: Tensor | Iterable[Tensor],
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Any:
    """The norm of all elements of all tensors: (Σ|x|^p)^(1/p), or max|x| for ``inf``; a 0-d tensor.

    Raises ``RuntimeError`` for a norm that is nan or infinite when ``error_if_nonfinite``.

    >>> import tracejit as tj
    >>> tj.nn.utils.get_total_norm([tj.tensor([3.0]), tj.tensor([4.0])])
    tensor(5.)
    """
    power = float(norm_type)
    tensors = [tensors] if isinstance(tensors, Tensor) else list(tensors)
    with no_grad():
        plain = power == 2.0 and are_plain(tensors)
        total = _norm_of_arrays(tensors) if plain else _norm(tensors, power)
    if error_if_nonfinite and not bool(total.isfinite()):
        raise RuntimeError(
            f"The total norm of order {power} for gradients from `parameters` is non-finite, so it cannot be "
            "clipped. To disable this error and scale the gradients by the non-finite norm anyway, set "
            "`error_if_nonfinite=False`"
        )
    return total


def are_plain(tensors: list[Tensor]) -> bool:
    """Are these arrays of one precision on the host, that nobody watches and that no tape belongs to?

    >>> import tracejit as tj
    >>> are_plain([tj.zeros(2), tj.zeros(3)]), are_plain([tj.zeros(2), tj.zeros(3).double()])
    (True, False)
    """
    if not tensors or MODES.recorder is not None or MODES.builder is not None or MODES.listening:
        return False
    dtype = tensors[0].dtype
    return dtype in (dtypes.float32, dtypes.float64) and all(
        type(x) is Tensor
        and x.dtype is dtype
        and not x._requires_grad
        and not is_on_device(x.array)
        and x.array.flags.c_contiguous
        and x.array.flags.writeable
        for x in tensors
    )


def _norm_of_arrays(tensors: list[Tensor]) -> Tensor:
    """The square root of the sum of squares, of plain arrays: what ops compute, to the bit, without an op for each."""
    total: Any = None
    with np.errstate(all="ignore"):
        for tensor in tensors:
            part = _squares(tensor)
            total = part if total is None else total + part
        return Tensor._wrap(np.asarray(np.sqrt(total)))


def _squares(tensor: Tensor) -> Any:
    """The sum of squares of a plain array."""
    array = tensor.array
    if array.size >= LARGE:
        return _part(tensor, 2.0).array[()]
    dims = tuple(range(array.ndim))
    return sum_of.body(np.multiply(array, array), dims=dims, keepdim=False)


def _norm(tensors: list[Tensor], power: float) -> Any:
    total: Any = None
    for tensor in tensors:
        part = _part(tensor, power)
        if total is None:
            total = part
        elif math.isinf(power):
            total = total.maximum(part) if power > 0 else total.minimum(part)
        else:
            total = total + part
    if total is None:
        return _zero()
    if not math.isinf(power) and power != 0:
        total = total.sqrt() if power == 2.0 else total ** (1.0 / power)
    return total


def _zero() -> Tensor:
    zero: Tensor = full(shape=(), value=0.0, dtype=dtypes.float32)
    return zero


def _part(tensor: Tensor, power: float) -> Any:
    """What one tensor adds before the root is taken."""
    if tensor.dtype.itemsize == 2:
        tensor = tensor.float()
    if power == 2.0:
        if tensor.dtype.is_complex:
            tensor = view_as_real(tensor)
        return (tensor * tensor).sum()
    size = tensor.abs()
    if math.isinf(power):
        return size.amax() if power > 0 else size.amin()
    if power == 0:  # of the norms of tensors those count that are not zero
        return cast(size.any(), dtype=size.dtype)
    return (size**power).sum()


def clip_grad_norm_(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Scale all gradients by max_norm / (norm + 1e-6) if that is below one; returns the norm before.

    >>> import tracejit as tj
    >>> w = tj.zeros(2, requires_grad=True)
    >>> w.grad = tj.tensor([3.0, 4.0])
    >>> tj.nn.utils.clip_grad_norm_([w], 1.0), w.grad
    (tensor(5.), tensor([0.6000, 0.8000]))
    """
    grads = _gradients(parameters)
    total: Tensor = get_total_norm(grads, norm_type, error_if_nonfinite)
    _scale(grads, max_norm, total)
    return total


def _scale(grads: list[Tensor], max_norm: float, total: Any) -> None:
    with no_grad():
        scale = (as_number(max_norm) / (total + 1e-6)).clamp(max=1.0)
        if scale.ndim == 0 and are_plain([scale, *grads]):
            _scale_arrays(grads, scale)
            return
        for grad in grads:
            grad.mul_(cast(scale, dtype=grad.dtype))


def _scale_arrays(grads: list[Tensor], scale: Tensor) -> None:
    """Multiply plain arrays in place, without an op for each."""
    factor = scale.array[()]
    with np.errstate(all="ignore"):
        for grad in grads:
            np.multiply(grad.array, factor, out=grad.array)
            grad._writes.value += 1


def clip_grads_with_norm_(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    total_norm: Any,
    foreach: bool | None = None,
) -> None:
    """Scale all gradients by max_norm / (total_norm + 1e-6) if that is below one: for a norm known already.

    >>> import tracejit as tj
    >>> w = tj.zeros(2, requires_grad=True)
    >>> w.grad = tj.tensor([3.0, 4.0])
    >>> tj.nn.utils.clip_grads_with_norm_([w], 1.0, tj.tensor(5.0))
    >>> w.grad
    tensor([0.6000, 0.8000])
    """
    _scale(_gradients(parameters), max_norm, total_norm)


def clip_grad_value_(
    parameters: Tensor | Iterable[Tensor], clip_value: float, foreach: bool | None = None
) -> None:
    """Clamp every gradient to [-clip_value, clip_value].

    >>> import tracejit as tj
    >>> w = tj.zeros(2, requires_grad=True)
    >>> w.grad = tj.tensor([3.0, -0.5])
    >>> tj.nn.utils.clip_grad_value_([w], 1.0)
    >>> w.grad
    tensor([ 1.0000, -0.5000])
    """
    bound = as_number(clip_value)
    for grad in _gradients(parameters):
        with no_grad():
            grad.clamp_(-bound, bound)
