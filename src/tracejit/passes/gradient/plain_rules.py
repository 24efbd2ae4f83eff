"""Graphs without gradient rules of their own (:mod:`tracejit.ir.rules`), once these have been followed.

Before::

    graph f(x: f32[2]) {
        %0: f32[2] = sign(x)
        %1: f32[2] = stand_in(%0)
        %2: f32[] = rule(%1, %0, x, %1, outputs=1, inputs=1)
        %3: f32[2] = ruled(%0, %2, index=0)
        return %3
    }

After::

    graph f(x: f32[2]) {
        %0: f32[2] = sign(x)
        return %0
    }
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ...ir.builder import Builder, mapped
from ...ir.graph import Graph, Guard, Statement, Value
from ...ir.rules import rule, ruled
from ..simplify.dead_code import live_values


@dataclass(frozen=True, eq=False)
class WithoutRules:
    """A graph whose rules are gone, and where its values went."""

    graph: Graph
    mapping: Mapping[Value, Value]

    def restored(self, grown: Graph, original: Graph) -> Graph:
        """``grown``, which is ``graph`` and more, with the statements of ``original`` instead of those of ``graph``."""
        back: dict[Value, Value] = {}
        for old, new in self.mapping.items():
            if old.op is not ruled:
                back.setdefault(new, old)
        known = {*self.graph.inputs, *self.graph.values}
        body: list[Statement] = list(original.body)
        for value in grown.values:
            if value not in known:
                new = mapped(value, back)
                back[value] = new
                body.append(new)
        count = len(self.graph.outputs)
        outputs = (*original.outputs, *(back[v] for v in grown.outputs[count:]))
        return Graph(original.name, original.inputs, tuple(body), outputs)


def has_rules(graph: Graph) -> bool:
    """Is there a function with a rule of its own?"""
    return any(v.op is rule for v in graph.values)


def without_rules(graph: Graph) -> WithoutRules:
    """``graph`` with what rules are of in place of what they rule, and without what only rules read.

    >>> from tracejit.ir import parse
    >>> text = "graph f(x: f32[2]) { %0: f32[2] = exp(x) %1: f32[2] = stand_in(%0) "
    >>> text += "%2: f32[] = rule(%1, %0, x, %1, outputs=1, inputs=1) %3: f32[2] = ruled(%0, %2, index=0) return %3 }"
    >>> [v.op.name for v in without_rules(parse(text)).graph.values]
    ['exp']
    """
    builder = Builder(graph.name)
    builder.inputs.extend(graph.inputs)
    mapping: dict[Value, Value] = {v: v for v in graph.inputs}
    for statement in graph.body:
        if isinstance(statement, Guard):
            builder.guard(mapping[statement.value], statement.expected, statement.line)
        elif statement.op is ruled:
            mapping[statement] = mapping[statement.value_operands[0]]
        else:
            mapping[statement] = builder.copy(statement, mapping)
    written = builder.finish([mapping[v] for v in graph.outputs])
    live = live_values(written)
    body = tuple(s for s in written.body if isinstance(s, Guard) or s in live)
    left = {old: new for old, new in mapping.items() if new in live or new.op is None}
    return WithoutRules(Graph(graph.name, graph.inputs, body, written.outputs), left)
