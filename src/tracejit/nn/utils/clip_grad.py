"""Gradient clipping by total norm or by value, in place."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from ... import dtypes
from ...autograd.grad_mode import no_grad
from ...autograd.slots import gradient_of
from ...ops.elementwise import cast
from ...ops.source import full
from ...tensor import Tensor
from ...varying import as_number


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
    with no_grad():
        total = _norm([tensors] if isinstance(tensors, Tensor) else list(tensors), power)
    if error_if_nonfinite and not bool(total.isfinite()):
        raise RuntimeError(
            f"The total norm of order {power} for gradients from `parameters` is non-finite, so it cannot be "
            "clipped. To disable this error and scale the gradients by the non-finite norm anyway, set "
            "`error_if_nonfinite=False`"
        )
    return total


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
        return (tensor * tensor).sum()
    size = tensor.abs()
    if math.isinf(power):
        return size.amax() if power > 0 else size.amin()
    return (size**power).sum() if power != 0 else (tensor != 0).sum()


def clip_grad_norm_(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Any:
    """Scale all gradients by max_norm / (norm + 1e-6) if that is below one; returns the norm before.

    >>> import tracejit as tj
    >>> w = tj.zeros(2, requires_grad=True)
    >>> w.grad = tj.tensor([3.0, 4.0])
    >>> tj.nn.utils.clip_grad_norm_([w], 1.0), w.grad
    (tensor(5.), tensor([0.6000, 0.8000]))
    """
    grads = _gradients(parameters)
    total = get_total_norm(grads, norm_type, error_if_nonfinite)
    _scale(grads, max_norm, total)
    return total


def _scale(grads: Iterable[Tensor], max_norm: float, total: Any) -> None:
    with no_grad():
        scale = (as_number(max_norm) / (total + 1e-6)).clamp(max=1.0)
        for grad in grads:
            grad.mul_(cast(scale, dtype=grad.dtype))


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
