"""Connectionist temporal classification: the likelihood of a label sequence over all its alignments."""

from __future__ import annotations

from typing import Any

from ... import dtypes
from ...errors import ArgumentValueError, ShapeError
from .. import comparison as c
from .. import elementwise as e
from .. import indexing as ix
from .. import movement as m
from .. import source as s
from .. import transcendental as t
from ..table import function
from .common import Tensor, check_tensor, constant, is_tensor, shape_of
from .joining import cat
from .losses import reduced
from .reductions import mean
from .slicing import select

#: The logarithm of next to nothing: far below any sum of logarithms, and without the NaN of differences of infinities.
_NEVER = -1e30


def _lengths(name: str, given: Any, samples: int) -> list[int]:
    values = given.tolist() if is_tensor(given) else list(given)
    values = values if isinstance(values, list) else [values]
    if len(values) != samples:
        raise ShapeError(f"{name} must be of size batch_size ({samples}), but got {len(values)}")
    return [int(n) for n in values]


def _padded(targets: Tensor, lengths: list[int]) -> Tensor:
    """Targets (N, S); sequences given one after the other are cut apart."""
    if targets.ndim == 2:
        return targets
    longest = max(lengths, default=0)
    starts = [sum(lengths[:i]) for i in range(len(lengths))]
    places = [
        min(start + i, start + max(n - 1, 0))
        for start, n in zip(starts, lengths, strict=True)
        for i in range(longest)
    ]
    last = max(targets.spec.numel - 1, 0)
    index = s.literal(
        values=tuple(min(p, last) for p in places),
        shape=(len(lengths), longest),
        dtype=dtypes.int64,
    )
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


def _check(log_probs: Tensor, inputs: list[int], lengths: list[int], targets: Tensor) -> None:
    steps = shape_of(log_probs)[0]
    if any(n > steps or n < 0 for n in inputs):
        raise ShapeError(
            f"Expected input_lengths to have value at most {steps}, but got value {max(inputs)}"
        )
    if targets.ndim == 2 and any(n > shape_of(targets)[1] for n in lengths):
        raise ShapeError(
            f"Expected tensor to have size at least {max(lengths)} at dimension 1, but got size "
            f"{list(shape_of(targets))} for targets"
        )
    if targets.ndim == 1 and sum(lengths) != targets.spec.numel:
        raise ShapeError(
            f"Expected target_lengths to add up to {targets.spec.numel}, but got {sum(lengths)}"
        )


@function(method=False)
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
    inputs = _lengths("input_lengths", input_lengths, samples)
    lengths = _lengths("target_lengths", target_lengths, samples)
    targets = m.unsqueeze(targets, dims=(0,)) if alone and targets.ndim == 1 else targets
    _check(scores, inputs, lengths, targets)
    labels = _with_blanks(_padded(targets, lengths), blank)
    total = _forward(scores, labels, inputs, lengths, blank)
    impossible = c.lt(total, _NEVER / 2)
    loss = e.where(impossible, 0.0 if zero_infinity else float("inf"), e.neg(total))
    if reduction == "mean":
        by = s.literal(
            values=tuple(float(max(n, 1)) for n in lengths), shape=(samples,), dtype=loss.dtype
        )
        return mean(e.div(loss, by))
    return reduced(m.squeeze(loss, dims=(0,)) if alone else loss, reduction)


def _forward(
    scores: Tensor, labels: Tensor, inputs: list[int], lengths: list[int], blank: int
) -> Tensor:
    """The log-likelihood of each sample: the forward variables after its last step."""
    steps, samples, _ = shape_of(scores)
    count = shape_of(labels)[1]
    index = m.expand(m.unsqueeze(labels, dims=(0,)), shape=(steps, samples, count))
    emitted = ix.gather(scores, index, dim=2)
    place = s.arange(start=0, step=1, count=count, dtype=dtypes.int64)
    # A blank may be skipped between different labels only.
    stuck = c.logical_or(c.eq(labels, _moved(labels, 2, blank)), c.eq(labels, blank))
    ends = s.literal(values=tuple(inputs), shape=(samples, 1), dtype=dtypes.int64)
    alpha = e.where(c.eq(place, 0), 0.0, constant(_NEVER, scores.dtype, (samples, count)))
    for step in range(steps):
        reached = t.logaddexp(alpha, _moved(alpha, 1, _NEVER))
        if step:
            reached = t.logaddexp(reached, e.where(stuck, _NEVER, _moved(alpha, 2, _NEVER)))
        following = e.add(reached, select(emitted, 0, step))
        alpha = e.where(c.gt(ends, step), following, alpha)
    last = s.literal(values=tuple(2 * n for n in lengths), shape=(samples, 1), dtype=dtypes.int64)
    final = ix.gather(alpha, last, dim=1)
    before_last = ix.gather(alpha, e.clamp_min(e.sub(last, 1), 0), dim=1)
    some = c.gt(last, 0)
    total = e.where(some, t.logaddexp(final, before_last), final)
    return m.squeeze(total, dims=(1,))
