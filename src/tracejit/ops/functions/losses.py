"""Losses, with PyTorch's formulas, reductions and defaults."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ...dtypes import promote_types
from ...errors import ArgumentValueError, DtypeError, ShapeError, warn
from .. import comparison as c
from .. import elementwise as e
from .. import entropies, limits, shapes
from .. import movement as m
from .. import reduction as r
from .. import transcendental as t
from ..precision import full_precision
from ..table import function
from ..underived import refuse_gradients
from .activations import logsigmoid
from .common import (
    Number,
    Tensor,
    as_type,
    dim_of,
    is_tensor,
    refuse,
    require_float,
    shape_of,
)
from .loss_reductions import check_reduction, flags_seen, old_reduction, reduced, reduction_of
from .mathematics import xlogy
from .norms import vector_norm
from .value_checks import are_shares, asked_before, hold_everywhere

#: What squares of lengths have added: 1e-12 in single precision.
_LEAST = 9.999999960041972e-13

# --- classification -----------------------------------------------------------------------------


def _same_shape(name: str, input: Tensor, target: Tensor) -> None:
    if shape_of(input) != shape_of(target):
        raise ArgumentValueError(
            f"Using a target size ({target.shape}) that is different to the input size "
            f"({input.shape}) is deprecated. Please ensure they have the same size. ({name})"
        )


def _all_are_shares(input: Tensor, target: Tensor, *_: Any, **__: Any) -> None:
    """``RuntimeError`` unless all elements are between 0 and 1."""
    _same_shape("binary_cross_entropy", input, target)
    if not are_shares(input, target):
        name = "target" if are_shares(input) else "input"
        raise RuntimeError(f"all elements of {name} should be between 0 and 1")


def _of_probabilities(function: Callable[..., Any]) -> Callable[..., Any]:
    """In full precision, after flags and elements were looked at."""
    return flags_seen(asked_before(_all_are_shares)(function))


@function(method=False, within=_of_probabilities, steady=True, large=True)
def binary_cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """``-(y log p + (1 - y) log(1 - p))`` for probabilities; logarithms are at least -100.

    Raises ``ValueError`` unless both have one shape, ``RuntimeError`` unless all elements are between 0 and 1.

    >>> import tracejit as tj
    >>> tj.binary_cross_entropy(tj.tensor([0.5, 0.5]), tj.tensor([0.0, 1.0]))
    tensor(0.6931)
    """
    require_float("binary_cross_entropy", input)
    if target.dtype is not input.dtype:
        raise DtypeError(f"Found dtype {target.dtype.title} but expected {input.dtype.title}")
    refuse_gradients("binary_cross_entropy", weight=weight)
    loss = entropies.cross_entropy_of_two(input, target)
    loss = loss if weight is None else loss * weight
    return reduced(loss, reduction_of(size_average, reduce, reduction))


@function(method=False, within=flags_seen, steady=True, large=True)
def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Tensor:
    """Binary cross entropy of ``sigmoid(input)``, computed without forming it.

    Raises ``ValueError`` unless both have one shape.

    >>> import tracejit as tj
    >>> tj.binary_cross_entropy_with_logits(tj.zeros(2), tj.tensor([0.0, 1.0]))
    tensor(0.6931)
    """
    if shape_of(input) != shape_of(target):
        raise ArgumentValueError(
            f"Target size ({target.shape}) must be the same as input size ({input.shape})"
        )
    refuse("log_sigmoid_cpu", input.dtype, "bool int")
    if target.dtype.category == "int":
        raise DtypeError(
            f"result type {input.dtype.title} can't be cast to the desired output type {target.dtype.title}"
        )
    refuse_gradients("binary_cross_entropy_with_logits", weight=weight, pos_weight=pos_weight)
    log_weight = 1.0 if pos_weight is None else (pos_weight - 1.0) * target + 1.0
    loss = (1.0 - target) * input - log_weight * logsigmoid(input)
    loss = loss if weight is None else loss * weight
    return reduced(loss, reduction_of(size_average, reduce, reduction))


def _is_divergence(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    *_: Any,
    **__: Any,
) -> None:
    """A warning of a mean that is not the divergence."""
    if reduction_of(size_average, reduce, reduction) == "mean":
        warn(
            "reduction: 'mean' divides the total loss by both the batch size and the support size. 'batchmean' "
            "divides only by the batch size, and aligns with the KL math definition. 'mean' will be changed to "
            "behave the same as 'batchmean' in the next major release."
        )


def _of_divergence(function: Callable[..., Any]) -> Callable[..., Any]:
    """In full precision, after flags and reduction were looked at."""
    return asked_before(_is_divergence)(flags_seen(function))


@function(method=False, within=_of_divergence, steady=True, large=True)
def kl_div(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    log_target: bool = False,
) -> Tensor:
    """``target * (log(target) - input)`` for log-probabilities; "batchmean" divides by the batch.

    >>> import tracejit as tj
    >>> tj.kl_div(tj.tensor([0.5]).log(), tj.tensor([1.0]), reduction="sum")
    tensor(0.6931)
    """
    reduction = reduction_of(size_average, reduce, reduction)
    if not (input.dtype.is_floating_point and target.dtype.is_floating_point):
        raise DtypeError("kl_div: Integral inputs not supported.")
    entropy = t.exp(target) * target if log_target else xlogy(target, target)
    loss = entropy - (t.exp(target) if log_target else target) * input
    if reduction == "batchmean":
        return reduced(loss, "sum") / shape_of(input)[0] if input.ndim else loss
    return reduced(loss, reduction)


@function(method=False, within=full_precision, large=True)
def poisson_nll_loss(
    input: Tensor,
    target: Tensor,
    log_input: bool = True,
    full: bool = False,
    size_average: bool | None = None,
    eps: float = 1e-08,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """``exp(input) - target * input`` (or of ``log(input)``), with Stirling's term when ``full``.

    >>> import tracejit as tj
    >>> tj.poisson_nll_loss(tj.zeros(1), tj.ones(1))
    tensor(1.)
    """
    loss = t.exp(input) - target * input if log_input else input - target * t.log(input + eps)
    if full:
        stirling = target * t.log(target) - target + 0.5 * t.log(2 * math.pi * target)
        loss = loss + e.where(c.le(target, 1), 0.0, stirling)
    return reduced(loss, old_reduction(size_average, reduce, reduction))


def _any_negative(var: Any) -> bool:
    if not is_tensor(var):
        return bool(var < 0)
    return not hold_everywhere(lambda: c.logical_not(c.lt(var, 0)), near=var)


@function(method=False, large=True)
def gaussian_nll_loss(
    input: Tensor,
    target: Tensor,
    var: Any,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Tensor:
    """``(log(var) + (input - target)**2 / var) / 2`` with the variance at least ``eps``.

    Raises ``ValueError`` for variances of another shape, one for all elements of a dimension excepted, and for
    negative ones.

    >>> import tracejit as tj
    >>> tj.gaussian_nll_loss(tj.zeros(1), tj.ones(1), tj.ones(1))
    tensor(0.5000)
    """
    spread = var if is_tensor(var) else e.mul(e.add(e.mul(input, 0.0), 1.0), var)
    if spread.ndim == input.ndim - 1:
        spread = spread.unsqueeze(-1)
    elif is_tensor(var):
        pairs = zip(shape_of(spread), shape_of(input), strict=False)
        across = sum(n for n, whole in pairs if n != whole)  # one dimension may be broadcast
        if spread.ndim != input.ndim or across > 1:
            raise ArgumentValueError("var is of incorrect size")
    check_reduction(reduction)
    if _any_negative(var):
        raise ArgumentValueError("var has negative entry/entries")
    least = e.add(
        e.sub(spread, e.detach_copy(spread)), eps
    )  # with the gradient of what it replaces
    safe = e.where(c.lt(spread, eps), least, spread)
    loss = 0.5 * (t.log(safe) + e.square(input - target) / safe)
    return reduced(loss + 0.5 * math.log(2 * math.pi) if full else loss, reduction)


# --- embeddings ---------------------------------------------------------------------------------


@function(method=False, steady=True, large=True)
def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """The cosine of the angle between vectors along ``dim``.

    >>> import tracejit as tj
    >>> tj.cosine_similarity(tj.tensor([[1.0, 0.0]]), tj.tensor([[1.0, 1.0]]))
    tensor([0.7071])
    """
    common = shapes.broadcast("cosine_similarity", [shape_of(x1), shape_of(x2)])
    kind = promote_types(x1.dtype, x2.dtype)  # tensors without dimensions count as others
    if not kind.is_floating_point:
        raise DtypeError(
            f"expected common dtype to be floating point, yet common dtype is {kind.title}"
        )
    x1, x2 = (m.expand(as_type(x, kind), shape=common) for x in (x1, x2))
    dims = (dim_of(dim, x1),) if common else ()
    x1, x2 = (x / _at_least(vector_norm(x, 2, dims, True), eps) for x in (x1, x2))
    return r.sum(x1 * x2, dims=dims, keepdim=False)


def _at_least(length: Tensor, eps: float) -> Tensor:
    """``length``, or ``eps`` where that is more, with the gradient of ``length`` all the same."""
    lifted = e.add(length - e.detach_copy(length), eps)
    return e.where(c.lt(length, eps), lifted, length)


@function(method=False, large=True)
def pairwise_distance(
    x1: Tensor, x2: Tensor, p: Number = 2.0, eps: float = 1e-6, keepdim: bool = False
) -> Tensor:
    """The ``p`` norm of ``x1 - x2 + eps`` along the last dimension.

    >>> import tracejit as tj
    >>> tj.pairwise_distance(tj.zeros(1, 2), tj.tensor([[3.0, 4.0]]))
    tensor([5.0000])
    """
    return vector_norm(x1 - x2 + eps, p, -1, keepdim)


@function(method=False, within=full_precision, large=True)
def cosine_embedding_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """``1 - cos`` for targets 1, ``max(0, cos - margin)`` for targets -1.

    >>> import tracejit as tj
    >>> tj.cosine_embedding_loss(tj.ones(1, 2), tj.ones(1, 2), tj.tensor([-1]))
    tensor(1.)
    """
    if target.ndim > 1:
        raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
    if any(x.ndim != target.ndim + 1 for x in (input1, input2)):
        raise ShapeError(f"{target.ndim}D target tensor expects {target.ndim + 1}D input tensors")
    dims = (target.ndim,)
    squares = [r.sum(x * x, dims=dims, keepdim=False) + _LEAST for x in (input1, input2)]
    lengths = t.sqrt(squares[0] * squares[1])
    cosine = r.sum(input1 * input2, dims=dims, keepdim=False) / lengths
    apart = e.where(c.eq(target, -1), limits.clamp_min(cosine - margin, 0.0), 0.0)
    loss = e.where(c.eq(target, 1), 1.0 - cosine, 0.0) + apart
    return reduced(loss, old_reduction(size_average, reduce, reduction))


@function(method=False, within=full_precision, large=True)
def hinge_embedding_loss(
    input: Tensor,
    target: Tensor,
    margin: float = 1.0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """``input`` for targets 1, ``max(0, margin - input)`` for targets -1.

    >>> import tracejit as tj
    >>> tj.hinge_embedding_loss(tj.tensor([0.25, 0.25]), tj.tensor([1.0, -1.0]))
    tensor(0.5000)
    """
    if reduction == "mean":
        refuse("mean", input.dtype, "bool int")
    apart = e.where(c.eq(target, 1), 0.0, limits.clamp_min(margin - input, 0.0))
    near = e.where(c.eq(target, -1), 0.0, input)
    return reduced(apart + near, old_reduction(size_average, reduce, reduction))
