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

from ...backoff import Backoff
from ...errors import describe_line, last_user_line
from ...extents import hint
from ...ir.graph import Graph, Guard, Value
from ...ir.loops import body_of, is_loop
from ...ops.table import Op
from ...sizes import Decided
from ...types import Scalar, TensorType
from ..backward.freeing import History, Part, Parts, moved_bits
from ..numbers.numbers import ItemRead, Number, NumberGuard, item_of, outcome_key
from ..recording.inputs import Signature
from ..recording.recording import Recording

#: The only way on from a found size.
FOUND = "found"


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
    formed: bool = False  # was it rolled by the form of longer recordings?
    looked_through: Any = None  # what was known when no loops were found in it
    calls: int = 0
    branched: tuple[Segment, Any] | None = None  # where its path left those known, and how

    @cached_property
    def shown(self) -> list[Value]:
        """The distinct values that outputs show."""
        return computed_outputs(self.recording)

    def types(self, values: Sequence[Value]) -> tuple[TensorType, ...]:
        """The types of recorded values."""
        return tuple([v.spec for v in values])

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
    def moved(self) -> frozenset[Value]:
        """Inputs that the call gives other memory: passes to come read what was in the old one."""
        return frozenset(old for old, _, count in self.recording.writes if count < 0)

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

    @property
    def tape(self) -> History:
        """The history of the run, for numbers of computed outputs and of inputs with gradients.

        Inputs that get no gradient from compiled code, and that no pass comes to without one, are one more.
        """
        shown, tape = self.numbers_shown(), self.recording.tape
        beyond = tuple([i for i in tape.never() if i not in self.backward.wrt])
        wrt = {place: i for i, place in enumerate((*self.backward.wrt, *beyond))}
        rest = 1 << len(wrt)

        def moved(part: Part) -> Part:
            above, below = part
            return moved_bits(above, shown), moved_bits(below, wrt, rest) or rest

        def by_value(known: Parts) -> Parts:
            return tuple((self.at(key), tuple(map(moved, parts))) for key, parts in known)

        parts = tuple(dict.fromkeys(map(moved, tape.parts)))
        ends, ways = [0] * len(self.shown), [0] * len(self.shown)
        for i, number in shown.items():
            if i < len(tape.ends):
                ends[number] |= moved_bits(tape.ends[i], wrt)
                ways[number] |= moved_bits(tape.ways[i], wrt)
        before, keepers, rewritten = map(by_value, (tape.before, tape.keepers, tape.rewritten))
        return History(parts, tuple(ends), before, keepers, rewritten, tuple(ways), beyond)

    def numbers_shown(self) -> dict[int, int]:
        """The number, among the distinct values shown, of each output that is computed."""
        number = {v: i for i, v in enumerate(self.shown)}
        computed = enumerate(self.recording.outputs)
        return {i: number[r.value] for i, r in computed if r.kind == "computed"}

    def at(self, key: int) -> Value:
        """The input at a position, or output ``~key`` of the recording."""
        return self.graph.inputs[key] if key >= 0 else self.recording.outputs[~key].value

    def kept(self) -> dict[Value, int]:
        """What backward may read where it lies, because eager execution keeps it: with bits of outputs shown.

        Passes from those come by a step that keeps it. Checkpointed parts would read theirs from there again.
        """
        shown = self.numbers_shown()
        found: dict[Value, int] = {}
        for key, parts in self.recording.tape.keepers:
            for above, _ in parts:
                found[self.at(key)] = found.get(self.at(key), 0) | moved_bits(above, shown)
        read = self.recording.kept_writes[: self.recording.part_reads]
        found.update((value, -1) for value, writes in read if not writes)
        return found

    @cached_property
    def positions(self) -> tuple[int | None, ...]:
        """Where what is watched stands among the inputs of the graph; None for what the run wrote or made."""
        places = {v: i for i, v in enumerate(self.graph.inputs)}
        kept = len(self.recording.kept_writes)
        return (*[None] * kept, *(places.get(v) for v, _ in self.watched[kept:]))


@dataclass(eq=False)
class Finding:
    """An op at the end of a segment whose shape the run tells, and what it finds."""

    value: Value
    op: Op
    operands: tuple[Value | Scalar, ...]
    attributes: Mapping[str, Any]
    line: tuple[str, int] | None

    @classmethod
    def of(cls, value: Value) -> Finding:
        """The end of a segment at which ``value`` is found."""
        assert value.op is not None
        return cls(value, value.op, value.operands, value.attributes, value.line)


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
    """A straight piece: its statements, then a guard or a found size with children, or a leaf.

    A segment of ``choices`` has no statements: the first child whose decisions about sizes hold goes on. ``numbers``
    are known before the statements run. ``raises`` are the outcomes after which an error came before the next guard;
    for one before the first guard of the tree it is ``None`` in the root.
    """

    statements: list[Value] = field(default_factory=list)
    depth: int = 0  # guards and found sizes above
    numbers: list[Number] = field(default_factory=list)
    guard: Guard | NumberGuard | ItemRead | None = None
    finding: Finding | None = None
    choices: dict[Any, Decided] | None = None
    children: dict[Any, Segment] = field(default_factory=dict)
    raises: dict[Any, Raise] = field(default_factory=dict)
    leaf: Leaf | None = None
    calls: int = 0
    runner: Any = None
    built: Any = None  # what the last compilation was made for, and its result

    @property
    def finds_sizes(self) -> bool:
        """Is a size found at its end or below?"""
        return any(segment.finding is not None for segment in self.segments())

    def unseen_choice(self) -> str:
        """That sizes compare as in no recorded run, in words."""
        lines = [leaf.recording.sizes.scope.line for leaf in self.leaves() if leaf.recording.sizes]
        line = next((line for line in reversed(lines) if line), None)
        where = f" at {describe_line(*line)}" if line else ""
        return f"a size known only at run time was compared or read as a number{where}"

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
        ends = self.guard, self.leaf, self.finding, self.choices
        return all(end is None for end in ends)

    def prepare_backward(self) -> None:
        """Plan the backward pass of every path below; raises what stands in the way of one."""
        for leaf in self.leaves():
            if leaf.backward:
                leaf.backward.prepare()

    def count_ends(self) -> int:
        """How many paths end below, in a leaf or in an error."""
        return sum((s.leaf is not None) + len(s.raises) for s in self.segments())

    def segments(self) -> list[Segment]:
        """This segment and all below it."""
        found = [self]
        for segment in found:
            found.extend(segment.children.values())
        return found


def is_rolled(root: Segment) -> bool:
    """Were loops made of the statements of a straight path, which can be taken back?"""
    leaf = root.leaf
    return (
        leaf is not None and leaf.straight is not None and root.statements is not leaf.straight[0]
    )


def loops_besides_walks(root: Segment) -> list[tuple[int, int]]:
    """The loops made of a straight path, if they are more than the layers of this package that walked along sequences.

    Of each the number of rounds, and of operations in a round.
    """
    loops = [v for v in root.statements if is_loop(v)] if is_rolled(root) else []
    walks = 0 if root.leaf is None else root.leaf.recording.walks
    if len(loops) <= walks:
        return []
    return [(hint(v.attributes["count"]), len(body_of(v).body)) for v in loops]


def outcome_of(array: Any) -> Any:
    """The key of the branch that a one-element array takes."""
    return outcome_key(item_of(array))


def is_found(value: Value) -> bool:
    """Does the run tell sizes with this value?"""
    op = value.op
    return (
        op is not None
        and getattr(op, "dynamic", False)
        and bool(op.tells_values or told_axes(value))
    )


def told_axes(value: Value | Finding) -> tuple[int, ...]:
    """The dimensions of a value whose extents the run tells."""
    if value.op is None or not getattr(value.op, "dynamic", False):
        return ()
    types = [x.spec if isinstance(x, Value) else x for x in value.operands]
    return value.op.told_axes(types, value.attributes)


def same_end(leaf: Leaf, recording: Recording, structure: Any) -> bool:
    """Does a run end as the recorded one did (another thread may have recorded it first)?"""
    known = leaf.straight[1] if leaf.straight is not None else leaf.recording
    return bool(structure == leaf.structure) and _summary(recording) == _summary(known)


def _summary(recording: Recording) -> Any:
    """What a run returned, wrote and drew, to be compared."""
    outputs = [
        (r.kind, id(r.value), len(r.steps), r.requires_grad, r.leaf) for r in recording.outputs
    ]
    writes = [(id(target), id(new), count) for target, new, count in recording.writes]
    draws = [(id(value), n) for value, n in recording.random_calls.items()]
    effects = recording.effects
    numbers = [(i, x if isinstance(x, Number) else outcome_key(x)) for i, x in recording.numbers]
    stores = [(p.key, x if isinstance(x, Number) else outcome_key(x)) for p, x in recording.stores]
    held = [place.key for place in recording.held]
    summary = None if effects is None else effects.summary
    return outputs, writes, draws, summary, numbers, stores, held


def path_graph(recording: Recording, signature: Signature) -> Graph:
    """The whole path as one graph: computed outputs first, then the new values of what it wrote."""
    outputs = [*computed_outputs(recording), *(new for _, new, _ in recording.writes)]
    body = tuple(x for x in recording.path if isinstance(x, (Value, Guard)))
    return Graph(signature.builder.name, tuple(signature.builder.inputs), body, tuple(outputs))


def late_values(recording: Recording) -> list[Value]:
    """The values on a path whose shape the run told."""
    if recording.sizes is None:
        return []
    return [s for s in recording.path if isinstance(s, Value) and is_found(s)]


def computed_outputs(recording: Recording) -> list[Value]:
    """The distinct values that outputs show."""
    return list(dict.fromkeys(r.value for r in recording.outputs if r.kind == "computed"))


def wanted_gradients(recording: Recording) -> list[bool]:
    """For every computed output whether it takes part in autograd."""
    wanted = {r.value for r in recording.outputs if r.kind == "computed" and r.requires_grad}
    return [v in wanted for v in computed_outputs(recording)]


def needs_of_leaf(leaf: Leaf) -> list[Value]:
    """The values that the end of a path reads."""
    needs = [*leaf.graph.outputs, *leaf.recording.holds]
    if leaf.backward:
        needs += leaf.backward.saved
        needs += leaf.backward.checked_outputs
    return list(dict.fromkeys(needs))


def needed_after(
    root: Segment, leaf_needs: Mapping[Leaf, Sequence[Value]]
) -> dict[Segment, dict[Value, None]]:
    """For every segment the values of it or of earlier ones that segments below, their guards or leaves read."""
    found: dict[Segment, dict[Value, None]] = {}
    for segment in reversed(root.segments()):  # those below first
        needs: dict[Value, None] = {}
        if isinstance(segment.guard, (Guard, ItemRead)):
            needs[segment.guard.value] = None
        if segment.finding is not None:
            needs.update((x, None) for x in segment.finding.operands if isinstance(x, Value))
        if segment.leaf is not None:
            needs.update(dict.fromkeys(leaf_needs[segment.leaf]))
        told = segment.finding.value if segment.finding is not None else None
        for child in segment.children.values():
            needs.update((v, None) for v in _reads(child, found[child]) if v is not told)
        found[segment] = needs
    return found


def _reads(segment: Segment, needs: Mapping[Value, None]) -> dict[Value, None]:
    """Values from before ``segment`` that are read for those it ``needs``."""
    own = set(segment.statements)
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
