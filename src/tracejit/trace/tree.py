"""The trace tree of one signature: straight segments between guards, each with its own program.

Every recorded run is a path from the root to a leaf. Segments shared by several paths are shared here too, because
equal statements are the same value (one builder per signature). A segment hands on the values that any later segment,
output or backward pass needs; they live in the *environment*, a list that grows along the path.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from ..ir.graph import Graph, Guard, Value
from .inputs import Signature
from .numbers import ANY, ItemRead, Number, NumberGuard, outcome_key
from .recorder import Recording


class Divergence(Exception):
    """A recorded run left the tree without a guard: something other than a tensor decided."""


@dataclass(eq=False)
class Leaf:
    """The end of a path: outputs, writes, and (made on demand) its backward pass."""

    recording: Recording
    graph: Graph
    structure: Any = None
    backward: Any = None
    site: Any = None
    straight: Any = None  # statements, recording and graph as they were before loops were rolled
    calls: int = 0

    @cached_property
    def shown(self) -> list[Value]:
        """The distinct values that outputs show."""
        return computed_outputs(self.recording)

    @cached_property
    def wanted(self) -> list[int]:
        """Numbers of the computed outputs that take part in autograd."""
        return [i for i, w in enumerate(wanted_gradients(self.recording)) if w]

    @cached_property
    def overwritten(self) -> tuple[Value, ...]:
        """Inputs the run writes to that differentiating twice reads again, as they were before."""
        written = {old for old, *_ in self.recording.writes}
        return tuple(v for v in self.backward.reread if v in written) if self.backward else ()

    @cached_property
    def watched(self) -> tuple[Value, ...]:
        """The values whose versions must not move before the backward pass."""
        backward, copied = self.backward, set(self.overwritten)
        reread = (v for v in backward.reread if v not in copied)
        return (*backward.checked_inputs, *backward.checked_outputs, *reread)


@dataclass(eq=False)
class Segment:
    """A straight piece: its statements, then a guard with a child per outcome, or a leaf.

    ``numbers`` are known before the statements run.
    """

    statements: list[Value] = field(default_factory=list)
    numbers: list[Number] = field(default_factory=list)
    guard: Guard | NumberGuard | ItemRead | None = None
    children: dict[Any, Segment] = field(default_factory=dict)
    leaf: Leaf | None = None
    calls: int = 0
    runner: Any = None
    built: Any = None  # what the last compilation was made for, and its result

    def leaves(self) -> list[Leaf]:
        """Every leaf below, in order of recording."""
        found: list[Leaf] = []
        stack = [self]
        while stack:
            segment = stack.pop()
            if segment.leaf is not None:
                found.append(segment.leaf)
            stack.extend(reversed(segment.children.values()))
        return found

    def segments(self) -> list[Segment]:
        """This segment and all below it."""
        found = [self]
        for segment in found:
            found.extend(segment.children.values())
        return found


def outcome_of(array: Any) -> Any:
    """The key of the branch that a one-element array takes."""
    value = array.item()
    return outcome_key(value if type(value) in (bool, int, float) else float(value))


def graft(root: Segment, recording: Recording, signature: Signature, structure: Any) -> Leaf:
    """Add a recorded path to the tree; raises :class:`Divergence` when it contradicts what is there."""
    segment = root
    fresh = not root.statements and root.guard is None and root.leaf is None
    pending: list[Value] = []
    numbers: list[Number] = []
    for statement in recording.path:
        if isinstance(statement, Value):
            pending.append(statement)
            continue
        if isinstance(statement, Number):
            numbers.append(statement)
            continue
        number_only = isinstance(statement, NumberGuard)  # statements can wait until it is known
        if fresh:
            segment.numbers, segment.guard = numbers, statement
            segment.statements = [] if number_only else pending
        elif segment.guard is None or segment.guard.value is not statement.value:
            raise Divergence("a different condition was tested than in an earlier run")
        elif not number_only and [*map(id, segment.statements)] != [*map(id, pending)]:
            raise Divergence("other operations ran than in an earlier run")
        outcome = ANY if isinstance(statement, ItemRead) else outcome_key(statement.expected)
        if outcome is ANY and ANY not in segment.children:
            segment.guard, segment.children = statement, {}
        child = segment.children.get(outcome)
        fresh = child is None
        if child is None:
            child = segment.children[outcome] = Segment()
        segment, pending, numbers = child, pending if number_only else [], []
    if fresh:
        segment.statements, segment.numbers = pending, numbers
        segment.leaf = Leaf(recording, path_graph(recording, signature), structure)
    elif segment.leaf is None or not _same_end(segment.leaf, recording, structure):
        raise Divergence("a run took a known path to its end and did something else")
    return segment.leaf


def _same_end(leaf: Leaf, recording: Recording, structure: Any) -> bool:
    """Does a run end as the recorded one did (another thread may have recorded it first)?"""
    known = leaf.straight[1] if leaf.straight is not None else leaf.recording
    return bool(structure == leaf.structure) and _summary(recording) == _summary(known)


def _summary(recording: Recording) -> Any:
    """What a run returned, wrote and drew, to be compared."""
    outputs = [(r.kind, id(r.value), len(r.steps), r.requires_grad) for r in recording.outputs]
    writes = [(id(target), id(new), count) for target, new, count in recording.writes]
    draws = [(id(value), n) for value, n in recording.random_calls.items()]
    effects = recording.effects
    numbers = [(i, x if isinstance(x, Number) else outcome_key(x)) for i, x in recording.numbers]
    stores = [(p.key, x if isinstance(x, Number) else outcome_key(x)) for p, x in recording.stores]
    return outputs, writes, draws, None if effects is None else effects.summary, numbers, stores


def path_graph(recording: Recording, signature: Signature) -> Graph:
    """The whole path as one graph: computed outputs first, then the new values of what it wrote."""
    outputs = [*computed_outputs(recording), *(new for _, new, _ in recording.writes)]
    body = tuple(x for x in recording.path if isinstance(x, (Value, Guard)))
    return Graph(signature.builder.name, tuple(signature.builder.inputs), body, tuple(outputs))


def computed_outputs(recording: Recording) -> list[Value]:
    """The distinct values that outputs show."""
    return list(dict.fromkeys(r.value for r in recording.outputs if r.kind == "computed"))


def wanted_gradients(recording: Recording) -> list[bool]:
    """For every computed output whether it takes part in autograd."""
    wanted = {r.value for r in recording.outputs if r.kind == "computed" and r.requires_grad}
    return [v in wanted for v in computed_outputs(recording)]


def needs_of_leaf(leaf: Leaf) -> list[Value]:
    """The values that the end of a path reads."""
    needs = [*leaf.graph.outputs]
    if leaf.backward:
        needs += leaf.backward.saved
        needs += leaf.backward.checked_outputs
    return list(dict.fromkeys(needs))


def needed_after(segment: Segment, leaf_needs: Mapping[Leaf, Sequence[Value]]) -> dict[Value, None]:
    """Values of this segment or earlier that the segments below, their guards or leaves read."""
    needs: dict[Value, None] = {}
    if isinstance(segment.guard, (Guard, ItemRead)):
        needs[segment.guard.value] = None
    if segment.leaf is not None:
        needs.update(dict.fromkeys(leaf_needs[segment.leaf]))
    for child in segment.children.values():
        needs.update(reads(child, leaf_needs))
    return needs


def reads(segment: Segment, leaf_needs: Mapping[Leaf, Sequence[Value]]) -> dict[Value, None]:
    """Values from before ``segment`` that it or anything below it needs."""
    own = set(segment.statements)
    needs = needed_after(segment, leaf_needs)
    found = {v: None for v in needs if v not in own}
    stack = [v for v in needs if v in own]
    seen = set(stack)
    while stack:
        for operand in stack.pop().value_operands:
            if operand not in own:
                found[operand] = None
            elif operand not in seen:
                seen.add(operand)
                stack.append(operand)
    return found
