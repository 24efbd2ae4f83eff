"""Products with a row or a column as sums: a library of matrix products packs what it multiplies, to read it once.

Before::

    graph f(x: f32[4, 9], v: f32[9]) {
        %0: f32[9, 1] = unsqueeze(v, dims=(1,))
        %1: f32[4, 1] = matmul(x, %0)
        return %1
    }

After::

    graph f(x: f32[4, 9], v: f32[9]) {
        %0: f32[9, 1] = unsqueeze(v, dims=(1,))
        %1: f32[1, 9] = permute(%0, dims=(1, 0))
        %2: f32[4, 9] = mul(x, %1)
        %3: f32[4, 1] = sum(%2, dims=(1,), keepdim=True)
        return %3
    }

One kernel computes that, with what comes before and after it. Roundings are those of a sum. So it is with a matrix and
a column (sums of its rows), a row and a matrix (sums of its columns), and a column and a row (products, added to zero
as the first term of a sum is: it has no negative zeros). A matrix that is repeated for several rows is left to the
library, which reads it once for all of them, and so is a matrix that has one row by chance: other sizes shall need no
other kernels. Decision 0037 has the figures.

In loops this comes last: a product of what every round reads is one for all rounds (:mod:`..loops.hoist`), and
then has a matrix on either side.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ...ir.builder import Builder
from ...ir.graph import Graph, Value
from ...ir.loops import body_of
from ...ops.contraction import matmul
from ...ops.movement import permute
from ..gradient.weights import Ones, ones
from ..loops.optimize import with_body
from ..loops.rewrite import Parts, rewrite_loops
from ..rewrite import Rewriter
from ..simplify.liveness import has_loops


def dots(graph: Graph) -> Graph:
    """``graph`` with products of single or double precision that have a row or a column in them as sums.

    >>> from tracejit.ir import parse
    >>> graph = parse(
    ...     "graph f(x: f32[4, 9], v: f32[9]) { %0: f32[9, 1] = unsqueeze(v, dims=(1,)) "
    ...     "%1: f32[4, 1] = matmul(x, %0) return %1 }"
    ... )
    >>> [v.op.name for v in dots(graph).values]
    ['unsqueeze', 'permute', 'mul', 'sum']
    """
    if has_loops(graph):
        graph = rewrite_loops(graph, _with_sums)
    if not any(v.op is matmul for v in graph.values):
        return graph
    known = ones(graph.inputs, graph.values)
    chosen = {v for v in graph.values if _has_vector(v, known)}
    return _Summing(graph.name, chosen).run(graph) if chosen else graph


def _with_sums(builder: Builder, loop: Value, used: set[int]) -> Parts | None:
    """The rule: a loop with sums in its rounds."""
    return with_body(builder, loop, dots(body_of(loop)))


def _has_vector(value: Value, known: Mapping[Value, Ones]) -> bool:
    """Is this a product with what is a row or a column by construction, of a matrix that is read once?"""
    if value.op is not matmul or value.spec.dtype.short not in ("f32", "f64"):
        return False
    x, y = value.value_operands
    row, column = known[x][-2], known[y][-1]
    shared = known[x][-1] or known[y][-2]  # the extent that both have
    if shared or (row and column):
        return True
    matrix = x if column else y
    return (row or column) and matrix.spec.shape[:-2] == value.spec.shape[:-2]


class _Summing(Rewriter):
    """Writes products as sums."""

    def __init__(self, name: str, chosen: Collection[Value]) -> None:
        super().__init__(name, {})
        self.chosen = chosen

    def statement(self, statement: Value, mapping: Mapping[Value, Value]) -> Value:
        """A chosen product element by element, and summed over what the operands share."""
        if statement not in self.chosen:
            return super().statement(statement, mapping)
        x, y = (mapping[v] for v in statement.value_operands)
        line = statement.line
        over: tuple[int, ...] = (statement.spec.ndim - 1,)
        if x.spec.shape[-1] == 1:
            return self.write("add", (self.write("mul", (x, y), line), 0.0), line)
        if statement.spec.shape[-1] == 1:
            y = self.turned(y)
            if statement.spec.shape == (1, 1):  # one sum, which several threads share
                over = (0, 1)
        else:
            x, over = self.turned(x), (over[0] - 1,)
        terms = self.write("mul", (x, y), line)
        return self.write("sum", (terms,), line, dims=over, keepdim=True)

    def turned(self, x: Value) -> Value:
        """The transpose of ``x``; of a transpose, what it is one of."""
        last = x.spec.ndim - 1
        order = (*range(last - 1), last, last - 1)
        if x.op is permute and x.attributes["dims"] == order:
            return x.value_operands[0]
        return self.write(permute, (x,), x.line, dims=order)
