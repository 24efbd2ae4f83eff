"""The op table: one entry per op, and the composite functions made of them."""

from . import (
    contraction,
    elementwise,
    inverse,
    movement,
    reduction,
    shapes,
    source,
    table,
)
from .mixin import OperatorMixin, Size, as_method

__all__ = [
    "OperatorMixin",
    "Size",
    "as_method",
    "contraction",
    "elementwise",
    "inverse",
    "movement",
    "reduction",
    "shapes",
    "source",
    "table",
]
