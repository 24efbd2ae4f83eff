"""Rounds of a loop whose end tensors decide about: noted while a function runs, made an open loop when it has run.

Where the recorded run reads a truth from a tensor it makes a *visit*: what Python goes on with is looked at. If two
visits in a row are alike but for the tensors they hold (:mod:`.round_state`), then what happened between them happens
again and again until the truth comes out otherwise, for any number of rounds; and what follows then does not depend on
how many there were. So one recorded round is the body of a loop, and what came after the last one is what comes after
the loop. Everything is told by which tensors were handed to which op, not by the values that stand for them: equal
computations are one value, and would make different rounds look the same.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from types import CodeType
from typing import TYPE_CHECKING, Any

from ... import dtypes
from ...ir.graph import Value
from ...modes import MODES
from ...ops import elementwise
from ...ops.table import Op
from ...tensor import Tensor
from .code import flow_of
from .counters import ENDLESS, Loop, driven_name, ends_for_good, rounds_of_counter
from .state import FrameState, came_around, describe, driver, frames_of, reader, same_depth

if TYPE_CHECKING:
    from ..recording.recorder import Recorder

#: Visits of a run that are looked at.
MAX_VISITS = 20_000
#: A loop that may have fewer rounds is none.
FEWEST = 2


@dataclass(eq=False)
class Ran:
    """An op that ran."""

    op: Op
    operands: Sequence[Any]
    attributes: dict[str, Any]
    out: Tensor
    line: tuple[str, int] | None
    grad: bool  # the mode it ran in
    shown: bool = False  # is ``out`` the operand itself, without its history?

    @property
    def cut_off(self) -> bool:
        """Does no gradient flow through it, though what it was given has one?"""
        if self.out._requires_grad or not self.out.spec.dtype.is_differentiable:
            return False
        return self.op.differentiable and any(
            isinstance(x, Tensor) and x._requires_grad for x in self.operands
        )


@dataclass(eq=False)
class Wrote:
    """A write in place: ``new`` into ``tensor``, which is ``origin`` seen through ``steps``."""

    tensor: Tensor
    origin: Tensor
    steps: Sequence[Any]
    new: Tensor
    line: tuple[str, int] | None
    before: Value  # what stood for the origin until then
    count: int | None  # how often that had been written to


@dataclass(eq=False)
class Visit:
    """A truth that was read, and the state of Python then."""

    tensor: Tensor
    outcome: bool
    condition: Value
    line: tuple[str, int] | None
    states: list[FrameState]
    depth: int  # of the stack of frames
    at: int  # among the events
    path: int  # statements before, itself included
    guards: int
    external: int  # tensors from outside met before
    occurrences: int  # computations that were told apart before
    modes: tuple[Any, ...]


#: What happens in a run.
Event = Ran | Wrote | Visit


@dataclass(eq=False)
class Relation:
    """How two visits in a row are alike: ``pairs`` of tensors that take each other's place, and for how many rounds."""

    pairs: list[tuple[Tensor, Tensor]]
    fixed: list[Tensor]
    most: int


@dataclass(eq=False)
class Rounds:
    """What a recorder notes; ``events`` are ops, writes and visits from the first visit on."""

    end: CodeType  # the code of the package that called the function
    known: Collection[int]
    steady: Callable[[], bool]  # is the Python state that is checked as it was before the run?
    events: list[Event] = field(default_factory=list)
    visits: list[Visit] = field(default_factory=list)
    spoiled: bool = False
    #: References to tensors in all of these, by identity. They die together: what counted them alone would be wrong.
    noted: dict[int, int] = field(default_factory=dict)

    def ran(
        self, op: Op, operands: Sequence[Any], attributes: dict[str, Any], out: Tensor, value: Value
    ) -> None:
        """An op was recorded."""
        if self.visits:
            own = [*operands]  # the tuple may be the user's
            self.events.append(Ran(op, own, attributes, out, value.line, MODES.grad))
            self.note(*own, out)

    def let_go(self) -> None:
        """Have the frames let go of what their variables held at the last visit.

        Reading the variables of a frame makes a dictionary that the frame keeps, and brings up to date when it is read
        again (from Python 3.13 on there is none). Code that may have asked for it itself keeps it as it is.
        """
        if self.visits:
            for state in self.visits[-1].states:
                code, number = state.place
                flow = flow_of(code)
                if number >= 0 and flow is not None and not flow.hides:
                    state.frame.f_locals  # noqa: B018

    def detached(self, source: Tensor, out: Tensor, line: tuple[str, int] | None) -> None:
        """``out`` shows ``source`` without its history."""
        if self.visits:
            found = Ran(elementwise.detach_copy, [source], {}, out, line, MODES.grad, True)
            self.events.append(found)
            self.note(source, out)

    def wrote(self, found: Wrote) -> None:
        """A tensor that takes no part in autograd was written to in place."""
        if self.visits:
            self.events.append(found)
            self.note(found.tensor, found.origin, found.new)

    def visit(self, recorder: Recorder, tensor: Tensor, outcome: Any, condition: Value) -> None:
        """The truth of a tensor was read."""
        if self.spoiled:
            return
        if type(outcome) is not bool or len(self.visits) >= MAX_VISITS or recorder.failure:
            self.spoil()
            return
        frames = frames_of(self.end) if self.steady() else None
        states = describe(frames, self.known) if frames else []
        found = Visit(
            tensor,
            outcome,
            condition,
            condition.line,
            states,
            len(frames or ()),
            len(self.events),
            len(recorder.path),
            len(recorder.guards),
            len(recorder.external),
            len(recorder.occurrences),
            (MODES.grad, MODES.inference, MODES.saved_hooks, dtypes.get_default_dtype()),
        )
        self.visits.append(found)
        self.events.append(found)
        self.note(tensor)
        for state in states:
            self.note(*chain.from_iterable(state.tensors.values()), *state.own.values())

    def note(self, *things: Any) -> None:
        """The tensors among some things are referred to once more."""
        noted = self.noted
        for x in things:
            if isinstance(x, Tensor):
                noted[id(x)] = noted.get(id(x), 0) + 1

    def spoil(self) -> None:
        """Something happened that a loop cannot hold."""
        self.spoiled = True
        self.close()

    def close(self) -> None:
        """Forget everything, frames above all."""
        self.events, self.visits = [], []
        self.noted.clear()


def relate(a: Visit, b: Visit) -> Relation | None:
    """How the state at ``b`` is that at ``a`` with other tensors; None where it is not."""
    if not a.states or a.depth != b.depth or len(a.states) != len(b.states):
        return None
    if a.modes != b.modes:
        return None
    loop = same_depth(a.states, b.states)
    changes = driver(b.states, loop) if loop >= 0 else None
    if changes is None or not came_around(a.states[loop], b.states[loop]):
        return None
    most, first, second = ENDLESS, list[Tensor](), list[Tensor]()
    for number in range(loop, len(a.states)):
        x, y = a.states[number], b.states[number]
        if x.place != y.place or not (x.followed and y.followed):
            return None
        if x.names.keys() != y.names.keys():
            return None
        other = [name for name in x.names if x.names[name] != y.names[name]]
        if number == loop:
            most = _counted(x, y, other, changes)
        elif other:
            return None
        if not most:
            return None
        for name in x.tensors:
            first += x.tensors[name]
            second += y.tensors[name]
    return _paired(first, second, most)


def _counted(x: FrameState, y: FrameState, names: list[str], changes: int) -> int:
    """For how many rounds the local variables that are not the same do nothing but count; 0 if they do more."""
    loop = Loop(*x.place, changes, reader(y), names)
    counters = dict.fromkeys(names)
    if changes >= 0:
        name = driven_name(loop)
        if name is None:
            return 0
        counters[name] = None
    if counters and not ends_for_good(loop, counters):
        return 0
    most = ENDLESS
    for name in counters:
        before, now = x.integers.get(name), y.integers.get(name)
        rounds = None
        if before is not None and now is not None and before != now:
            rounds = rounds_of_counter(loop, name, (before, now))
        most = min(most, rounds or 0)
    return most


def _paired(first: list[Tensor], second: list[Tensor], most: int) -> Relation | None:
    """Tensors that were the same one before are the same one now, and the other way round."""
    if len(first) != len(second):
        return None
    forth: dict[int, int] = {}
    back: dict[int, int] = {}
    found = Relation([], [], most)
    for x, y in zip(first, second, strict=True):
        if forth.setdefault(id(x), id(y)) != id(y) or back.setdefault(id(y), id(x)) != id(x):
            return None
    for x, y in {id(x): (x, y) for x, y in zip(first, second, strict=True)}.values():
        if x is y:
            found.fixed.append(x)
        else:
            found.pairs.append((x, y))
    return found


def alike(events: Sequence[Event], others: Sequence[Event], place: dict[int, int]) -> bool:
    """Did the same ops run in two rounds, on tensors that take each other's ``place``? It learns the new ones."""
    if len(events) != len(others):
        return False
    return all(map(_happen_alike, events, others, [place] * len(events)))


def _happen_alike(a: Event, b: Event, place: dict[int, int]) -> bool:
    """Is one thing that happened like another?"""
    if isinstance(a, Wrote) and isinstance(b, Wrote):
        pairs = (a.tensor, b.tensor), (a.origin, b.origin), (a.new, b.new)
        return a.line == b.line and all(place.get(id(x), id(x)) == id(y) for x, y in pairs)
    if not (isinstance(a, Ran) and isinstance(b, Ran)):
        return False
    if a.op is not b.op or len(a.operands) != len(b.operands) or a.line != b.line:
        return False
    if a.grad is not b.grad or a.shown is not b.shown:
        return False
    if not takes_alike(a.operands, b.operands, place):
        return False
    if a.attributes and repr(a.attributes) != repr(b.attributes):
        return False
    place[id(a.out)] = id(b.out)
    return len(a.attributes) == len(b.attributes)


def takes_alike(operands: Sequence[Any], others: Sequence[Any], place: Mapping[int, int]) -> bool:
    """Are operands the same numbers, and tensors that take each other's ``place``?"""
    for x, y in zip(operands, others, strict=True):
        if isinstance(x, Tensor):
            if place.get(id(x), id(x)) != id(y):
                return False
        elif type(x) is not type(y) or repr(x) != repr(y):
            return False
    return True


@dataclass(eq=False)
class Found:
    """Visits ``first`` to ``last`` are rounds of one loop, ``most`` of which are certain."""

    first: int
    last: int
    relations: list[Relation]
    most: int


#: May a loop begin with a round? Asked with the number of the event from which on all rounds were like it.
Begins = Callable[[Relation, int], bool]


def find_loops(rounds: Rounds, begins: Begins) -> list[Found]:
    """The loops of a run, in order; those that cannot be told apart from other control flow are left out."""
    found: list[Found] = []
    at = alike_from = 0
    visits = rounds.visits
    while at + 1 < len(visits):
        relation = relate(visits[at], visits[at + 1])
        if relation is not None and begins(relation, visits[alike_from].at):
            loop = _loop_at(rounds, at)
            if loop is not None:
                found.append(loop)
                at = alike_from = loop.last + 1
                continue
        at += 1
        if relation is None:
            alike_from = at
    return found


def _loop_at(rounds: Rounds, first: int) -> Found | None:
    """The loop that begins with a visit."""
    visits, relations = rounds.visits, list[Relation]()
    stay, number = visits[first].outcome, first
    most = ENDLESS
    while number + 1 < len(visits) and visits[number].outcome is stay and number - first < most:
        relation = relate(visits[number], visits[number + 1])
        if relation is None:
            break
        if not relations:
            most = relation.most
        elif not _goes_on(rounds, first, number, relations[0], relation):
            return None
        relations.append(relation)
        number += 1
    if most < FEWEST or not relations:
        return None
    if visits[number].outcome is stay and number - first < most:
        return None
    return Found(first, number, relations, most)


def _goes_on(rounds: Rounds, first: int, number: int, before: Relation, now: Relation) -> bool:
    """Is a later round like the first one?"""
    visits, events = rounds.visits, rounds.events
    if len(before.pairs) != len(now.pairs):
        return False
    place = {id(x): id(y) for (x, _), (y, _) in zip(before.pairs, now.pairs, strict=True)}
    own = events[visits[first].at + 1 : visits[first + 1].at]
    other = events[visits[number].at + 1 : visits[number + 1].at]
    if not alike(own, other, place):
        return False
    ends = [(x, y) for (_, x), (_, y) in zip(before.pairs, now.pairs, strict=True)]
    ends.append((visits[first + 1].tensor, visits[number + 1].tensor))
    return all(place.get(id(x), id(x)) == id(y) for x, y in ends)
