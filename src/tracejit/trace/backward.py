"""The backward pass of compiled code: one node of the ordinary autograd graph, with kernels of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..autograd.node import FREED, Edge, Node
from ..errors import AutogradError
from ..ir import interpreter
from ..ir.graph import Graph, Value
from ..layout import MemoryLayout, contiguous_layout, layout_of
from ..modes import MODES
from ..ops.source import full
from ..passes.gradient import Gradient, differentiate
from ..passes.partition import partition
from ..runtime.program import Program
from ..tensor import Tensor
from ..tensor_core import Version
from ..types import Shape, TensorType
from .segments import Results, compile_graph

AnyProgram = Any  # a BackwardProgram or its stand-in


@dataclass(frozen=True, eq=False)
class BackwardProgram:
    """A planned backward pass; ``reads`` are positions among the saved tensors that are not packed, then the seeds."""

    program: Program
    reads: tuple[int, ...]
    results: Results
    packed: bool

    def run(self, values: Sequence[Tensor], pack: Any) -> list[Tensor]:
        """The gradients."""
        arguments = [values[i] for i in self.reads]
        if self.packed:
            arguments.append(pack)
        return self.results.wrap(self.program.run(*arguments))


@dataclass(frozen=True, eq=False)
class InterpretedBackward:
    """Stands in for a program that could not be compiled: the same graph, op by op."""

    backward: Backward
    pack: dict[Value, int]

    def run(self, values: Sequence[Tensor], pack: Any) -> list[Tensor]:
        """The gradients."""
        given = iter(values)
        saved = [
            self.unpacked(v, pack) if v in self.pack else next(given) for v in self.backward.saved
        ]
        return interpreter.run_tensors(self.backward.graph, [*saved, *given])

    def unpacked(self, value: Value, pack: Any) -> Tensor:
        """A saved value that lies in the block shared by all."""
        kind = value.type
        return Tensor._wrap(np.ndarray(kind.shape, kind.dtype.np, pack.array, self.pack[value]))


@dataclass(eq=False)
class Backward:
    """The gradient of one path, its saved values, and programs per layout of the incoming gradients."""

    gradient: Gradient
    graph: Graph
    saved: tuple[Value, ...]
    saved_strides: tuple[Shape, ...]
    extra: tuple[Value, ...]  # forward statements that exist only to be saved
    checked_inputs: tuple[Value, ...]
    checked_outputs: tuple[Value, ...]
    reread: tuple[Value, ...]  # inputs that only differentiating again reads
    programs: dict[tuple[int, ...], dict[tuple[MemoryLayout, ...], AnyProgram]]

    def programs_for(self, pack: dict[Value, int]) -> dict[tuple[MemoryLayout, ...], AnyProgram]:
        """The programs made so far for saved values packed like ``pack``, by layouts of the gradients."""
        return self.programs.setdefault(tuple(pack.values()), {})

    def compile(self, layouts: tuple[MemoryLayout, ...], pack: dict[Value, int]) -> BackwardProgram:
        """The program for gradients that lie like ``layouts`` and saved values packed like ``pack``."""
        inputs = self.graph.inputs
        strides = dict(
            zip(inputs, (*self.saved_strides, *(given.strides for given in layouts)), strict=True)
        )
        packed = {
            new: pack[old] for old, new in zip(self.saved, inputs, strict=False) if old in pack
        }
        _, program, kept = compile_graph(
            self.graph.name,
            inputs,
            list(self.graph.values),
            self.graph.outputs,
            strides.__getitem__,
            packed=packed,
        )
        order = {v: i for i, v in enumerate(v for v in inputs if v not in packed)}
        results = Results(program.plan, [contiguous_layout(v.type) for v in self.graph.outputs])
        reads = tuple(order[v] for v in kept)
        found = BackwardProgram(program, reads, results, bool(program.plan.packed_inputs))
        self.programs_for(pack)[layouts] = found
        return found


def make_backward(
    graph: Graph, wrt: Sequence[bool], wanted: Sequence[bool], strides: dict[Value, Shape]
) -> Backward | None:
    """Differentiate a path with respect to the inputs in ``wrt``; None when no output depends on them.

    ``wanted`` tells which of the first outputs take gradients; outputs after those are written back in place.
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
    backward: Backward
    pack: dict[Value, int]
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
            graph = site.backward.gradient.graph
            return interpreter.run_tensors(graph, [*self.inputs, *seeds])
        layouts = tuple([g._layout or layout_of(g) for g in seeds])
        program = site.programs.get(layouts) or self.compile(layouts)
        gradients: Sequence[Tensor | None] = program.run([*self.saved, *seeds], self.pack)
        return gradients

    def compile(self, layouts: tuple[MemoryLayout, ...]) -> Any:
        """The program for these gradients, or what replaces it when that fails."""
        site = self.site
        try:
            return site.backward.compile(layouts, site.pack)
        except Exception as error:  # noqa: BLE001  (whatever fails: eager execution still works)
            reason = getattr(error, "summary", None) or str(error)
            site.report(
                f"a backward kernel could not be compiled ({type(error).__name__}: {reason})"
            )
        found = site.programs[layouts] = InterpretedBackward(site.backward, site.pack)
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


def _seed(gradient: Tensor | None, kind: TensorType) -> Tensor:
    """An output that nothing used has a gradient of zeros."""
    if gradient is None:
        zeros: Tensor = full(shape=kind.shape, value=0, dtype=kind.dtype)
        return zeros
    return gradient
