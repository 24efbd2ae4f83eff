"""The backward pass of compiled code: its graph, what it keeps from forward, its programs per layout of gradients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from ...autograd.node import FREED
from ...cuda.arrays import ordered, placed, shaped
from ...dtypes import DType, assuming, get_default_dtype
from ...errors import AutogradError
from ...extents import Extents
from ...ir import interpreter
from ...ir.graph import Graph, Value
from ...ir.rules import set_tape
from ...layout import MemoryLayout
from ...ops.source import full
from ...passes.gradient.absent import without
from ...passes.gradient.gradient import Gradient, differentiate
from ...passes.gradient.partition import partition
from ...runtime.eager.filling import Numbered
from ...runtime.program import Program, ProgramPlan
from ...runtime.quick import LIST
from ...sizes import Decided, revalue
from ...symbols import Decision
from ...tensor import Tensor
from ...types import Shape, TensorType
from ..recording.dump import dump_program
from ..recording.rule_nodes import on_tape
from ..tree.bound import Bound
from ..tree.results import Results
from ..tree.structure import Pattern, stride_pattern
from .pass_reads import PassReads
from .planned import How, plan_backward, restricted

set_tape(on_tape)

AnyProgram = Any  # a BackwardProgram or its stand-in


@dataclass(frozen=True, eq=False)
class BackwardProgram:
    """A planned backward pass; ``reads`` are positions among the saved tensors that are not packed, then the seeds.

    Seeds at positions ``copied`` are made contiguous first.
    """

    program: Program
    reads: tuple[int, ...]
    results: Results
    packed: bool
    copied: tuple[int, ...]
    present: tuple[bool, ...] = ()  # which gradients there are, where some seeds were absent

    @cached_property
    def quick(self) -> Any:
        """The built-in that runs the program and lists its tensors, None where Python has to."""
        return self.results.quick(self.program, how=LIST)

    def run(self, values: Sequence[Any], pack: Any) -> Sequence[Tensor | None]:
        """The gradients."""
        if self.copied:
            values = list(values)
            for i in self.copied:
                values[i] = Tensor._wrap(ordered(values[i].array))
        arguments = [values[i] for i in self.reads]
        if self.packed:
            arguments.append(pack)
        if self.present and not any(self.present):
            return [None] * len(self.present)
        quick = self.quick
        if quick is not None:
            found: list[Tensor] = quick(*arguments)
        else:
            found = self.results.wrap(self.program.run(*arguments))
        return spread(found, self.present) if self.present else found


def spread(found: Sequence[Tensor], present: Sequence[bool]) -> list[Tensor | None]:
    """What was found at the places where something is present, None at the others."""
    given = iter(found)
    return [next(given) if there else None for there in present]


def absent_among(seeds: Sequence[Any]) -> frozenset[int]:
    """The positions of gradients that were not given."""
    return frozenset(i for i, seed in enumerate(seeds) if seed is None)


def run_present(
    graph: Graph, first: Sequence[Tensor], seeds: Sequence[Tensor | None], plan: Backward
) -> Sequence[Tensor | None]:
    """Run a gradient graph op by op; ``seeds`` are its last inputs, some of them absent."""
    absent = absent_among(seeds)
    present: tuple[bool, ...] = tuple(True for _ in graph.outputs)
    kinds = [v.spec for v in graph.inputs[len(first) :]]
    if absent:
        graph, present, _ = without(graph, len(first), absent)
    given = [_seed(seed, kind, plan.device) for seed, kind in zip(seeds, kinds, strict=True)]
    # What is not read may be of another size: no run tells sizes that nothing hangs on.
    read = graph.read()
    pairs = [p for p in zip(graph.inputs, (*first, *given), strict=True) if p[0] in read]
    graph = Graph(graph.name, tuple([v for v, _ in pairs]), graph.body, graph.outputs)
    with assuming(plan.default):
        return spread(interpreter.run_tensors(graph, [t for _, t in pairs]), present)


@dataclass(frozen=True, eq=False)
class BackwardPlan:
    """A backward pass ready for any sizes under which ``holds``."""

    program: ProgramPlan
    reads: tuple[int, ...]
    holds: Decided
    present: tuple[bool, ...]


@dataclass(frozen=True, eq=False)
class InterpretedBackward:
    """Stands in for a program that could not be compiled: the same graph, op by op."""

    backward: BoundBackward

    def run(self, values: Sequence[Any], pack: Any) -> Sequence[Tensor | None]:
        """The gradients."""
        given = iter(values)
        offsets, graph = self.backward.offsets, self.backward.graph
        saved = [
            next(given) if offset is None else self.unpacked(value.spec, pack, offset)
            for value, offset in zip(graph.inputs, offsets, strict=False)
        ]
        return run_present(graph, saved, list(given), self.backward.plan)

    def unpacked(self, kind: TensorType, pack: Any, offset: int) -> Tensor:
        """A saved value that lies in the block shared by all."""
        return Tensor._wrap(shaped(pack, kind, offset))


@dataclass(eq=False)
class Backward:
    """The gradient of one path of symbolic values, what it saves, and plans per layout of the incoming gradients."""

    gradient: Gradient
    graph: Graph
    saved: tuple[Value, ...]
    saved_strides: tuple[Shape, ...]
    extra: tuple[Value, ...]  # forward statements that exist only to be saved
    checked_inputs: tuple[Value, ...]
    checked_outputs: tuple[Value, ...]
    reread: tuple[Value, ...]  # inputs that only differentiating again reads
    decisions: list[Decision]
    plans: dict[Any, BackwardPlan]
    visible: Graph  # the results from the inputs
    device: int = -1
    capture: bool = False
    present: Mapping[int, int] = field(default_factory=dict)  # told sizes for which it was made
    #: The default dtype of the recorded run.
    default: DType = field(default_factory=get_default_dtype)
    numbered: dict[str, Numbered] = field(default_factory=dict)  # types, by what has them
    may_refuse: bool = True  # may programs find that they cannot serve a pass?

    @property
    def how(self) -> How:
        """What programs are made for."""
        return How(self.device, self.capture, self.may_refuse)

    def plan(
        self,
        patterns: tuple[Pattern, ...],
        pack: dict[Value, int],
        bound: Bound,
        absent: frozenset[int] = frozenset(),
    ) -> BackwardPlan | None:
        """The plan for gradients that lie like ``patterns`` and saved values packed like ``pack``.

        None where what is decided about sizes does not hold for those of ``bound``.
        """
        key = patterns, tuple(pack), absent
        found = self.plans.get(key)
        if found is not None:  # another, made for the same example sizes, would decide the same
            return found if found.holds(bound.sizes) else None
        offsets = [pack.get(v) for v in self.saved]
        revalue(bound.scope, self.present)
        with bound.scope.deciding() as decisions:
            graph, present = restricted(self.graph, len(self.saved), absent)
            program, reads = plan_backward(
                self.how, graph, self.saved_strides, offsets, patterns, bound
            )
        found = self.plans[key] = BackwardPlan(
            program, reads, Decided(bound.scope, decisions), present
        )
        return found if found.holds(bound.sizes) else None


class BoundBackward:
    """The backward pass of one path for one set of sizes; values are those of the recorded path where it has them."""

    def __init__(
        self,
        plan: Backward,
        bound: Bound,
        pack: dict[Value, int],
    ) -> None:
        self.plan = plan
        self.bound = bound
        self.pack = pack
        self.wrt = plan.gradient.wrt
        self.seeds = plan.gradient.seeds
        name = bound.recorded
        self.saved = tuple(map(name, plan.saved))
        self.checked_inputs = tuple(map(name, plan.checked_inputs))
        self.checked_outputs = tuple(map(name, plan.checked_outputs))
        self.reread = tuple(map(name, plan.reread))
        self.programs: dict[tuple[MemoryLayout | None, ...], AnyProgram] = {}

    @cached_property
    def gradient_graph(self) -> Graph:
        """The gradients from the inputs: what is differentiated again."""
        return self.bound.graph(self.plan.gradient.graph)

    @cached_property
    def graph(self) -> Graph:
        """The gradients from what was saved."""
        return self.bound.graph(self.plan.graph)

    def _numbers(self, name: str, values: Sequence[Value]) -> list[TensorType]:
        """The types of ``values`` of the plan with numbers for sizes; how is worked out once for each ``name``."""
        known = self.plan.numbered.get(name)
        if known is None:
            known = Numbered(self.bound.scope, [v.spec for v in values])
            self.plan.numbered[name] = known
        found: list[TensorType] = known(self.bound.sizes)
        return found

    @cached_property
    def offsets(self) -> list[int | None]:
        """Where each saved value lies in the pack, None for those outside."""
        found: list[int | None] = self.bound.numbers([self.pack.get(v) for v in self.plan.saved])
        return found

    def compile(self, layouts: tuple[MemoryLayout | None, ...]) -> BackwardProgram:
        """The program for gradients that lie like ``layouts``; None for those that are absent."""
        first = len(self.saved) - sum(v in self.pack for v in self.plan.saved)
        patterns: list[Pattern] = []
        copied: list[int] = []
        kinds = self._numbers("seeds", self.plan.graph.inputs[len(self.saved) :])
        for i, layout in enumerate(layouts):
            if layout is None:
                shape = kinds[i].shape
                patterns.append(stride_pattern(shape, kinds[i].contiguous_strides()))
                continue
            pattern = stride_pattern(layout.spec.shape, layout.strides)
            if pattern[0] == "free" or not layout.aligned:
                copied.append(first + i)
                shape = layout.spec.shape
                pattern = stride_pattern(shape, layout.spec.contiguous_strides())
            patterns.append(pattern)
        with assuming(self.plan.default):
            program, reads, present = self.program(tuple(patterns), absent_among(layouts))
        dump_program(self.plan.graph.name, program)
        packed = bool(program.plan.packed_inputs)
        found = BackwardProgram(program, reads, Results(program), packed, tuple(copied), present)
        self.programs[layouts] = found
        return found

    def prepare(self) -> None:
        """Plan for gradients that lie in order; raises what stands in the way."""
        seeds = self.plan.graph.inputs[len(self.plan.saved) :]
        dense = tuple(stride_pattern(v.spec.shape, v.spec.contiguous_strides()) for v in seeds)
        with self.bound.lock, assuming(self.plan.default):
            self.plan.plan(dense, self.pack, self.bound)

    def program(
        self, patterns: tuple[Pattern, ...], absent: frozenset[int]
    ) -> tuple[Program, tuple[int, ...], tuple[bool, ...]]:
        """The program for gradients that lie like ``patterns``: from the plan for all sizes where that applies."""
        with self.bound.lock:
            plan = self.plan.plan(patterns, self.pack, self.bound, absent)
        if plan is not None:
            with suppress(ArithmeticError):  # a size told at run time may be zero
                return plan.program.bind(self.bound.sizes), plan.reads, plan.present
        strides = self.bound.numbers(list(self.plan.saved_strides))
        graph, present = restricted(self.graph, len(self.saved), absent)
        alone = Bound(Extents(), {}, {}, self.bound.lock)
        made, reads = plan_backward(self.plan.how, graph, strides, self.offsets, patterns, alone)
        return made.bind({}), reads, present

    @cached_property
    def wrt_types(self) -> list[TensorType]:
        """The types of the inputs that get gradients."""
        return self._numbers("wrt", self.plan.gradient.graph.outputs)

    def rest(
        self, seeds: Sequence[Tensor | None], wanted: Sequence[bool] | None
    ) -> Sequence[Tensor | None]:
        """The gradients that can be told without anything saved, after all of it was freed."""
        first = len(self.gradient_graph.inputs) - len(self.seeds)
        unwanted = [i for i, one in enumerate(wanted or ()) if not one]
        graph, present, reads = without(self.gradient_graph, first, absent_among(seeds), unwanted)
        if any(i < first for i in reads):
            raise AutogradError(FREED)
        given = [
            zeros(v.spec) if seed is None else seed
            for v, seed in zip(graph.inputs, (*[None] * first, *seeds), strict=True)
        ]
        with assuming(self.plan.default):
            return spread(interpreter.run_tensors(graph, given), present)

    @cached_property
    def reads(self) -> PassReads:
        """What passes read of it."""
        forward = self.plan.gradient.forward
        return PassReads(self.gradient_graph, self.graph, forward, len(self.seeds))


def make_backward(
    graph: Graph,
    wrt: Sequence[bool],
    wanted: Sequence[bool],
    kept: Mapping[Value, int],
    strides: Mapping[Value, Shape],
    decisions: list[Decision],
) -> Backward | None:
    """Differentiate a path with respect to the inputs in ``wrt``; None when no output depends on them.

    ``wanted`` tells which of the first outputs take gradients; outputs after those are written back in place. ``kept``
    are the inputs and outputs that eager execution keeps, with the outputs on whose ways it does as bits.
    ``decisions`` will hold what is being decided about sizes meanwhile.
    """
    visible = Graph(graph.name, graph.inputs, graph.body, graph.outputs[: len(wanted)])
    gradient = differentiate(visible, wrt, wanted)
    if not gradient.wrt:
        return None
    gradient = replace(
        gradient,
        saved_inputs={i: kept[v] for i, v in enumerate(graph.inputs) if v in kept},
        saved_outputs={i: kept[v] for i, v in enumerate(visible.outputs) if v in kept},
    )
    parts = partition(visible, gradient)
    saved = (
        *(parts.forward.inputs[i] for i in parts.saved_inputs),
        *(parts.forward.outputs[i] for i in parts.saved_outputs),
    )
    known = {*graph.inputs, *graph.values}
    checked = {parts.forward.inputs[i] for i in parts.checked_inputs}
    return Backward(
        gradient,
        parts.backward,
        saved,
        tuple(strides.get(v) or v.spec.contiguous_strides() for v in saved),
        tuple(v for v in parts.forward.values if v not in known),
        tuple(parts.forward.inputs[i] for i in parts.checked_inputs),
        tuple(parts.forward.outputs[i] for i in parts.checked_outputs),
        tuple(v for v in _reread(graph, gradient) if v not in checked),
        decisions,
        {},
        visible,
    )


def _reread(graph: Graph, gradient: Gradient) -> list[Value]:
    """The inputs whose values the gradient graph reads."""
    used = {x for v in gradient.graph.values for x in v.value_operands}
    inputs = zip(graph.inputs, gradient.graph.inputs, strict=False)
    return [mine for mine, theirs in inputs if theirs in used]


def zeros(kind: TensorType) -> Tensor:
    """A gradient of zeros."""
    made: Tensor = full(shape=kind.shape, value=0, dtype=kind.dtype)
    return made


def _seed(gradient: Tensor | None, kind: TensorType, device: int) -> Tensor:
    """An output that nothing used has a gradient of zeros."""
    if gradient is None:
        gradient = zeros(kind)
    return gradient if device < 0 else on_device(gradient, device)


def on_device(gradient: Tensor, device: int) -> Tensor:
    """A gradient on a GPU; library code that made it out of nothing made it on the host."""
    return gradient if gradient.is_cuda else Tensor._wrap(placed(gradient.array, device))
