"""Open loops in the place of recorded rounds: the record of a run is written anew, with each loop as one statement."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from ..errors import TracejitError
from ..ir.builder import Builder
from ..ir.graph import Graph, Guard, Value
from ..ir.loops import loop_value, part_value
from ..layout import layout_of
from ..ops import elementwise
from ..tensor import Tensor
from .numbers import outcome_key
from .rolled_tree import is_native
from .round_code import ENDLESS
from .rounds import Found, Ran, Rounds, Visit, find_loops

if TYPE_CHECKING:
    from .recorder import Recorder


class KeptError(Exception):
    """The rounds stay as they were recorded."""


def roll_rounds(recorder: Recorder, results: Sequence[Any]) -> bool:
    """Write the record of a run that is over anew, with open loops; False when it stays as it is.

    ``results`` are the tensors (and numbers) that the run returned.
    """
    rounds, recorder.rounds = recorder.rounds, None
    if rounds is None:
        return False
    try:
        return not rounds.spoiled and _rolled(recorder, rounds, results)
    finally:
        recorder.line = None
        rounds.close()


def _rolled(recorder: Recorder, rounds: Rounds, results: Sequence[Any]) -> bool:
    if len(rounds.visits) < 2 or not _plain(recorder, rounds, results):
        return False
    found = find_loops(rounds, recorder.external)
    if not found:
        return False
    before = recorder.path, recorder.guards, recorder.roots, recorder.views
    try:
        _Writer(recorder, rounds).run(found, results)
    except (KeptError, TracejitError):
        recorder.path, recorder.guards, recorder.roots, recorder.views = before
        return False
    return True


def _plain(recorder: Recorder, rounds: Rounds, results: Sequence[Any]) -> bool:
    """Did the run do nothing but compute, without a tape?"""
    other = (
        recorder.written,
        recorder.random_calls,
        recorder.handed_out,
        recorder.slots,
        recorder.calls,
        recorder.hidden,
        recorder.stores,
        recorder.scope,
        recorder.signature.special,
    )
    if any(other) or any(layout_of(x).device >= 0 for x, _ in recorder.external.values()):
        return False
    made = [e.out for e in rounds.events if isinstance(e, Ran)]
    tensors = [x for x in results if isinstance(x, Tensor)]
    return not any(x.requires_grad for x in (*made, *tensors))


class _Writer:
    """Writes the record from the first loop on."""

    def __init__(self, recorder: Recorder, rounds: Rounds) -> None:
        self.recorder = recorder
        self.rounds = rounds
        self.gone: set[int] = set()  # tensors that were made in rounds
        self.born = {id(e.out): n for n, e in enumerate(rounds.events) if isinstance(e, Ran)}

    def run(self, found: Sequence[Found], results: Sequence[Any]) -> None:
        """Write everything; raises :class:`KeptError`."""
        recorder, events, visits = self.recorder, self.rounds.events, self.rounds.visits
        first = visits[found[0].first]
        recorder.path = dict(islice(recorder.path.items(), first.path))
        recorder.guards = dict(islice(recorder.guards.items(), first.guards))
        recorder.roots, recorder.views = dict(recorder.roots), {}
        at = first.at + 1
        for loop in found:
            start = visits[loop.first].at + 1
            self.again(events[at:start])
            self.loop(loop)
            at = visits[loop.last].at + 1
        self.again(events[at:])
        for x in results:
            if isinstance(x, Tensor):
                self.check(x)

    def check(self, x: Tensor) -> None:
        """A tensor is read from outside the rounds."""
        origin, _ = self.recorder.origin(x)
        if id(x) in self.gone or id(origin) in self.gone:
            raise KeptError

    def again(self, events: Sequence[Ran | Visit]) -> None:
        """Record what happened outside of loops once more, on what there is now."""
        recorder = self.recorder
        for event in events:
            recorder.line = event.line
            if isinstance(event, Visit):
                self.check(event.tensor)
                recorder._guard(event.tensor, event.outcome)
                continue
            for x in event.operands:
                if isinstance(x, Tensor):
                    self.check(x)
            recorder._record(event.op, event.operands, event.attributes, event.out)

    def condition(self, visit: Visit) -> Value:
        """The truth that was read."""
        value = self.recorder.value_of(visit.tensor)
        if value.spec.dtype.category != "bool":
            value = self.recorder.emit(elementwise.ne, (value, 0), {})
        return value

    def loop(self, found: Found) -> None:
        """Write a loop, and let its parts stand for what the last round left."""
        recorder, visits = self.recorder, self.rounds.visits
        first, last = visits[found.first], visits[found.last]
        recorder.line = first.line
        body = _Body(self, found)
        graph = body.graph()
        starts = [recorder.value_of(x) for x, _ in found.relations[0].pairs]
        starts.append(self.condition(first))
        value = self.known(graph, starts, list(body.fixed), found.most, not first.outcome)
        recorder.note(value)
        for n, event in enumerate(self.rounds.events[first.at + 1 : last.at], first.at + 1):
            if isinstance(event, Ran):
                assert self.born[id(event.out)] == n
                self.gone.add(id(event.out))
        for number, (_, x) in enumerate(found.relations[-1].pairs):
            if id(x) in recorder.parents:
                raise KeptError  # a view, of what is gone
            recorder.roots[id(x)] = self.part(value, number)
            self.gone.discard(id(x))
        if found.most < ENDLESS:
            part = self.part(value, len(starts) - 1)
            recorder.guards[part, outcome_key(last.outcome)] = None
            recorder.end_piece(Guard(part, last.outcome, last.line))

    def known(
        self, graph: Graph, starts: list[Value], fixed: list[Value], count: int, until: bool
    ) -> Value:
        """The statement of a loop, the same one in every run that comes by."""
        signature = self.recorder.signature
        key = (graph.text, tuple(starts), tuple(fixed), count, until)
        if key not in signature.loops:
            line = self.recorder.line
            signature.loops[key] = loop_value(starts, fixed, (), graph, count, line, until)
        found: Value = signature.loops[key]
        return found

    def part(self, loop: Value, index: int) -> Value:
        """One result of a loop."""
        value: Value = self.recorder.builder.insert(part_value(loop, index))
        self.recorder.note(value)
        return value


class _Body:
    """The body of a loop, from the ops of its first recorded round."""

    def __init__(self, writer: _Writer, found: Found) -> None:
        visits = writer.rounds.visits
        self.writer = writer
        self.recorder = writer.recorder
        self.first, self.second = visits[found.first], visits[found.first + 1]
        self.relation = found.relations[0]
        self.builder = Builder("rounds")
        self.inside: dict[int, Value] = {}
        self.fixed: dict[Value, Value] = {}
        self.same = {id(x) for x in self.relation.fixed}
        self.outside = {
            id(x) for x, _ in islice(self.recorder.external.values(), self.first.external)
        }

    def graph(self) -> Graph:
        """The graph; raises :class:`KeptError`."""
        builder = self.builder
        for number, (x, _) in enumerate(self.relation.pairs):
            self.inside[id(x)] = builder.input(f"carried{number}", x.spec)
        condition = self.writer.condition(self.first)
        builder.input("before", condition.spec)
        for event in self.writer.rounds.events[self.first.at + 1 : self.second.at]:
            assert isinstance(event, Ran)
            self.op(event)
        outputs = [self.operand(x) for _, x in self.relation.pairs]
        outputs.append(self.condition(condition))
        return builder.finish(outputs)

    def op(self, event: Ran) -> None:
        """Write one op down."""
        operands = [self.operand(x) if isinstance(x, Tensor) else x for x in event.operands]
        value = self.builder.emit(event.op, operands, event.attributes, event.line)
        if value.spec != event.out.spec or not is_native(value):
            raise KeptError
        self.inside[id(event.out)] = value

    def condition(self, before: Value) -> Value:
        """The truth that is read at the end of the round."""
        value = self.inside.get(id(self.second.tensor))
        if value is None:
            raise KeptError
        if value.spec.dtype.category != "bool":
            value = self.builder.emit(elementwise.ne, (value, 0), {})
        if value.spec != before.spec:
            raise KeptError
        return value

    def operand(self, x: Tensor) -> Value:
        """What stands for a tensor in the body."""
        known = self.inside.get(id(x))
        if known is not None:
            return known
        if id(x) not in self.same and id(x) not in self.outside:
            raise KeptError  # it was made before, and nothing shows that it is the same in every round
        self.writer.check(x)
        value = self.recorder.value_of(x)
        if value not in self.fixed:
            self.fixed[value] = self.builder.input(f"fixed{len(self.fixed)}", value.spec)
        return self.fixed[value]
