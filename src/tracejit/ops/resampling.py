"""Resampling along a dimension: every result is a weighted sum of a few elements at fixed places."""

# mypy: disable-error-code="has-type"
# (gradient rules name ops that are declared by the very decorator they stand in)

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from ..errors import DimensionError, ShapeError
from ..types import TensorType
from .namespace import wide, xp
from .table import Array, Sample, contraction

Places = tuple[
    tuple[int, ...], ...
]  # one row per term, one place per result; -1: the term is left out
Weights = tuple[tuple[float, ...], ...]


@lru_cache(maxsize=256)
def transposed(places: Places, weights: Weights, size: int) -> tuple[Places, Weights]:
    """The places and weights by which results go back to the ``size`` elements they were made of.

    >>> transposed(((0, 0, 1),), ((1.0, 1.0, 1.0),), 2)
    (((0, 2), (1, -1)), ((1.0, 1.0), (1.0, 0.0)))
    """
    uses: list[list[tuple[int, float]]] = [[] for _ in range(size)]
    for row, factors in zip(places, weights, strict=True):
        for result, (place, factor) in enumerate(zip(row, factors, strict=True)):
            if place >= 0:
                uses[place].append((result, factor))
    terms = max((len(use) for use in uses), default=1) or 1
    filled = [use + [(-1, 0.0)] * (terms - len(use)) for use in uses]
    columns = [list(column) for column in zip(*filled, strict=True)] or [[]]
    return (
        tuple(tuple(place for place, _ in column) for column in columns),
        tuple(tuple(factor for _, factor in column) for column in columns),
    )


def _mixed_type(x: TensorType, *, dim: int, places: Places, weights: Weights) -> TensorType:
    counts = {len(row) for row in (*places, *weights)}
    if len(counts) != 1 or len(places) != len(weights):
        raise ShapeError("mix_along: places and weights are rows of one length")
    largest = max((place for row in places for place in row), default=-1)
    if largest >= x.shape[dim]:
        raise DimensionError(f"mix_along: place {largest} is not within {x} at dimension {dim}")
    return TensorType((*x.shape[:dim], len(places[0]), *x.shape[dim + 1 :]), x.dtype)


def _mix_grad(g: Any, x_type: TensorType, dim: int, places: Places, weights: Weights) -> Any:
    back = transposed(places, weights, int(x_type.shape[dim]))
    return mix_along(g, dim=dim, places=back[0], weights=back[1])


@contraction(
    _mixed_type,
    total=True,
    grad=lambda g, x_type, dim, places, weights: _mix_grad(g, x_type, dim, places, weights),
    samples=(
        Sample(((2, 3),), {"dim": 1, "places": ((0, 2, 2, 1),), "weights": ((1.0,) * 4,)}),
        Sample(
            ((3, 2),),
            {"dim": 0, "places": ((0, 1), (2, -1)), "weights": ((0.25, 2.0), (-1.5, 1.0))},
        ),
        Sample(((0, 2),), {"dim": 1, "places": ((1,),), "weights": ((0.5,),)}),
        Sample(
            ((2, 3),), {"dim": 1, "places": ((3,),), "weights": ((1.0,),)}, IndexError, "not within"
        ),
    ),
)
def mix_along(x: Array, *, dim: int, places: Places, weights: Weights) -> Array:
    """Result i along ``dim`` is the sum over terms t of x at ``places[t][i]`` times ``weights[t][i]``."""
    n, source = xp(x), wide(x)
    total: Any = None
    for row, factors in zip(places, weights, strict=True):
        where = n.asarray(row, np.intp)
        # On a device every position wraps.
        term = source.take(where, dim, mode="wrap") if n is np else source.take(where, dim)
        if any(factor != 1.0 for factor in factors):
            shape = tuple(len(row) if d == dim else 1 for d in range(x.ndim))
            term *= n.asarray(factors, source.dtype).reshape(shape)
        missing = [i for i, place in enumerate(row) if place < 0]
        if missing:
            term[(np.s_[:],) * dim + (missing,)] = 0
        total = term if total is None else n.add(total, term, out=total)
    return total.astype(x.dtype, copy=False)
