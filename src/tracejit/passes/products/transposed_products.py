"""Transposed products: compute the product of the transposes instead.

Views of operands are free; copies of results, and kernels that read a result across its rows, are not.

Before::

    graph f(x: f32[2, 3], y: f32[3, 4]) {
        %0: f32[2, 4] = matmul(x, y)
        %1: f32[4, 2] = permute(%0, dims=(1, 0))
        %2: f32[4, 2] = clone(%1)
        return %2
    }

After::

    graph f(x: f32[2, 3], y: f32[3, 4]) {
        %0: f32[4, 3] = permute(y, dims=(1, 0))
        %1: f32[3, 2] = permute(x, dims=(1, 0))
        %2: f32[4, 2] = matmul(%0, %1)
        return %2
    }

Every element is the same sum of the same products. The weight gradient of a linear layer has this form.
"""

from __future__ import annotations

from ...ir.builder import Builder
from ...ir.graph import Graph, Guard, Value
from ...ops.contraction import matmul
from ...ops.movement import permute


def transposed_products(graph: Graph) -> Graph:
    """``graph`` with transposed products computed as such.

    >>> from tracejit.ir import parse
    >>> graph = parse(
    ...     "graph f(x: f32[2, 3], y: f32[3, 4]) { %0: f32[2, 4] = matmul(x, y) "
    ...     "%1: f32[4, 2] = permute(%0, dims=(1, 0)) %2: f32[4, 2] = clone(%1) return %2 }"
    ... )
    >>> [v.op.name for v in transposed_products(graph).values]
    ['permute', 'permute', 'matmul']
    """
    users = graph.users()
    shown = set(graph.outputs)
    found = {v: product for v in graph.values if (product := _product(v, users, shown)) is not None}
    if not found:
        return graph
    dropped = set(found.values())
    own = found.keys() & shown  # views whose memory is an output's own
    builder = Builder(graph.name)
    builder.inputs.extend(graph.inputs)
    mapping: dict[Value, Value] = {v: v for v in graph.inputs}
    for statement in graph.body:
        if isinstance(statement, Guard):
            builder.guard(mapping[statement.value], statement.expected, statement.line)
        elif statement in found:
            mapping[statement] = _transposed(builder, found[statement], mapping)
        elif (view := _copied(statement, found)) is not None and view not in own:
            mapping[statement] = mapping[view]
            if statement in shown:
                own.add(view)
        elif statement not in dropped:
            mapping[statement] = builder.copy(statement, mapping)
    return builder.finish([mapping[v] for v in graph.outputs])


def _product(view: Value, users: dict[Value, list[Value]], shown: set[Value]) -> Value | None:
    """The product that ``view`` is the transpose of, if nothing else reads it and more than products read ``view``."""
    if view.op is not permute:
        return None
    product = view.value_operands[0]
    if product.op is not matmul or len(users[product]) != 1 or product in shown:
        return None
    if view not in shown and all(v.op is matmul for v in users.get(view, ())):
        return None  # a product reads either layout
    ndim = product.spec.ndim
    return product if view.attributes["dims"] == (*range(ndim - 2), ndim - 1, ndim - 2) else None


def _copied(value: Value, views: dict[Value, Value]) -> Value | None:
    """The one of ``views`` that ``value`` is a copy of."""
    if value.op is None or value.op.name != "clone":
        return None
    view = value.value_operands[0]
    return view if view in views else None


def _transposed(builder: Builder, product: Value, mapping: dict[Value, Value]) -> Value:
    """The product of the transposes, the other way round."""
    sides = []
    for operand in reversed(product.value_operands):
        x = mapping[operand]
        ndim = x.spec.ndim
        dims = (*range(ndim - 2), ndim - 1, ndim - 2)
        if x.op is permute and x.attributes["dims"] == dims:
            sides.append(x.value_operands[0])
        else:
            sides.append(builder.emit(permute, (x,), {"dims": dims}, product.line))
    return builder.emit(matmul, sides, {}, product.line)
