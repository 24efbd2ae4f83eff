"""Compiling a trace tree: which values each segment hands on, and the program that computes them.

Plans are made of symbolic values, once per structure; binding one to the sizes of a recorded tree is cheap.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ...extents import Extents
from ...ir.graph import Graph, Value
from ...runtime.kept.plans import program_plan
from ...runtime.kept.task import Task
from ...runtime.program import Program, ProgramPlan
from ...runtime.quick import LIST
from ...symbols import Decision
from ...types import Shape
from ..numbers.numbers import NumberGuard
from ..recording.dump import dump_program
from .results import Results
from .tree import Leaf, Segment, needed_after

Environment = list[Any]

#: After so many calls a program is run by a built-in of its own, which takes as long to make as some calls do.
OFTEN = 8


@dataclass(frozen=True, eq=False)
class SegmentPlan:
    """A segment ready for any sizes: which environment positions it reads, what it computes and hands on.

    ``pack`` maps values that only a backward pass reads to their offset in the block that holds them all.
    """

    name: str
    program: ProgramPlan
    reads: tuple[int, ...]
    guard_position: int
    positions: dict[Value, int]
    pack: dict[Value, int]
    segment: Segment
    children: dict[Any, SegmentPlan]
    decisions: tuple[Decision, ...] = ()


@dataclass(frozen=True, eq=False)
class Runner:
    """A compiled segment: reads environment positions, appends its results as tensors."""

    plan: ProgramPlan
    program: Program
    reads: tuple[int, ...]
    results: Results
    guard_position: int
    positions: dict[Value, int]
    pack: Set[Value]
    segment: Segment
    children: dict[Any, Runner]
    made: SegmentPlan

    @property
    def idle(self) -> bool:
        """Is there nothing to run?"""
        return not (self.segment.statements or self.results.kinds or self.pack)

    @cached_property
    def quick(self) -> Callable[..., list[Any]] | None:
        """The built-in that runs the program and makes a list of tensors, with the pack behind them."""
        found: Callable[..., list[Any]] | None = self.results.quick(self.program, how=LIST)
        return found

    def run(self, environment: Environment) -> Any:
        """Compute the segment's values, add them to the environment, and return the pack."""
        arguments = [environment[i] for i in self.reads]
        quick = self.quick if self.segment.calls >= OFTEN else None
        if quick is not None:
            made = quick(*arguments)
            pack = made.pop() if self.pack else None
            environment += made
            return pack
        results = self.program.run(*arguments)
        environment += self.results.wrap(results)
        return results[-1] if self.pack else None


def compile_graph(
    name: str,
    inputs: Sequence[Value],
    statements: Sequence[Value],
    outputs: Sequence[Value],
    strides: Callable[[Value], Shape],
    scope: Extents,
    lock: Any,
    pack: Set[Value] = frozenset(),
    packed: Mapping[Value, int] | None = None,
    overwrite: Mapping[Value, Value] | None = None,
    device: int = -1,
    may_refuse: bool = False,
    capture: bool = False,
) -> tuple[ProgramPlan, list[Value]]:
    """Optimise and plan a piece; returns also which of ``inputs`` it still reads (packed ones left out).

    ``scope`` has the symbols of sizes; whoever plans with it holds ``lock``. ``pack`` are outputs to be packed,
    ``packed`` inputs with their offsets in a pack; ``overwrite`` maps outputs to inputs whose memory they may take.
    With ``may_refuse``, its program may find that it cannot serve a call.
    """
    offsets, taken = packed or {}, overwrite or {}
    places = {v: i for i, v in enumerate(inputs)}
    task = Task(
        with_inputs(name, inputs, statements, outputs),
        [strides(v) for v in inputs],
        {i: places[taken[v]] for i, v in enumerate(outputs) if taken.get(v) in places},
        [i for i, v in enumerate(outputs) if v in pack],
        {places[v]: at for v, at in offsets.items()},
        device,
        may_refuse,
    )
    program, reads = program_plan(task, scope, lock, capture)
    return program, [inputs[i] for i in reads if inputs[i] not in offsets]


def with_inputs(
    name: str, inputs: Sequence[Value], statements: Sequence[Value], outputs: Sequence[Value]
) -> Graph:
    """A graph of ``statements`` in which values computed elsewhere appear as inputs."""
    from ...ir.builder import Builder

    builder = Builder(name)
    mapping: dict[Value, Value] = {}
    for i, value in enumerate(inputs):
        mapping[value] = builder.input(value.name or f"v{i}", value.spec)
    live = _live(outputs, mapping)
    for statement in statements:
        if statement in live and statement not in mapping:
            mapping[statement] = builder.copy(statement, mapping)
    return builder.finish([mapping[v] for v in outputs])


def _live(outputs: Sequence[Value], given: dict[Value, Value]) -> set[Value]:
    """The values that must be computed here for ``outputs``."""
    live: set[Value] = set()
    stack = list(outputs)
    while stack:
        value = stack.pop()
        if value not in live and value not in given:
            live.add(value)
            stack.extend(value.value_operands)
    return live


class TreeCompiler:
    """Plans every segment of a tree of symbolic values."""

    may_refuse = True  # may programs find that they cannot serve a call?

    def __init__(
        self,
        name: str,
        scope: Extents,
        lock: Any,
        strides: Mapping[Value, Shape],
        leaf_needs: Mapping[Leaf, Sequence[Value]],
        packable: Mapping[Leaf, Set[Value]],
        present: Callable[[Segment], None],
        device: int = -1,
        capture: bool = False,
    ) -> None:
        self.present = (
            present  # makes the sizes of a recorded run through a segment the present ones
        )
        self.name = name
        self.device, self.capture = device, capture
        self.scope, self.lock = scope, lock
        self.strides = strides
        self.leaf_needs = leaf_needs
        self.packable = packable
        self.decisions: list[Decision] = []

    def run(self, root: Segment, inputs: Sequence[Value]) -> SegmentPlan:
        """The plan of the root, with those of all segments below."""
        siblings: dict[Any, SegmentPlan] = {}
        needs = needed_after(root, self.leaf_needs)
        base = {value: i for i, value in enumerate(inputs)}
        stack: list[tuple[Segment, dict[Value, int], int, dict[Any, SegmentPlan], Any]] = [
            (root, base, 0, siblings, None)
        ]
        while stack:
            segment, positions, number, family, key = stack.pop()
            found = self.segment(
                f"{self.name}_{number}" if number else self.name, segment, positions, needs[segment]
            )
            family[key] = found
            for i, (outcome, child) in enumerate(segment.children.items()):
                known = found.positions
                if segment.finding is not None:
                    known = known | {segment.finding.value: len(known)}
                stack.append((child, known, 2 * number + i + 1, found.children, outcome))
        return siblings[None]

    def segment(
        self,
        name: str,
        segment: Segment,
        positions: dict[Value, int],
        needs: Mapping[Value, None],
    ) -> SegmentPlan:
        """The plan of one segment, given the environment positions of what was computed before it.

        ``needs`` are the values of it or from before that are read later.
        """
        outputs = [v for v in needs if v not in positions]
        inputs = _leaves_of(outputs, positions)
        packable = self.packable.get(segment.leaf, frozenset()) if segment.leaf else frozenset()
        overwrite = overwritable(segment.leaf) if segment.leaf else {}
        program, kept = self.built(name, segment, inputs, outputs, packable, overwrite)
        slots = program.plan.output_slots
        pack = {v: s.offset for v, s in zip(outputs, slots, strict=True) if s.kind == "pack"}
        outputs = [v for v in outputs if v not in pack]
        after = positions | {v: len(positions) + i for i, v in enumerate(outputs)}
        return SegmentPlan(
            name,
            program,
            tuple(positions[v] for v in kept),
            _position(segment, after),
            after,
            pack,
            segment,
            {},
            tuple(segment.built[2]),
        )

    def built(
        self,
        name: str,
        segment: Segment,
        inputs: Sequence[Value],
        outputs: Sequence[Value],
        packable: Set[Value],
        overwrite: Mapping[Value, Value],
    ) -> tuple[ProgramPlan, list[Value]]:
        """The planned piece; made again only when something else is asked of the segment than last time."""

        def strides(value: Value) -> Shape:
            found = self.strides.get(value)
            return value.spec.contiguous_strides() if found is None else found

        asked = (
            [*map(id, inputs)],
            [*map(id, outputs)],
            {*map(id, packable)},
            len(segment.statements),
        )
        if segment.built is None or segment.built[0] != asked:
            self.present(segment)
            with self.scope.deciding() as decisions:
                made = compile_graph(
                    name,
                    inputs,
                    segment.statements,
                    outputs,
                    strides,
                    self.scope,
                    self.lock,
                    packable,
                    None,
                    overwrite,
                    self.device,
                    self.may_refuse,
                    self.capture,
                )
            segment.built = (asked, made, decisions)
        self.decisions.extend(segment.built[2])
        found: tuple[ProgramPlan, list[Value]] = segment.built[1]
        return found


def _position(segment: Segment, positions: dict[Value, int]) -> int:
    """Where the tensor lies that the guard of a segment reads, or those joined of a path; -1 where none is read."""
    guard, leaf = segment.guard, segment.leaf
    if leaf is not None:
        return next((positions[v] for v in leaf.recording.holds), -1)
    return -1 if guard is None or isinstance(guard, NumberGuard) else positions[guard.value]


def overwritable(leaf: Leaf) -> dict[Value, Value]:
    """New values of written inputs that nobody else holds: they may be computed in the memory of the input."""
    if leaf.recording.holds:  # nothing is written yet where a call turns out not to hold
        return {}
    held = {r.value for r in leaf.recording.outputs}
    if leaf.backward:
        held.update(leaf.backward.saved, leaf.backward.checked_outputs)
    held.update(new for _, new, count in leaf.recording.writes if count < 0)
    return {new: old for old, new, *_ in leaf.recording.writes if new not in held}


def bind_segments(
    plan: SegmentPlan,
    root: Segment,
    sizes: Callable[[Segment], Mapping[int, int]],
    names: Callable[[Value], Value],
) -> Runner:
    """Runners for the recorded tree ``root`` from the plan of its structure and its sizes.

    ``names`` maps symbolic values to recorded ones. Nothing is assigned to the tree unless all are made.
    """
    made: list[Runner] = []
    siblings: dict[Any, Runner] = {}
    stack: list[tuple[SegmentPlan, Segment, dict[Any, Runner], Any]] = [
        (plan, root, siblings, None)
    ]
    while stack:
        found, segment, family, key = stack.pop()
        known: Runner | None = segment.runner
        if known is not None and known.plan is found.program:  # bound before, to the same sizes
            program, results = known.program, known.results
        else:
            program = found.program.bind(sizes(segment))
            results = Results(program)
            dump_program(found.name, program)
        runner = family[key] = Runner(
            found.program,
            program,
            found.reads,
            results,
            found.guard_position,
            {names(v): i for v, i in found.positions.items()},
            {names(v) for v in found.pack},
            segment,
            {},
            found,
        )
        made.append(runner)
        for outcome, child in found.children.items():
            stack.append((child, segment.children[outcome], runner.children, outcome))
    for runner in made:
        runner.segment.runner = runner
    return siblings[None]


def _leaves_of(outputs: Sequence[Value], known: dict[Value, int]) -> list[Value]:
    """The known values from which ``outputs`` are computed, in order of position."""
    seen: set[Value] = set()
    stack = list(outputs)
    found: set[Value] = set()
    while stack:
        value = stack.pop()
        if value in seen:
            continue
        seen.add(value)
        if value in known:
            found.add(value)
        else:
            stack.extend(value.value_operands)
    return sorted(found, key=known.__getitem__)
