"""The trace tree of one signature: straight segments between guards, each with its own program.

Every recorded run is a path from the root to a leaf. Segments shared by several paths are shared here too, because
equal statements are the same value (one builder per signature). A segment hands on the values that any later segment,
output or backward pass needs; they live in the *environment*, a list that grows along the path.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any

from ..backoff import Backoff
from ..errors import describe_line, last_user_line
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
    def checked(self) -> tuple[tuple[Value, int], ...]:
        """The values whose versions eager execution checks, with the writes that are still to come."""
        backward = self.backward
        fixed = (*backward.checked_inputs, *backward.checked_outputs)
        return (*self.recording.kept_writes, *((v, 0) for v in fixed))

    @cached_property
    def watched(self) -> tuple[tuple[Value, int], ...]:
        """The values whose versions must not move before the backward pass, with the writes still to come."""
        copied = set(self.overwritten)
        return (*self.checked, *((v, 0) for v in self.backward.reread if v not in copied))

    @cached_property
    def positions(self) -> tuple[int | None, ...]:
        """Where what is watched stands among the inputs of the graph; None for what the run wrote or made."""
        places = {v: i for i, v in enumerate(self.graph.inputs)}
        kept = len(self.recording.kept_writes)
        return (*[None] * kept, *(places.get(v) for v, _ in self.watched[kept:]))


@dataclass(eq=False)
class Raise:
    """The end of a path in an error: nothing is replayed there, so that the error is the one of an eager run."""

    error: str
    line: tuple[str, int] | None
    by_values: bool  # an op may have refused its values: no guard tells, and another run may go on
    calls: int = 0
    doubts: Backoff | None = (
        None  # from the first run on that did not end here: how often to record again
    )

    @classmethod
    def of(cls, error: BaseException, complete: bool) -> Raise:
        """The end that an error makes; ``complete`` tells whether everything before it was recorded."""
        line, by_user = last_user_line(error)
        return cls(type(error).__name__, line, not (by_user and complete))

    @property
    def doubtful(self) -> bool:
        """Should a call that comes here be recorded again?"""
        return self.doubts is not None and not self.doubts.wait()

    def passed(self) -> None:
        """A run did not end here."""
        self.doubts = self.doubts or Backoff(2)

    def __str__(self) -> str:
        where = f" at {describe_line(*self.line)}" if self.line else ""
        return f"{self.error}{where}"


@dataclass(eq=False)
class Segment:
    """A straight piece: its statements, then a guard with a child per outcome, or a leaf.

    ``numbers`` are known before the statements run. ``raises`` are the outcomes after which an error came before
    the next guard; for one before the first guard of the tree it is ``None`` in the root.
    """

    statements: list[Value] = field(default_factory=list)
    numbers: list[Number] = field(default_factory=list)
    guard: Guard | NumberGuard | ItemRead | None = None
    children: dict[Any, Segment] = field(default_factory=dict)
    raises: dict[Any, Raise] = field(default_factory=dict)
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

    @property
    def empty(self) -> bool:
        """Is it not known yet what happens here?"""
        return self.guard is None and self.leaf is None

    def count_ends(self) -> int:
        """How many paths end below, in a leaf or in an error."""
        return sum((s.leaf is not None) + len(s.raises) for s in self.segments())

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
    place, rest = _follow(root, recording.path)
    if place.segment is not None:
        known = place.segment.leaf
        if known is None or not _same_end(known, recording, structure):
            raise Divergence("a run took a known path to its end and did something else")
        return known
    known_end = place.parent.raises.get(place.outcome)
    if known_end is not None and not known_end.by_values:
        raise Divergence(f"something other than tensors decides about {known_end}")
    leaf = Leaf(recording, path_graph(recording, signature), structure)
    pieces = _pieces(rest)
    pieces[-1].leaf = leaf
    _attach(place, _chain(pieces))
    return leaf


def graft_error(root: Segment, path: Sequence[Any], end: Raise) -> bool:
    """Remember that ``path`` ends in an error, unless the tree knows how it goes on; has the tree grown?

    Raises :class:`Divergence` when the path contradicts the tree.
    """
    place, rest = _follow(root, path)
    if place.segment is not None:
        if not end.by_values:
            raise Divergence(f"something other than tensors decides about {end}")
        return False
    pieces = _pieces(rest)[:-1]  # what comes after the last guard is not run
    if not pieces:
        known = place.parent.raises.setdefault(place.outcome, end)
        if known.doubts is not None:
            known.doubts.note(str(end))
        return False
    pieces[-1].raises[_taken(pieces[-1].guard)] = end
    _attach(place, _chain(pieces))
    return True


def _taken(guard: Any) -> Any:
    """The outcome with which a path goes on after a guard."""
    return ANY if isinstance(guard, ItemRead) else outcome_key(guard.expected)


@dataclass
class _Place:
    """Where a path leaves the tree: below ``parent`` after ``outcome`` (None: at the root), or in ``segment``.

    ``guard`` is the one with that outcome.
    """

    parent: Segment
    outcome: Any
    segment: Segment | None
    guard: Any = None


def _follow(root: Segment, path: Sequence[Any]) -> tuple[_Place, list[Any]]:
    """Go down the tree as far as it knows a path; what is left of it, and statements that wait for numbers."""
    place = _Place(root, None, None if root.empty else root)
    first = 0
    waiting: list[Value] = []
    for i, statement in enumerate(path):
        if place.segment is None:
            break
        if isinstance(statement, Value):
            waiting.append(statement)
        if isinstance(statement, (Value, Number)):
            continue
        known, number_only = place.segment, isinstance(statement, NumberGuard)
        if known.guard is None or known.guard.value is not statement.value:
            raise Divergence("a different condition was tested than in an earlier run")
        if not number_only and [*map(id, known.statements)] != [*map(id, waiting)]:
            raise Divergence("other operations ran than in an earlier run")
        outcome = _taken(statement)
        place = _Place(known, outcome, known.children.get(outcome), statement)
        first, waiting = i + 1, waiting if number_only else []
    left = list(path[first:])
    return place, [*waiting, *left] if place.segment is None else left


def _pieces(path: Sequence[Any]) -> list[Segment]:
    """The segments of a piece of a path, not yet connected; the last has neither guard nor leaf."""
    pieces = [Segment()]
    for statement in path:
        last = pieces[-1]
        if isinstance(statement, Value):
            last.statements.append(statement)
        elif isinstance(statement, Number):
            last.numbers.append(statement)
        else:
            last.guard = statement
            pieces.append(Segment())
            if isinstance(statement, NumberGuard):  # statements can wait until it is known
                last.statements, pieces[-1].statements = [], last.statements
    return pieces


def _chain(pieces: Sequence[Segment]) -> Segment:
    """The first of the segments, each the child of the one before."""
    for above, below in pairwise(pieces):
        above.children[_taken(above.guard)] = below
    return pieces[0]


def _attach(place: _Place, made: Segment) -> None:
    """Put new segments into the tree, in one step: an interrupt leaves the tree with them or without them."""
    parent = place.parent
    if isinstance(place.guard, ItemRead):  # what was recorded for single numbers is given up
        parent.guard, parent.children, parent.raises = place.guard, {ANY: made}, {}
    elif place.outcome is not None:
        parent.children[place.outcome] = made
        parent.raises.pop(place.outcome, None)
    else:  # the root itself, which counts as known once it has a guard or a leaf
        parent.statements, parent.children, parent.raises = (
            made.statements,
            made.children,
            made.raises,
        )
        parent.numbers = made.numbers
        parent.leaf, parent.guard = made.leaf, made.guard


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
