"""Cross entropy and negative log-likelihood."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import wraps
from typing import Any

from ...dtypes import int64, uint8
from ...errors import ArgumentValueError, DtypeError, ShapeError
from .. import comparison as c
from .. import elementwise as e
from .. import indexing as ix
from .. import movement as m
from .. import reduction as r
from ..positions import OutOfRangeError
from ..table import function
from ..underived import refuse_gradients
from .common import Tensor, as_type, require_float, shape_of
from .loss_reductions import flags_seen, reduced, reduction_of
from .normalization import linear
from .softmax import log_softmax


def _classes_told(target: Callable[..., Any]) -> Callable[..., Any]:
    """``target``, which names a class that is out of range as one, with the warnings of :func:`flags_seen`."""
    inside = flags_seen(target)

    @wraps(inside)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return inside(*args, **kwargs)
        except OutOfRangeError as error:
            if error.index is None:
                raise
            input = args[0] if args else kwargs["input"]
            last = shape_of(input)[_class_dim(input)] - 1
            raise OutOfRangeError(
                f"Target {error.index} is out of bounds.",
                f"{target.__name__}() takes classes from 0 to {last} here, and ignore_index.",
            ) from None

    return call


def _class_dim(input: Tensor) -> int:
    return 0 if input.ndim == 1 else 1


def _no_classes(target: Tensor) -> DtypeError:
    return DtypeError(
        f"expected target dtype to be Long or Byte, but got {target.dtype.title}",
        "Classes are whole numbers: target.long() makes some.",
    )


def _check_target(input: Tensor, target: Tensor) -> int:
    d = _class_dim(input)
    shape = shape_of(input)
    expected = (*shape[:d], *shape[d + 1 :])
    if target.dtype not in (int64, uint8):
        raise _no_classes(target)
    if input.ndim and shape_of(target) != expected:
        if d and shape[0] != (shape_of(target) or (0,))[0]:
            raise ArgumentValueError(
                f"Expected input batch_size ({shape[0]}) to match target batch_size "
                f"({(shape_of(target) or (0,))[0]})."
            )
        raise ShapeError(f"Expected target size {list(expected)}, got {list(shape_of(target))}")
    return d


def _single(target: Tensor) -> Tensor:
    """The class of a single sample, which may come as a vector of one."""
    if target.ndim > 1:
        raise ShapeError("0D or 1D target tensor expected, multi-target not supported")
    count = shape_of(target)[0]
    if count != 1:
        raise ArgumentValueError(
            f"For 1D input, 1D target must have size 1, but got target size: {count}"
        )
    return m.reshape(target, shape=())


def _check_kind(input: Tensor, target: Tensor, soft: bool) -> None:
    """``RuntimeError`` where the shape of a target says probabilities and its dtype classes, or the other way."""
    alike = shape_of(target) == shape_of(input)
    if alike and not soft:
        raise DtypeError(
            "Expected floating point type for target with class probabilities, got "
            f"{target.dtype.title}"
        )
    if soft and not alike and target.ndim < input.ndim:
        raise _no_classes(target)


def _check_weight(weight: Tensor | None, input: Tensor, soft: bool = False) -> None:
    """``RuntimeError`` unless every class has a weight, in the dtype of the input."""
    classes = shape_of(input)[_class_dim(input)]
    if weight is not None and shape_of(weight) != (classes,):
        raise ShapeError(
            f"weight tensor should be defined either for all {classes} classes or no classes but got "
            f"weight tensor of shape: {list(shape_of(weight))}"
        )
    if soft or weight is None or weight.dtype is input.dtype:
        return
    raise DtypeError(f"expected scalar type {input.dtype.title} but found {weight.dtype.title}")


def _weights(weight: Tensor | None, target: Tensor, valid: Tensor, like: Tensor) -> Tensor:
    """The weight of each target, zero where it is ignored."""
    if weight is None:
        return as_type(valid, like.dtype)
    return e.where(valid, ix.take(weight, target, dim=0), 0.0)


@function(method=False, within=_classes_told, steady=True, large=True)
def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """``-weight[target] * input[target]`` for log-probabilities (N, C, ...) and classes (N, ...).

    One sample is (C,), and its class () or (1,). The mean divides by the weights of targets that are not
    ``ignore_index``. Raises ``IndexError`` for classes out of range, ``ValueError`` or ``RuntimeError`` when shapes do
    not fit.

    >>> import tracejit as tj
    >>> tj.nll_loss(tj.tensor([[-1.0, -2.0], [-3.0, -4.0]]), tj.tensor([0, 1]))
    tensor(2.5000)
    """
    require_float("nll_loss_out_frame", input)
    reduction = reduction_of(size_average, reduce, reduction)
    return _picked(input, target, weight, ignore_index, reduction, e.chosen)


def _picked(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None,
    ignore_index: int,
    reduction: str,
    choose: Callable[..., Tensor],
) -> Tensor:
    """The loss; ``choose`` leaves out targets."""
    if input.ndim == 1 and target.ndim:
        target = _single(target)
    d = _check_target(input, target)
    _check_weight(weight, input)
    planes = "2d" if input.ndim > 2 else ""
    refuse_gradients(f"nll_loss{planes}_forward", weight=weight)
    valid = c.ne(target, ignore_index)
    safe = e.where(valid, target, 0)
    picked = m.squeeze(ix.gather(input, m.unsqueeze(safe, dims=(d,)), dim=d), dims=(d,))
    weights = _weights(weight, safe, valid, input)
    loss = choose(valid, e.neg(picked) if weight is None else e.neg(picked * weights), 0.0)
    if reduction != "mean":
        return reduced(loss, reduction)
    dims = tuple(range(loss.ndim))
    return r.sum(loss, dims=dims, keepdim=False) / r.sum(weights, dims=dims, keepdim=False)


@function(method=False, within=_classes_told, steady=True, large=True)
def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """The negative log-likelihood of ``target`` under ``softmax(input)``: logits (N, C, ...).

    ``target`` holds classes (N, ...) or, in floating point, probabilities (N, C, ...). Raises ``IndexError`` for
    classes out of range, ``ValueError`` or ``RuntimeError`` when shapes or ``label_smoothing`` do not fit.

    >>> import tracejit as tj
    >>> tj.cross_entropy(tj.tensor([[2.0, 0.0], [0.0, 0.0]]), tj.tensor([0, 1]))
    tensor(0.4100)
    """
    reduction = reduction_of(size_average, reduce, reduction)
    if not 0.0 <= label_smoothing <= 1.0:
        raise RuntimeError(f"label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing}")
    if not input.ndim:
        raise RuntimeError("Expected input with at least one dimension, got a 0-d tensor")
    soft = target.dtype.is_floating_point
    _check_kind(input, target, soft)
    _check_weight(weight, input, soft)
    if soft and ignore_index >= 0:
        raise RuntimeError("ignore_index is not supported for floating point target")
    logs = log_softmax(input, _class_dim(input))
    if soft:
        return _soft_cross_entropy(logs, target, weight, reduction, label_smoothing)
    if label_smoothing == 0.0:
        return _picked(logs, target, weight, ignore_index, reduction, e.where)
    return _smoothed(logs, target, weight, ignore_index, reduction, label_smoothing)


def _shaped_weight(weight: Tensor, x: Tensor) -> Tensor:
    shape = tuple(-1 if d == _class_dim(x) else 1 for d in range(x.ndim))
    return weight.reshape(shape)


def _soft_cross_entropy(
    logs: Tensor, target: Tensor, weight: Tensor | None, reduction: str, smoothing: float
) -> Tensor:
    if shape_of(target) != shape_of(logs):
        raise ShapeError(
            f"Expected target size {list(shape_of(logs))} of probabilities, got "
            f"{list(shape_of(target))}"
        )
    d = _class_dim(logs)
    if smoothing:
        target = target * (1 - smoothing) + smoothing / shape_of(logs)[d]
    weighted = logs if weight is None else logs * _shaped_weight(weight, logs)
    loss = e.neg(r.sum(weighted * target, dims=(d,), keepdim=False))
    if reduction != "mean":
        return reduced(loss, reduction)
    total = r.sum(loss, dims=tuple(range(loss.ndim)), keepdim=False)
    return total / (logs.spec.numel // max(shape_of(logs)[d], 1))


def _smoothed(
    logs: Tensor,
    target: Tensor,
    weight: Tensor | None,
    ignore_index: int,
    reduction: str,
    smoothing: float,
) -> Tensor:
    """``(1 - s) * nll + s / C * (sum over classes of -weight * log p)``."""
    d = _check_target(logs, target)
    valid = c.ne(target, ignore_index)
    nll = nll_loss(logs, target, weight, None, ignore_index, None, reduction)
    weighted = logs if weight is None else logs * _shaped_weight(weight, logs)
    spread = e.where(valid, e.neg(r.sum(weighted, dims=(d,), keepdim=False)), 0.0)
    if reduction == "mean":
        dims = tuple(range(spread.ndim))
        safe = e.where(valid, target, 0)
        total = r.sum(_weights(weight, safe, valid, logs), dims=dims, keepdim=False)
        spread = r.sum(spread, dims=dims, keepdim=False) / total
    else:
        spread = reduced(spread, reduction)
    return nll * (1 - smoothing) + spread * (smoothing / shape_of(logs)[d])


@function(method=False)
def linear_cross_entropy(
    input: Tensor,
    linear_weight: Tensor,
    target: Tensor,
    *,
    linear_bias: Tensor | None = None,
    weight: Tensor | None = None,
    reduction: str = "mean",
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
    options: Any = None,
) -> Tensor:
    """:func:`cross_entropy` of ``input @ linear_weight.T + linear_bias``, for input (N, features) or (features,).

    The weight is (classes, *out, features), the bias (classes, *out). ``options``, which say how others part the work,
    change nothing. Raises ``RuntimeError`` for shapes that do not fit, and for ``ignore_index`` beside probabilities,
    ``ValueError`` for other numbers of targets.

    >>> import tracejit as tj
    >>> tj.linear_cross_entropy(tj.ones(1, 2), tj.zeros(4, 2), tj.tensor([3]))
    tensor(1.3863)
    """
    if linear_weight.ndim < 2:
        raise ShapeError(
            f"expected linear_weight with dimensionality at least 2, got {linear_weight.ndim}"
        )
    batch = shape_of(input)[:-1]
    classes, *out, features = shape_of(linear_weight)
    if input.ndim not in (1, 2) or shape_of(input)[-1] != features:
        raise ShapeError(
            f"linear_cross_entropy: expected input of shape (N, {features}) or ({features},), got {input.spec}"
        )
    if linear_bias is not None and shape_of(linear_bias) != (classes, *out):
        raise ShapeError(
            f"expected linear_bias shape {(classes, *out)}, got {shape_of(linear_bias)}"
        )
    if out and not batch:
        raise ShapeError("linear_cross_entropy: losses of several dimensions need batched input")
    if ignore_index is not None and shape_of(target) == (*batch, classes, *out):
        raise RuntimeError("ignore_index cannot be specified when target contains probabilities")
    if batch and target.ndim and shape_of(target)[0] != batch[0]:
        raise ArgumentValueError(
            f"Expected input batch_size ({batch[0]}) to match target batch_size ({shape_of(target)[0]})."
        )
    rows = classes * math.prod(out)
    flat = m.reshape(linear_weight, shape=(rows, features))
    bias = None if linear_bias is None else m.reshape(linear_bias, shape=(rows,))
    logits = m.reshape(linear(input, flat, bias), shape=(*batch, classes, *out))
    return cross_entropy(
        logits,
        target,
        weight,
        ignore_index=-100 if ignore_index is None else ignore_index,
        reduction=reduction,
        label_smoothing=label_smoothing,
    )
