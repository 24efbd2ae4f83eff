"""A value that decides about its gradient: differentiated again, that gives zeros for it, not nothing."""

from __future__ import annotations

from typing import Any

from ..modes import MODES
from . import promotion as p
from .elementwise import bent
from .slabs import copied
from .table import Array, elementwise


@elementwise("x", promotion=p.same_or_complex, grad=lambda g, x: bent(g, x))
def leaning(x: Array) -> Array:
    """x, which decides about its gradient."""
    return copied(x)


def leaned(x: Any) -> Any:
    """`leaning`, where it is written down."""
    if hasattr(x, "_edge") and not (MODES.grad and x.requires_grad):
        return x
    return leaning(x)
