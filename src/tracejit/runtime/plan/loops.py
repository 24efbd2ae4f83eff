"""Planning loops: the body once, with the number of the round as a symbol in every address.

What is carried lives in two slots that take turns: a round reads one and writes the other. Items and collected results
are addressed by the round. An address is a polynomial in sizes, in the round and in its parity; the part that goes with
the round becomes the increment of a native loop, so a program does not grow with the number of rounds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ...extents import Extent, Extents
from ...ir.graph import Graph, Value
from ...ir.loops import body_of, is_open, part, split_operands
from ...ops.elementwise import clone
from ...polynomial import Terms
from ...symbols import Decision
from ..launcher import SERIAL, Loop, Step, Until
from ..tiled.tiled_loops import TiledLoop, goes_by_elements, tiled_loop
from .arena import aligned

if TYPE_CHECKING:
    from ..machine_code.kernels import Kernel
    from .body import BodyPlanner
    from .plan import Planner
    from .records import Slot


class NotNativeError(Exception):
    """A loop that cannot run natively: its body calls a library, or an address is no linear function of the round."""


def parts_of(graph: Graph) -> dict[Value, dict[int, Value]]:
    """For every loop the parts of it that are read, by index."""
    found: dict[Value, dict[int, Value]] = {}
    for value in graph.values:
        if value.op is part:
            found.setdefault(value.value_operands[0], {})[value.attributes["index"]] = value
    return found


def carried_values(graph: Graph) -> list[Value]:
    """The first values of what loops carry: made for the loop alone, they get memory for two."""
    return [v for value in parts_of(graph) for v in split_operands(value)[0]]


class Rounds:
    """The number of the round and its parity as symbols."""

    def __init__(self, scope: Extents) -> None:
        self.scope = scope
        self.number = scope.reserve(0)
        self.parity = scope.reserve(0)
        self.symbols = (self.number.symbols[0], self.parity.symbols[0])

    def depends(self, number: int) -> bool:
        """Is a symbol computed from the round?"""
        if number in self.symbols:
            return True
        return any(map(self.depends, self.scope.symbols[number].needs))

    def split(self, word: Any) -> tuple[Any, Any, Any]:
        """A word as what it is in the first round, and what a round and an odd round add."""
        if type(word) is not Extent:
            return word, 0, 0
        pieces: list[list[tuple[tuple[int, ...], int]]] = [[], [], []]
        for monomial, factor in word.terms:
            turning = [n for n in monomial if n in self.symbols]
            rest = tuple(n for n in monomial if n not in self.symbols)
            if len(turning) > 1 or any(map(self.depends, rest)):
                raise NotNativeError("an address is no linear function of the round")
            place = 1 + self.symbols.index(turning[0]) if turning else 0
            pieces[place].append((rest, factor))
        first, each, odd = (self.scope.extent(_sorted(piece)) for piece in pieces)
        return first, each, odd

    def check(self, decisions: Sequence[Decision]) -> None:
        """What is decided once must not depend on the round."""
        for decision in decisions:
            if any(map(self.depends, decision.extent.symbols)):
                raise NotNativeError("a decision depends on the round")


def _sorted(terms: Sequence[tuple[tuple[int, ...], int]]) -> Terms:
    return tuple(sorted(terms))


def scope_of(values: Sequence[Value], sizes: Sequence[Any]) -> Extents:
    """The symbols that the sizes of some values are made of; new ones where all sizes are plain numbers."""
    numbers = (*sizes, *(e for v in values for e in v.spec.shape))
    return next((e.scope for e in numbers if type(e) is Extent), None) or Extents()


def plan_loop(planner: Planner, value: Value, parts: Mapping[int, Value]) -> Loop | TiledLoop:
    """The native loop of a loop statement; places its parts."""
    first, fixed, stacks = split_operands(value)
    rounds_count = value.attributes["count"]
    graph = read_outputs(body_of(value), len(first), parts)
    rounds = Rounds(scope_of((*value.value_operands, *graph.inputs), [rounds_count]))
    slots: list[Slot] = []
    targets: list[Slot] = []
    strides = [v.spec.contiguous_strides() for v in first]
    for start in first:
        step = aligned(start.spec.nbytes)
        place = planner.slots[start]
        slots.append(place.moved(rounds.parity * step))
        targets.append(place.moved(step - rounds.parity * step))
    for operand in fixed:
        layout = planner.layouts(operand)
        slots.append(planner.address(layout, operand.spec.dtype.itemsize))
        strides.append(layout.strides)
    for operand in stacks:
        layout = planner.layouts(operand)
        size = operand.spec.dtype.itemsize
        slots.append(
            planner.address(layout, size).moved(rounds.number * (layout.strides[0] * size))
        )
        strides.append(layout.strides[1:])
    for index in sorted(i for i in parts if i >= len(first)):
        nbytes = parts[index].spec.nbytes // rounds_count if rounds_count else 0
        targets.append(planner.place(parts[index]).moved(rounds.number * nbytes))
    before = len(planner.kernels)
    with rounds.scope.deciding() as decisions:
        body = planner.body(graph, strides, slots, targets, len(first))
        for number in body.in_place:
            slots[number] = targets[number] = planner.slots[first[number]]
            body.stay(number, slots[number])
        steps = body.run_body()
        until, after = None, []
        reading: list[Step] = []
        if is_open(value):
            until = _until(planner, rounds, targets[len(first) - 1], value.attributes["until"])
            until, reading = planner.seen_by_host(until)
            after = _copied(planner, parts, slots)
        else:
            _place_last(planner, first, parts, body.in_place, rounds_count % 2)
    rounds.check(decisions)
    for decision in decisions:
        rounds.scope.decide(decision.extent, decision.relation, decision.outcome)
    count = (-1, rounds_count)
    in_rounds = tuple(_in_rounds(step, rounds, step.grain) for step in steps)
    if planner.tiles and not is_open(value) and not body.in_place:
        tiled = _tiled(planner.kernels[before:], in_rounds, body, len(first), rounds_count)
        if tiled is not None:
            return tiled
    at_the_end = tuple(_in_rounds(step, rounds, SERIAL) for step in after)
    return Loop(count, (*in_rounds, *reading), 0, until, at_the_end)


def _place_last(
    planner: Planner,
    first: Sequence[Value],
    parts: Mapping[int, Value],
    in_place: Sequence[int],
    odd: Any,
) -> None:
    """Where carried values lie after the last round."""
    for number, start in enumerate(first):
        if number in parts:
            step = 0 if number in in_place else odd * aligned(start.spec.nbytes)
            planner.slots[parts[number]] = planner.slots[start].moved(step)


def _tiled(
    kernels: Sequence[Kernel], steps: Sequence[Step], body: BodyPlanner, carried: int, rounds: Any
) -> TiledLoop | None:
    """The loop as one step, where elements do not meet."""
    inputs, targets = {*body.graph.inputs[:carried]}, {*body.targets}
    by_elements = all(goes_by_elements(k.code, inputs, targets) for k in kernels)
    if not steps or len(kernels) != len(steps) or not by_elements:
        return None
    return tiled_loop(kernels, steps, rounds)


def _until(planner: Planner, rounds: Rounds, target: Slot, value: bool) -> Until:
    """The end of an open loop: what the last of the carried values is after a round."""
    slot, word = planner.argument(target, 0)
    first, each, odd = rounds.split(word)
    return Until((slot, first), (each, odd), value)


def as_it_is(until: Until) -> tuple[Until, list[Step]]:
    """The end of an open loop on the host, and what a round does so that the launcher can look at it: nothing.

    >>> as_it_is(Until((2, 0), (0, 0), False))[1]
    []
    """
    return until, []


def _copied(planner: Planner, parts: Mapping[int, Value], slots: Sequence[Slot]) -> list[Step]:
    """What brings the last values of an open loop, whose place depends on the rounds, to where they are read."""
    if not parts:
        return []
    inputs = tuple(Value(x.spec, name=f"last{i}") for i, x in parts.items())
    copies = tuple(Value(x.spec, clone, (x,), {}) for x in inputs)
    graph = Graph("last", inputs, copies, copies)
    strides = [x.spec.contiguous_strides() for x in inputs]
    found = [slots[i] for i in parts]
    targets = [*map(planner.place, parts.values())]
    return planner.body(graph, strides, found, targets, 0).run_body()


def read_outputs(graph: Graph, carried: int, parts: Mapping[int, Value]) -> Graph:
    """The body without what nobody reads."""
    outputs = tuple(v for i, v in enumerate(graph.outputs) if i < carried or i in parts)
    return Graph(graph.name, graph.inputs, graph.body, outputs)


def _in_rounds(step: Step, rounds: Rounds, grain: Any) -> Step:
    """A step with what its arguments gain from round to round."""
    arguments, increments = [], []
    for slot, word in step.args:
        first, each, odd = rounds.split(word)
        arguments.append((slot, first))
        increments.append((each, odd))
    return replace(step, args=arguments, grain=grain, increments=increments)
