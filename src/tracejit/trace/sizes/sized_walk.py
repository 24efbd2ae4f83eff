"""Replaying a tree in which runs tell sizes: run a segment, find the sizes, bind what is below to them, go on.

Programs are bound to the sizes they hang on. Those of the latest sizes are kept, and what the ends of paths need.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from ...cuda.arrays import device_index, on_device, ordered
from ...errors import DeviceError
from ...ir.graph import Value
from ...runtime.eager.filling import Numbered
from ...sizes import Decided
from ...tensor import Tensor
from ...types import TensorType
from ..backward.backward import BoundBackward
from ..backward.continuing import as_before
from ..backward.freeing import History
from ..numbers.numbers import ANY, Number
from ..replay.ending import Ending
from ..signature import SizeLeaf
from ..tree.bound import Bound
from ..tree.plan import PIECES_OF_PATH, TreePlan, told_free
from ..tree.results import Results
from ..tree.segments import Runner
from ..tree.structure import Structure
from ..tree.tree import FOUND, Finding, Leaf, Segment, late_values, told_axes
from ..tree.walk import FAILURES, NotReplayable, Refused, UnseenSegment, Walk, look_at_joined

if TYPE_CHECKING:
    from ..entry import Entry

log = logging.getLogger("tracejit")

#: Sets of sizes for which a program is kept.
KEPT = 128
#: Plans of one tree that differ in what was decided about the sizes that runs tell.
MAX_PLANS = 8


class OtherSizes(Exception):
    """The plan does not hold for the sizes of a call."""


class Unplanned(NotReplayable):
    """There is no plan for the sizes of a call, nor will there be one."""


class Postponed(NotReplayable):
    """There is no plan for the sizes of a call, which few calls have so far."""

    passing = True


class Latest:
    """What was made for the latest keys."""

    def __init__(self) -> None:
        self.known: dict[Any, Any] = {}

    def get(self, key: Any, make: Callable[[], Any]) -> Any:
        """What was made for ``key``."""
        found = self.known.get(key)
        if found is None:
            found = self.known[key] = make()
            if len(self.known) > KEPT:
                self.known.pop(next(iter(self.known)), None)
        return found


class SizedStep:
    """A segment with what depends on sizes left open."""

    def __init__(self, walk: SizedWalk, runner: Runner) -> None:
        plan: TreePlan = walk.plan
        names: dict[int, int] = walk.told
        self.runner = runner
        self.segment = runner.segment
        program = runner.plan
        told = [n for n in program.compute.parameters if n in names]
        decisions = [d for d in runner.made.decisions if not told_free(plan.scope, d, plan.told)]
        self.holds = Decided(plan.scope, decisions)
        self.told = tuple(dict.fromkeys((*told, *(n for n in self.holds.parameters if n in names))))
        self.latest = Latest()
        self.idle = not runner.results.kinds and not runner.pack
        finding = runner.segment.finding
        self.found: Found | None = (
            None if finding is None else Found(finding, walk, runner.positions)
        )

    def sized(self, sizes: Mapping[int, int]) -> Runner:
        """The segment with the program for these sizes."""
        if not self.told:
            return self.runner
        key = tuple([sizes[n] for n in self.told])
        found: Runner = self.latest.get(key, lambda: self.bound(sizes))
        return found

    def bound(self, sizes: Mapping[int, int]) -> Runner:
        """Bind the program."""
        if not self.holds(sizes):
            raise OtherSizes
        try:
            program = self.runner.plan.bind(sizes)
        except ArithmeticError:  # a division that a plan for nothing does not do
            raise OtherSizes from None
        return dataclasses.replace(self.runner, program=program, results=Results(program))

    def run(self, environment: list[Any], sizes: Mapping[int, int]) -> Any:
        """Compute the segment's values, add them to the environment, and return the pack."""
        if self.idle:
            return None
        pack = self.sized(sizes).run(environment)
        look_at_joined(self.runner, environment)
        return pack


class Found:
    """An op whose shape the run tells, ready to run."""

    def __init__(self, finding: Finding, walk: SizedWalk, positions: Mapping[Value, int]) -> None:
        self.op = finding.op
        #: Extents of arguments, which are as they should be.
        self.handed_over = finding.value is walk.entry.signature.extents
        self.positions = [positions[x] for x in finding.operands if isinstance(x, Value)]
        self.attributes = walk.numbered(dict(finding.attributes))
        self.axes = told_axes(finding)
        self.numbers = walk.entry.signature.sizes.found[finding.value]

    def run(self, environment: list[Any], told: dict[int, int]) -> None:
        """Add the result to the environment and its sizes to ``told``."""
        operands = [environment[i].array for i in self.positions]
        if self.handed_over:
            environment.append(environment[self.positions[0]])
            told.update(zip(self.numbers, operands[0].tolist(), strict=True))
            return
        index = max(map(device_index, operands), default=-1)
        result = on_device(index, self.op.evaluate, operands, self.attributes(told))
        environment.append(Tensor._wrap(ordered(result)))
        values = result.tolist() if self.op.tells_values else [result.shape[d] for d in self.axes]
        told.update(zip(self.numbers, values, strict=True))


class SizedWalk(Walk):
    """Serves calls of one compiled tree in which sizes are found."""

    def __init__(
        self, entry: Entry, root: Runner, plan: TreePlan, found: Structure, number: int = 0
    ) -> None:
        super().__init__(entry, root)
        self.number = number
        self.plan: TreePlan = plan
        self.after: SizedWalk | None = (
            None  # by another plan, for sizes for which this does not hold
        )
        self.packs = {leaf: leaf.backward.pack for leaf in entry.root.leaves() if leaf.backward}
        self.unplanned: str | None = None  # why there is no plan after this one
        self.told: dict[int, int] = dict(zip(plan.told, found.told, strict=True))
        self.sizes = dict(zip(plan.parameters, found.sizes, strict=True))
        self.names = dict(zip(plan.values, found.values, strict=True))
        self.plans = dict(zip(entry.root.leaves(), plan.leaves, strict=True))
        self.steps: dict[Runner, SizedStep] = {}
        self.ends: dict[Leaf, SizedEnds] = {}

    def numbered(self, value: Any) -> Numbered:
        """``value``, whose extents become numbers for told sizes."""
        return self.entry.signature.sizes.numbered(value)

    def __call__(self, tensors: list[Tensor], numbers: Sequence[Any] = ()) -> Any:
        """The result of the call."""
        environment = self.inputs(tensors)
        told: dict[int, int] = {}
        known: dict[Number, Any] = {}
        try:
            runner, ended, kept = self.walk(environment, told, numbers, known)
        except DeviceError:
            raise  # eager code would meet the same device
        except FAILURES as failure:
            raise Refused(str(failure)) from None
        except OtherSizes:
            return self.otherwise(told, tensors, numbers)
        assert runner.segment.leaf is not None
        runner.segment.leaf.calls += 1
        return self.finish(ended, runner, tensors, environment, kept, known)

    def walk(
        self,
        environment: list[Any],
        told: dict[int, int],
        numbers: Sequence[Any],
        known: dict[Number, Any],
    ) -> tuple[Runner, Leaf, tuple[Any, dict[Value, Tensor]]]:
        """Run segments down to a leaf; what backward keeps is the pack, and inputs as they were before.

        ``told`` and ``known`` receive the sizes and the numbers on the way.
        """
        runner, sizes = self.root, dict(self.sizes)
        while True:
            step = self.steps.get(runner)
            if step is None:
                step = self.steps[runner] = SizedStep(self, runner)
            segment = step.segment
            if segment.numbers:
                self.read(runner, environment, numbers, known, told)
            if segment.leaf is not None:
                ended = self.ended(segment.leaf, told, sizes)
                ending, run = self.ending(ended, runner), partial(step.run, environment, sizes)
                ending.check(environment)
                places = runner.positions
                before = {v: as_before(environment[places[v]]) for v in ended.overwritten}
                return runner, ended, (ending.draw(environment, run), before)
            step.run(environment, sizes)
            if step.found is not None:
                step.found.run(environment, told)
                sizes.update(
                    (mine, told[number]) for mine, number in self.told.items() if number in told
                )
                key = FOUND
            elif segment.choices is not None:
                key = self.chosen(segment, told)
            else:
                key = self.outcome(runner, environment, known)
            below = runner.children.get(key) or runner.children.get(ANY)
            if below is None:
                raise UnseenSegment(segment, key)
            segment.calls += 1
            runner = below

    def ending(self, leaf: Leaf, runner: Runner) -> Ending:
        """What the end of a path does, worked out once per set of sizes."""
        assert isinstance(leaf, SizedLeaf)
        if leaf.ending is None:
            assert leaf.ends is not None
            known = leaf.ends.ending
            if known is None:
                known = Ending(self.entry.owner.name, leaf, self.sources, runner.positions)
                leaf.ends.ending = known
            leaf.ending = known.showing(leaf.recording.outputs)
        return leaf.ending

    def chosen(self, segment: Segment, told: Mapping[int, int]) -> Any:
        """The choice whose decisions hold."""
        assert segment.choices is not None
        return next((key for key, decided in segment.choices.items() if decided(told)), None)

    def otherwise(
        self, told: Mapping[int, int], tensors: list[Tensor], numbers: Sequence[Any]
    ) -> Any:
        """Serve the call by another plan: nothing that can be seen happened yet."""
        if self.after is None:
            self.after = self.planned(dict(told))
        return self.after(tensors, numbers)

    def planned(self, told: dict[int, int]) -> SizedWalk:
        """A walk by another plan, for sizes of which ``told`` are known."""
        if self.number + 1 >= MAX_PLANS:
            raise Unplanned("sizes known only at run time need too many plans")
        pieces = sum(bool(segment.statements) for segment in self.entry.root.segments())
        paths = max(self.entry.root.count_ends(), pieces // PIECES_OF_PATH)
        if paths > 1 and not self.entry.owner.plans.worth(paths):
            raise Postponed("much that was recorded is not planned anew for the sizes of few calls")
        if self.unplanned is None:
            try:
                return self.entry.planned_for(told, self.number + 1)
            except NotReplayable:
                raise
            except Exception as error:  # the sizes that are not known yet are guessed
                log.debug("planning failed", exc_info=True)
                reason = getattr(error, "summary", None) or str(error)
                self.unplanned = f"no plan for sizes known only at run time ({reason})"
        raise Unplanned(self.unplanned)

    def ended(self, leaf: Leaf, told: Mapping[int, int], sizes: Mapping[int, int]) -> Leaf:
        """The end of a path for these sizes."""
        ends = self.ends.get(leaf)
        if ends is None:
            ends = self.ends[leaf] = SizedEnds(self, leaf)
        return ends.of(told, sizes)


@dataclasses.dataclass(eq=False)
class SizedLeaf(Leaf):
    """The end of a path for one set of sizes."""

    told: Mapping[int, int] = dataclasses.field(default_factory=dict)
    ends: SizedEnds | None = None
    ending: Ending | None = None

    @property
    def tape(self) -> History:
        """The history of the run, which is the same for all sizes."""
        assert self.ends is not None
        if self.ends.tape is None:
            self.ends.tape = super().tape
        return self.ends.tape

    def types(self, values: Sequence[Value]) -> tuple[TensorType, ...]:
        """The types of recorded values."""
        assert self.ends is not None
        return self.ends.types(tuple(values), self.told)


class SizedEnds:
    """The end of a path, for the latest sizes."""

    def __init__(self, walk: SizedWalk, leaf: Leaf) -> None:
        self.walk = walk
        self.leaf = leaf
        self.late = tuple(late_values(leaf.recording))
        found = leaf.recording.sizes
        self.told = () if found is None else tuple(found.values)
        plan = walk.plan
        backward = walk.plans[leaf].backward
        self.backward = backward or None
        decisions = backward.decisions if backward else ()
        self.holds = Decided(
            plan.scope, [d for d in decisions if not told_free(plan.scope, d, plan.told)]
        )
        self.latest = Latest()
        outputs = leaf.recording.outputs
        self.shown = walk.numbered(
            tuple([(r.steps, () if r.spent is None else r.spent.sizes) for r in outputs])
        )
        self.structure = walk.numbered(sizes_in(leaf.structure))
        self.typed: dict[tuple[Value, ...], Numbered] = {}
        self.graph = dataclasses.replace(leaf.graph, inputs=(*leaf.graph.inputs, *self.late))
        self.ending: Ending | None = None  # this and the next are the same for all sizes
        self.tape: History | None = None

    def types(self, values: tuple[Value, ...], told: Mapping[int, int]) -> tuple[TensorType, ...]:
        """The types of recorded values, for these sizes."""
        known = self.typed.get(values)
        if known is None:
            known = self.typed[values] = self.walk.numbered(tuple([v.spec for v in values]))
        found: tuple[TensorType, ...] = known(told)
        return found

    def of(self, told: Mapping[int, int], sizes: Mapping[int, int]) -> Leaf:
        """The end for these sizes."""
        found: Leaf = self.latest.get(
            tuple([told[n] for n in self.told]), lambda: self.made(dict(told), dict(sizes))
        )
        return found

    def made(self, told: Mapping[int, int], sizes: Mapping[int, int]) -> Leaf:
        """A leaf of numbers in place of extents."""
        if not self.holds(sizes):
            raise OtherSizes
        walk, leaf = self.walk, self.leaf
        recording = leaf.recording
        if self.shown.fill is not None:
            pairs = zip(recording.outputs, self.shown(told), strict=True)
            outputs = tuple([recipe.sized(*sizes) for recipe, sizes in pairs])
            recording = dataclasses.replace(recording, outputs=outputs)
        new = SizedLeaf(
            recording,
            self.graph,
            with_sizes(leaf.structure, iter(self.structure(told))),
            told=told,
            ends=self,
        )
        if self.backward is not None:
            plan = walk.plan
            bound = Bound(plan.scope, sizes, walk.names, plan.lock, plan.planned)
            new.backward = BoundBackward(self.backward, bound, walk.packs[leaf])
        else:
            new.backward = ()
        return new


def sizes_in(structure: Any) -> tuple[Any, ...]:
    """The sizes that a structure returns."""
    if isinstance(structure, SizeLeaf):
        return (structure.value,)
    return sum(map(sizes_in, structure), ()) if isinstance(structure, tuple) else ()


def with_sizes(structure: Any, numbers: Iterator[Any]) -> Any:
    """A structure with numbers for the sizes it returns."""
    if isinstance(structure, SizeLeaf):
        return SizeLeaf(next(numbers))
    if isinstance(structure, tuple):
        return tuple([with_sizes(part, numbers) for part in structure])
    return structure
