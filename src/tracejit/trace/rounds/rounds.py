"""Rounds of a loop whose end tensors decide about: noted while a function runs, made an open loop when it has run.

Where the recorded run reads a truth from a tensor it makes a *visit*: what Python goes on with is looked at. If two
visits in a row are alike but for the tensors they hold (:mod:`.round_state`), then what happened between them happens
again and again until the truth comes out otherwise, for any number of rounds; and what follows then does not depend on
how many there were. So one recorded round is the body of a loop, and what came after the last one is what comes after
the loop. Everything is told by which tensors were handed to which op, not by the values that stand for them: equal
computations are one value, and would make different rounds look the same.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
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
from .state import FrameState, describe, frames_of

if TYPE_CHECKING:
    from ..recording.recorder import Recorder

#: Visits of a run that are looked at.
MAX_VISITS = 20_000


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
    times: int = 1  # more where what it holds was written to itself after that


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
    number: int  # of the visit in the run
    after: Any = None  # the relation to the visit before, where rounds between them were left out


#: What happens in a run.
Event = Ran | Wrote | Visit


@dataclass(eq=False)
class Rounds:
    """What a recorder notes; ``events`` are ops, writes and visits from the first visit on."""

    end: CodeType  # the code of the package that called the function
    known: Collection[int]
    steady: Callable[[], bool]  # is the Python state that is checked as it was before the run?
    count: int = 0  # of all visits
    events: list[Event] = field(default_factory=list)
    visits: list[Visit] = field(default_factory=list)
    spoiled: bool = False
    settle: Callable[[Recorder, Rounds], None] | None = None  # asked at every visit
    futile: int = 0  # stand-ins that were of no use
    settled: Any = None  # what takes the recorder's place meanwhile
    #: References to tensors in all of these, by identity. They die together: what counted them alone would be wrong.
    noted: dict[int, int] = field(default_factory=dict)

    def ran(
        self, op: Op, operands: Sequence[Any], attributes: dict[str, Any], out: Tensor, value: Value
    ) -> None:
        """An op was recorded."""
        if self.visits:
            own = [*operands]  # the tuple may be the user's
            self.append(Ran(op, own, attributes, out, value.line, MODES.grad))

    def detached(self, source: Tensor, out: Tensor, line: tuple[str, int] | None) -> None:
        """``out`` shows ``source`` without its history."""
        if self.visits:
            self.append(Ran(elementwise.detach_copy, [source], {}, out, line, MODES.grad, True))

    def wrote(self, found: Wrote) -> None:
        """A tensor that takes no part in autograd was written to in place."""
        if self.visits:
            self.append(found)

    def wrote_itself(self, origin: Tensor) -> None:
        """A part of a tensor was written to where it lies, which changes nothing but the count of writes."""
        for event in reversed(self.events):
            if isinstance(event, Wrote) and event.origin is origin:
                event.times += 1
                return

    def visit(self, recorder: Recorder, tensor: Tensor, outcome: Any, condition: Value) -> None:
        """The truth of a tensor was read."""
        if self.spoiled:
            return
        if type(outcome) is not bool or len(self.visits) >= MAX_VISITS or recorder.failure:
            self.spoil()
            return
        self.append(self.look(recorder, tensor, outcome, condition))
        if self.settle is not None:
            self.settle(recorder, self)

    def look(self, recorder: Recorder, tensor: Tensor, outcome: bool, condition: Value) -> Visit:
        """The visit that is made now."""
        frames = frames_of(self.end) if self.steady() else None
        self.count += 1
        return Visit(
            tensor,
            outcome,
            condition,
            condition.line,
            describe(frames, self.known) if frames else [],
            len(frames or ()),
            len(self.events),
            len(recorder.path),
            len(recorder.guards),
            len(recorder.external),
            len(recorder.occurrences),
            (MODES.grad, MODES.inference, MODES.saved_hooks, dtypes.get_default_dtype()),
            self.count,
        )

    def append(self, event: Event) -> None:
        """Something happened."""
        if isinstance(event, Visit):
            event.at = len(self.events)
            self.visits.append(event)
            self.note(event.tensor)
            for state in event.states:
                self.note(*chain.from_iterable(state.tensors.values()), *state.own.values())
        elif isinstance(event, Wrote):
            self.note(event.tensor, event.origin, event.new)
        else:
            self.note(*event.operands, event.out)
        self.events.append(event)

    def note(self, *things: Any, times: int = 1) -> None:
        """The tensors among some things are referred to once more."""
        noted = self.noted
        for x in things:
            if isinstance(x, Tensor):
                noted[id(x)] = noted.get(id(x), 0) + times

    def spoil(self) -> None:
        """Something happened that a loop cannot hold."""
        self.spoiled = True
        self.close()

    def close(self) -> None:
        """Forget everything, frames above all."""
        self.events, self.visits = [], []
        self.noted.clear()
