"""Histograms over intervals of any width, in one and in several dimensions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from ... import dtypes
from ...errors import ShapeError
from .. import comparison as c
from .. import elementwise as e
from .. import indexing as ix
from .. import limits
from .. import movement as m
from .. import ordering as o
from .. import reduction as r
from .. import source as s
from ..promotion import UnsupportedDtypeError
from ..table import function
from .common import Number, Tensor, as_type, constant, is_tensor, require_float, shape_of, upcast
from .value_checks import hold_everywhere


class Histogram(NamedTuple):
    """How much lies between neighbouring ``bin_edges``; these are a tuple where there are several dimensions."""

    hist: Any
    bin_edges: Any


@function()
def histogram(
    input: Tensor,
    bins: int | Tensor,
    *,
    range: Sequence[float] | None = None,
    weight: Tensor | None = None,
    density: bool = False,
) -> Histogram:
    """How many elements (or what total ``weight``) lie between neighbouring edges; the last edge belongs to its bin.

    ``bins`` are sorted edges, or the number of equal intervals of ``range`` (of the data by default). With ``density``
    the integral over the bins is one. Raises ``RuntimeError`` for integers, and for weights of another shape.

    >>> import tracejit as tj
    >>> tj.histogram(tj.tensor([1.0, 2.0, 1.0]), 4, range=(0.0, 3.0)).hist
    tensor([0., 2., 1., 0.])
    """
    if weight is not None and shape_of(weight) != shape_of(input):
        raise ShapeError(
            "histogram(): if weight tensor is provided it should have the same shape as the input tensor"
        )
    points = m.reshape(input, shape=(input.spec.numel, 1))
    found = _histogram("histogram", points, [bins], range, weight, density)
    return Histogram(found.hist, found.bin_edges[0])


@function()
def histogramdd(
    input: Tensor,
    bins: int | Sequence[int | Tensor],
    range: Sequence[float] | None = None,
    weight: Tensor | None = None,
    density: bool = False,
) -> Histogram:
    """:func:`histogram` of points, whose coordinates are the last dimension of ``input``.

    ``range`` holds the first and last edge of every dimension. Raises ``RuntimeError`` for integers, for weights of
    another shape, and where the number of ``bins`` is not that of coordinates.

    >>> import tracejit as tj
    >>> tj.histogramdd(tj.tensor([[0.0, 1.0], [1.0, 0.0]]), [2, 2]).hist
    tensor([[0., 1.],
            [1., 0.]])
    """
    if input.ndim < 2:
        raise ShapeError("histogramdd(): input tensor should have at least 2 dimensions")
    coordinates = shape_of(input)[-1]
    each = [bins] * coordinates if isinstance(bins, int) else list(bins)
    if len(each) != coordinates:
        raise ShapeError(
            f"histogramdd(): expected {coordinates} sequences of bin edges or bin counts for a "
            f"{coordinates}-dimensional histogram but got {len(each)}"
        )
    if weight is not None and shape_of(weight) != shape_of(input)[:-1]:
        raise ShapeError(
            "histogramdd(): if weight tensor is provided it should have the same shape as the input tensor "
            "excluding its innermost dimension"
        )
    rows = math.prod(shape_of(input)[:-1])
    points = m.reshape(input, shape=(rows, coordinates))
    return _histogram("histogramdd", points, each, range, weight, density)


def _histogram(
    name: str,
    points: Tensor,
    bins: Sequence[int | Tensor],
    bounds: Sequence[float] | None,
    weight: Tensor | None,
    density: bool,
) -> Histogram:
    """The histogram of the rows of ``points``."""
    dtype = points.dtype
    if dtype not in (dtypes.float32, dtypes.float64):
        raise UnsupportedDtypeError(f'"{name}_cpu" not implemented for {dtype.title!r}')
    if bounds is not None and len(bounds) != 2 * len(bins):
        raise ShapeError(
            f"{name}(): for a {len(bins)}-dimensional histogram range should have {2 * len(bins)} elements, "
            f"but got {len(bounds)}"
        )
    points = e.detach_copy(points)
    edges, place, inside = [], None, None
    for axis, count in enumerate(bins):
        values = m.reshape(_column(points, axis), shape=(shape_of(points)[0],))
        given = None if bounds is None else (bounds[2 * axis], bounds[2 * axis + 1])
        edge = e.clone(count) if is_tensor(count) else _edges(name, values, count, given)
        edges.append(edge)
        last = shape_of(edge)[0] - 1
        at = e.sub(o.search_sorted(edge, values, right=True), 1)
        at = e.where(c.eq(values, _element(edge, last)), last - 1, at)
        within = c.logical_and(c.ge(at, 0), c.lt(at, last))
        place = at if place is None else e.add(e.mul(place, last), at)
        inside = within if inside is None else c.logical_and(inside, within)
    counts = tuple(shape_of(edge)[0] - 1 for edge in edges)
    weights = constant(1, dtype, shape_of(inside))
    if weight is not None:
        weights = m.reshape(as_type(e.detach_copy(weight), dtype), shape=shape_of(inside))
    zeros = constant(0, dtype, (math.prod(counts),))
    kept = e.where(inside, place, 0)
    total = ix.put(zeros, kept, e.where(inside, weights, 0.0), dim=0, accumulate=True)
    found = m.reshape(total, shape=counts)
    return Histogram(_dense(found, edges) if density else found, tuple(edges))


def _column(points: Tensor, axis: int) -> Tensor:
    rows = shape_of(points)[0]
    return m.slice(points, starts=(0, axis), counts=(rows, 1), steps=(1, 1))


def _element(x: Tensor, index: int) -> Tensor:
    return m.slice(x, starts=(index,), counts=(1,), steps=(1,))


def _refuse_range(name: str, low: float, high: float) -> None:
    if not (
        low - low == 0 and high - high == 0
    ):  # infinite, or no number: a comparison, which any bounds pass
        raise RuntimeError(f"tracejit.{name}: range of [{low}, {high}] is not finite")
    if low > high:
        raise RuntimeError(f"tracejit.{name}: max must be larger than min")


def _range_of(name: str, values: Tensor) -> tuple[Tensor, Tensor]:
    """The smallest and the largest of a vector; ``RuntimeError`` where one is not finite."""
    low, high = (pick(values, dims=(0,), keepdim=False) for pick in (r.amin, r.amax))
    if not hold_everywhere(lambda: c.isfinite(low), lambda: c.isfinite(high), near=low):
        raise RuntimeError(f"tracejit.{name}: the range of the data is not finite")
    return low, high


def _edges(name: str, values: Tensor, count: int, bounds: tuple[float, float] | None) -> Tensor:
    """``count + 1`` evenly spaced numbers, each computed from the nearer end, between bounds that are not equal."""
    if count <= 0:
        raise RuntimeError(f"{name}(): bins must be > 0, but got {count}")
    if bounds is not None:
        _refuse_range(name, *bounds)
    dtype = values.dtype
    if bounds is not None:
        low, high = (constant(float(bound), dtype) for bound in bounds)
    elif values.spec.numel:
        low, high = _range_of(name, values)
    else:
        low, high = constant(0.0, dtype), constant(1.0, dtype)
    same = c.eq(low, high)
    low, high = e.where(same, e.sub(low, 0.5), low), e.where(same, e.add(high, 0.5), high)
    steps = as_type(s.arange(start=0, step=1, count=count + 1, dtype=dtypes.int64), dtype)
    width = e.div(e.sub(high, low), count)
    first = c.lt(steps, (count + 1) // 2)
    return e.where(
        first, e.add(low, e.mul(width, steps)), e.sub(high, e.mul(width, e.sub(count, steps)))
    )


def _dense(hist: Tensor, edges: Sequence[Tensor]) -> Tensor:
    """The share of the total per volume of each bin."""
    found = e.div(hist, r.sum(hist, dims=tuple(range(hist.ndim)), keepdim=False))
    for axis, edge in enumerate(edges):
        count = shape_of(edge)[0] - 1
        upper = m.slice(edge, starts=(1,), counts=(count,), steps=(1,))
        lower = m.slice(edge, starts=(0,), counts=(count,), steps=(1,))
        across = tuple(count if i == axis else 1 for i in range(hist.ndim))
        found = e.div(found, m.reshape(e.sub(upper, lower), shape=across))
    return found


@function()
def histc(input: Tensor, bins: int = 100, min: Number = 0, max: Number = 0) -> Tensor:
    """How many elements lie in each of ``bins`` equal intervals of [min, max] (of the data by default).

    Raises ``RuntimeError`` without bins, and for bounds (or data without bounds) that are not finite or cross.

    >>> import tracejit as tj
    >>> tj.histc(tj.tensor([1.0, 2.0, 1.0]), bins=4, min=0, max=3)
    tensor([0., 2., 1., 0.])
    """
    if bins <= 0:
        raise RuntimeError(f"tracejit.histc: bins must be > 0, but got {bins}")
    require_float("histogram_cpu", input)
    _refuse_range("histc", min, max)
    x = upcast(m.reshape(input, shape=(input.spec.numel,)))
    low, high = (constant(v, x.spec.dtype) for v in (min, max))
    if min == max:
        if input.spec.numel:
            low, high = _range_of("histc", x)
        alone = c.eq(low, high)
        low, high = e.where(alone, e.sub(low, 1), low), e.where(alone, e.add(high, 1), high)
    inside = c.logical_and(c.ge(x, low), c.le(x, high))
    place = e.floor(e.mul(e.div(e.sub(x, low), e.sub(high, low)), bins))
    index = as_type(limits.clamp_between(e.where(inside, place, 0.0), 0, bins - 1), dtypes.int64)
    zeros = constant(0, input.dtype, (bins,))
    return ix.put(zeros, index, as_type(inside, input.dtype), dim=0, accumulate=True)
