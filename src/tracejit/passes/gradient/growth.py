"""Products that outgrow their operands: the scores of an attention.

A product of (L, E) and (E, S) matrices with E much smaller than L and S costs little more than writing its result and
reading it again. So it is better computed twice than kept, if that makes what is kept smaller; where a batch of them is
gone through matrix by matrix (:mod:`tracejit.runtime.tiled.tile_runs`), the second result never leaves the cache.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...extents import hint
from ...ir.graph import Value
from ...ops.contraction import matmul
from ...ops.table import Elementwise
from ..fusion.groups import root

#: How many times larger than both operands together.
GROWTH = 1


def outgrows(value: Value) -> bool:
    """Is this a batch of products, each much larger than what it is made of?

    >>> from tracejit.ir import parse
    >>> text = "graph f(q: f32[8, 64, 4], k: f32[8, 4, 64]) { %0: f32[8, 64, 64] = matmul(q, k) return %0 }"
    >>> outgrows(parse(text).body[0])
    True
    """
    if value.op is not matmul or value.spec.ndim < 3:
        return False
    x, y = value.value_operands
    rows, inner = map(hint, x.spec.shape[-2:])
    columns = hint(y.spec.shape[-1])
    return bool(rows * columns >= GROWTH * inner * (rows + columns))


def grown(values: Iterable[Value]) -> set[Value]:
    """Products that outgrow their operands, and what elementwise ops make of them."""
    found: set[Value] = set()
    for value in values:
        if outgrows(value) or follows(value, found):
            found.add(value)
    return found


def follows(value: Value, found: set[Value]) -> bool:
    """Does an elementwise op make ``value`` of one of ``found``, all of it, that is no smaller?"""
    if not isinstance(value.op, Elementwise) or value.op.scalar is None:
        return False
    count = hint(value.spec.numel)
    sources = map(root, value.value_operands)
    return any(x in found and hint(x.spec.numel) == count for x in sources)
