"""Connectionist temporal classification: the likelihood of a label sequence over all its alignments."""

from __future__ import annotations

from functools import partial
from typing import Any

from ... import dtypes
from ...errors import ArgumentValueError, ShapeError
from .. import comparison as c
from .. import elementwise as e
from .. import indexing as ix
from .. import limits
from .. import movement as m
from .. import reduction as r
from .. import source as s
from .. import transcendental as t
from ..composed import composed
from ..precision import full_precision
from ..table import function
from .common import Tensor, as_type, check_tensor, constant, is_tensor, place_of, shape_of
from .extremes import amax
from .joining import cat
from .loss_reductions import reduced
from .reductions import any, mean, sum
from .slicing import select
from .statistics import cumsum

#: The logarithm of next to nothing: far below any sum of logarithms, and without the NaN of differences of infinities.
_NEVER = -1e30


def _beside(given: Any, scores: Tensor) -> Any:
    """Labels and lengths where the scores lie: they may be on the host."""
    where = place_of(scores, None)
    return given if where is None or not is_tensor(given) else given.to(where)


def _lengths(name: str, given: Any, samples: int) -> Tensor:
    """Lengths as int64 numbers (N)."""
    if is_tensor(given):
        count = given.spec.numel
        lengths = as_type(m.reshape(given, shape=(count,)), dtypes.int64)
    else:
        values = tuple(int(n) for n in given)
        count = len(values)
        lengths = s.literal(values=values, shape=(count,), dtype=dtypes.int64)
    if count != samples:
        raise ShapeError(f"{name} must be of size batch_size ({samples}), but got {count}")
    return lengths


def _padded(targets: Tensor, lengths: Tensor) -> Tensor:
    """Targets (N, S); sequences given one after the other are cut apart."""
    if targets.ndim == 2:
        return targets
    samples, total = shape_of(lengths)[0], shape_of(targets)[0]
    longest = int(amax(lengths)) if samples else 0
    ends = cumsum(lengths, 0)
    place = s.arange(start=0, step=1, count=longest, dtype=dtypes.int64)
    starts = m.unsqueeze(e.sub(ends, lengths), dims=(1,))
    # Places behind a sequence repeat its last label: they are not read, but they must be places.
    last = limits.clamp_min(e.sub(m.unsqueeze(ends, dims=(1,)), 1), 0)
    index = e.minimum(e.minimum(e.add(starts, place), last), max(total - 1, 0))
    return ix.take(targets, index, dim=0)


def _with_blanks(targets: Tensor, blank: int) -> Tensor:
    """A blank before, between and after the labels: (N, 2 S + 1)."""
    samples, count = shape_of(targets)
    blanks = constant(blank, targets.dtype, (samples, count, 1))
    pairs = m.reshape(cat([blanks, m.unsqueeze(targets, dims=(2,))], 2), shape=(samples, 2 * count))
    return cat([pairs, constant(blank, targets.dtype, (samples, 1))], 1)


def _moved(x: Tensor, by: int, value: float) -> Tensor:
    """Positions moved up by ``by``; ``value`` comes from before the first."""
    samples, count = shape_of(x)
    kept = m.slice(x, starts=(0, 0), counts=(samples, max(count - by, 0)), steps=(1, 1))
    return m.pad(kept, widths=((0, 0), (min(by, count), 0)), value=value)


def _check(log_probs: Tensor, inputs: Tensor, lengths: Tensor, targets: Tensor) -> None:
    steps = shape_of(log_probs)[0]
    if any(c.logical_or(c.gt(inputs, steps), c.lt(inputs, 0))):
        raise ShapeError(
            f"Expected input_lengths to have value at most {steps}, but got value {int(amax(inputs))}"
        )
    if targets.ndim == 2 and any(c.gt(lengths, shape_of(targets)[1])):
        raise ShapeError(
            f"Expected tensor to have size at least {int(amax(lengths))} at dimension 1, but got size "
            f"{list(shape_of(targets))} for targets"
        )
    if targets.ndim == 1 and targets.spec.numel != (total := sum(lengths)):
        raise ShapeError(
            f"Expected target_lengths to add up to {targets.spec.numel}, but got {int(total)}"
        )


@function(method=False, within=full_precision)
def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    """The negative log-likelihood of ``targets`` under log-probabilities (T, N, C) or (T, C).

    ``targets`` are (N, S), or one after the other in a vector. "mean" divides each loss by its target's length first.
    Impossible alignments cost infinity, or nothing with ``zero_infinity``. Raises ``RuntimeError`` for lengths that do
    not fit. Source: Graves et al., 2006.

    >>> import tracejit as tj
    >>> scores = tj.zeros(4, 1, 3).log_softmax(2)
    >>> tj.ctc_loss(scores, tj.tensor([[1, 2]]), (4,), (2,), reduction="sum")
    tensor(1.6864)
    """
    check_tensor("ctc_loss", log_probs, "log_probs")
    if reduction not in ("mean", "sum", "none"):
        raise ArgumentValueError(f"{reduction} is not a valid value for reduction")
    alone = log_probs.ndim == 2
    scores = m.unsqueeze(log_probs, dims=(1,)) if alone else log_probs
    _, samples, classes = shape_of(scores)
    if not 0 <= blank < classes:
        raise ShapeError("blank must be in label range")
    targets, input_lengths, target_lengths = (
        _beside(x, scores) for x in (targets, input_lengths, target_lengths)
    )
    inputs = _lengths("input_lengths", input_lengths, samples)
    lengths = _lengths("target_lengths", target_lengths, samples)
    targets = m.unsqueeze(targets, dims=(0,)) if alone and targets.ndim == 1 else targets
    _check(scores, inputs, lengths, targets)
    labels = _with_blanks(_padded(targets, lengths), blank)
    total = _likelihood(scores, labels, inputs, lengths, blank)
    impossible = c.lt(total, _NEVER / 2)
    loss = e.where(impossible, 0.0 if zero_infinity else float("inf"), e.neg(total))
    if reduction == "mean":
        return mean(e.div(loss, as_type(limits.clamp_min(lengths, 1), loss.dtype)))
    return reduced(m.squeeze(loss, dims=(0,)) if alone else loss, reduction)


@partial(composed, long=True)
def _likelihood(
    scores: Tensor, labels: Tensor, inputs: Tensor, lengths: Tensor, blank: int
) -> Tensor:
    """The log-likelihood of each sample."""
    return _forward(_normalized(scores), labels, inputs, lengths, blank)


def _normalized(scores: Tensor) -> Tensor:
    """``scores`` themselves, with the gradient of log-probabilities that keep adding up to one.

    What is added is zero and has a slope: as in PyTorch, the gradient is that of the logits where ``scores`` is a leaf.
    """
    total = r.sum(t.exp(scores), dims=(2,), keepdim=True)
    return e.add(scores, e.sub(e.detach_copy(total), total))


def _forward(scores: Tensor, labels: Tensor, inputs: Tensor, lengths: Tensor, blank: int) -> Tensor:
    """The forward variables after the last step of each sample, together."""
    steps, samples, _ = shape_of(scores)
    count = shape_of(labels)[1]
    index = m.expand(m.unsqueeze(labels, dims=(0,)), shape=(steps, samples, count))
    emitted = ix.gather(scores, index, dim=2)
    place = s.arange(start=0, step=1, count=count, dtype=dtypes.int64)
    # A blank may be skipped between different labels only.
    stuck = c.logical_or(c.eq(labels, _moved(labels, 2, blank)), c.eq(labels, blank))
    moment = s.arange(start=0, step=1, count=steps, dtype=dtypes.int64)
    going = c.gt(m.unsqueeze(inputs, dims=(1,)), m.unsqueeze(moment, dims=(1, 2)))
    alpha = e.where(c.eq(place, 0), 0.0, constant(_NEVER, scores.dtype, (samples, count)))
    for step in range(steps):
        reached = t.logaddexp(alpha, _moved(alpha, 1, _NEVER))
        if step:
            reached = t.logaddexp(reached, e.where(stuck, _NEVER, _moved(alpha, 2, _NEVER)))
        following = e.add(reached, select(emitted, 0, step))
        alpha = e.where(select(going, 0, step), following, alpha)
    last = m.unsqueeze(e.mul(lengths, 2), dims=(1,))
    final = ix.gather(alpha, last, dim=1)
    before_last = ix.gather(alpha, limits.clamp_min(e.sub(last, 1), 0), dim=1)
    some = c.gt(last, 0)
    total = e.where(some, t.logaddexp(final, before_last), final)
    return m.squeeze(total, dims=(1,))
