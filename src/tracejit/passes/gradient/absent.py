"""Gradients where some outputs were given none: what only they reach is left out, as eager execution does not visit it.

Computing it with zeros instead would give gradients to inputs that get none, and ``nan`` where a factor is infinite.

    before (g0 absent)                    after
    %0: f32[2] = div(g0, x)
    %1: f32[2] = mul(g1, 2.0)             %0: f32[2] = mul(g1, 2.0)
    %2: f32[2] = add(%0, %1)
    return %2, %0                         return %0
"""

from __future__ import annotations

from collections.abc import Collection
from itertools import islice

from ...ir.builder import Builder
from ...ir.graph import Graph, Value
from ...ir.loops import is_loop, part
from ...ir.rules import RULE_OPS
from ...ops.elementwise import add, detach_copy
from ...ops.source import full
from ..fusion.groups import is_view
from ..simplify.dead_code import live_values


def without(
    graph: Graph, first: int, absent: Collection[int], unwanted: Collection[int] = ()
) -> tuple[Graph, tuple[bool, ...], frozenset[int]]:
    """A gradient graph without some of the gradients that are its inputs from position ``first`` on.

    Returns the graph (with the same inputs, and only the outputs that depend on other gradients and are not
    ``unwanted``), which outputs those are, and the positions of the inputs it reads.

    >>> from tracejit.ir import parse
    >>> graph = parse("graph b(x: f32[2], g0: f32[2], g1: f32[2]) {"
    ...     " %0: f32[2] = div(g0, x)  %1: f32[2] = mul(g1, 2.0)  %2: f32[2] = add(%0, %1)  return %2, %0 }")
    >>> found, present, reads = without(graph, 1, {0})
    >>> [v.op.name for v in found.values], present, reads
    (['mul'], (True, False), frozenset({2}))
    """
    builder = Builder(graph.name)
    mapping = {v: builder.input(v.name, v.spec) for v in graph.inputs}
    seeds = graph.inputs[first:]
    nothing = {seeds[i] for i in absent}
    after = set(seeds)
    for value in graph.values:
        given = [x for x in value.value_operands if x in after]
        if given:
            after.add(value)
        if given and nothing.issuperset(given):
            nothing.add(value)
            continue
        rest = [x for x in given if x not in nothing]
        if value.op is add and len(rest) == 1 < len(given) and rest[0].spec == value.spec:
            mapping[value] = mapping[rest[0]]
            continue
        for operand in given:
            if operand in nothing:
                mapping[operand] = _zeros(builder, operand)
        mapping[value] = builder.copy(value, mapping)
    present = tuple(v not in nothing and i not in unwanted for i, v in enumerate(graph.outputs))
    outputs = [mapping[v] for v, there in zip(graph.outputs, present, strict=True) if there]
    found = builder.finish(outputs)
    live = live_values(found)
    body = tuple(v for v in found.values if v in live)
    reads = frozenset(i for i, v in enumerate(found.inputs) if v in live)
    return Graph(found.name, found.inputs, body, found.outputs), present, reads


def without_forward(graph: Graph, forward: int) -> tuple[Graph, int]:
    """A gradient graph whose first inputs are the values that its first ``forward`` statements compute, and how many.

    Views of inputs stay, for eager execution keeps what they show; so do loops and what their rounds give. What such a
    graph reads is what eager execution has kept, not what is computed again when gradients are differentiated.

    >>> from tracejit.ir import parse
    >>> graph = parse("graph b(x: f32[2], g0: f32[2]) {"
    ...     " %0: f32[2] = relu(x)  %1: f32[2] = mul(g0, %0)  return %1 }")
    >>> found, more = without_forward(graph, 1)
    >>> [v.op.name for v in found.values], len(found.inputs), more
    (['mul'], 3, 1)
    """
    builder = Builder(graph.name)
    given = [v for v in islice(graph.values, forward) if not (is_view(v) or v.op is detach_copy)]
    given = [v for v in given if not (is_loop(v) or v.op is part or v.op in RULE_OPS)]
    mapping = {v: builder.input(f"given{i}", v.spec) for i, v in enumerate(given)}
    mapping.update((v, builder.input(v.name, v.spec)) for v in graph.inputs)
    for value in graph.values:
        if value not in mapping:
            mapping[value] = builder.copy(value, mapping)
    return builder.finish([mapping[v] for v in graph.outputs]), len(given)


def _zeros(builder: Builder, value: Value) -> Value:
    kind = value.spec
    return builder.emit(full, (), {"shape": kind.shape, "value": 0, "dtype": kind.dtype})
