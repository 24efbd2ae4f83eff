"""Losses of how far values are from their targets."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ...dtypes import promote_types
from ...errors import ArgumentValueError, warn
from .. import comparison as c
from .. import elementwise as e
from ..precision import full_precision
from ..table import function
from .common import Tensor, as_type, check_tensor, refuse, require_float, shape_of
from .loss_reductions import check_reduction, flags_seen, reduced, reduction_of
from .value_checks import asked_before


def _sizes_fit(name: str, /, input: Tensor, target: Tensor, *_: Any, **__: Any) -> None:
    """A ``UserWarning`` where broadcasting makes sizes fit that most likely should be the same."""
    if getattr(target, "shape", None) == getattr(input, "shape", None):
        return
    check_tensor(name, input)
    check_tensor(name, target, "target", 2)
    warn(
        f"Using a target size ({target.shape}) that is different to the input size ({input.shape}). "
        "This will likely lead to incorrect results due to broadcasting. Please ensure they have the same size."
    )


def _with_sizes(target: Callable[..., Any]) -> Callable[..., Any]:
    """In full precision, after the sizes were compared."""
    return asked_before(partial(_sizes_fit, target.__name__))(full_precision(target))


def _in_sight(target: Callable[..., Any]) -> Callable[..., Any]:
    """In full precision, after sizes and flags were looked at."""
    return asked_before(partial(_sizes_fit, target.__name__))(flags_seen(target))


def _weighted(
    loss: Tensor, weight: Tensor | None, input: Tensor, reduction: str, by_weight: bool = True
) -> Tensor:
    """The reduced loss; a mean of weighted ones is divided by the sum of the weights, or by their number.

    Raises ``ValueError`` unless every element of the input has a weight.
    """
    if weight is None:
        return reduced(loss, reduction)
    if shape_of(weight) != shape_of(input):
        raise ArgumentValueError("Weights and input must have the same size.")
    check_reduction(reduction)
    if reduction == "mean" and by_weight:
        return reduced(loss * weight, "sum") / reduced(weight, "sum")
    return reduced(loss * weight, reduction)


def _in_one_dtype(name: str, input: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Both in the dtype that tensors of theirs have together: numbers as tensors count like any others here."""
    dtype = promote_types(input.dtype, target.dtype)
    refuse(name, dtype, "bool int complex")
    return as_type(input, dtype), as_type(target, dtype)


@function(method=False, within=_in_sight, steady=True, large=True)
def mse_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """``(input - target)**2``, averaged, summed or as it is; a mean of weighted ones is divided by all the weight.

    Raises ``ValueError`` unless every element of the input has a weight.

    >>> import tracejit as tj
    >>> tj.mse_loss(tj.tensor([1.0, 2.0]), tj.tensor([1.0, 4.0]))
    tensor(2.)
    """
    input, target = _in_one_dtype("mse_loss", input, target)
    loss = e.square(input - target)
    return _weighted(loss, weight, input, reduction_of(size_average, reduce, reduction))


@function(method=False, within=_in_sight, steady=True, large=True)
def l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """``|input - target|``, averaged, summed or as it is; a mean of weighted ones is divided by all the weight.

    Raises ``ValueError`` unless every element of the input has a weight.

    >>> import tracejit as tj
    >>> tj.l1_loss(tj.tensor([1.0, 2.0]), tj.tensor([1.0, 4.0]))
    tensor(1.)
    """
    if input.dtype.is_floating_point and target.dtype.is_floating_point:
        input, target = _in_one_dtype("l1_loss", input, target)
    loss = (input - target).abs()
    return _weighted(loss, weight, input, reduction_of(size_average, reduce, reduction))


@function(method=False, within=_in_sight, steady=True, large=True)
def smooth_l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    beta: float = 1.0,
) -> Tensor:
    """Squared below ``beta``, linear above: ``d**2 / (2 beta)`` or ``d - beta / 2``.

    Raises ``RuntimeError`` for a negative ``beta``.

    >>> import tracejit as tj
    >>> tj.smooth_l1_loss(tj.tensor([0.0, 0.0]), tj.tensor([1.0, 3.0]))
    tensor(1.5000)
    """
    if beta < 0:
        raise RuntimeError("smooth_l1_loss does not support negative values for beta.")
    reduction = reduction_of(size_average, reduce, reduction)
    if beta == 0:
        return reduced((input - target).abs(), reduction)
    input, target = _in_one_dtype("smooth_l1_loss", input, target)
    apart = input - target
    distance = e.abs(apart)
    far = c.ge(distance, beta)
    near = e.square(e.where(far, 0.0, apart)) * (0.5 / beta)  # infinite ones have no part in it
    return reduced(e.where(far, distance - 0.5 * beta, near), reduction)


@function(method=False, within=_with_sizes, steady=True, large=True)
def huber_loss(
    input: Tensor,
    target: Tensor,
    reduction: str = "mean",
    delta: float = 1.0,
    weight: Tensor | None = None,
) -> Tensor:
    """``d**2 / 2`` below ``delta``, ``delta * (d - delta / 2)`` above; weighted or not, the mean is over elements.

    Raises ``RuntimeError`` unless ``delta`` is positive, ``ValueError`` unless every element has a weight.

    >>> import tracejit as tj
    >>> tj.huber_loss(tj.tensor([0.0, 0.0]), tj.tensor([1.0, 3.0]))
    tensor(1.5000)
    """
    if delta <= 0:
        raise RuntimeError("huber_loss does not support non-positive values for delta.")
    require_float("huber_loss", input)
    dtype = input.dtype
    input, target = _in_one_dtype("huber_loss", input, target)
    apart = input - target
    distance = e.abs(apart)
    far = c.ge(distance, delta)
    near = e.square(e.where(far, 0.0, apart)) * 0.5  # infinite ones have no part in it
    loss = e.where(far, (distance - 0.5 * delta) * delta, near)
    return _weighted(as_type(loss, dtype), weight, input, reduction, by_weight=False)
