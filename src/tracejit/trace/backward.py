"""The backward pass of compiled code: one node of the ordinary autograd graph, with kernels of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..autograd.node import FREED, Edge, Node
from ..errors import AutogradError
from ..extents import Decision
from ..ir import interpreter
from ..ir.graph import Graph, Value
from ..layout import MemoryLayout, layout_of
from ..modes import MODES
from ..ops.source import full
from ..passes.gradient import Gradient, differentiate
from ..passes.partition import partition
from ..runtime.plan import Plan
from ..runtime.program import Program, ProgramPlan
from ..sizes import Decided
from ..tensor import Tensor
from ..tensor_core import Version
from ..types import Shape, TensorType
from .bound import Bound
from .dump import dump_program
from .segments import Results, compile_graph
from .structure import Pattern, stride_pattern, strides_of

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

    def run(self, values: Sequence[Tensor], pack: Any) -> list[Tensor]:
        """The gradients."""
        if self.copied:
            values = list(values)
            for i in self.copied:
                values[i] = Tensor._wrap(np.ascontiguousarray(values[i].array))
        arguments = [values[i] for i in self.reads]
        if self.packed:
            arguments.append(pack)
        return self.results.wrap(self.program.run(*arguments))


@dataclass(frozen=True, eq=False)
class BackwardPlan:
    """A backward pass ready for any sizes under which ``holds``."""

    program: ProgramPlan
    reads: tuple[int, ...]
    holds: Decided


@dataclass(frozen=True, eq=False)
class InterpretedBackward:
    """Stands in for a program that could not be compiled: the same graph, op by op."""

    backward: BoundBackward

    def run(self, values: Sequence[Tensor], pack: Any) -> list[Tensor]:
        """The gradients."""
        given = iter(values)
        offsets, graph = self.backward.offsets, self.backward.graph
        saved = [
            next(given) if offset is None else self.unpacked(value.type, pack, offset)
            for value, offset in zip(graph.inputs, offsets, strict=False)
        ]
        return interpreter.run_tensors(graph, [*saved, *given])

    def unpacked(self, kind: TensorType, pack: Any, offset: int) -> Tensor:
        """A saved value that lies in the block shared by all."""
        return Tensor._wrap(np.ndarray(kind.shape, kind.dtype.np, pack.array, offset))


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

    def plan(
        self, patterns: tuple[Pattern, ...], pack: dict[Value, int], bound: Bound
    ) -> BackwardPlan | None:
        """The plan for gradients that lie like ``patterns`` and saved values packed like ``pack``.

        None where what is decided about sizes does not hold for those of ``bound``.
        """
        key = patterns, tuple(pack)
        found = self.plans.get(key)
        if (
            found is not None
        ):  # another would be made for the same example sizes, and decide the same
            return found if found.holds(bound.sizes) else None
        offsets = [pack.get(v) for v in self.saved]
        with bound.scope.deciding() as decisions:
            made, reads = plan_backward(self.graph, self.saved_strides, offsets, patterns)
        found = self.plans[key] = BackwardPlan(
            ProgramPlan(made, bound.scope), reads, Decided(bound.scope, decisions)
        )
        return found if found.holds(bound.sizes) else None


def plan_backward(
    graph: Graph,
    saved_strides: Sequence[Shape],
    offsets: Sequence[int | None],
    patterns: Sequence[Pattern],
) -> tuple[Plan, tuple[int, ...]]:
    """The plan of a backward graph, and what it reads.

    Its first inputs are saved values, which lie in the pack where there is an offset; the others are gradients.
    """
    inputs = graph.inputs
    count = len(saved_strides)
    given = [strides_of(p, v.type.shape) for p, v in zip(patterns, inputs[count:], strict=True)]
    strides = dict(zip(inputs, (*saved_strides, *given), strict=True))
    packed = {v: at for v, at in zip(inputs, offsets, strict=False) if at is not None}
    values = list(graph.values)
    _, plan, kept = compile_graph(
        graph.name, inputs, values, graph.outputs, strides.__getitem__, packed=packed
    )
    order = {v: i for i, v in enumerate(v for v in inputs if v not in packed)}
    return plan, tuple(order[v] for v in kept)


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
        self.programs: dict[tuple[MemoryLayout, ...], AnyProgram] = {}

    @cached_property
    def gradient_graph(self) -> Graph:
        """The gradients from the inputs: what is differentiated again."""
        return self.bound.graph(self.plan.gradient.graph)

    @cached_property
    def graph(self) -> Graph:
        """The gradients from what was saved."""
        return self.bound.graph(self.plan.graph)

    @cached_property
    def offsets(self) -> list[int | None]:
        """Where each saved value lies in the pack, None for those outside."""
        found: list[int | None] = self.bound.numbers([self.pack.get(v) for v in self.plan.saved])
        return found

    def compile(self, layouts: tuple[MemoryLayout, ...]) -> BackwardProgram:
        """The program for gradients that lie like ``layouts``."""
        first = len(self.saved) - sum(v in self.pack for v in self.plan.saved)
        patterns: list[Pattern] = []
        copied: list[int] = []
        for i, layout in enumerate(layouts):
            pattern = stride_pattern(layout.type.shape, layout.strides)
            if pattern[0] == "free" or not layout.aligned:
                copied.append(first + i)
                shape = layout.type.shape
                pattern = stride_pattern(shape, layout.type.contiguous_strides())
            patterns.append(pattern)
        program, reads = self.program(tuple(patterns))
        dump_program(self.plan.graph.name, program)
        packed = bool(program.plan.packed_inputs)
        found = BackwardProgram(program, reads, Results(program), packed, tuple(copied))
        self.programs[layouts] = found
        return found

    def prepare(self) -> None:
        """Plan for gradients that lie in order; raises what stands in the way."""
        seeds = self.plan.graph.inputs[len(self.plan.saved) :]
        dense = tuple(stride_pattern(v.type.shape, v.type.contiguous_strides()) for v in seeds)
        with self.bound.lock:
            self.plan.plan(dense, self.pack, self.bound)

    def program(self, patterns: tuple[Pattern, ...]) -> tuple[Program, tuple[int, ...]]:
        """The program for gradients that lie like ``patterns``: from the plan for all sizes where that applies."""
        with self.bound.lock:
            plan = self.plan.plan(patterns, self.pack, self.bound)
        if plan is not None:
            return plan.program.bind(self.bound.sizes), plan.reads
        strides = self.bound.numbers(list(self.plan.saved_strides))
        alone, reads = plan_backward(self.graph, strides, self.offsets, patterns)
        return Program(alone), reads


def make_backward(
    graph: Graph,
    wrt: Sequence[bool],
    wanted: Sequence[bool],
    strides: Mapping[Value, Shape],
    decisions: list[Decision],
) -> Backward | None:
    """Differentiate a path with respect to the inputs in ``wrt``; None when no output depends on them.

    ``wanted`` tells which of the first outputs take gradients; outputs after those are written back in place.
    ``decisions`` will hold what is being decided about sizes meanwhile.
    """
    visible = Graph(graph.name, graph.inputs, graph.body, graph.outputs[: len(wanted)])
    gradient = differentiate(visible, wrt, wanted)
    if not gradient.wrt:
        return None
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
        tuple(strides.get(v) or v.type.contiguous_strides() for v in saved),
        tuple(v for v in parts.forward.values if v not in known),
        tuple(parts.forward.inputs[i] for i in parts.checked_inputs),
        tuple(parts.forward.outputs[i] for i in parts.checked_outputs),
        tuple(v for v in _reread(graph, gradient) if v not in checked),
        decisions,
        {},
    )


def _reread(graph: Graph, gradient: Gradient) -> list[Value]:
    """The inputs whose values the gradient graph reads."""
    used = {x for v in gradient.graph.values for x in v.value_operands}
    inputs = zip(graph.inputs, gradient.graph.inputs, strict=False)
    return [mine for mine, theirs in inputs if theirs in used]


@dataclass(frozen=True, eq=False)
class Site:
    """What all backward nodes of one compiled path share.

    ``checked`` are the types of the tensors whose versions are checked.
    """

    function: str
    backward: BoundBackward
    programs: dict[tuple[MemoryLayout, ...], AnyProgram]
    types: tuple[TensorType, ...]
    seeds: tuple[int, ...]
    checked: tuple[TensorType, ...]
    report: Callable[[str], None]


class CompiledBackward(Node):
    """The node behind the outputs of a compiled call.

    ``inputs`` are all inputs of the graph (for differentiating again), ``saved`` and ``pack`` what the backward program
    reads, ``versions`` the version counters that must not have moved, with the values they had: first those that eager
    execution checks, then those of inputs that are read again only to differentiate once more.
    """

    only_reads = True

    def __init__(
        self,
        site: Site,
        edges: Sequence[Edge | None],
        inputs: Sequence[Tensor],
        saved: Sequence[Tensor],
        pack: Any,
        versions: Sequence[tuple[Version, int]],
    ) -> None:
        super().__init__(edges, len(site.types))
        self.site = site
        self.inputs: Sequence[Tensor] | None = inputs
        self.saved: Sequence[Tensor] = saved
        self.pack = pack
        self.versions = versions

    def name(self) -> str:
        """The name ``grad_fn`` prints."""
        return f"Compiled_{self.site.function}_Backward"

    def release(self) -> None:
        """Let go of everything kept for backward."""
        self.inputs = self.pack = None
        self.saved = self.versions = ()

    def apply(self, grads: list[Tensor | None]) -> Sequence[Tensor | None]:
        """Gradients of the inputs from those of the outputs, by kernels or, to be differentiated again, op by op."""
        if self.inputs is None:
            raise AutogradError(FREED)
        site = self.site
        for i, (version, expected) in enumerate(self.versions):
            if version.value != expected:
                self.refuse(i, version.value, expected)
        seeds = [_seed(grads[i], site.types[i]) for i in site.seeds]
        if MODES.grad or MODES.recorder is not None:
            # op by op on tensors, so that it can be differentiated again
            graph = site.backward.gradient_graph
            return interpreter.run_tensors(graph, [*self.inputs, *seeds])
        layouts = tuple([g._layout or layout_of(g) for g in seeds])
        program = site.programs.get(layouts) or self.compile(layouts)
        gradients: Sequence[Tensor | None] = program.run([*self.saved, *seeds], self.pack)
        return gradients

    def compile(self, layouts: tuple[MemoryLayout, ...]) -> Any:
        """The program for these gradients, or what replaces it when that fails."""
        site = self.site
        try:
            return site.backward.compile(layouts)
        except Exception as error:  # noqa: BLE001  (whatever fails: eager execution still works)
            reason = getattr(error, "summary", None) or str(error)
            site.report(
                f"a backward kernel could not be compiled ({type(error).__name__}: {reason})"
            )
        found = site.programs[layouts] = InterpretedBackward(site.backward)
        return found

    def refuse(self, number: int, found: int, expected: int) -> None:
        """A tensor that this pass reads was changed in place since."""
        checked = self.site.checked
        if number >= len(checked):
            if MODES.grad:
                raise AutogradError(
                    "an input of compiled code was modified by an inplace operation; differentiating its gradient "
                    f"again (create_graph=True) reads it once more (saved by {self.name()}).",
                    "Hint: clone() the tensor before changing it, or use the out-of-place operation.",
                )
            return
        kind = checked[number]
        raise AutogradError(
            "one of the variables needed for gradient computation has been modified by an inplace "
            f"operation: [{kind.dtype.tensor_name} {list(kind.shape)}] is at version {found}; expected version "
            f"{expected} instead (saved by {self.name()}).",
            "Hint: clone() the tensor before changing it, or use the out-of-place operation.",
        )


def as_before(tensor: Tensor) -> Tensor:
    """A copy of a tensor that the call is about to write to: the same values, the same place in the autograd graph."""
    copy = Tensor._wrap(tensor.array.copy(order="K"))
    edge = tensor._edge()
    if edge is not None:
        copy._requires_grad = True
        copy._grad_fn, copy._output_nr = edge
    return copy


def _seed(gradient: Tensor | None, kind: TensorType) -> Tensor:
    """An output that nothing used has a gradient of zeros."""
    if gradient is None:
        zeros: Tensor = full(shape=kind.shape, value=0, dtype=kind.dtype)
        return zeros
    return gradient
