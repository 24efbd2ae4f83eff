"""Values that kernels of their own compute, in a form that no fusion knows: which printer is whose."""

from __future__ import annotations

from collections.abc import Callable

from ...ir.graph import Value
from ..kernel import KernelCode
from ..nest import Layout
from .along import goes_along, write_along
from .complex import copies_pairs, write_pairs
from .search import searches, write_searches

__all__ = ["Writer", "writer_of"]

#: Prints the kernel of a value into memory that lies like this, from operands that lie as they are asked for.
Writer = Callable[[Value, Layout, Callable[[Value], Layout]], KernelCode]

_WRITERS: tuple[tuple[Callable[[Value], bool], Writer], ...] = (
    (goes_along, write_along),
    (searches, write_searches),
    (copies_pairs, write_pairs),
)


def writer_of(value: Value) -> Writer | None:
    """What prints the kernel of a value that has one of its own; None for all others.

    >>> from tracejit.ir import parse
    >>> graph = parse("graph f(x: f32[9]) { %0: f32[9] = cumsum(x, dim=0)  %1: f32[9] = exp(x)  return %0, %1 }")
    >>> [writer_of(value) is not None for value in graph.outputs]
    [True, False]
    """
    return next((write for belongs, write in _WRITERS if belongs(value)), None)
