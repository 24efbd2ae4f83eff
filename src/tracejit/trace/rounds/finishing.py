"""The rounds that are left of a settled loop, run by compiled code while the function is recorded.

Once some rounds were compared only (:mod:`.settled`), what a round does is known as well as it will be after the run:
its body is a graph, its state are tensors in local variables and numbers that do nothing but count. So the loop can be
compiled at once, and go on natively from where Python is. What it ends with is put into the variables, and the truth
that Python has just asked for is that of the last round: a solver that is called once has its thousand rounds computed
as fast as later calls have.

The tensors of the round before stay as they are, for whoever holds them: variables get new ones.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from inspect import CO_OPTIMIZED
from types import FrameType
from typing import TYPE_CHECKING, Any

import numpy as np

from ...cuda.arrays import is_writeable
from ...determinism import are_deterministic_algorithms_enabled
from ...extents import Extents
from ...frames import set_variables
from ...ir.builder import Builder
from ...ir.graph import Value
from ...ir.loops import loop_value, part_value
from ...layout import contiguous_layout, layout_of
from ...modes import MODES
from ...ops.source import full
from ...runtime.ahead import TooLong, within
from ...runtime.kept.plans import program_plan
from ...runtime.kept.task import Task
from ...tensor import Tensor
from ...types import TensorType
from ..tree.results import Results
from .body import COUNT, Body, KeptError
from .relations import Relation
from .rounds import Event, Ran, Visit, Wrote
from .state import FrameState, driver, same_depth

if TYPE_CHECKING:
    from .settled import Settled

__all__ = ["Rest"]

_log = logging.getLogger("tracejit")

#: About how long a round takes that is compared: by itself, for an operation, and for a byte of a result, in seconds.
_PER_ROUND, _PER_OP, _PER_BYTE = 5e-5, 1e-5, 1e-10
#: Work that has to be done before a loop is compiled, in seconds; as much again is to be expected.
LEAST = 4e-3
#: How much longer than that compiling may take, which later calls need not do.
PATIENCE = 6.0
#: Fewer rounds than this are not worth a program.
_FEWEST = 4


class Rest:
    """Decides when the rest of a loop is compiled, and has it run."""

    def __init__(self, events: Sequence[Event]) -> None:
        """``events`` are those of a round."""
        made = [e.out for e in events if isinstance(e, Ran)]
        made += [e.new for e in events if isinstance(e, Wrote)]
        self.each = _PER_ROUND + sum(_PER_OP + _PER_BYTE * x.spec.nbytes for x in made)
        self.due: float | None = LEAST  # the work after which it is tried next; None: never again
        #: Whose number Python asks for, which it only compares: the tensor of the known round.
        self.asked: Tensor | None = None
        self.answer: Any = None  # what it is told

    def is_due(self, settled: Settled) -> bool:
        """Is it worth while to compile the loop by now?

        That hangs on what was done and is in the store, never on a clock.
        """
        if self.due is None or MODES.deferral is None or are_deterministic_algorithms_enabled():
            return False
        return bool(self.each * settled.count >= self.due)

    def asks(self, known: Tensor | None, value: Any) -> None:
        """Python asks for a number, which it only compares; no tensor is ``known`` for one that no round makes."""
        self.asked, self.answer = known, value
        if known is None:
            self.due = None

    def run(self, settled: Settled, before: Visit, most: int) -> Visit | None:
        """Run what is left, ``most`` rounds at most: the visit after the last one, None where nothing was done.

        ``before`` is the visit before the last one.
        """
        assert self.due is not None
        patience, self.due = PATIENCE * self.due, 2 * self.due
        recorder, deferral = MODES.recorder, MODES.deferral
        MODES.recorder = MODES.deferral = None
        try:
            with within(patience):
                return _finish(settled, self, before, most) if most >= _FEWEST else None
        except TooLong:
            return None  # helpers compile it meanwhile
        except Exception as error:  # noqa: BLE001  (rounds go on as they are)
            _log.debug("the rest of a loop is not compiled (%s: %s)", type(error).__name__, error)
            self.due = None
            return None
        finally:
            MODES.recorder, MODES.deferral = recorder, deferral


def _finish(settled: Settled, rest: Rest, before: Visit, most: int) -> Visit | None:
    """Run the rest, and leave Python as if it had."""
    last = settled.last
    loop = same_depth(before.states, last.states)
    state = last.states[loop]
    handed = [settled.place[id(x)] for x, _ in settled.pairs]
    written = [x for x, _ in settled.carried.pairs[len(handed) :]]
    variables = [*_variables(last.states[loop:], handed)]
    if not all(is_writeable(x.array) for x in written) or _turns(settled.round, written):
        raise KeptError
    ends, count, outcome = _run(settled, [*handed, *written], rest.asked, most)
    if outcome is last.outcome and driver(last.states, loop) != -1:
        rest.due = None  # all rounds there are will be run, by the iterator of a ``for``, which goes on where it is
        return None
    if rest.asked is not None:
        rest.answer = ends.pop().item()
    for x, end in zip(handed, ends, strict=False):
        end._inference = x._inference
        end._writes.value = x._writes.value
    for x, end in zip(written, ends[len(handed) :], strict=True):
        x.array[...] = end.array
        x._writes.value += count * _times(settled.round, x)
    set_variables(state.frame, _counted(before.states[loop], state, count))
    for frame, names in variables:
        set_variables(frame, {name: ends[i] for name, i in names.items()})
    settled.place = {id(x): end for (x, _), end in zip(settled.pairs, ends, strict=False)}
    settled.count += count
    settled.recorder.aside += f"; {count} rounds of a loop were run by compiled code"
    settled.rounds.count = last.number + count - 1
    truth = Tensor._wrap(np.array(outcome))
    return settled.rounds.look(settled.recorder, truth, outcome, last.condition)


def _turns(events: Sequence[Event], written: Sequence[Tensor]) -> bool:
    """Does a round write to tensors that take turns, and were there before?"""
    known = {id(e.out) for e in events if isinstance(e, Ran)}.union(map(id, written))
    return any(isinstance(e, Wrote) and id(e.origin) not in known for e in events)


def _times(events: Sequence[Event], x: Tensor) -> int:
    """How often a round writes to a tensor."""
    return sum(e.times for e in events if isinstance(e, Wrote) and e.origin is x)


# --- the program ---------------------------------------------------------------------------------------------------


def _run(
    settled: Settled, carried: Sequence[Tensor], asked: Tensor | None, most: int
) -> tuple[list[Tensor], int, bool]:
    """What all rounds that are left end with: what is carried, and asked for; how many they were; and the truth."""
    last, rounds = settled.last, settled.rounds
    condition = settled.begin.condition
    if last.tensor.spec != condition.spec:
        raise KeptError
    more = [] if asked is None else [(asked, asked)]
    relation = Relation([*settled.carried.pairs, *more], settled.carried.fixed, most)
    body = Body(settled.recorder, rounds, len(rounds.visits) - 2, relation, lambda x: None)
    graph = body.open(condition, True)
    builder, inputs = Builder("rest"), list[Tensor]()

    def given(x: Tensor) -> Value:
        inputs.append(x)
        return builder.input(f"x{len(inputs)}", x.spec)

    state = [given(x) for x in carried]
    none = [COUNT] if asked is None else [asked.spec, COUNT]
    state += [builder.emit(full, (), _zeros(spec)) for spec in none]
    state.append(given(last.tensor))
    fixed = []
    for x in body.fixed:
        if x in body.holders:
            fixed.append(given(body.holders[x]))
        else:  # made of nothing; kernels are those of later calls if they know what
            assert x.op is not None
            fixed.append(builder.emit(x.op, (), dict(x.attributes)))
    loop = builder.insert(loop_value(state, fixed, (), graph, most, last.line, not last.outcome))
    ends = [builder.insert(part_value(loop, i)) for i in range(len(state))]
    strides = tuple([layout_of(x).strides for x in inputs])
    task = Task(builder.finish(ends), strides)
    plan, reads = program_plan(task, Extents(), nullcontext())
    program = plan.bind({})
    *found, number, truth = Results(program).wrap(program.run(*[inputs[i] for i in reads]))
    return found, int(number.item()), bool(truth)


def _zeros(spec: TensorType) -> dict[str, Any]:
    """The options of a tensor of zeros."""
    return {"shape": spec.shape, "value": 0, "dtype": spec.dtype}


# --- variables -----------------------------------------------------------------------------------------------------


def _variables(
    states: Sequence[FrameState], carried: Sequence[Tensor]
) -> Iterator[tuple[FrameType, Mapping[str, int]]]:
    """Which variables of which frames hold the state of a loop; raises :class:`KeptError` where other things do."""
    place = {id(x): number for number, x in enumerate(carried)}
    for x in carried:
        plain = type(x) is Tensor and x._base is None and not x._requires_grad
        if not plain or layout_of(x) != contiguous_layout(x.spec):
            raise KeptError
    for state in states:
        held = {
            name: found
            for name, found in state.tensors.items()
            if not place.keys().isdisjoint(map(id, found))
        }
        if any(state.own.get(name) is not found[0] for name, found in held.items()):
            raise KeptError
        if not state.frame.f_code.co_flags & CO_OPTIMIZED:
            raise KeptError
        yield state.frame, {name: place[id(found[0])] for name, found in held.items()}


def _counted(before: FrameState, state: FrameState, count: int) -> dict[str, int]:
    """What counters will be so many rounds later."""
    found: dict[str, int] = {}
    for name, number in state.integers.items():
        if name in state.own and name in before.integers:
            found[name] = number + count * (number - before.integers[name])
    return found
