"""Open loops in the place of recorded rounds: the record of a run is written anew, with each loop as one statement."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from ...errors import TracejitError
from ...ir.builder import attribute_key
from ...ir.graph import Graph, Guard, Value
from ...ir.loops import loop_value, part_value
from ...layout import layout_of
from ...modes import MODES
from ...ops import elementwise
from ...ops.source import full
from ...tensor import Tensor
from ..numbers.numbers import outcome_key
from .body import COUNT, Body, KeptError
from .counters import ENDLESS
from .gradients import Ahead, Lineage, settles
from .relations import Found, Relation, find_loops
from .rounds import Event, Ran, Rounds, Visit, Wrote

if TYPE_CHECKING:
    from ..recording.recorder import Recorder
    from ..tree.plan import PlanStore


#: Why a run was not recorded of which rounds were left out.
MISSED = "rounds of a loop that were not written down"
#: What of a recorder is written anew.
_WRITTEN = ("path", "guards", "roots", "parents", "views", "write_counts", "scope", "decided")


def roll_rounds(recorder: Recorder, results: Sequence[Any], plans: PlanStore) -> bool:
    """Write the record of a run that is over anew, with open loops; False when it stays as it is.

    ``results`` are the tensors (and numbers) that the run returned, ``plans`` those of the function: if rounds were
    left out and no loop was found, no more are.
    """
    rounds, recorder.rounds = recorder.rounds, None
    found = False
    if rounds is not None:
        try:
            found = not rounds.spoiled and _rolled(recorder, rounds, results)
        finally:
            recorder.line = None
            rounds.close()
    if recorder.unwritten and not found:  # then every round has to be there
        plans.settles = False
        recorder.unsupported(MISSED)
    return found


def lasting(reason: str) -> str | None:
    """Why no other run can be recorded either: that rounds were left out does not happen again.

    >>> lasting(MISSED), lasting("it prints")
    (None, 'it prints')
    """
    return None if reason.startswith(MISSED) else reason


def _rolled(recorder: Recorder, rounds: Rounds, results: Sequence[Any]) -> bool:
    if len(rounds.visits) < 2 or not is_plain(recorder) or not _in_one_place(recorder, rounds):
        return False
    lineage = Lineage(recorder)
    born = {id(e.out): n for n, e in enumerate(rounds.events) if isinstance(e, Ran)}

    def begins(relation: Relation, first: int) -> bool:
        """Does a round hand on nothing but what rounds made, with a history like that of what they were given?

        Or what it was given itself, in another place: buffers of the run that take turns.
        """
        made = all(born.get(id(x), -1) > first for x in handed_on(recorder, relation))
        return made and lineage.goes_on(relation)

    found = find_loops(rounds, begins)
    if not found:
        return False
    before = {name: getattr(recorder, name) for name in _WRITTEN}
    try:
        Writer(recorder, rounds, lineage).run(found, results)
    except (KeptError, TracejitError):
        for name, value in before.items():
            setattr(recorder, name, value)
        recorder.builder.scope = recorder.scope
        return False
    return True


def handed_on(recorder: Recorder, relation: Relation) -> list[Tensor]:
    """What a round hands on has to be made of, but for buffers of the run that take turns."""
    turns = _take_turns(relation) - recorder.external.keys()
    return [recorder.origin(y)[0] for _, y in relation.pairs if id(y) not in turns]


def _take_turns(relation: Relation) -> set[int]:
    """The tensors that rounds hand on in a circle, by identity."""
    after = {id(x): id(y) for x, y in relation.pairs}
    found: set[int] = set()
    for first in after:
        circle = [first]
        while circle[-1] in after and len(circle) <= len(after):
            circle.append(after[circle[-1]])
            if circle[-1] == first:
                found.update(circle)
                break
    return found


def is_plain(recorder: Recorder) -> bool:
    """Did the run do nothing but compute?"""
    other = (
        recorder.written_apart,
        recorder.rebound,
        recorder.random_calls,
        recorder.handed_out,
        recorder.slots,
        recorder.calls,
        recorder.hidden,
        recorder.freeing,
        recorder.new_leaves,
        recorder.found_flags,
        recorder.stores,
        recorder.scope,
        recorder.signature.special,
    )
    return not any(other)


def _in_one_place(recorder: Recorder, rounds: Rounds) -> bool:
    """Is all of it on the host, or all of it on one device?"""
    known = [x for x, _ in recorder.external.values()]
    ran = [x for e in rounds.events if isinstance(e, Ran) for x in (*e.operands, e.out)]
    return len({layout_of(x).device for x in (*known, *ran) if isinstance(x, Tensor)}) <= 1


class Writer:
    """Writes the record from the first loop on."""

    def __init__(self, recorder: Recorder, rounds: Rounds, lineage: Any) -> None:
        self.recorder = recorder
        self.rounds = rounds
        self.lineage = lineage
        self.results: dict[int, int] = {}  # bits of results, by tensor
        self.early: list[
            tuple[Any, int]
        ] = []  # numbers of rounds, and from which one on all are alike
        self.gone: set[int] = set()  # tensors that were made in rounds

    def run(self, found: Sequence[Found], results: Sequence[Any]) -> None:
        """Write everything; raises :class:`KeptError`."""
        events, visits = self.rounds.events, self.rounds.visits
        self.take_back(visits[found[0].first])
        tensors = [x for x in results if isinstance(x, Tensor)]
        for number, x in enumerate(tensors):
            self.results[id(x)] = self.results.get(id(x), 0) | 1 << number
        at = visits[found[0].first].at + 1
        for loop in found:
            start = visits[loop.first].at + 1
            self.again(events[at:start])
            self.loop(loop)
            at = visits[loop.last].at + 1
        self.again(events[at:])
        for x in tensors:
            self.check(x)
        for count, settled in self.early:
            if count < settled:
                int(count)  # histories are as in this run for so many rounds only

    def take_back(self, first: Visit) -> None:
        """Forget what was recorded after a visit."""
        recorder = self.recorder
        recorder.path = dict(islice(recorder.path.items(), first.path))
        recorder.guards = dict(islice(recorder.guards.items(), first.guards))
        recorder.roots, recorder.parents = dict(recorder.roots), dict(recorder.parents)
        recorder.views, recorder.write_counts = {}, dict(recorder.write_counts)
        for event in reversed(self.rounds.events[first.at :]):
            if isinstance(event, Wrote):
                key = id(event.origin)
                recorder.roots[key] = event.before
                if event.count is not None:
                    recorder.write_counts[key] = event.count
                else:
                    recorder.write_counts.pop(key, None)
        recorder.decided = dict(recorder.decided)
        recorder.occurrences.take_back(first.occurrences)

    def check(self, x: Tensor) -> None:
        """A tensor is read from outside the rounds."""
        origin, _ = self.recorder.origin(x)
        if id(x) in self.gone or id(origin) in self.gone:
            raise KeptError

    def again(self, events: Sequence[Event]) -> None:
        """Record what happened outside of loops once more, on what there is now."""
        recorder, mode = self.recorder, MODES.grad
        try:
            for event in events:
                recorder.line = event.line
                if isinstance(event, Visit):
                    self.check(event.tensor)
                    recorder._guard(event.tensor, event.outcome)
                    continue
                if isinstance(event, Wrote):
                    self.check(event.tensor)
                    self.check(event.new)
                    recorder._assign(event.tensor, event.new)
                    if id(event.origin) in recorder.external:
                        recorder.write_counts[id(event.origin)] += event.times - 1
                    continue
                for x in event.operands:
                    if isinstance(x, Tensor):
                        self.check(x)
                MODES.grad = event.grad
                if event.shown:
                    recorder.detach(event.operands[0], event.out)
                else:
                    recorder._record(event.op, event.operands, event.attributes, event.out)
        finally:
            MODES.grad = mode

    def condition(self, visit: Visit) -> Value:
        """The truth that was read."""
        value = self.recorder.value_of(visit.tensor)
        if value.spec.dtype.category != "bool":
            value = self.recorder.emit(elementwise.ne, (value, 0), {})
        return value

    def loop(self, found: Found) -> None:
        """Write a loop, and let its parts stand for what the last round left."""
        self.carry_written(found)
        pairs = found.relations[0].pairs
        self.recorder.line = self.rounds.visits[found.first].line
        starts = [self.recorder.value_of(x) for x, _ in pairs]
        flows = any(x._requires_grad for x, _ in pairs)
        writes = any(isinstance(e, Wrote) for e in self.round(found))
        if flows and (writes or layout_of(pairs[0][0]).device >= 0):
            raise KeptError  # reading the number of rounds would take as long as guards do
        ends = self.open(found, starts, flows)
        self.end(found, self.closed(found, starts, ends[-1]) if flows else ends)

    def round(self, found: Found) -> Sequence[Event]:
        """What happened in the first round."""
        visits = self.rounds.visits
        return self.rounds.events[visits[found.first].at + 1 : visits[found.first + 1].at]

    def carry_written(self, found: Found) -> None:
        """What rounds write to, and what was there before, goes from round to round; raises :class:`KeptError`."""
        events, pairs = self.round(found), found.relations[0].pairs
        made = {id(e.out) for e in events if isinstance(e, Ran)}
        origins = [e.origin for e in events if isinstance(e, Wrote)]
        written = {id(x): x for x in origins if id(x) not in made}
        given, handed_on = {id(x) for x, _ in pairs}, {id(y) for _, y in pairs}
        if any(key in given and key not in handed_on for key in written):
            raise KeptError  # of what the first round was given it is the only one to write to it
        for relation in found.relations:
            for x in (z for pair in relation.pairs for z in pair):
                origin, _ = self.recorder.origin(x)
                if origin is not x and id(origin) in written:
                    raise KeptError  # a view of what every round changes
            relation.pairs += [(x, x) for key, x in written.items() if key not in given]
            relation.fixed = [x for x in relation.fixed if id(x) not in written]

    def open(self, found: Found, starts: list[Value], counted: bool) -> list[Value]:
        """Write the loop that ends by itself; what it hands on, and how many rounds it had if they are ``counted``."""
        recorder, visits = self.recorder, self.rounds.visits
        first, last = visits[found.first], visits[found.last]
        condition = self.condition(first)
        body = self.body(found)
        graph = body.open(condition, counted)
        none = {"shape": COUNT.shape, "value": 0, "dtype": COUNT.dtype}
        number = [recorder.emit(full, (), none)] if counted else []
        carried = [*starts, *number, condition]
        value = self.known(graph, carried, [*body.fixed], found.most, not first.outcome)
        *ends, truth = [self.part(value, i) for i in range(len(carried))]
        if found.most < ENDLESS:
            recorder.guards[truth, outcome_key(last.outcome)] = None
            recorder.end_piece(Guard(truth, last.outcome, last.line))
        return ends

    def closed(self, found: Found, starts: list[Value], number: Value) -> list[Value]:
        """Write the same rounds as a loop of a known number, for a backward pass; what it hands on."""
        (count,) = self.recorder.sizes_of(number, [found.last - found.first])
        settled = self.settled(found)
        if settled > 1:
            self.early.append((count, settled))
        body = self.body(found)
        graph = body.closed()
        value = self.known(graph, starts, [*body.fixed], count)
        return [self.part(value, i) for i in range(len(starts))]

    def body(self, found: Found) -> Body:
        """What writes the body of a loop."""
        return Body(self.recorder, self.rounds, found.first, found.relations[0], self.check)

    def settled(self, found: Found) -> int:
        """The least number of rounds for which histories are as in this run; raises :class:`KeptError`."""
        visits, events = self.rounds.visits, self.rounds.events
        relation = found.relations[0]
        after = Ahead(self.lineage, dict(self.results)).through(events[visits[found.last].at :])
        ahead = [after.found.get(id(y), 0) for _, y in found.relations[-1].pairs]
        number = settles(self.lineage, self.round(found), relation, ahead)
        if number is None:
            raise KeptError
        return number

    def end(self, found: Found, ends: Sequence[Value]) -> None:
        """What the last round left is there, and nothing else of any round."""
        recorder, visits = self.recorder, self.rounds.visits
        first, last = visits[found.first].at + 1, visits[found.last].at
        events = self.rounds.events[first:last]
        self.gone.update(id(e.out) for e in events if isinstance(e, Ran))
        for event in events:
            if isinstance(event, Wrote) and id(event.origin) in recorder.external:
                known = recorder.write_counts.get(id(event.origin), 0)
                recorder.write_counts[id(event.origin)] = known + event.times
        left = dict(zip([id(y) for _, y in found.relations[-1].pairs], ends, strict=True))
        self.gone.difference_update(left)
        for key, value in left.items():
            parent = recorder.parents.get(key)
            if parent is not None:
                origin, steps = recorder.origin(parent[0])
                carried = id(origin) in left
                if not recorder.stays(key, origin, (*steps, *parent[1]), carried):
                    raise KeptError  # a view, of what is gone
                if carried:
                    continue
                del recorder.parents[key]
            recorder.roots[key] = value

    def known(
        self,
        graph: Graph,
        starts: list[Value],
        fixed: list[Value],
        count: Any,
        until: bool | None = None,
    ) -> Value:
        """The statement of a loop, the same one in every run that comes by."""
        signature = self.recorder.signature
        key = (graph.text, tuple(starts), tuple(fixed), attribute_key(count), until)
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
