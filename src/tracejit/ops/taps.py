"""Convolutions as sums over taps: products of a weight with what each of its taps sees from a position.

Along every dimension tap t of position p sees element ``(p * stride + low + distances[t]) / spread`` of what there is.
Where the division leaves a rest it adds nothing, and where no such element is it sees zero. Convolutions have strides,
gradients of their inputs *spread* what came out: one of both is 1. See :mod:`tracejit.passes.windows.taps`, which
writes convolutions in these two ops when nothing is differentiated any more. They are no part of the op table, and have
no gradients.

``around`` says whether taps may look past the ends. Where ``gaps`` is positive, what they see there is nothing: it adds
nothing, whatever the weight is there, while zeros make nan of its infinities. To results a number for each row is
added, and they are kept between ``floor`` and ``ceiling``; nan stays.
"""

from __future__ import annotations

from inspect import Parameter
from math import inf
from typing import Any

import numpy as np

from ..types import Shape, TensorType
from .kinds import Contraction
from .op import Array

__all__ = ["UNBOUNDED", "Distances", "tap_products", "tap_weights"]

#: Attributes of `tap_products` whose results are left as they are.
UNBOUNDED = {"floor": -inf, "ceiling": inf}

#: For every dimension, how far each tap is from the first one.
Distances = tuple[tuple[int, ...], ...]


def _products_type(
    x: TensorType, w: TensorType, bias: TensorType | None = None, *, counts: Shape, **_: Any
) -> TensorType:
    return TensorType((x.shape[0], w.shape[0], *counts), x.dtype)


def _weights_type(
    x: TensorType, y: TensorType, *, distances: Distances, groups: int, **_: Any
) -> TensorType:
    taps = int(np.prod([len(d) for d in distances]))
    return TensorType((x.shape[1] * taps, y.shape[1] // groups), x.dtype)


def _windows(
    x: Array, distances: Distances, low: Shape, stride: Shape, spread: Shape, counts: Shape
) -> tuple[Array, Array, Array]:
    """What every tap sees, (samples, channels, taps, positions), where it adds something, and where something is."""
    seen: Array = x
    adds: Array = np.ones((), bool)
    there: Array = np.ones((), bool)
    rank = len(counts)
    for dim in range(rank):
        tap, position = np.array(distances[dim])[:, None], np.arange(counts[dim])
        at, rest = np.divmod(position * stride[dim] + low[dim] + tap, spread[dim])
        inside = (at >= 0) & (at < x.shape[2 + dim])
        seen = np.take(seen, np.where(inside, at, 0), 2 + 2 * dim)
        lie = [1] * (2 * rank)
        lie[2 * dim : 2 * dim + 2] = inside.shape
        adds, there = adds & (rest == 0).reshape(lie), there & inside.reshape(lie)
    order = (*range(0, 2 * rank, 2), *range(1, 2 * rank, 2))
    taps = int(np.prod([len(d) for d in distances]))
    adds, there = (mask.transpose(order).reshape(taps, -1) for mask in (adds, there))
    seen = seen.transpose(0, 1, *(2 + n for n in order)).reshape(*x.shape[:2], *there.shape)
    return np.where(adds & there, seen, x.dtype.type(0)), adds, there


def _products(
    x: Array,
    w: Array,
    bias: Array | None = None,
    *,
    groups: int,
    gaps: int,
    around: bool,
    floor: float,
    ceiling: float,
    **walk: Any,
) -> Array:
    seen, adds, there = _windows(x, **walk)
    grouped = seen.reshape(x.shape[0], groups, -1, *seen.shape[2:])
    weight = w.reshape(groups, w.shape[0] // groups, w.shape[1], -1)
    found = np.einsum("ngctp,gmct->ngmp", grouped, weight, optimize=True)
    adds = adds & there if gaps > 0 else adds
    if not adds.all() and np.isnan(found).any():
        each = np.einsum("ngctp,gmct->ngmctp", grouped, weight)
        found = np.where(adds, each, 0).sum((3, 4), dtype=x.dtype)
    found = found.reshape(x.shape[0], w.shape[0], -1)
    found = found if bias is None else found + bias[:, None]
    for bound, outside in ((floor, np.less), (ceiling, np.greater)):
        found = np.where(outside(found, bound), x.dtype.type(bound), found)
    return found.reshape(x.shape[0], w.shape[0], *walk["counts"])


def _weights(x: Array, y: Array, *, groups: int, around: bool, **walk: Any) -> Array:
    seen, *_ = _windows(x, spread=(1,) * len(walk["counts"]), **walk)
    grouped = seen.reshape(x.shape[0], groups, -1, *seen.shape[2:])
    rows = y.reshape(y.shape[0], groups, y.shape[1] // groups, y.shape[2])
    found = np.einsum("ngctp,ngmp->gctm", grouped, rows, optimize=True)
    return found.reshape(-1, y.shape[1] // groups)


_ATTRIBUTES = dict.fromkeys(
    ("distances", "low", "stride", "counts", "groups", "around"), Parameter.empty
)

tap_products = Contraction(
    name="tap_products",
    operands=("x", "w", "bias"),
    variadic=True,  # there may be no bias
    attributes=_ATTRIBUTES | dict.fromkeys(("spread", "gaps", "floor", "ceiling"), Parameter.empty),
    body=_products,
    grads={},
    infer_type=_products_type,
    doc="Of x (N, channels, *size), w (out, channels of a group, *taps) and bias (out,): (N, out, *counts).",
)

tap_weights = Contraction(
    name="tap_weights",
    operands=("x", "y"),
    variadic=False,
    attributes=_ATTRIBUTES,
    body=_weights,
    grads={},
    infer_type=_weights_type,
    doc="Of x (N, channels, *size) and y (N, out, positions): (channels and taps, out of a group).",
)
