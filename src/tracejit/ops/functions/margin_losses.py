"""Losses that ask for a margin between scores, and of sets of labels."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ...dtypes import int64
from ...errors import ArgumentValueError, DtypeError, ShapeError
from .. import comparison as c
from .. import elementwise as e
from .. import indexing as ix
from .. import limits
from .. import movement as m
from .. import reduction as r
from .. import transcendental as t
from ..ordering import cumsum
from ..precision import full_precision
from ..table import function
from ..underived import refuse_gradients
from .activations import logsigmoid
from .common import Number, Tensor, as_type, constant, require_float, shape_of
from .loss_reductions import check_reduction, old_reduction, reduced
from .losses import pairwise_distance
from .triangles import positions


@function(method=False, within=full_precision, large=True)
def soft_margin_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """``log(1 + exp(-target * input))`` for targets 1 and -1.

    >>> import tracejit as tj
    >>> tj.soft_margin_loss(tj.zeros(2), tj.tensor([1.0, -1.0]))
    tensor(0.6931)
    """
    refuse_gradients("soft_margin_loss", target=target)
    loss = t.log1p(t.exp(e.mul(e.neg(input), target)))  # infinite where PyTorch's is
    return reduced(loss, old_reduction(size_average, reduce, reduction))


def _rows(name: str, input: Tensor, target: Tensor, per_class: bool) -> tuple[Tensor, Tensor, bool]:
    """Scores (N, C) and targets (N,) or (N, C), and whether the batch was added."""
    if not input.ndim:
        input, target = m.unsqueeze(input, dims=(0,)), target.reshape((1,) if per_class else ())
    alone = input.ndim == 1
    expected = shape_of(input) if per_class else shape_of(input)[:-1]
    if input.ndim not in (1, 2) or not input.spec.numel:
        raise ShapeError(
            f"Expected non-empty vector or matrix with optional 0-dim batch size, but got: "
            f"{list(shape_of(input))} ({name})"
        )
    if alone and not per_class and target.ndim == 1 and shape_of(target) == (1,):
        target = m.squeeze(target, dims=(0,))
    if shape_of(target) != expected:
        raise ShapeError(
            f"inconsistent target size, expected {list(expected)} but got {list(shape_of(target))} ({name})"
        )
    if not alone:
        return input, target, False
    return m.unsqueeze(input, dims=(0,)), m.unsqueeze(target, dims=(0,)), True


def _positive(x: Tensor) -> Tensor:
    """What is above zero; zeros without a gradient for the rest, be it zero or NaN."""
    return e.where(c.gt(x, 0), x, 0.0)


def _finish(loss: Tensor, alone: bool, reduction: str) -> Tensor:
    return reduced(m.squeeze(loss, dims=(0,)) if alone else loss, reduction)


@function(method=False, within=full_precision, large=True)
def multi_margin_loss(
    input: Tensor,
    target: Tensor,
    p: int = 1,
    margin: float = 1.0,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """``sum over i != y of max(0, margin - x[y] + x[i])**p / C`` for scores (N, C) and classes (N,).

    Raises ``RuntimeError`` when shapes do not fit, ``ValueError`` unless ``p`` is 1 or 2.

    >>> import tracejit as tj
    >>> tj.multi_margin_loss(tj.tensor([[0.0, 0.5, 2.0]]), tj.tensor([0]))
    tensor(1.5000)
    """
    require_float("multi_margin_loss", input)
    if p not in (1, 2):
        raise ArgumentValueError("only p == 1 and p == 2 supported")
    check_reduction(reduction)
    refuse_gradients("multi_margin_loss", weight=weight)
    x, y, alone = _rows("multi_margin_loss", input, target, False)
    classes = shape_of(x)[1]
    if weight is not None and weight.ndim != 1:
        raise ArgumentValueError("weight must be one-dimensional (multi_margin_loss)")
    if weight is not None and shape_of(weight) != (classes,):
        raise ShapeError(
            f"inconsistent weight size, expected {classes} but got {list(shape_of(weight))}"
        )
    if y.dtype is not int64:
        raise DtypeError(f"expected scalar type Long but found {y.dtype.title} (multi_margin_loss)")
    column = m.unsqueeze(y, dims=(1,))
    own = ix.gather(x, column, dim=1)
    distance = _positive(e.add(e.sub(margin, own), x))
    distance = distance if p == 1 else e.square(distance)
    distance = distance if weight is None else e.mul(distance, ix.take(weight, column, dim=0))
    others = c.ne(positions(classes, 0), column)
    total = r.sum(e.where(others, distance, 0.0), dims=(1,), keepdim=False)
    loss = e.div(total, classes)
    alone = alone and not target.ndim  # one class in a vector has one loss in a vector
    return _finish(loss, alone, old_reduction(size_average, reduce, reduction))


@function(method=False, within=full_precision, large=True)
def multilabel_margin_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """``sum over labels j and others i of max(0, 1 - (x[j] - x[i])) / C``; labels (N, C) end at the first -1.

    Raises ``RuntimeError`` when shapes do not fit.

    >>> import tracejit as tj
    >>> tj.multilabel_margin_loss(tj.tensor([0.1, 0.2, 0.4, 0.8]), tj.tensor([3, 0, -1, 1]))
    tensor(0.8500)
    """
    require_float("multilabel_margin_loss", input)
    check_reduction(reduction)
    x, y, alone = _rows("multilabel_margin_loss", input, target, True)
    classes = shape_of(x)[1]
    ended = c.gt(cumsum(c.lt(y, 0), dim=1), 0)
    safe = e.where(ended, 0, y)
    once = as_type(c.logical_not(ended), int64)
    counts = ix.scatter_add(constant(0, int64, shape_of(x)), safe, once, dim=1)
    labels = m.unsqueeze(ix.gather(x, safe, dim=1), dims=(2,))
    distance = _positive(e.add(e.sub(1.0, labels), m.unsqueeze(x, dims=(1,))))
    used = c.logical_and(
        m.unsqueeze(c.logical_not(ended), dims=(2,)), m.unsqueeze(c.eq(counts, 0), dims=(1,))
    )
    loss = e.div(r.sum(e.where(used, distance, 0.0), dims=(1, 2), keepdim=False), classes)
    return _finish(loss, alone, old_reduction(size_average, reduce, reduction))


@function(method=False, large=True)
def multilabel_soft_margin_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """The mean over classes of the binary cross entropy of ``sigmoid(input)``.

    >>> import tracejit as tj
    >>> tj.multilabel_soft_margin_loss(tj.zeros(1, 2), tj.tensor([[1.0, 0.0]]))
    tensor(0.6931)
    """
    yes = e.mul(target, logsigmoid(input))
    loss = e.neg(e.add(yes, e.mul(1 - target, logsigmoid(e.neg(input)))))
    loss = loss if weight is None else e.mul(loss, weight)
    last = input.ndim - 1
    mean = e.div(r.sum(loss, dims=(last,), keepdim=False), shape_of(input)[last])
    return reduced(mean, old_reduction(size_average, reduce, reduction))


@function(method=False, within=full_precision, large=True)
def margin_ranking_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """``max(0, -target * (input1 - input2) + margin)``.

    >>> import tracejit as tj
    >>> tj.margin_ranking_loss(tj.tensor([1.0]), tj.tensor([3.0]), tj.tensor([1.0]))
    tensor(2.)
    """
    if not input1.ndim == input2.ndim == target.ndim:
        sizes = (shape_of(x) for x in (input1, input2, target))
        raise ShapeError(
            "margin_ranking_loss : All input tensors should have same dimension but got sizes: "
            "input1: {}, input2: {}, target: {}".format(*map(list, sizes))
        )
    loss = limits.clamp_min(e.neg(target) * (input1 - input2) + margin, 0.0)
    return reduced(loss, old_reduction(size_average, reduce, reduction))


def _triplet(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    distance: Callable[[Tensor, Tensor], Tensor],
    margin: float,
    swap: bool,
) -> Tensor:
    """The loss of every triplet, once its arguments fit."""
    if margin <= 0:
        raise ArgumentValueError(f"margin must be greater than 0, got {margin}")
    if not anchor.ndim == positive.ndim == negative.ndim:
        raise ShapeError(
            "The anchor, positive, and negative tensors are expected to have the same number of "
            f"dimensions, but got: anchor {anchor.ndim}D, positive {positive.ndim}D, and negative "
            f"{negative.ndim}D inputs"
        )
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = e.minimum(far, distance(positive, negative))
    return limits.clamp_min(e.add(e.sub(near, far), margin), 0.0)


@function(method=False, within=full_precision, large=True)
def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: Number = 2,
    eps: float = 1e-6,
    swap: bool = False,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """``max(0, d(anchor, positive) - d(anchor, negative) + margin)``; ``ValueError`` unless ``margin`` is positive.

    >>> import tracejit as tj
    >>> tj.triplet_margin_loss(tj.zeros(1, 2), tj.zeros(1, 2), tj.ones(1, 2), margin=2.0)
    tensor(0.5858)
    """
    distance = partial(pairwise_distance, p=p, eps=eps)
    loss = _triplet(anchor, positive, negative, distance, margin, swap)
    return reduced(loss, old_reduction(size_average, reduce, reduction))


@function(method=False)
def triplet_margin_with_distance_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    *,
    distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """``max(0, d(anchor, positive) - d(anchor, negative) + margin)`` for any distance; Euclidean by default.

    Raises ``ValueError`` unless ``margin`` is positive.

    >>> import tracejit as tj
    >>> tj.triplet_margin_with_distance_loss(tj.zeros(1, 2), tj.zeros(1, 2), tj.ones(1, 2), margin=2.0)
    tensor(0.5858)
    """
    distance = pairwise_distance if distance_function is None else distance_function
    return reduced(_triplet(anchor, positive, negative, distance, margin, swap), reduction)
