"""The op table: one entry per op, and the composite functions made of them."""

from . import (
    comparison,
    contraction,
    convolution,
    elementwise,
    indexing,
    inverse,
    movement,
    ordering,
    pooling,
    random,
    reduction,
    resampling,
    shapes,
    source,
    table,
    transcendental,
)
from .mixin import OperatorMixin, Size, as_method

__all__ = [
    "OperatorMixin",
    "Size",
    "as_method",
    "comparison",
    "contraction",
    "convolution",
    "elementwise",
    "indexing",
    "inverse",
    "movement",
    "ordering",
    "pooling",
    "random",
    "reduction",
    "resampling",
    "shapes",
    "source",
    "table",
    "transcendental",
]
