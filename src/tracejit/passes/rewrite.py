"""The engine of local rewrites: rules by op name, applied to every statement until none applies.

A rule looks at one value and returns an equal one, or None. What it returns is written through the engine again, so
rules combine to a fixed point in one walk over the graph. Guards stay, in order.

Outputs keep their memory: what had memory of its own before still has (``x * 1`` returned from a graph becomes a copy
of ``x``, not ``x`` itself), and outputs that were views of one value still are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..ir.builder import Builder, mapped
from ..ir.graph import Graph, Guard, Value
from ..ops.strides import may_repeat
from ..ops.table import Movement, Op, lookup
from ..types import Scalar

Operand = Value | Scalar
Line = tuple[str, int] | None
Rule = Callable[["Rewriter", Value], Value | None]
Rules = Mapping[str, Sequence[Rule]]


class Writes:
    """What is known of values that are changed part by part, one scatter over the other.

    ``present`` is the statement that is written just now, ``goes_on`` those of the old graph that a later scatter
    changes, ``shown`` new ones of which something else reads more than such a scatter wrote.
    """

    def __init__(self) -> None:
        self.present: Value | None = None
        self.goes_on: set[Value] = set()
        self.shown: set[Value] = set()


class Rewriter:
    """Writes values into a new graph, simplified by ``rules`` (by name of the op, then of its kind)."""

    def __init__(self, name: str, rules: Rules) -> None:
        self.builder = Builder(name)
        self.rules = rules
        self._by_op: dict[Op, tuple[Rule, ...]] = {}
        self.writes = Writes()

    def write(
        self, op: Op | str, operands: Sequence[Operand], /, line: Line = None, **attributes: Any
    ) -> Value:
        """The value of ``op`` on operands that are written already, or what the rules make of it."""
        entry = lookup(op) if isinstance(op, str) else op
        kinds = [x.spec if isinstance(x, Value) else x for x in operands]
        kind = entry.infer(kinds, attributes)
        return self._simplified(Value(kind, entry, tuple(operands), attributes, line=line))

    def _simplified(self, value: Value) -> Value:
        assert value.op is not None
        for rule in self._rules_for(value.op):
            found = rule(self, value)
            if found is not None:
                assert found.spec == value.spec, f"{value.op.name}: {value.spec} to {found.spec}"
                return found
        return self.builder.insert(value)

    def _rules_for(self, op: Op) -> tuple[Rule, ...]:
        found = self._by_op.get(op)
        if found is None:
            found = self._by_op[op] = (*self.rules.get(op.name, ()), *self.rules.get(op.kind, ()))
        return found

    def run(self, graph: Graph) -> Graph:
        """``graph`` with every statement written again."""
        mapping: dict[Value, Value] = {v: v for v in graph.inputs}
        self.builder.inputs.extend(graph.inputs)
        for statement in graph.body:
            if isinstance(statement, Guard):
                expected = statement.expected
                self.builder.guard(mapping[statement.value], expected, statement.line)
            else:
                mapping[statement] = self.statement(statement, mapping)
        return self.builder.finish(own_outputs(graph, mapping, self.builder))

    def statement(self, statement: Value, mapping: Mapping[Value, Value]) -> Value:
        """What a statement of the old graph becomes; ``mapping`` leads to what was written before."""
        return self._simplified(mapped(statement, mapping))


def is_view(value: Value) -> bool:
    """Does ``value`` show the memory of its operand?"""
    return isinstance(value.op, Movement) and value.op.is_view


def root(value: Value) -> Value:
    """The value whose memory a chain of views shows.

    >>> from tracejit.ir import parse
    >>> graph = parse("graph f(x: f32[2]) { %0: f32[2, 1] = unsqueeze(x, dims=(1,)) return %0 }")
    >>> root(graph.outputs[0]) is graph.inputs[0]
    True
    """
    while is_view(value):
        value = value.value_operands[0]
    return value


def own_outputs(graph: Graph, mapping: Mapping[Value, Value], builder: Builder) -> list[Value]:
    """The new outputs, each in memory of its own exactly where the old one was.

    ``mapping`` leads from the values of ``graph`` to those written by ``builder``.

    >>> from tracejit.ir import parse
    >>> graph = parse("graph f(x: f32[2]) { %0: f32[2] = mul(x, 1.0) return %0 }")
    >>> builder = Builder("f")
    >>> builder.inputs.extend(graph.inputs)
    >>> x, y = graph.inputs[0], graph.outputs[0]
    >>> own_outputs(graph, {x: x, y: x}, builder)
    [<clone: f32[2]>]
    """
    memory: dict[Value, Value] = {}  # from the old root of outputs to the new one
    owned = set(builder.inputs)
    for old in dict.fromkeys(map(root, graph.outputs)):
        new = mapping[old]
        while old.op is not None and (_repeats(new) or root(new) in owned):
            new = builder.emit(lookup("clone"), (new,), {}, old.line)
        owned.add(root(new))
        memory[old] = new
    return [_shown(old, mapping, memory, builder) for old in graph.outputs]


def _repeats(value: Value) -> bool:
    """Is this a view in which elements share a place?"""
    while is_view(value):
        assert isinstance(value.op, Movement)
        if may_repeat(value.op.strides):
            return True
        value = value.value_operands[0]
    return False


def _shown(
    old: Value, mapping: Mapping[Value, Value], memory: Mapping[Value, Value], builder: Builder
) -> Value:
    """``old``, a chain of views, on the new memory of its root."""
    base = root(old)
    if old is base:
        return memory[base]
    if root(mapping[old]) is root(memory[base]):
        return mapping[old]
    chain = []
    while old is not base:
        chain.append(old)
        old = old.value_operands[0]
    value = memory[base]
    for view in reversed(chain):
        assert view.op is not None
        value = builder.emit(view.op, (value,), view.attributes, view.line)
    return value
