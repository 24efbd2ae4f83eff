"""Sums, means and maxima of bags of embedding rows."""

from __future__ import annotations

from typing import Any

from ... import dtypes
from ...errors import ArgumentValueError, ShapeError
from .. import comparison as c
from .. import elementwise as e
from .. import indexing as ix
from .. import limits
from .. import movement as m
from .. import ordering as o
from .. import reduction as r
from .. import source as s
from ..table import function
from .common import Tensor, as_type, check_tensor, constant, require_float, shape_of
from .embeddings import by_frequency, shorten_rows
from .slicing import narrow


def _check(input: Tensor, weight: Tensor, offsets: Tensor | None, mode: str, scores: Any) -> None:
    require_float("embedding_bag", weight)
    check_tensor("embedding_bag", input)
    check_tensor("embedding_bag", weight, "weight", 2)
    if input.ndim == 2 and offsets is not None:
        raise ArgumentValueError(
            "if input is 2D, then offsets has to be None, as input is treated is a mini-batch of fixed "
            f"length sequences. However, found offsets of type {type(offsets)}"
        )
    if input.ndim not in (1, 2):
        raise ArgumentValueError(
            f"input has to be 1D or 2D Tensor, but got Tensor of dimension {input.ndim}"
        )
    if input.ndim == 1 and (offsets is None or offsets.ndim != 1):
        found = None if offsets is None else f"Tensor of dimension {offsets.ndim}"
        raise ArgumentValueError(f"offsets has to be a 1D Tensor but got {found}")
    if mode not in ("sum", "mean", "max"):
        raise ArgumentValueError("mode has to be one of sum, mean or max")
    if scores is not None and mode != "sum":
        raise NotImplementedError(
            "embedding_bag: per_sample_weights was not None. per_sample_weights is only supported for "
            f"mode='sum' (got mode='{mode}'). Please open a feature request on GitHub."
        )
    if scores is not None and shape_of(scores) != shape_of(input):
        raise ArgumentValueError(
            f"embedding_bag: If per_sample_weights ({list(shape_of(scores))}) is not None, then it must "
            f"have the same shape as the input ({list(shape_of(input))})"
        )


@function(method=False, large=True)
def embedding_bag(
    input: Tensor,
    weight: Tensor,
    offsets: Tensor | None = None,
    max_norm: float | None = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    """The "sum", "mean" or "max" of the rows of ``weight`` in each bag; empty bags are zero.

    Bags are the rows of a 2D ``input``, or start at ``offsets`` of a 1D one. Rows ``padding_idx`` count for nothing.
    With ``max_norm``, rows that are used and whose ``norm_type`` norm is greater are shortened in place first; with
    ``scale_grad_by_freq`` the gradient of a row is divided by how often it occurs; ``sparse`` changes nothing: they
    are dense. Raises ``ValueError`` for arguments that do not fit, ``IndexError`` for positions out of range.

    >>> import tracejit as tj
    >>> rows = tj.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    >>> tj.embedding_bag(tj.tensor([0, 1, 2]), rows, tj.tensor([0, 2]))
    tensor([[2., 3.],
            [5., 6.]])
    """
    _check(input, weight, offsets, mode, per_sample_weights)
    if mode == "max" and (scale_grad_by_freq or sparse):
        what = "scaling the gradient by the frequency" if scale_grad_by_freq else "sparse weights"
        raise ArgumentValueError(f"max mode does not support {what}")
    if max_norm is not None:
        shorten_rows(weight, input, max_norm, norm_type)
    even = offsets is None and mode != "max"  # bags of equally many rows, one after the other
    places = input if even else m.reshape(input, shape=(input.spec.numel,))
    rows, used = ix.take(weight, places, dim=0, negative=False), None
    if scale_grad_by_freq:
        rows = by_frequency(rows, places, shape_of(weight)[0])
    if per_sample_weights is not None:
        rows = e.mul(rows, m.reshape(per_sample_weights, shape=(*shape_of(places), 1)))
    if padding_idx is not None:
        counts = c.ne(places, padding_idx % shape_of(weight)[0])
        used = m.unsqueeze(counts, dims=(places.ndim,))
    bags = None if even else _bags(input, offsets, include_last_offset)
    if bags is not None and mode == "max":
        return _largest(rows, used, *bags)
    total = _sums(rows if used is None else e.where(used, rows, 0.0), bags)
    if mode == "sum":
        return total
    ones = constant(1, weight.dtype, (*shape_of(places), 1))
    sizes = _sums(ones if used is None else e.where(used, ones, 0.0), bags)
    return e.div(total, limits.clamp_min(sizes, 1))


def _bags(input: Tensor, offsets: Tensor | None, last: bool) -> tuple[Tensor, int]:
    """The bag of each position, and the number of bags."""
    positions = s.arange(start=0, step=1, count=input.spec.numel, dtype=dtypes.int64)
    if offsets is None:
        count, length = shape_of(input)
        return e.floor_divide(positions, max(length, 1)), count
    count = shape_of(offsets)[0] - last
    if count > 0 and int(offsets[0].item()) != 0:
        raise ShapeError(
            "offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from "
            f"position 0. However, got {int(offsets[0].item())}"
        )
    starts = as_type(narrow(offsets, 0, 0, count), dtypes.int64)
    return e.sub(o.search_sorted(starts, positions, right=True), 1), count


def _sums(rows: Tensor, bags: tuple[Tensor, int] | None) -> Tensor:
    """The sum of the rows of each bag, which is a matrix of its own unless ``bags`` tells where each row belongs."""
    if bags is None:
        return r.sum(rows, dims=(1,), keepdim=False)
    bag, count = bags
    zeros = constant(0, rows.dtype, (count, shape_of(rows)[1]))
    return ix.put(zeros, bag, rows, dim=0, accumulate=True)


def _largest(rows: Tensor, used: Tensor | None, bag: Tensor, count: int) -> Tensor:
    low = float("-inf")
    rows = rows if used is None else e.where(used, rows, low)
    shape = shape_of(rows)
    index = m.expand(m.unsqueeze(bag, dims=(1,)), shape=shape)
    start = constant(low, rows.dtype, (count, shape[1]))
    best = ix.scatter_combine(start, index, rows, dim=0, reduce="amax")
    empty = r.all_true(c.eq(best, low), dims=(1,), keepdim=True)
    return e.where(empty, 0.0, best)
