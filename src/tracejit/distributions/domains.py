"""Where transforms take values from, and to: their ``domain`` and ``codomain``, constraints."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import composed, one_way
from . import constraints as c
from . import joined_transforms as j
from . import transforms as t

__all__ = ["widened"]

_MATRIX = c.independent(c.real, 2)

#: One pair for all transforms of a kind.
_FIXED: dict[type[t.Transform], tuple[c.Constraint, c.Constraint]] = {
    t.ExpTransform: (c.real, c.positive),
    t.PowerTransform: (c.positive, c.positive),
    t.SigmoidTransform: (c.real, c.unit_interval),
    t.TanhTransform: (c.real, c.interval(-1.0, 1.0)),
    t.SoftplusTransform: (c.real, c.positive),
    one_way.AbsTransform: (c.real, c.positive),
    one_way.SoftmaxTransform: (c.real_vector, c.simplex),
    j.StickBreakingTransform: (c.real_vector, c.simplex),
    j.LowerCholeskyTransform: (_MATRIX, c.lower_cholesky),
    j.PositiveDefiniteTransform: (_MATRIX, c.positive_definite),
    j.CorrCholeskyTransform: (c.real_vector, c.corr_cholesky),
}


def widened(constraint: Any, event_dim: int) -> Any:
    """The constraint, where there is one, of values of at least this many dimensions.

    >>> widened(c.real, 1), widened(c.simplex, 1)
    (IndependentConstraint(Real(), 1), Simplex())
    """
    extra = 0 if constraint is None else event_dim - constraint.event_dim
    return c.independent(constraint, extra) if extra > 0 else constraint


def _own(transform: Any) -> tuple[Any, Any]:
    """Both ends of one that takes any numbers to any numbers."""
    end = widened(c.real, transform.event_dim)
    return end, end


def _composed(transform: composed.ComposeTransform) -> tuple[Any, Any]:
    """The first domain and the last codomain, of as many dimensions as any of the parts needs there."""
    parts: list[Any] = transform.parts
    if not parts:
        return c.real, c.real
    before = after = 0
    for inner, outer in map(t.Transform._dims, reversed(parts)):
        before = max(before + inner - outer, inner)
    for inner, outer in map(t.Transform._dims, parts):
        after = max(after + outer - inner, outer)
    return widened(parts[0].domain, before), widened(parts[-1].codomain, after)


def _independent(transform: j.IndependentTransform) -> tuple[Any, Any]:
    base, count = transform.base_transform, transform.reinterpreted_batch_ndims
    return c.independent(base.domain, count), c.independent(base.codomain, count)


def _reshaped(transform: j.ReshapeTransform) -> tuple[Any, Any]:
    shapes = transform.in_shape, transform.out_shape
    before, after = (c.independent(c.real, len(shape)) for shape in shapes)
    return before, after


def _side_by_side(transform: Any) -> tuple[Any, Any]:
    ends = [p.domain for p in transform.transforms], [p.codomain for p in transform.transforms]
    if isinstance(transform, j.CatTransform):
        before, after = (c.cat(end, transform.dim, transform.lengths) for end in ends)
        return before, after
    return c.stack(ends[0], transform.dim), c.stack(ends[1], transform.dim)


#: Pairs that follow from what a transform is made of.
_OF_PARTS: dict[type[t.Transform], Callable[[Any], tuple[Any, Any]]] = {
    t.AffineTransform: _own,
    composed.ComposeTransform: _composed,
    j.IndependentTransform: _independent,
    j.ReshapeTransform: _reshaped,
    j.CumulativeDistributionTransform: lambda p: (p.distribution.support, c.unit_interval),
    j.CatTransform: _side_by_side,
    j.StackTransform: _side_by_side,
}


def _end(which: int, ends: Callable[[Any], tuple[Any, Any]]) -> property:
    return c.dependent_property(lambda transform: ends(transform)[which])


for _kind, _both in _FIXED.items():
    _kind.domain, _kind.codomain = _both
for _kind, _ends in _OF_PARTS.items():
    _kind.domain, _kind.codomain = _end(0, _ends), _end(1, _ends)
