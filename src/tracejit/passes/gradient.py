"""Differentiation: from a graph to the graph of its gradients, by the same rules the eager tape uses.

Before::

    graph f(x: f32[3]) {
        %0: f32[3] = exp(x)
        return %0
    }

After ``differentiate(graph, [True])``::

    graph f_backward(x: f32[3], g0: f32[3]) {
        %0: f32[3] = exp(x)
        %1: f32[3] = mul(g0, %0)
        return %1
    }

Statements are visited last to first and contributions to one value are added in the order in which they arise, as
the eager engine does, so the numbers agree. The result is an ordinary graph: differentiate it again for the second
derivative.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ..autograd.rules import differentiate_operands
from ..ir.builder import Builder
from ..ir.graph import Graph, Value
from ..ops.elementwise import add, detach_copy
from .dead_code import live_values
from .rewrite import is_view


@dataclass(frozen=True)
class Gradient:
    """The graph of gradients, and how its ends relate to the graph it was made from.

    ``graph`` takes the inputs of the original and then one gradient per entry of ``seeds`` (positions of outputs), and
    returns one gradient per entry of ``wrt`` (positions of inputs). An input that was asked for and is not in ``wrt``
    receives no gradient at all: eager execution would leave its ``.grad`` at None.

    ``saved_inputs`` and ``saved_outputs`` are the positions whose memory eager execution would keep for backward: their
    version must not move between forward and backward, and only those may be read again by reference.
    """

    graph: Graph
    wrt: tuple[int, ...]
    seeds: tuple[int, ...]
    saved_inputs: tuple[int, ...]
    saved_outputs: tuple[int, ...]


def differentiate(
    graph: Graph, wrt: Sequence[bool], outputs: Sequence[bool] | None = None
) -> Gradient:
    """Gradients of ``graph`` for the inputs marked in ``wrt``.

    ``outputs`` marks the outputs that will be given a gradient (all, by default); those that do not depend on a wanted
    input through differentiable ops take none. Statements keep the user's line of the statement they derive.

    >>> from tracejit.ir import parse
    >>> graph = parse("graph f(x: f32[3]) { %0: f32[3] = exp(x)  return %0 }")
    >>> found = differentiate(graph, [True])
    >>> found.wrt, found.seeds, len(found.graph.body)
    ((0,), (0,), 2)
    """
    tracked = _tracked_values(graph, wrt)
    seeds = tuple(
        position
        for position, value in enumerate(graph.outputs)
        if value in tracked and (outputs is None or outputs[position])
    )
    builder = Builder(f"{graph.name}_backward")
    builder.adopt(graph)
    names = _seed_names([v.name for v in graph.inputs], seeds)
    walk = _Walk(builder, tracked)
    for position, name in zip(seeds, names, strict=True):
        value = graph.outputs[position]
        walk.receive(value, builder.input(name, value.type))
    walk.run(graph)
    found = [i for i, v in enumerate(graph.inputs) if wrt[i] and v in walk.gradients]
    joint = builder.finish([walk.gradients[graph.inputs[i]] for i in found])
    live = live_values(joint)
    body = tuple(v for v in joint.values if v in live)
    return Gradient(
        Graph(joint.name, joint.inputs, body, joint.outputs),
        tuple(found),
        seeds,
        tuple(i for i, v in enumerate(graph.inputs) if storage(v) in walk.saved),
        tuple(i for i, v in enumerate(graph.outputs) if storage(v) in walk.saved),
    )


def storage(value: Value) -> Value:
    """The value whose memory eager execution shows through ``value``: views and ``detach()`` share it."""
    while value.op is detach_copy or is_view(value):
        value = value.value_operands[0]
    return value


def _seed_names(taken: Iterable[str], seeds: Sequence[int]) -> list[str]:
    """``g0``, ``g1``, ... and more g's where an input has such a name already (second derivatives)."""
    known = set(taken)
    prefix = "g"
    while any(f"{prefix}{position}" in known for position in seeds):
        prefix += "g"
    return [f"{prefix}{position}" for position in seeds]


def _tracked_values(graph: Graph, wrt: Sequence[bool]) -> set[Value]:
    """The values eager execution would mark ``requires_grad``."""
    tracked = {
        v for v, want in zip(graph.inputs, wrt, strict=True) if want and v.dtype.is_floating_point
    }
    for value in graph.values:
        if value.dtype.is_floating_point and any(_wanted(value, tracked)):
            tracked.add(value)
    return tracked


def _wanted(value: Value, tracked: set[Value]) -> list[bool]:
    """For each operand: does a gradient flow to it?"""
    op = value.op
    assert op is not None
    return [
        isinstance(x, Value) and x in tracked and op.gradient_rule(position) is not None
        for position, x in enumerate(value.operands)
    ]


class _Walk:
    """The backward walk: gradients known so far, and what eager execution would have saved."""

    def __init__(self, builder: Builder, tracked: set[Value]) -> None:
        self.builder = builder
        self.tracked = tracked
        self.gradients: dict[Value, Any] = {}
        self.saved: set[Value] = set()

    def run(self, graph: Graph) -> None:
        statements = tuple(graph.values)  # those written below come after them
        with self.builder.writing():
            for value in reversed(statements):
                gradient = self.gradients.get(value)
                if gradient is not None:
                    self.builder.line = value.line
                    self.visit(value, gradient)
        self.builder.line = None

    def receive(self, value: Value, gradient: Any) -> None:
        """Add a contribution to the gradient of ``value``."""
        present = self.gradients.get(value)
        if present is not None:
            gradient = self.builder.emit(add, (present, gradient), {})
        self.gradients[value] = gradient

    def visit(self, value: Value, gradient: Any) -> None:
        """Run the rules of one statement."""
        op = value.op
        assert op is not None
        wanted = _wanted(value, self.tracked)
        if not any(wanted):
            return
        types = tuple(x.type if isinstance(x, Value) else x for x in value.operands)
        known: dict[str, Any] = dict(zip(op.operands, value.operands, strict=False))
        self.note_saved(value, wanted, known)
        known.update(g=gradient, out=value, out_type=value.type, types=types)
        attributes = {**op.attributes, **value.attributes}
        results = differentiate_operands(op, types, attributes, known, wanted)
        for operand, result in zip(value.operands, results, strict=True):
            if result is not None:
                assert isinstance(operand, Value)
                self.receive(operand, result)

    def note_saved(self, value: Value, wanted: list[bool], named: dict[str, Any]) -> None:
        """What the tape would keep for this statement."""
        assert value.op is not None
        for position, want in enumerate(wanted):
            rule = value.op.gradient_rule(position) if want else None
            for name in rule.needs if rule is not None else ():
                kept = value if name == "out" else named.get(name)
                if isinstance(kept, Value):
                    self.saved.add(storage(kept))
