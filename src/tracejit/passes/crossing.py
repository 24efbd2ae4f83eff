"""What is computed again after the point where most memory is in use, for graphs with a backward pass in them.

A recorded training step is one graph: it computes forward, and reads what it computed again backward. The place where
most memory is in use parts it in two as a backward pass of its own would, and what crosses that place is chosen by the
same rules (:mod:`tracejit.passes.partition`): a minimum cut. What is read behind it and not chosen is computed again.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..extents import hint
from ..ir.graph import Graph, Value
from .growth import grown
from .liveness import has_loops
from .partition import across_calls, choose, is_call
from .rewrite import is_view, root
from .weights import weights

#: Bytes in use from which on a graph is looked at.
LEAST_BYTES = 1 << 22


def crossing(graph: Graph) -> tuple[set[Value], dict[Value, tuple[Value, ...]]]:
    """The values to be computed again, and for every statement that reads them late the calls it waits for.

    >>> from tracejit.ir import parse
    >>> crossing(parse("graph f(x: f32[2]) { %0: f32[2] = exp(x) return %0 }"))
    (set(), {})
    """
    if has_loops(graph):
        return set(), {}
    values = list(graph.values)
    place, most = _fullest(graph, values)
    if most < LEAST_BYTES:
        return set(), {}
    point = _Point(graph, values, place)
    again = point.not_kept(choose(point))
    readers: dict[Value, tuple[Value, ...]] = {}
    for value in values[place:]:
        if any(root(x) in again for x in value.value_operands) and not is_view(value):
            calls = point.calls_before(value)
            if calls:
                readers[value] = calls
    return again, readers


def _fullest(graph: Graph, values: Sequence[Value]) -> tuple[int, int]:
    """Before which statement most memory is in use, and how much."""
    end = len(values)
    last = {root(v): end for v in graph.outputs}
    for position in range(end - 1, -1, -1):
        for x in values[position].value_operands:
            last.setdefault(root(x), position)
    freed: dict[int, int] = {}
    used = most = place = 0
    for position, value in enumerate(values):
        if used > most:
            most, place = used, position
        if not is_view(value):
            nbytes = hint(value.spec.nbytes)
            used += nbytes
            end_of = last.get(value, position)
            freed[end_of] = freed.get(end_of, 0) + nbytes
        used -= freed.pop(position, 0)
    return place, most


class _Point:
    """A graph parted before one statement, as the partition sees a forward and its gradient."""

    def __init__(self, graph: Graph, values: Sequence[Value], place: int) -> None:
        outputs = tuple(v for v in graph.outputs if v in set(values[:place]))
        self.forward = Graph(graph.name, graph.inputs, tuple(values[:place]), outputs)
        self.body = None
        self.free: set[Value] = set()
        self.values = list(values)
        self.later = values[place:]
        self.in_forward = {*graph.inputs, *values[:place]}
        self.weights = weights(graph.inputs, values)
        self.grown = grown(values[:place])
        self.in_memory = {*graph.inputs, *map(root, graph.outputs)}
        for value in values[:place]:
            if is_call(value):
                self.in_memory |= {value, *map(root, value.value_operands)}
        self.in_memory |= across_calls([*graph.inputs, *values[:place]])

    def needed(self) -> list[Value]:
        """What the second part reads of the first."""
        read = (x for v in self.later for x in v.value_operands if x in self.in_forward)
        return list(dict.fromkeys(read))

    def read_by_calls(self) -> set[Value]:
        """What library calls of the second part read, through views."""
        return {root(x) for v in self.later if is_call(v) for x in v.value_operands}

    def copied(self, value: Value) -> bool:
        """Nobody changes a value between the two parts."""
        return False

    def not_kept(self, kept: Sequence[Value]) -> set[Value]:
        """What the second part needs and does not find."""
        found: set[Value] = set()
        seen = set(kept)
        waiting = [x for x in self.needed() if x not in seen]
        while waiting:
            value = waiting.pop()
            if value in seen or value.op is None:
                continue
            seen.add(value)
            found.add(value)
            waiting.extend(value.value_operands)
        return {v for v in found if not is_view(v)}

    def calls_before(self, reader: Value) -> tuple[Value, ...]:
        """The library calls of the second part that ``reader`` waits for first."""
        later = set(self.later)
        found: dict[Value, None] = {}
        seen: set[Value] = set()
        waiting = list(reader.value_operands)
        while waiting:
            value = waiting.pop()
            if value in seen or value not in later:
                continue
            seen.add(value)
            if is_call(value):
                found[value] = None
            else:
                waiting.extend(value.value_operands)
        return tuple(found)
