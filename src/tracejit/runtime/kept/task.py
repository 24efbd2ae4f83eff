"""What there is to be planned: a graph, and where its inputs and outputs lie."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...ir.graph import Graph
from ...passes.pipeline import run_passes
from ...types import Shape
from ..plan.plan import make_plan
from ..plan.records import Plan

__all__ = ["Task"]


@dataclass(frozen=True, eq=False)
class Task:
    """A graph to be optimised and planned; numbers are positions among its inputs and outputs.

    ``strides`` are those of the inputs, ``overwrite`` maps outputs to inputs whose memory they may take, ``pack`` are
    outputs that share a block, and ``packed`` inputs that lie in one, with their offsets. With ``may_refuse``, the
    program may find that it cannot serve a call.

    >>> from tracejit.ir import parse
    >>> graph = parse("graph f(x: f32[8], y: f32[8]) { %0: f32[8] = exp(y) return %0 }")
    >>> plan, reads = Task(graph, ((1,), (1,))).plan()
    >>> [kernel.name for kernel in plan.kernels], reads
    (['k_exp'], (1,))
    """

    graph: Graph
    strides: Sequence[Shape]
    overwrite: Mapping[int, int] | None = None
    pack: Sequence[int] = ()
    packed: Mapping[int, Any] | None = None
    device: int = -1
    may_refuse: bool = False

    def plan(self) -> tuple[Plan, tuple[int, ...]]:
        """The plan, and the inputs that it still reads."""
        graph = run_passes(self.graph, device=self.device)
        used = set(graph.outputs)
        for value in graph.values:
            used.update(value.value_operands)
        reads = tuple([i for i, v in enumerate(graph.inputs) if v in used])
        place = {number: i for i, number in enumerate(reads)}
        inputs = tuple([graph.inputs[i] for i in reads])
        times = Counter(
            graph.outputs
        )  # what turned out to be another output as well has a place of its own
        plan = make_plan(
            Graph(graph.name, inputs, graph.body, graph.outputs),
            [self.strides[i] for i in reads],
            {
                i: place[taken]
                for i, taken in (self.overwrite or {}).items()
                if taken in place and times[graph.outputs[i]] == 1
            },
            self.pack,
            {place[i]: at for i, at in (self.packed or {}).items() if i in place},
            self.device,
            self.may_refuse,
        )
        return plan, reads
