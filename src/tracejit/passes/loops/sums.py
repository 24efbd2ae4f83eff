"""Sums over rounds: what a loop only adds up is added up after it, products by one product over all rounds.

Before (of the body, and around it)::

    %0: loop(f32[8, 8], f32[4, 8]) = loop(%start, g, w, hs, count=5, carried=2, items=1)
        graph round_backward(sum1: f32[8, 8], g: f32[4, 8], w: f32[8, 8], h: f32[4, 8]) {
            %0: f32[8, 4] = permute(h, dims=(1, 0))
            %1: f32[8, 8] = matmul(%0, g)
            %2: f32[8, 8] = add(sum1, %1)
            %3: f32[4, 8] = matmul(g, w)
            return %2, %3
        }

After, ``g`` is collected instead::

    %0: loop(f32[4, 8], f32[5, 4, 8]) = loop(g, w, count=5, carried=1, items=0)
        graph round_backward(g: f32[4, 8], w: f32[8, 8]) {
            %0: f32[4, 8] = matmul(g, w)
            return %0, g
        }
    %1: f32[20, 8] = reshape(hs, shape=(20, 8))
    %2: f32[8, 20] = permute(%1, dims=(1, 0))
    %3: f32[5, 4, 8] = part(%0, index=1)
    %4: f32[20, 8] = reshape(%3, shape=(20, 8))
    %5: f32[8, 8] = matmul(%2, %4)

Weight gradients of recurrences have this form; bias gradients, which sum over rows, join in. Sums of anything else stay
in the loop, where they take no memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from ...ir.builder import Builder
from ...ir.graph import Graph, Value
from ...ir.loops import is_open
from ...ops.contraction import matmul
from ...ops.elementwise import add, clone
from ...ops.movement import cat, permute, reshape, slice_scatter
from ...ops.reduction import sum as sum_op
from ...ops.shapes import numel
from ...types import Shape
from ..products.joins import is_plain_sum, is_zero, terms_of
from ..rewrite import is_view
from ..simplify.dead_code import dead_code
from .afterwards import Afterwards, Written
from .draft import Draft
from .rewrite import Parts, rewrite_loops
from .stacks import constant_like, is_flipped, uniform

#: Writes the sum of a value over all rounds.
Total = Callable[[Written], Value]


def sums(graph: Graph) -> Graph:
    """``graph`` with sums of products and of rows taken over all rounds at once, after its loops.

    >>> from tracejit.ir import parse
    >>> graph = parse('''graph f(s: f32[], xs: f32[5, 3]) {
    ...     %0: loop(f32[]) = loop(s, xs, count=5, carried=1, items=1)
    ...         graph round(s: f32[], x: f32[3]) {
    ...             %0: f32[] = sum(x, dims=(0,), keepdim=False)
    ...             %1: f32[] = add(s, %0)
    ...             return %1
    ...         }
    ...     %1: f32[] = part(%0, index=0)
    ...     return %1
    ... }''')
    >>> [v.op.name for v in sums(graph).values]
    ['sum', 'add']
    """
    return dead_code(rewrite_loops(dead_code(graph), _summed))


def _summed(builder: Builder, loop: Value, used: set[int]) -> Parts | None:
    """The rule: a loop without the sums that are taken after it."""
    if is_open(loop):  # nobody knows for how many rounds
        return None
    plan = _Sums(Afterwards(loop))
    plan.choose(sorted(i for i in used if i < loop.attributes["carried"]))
    return plan.write(builder) if any(plan.totals.values()) else None


class _Sums:
    """Chooses terms of sums to be added up after the loop."""

    def __init__(self, after: Afterwards) -> None:
        self.after = after
        self.graph = after.graph
        self.users = self.graph.users()
        self.shown = Counter(self.graph.outputs)
        self.terms: dict[int, list[Value]] = {}  # those that stay
        self.totals: dict[int, list[Total]] = {}

    def choose(self, positions: Sequence[int]) -> None:
        """Take terms of the carried values at ``positions``: products first, for these decide what is collected."""
        for position in positions:
            found = self.added(position)
            if found is not None:
                self.terms[position] = found
        for kind in (matmul, None):
            for position, terms in self.terms.items():
                stay = []
                for term in terms:
                    is_kind = kind is None or _core(term).op is kind
                    total = self.total(term) if is_kind else None
                    if total is None:
                        stay.append(term)
                    else:
                        self.totals.setdefault(position, []).append(total)
                self.terms[position] = stay

    def added(self, position: int) -> list[Value] | None:
        """What a round adds to a carried value, if that is all it does with it."""
        value, last = self.graph.inputs[position], self.graph.outputs[position]
        terms: list[Value] = []
        while value is not last:
            users = self.users.get(value, [])
            if len(users) != 1 or self.shown[value] or not is_plain_sum(users[0]):
                return None
            a, b = users[0].value_operands
            terms += terms_of(b if a is value else a)
            value = users[0]
        if not terms or self.users.get(value) or self.shown[value] != 1:
            return None
        return terms

    # --- one term ------------------------------------------------------------------------------------------------

    def total(self, term: Value) -> Total | None:
        """How the sum of a term over all rounds is written, None if it stays in the loop."""
        if not term.dtype.is_floating_point or not self.after.is_stack(term):
            return None
        if is_view(term) or term.op is clone:
            return self.shown_as(term)
        if _adds_nothing(term):
            return self.total(term.value_operands[0])
        if term.op in (cat, slice_scatter):
            return self.joined(term)
        if term.op is matmul:
            return self.product(term, merged=False)
        if term.op is sum_op:
            return self.rows(term)
        if not self.after.computable(term):
            return None
        return lambda written: _sum(written, written.in_memory(term), ())

    def shown_as(self, term: Value) -> Total | None:
        """A view of the sum is the sum of views."""
        inner = self.total(term.value_operands[0])
        if inner is None:
            return None
        if term.op is reshape:
            return lambda written: _reshaped(written, inner(written), term.spec.shape)
        op = term.op
        assert op is not None
        return lambda written: written.builder.emit(op, (inner(written),), term.attributes)

    def joined(self, term: Value) -> Total | None:
        """Pieces side by side add up side by side."""
        zeros = [x for x in term.value_operands if is_zero(x)]
        others = [x for x in term.value_operands if not is_zero(x)]
        inner = {x: self.total(x) for x in others}
        if (term.op is slice_scatter and len(zeros) != 1) or not all(inner.values()):
            return None

        def write(written: Written) -> Value:
            builder, op = written.builder, term.op
            assert op is not None
            operands = [
                constant_like(builder, 0, x.spec) if total is None else total(written)
                for x, total in ((x, inner.get(x)) for x in term.value_operands)
            ]
            return builder.emit(op, operands, term.attributes, term.line)

        return write

    def rows(self, term: Value) -> Total | None:
        """The sum of a sum: along the rounds as well."""
        (source,) = term.value_operands
        dims = term.attributes["dims"]
        if source.op is matmul and dims == tuple(range(source.spec.ndim - 2)):
            product = self.product(source, merged=True)
            if product is not None:
                return lambda written: _reshaped(written, product(written), term.spec.shape)
        if not self.after.feasible([source]):
            return None
        self.after.collect([source])
        return lambda written: _reshaped(
            written, _sum(written, written.in_memory(source), dims), term.spec.shape
        )

    def product(self, value: Value, merged: bool) -> Total | None:
        """The sum of products of matrices is the product of the matrices side by side; of batches too if ``merged``."""
        x, y = value.value_operands
        if x.spec.shape[:-2] != y.spec.shape[:-2]:
            return None
        transposed = x.op is permute and x.attributes["dims"] == _last_two(x.spec.ndim)
        left = x.value_operands[0] if transposed else x
        if not self.after.feasible([left, y]):
            return None
        self.after.collect([left, y])
        kept = 0 if merged else x.spec.ndim - 2

        def write(written: Written) -> Value:
            first, second = written.in_memory(left), written.in_memory(y)
            if not transposed:
                first = _transposed(written, first)
            first = _transposed(written, _side_by_side(written, first, kept))
            operands = (first, _side_by_side(written, second, kept))
            return written.builder.emit(matmul, operands, {}, value.line)

        return write

    # --- the loop ------------------------------------------------------------------------------------------------

    def write(self, builder: Builder) -> Parts:
        """The loop without the terms taken out."""
        loop = self.after.loop
        inner = Builder(self.graph.name)
        inner.adopt(self.graph)
        draft = Draft.of(loop)
        outputs: list[Value] = []
        positions: dict[int, int] = {}
        for position, value in enumerate(self.graph.inputs[: self.after.carried]):
            output = self.graph.outputs[position]
            if position in self.totals:
                output = value
                for term in self.terms[position]:
                    output = inner.emit(add, (output, term), {}, loop.line)
                if output is value:
                    del draft.starts[value]
                    continue
            positions[position] = len(outputs)
            outputs.append(output)
        statements = [v for v in inner.body if isinstance(v, Value)]
        written = self.after.write(builder, draft, statements, outputs)

        def part(index: int) -> Value:
            if index >= self.after.carried:
                return written.part(written.positions[self.graph.outputs[index]])
            found = written.part(positions[index]) if index in positions else None
            start = loop.value_operands[index] if found is None else found
            if index not in self.totals:
                return start
            totals = [total(written) for total in self.totals[index]]
            if found is not None or uniform(start) != 0:
                totals.insert(0, start)
            total, *rest = totals
            for more in rest:
                total = builder.emit(add, (total, more), {}, loop.line)
            return total

        return part


def _core(term: Value) -> Value:
    """What a term is a view of, or a sum of rows of."""
    while True:
        if term.op is cat or term.op is slice_scatter:
            term = term.value_operands[-1]
        elif is_view(term) or term.op in (clone, sum_op) or _adds_nothing(term):
            term = term.value_operands[0]
        else:
            return term


def _adds_nothing(value: Value) -> bool:
    """Is this a value plus zero?"""
    return value.op is add and not isinstance(value.operands[1], Value) and value.operands[1] == 0


def _last_two(ndim: int) -> tuple[int, ...]:
    return (*range(ndim - 2), ndim - 1, ndim - 2)


def _transposed(written: Written, x: Value) -> Value:
    dims = _last_two(x.spec.ndim)
    if x.op is permute and x.attributes["dims"] == dims:
        return x.value_operands[0]
    return written.builder.emit(permute, (x,), {"dims": dims})


def _reshaped(written: Written, x: Value, shape: Shape) -> Value:
    while x.op is reshape:
        x = x.value_operands[0]
    return x if x.spec.shape == shape else written.builder.emit(reshape, (x,), {"shape": shape})


def _sum(written: Written, stack: Value, dims: Shape) -> Value:
    """The sum of a stack along its rounds and ``dims`` of each; the order of rounds does not matter."""
    if is_flipped(stack):
        stack = stack.value_operands[0]
    attributes = {"dims": (0, *(d + 1 for d in dims)), "keepdim": False}
    return written.builder.emit(sum_op, (stack,), attributes)


def _side_by_side(written: Written, stack: Value, kept: int) -> Value:
    """The matrices of a stack below each other; ``kept`` dimensions before the matrices stay, other ones merge too."""
    count, *shape = stack.spec.shape
    *batch, rows, columns = shape
    if kept:
        dims = (*range(1, kept + 1), 0, kept + 1, kept + 2)
        stack = written.builder.emit(permute, (stack,), {"dims": dims})
        return _reshaped(written, stack, (*batch, count * rows, columns))
    return _reshaped(written, stack, (count * numel(batch) * rows, columns))
