"""Replaying a call by walking the trace tree: run a segment, read its guard, go on below.

A walk holds what one compilation of the tree made and never changes, so calls in other threads go on undisturbed while
a new branch is recorded and compiled. Nothing that can be seen from outside happens before the last segment ran.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from ...autograd.late import end_of
from ...errors import DeviceError
from ...ir.graph import Value
from ...runtime.callbacks import KernelFailure
from ...tensor import Tensor
from ..backward.continuing import as_before, left_behind
from ..backward.node import CompiledBackward
from ..numbers.clocks import is_clock, tell, told_afterwards
from ..numbers.numbers import ANY, LATE, Number, NumberGuard, cell_maker, item_of, outcome_key
from ..recording.results import result_of
from ..replay.ending import Ending, NotReplayable, Parted, Refused
from .segments import Runner
from .tree import Leaf, Segment, outcome_of

if TYPE_CHECKING:
    from ..entry import Entry

FAILURES = (KernelFailure, ArithmeticError, IndexError, RuntimeError, TypeError, ValueError)


class Unseen(NotReplayable):
    """A guard came out as in no recorded run."""


class Walk:
    """Serves calls of one compiled tree."""

    def __init__(self, entry: Entry, root: Runner) -> None:
        self.entry = entry
        self.root = root
        self.sources = tuple(entry.signature.sources)
        self.refreshes = tuple(row.refresh for row, _ in entry.signature.rows.values())
        self.endings: dict[Leaf, Ending] = {}
        self.cells: dict[Number, list[tuple[int, Any]]] = {}
        for i, source in enumerate(self.sources):
            if source.number is not None:
                make = cell_maker(source.value.spec)
                self.cells.setdefault(source.number, []).append((i, make))
        self.empty = {i: make(0) for found in self.cells.values() for i, make in found}

    def __call__(self, tensors: list[Tensor], numbers: Sequence[Any] = ()) -> Any:
        """The result of the call."""
        environment = self.inputs(tensors)
        known: dict[Number, Any] = {}
        try:
            runner, pack, kept = self.descend(environment, numbers, known)
        except DeviceError:
            raise  # eager code would meet the same device
        except FAILURES as failure:
            raise Refused(str(failure)) from None
        leaf = runner.segment.leaf
        assert leaf is not None
        return self.finish(leaf, runner, tensors, environment, (pack, kept), known)

    def inputs(self, tensors: list[Tensor]) -> list[Any]:
        """The values of all graph inputs."""
        for refresh in self.refreshes:
            refresh()
        environment: list[Any] = []
        for source in self.sources:
            if source.position >= 0:
                environment.append(tensors[source.position])
            elif source.tensor is not None:
                environment.append(source.tensor)
            elif source.number is not None:
                environment.append(self.empty[len(environment)])
            elif source.generator is not None:
                environment.append(source.generator.rebase())
            else:
                owner: Any = source.owner
                environment.append((tensors[owner] if isinstance(owner, int) else owner)._grad)
        return environment

    def read(
        self,
        runner: Runner,
        environment: list[Any],
        numbers: Sequence[Any],
        known: dict[Number, Any],
        told: Mapping[int, int] | None = None,
        later: Sequence[Number] = (),
    ) -> None:
        """Read and compute the numbers of a segment, but those of ``later``, and fill cells; ``told`` are sizes."""
        for number in runner.segment.numbers:
            if number in later:
                continue
            if number.name == "argument":
                found = numbers[number.at]
            elif number.name == "place":
                found = number.at.read()
            elif number.name == "size":
                found = number.at(told)
            elif number.name == "item":
                found = item_of(self.array_at(runner.positions[number.at], environment))
            else:
                found = number.evaluate(known)
            known[number] = found
            for i, make in self.cells.get(number, ()):
                environment[i] = make(found)

    def descend(
        self, environment: list[Any], numbers: Sequence[Any], known: dict[Number, Any]
    ) -> tuple[Runner, Any, dict[Value, Tensor]]:
        """Run segments down to a leaf; also copies of inputs from before the call wrote to them.

        ``known`` receives the numbers on the way.
        """
        runner = self.root
        kept: dict[Value, Tensor] = {}
        while True:
            leaf = runner.segment.leaf
            if leaf is not None:  # it may write over its inputs
                self.ending(leaf, runner).check(environment)
                kept = {v: as_before(environment[runner.positions[v]]) for v in leaf.overwritten}
            later = self.later(runner)
            if runner.segment.numbers:
                self.read(runner, environment, numbers, known, later=later)
            if leaf is not None:
                ending = self.ending(leaf, runner)
                pack = ending.draw(environment, partial(run_segment, runner, environment))
                tell(later, known)
                return runner, pack, kept
            self.advance(runner, environment)
            tell(later, known)
            outcome = self.outcome(runner, environment, known)
            below = runner.children.get(outcome) or runner.children.get(ANY)
            if below is None:
                raise UnseenSegment(runner.segment, outcome)
            runner.segment.calls += 1
            self.turn(runner, below, environment)
            runner = below

    def later(self, runner: Runner) -> Sequence[Number]:
        """The numbers of a segment that are told when its program has run."""
        segment = runner.segment
        if not any(map(is_clock, segment.numbers)):
            return ()
        guarded = [segment.guard.value] if isinstance(segment.guard, NumberGuard) else []
        return told_afterwards(segment.numbers, [*self.cells, *guarded])

    def advance(self, runner: Runner, environment: list[Any]) -> None:
        """Run the program of a segment with others below it."""
        run_segment(runner, environment)

    def turn(self, runner: Runner, below: Runner, environment: list[Any]) -> None:
        """The guard of a segment leads to the one ``below``."""

    def array_at(self, position: int, environment: list[Any]) -> Any:
        """The array at a position of the environment, one element of which is read."""
        return environment[position].array

    def outcome(self, runner: Runner, environment: list[Any], known: dict[Number, Any]) -> Any:
        """The key of the branch that the guard of a segment leads to."""
        guard = runner.segment.guard
        if isinstance(guard, NumberGuard):
            return outcome_key(known[guard.value])
        return outcome_of(self.array_at(runner.guard_position, environment))

    def finish(
        self,
        leaf: Leaf,
        runner: Runner,
        tensors: list[Tensor],
        environment: list[Any],
        kept: tuple[Any, dict[Value, Tensor]],
        known: dict[Number, Any],
    ) -> Any:
        """What happens at the end of a path: randomness counted, history attached, writes done, gradients left."""
        ending = self.ending(leaf, runner)
        self.entry.replays += 1
        leaf.calls += 1
        ending.count(environment)
        ending.start(tensors)
        if leaf.backward:
            self.attach(leaf, runner, environment, *kept)
        ending.stop(tensors)
        ending.write(environment)
        outputs = ending.outputs(environment)
        ending.conclude(tensors, outputs)
        for place, x in leaf.recording.stores:
            place.store(known[x] if isinstance(x, Number) else x)
        results: list[Any] = list(outputs)
        for i, x in leaf.recording.numbers:
            if isinstance(x, Number):
                x = x.at() if x.name == LATE else known[x]
            results.insert(i, x)
        if leaf.structure is None:
            return results[0]
        assert self.entry.guard is not None
        made = result_of(leaf.structure, iter(results))
        return leaf.recording.result_in(made, self.entry.guard)

    def ending(self, leaf: Leaf, runner: Runner) -> Ending:
        """What the end of a path does, worked out once."""
        found = self.endings.get(leaf)
        if found is None:
            found = Ending(self.entry.owner.name, leaf, self.sources, runner.positions)
            self.endings[leaf] = found
        return found

    def attach(
        self,
        leaf: Leaf,
        runner: Runner,
        environment: list[Any],
        pack: Any,
        kept: dict[Value, Tensor],
    ) -> None:
        """Make the call one node of the autograd graph."""
        backward, positions = leaf.backward, runner.positions
        count = len(self.sources)
        saved = [
            _saved(environment[positions[v]], positions[v] >= count or v in leaf.moved)
            for v in backward.saved
            if v not in runner.pack
        ]
        versions = [
            (t._writes, t._writes.value + ahead)
            for t, ahead in ((environment[positions[v]], ahead) for v, ahead in leaf.watched)
        ]
        inputs = [kept[v] if v in kept else environment[positions[v]] for v in leaf.graph.inputs]
        edges = [end_of(inputs[i]) for i in (*backward.wrt, *leaf.tape.beyond)]
        for i, value in enumerate(leaf.graph.inputs):
            if value in leaf.moved and value not in kept:
                inputs[i] = left_behind(inputs[i])
        node = CompiledBackward(self.entry.site(leaf), edges, inputs, saved, pack, versions)
        for number in leaf.wanted:
            tensor = environment[positions[leaf.shown[number]]]
            tensor._requires_grad = True
            tensor._grad_fn = node
            if number:
                tensor._output_nr = number


def run_segment(runner: Runner, environment: list[Any]) -> Any:
    """Run the program of a segment, if it has one; what it packed."""
    pack = None if runner.idle else runner.run(environment)
    look_at_joined(runner, environment)
    return pack


def look_at_joined(runner: Runner, environment: list[Any]) -> None:
    """Look at the guards that the program of the last segment has as one: nothing that can be seen happened yet."""
    last = runner.segment.leaf is not None and runner.guard_position >= 0
    if last and not item_of(environment[runner.guard_position].array):
        raise Parted


class UnseenSegment(Unseen):
    """The guard of ``segment`` came out as in no recorded run, or as in one that ended in an error."""

    def __init__(self, segment: Segment, outcome: Any) -> None:
        super().__init__("an unseen branch")
        self.segment = segment
        self.outcome = outcome


def _saved(tensor: Tensor, computed: bool) -> Tensor:
    """A saved value must not hold the output whose history holds it."""
    return tensor._alias() if computed else tensor


__all__ = ["FAILURES", "NotReplayable", "Refused", "Unseen", "UnseenSegment", "Walk"]
