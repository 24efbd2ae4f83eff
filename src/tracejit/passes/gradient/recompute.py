"""Recompute: what outgrows its operands is computed again where it is read much later.

Before (``weights`` follow from a product that outgrows its operands, see :mod:`.growth`)::

    scores = matmul(q, k)
    weights = exp(scores)
    out = matmul(weights, v)
    ...                             # g depends on out
    dv = matmul(weights.T, g)

After::

    scores = matmul(q, k)
    weights = exp(scores)
    out = matmul(weights, v)
    ...
    scores_again = matmul(q, k)
    weights_again = exp(scores_again)
    dv = matmul(weights_again.T, g)

For graphs with a backward pass in them: what attention keeps for it then grows with the length, not with its square.
*Much later* is whatever depends on a contraction that reads such a value. Reductions are not computed again: they are
small. Graphs that hold much memory are parted by a minimum cut instead (:mod:`.crossing`).
"""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.builder import mapped
from ...ir.graph import Graph, Statement, Value
from ...ir.loops import is_loop
from ...ops.table import Contraction
from ..fusion.groups import is_view, root
from ..simplify.liveness import live_part
from .crossing import crossing
from .growth import follows, outgrows
from .partition import is_call

#: For values the others that must be complete before them although they do not read them.
Order = dict[Value, tuple[Value, ...]]


def recompute(graph: Graph) -> tuple[Graph, Order]:
    """``graph`` with large products computed again for what reads them late, and what must be complete by then.

    >>> from tracejit.ir import parse
    >>> graph = parse('''graph f(q: f32[2, 64, 4], k: f32[2, 4, 64], v: f32[2, 64, 4]) {
    ...     %0: f32[2, 64, 64] = matmul(q, k)
    ...     %1: f32[2, 64, 4] = matmul(%0, v)
    ...     %2: f32[2, 64, 4] = matmul(%0, %1)
    ...     return %2
    ... }''')
    >>> [v.op.name for v in recompute(graph)[0].values]
    ['matmul', 'matmul', 'matmul', 'matmul']
    """
    found, calls = crossing(graph)
    if calls:
        return _Rewriting(graph, dict.fromkeys(calls, found), calls).run()
    values = list(graph.values)
    late: dict[Value, set[Value]] = {}
    awaited: Order = {}
    for number, value in enumerate(values):
        if outgrows(value):
            family, readers = _family(value, values[number + 1 :])
            for reader, needs in readers.items():
                late.setdefault(reader, set()).update(family)
                awaited[reader] = needs
    return _Rewriting(graph, late, awaited).run() if late else (graph, {})


def _family(product: Value, following: Sequence[Value]) -> tuple[set[Value], Order]:
    """What elementwise ops make of a product before a contraction reads it, and what reads that afterwards."""
    family = {product}
    after: set[Value] = set()
    readers: Order = {}
    for value in following:
        sources = [root(x) for x in value.value_operands]
        reads = any(x in family for x in sources)
        late = tuple(x for x in sources if x in after)
        if late:
            after.add(value)
            if reads and not is_view(value):
                readers[value] = late
        elif reads and (isinstance(value.op, Contraction) or is_loop(value)):
            after.add(value)
        elif reads and follows(value, family):
            family.add(value)
    return family, readers


class _Rewriting:
    """Writes the graph with copies for late readers; equal statements stay apart."""

    def __init__(self, graph: Graph, late: dict[Value, set[Value]], awaited: Order) -> None:
        self.graph = graph
        self.late = late
        self.awaited = awaited
        self.order: Order = {}
        self.body: list[Statement] = []
        self.mapping: dict[Value, Value] = {v: v for v in graph.inputs}
        self.again: dict[Value, Value] = {}

    def run(self) -> tuple[Graph, Order]:
        """The new graph, and what must be complete before products are computed again."""
        for value in self.graph.values:
            family = self.late.get(value, set())
            changed = {
                x: self.anew(x, family, value) for x in value.value_operands if root(x) in family
            }
            self.mapping[value] = self.add(mapped(value, {**self.mapping, **changed}))
        outputs = [self.mapping[v] for v in self.graph.outputs]
        return rewritten(self.graph, self.body, outputs, self.order)

    def add(self, value: Value) -> Value:
        self.body.append(value)
        return value

    def anew(self, value: Value, family: set[Value], reader: Value) -> Value:
        """``value`` computed once more for ``reader``, from what is not in ``family``."""
        waiting = [value]
        while waiting:
            top = waiting[-1]
            if top in self.again:
                waiting.pop()
                continue
            own = [x for x in top.value_operands if root(x) in family]
            missing = [x for x in own if x not in self.again]
            if missing:
                waiting += missing
                continue
            waiting.pop()
            changed = {x: self.again[x] for x in own}
            copy = self.again[top] = self.add(again(top, {**self.mapping, **changed}))
            waits_for_calls = all(map(is_call, self.awaited[reader]))
            if is_call(top) or (waits_for_calls and not is_view(top)):
                self.order[copy] = tuple(self.mapping[x] for x in self.awaited[reader])
        return self.again[value]


def rewritten(
    graph: Graph, body: Sequence[Statement], outputs: Sequence[Value], order: Order
) -> tuple[Graph, Order]:
    """``graph`` with another body: what is live of it, and of ``order``."""
    found = live_part(Graph(graph.name, graph.inputs, tuple(body), tuple(outputs)))
    left = set(found.values)  # what only late readers read is gone where it first stood
    kept = {v: tuple(x for x in xs if x in left) for v, xs in order.items() if v in left}
    return found, kept


def again(value: Value, mapping: dict[Value, Value]) -> Value:
    """Another value computed as ``value`` is, on the mapped operands."""
    operands = tuple(mapping[x] if isinstance(x, Value) else x for x in value.operands)
    new = Value(value.spec, value.op, operands, value.attributes, line=value.line)
    new.attribute_key = value.attribute_key
    return new
