"""Rounds that are like those before: compared with them, not written down.

A loop that tensors end may have thousands of rounds in the run that is recorded, of which its loop needs one. Once some
rounds in a row were alike, a stand-in takes the recorder's place. It knows which op comes next, on which tensors; as
long as that is what happens, nothing is recorded, and what rounds made is free again. Whatever else is asked of the
recorder ends that: the last round takes the place of the first that was left out, and recording goes on from there.

The statements that the recorder has then stop at an earlier round. They are written anew when the run is over, with
the loop in the place of its rounds; a run whose rounds turn out to be no loop after all is not recorded, and the
function's next one is written down in full.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

from ...cuda.arrays import MODULES
from ...layout import layout_of
from ...modes import MODES
from ...ops import elementwise
from ...ops.table import Op
from ...runtime.callbacks import pointer_of
from ...tensor import Tensor
from ..recording.numbers_inside import NumbersInside
from .body import Body, KeptError
from .counters import ENDLESS
from .finishing import Rest
from .loops import Writer, handed_on, is_plain
from .relations import Found, Relation, goes_on, numbers_alike, relate
from .rounds import Event, Ran, Rounds, Visit, Wrote

if TYPE_CHECKING:
    from ..recording.recorder import Recorder

__all__ = ["Settled", "resume", "settle"]

#: So many rounds in a row are written down and alike before others are left out.
ALIKE = 3
#: Visits without that many, after which nobody looks any more.
MOST_TRIALS = 64
#: Stand-ins that did not come to the end of a round, after which there are no more.
MOST_FUTILE = 4
#: From so many bytes of a result on it is worth while to look for what is not needed any more.
LARGE = 1 << 16
#: References that counting them makes: the argument and the variable.
_BESIDE = 2


def settle(recorder: Recorder, rounds: Rounds) -> None:
    """Called at every visit: from now on rounds are compared only, if the last ones were alike.

    >>> import tracejit as tj
    >>> def halved(x):
    ...     while x.sum() > 1:
    ...         x = x / 2
    ...     return x
    >>> tj.compile(halved)(tj.tensor([2.0**60, 0.0]))  # of 60 rounds four are written down
    tensor([1., 0.])
    """
    visits = rounds.visits
    if not ALIKE < len(visits) <= MOST_TRIALS or rounds.futile >= MOST_FUTILE:
        return
    if recorder.packs or recorder.pending:
        return
    last = len(visits) - 1
    relations = [relate(visits[n], visits[n + 1]) for n in range(last - ALIKE, last)]
    if any(r is None for r in relations) or len({v.outcome for v in visits[-ALIKE:]}) > 1:
        return
    known = [r for r in relations if r is not None]
    first = last - ALIKE
    for number, relation in enumerate(known[1:], first + 1):
        if not goes_on(rounds, first, number, known[0], relation):
            return
    carried = _carried(recorder, rounds, last - 1, known[-1])
    if carried is not None:
        rounds.settled = Settled(recorder, rounds, known[-1], carried)
        MODES.recorder = rounds.settled


def resume(rounds: Rounds | None) -> None:
    """The function has returned: what happened in the last round, and after it, is written down.

    >>> resume(None)  # no loop that tensors end was met
    """
    if rounds is not None and rounds.settled is not None:
        rounds.settled.end()


def _carried(recorder: Recorder, rounds: Rounds, first: int, relation: Relation) -> Relation | None:
    """What the round that begins with a visit hands on as the body of a loop; None where it cannot be one.

    Besides what takes each other's place, that is what it writes to. Loops with gradients are written down.
    """
    begin, end = rounds.visits[first], rounds.visits[first + 1]
    events = rounds.events[begin.at : end.at]
    since = rounds.visits[first + 1 - ALIKE].at  # a round may hand on what the one before made
    made = {id(e.out) for e in rounds.events[since:] if isinstance(e, Ran)}
    tensors = [e.out for e in events if isinstance(e, Ran)] + [x for x, _ in relation.pairs]
    if recorder.failure or not is_plain(recorder) or any(x._requires_grad for x in tensors):
        return None
    if not all(id(x) in made for x in handed_on(recorder, relation)):
        return None
    copy = Relation([*relation.pairs], [*relation.fixed], relation.most)
    found = Found(first, first + 1, [copy], ENDLESS)
    try:
        Writer(recorder, rounds, None).carry_written(found)
        Body(recorder, rounds, first, copy, lambda x: None).open(begin.condition, False)
    except KeptError:
        return None
    return copy


class Settled:
    """Takes the place of a recorder; what it does not know itself, it leaves to that, and is done."""

    # What others ask in the middle of an op, as it is while this stands there.
    failure = watched = scope = trial = foresee = None
    packs = parts = ()

    def __init__(
        self, recorder: Recorder, rounds: Rounds, relation: Relation, carried: Relation
    ) -> None:
        self.recorder = recorder
        self.rounds = rounds
        self.begin, self.visit = rounds.visits[-2:]
        self.pairs = relation.pairs
        self.carried = carried
        #: What happened in the round that all others are compared with.
        self.round: Sequence[Event] = rounds.events[self.begin.at + 1 : self.visit.at]
        self.rest = Rest(self.round)
        self.texts = [repr(e.attributes) if isinstance(e, Ran) else "" for e in self.round]
        self.live = True
        self.count = 0  # rounds that were left out
        self.last = self.visit
        #: Large tensors that it saw, and how many references to each are of this.
        self.held: list[tuple[Tensor, int]] = []
        self.now: list[Event] = []  # what happened since
        #: Writes of what is there already: after how many events, to what, and what; and how many of them a round has.
        self.again: list[tuple[int, Tensor, Tensor]] = []
        self.times = sum(e.times - 1 for e in self.round if isinstance(e, Wrote))
        #: The tensors that take the places of those of the known round.
        self.place = {id(x): y for x, y in relation.pairs}
        # Such references do not keep elements.
        rounds.note(*chain.from_iterable(relation.pairs), *self.place.values())

    def __getattr__(self, name: str) -> Any:
        self.end()
        return getattr(self.recorder, name)

    # --- what is compared ----------------------------------------------------------------------------------------

    def record(
        self,
        op: Op,
        operands: Sequence[Any],
        attributes: dict[str, Any],
        out: Tensor,
        varying: bool = False,
    ) -> None:
        """An op ran."""
        if varying or not self.agrees(self.ran, op, operands, attributes, out, False):
            self.end()
            self.recorder.record(op, operands, attributes, out, varying)

    def detach(self, source: Tensor, result: Tensor) -> None:
        """``result`` shows ``source`` without its history."""
        if not self.agrees(self.ran, elementwise.detach_copy, [source], {}, result, True):
            self.end()
            self.recorder.detach(source, result)

    def trial_writes(self, tensor: Tensor) -> None:
        """``tensor`` is about to be written to; nothing is tried meanwhile."""

    def assign(self, tensor: Tensor, new: Tensor) -> None:
        """``tensor`` was overwritten in place with ``new``."""
        if not self.agrees(self.wrote, tensor, new):
            self.end()
            self.recorder.assign(tensor, new)

    def guard(self, tensor: Tensor, value: Any) -> Any:
        """Python asked for the truth of a tensor: another round is over, if it is the one of the loop.

        It is told that of the last round, where others were run without it.
        """
        if type(value) is bool and self.agrees(self.arrives, tensor, value):
            return self.last.outcome
        self.end()
        return self.recorder.guard(tensor, value)

    def number_read(self, tensor: Tensor, value: Any) -> Any:
        """What Python gets that asked for the number in a tensor: as such, if that is only compared."""
        known = self.live and type(value) in (int, float)
        made = (e.out for e in self.round if isinstance(e, Ran))
        self.rest.asks(next((x for x in made if self.has(x, tensor)), None), value)
        if known and NumbersInside.compared(self, tensor, value):  # type: ignore[arg-type]
            return self.rest.answer
        self.end()
        return self.recorder.number_read(tensor, value)

    def agrees(self, question: Callable[..., bool], *things: Any) -> bool:
        """What is answered while this stands there; comparing must never break the run that is recorded."""
        if not self.live:
            return False
        try:
            return question(*things)
        except Exception as error:  # noqa: BLE001  (the run goes on, and is not recorded)
            reason = f"a round of a loop could not be recorded ({type(error).__name__}: {error})"
            self.recorder.unsupported(reason)
            return False

    def wrote(self, tensor: Tensor, new: Tensor) -> bool:
        """Is this what was written to in the known round?"""
        if _lie_alike(tensor, new):  # as the second half of ``x[i] += 1`` does
            self.again.append((len(self.now), tensor, new))
            return True
        known = self.next()
        if not isinstance(known, Wrote):
            return False
        if not (self.has(known.tensor, tensor) and self.has(known.new, new)):
            return False
        origin = self.place.get(id(known.origin), known.origin)
        same = known.steps, new, known.line, known.before, known.count, known.times
        self.now.append(Wrote(tensor, origin, *same))
        return True

    def next(self) -> Event | None:
        """What happened at this point of the known round."""
        at = len(self.now)
        return self.round[at] if at < len(self.round) else None

    def has(self, known: Tensor, tensor: Tensor) -> bool:
        """Does a tensor take the place of one of the known round?"""
        return self.place.get(id(known), known) is tensor

    def ran(
        self, op: Op, operands: Sequence[Any], attributes: Any, out: Tensor, shown: bool
    ) -> bool:
        """Is this what ran in the known round?"""
        known = self.next()
        if not isinstance(known, Ran) or known.op is not op or known.shown is not shown:
            return False
        if known.grad is not MODES.grad or len(known.operands) != len(operands):
            return False
        if len(known.attributes) != len(attributes):
            return False
        place = self.place
        for x, y in zip(known.operands, operands, strict=True):
            if place.get(id(x), x) is not y and (isinstance(x, Tensor) or not numbers_alike(x, y)):
                return False
        if out._requires_grad or (attributes and repr(attributes) != self.texts[len(self.now)]):
            return False
        place[id(known.out)] = out
        found = Ran(op, [*operands], attributes, out, known.line, known.grad, shown)
        self.now.append(found)
        array = out._array
        if (out.spec.nbytes if array is None else array.nbytes) >= LARGE:
            self.let_go()
        return True

    def arrives(self, tensor: Tensor, outcome: bool) -> bool:
        """Is Python where it was at the end of the known round, with the tensors that take those places?"""
        if len(self.now) != len(self.round) or len(self.again) != self.times:
            return False
        if not self.has(self.visit.tensor, tensor):
            return False
        found = self.rounds.look(self.recorder, tensor, outcome, self.visit.condition)
        relation = relate(self.last, found)
        if relation is None or len(relation.pairs) != len(self.pairs):
            return False
        for (x, y), (before, after) in zip(self.pairs, relation.pairs, strict=True):
            if not (self.has(x, before) and self.has(y, after)):
                return False
        if not self.count:
            self.rounds.note(*self.place.values(), times=-1)
        self.count += 1
        previous, self.last, self.now, self.again = self.last, found, [], []
        self.place = {
            id(x): after for (x, _), (_, after) in zip(self.pairs, relation.pairs, strict=True)
        }
        self.held.clear()
        if self.count < 3:
            self.recorder.alive.sweep(len(self.recorder.alive))  # the rounds before are over
        if outcome is self.visit.outcome and self.rest.is_due(self):
            self.last = self.rest.run(self, previous, relation.most - 1) or found
        self.hold()
        if self.last.outcome is not self.visit.outcome:
            self.end()
        return True

    # --- memory ----------------------------------------------------------------------------------------------------

    def hold(self) -> None:
        """Count the references to what the last visit saw."""
        states, held = self.last.states, list[Tensor]()
        for state in states:
            held += chain.from_iterable(state.tensors.values())
        seen = {id(x): x for x in held}
        for state in states:
            held += [x for x in state.own.values() if isinstance(x, Tensor)]
        held += [self.last.tensor, *self.place.values()]
        count = Counter(map(id, held))
        own = 1  # that of the pair
        self.held = [(x, count[key] + own) for key, x in seen.items() if x.spec.nbytes >= LARGE]

    def let_go(self) -> None:
        """Free the elements of tensors of the last visit that nothing else refers to any more."""
        if MODULES:
            return
        if not self.count:
            self.recorder.alive.sweep(len(self.recorder.alive))
            return
        if not self.held:
            return
        for x, count in self.held:
            if sys.getrefcount(x) - _BESIDE == count and self.recorder.alive.may_empty(x):
                layout_of(x)  # which keeps the type, too
                x._array = x._block = None

    # --- the end ---------------------------------------------------------------------------------------------------

    def end(self) -> None:
        """Let the recorder go on."""
        if not self.live:
            return
        self.live = False
        self.held.clear()
        self.rounds.settled = None
        if MODES.recorder is self:
            MODES.recorder = self.recorder
        if self.count:
            self.leave_out()
        else:
            self.rounds.futile += 1
        self.go_on()

    def leave_out(self) -> None:
        """The last visit follows on the known one, and what it saw takes the place of what that saw."""
        recorder, rounds, last = self.recorder, self.rounds, self.last
        pairs = [(y, self.place[id(x)]) for x, y in self.pairs]
        recorder.unwritten = True
        last.after = Relation(pairs, [], ENDLESS)
        rounds.append(last)
        rounds.note(*chain.from_iterable(pairs))
        for known, tensor in (*pairs, (self.visit.tensor, last.tensor)):
            recorder.alive.append(tensor)
            if id(known) in recorder.roots:
                recorder.roots[id(tensor)] = recorder.roots[id(known)]
            if id(known) in recorder.parents:
                recorder.parents[id(tensor)] = recorder.parents[id(known)]

    def go_on(self) -> None:
        """Write down what happened since."""
        recorder = self.recorder
        try:
            for number, event in enumerate(self.now):
                assert not isinstance(event, Visit)
                self.write_again(number)
                recorder.line = event.line
                if isinstance(event, Wrote):
                    recorder.assign(event.tensor, event.new)
                elif event.shown:
                    recorder.detach(event.operands[0], event.out)
                else:
                    recorder.record(event.op, event.operands, event.attributes, event.out)
            self.write_again(len(self.now))
        finally:
            recorder.line = None

    def write_again(self, number: int) -> None:
        """Write down what was written to itself after so many events."""
        for after, tensor, new in self.again:
            if after == number:
                self.recorder.assign(tensor, new)


def _lie_alike(tensor: Tensor, new: Tensor) -> bool:
    """Do two tensors show the same elements in the same memory?"""
    same = tensor.spec == new.spec and layout_of(tensor) == layout_of(new)
    return same and pointer_of(tensor) == pointer_of(new)
