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
derivative. The gradients of the parts of a loop are gathered at the loop, and a second loop runs the rounds backward
(see :mod:`..loops.gradient`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ...autograd.rules import differentiate_operands
from ...ir.builder import Builder
from ...ir.graph import Graph, Value
from ...ir.loops import part, part_value
from ...ir.rules import RuleParts, between, present, rule, ruled, sealed
from ...ops.elementwise import add, detach_copy
from ...ops.indexing import take
from ...ops.source import full
from ..loops.stacks import zeros
from ..rewrite import is_view
from ..simplify.dead_code import live_values
from .activity import wanted_operands

if TYPE_CHECKING:
    from ..loops.loops import Prepared


@dataclass(frozen=True)
class Gradient:
    """The graph of gradients, and how its ends relate to the graph it was made from.

    ``graph`` takes the inputs of the original and then one gradient per entry of ``seeds`` (positions of outputs), and
    returns one gradient per entry of ``wrt`` (positions of inputs). An input that was asked for and is not in ``wrt``
    receives no gradient at all: eager execution would leave its ``.grad`` at None.

    ``saved_inputs`` and ``saved_outputs`` are the positions whose memory eager execution would keep for backward: their
    version must not move between forward and backward, and only those may be read again by reference. With each go, as
    bits, the outputs from which passes come by a step that keeps it: all where only the graph is known. The first
    ``forward`` statements of ``graph`` are those of the original that the gradients need.
    """

    graph: Graph
    wrt: tuple[int, ...]
    seeds: tuple[int, ...]
    saved_inputs: Mapping[int, int]
    saved_outputs: Mapping[int, int]
    forward: int = 0


def differentiate(
    graph: Graph, wrt: Sequence[bool], outputs: Sequence[bool] | None = None
) -> Gradient:
    """Gradients of ``graph`` for the inputs marked in ``wrt``.

    ``outputs`` marks the outputs that will be given a gradient (all, by default); those that do not depend on a wanted
    input through differentiable ops take none. Statements keep the user's line of the statement they derive. A graph
    with loops should be prepared first (:func:`..loops.loops.prepare`): else the result runs them once more.

    >>> from tracejit.ir import parse
    >>> graph = parse("graph f(x: f32[3]) { %0: f32[3] = exp(x)  return %0 }")
    >>> found = differentiate(graph, [True])
    >>> found.wrt, found.seeds, len(found.graph.body)
    ((0,), (0,), 2)
    """
    from ..loops.loops import prepare  # which differentiates bodies

    prepared = prepare(graph, wrt, outputs)
    graph, tracked = prepared.graph, prepared.tracked
    seeds = tuple(
        position
        for position, value in enumerate(graph.outputs)
        if value in tracked and (outputs is None or outputs[position])
    )
    builder = Builder(f"{graph.name}_backward")
    builder.adopt(graph)
    names = _seed_names([v.name for v in graph.inputs], seeds)
    walk = _Walk(builder, prepared)
    for position, name in zip(seeds, names, strict=True):
        value = graph.outputs[position]
        walk.receive(value, builder.input(name, value.spec))
    walk.run()
    found = [i for i, v in enumerate(graph.inputs) if wrt[i] and v in walk.gradients]
    joint = builder.finish([walk.gradients[graph.inputs[i]] for i in found])
    live = live_values(joint)
    body = tuple(v for v in joint.values if v in live)
    return Gradient(
        Graph(joint.name, joint.inputs, body, joint.outputs),
        tuple(found),
        seeds,
        {i: -1 for i, v in enumerate(graph.inputs) if storage(v) in walk.saved},
        {i: -1 for i, v in enumerate(graph.outputs) if storage(v) in walk.saved},
        sum(v in live for v in walk.statements),
    )


def storage(value: Value) -> Value:
    """The value whose memory eager execution shows through ``value``: views and ``detach()`` share it."""
    while value.op is detach_copy or value.op is ruled or is_view(value) or is_selected(value):
        value = value.value_operands[0]
    return value


def is_selected(value: Value) -> bool:
    """Is it what eager execution shows by a view, ``x[t]``, and the program copies?"""
    return value.op is take and bool(value.attributes.get("shared"))


def stored_by(value: Value) -> list[Value]:
    """What the node that computed ``value`` on the tape may have saved: its operands and its result, by memory."""
    return [storage(x) for x in (*value.value_operands, value)]


def _is_constant(gradient: Value) -> bool:
    """Is it made of numbers alone, as the zeros of ``sign`` are? Other gradients read the one they are made of."""
    while len(gradient.value_operands) == 1:  # sums to a shape, casts
        (gradient,) = gradient.value_operands
    return gradient.op is full


def _seed_names(taken: Iterable[str], seeds: Sequence[int]) -> list[str]:
    """``g0``, ``g1``, ... and more g's where an input has such a name already (second derivatives)."""
    known = set(taken)
    prefix = "g"
    while any(f"{prefix}{position}" in known for position in seeds):
        prefix += "g"
    return [f"{prefix}{position}" for position in seeds]


class _Walk:
    """The backward walk: gradients known so far, and what eager execution would have saved."""

    def __init__(self, builder: Builder, prepared: Prepared) -> None:
        self.builder = builder
        self.tracked = prepared.tracked
        self.rounds = prepared.rounds
        self.gradients: dict[Value, Any] = {}
        self.parts: dict[Value, dict[int, Value]] = {}  # one statement for each part that receives
        self.saved: set[Value] = set()
        self.statements = tuple(prepared.graph.values)  # those to be written come after them

    def run(self) -> None:
        with self.builder.writing():
            for value in reversed(self.statements):
                gradient = self.gradients.get(value)
                self.builder.line = value.line
                if value.op is part or value.op is ruled:
                    self.visit_part(value, gradient)
                elif value in self.parts:
                    self.visit_rule(value) if value.op is rule else self.visit_loop(value)
                elif gradient is not None:
                    self.visit(value, gradient)
        self.builder.line = None

    def visit_part(self, value: Value, gradient: Any) -> None:
        """Note what the loop or rule receives; equal parts add up at the first to come."""
        if gradient is None:
            return
        parts = self.parts.setdefault(value.value_operands[-1], {})
        known = parts.setdefault(value.attributes["index"], value)
        if known is not value:
            self.receive(known, gradient)

    def visit_loop(self, value: Value) -> None:
        """Run the rounds of a loop backward."""
        from ..loops.gradient import run_backward

        rounds = self.rounds[value]
        gradients = {i: self.gradients[v] for i, v in self.parts[value].items()}
        self.note_saved_by_rounds(value)
        results = run_backward(self.builder, value, rounds, gradients)
        for operand, result in zip(value.value_operands, results, strict=True):
            if result is not None and operand in self.tracked:
                self.receive(operand, result)

    def visit_rule(self, value: Value) -> None:
        """Repeat what a rule makes of stand-ins, with gradients in their place."""
        parts = RuleParts.of(value)
        found = self.parts[value]
        given = [self.gradients[v] for v in found.values()]
        mapping: dict[Value, Any] = {}
        own = parts.historied()
        for i, (output, stand) in enumerate(zip(parts.outputs, parts.stand_ins, strict=True)):
            if i not in found:
                mapping[stand] = zeros(self.builder, output.spec)
                continue
            mapping[stand] = gradient = self.gradients[found[i]]
            if len(given) > 1:  # of which a call may bring some only
                mapping[stand] = self.builder.emit(present, (gradient, *given), {})
            if i in own and output in self.order:
                mapping[output] = found[i]  # what is kept of a result has its history
        for statement in between(self.order, mapping, parts.gradients):
            self.builder.line = statement.line
            operands = {x: mapping.get(x, x) for x in statement.value_operands}
            mapping[statement] = self.builder.copy(statement, operands)
        self.saved.update(map(storage, parts.saved))
        once = value.attributes["once"]
        closed = once or value.attributes["untold"]
        for x, gradient in zip(parts.inputs, parts.gradients, strict=True):
            if x in self.tracked:
                gradient = mapping.get(gradient, gradient)
                if closed:
                    gradient = self.builder.emit(sealed, (gradient, *given), {"once": once})
                self.receive(x, gradient)

    @cached_property
    def order(self) -> dict[Value, int]:
        """The place of every statement of the graph."""
        return {v: i for i, v in enumerate(self.statements)}

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
        wanted = wanted_operands(value, self.tracked)
        if not any(wanted):
            return
        types = tuple(x.spec if isinstance(x, Value) else x for x in value.operands)
        known: dict[str, Any] = dict(zip(op.operands, value.operands, strict=False))
        self.note_saved(value, wanted, known)
        known.update(g=gradient, out=value, out_type=value.spec, types=types)
        attributes = {**op.attributes, **value.attributes}
        results = differentiate_operands(op, types, attributes, known, wanted)
        for operand, result in zip(value.operands, results, strict=True):
            if result is not None:
                assert isinstance(operand, Value)
                if _is_constant(result):  # which a call without this gradient must not see
                    result = self.builder.emit(present, (result, gradient), {})
                self.receive(operand, result)

    def note_saved(self, value: Value, wanted: list[bool], named: dict[str, Any]) -> None:
        """What the tape would keep for this statement."""
        assert value.op is not None
        for position, want in enumerate(wanted):
            rule = value.op.gradient_rule(position) if want else None
            for name in value.op.needs_of(rule) if rule is not None else ():
                kept = value if name == "out" else named.get(name)
                if isinstance(kept, Value):
                    self.saved.add(storage(kept))

    def note_saved_by_rounds(self, value: Value) -> None:
        """What the tape would keep of the operands and last results of a loop run round by round."""
        found = self.rounds[value].gradient
        self.saved |= {storage(value.value_operands[i]) for i in found.saved_inputs}
        carried = value.attributes["carried"]
        last = [part_value(value, i) for i in found.saved_outputs if i < carried]
        self.saved |= {self.builder.insert(v) for v in last}
