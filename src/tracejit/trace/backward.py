"""The backward pass of compiled code: one node of the ordinary autograd graph, with kernels of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..autograd.node import FREED, Edge, Node
from ..ir import interpreter
from ..ir.graph import Graph, Value
from ..layout import MemoryLayout, contiguous_layout, layout_of
from ..modes import MODES
from ..ops.source import full
from ..passes.gradient import Gradient, differentiate
from ..passes.partition import partition
from ..runtime.program import Program
from ..tensor import Tensor
from ..types import Shape
from .segments import compile_graph, wrap


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
    programs: dict[tuple[MemoryLayout, ...], tuple[Program, tuple[int, ...], tuple[MemoryLayout, ...]]]

    def program(
        self, layouts: tuple[MemoryLayout, ...]
    ) -> tuple[Program, tuple[int, ...], tuple[MemoryLayout, ...]]:
        """The program for gradients that lie like ``layouts``, and the positions among saved + seeds that it reads."""
        found = self.programs.get(layouts)
        if found is None:
            found = self.programs[layouts] = self._compile(layouts)
        return found

    def _compile(
        self, layouts: tuple[MemoryLayout, ...]
    ) -> tuple[Program, tuple[int, ...], tuple[MemoryLayout, ...]]:
        strides = dict(zip(self.graph.inputs, (*self.saved_strides, *(l.strides for l in layouts)), strict=True))
        _, program, kept = compile_graph(
            self.graph.name, self.graph.inputs, list(self.graph.values), self.graph.outputs, strides.__getitem__
        )
        order = {v: i for i, v in enumerate(self.graph.inputs)}
        results = tuple(contiguous_layout(v.type) for v in self.graph.outputs)
        return program, tuple(order[v] for v in kept), results


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
    return Backward(
        gradient,
        parts.backward,
        saved,
        tuple(strides.get(v) or v.type.contiguous_strides() for v in saved),
        tuple(v for v in parts.forward.values if v not in known),
        tuple(parts.forward.inputs[i] for i in parts.checked_inputs),
        tuple(parts.forward.outputs[i] for i in parts.checked_outputs),
        {},
    )


class CompiledBackward(Node):
    """The node behind the outputs of a compiled call."""

    __slots__ = ("backward", "inputs", "label", "saved", "types", "versions")

    def __init__(
        self,
        label: str,
        backward: Backward,
        edges: Sequence[Edge | None],
        inputs: Sequence[Tensor],
        saved: Sequence[Tensor],
        checked: Sequence[Tensor],
        types: Sequence[Any],
    ) -> None:
        super().__init__(edges, len(types))
        self.label = label
        self.backward = backward
        self.inputs: Sequence[Tensor] | None = inputs
        self.saved: Sequence[Tensor] | None = saved
        self.versions = [(t._version, t._version.value) for t in checked]
        self.types = types

    def name(self) -> str:
        return f"Compiled_{self.label}_Backward"

    def release(self) -> None:
        self.saved = self.inputs = None

    def apply(self, grads: list[Tensor | None]) -> Sequence[Tensor | None]:
        if self.saved is None or self.inputs is None:
            raise RuntimeError(FREED)
        for version, expected in self.versions:
            if version.value != expected:
                raise RuntimeError(
                    "one of the variables needed for gradient computation has been modified by an inplace operation: "
                    f"a tensor saved by {self.name()} is at version {version.value}; expected version {expected} "
                    "instead. Hint: clone() the tensor before changing it, or use the out-of-place operation."
                )
        seeds = [
            full(shape=t.shape, value=0, dtype=t.dtype) if g is None else g
            for g, t in zip(grads, self.types, strict=True)
        ]
        seeds = [seeds[i] for i in self.backward.gradient.seeds]
        if MODES.grad or MODES.recorder is not None:
            results: Sequence[Tensor] = self.differentiable(seeds)
        else:
            results = self.fast(seeds)
        found: list[Tensor | None] = [None] * len(self.edges)
        for position, result in zip(self.backward.gradient.wrt, results, strict=True):
            found[position] = result
        return found

    def fast(self, seeds: Sequence[Tensor]) -> Sequence[Tensor]:
        """Run the backward program."""
        layouts = tuple([g._layout or layout_of(g) for g in seeds])
        program, reads, kinds = self.backward.program(layouts)
        values = [*self.saved, *seeds]  # type: ignore[misc]
        results = program.run(*[values[i] for i in reads])
        return [wrap(r, k) for r, k in zip(results, kinds, strict=True)]

    def differentiable(self, seeds: Sequence[Tensor]) -> Sequence[Tensor]:
        """Run the gradient op by op on tensors, so that it can be differentiated again."""
        assert self.inputs is not None
        return interpreter.run_tensors(self.backward.gradient.graph, [*self.inputs, *seeds])
