"""Compiling a trace tree: which values each segment hands on, and the program that computes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..ir.graph import Graph, Value
from ..layout import MemoryLayout, contiguous_layout
from ..passes.pipeline import run_passes
from ..runtime.plan import Plan, make_plan
from ..runtime.program import Program
from ..tensor import Tensor
from ..types import Shape, TensorType
from .dump import dump_program
from .inputs import Signature
from .tree import Leaf, Segment, needed_after

Environment = list[Any]


@dataclass(frozen=True, eq=False)
class Runner:
    """A compiled segment: reads environment positions, appends its results as tensors.

    ``pack`` maps values that only a backward pass reads to their offset in the block that holds them all.
    """

    graph: Graph
    program: Program
    reads: tuple[int, ...]
    results: Results
    guard_position: int
    positions: dict[Value, int]
    pack: dict[Value, int]
    segment: Segment
    children: dict[Any, Runner]

    def run(self, environment: Environment) -> Any:
        """Compute the segment's values, add them to the environment, and return the pack."""
        results = self.program.run(*[environment[i] for i in self.reads])
        environment += self.results.wrap(results)
        return results[-1] if self.pack else None


class Results:
    """Turns what a program returns into tensors; which results are blocks is known beforehand."""

    def __init__(self, plan: Plan, layouts: Sequence[MemoryLayout]) -> None:
        shown = [slot for slot in plan.output_slots if slot.kind != "pack"]
        seen: set[tuple[str, int]] = set()
        self.kinds: list[tuple[TensorType, MemoryLayout, str]] = []
        for layout, slot in zip(layouts, shown, strict=True):
            place = (slot.kind, slot.index)
            kind = "copy" if place in seen else "block" if slot.kind == "output" else "array"
            seen.add(place)
            self.kinds.append((layout.type, layout, kind))

    def wrap(self, results: Sequence[Any]) -> list[Tensor]:
        """A tensor per result, the pack left out."""
        make = Tensor._of_block
        return [
            make(result, kind, layout) if how == "block" else wrap_result(result, kind, how)
            for result, (kind, layout, how) in zip(results, self.kinds, strict=False)
        ]


def wrap_result(result: Any, kind: TensorType, how: str) -> Tensor:
    """A tensor on an array, or (equal outputs were computed once) on a copy of one or of a block."""
    if how == "array":
        return Tensor._wrap(result)
    if isinstance(result, np.ndarray):
        return Tensor._wrap(result.copy())
    return Tensor._wrap(np.ndarray(kind.shape, kind.dtype.np, buffer=result.array).copy())


def compile_graph(
    name: str,
    inputs: Sequence[Value],
    statements: Sequence[Value],
    outputs: Sequence[Value],
    strides: Callable[[Value], Shape],
    pack: Set[Value] = frozenset(),
    packed: Mapping[Value, int] | None = None,
) -> tuple[Graph, Program, list[Value]]:
    """Optimise and plan a piece; returns also which of ``inputs`` it still reads (packed ones left out).

    ``pack`` are outputs to be packed, ``packed`` inputs with their offsets in a pack.
    """
    graph = run_passes(with_inputs(name, inputs, statements, outputs))
    used = _used_inputs(graph)
    kept = [(old, new) for old, new in zip(inputs, graph.inputs, strict=True) if new in used]
    graph = Graph(name, tuple(new for _, new in kept), graph.body, graph.outputs)
    offsets = packed or {}
    plan: Plan = make_plan(
        graph,
        [strides(old) for old, _ in kept],
        None,
        [i for i, v in enumerate(outputs) if v in pack],
        {i: offsets[old] for i, (old, _) in enumerate(kept) if old in offsets},
    )
    program = Program(plan)
    dump_program(name, program)
    return graph, program, [old for old, _ in kept if old not in offsets]


def with_inputs(
    name: str, inputs: Sequence[Value], statements: Sequence[Value], outputs: Sequence[Value]
) -> Graph:
    """A graph of ``statements`` in which values computed elsewhere appear as inputs."""
    from ..ir.builder import Builder

    builder = Builder(name)
    mapping: dict[Value, Value] = {}
    for i, value in enumerate(inputs):
        mapping[value] = builder.input(value.name or f"v{i}", value.type)
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


def _used_inputs(graph: Graph) -> set[Value]:
    used = set(graph.outputs)
    for value in graph.values:
        used.update(value.value_operands)
    return used


def compile_tree(
    name: str,
    root: Segment,
    signature: Signature,
    input_strides: dict[Value, Shape],
    leaf_needs: Mapping[Leaf, Sequence[Value]],
    packable: dict[Leaf, set[Value]],
) -> Runner:
    """Give every segment of the tree a runner and return the root's; nothing is assigned unless all are made."""
    base = {source.value: i for i, source in enumerate(signature.sources)}
    made: list[Runner] = []
    siblings: dict[Any, Runner] = {}
    stack: list[tuple[Segment, dict[Value, int], int, int, dict[Any, Runner], Any]] = [
        (root, base, len(base), 0, siblings, None)
    ]
    while stack:
        segment, positions, count, number, family, key = stack.pop()
        runner, after, total = _compile_segment(
            f"{name}_{number}" if number else name,
            segment,
            positions,
            count,
            input_strides,
            leaf_needs,
            packable.get(segment.leaf, set()) if segment.leaf else set(),
        )
        made.append(runner)
        family[key] = runner
        for i, (outcome, child) in enumerate(segment.children.items()):
            stack.append((child, after, total, 2 * number + i + 1, runner.children, outcome))
    for runner in made:
        runner.segment.runner = runner
    return siblings[None]


def _compile_segment(
    name: str,
    segment: Segment,
    positions: dict[Value, int],
    count: int,
    input_strides: dict[Value, Shape],
    leaf_needs: Mapping[Leaf, Sequence[Value]],
    packable: set[Value],
) -> tuple[Runner, dict[Value, int], int]:
    needs = needed_after(segment, leaf_needs)
    outputs = [v for v in needs if v not in positions]
    inputs = _leaves_of(outputs, positions)

    def strides(value: Value) -> Shape:
        found = input_strides.get(value)
        return value.type.contiguous_strides() if found is None else found

    asked = (
        [*map(id, inputs)],
        [*map(id, outputs)],
        {*map(id, packable)},
        len(segment.statements),
    )
    if segment.built is None or segment.built[0] != asked:
        made = compile_graph(name, inputs, segment.statements, outputs, strides, packable)
        segment.built = (asked, made)
    graph, program, kept = segment.built[1]
    slots = program.plan.output_slots
    pack = {v: slot.offset for v, slot in zip(outputs, slots, strict=True) if slot.kind == "pack"}
    outputs = [v for v in outputs if v not in pack]
    after = positions | {v: count + i for i, v in enumerate(outputs)}
    runner = Runner(
        graph,
        program,
        tuple(positions[v] for v in kept),
        Results(program.plan, [contiguous_layout(v.type) for v in outputs]),
        -1 if segment.guard is None else after[segment.guard.value],
        after,
        pack,
        segment,
        {},
    )
    return runner, after, count + len(outputs)


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
