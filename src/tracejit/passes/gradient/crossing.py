"""What is computed again after the point where most memory is in use, for graphs with a backward pass in them.

A recorded training step is one graph: it computes forward, and reads what it computed again backward. The place where
most memory is in use parts it in two as a backward pass of its own would, and what crosses that place is chosen by the
same rules (:mod:`.partition`): a minimum cut. What is read behind it and not chosen is computed again.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...extents import hint
from ...ir.graph import Graph, Value
from ...ops.table import Elementwise
from ..draws_inside import drawn_inside
from ..rewrite import is_view, root
from ..simplify.liveness import has_loops
from .growth import grown
from .partition import across_calls, choose, is_call
from .weights import weights

#: Bytes in use from which on a graph is looked at.
LEAST_BYTES = 1 << 22
#: The share of the most memory in use that a place needs to be the one that parts a graph.
NEARLY = 0.8


def crossing(graph: Graph) -> tuple[set[Value], dict[Value, tuple[Value, ...]]]:
    """The values to be computed again, and for every statement that reads them late the calls it waits for.

    >>> from tracejit.ir import parse
    >>> crossing(parse("graph f(x: f32[2]) { %0: f32[2] = exp(x) return %0 }"))
    (set(), {})
    """
    values = list(graph.values)
    if has_loops(graph) or not any(map(is_call, values)):
        return (
            set(),
            {},
        )  # without a call there is nothing that a value computed again could wait for
    place, most = _fullest(graph, values)
    if most < LEAST_BYTES:
        return set(), {}
    point = _Point(graph, values, place)
    again = point.not_kept(choose(point)) | point.early()
    readers: dict[Value, tuple[Value, ...]] = {}
    for value in values[place:]:
        if any(root(x) in again for x in value.value_operands) and not is_view(value):
            calls = point.calls_before(value)
            if calls:
                readers[value] = calls
    return again, readers


def _fullest(graph: Graph, values: Sequence[Value]) -> tuple[int, int]:
    """Before which statement nearly the most memory is in use, and how much that is at the most.

    Gradients of the last layers add to what is kept for those of the first ones, so the maximum itself lies some way
    into the backward pass. Taken is the last place before it that all later calls wait for.
    """
    used = _in_use(graph, values)
    most = max(used, default=0)
    place = used.index(most) if used else 0
    if most < LEAST_BYTES:  # nobody will part the graph
        return place, most
    narrow = [p for p in _necks(values) if p <= place and used[p] >= NEARLY * most]
    return (narrow[-1] if narrow else place), most


def _in_use(graph: Graph, values: Sequence[Value]) -> list[int]:
    """The bytes in use before each statement."""
    end = len(values)
    last = {root(v): end for v in graph.outputs}
    for position in range(end - 1, -1, -1):
        for x in values[position].value_operands:
            last.setdefault(root(x), position)
    freed: dict[int, int] = {}
    used, found = 0, []
    for position, value in enumerate(values):
        found.append(used)
        if not is_view(value):
            nbytes = hint(value.spec.nbytes)
            used += nbytes
            end_of = last.get(value, position)
            freed[end_of] = freed.get(end_of, 0) + nbytes
        used -= freed.pop(position, 0)
    return found


def _necks(values: Sequence[Value]) -> list[int]:
    """The places right behind calls that all later calls wait for, in order."""
    waits: dict[Value, int] = {}
    calls: list[tuple[int, int]] = []  # behind which place, and the calls waited for, as bits
    bit: dict[Value, int] = {}
    for position, value in enumerate(values):
        mask = 0
        for x in value.value_operands:
            mask |= waits.get(x, 0) | bit.get(x, 0)
        waits[value] = mask
        if is_call(value):
            bit[value] = 1 << len(calls)
            calls.append((position + 1, mask))
    found, common = [], -1
    for number in range(len(calls) - 1, -1, -1):
        place, mask = calls[number]
        if common >> number & 1:
            found.append(place)
        common &= mask
    return found[::-1]


class _Point:
    """A graph parted before one statement, as the partition sees a forward and its gradient."""

    def __init__(self, graph: Graph, values: Sequence[Value], place: int) -> None:
        self.graph = graph
        first = set(values[:place])
        outputs = tuple(v for v in graph.outputs if v in first)
        self.forward = Graph(graph.name, graph.inputs, tuple(values[:place]), outputs)
        self.body = None
        self.free: set[Value] = set()
        self.values = list(values)
        self.later = values[place:]
        self.in_forward = {*graph.inputs, *values[:place]}
        self.weights = weights(graph.inputs, values)
        self.grown = grown(values[:place])
        self.inside = drawn_inside(values) - {*graph.outputs}
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

    def early(self) -> set[Value]:
        """Elementwise results of the second part that wait for none of its calls: factors of gradients to come.

        Nothing would keep them from being computed in the first part, where they would be stored until they are read.
        """
        shown = set(map(root, self.graph.outputs))
        waiting: set[Value] = set()
        found: set[Value] = set()
        for value in self.later:
            own = [x for x in value.value_operands if x not in self.in_forward]
            if any(is_call(x) or x in waiting for x in own):
                waiting.add(value)
            elif isinstance(value.op, Elementwise) and value not in shown:
                found.add(value)
        return found

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
