"""Products of joined matrices: the sum of the products of their pieces, where this spares the joining.

Before::

    graph f(x: f32[2, 3], h: f32[2, 4], w: f32[7, 5]) {
        %0: f32[2, 7] = cat(x, h, dim=1)
        %1: f32[2, 5] = matmul(%0, w)
        return %1
    }

After::

    graph f(x: f32[2, 3], h: f32[2, 4], w: f32[7, 5]) {
        %0: f32[3, 5] = slice(w, starts=(0, 0), counts=(3, 5), steps=(1, 1))
        %1: f32[2, 5] = matmul(x, %0)
        %2: f32[4, 5] = slice(w, starts=(3, 0), counts=(4, 5), steps=(1, 1))
        %3: f32[2, 5] = matmul(h, %2)
        %4: f32[2, 5] = add(%1, %3)
        return %4
    }

For bodies of loops: there a copy is made in every round, and the product of the pieces that do not depend on earlier
rounds can leave the loop.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...ir.builder import Builder
from ...ir.graph import Graph, Guard, Value
from ...ops.contraction import matmul
from ...ops.elementwise import add
from ...ops.movement import cat
from ...ops.movement import slice as slice_op


def split_products(graph: Graph, returned: bool = False) -> Graph:
    """``graph`` with products of joined matrices split, where nothing else reads what was joined.

    With ``returned``, the graph may also return it: in a body, what is only collected can be joined after the loop.

    >>> from tracejit.ir import parse
    >>> graph = parse('''graph f(x: f32[2, 3], h: f32[2, 4], w: f32[7, 5]) {
    ...     %0: f32[2, 7] = cat(x, h, dim=1)
    ...     %1: f32[2, 5] = matmul(%0, w)
    ...     return %1
    ... }''')
    >>> [v.op.name for v in split_products(graph).values]
    ['slice', 'matmul', 'slice', 'matmul', 'add']
    """
    users = graph.users()
    shown: set[Value] = set() if returned else set(graph.outputs)
    joined = {
        v
        for v in graph.values
        if v.op is cat and v not in shown and all(_reads_along(u, v) for u in users.get(v, ()))
    }
    for product in graph.values:  # where both sides are joined, one is enough
        if product.op is matmul and all(x in joined for x in product.value_operands):
            joined.discard(product.value_operands[1])
    if not joined:
        return graph
    kept = set(graph.outputs)
    builder = Builder(graph.name)
    builder.inputs.extend(graph.inputs)
    mapping: dict[Value, Value] = {v: v for v in graph.inputs}
    for statement in graph.body:
        if isinstance(statement, Guard):
            builder.guard(mapping[statement.value], statement.expected, statement.line)
        elif statement.op is matmul and any(x in joined for x in statement.value_operands):
            mapping[statement] = _split(builder, statement, joined, mapping)
        elif statement not in joined or statement in kept:
            mapping[statement] = builder.copy(statement, mapping)
    return builder.finish([mapping[v] for v in graph.outputs])


def _reads_along(user: Value, value: Value) -> bool:
    """Is this a product that sums along what was joined?"""
    if user.op is not matmul:
        return False
    x, y = user.value_operands
    if x is value and y is value:
        return False
    back = 1 if x is value else 2
    return bool(value.attributes["dim"] == value.spec.ndim - back)


def _split(
    builder: Builder, product: Value, joined: set[Value], mapping: dict[Value, Value]
) -> Value:
    """The sum of the products of the pieces."""
    x, y = product.value_operands
    left = x in joined
    source, other = (x, mapping[y]) if left else (y, mapping[x])
    total: Value | None = None
    builder.line = product.line
    for piece, rows in _pieces(source):
        dim = other.spec.ndim - (2 if left else 1)
        part = _block(builder, other, dim, *rows)
        operands = (mapping[piece], part) if left else (part, mapping[piece])
        term = builder.emit(matmul, operands, {})
        total = term if total is None else builder.emit(add, (total, term), {})
    builder.line = None
    assert total is not None
    return total


def _pieces(value: Value) -> Iterator[tuple[Value, tuple[int, int]]]:
    """The pieces of a joined value, with where each starts and how long it is."""
    dim, start = value.attributes["dim"], 0
    for piece in value.value_operands:
        count = piece.spec.shape[dim]
        yield piece, (start, count)
        start = start + count


def _block(builder: Builder, value: Value, dim: int, start: int, count: int) -> Value:
    """A part of ``value`` along one dimension."""
    shape = value.spec.shape
    starts = tuple(start if d == dim else 0 for d in range(len(shape)))
    counts = (*shape[:dim], count, *shape[dim + 1 :])
    attributes = {"starts": starts, "counts": counts, "steps": (1,) * len(shape)}
    return builder.emit(slice_op, (value,), attributes)
