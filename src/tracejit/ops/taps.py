"""Convolutions over flat memory: products of a weight's taps with what lies at fixed distances from a position.

What tap t sees from a position is the element ``offsets[t]`` further on. Positions are a box of extents ``counts``,
whose dimensions walk the memory in ``steps``, the last one element by element. Strides, dilation and padding are in the
offsets: see :mod:`tracejit.passes.windows.taps`, which writes convolutions in these two ops when nothing is
differentiated any more. They are no part of the op table, and have no gradients.

Where ``gaps`` is positive, negative zeros in the memory of ``tap_products`` are places where there is nothing: they add
nothing, whatever the weight is there, while other zeros make nan of its infinities.
"""

from __future__ import annotations

from inspect import Parameter
from typing import Any

import numpy as np

from ..types import Shape, TensorType
from .kinds import Contraction
from .op import Array

__all__ = ["tap_products", "tap_weights"]


def _products_type(
    x: TensorType,
    w: TensorType,
    *,
    offsets: Shape,
    counts: Shape,
    steps: Shape,
    groups: int,
    gaps: int,
) -> TensorType:
    return TensorType((x.shape[0], w.shape[0], *counts), x.dtype)


def _weights_type(
    x: TensorType, y: TensorType, *, offsets: Shape, counts: Shape, steps: Shape, groups: int
) -> TensorType:
    return TensorType((x.shape[1] * len(offsets), y.shape[1] // groups), x.dtype)


def _windows(x: Array, offsets: Shape, counts: Shape, steps: Shape, groups: int) -> Array:
    """What every tap sees: (samples, groups, channels, taps, positions)."""
    samples, channels = x.shape[:2]
    strides = (*x.strides[:2], *(s * x.itemsize for s in steps))
    shape = (samples, channels, *counts)
    seen = [
        np.lib.stride_tricks.as_strided(x[:, :, at:], shape, strides).reshape(*shape[:2], -1)
        for at in offsets
    ]
    return np.stack(seen, 2).reshape(samples, groups, channels // groups, len(offsets), -1)


def _products(x: Array, w: Array, *, gaps: int, **attributes: Any) -> Array:
    groups, counts = attributes["groups"], attributes["counts"]
    seen = _windows(np.ascontiguousarray(x), **attributes)
    weight = w.reshape(groups, w.shape[0] // groups, w.shape[1], -1)
    found = np.einsum("ngctp,gmct->ngmp", seen, weight, optimize=True)
    if gaps > 0 and np.isnan(found).any():
        each = np.einsum("ngctp,gmct->ngmctp", seen, weight)
        nothing = (seen == 0) & np.signbit(seen)
        found = np.where(nothing[:, :, None], 0, each).sum((3, 4), dtype=x.dtype)
    return found.reshape(x.shape[0], w.shape[0], *counts)


def _weights(x: Array, y: Array, **attributes: Any) -> Array:
    groups = attributes["groups"]
    seen = _windows(np.ascontiguousarray(x), **attributes)
    rows = y.reshape(y.shape[0], groups, y.shape[1] // groups, y.shape[2])
    found = np.einsum("ngctp,ngmp->gctm", seen, rows, optimize=True)
    return found.reshape(-1, y.shape[1] // groups)


_ATTRIBUTES = dict.fromkeys(("offsets", "counts", "steps", "groups"), Parameter.empty)

tap_products = Contraction(
    name="tap_products",
    operands=("x", "w"),
    variadic=False,
    attributes={**_ATTRIBUTES, "gaps": Parameter.empty},
    body=_products,
    grads={},
    infer_type=_products_type,
    doc="Of x (N, channels, memory) and w (out, channels of a group, *taps): (N, out, *counts).",
)

tap_weights = Contraction(
    name="tap_weights",
    operands=("x", "y"),
    variadic=False,
    attributes=_ATTRIBUTES,
    body=_weights,
    grads={},
    infer_type=_weights_type,
    doc="Of x (N, channels, memory) and y (N, out, positions): (channels and taps, out of a group).",
)
