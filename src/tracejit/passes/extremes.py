"""Positions of extremes as reductions and elementwise work, which fuse with what computes the numbers.

A rank is an integer that stands where its number stands in the order; less twice its position it is the larger of two
equal ones where it comes first. So the largest of ranks tells the extreme and its position, in one pass.

Before::

    graph f(x: f32[3, 4], y: f32[4]) {
        %0: f32[3, 4] = add(x, y)
        %1: i64[1, 4] = argmax(%0, dims=(0,), keepdim=True)
        %2: f32[1, 4] = gather(%0, %1, dim=0)
        return %1, %2
    }

After::

    graph f(x: f32[3, 4], y: f32[4]) {
        %0: f32[3, 4] = add(x, y)
        %1: i64[3, 4] = rank(%0)
        %2: i64[3] = arange(start=0, step=-2, count=3, dtype=i64)
        %3: i64[3, 1] = reshape(%2, shape=(3, 1))
        %4: i64[3, 4] = add(%1, %3)
        %5: i64[1, 4] = amax(%4, dims=(0,), keepdim=True)
        %6: i64[1, 4] = ranked_place(%5)
        %7: f32[1, 4] = ranked_real(%5)
        return %6, %7
    }

Numbers of 64 bits leave no room for a position. Along rows the extreme is found, then the first place that holds it;
across rows, and along rows so long that they are looked through in pieces, kernels of their own do it sooner
(`codegen.cpu.extremes`).
"""

from __future__ import annotations

from dataclasses import dataclass

from .. import dtypes
from ..extents import hint
from ..ir.graph import Graph, Value
from ..ops.ranks import MOST_PLACES, has_rank
from ..ops.reduction import argmax, argmin
from .rewrite import Rewriter

#: Views that leave the order of positions as it is.
_SAME_ORDER = frozenset({"unsqueeze", "squeeze", "reshape"})
#: The longest rows, along the last dimension, that are not left to kernels of their own.
LONGEST = 1024


def extremes(graph: Graph) -> Graph:
    """``graph`` with positions of extremes found as the largest of ranks.

    >>> from tracejit.ir import parse
    >>> graph = parse("graph f(x: f32[9]) { %0: i64[] = argmax(x, dims=(0,), keepdim=False) return %0 }")
    >>> [v.op.name for v in extremes(graph).values]
    ['rank', 'arange', 'add', 'amax', 'ranked_place']
    """
    if not any(_is_ranked(value) or _is_compared(value) for value in graph.values):
        return graph
    return _Extremes(graph.name).run(graph)


def _fuses(value: Value) -> bool:
    """Is this the position of an extreme that kernels of their own do not find sooner?"""
    if (value.op is not argmax and value.op is not argmin) or not value.attributes["dims"]:
        return False
    shape, dim = value.value_operands[0].spec.shape, value.attributes["dims"][0]
    return bool(dim < len(shape) - 1 or hint(shape[dim]) <= LONGEST)


def _is_ranked(value: Value) -> bool:
    """Is this to be found by means of ranks?"""
    if not _fuses(value):
        return False
    x = value.value_operands[0].spec
    return has_rank(x.dtype) and bool(x.shape[value.attributes["dims"][0]] <= MOST_PLACES)


def _is_compared(value: Value) -> bool:
    """Is this to be found by comparing the elements of a row with the extreme?"""
    if not _fuses(value):
        return False
    x = value.value_operands[0].spec
    wide = x.dtype is dtypes.float64 or x.dtype is dtypes.int64
    return wide and value.attributes["dims"][0] == x.ndim - 1


@dataclass(frozen=True)
class _Found:
    """Where the extreme along a dimension was found: the numbers, and the largest of their ranks."""

    x: Value
    dim: int
    rank: Value
    smallest: bool


class _Extremes(Rewriter):
    """Writes positions of extremes, and what is gathered at them, by means of ranks."""

    def __init__(self, name: str) -> None:
        super().__init__(name, {"argmax": (_place,), "argmin": (_place,), "gather": (_number,)})
        self.found: dict[Value, _Found] = {}


def _place(rewriter: Rewriter, value: Value) -> Value | None:
    """The position of an extreme."""
    assert isinstance(rewriter, _Extremes)
    if not _is_ranked(value):
        return _first_equal(rewriter, value) if _is_compared(value) else None
    x, dims = value.value_operands[0], value.attributes["dims"]
    smallest = value.op is argmin
    ranks = rewriter.write("rank", (_turned(rewriter, x, smallest, value),), value.line)
    count = x.spec.shape[dims[0]]
    along = tuple(count if d == dims[0] else 1 for d in range(dims[0], x.spec.ndim))
    places: Value = rewriter.write(
        "arange", (), value.line, start=0, step=-2, count=count, dtype=dtypes.int64
    )
    if len(along) > 1:
        places = rewriter.write("reshape", (places,), value.line, shape=along)
    places = rewriter.write("add", (ranks, places), value.line)
    best = rewriter.write("amax", (places,), value.line, **value.attributes)
    place = rewriter.write("ranked_place", (best,), value.line)
    rewriter.found[place] = _Found(x, dims[0], best, smallest)
    return place


def _first_equal(rewriter: Rewriter, value: Value) -> Value:
    """The first position that holds the extreme; where that is a nan no element equals it, and the first nan counts."""
    x, dims, line = value.value_operands[0], value.attributes["dims"], value.line
    op = "amax" if value.op is argmax else "amin"
    best = rewriter.write(op, (x,), line, dims=dims, keepdim=True)
    holds = rewriter.write("eq", (x, best), line)
    if x.spec.dtype.is_floating_point:
        nan = rewriter.write("isnan", (x,), line)
        holds = rewriter.write("logical_or", (holds, nan), line)
    count = x.spec.shape[-1]
    places = rewriter.write("arange", (), line, start=0, step=1, count=count, dtype=dtypes.int64)
    places = rewriter.write("where", (holds, places, count), line)
    return rewriter.write("amin", (places,), line, **value.attributes)


def _turned(rewriter: Rewriter, x: Value, smallest: bool, value: Value) -> Value:
    """Numbers whose largest is looked for instead: as they are, or in the opposite order."""
    if not smallest:
        return x
    op = "neg" if x.spec.dtype.is_floating_point else "bitwise_not"
    return rewriter.write(op, (x,), value.line)


def _number(rewriter: Rewriter, value: Value) -> Value | None:
    """The extreme itself, where a gather reads it at its position."""
    assert isinstance(rewriter, _Extremes)
    x, index = value.value_operands
    shape, dim = index.spec.shape, value.attributes["dim"]
    while index.op is not None and index.op.name in _SAME_ORDER:
        index = index.value_operands[0]
    found = rewriter.found.get(index)
    if found is None or found.x is not x or found.dim != dim:
        return None
    if shape != tuple(1 if d == dim else n for d, n in enumerate(x.spec.shape)):
        return None
    rank = found.rank
    if rank.spec.shape != shape:
        rank = rewriter.write("reshape", (rank,), value.line, shape=shape)
    real = x.spec.dtype.is_floating_point
    number = rewriter.write("ranked_real" if real else "ranked_whole", (rank,), value.line)
    number = _turned(rewriter, number, found.smallest, value)
    if number.spec.dtype is not x.spec.dtype:
        number = rewriter.write("cast", (number,), value.line, dtype=x.spec.dtype)
    return number
