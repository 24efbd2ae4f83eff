"""Rules of functions on tensors: the node of a function whose backward is in a graph, for gradients of gradients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...autograd.node import Node
from ...autograd.once import NotTwice
from ...autograd.saved import alias_of
from ...errors import AutogradError
from ...ir.graph import Graph, Value
from ...ir.rules import RuleParts, between, rule, sealed
from ...modes import MODES
from ...ops.source import full
from ...tensor import Tensor


class RuleNode(Node):
    """One call of a custom function in a graph that is run op by op."""

    always_runs = True

    def __init__(self, value: Value, known: Mapping[Value, Any], graph: Graph) -> None:
        self.parts = RuleParts.of(value)
        super().__init__([known[x]._edge() for x in self.parts.inputs], len(self.parts.outputs))
        self.rule = value
        order = {v: i for i, v in enumerate(graph.values)}
        starts = [v for v in (*self.parts.outputs, *self.parts.stand_ins) if v in order]
        self.statements = between(order, starts, self.parts.gradients)
        used = {x for v in self.statements for x in v.value_operands}
        wanted = [*used, *self.parts.gradients, *self.parts.outputs]
        self.known = {v: known[v] for v in wanted if v in known}

    def name(self) -> str:
        """The name printed for this node."""
        return "CustomFunctionBackward"

    def apply(self, grads: list[Tensor | None]) -> Sequence[Tensor | None]:
        """Repeat what backward did."""
        given = [
            full(shape=x.spec.shape, value=0, dtype=x.spec.dtype) if g is None else g
            for g, x in zip(grads, self.parts.outputs, strict=True)
        ]
        found = self.repeated(given)
        once = self.rule.attributes["once"]
        if not once and not self.rule.attributes["untold"]:
            return found
        return [None if g is None else closed(g, given, once) for g in found]

    def come_by(self) -> Sequence[Tensor | None]:
        """What backward makes of zeros."""
        return self.apply([None] * self.n_outputs)

    def repeated(self, given: Sequence[Tensor]) -> tuple[Tensor | None, ...]:
        """The gradients of the inputs."""
        known = dict(self.known)
        known.update(zip(self.parts.stand_ins, given, strict=True))
        for index, output in self.parts.historied().items():
            known[output] = self.shown(known[output], index)
        for value in self.statements:
            assert value.op is not None
            operands = [known[x] if isinstance(x, Value) else x for x in value.operands]
            known[value] = value.op(*operands, **value.attributes)
        return tuple(
            known[g] if edge is not None else None
            for g, edge in zip(self.parts.gradients, self.edges, strict=True)
        )

    def shown(self, output: Tensor, index: int) -> Tensor:
        """An output with its place in the history."""
        result: Tensor = alias_of(output)
        result._continue_from((self, index))
        return result


class Untold(Node):
    """Refuses to be differentiated, for want of a rule."""

    always_runs = True

    def apply(self, grads: list[Tensor | None]) -> Sequence[Tensor | None]:
        """Raise."""
        raise AutogradError(
            "a gradient that a custom function computed in compiled code cannot be differentiated again: its backward "
            "changes tensors in place or calls custom functions that do not say how.",
            "Do not compile this function where derivatives of higher order are needed.",
        )

    def come_by(self) -> Sequence[Tensor | None]:
        """Raise."""
        return self.apply([])


def closed(gradient: Tensor, given: Sequence[Tensor], once: bool) -> Tensor:
    """A gradient computed from ``given`` ones, which must not be differentiated again with respect to these."""
    tracked = [g._edge() for g in given if g._flows]
    if not MODES.grad or not tracked:
        return gradient
    result: Tensor = alias_of(gradient)
    result._continue_from(((NotTwice if once else Untold)(tracked), 0))
    return result


def on_tape(value: Value, known: Mapping[Value, Any], graph: Graph) -> Any:
    """A rule as a node, or None where nothing is tracked; what it rules as its output; gradients that are closed."""
    if value.op is sealed:
        gradient, *given = (known[x] for x in value.value_operands)
        return closed(gradient, given, value.attributes["once"])
    if value.op is rule:
        inputs = RuleParts.of(value).inputs
        if not MODES.grad or not any(known[x]._flows for x in inputs):
            return None
        if MODES.recorder is not None:
            MODES.recorder.opaque("a custom function in compiled code that is recorded again")
        return RuleNode(value, known, graph)
    output, token = value.value_operands
    node = known[token]
    return known[output] if node is None else node.shown(known[output], value.attributes["index"])
