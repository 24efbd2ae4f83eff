"""One round of a walk along a sequence, and the loop that it is the body of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ...ir.builder import Builder, attribute_key, attribute_keys
from ...ir.graph import Graph, Value
from ...ir.loops import body_of, loop_value
from ...modes import MODES
from ...passes.gradient.activity import body_wants
from ...passes.loops.loops import round_gradient
from ...types import TensorType
from ..rolling.evidence import MIN_ROUNDS
from ..rolling.tree import is_native
from ..sizes.found_sizes import plain

State = tuple[Any, ...]
#: A round, on tensors or values: the items, what is handed on, and what stays the same; it gives what is collected, and
#: what is handed on.
Step = Callable[[Sequence[Any], State, Sequence[Any]], tuple[Any, State]]


@dataclass(frozen=True)
class Walk:
    """A walk whose operands are ``carried`` first states, what stays the same, and ``items`` stacks."""

    step: Step
    carried: int
    items: int

    def parts(self, operands: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any], Sequence[Any]]:
        """States, what stays the same, and stacks."""
        first = len(operands) - self.items
        return operands[: self.carried], operands[self.carried : first], operands[first:]

    def round(self, kinds: Sequence[TensorType], scope: Any = None) -> Graph:
        """The graph of one round, for operands of these types; raises where there is none."""
        builder = Builder("steps")
        builder.scope = scope
        start, fixed, stacks = self.parts(kinds)
        state = tuple(builder.input(f"carried{i}", kind) for i, kind in enumerate(start))
        same = [builder.input(f"fixed{i}", kind) for i, kind in enumerate(fixed)]
        kinds = [TensorType(kind.shape[1:], kind.dtype) for kind in stacks]
        taken = [builder.input(f"item{i}", kind) for i, kind in enumerate(kinds)]
        before, MODES.recorder = MODES.recorder, None
        try:
            with builder.writing():
                collected, after = self.step(taken, state, same)
        finally:
            MODES.recorder = before
        if any(a.spec != b.spec for a, b in zip(state, after, strict=True)):
            raise TypeError("what a step hands on has another type than what it is given")
        return builder.finish([*after, collected])

    def loop(self, graph: Graph, values: Sequence[Value], kept: Sequence[int]) -> Value:
        """The statement of the loop of a round on ``values``, which collects also these of its inputs and values."""
        there = (*graph.inputs, *graph.values)
        outputs = (*graph.outputs, *(there[i] for i in kept))
        body = Graph(graph.name, graph.inputs, graph.body, outputs)
        return loop_value(*self.parts(values), body, values[-1].spec.shape[0])

    def collected(self, loop: Value) -> list[int]:
        """Which inputs and values of a round a loop collects besides what the walk does."""
        graph = body_of(loop)
        return _positions(graph, graph.outputs[self.carried + 1 :])

    def read_by_backward(self, values: Sequence[Value], wanted: Sequence[bool]) -> list[int]:
        """Which inputs and values of a round a loop collects, too: chosen for the sizes of this call, right for all."""
        if not any(wanted):
            return []
        kinds = [TensorType(plain(v.spec.shape), v.spec.dtype) for v in values]
        operands = [Value(kind, name=f"x{i}") for i, kind in enumerate(kinds)]
        graph = self.round(kinds)
        loop = loop_value(*self.parts(operands), graph, kinds[-1].shape[0])
        tracked = {x for x, one in zip(operands, wanted, strict=True) if one}
        results = set(range(len(graph.outputs)))
        found = round_gradient(loop, body_wants(loop, tracked), results).forward
        return _positions(graph, found.outputs[len(graph.outputs) :])


def _positions(graph: Graph, values: Sequence[Value]) -> list[int]:
    """Where among the inputs and values of a graph these are."""
    places = {v: n for n, v in enumerate((*graph.inputs, *graph.values))}
    return [places[v] for v in values]


def is_native_walk(graph: Graph, count: Any) -> bool:
    """Can a native loop run so many rounds, and is that worth it?"""
    few = type(count) is int and count < MIN_ROUNDS
    return not few and all(map(is_native, graph.values))


def walk_key(graph: Graph, values: Sequence[Value]) -> Any:
    """What two walks have in common that are one statement; not as text, for which sizes would have to be numbers."""
    numbers = {v: n for n, v in enumerate((*graph.inputs, *graph.values))}
    lines = []
    for v in graph.values:
        operands = [numbers[x] if isinstance(x, Value) else attribute_key(x) for x in v.operands]
        lines.append((v.op.name if v.op else "", *operands, *attribute_keys(v)))
    count = attribute_key(values[-1].spec.shape[0])
    return "walk", *lines, *values, count, *(numbers[x] for x in graph.outputs)
