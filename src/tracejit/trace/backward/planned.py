"""Planning backward graphs: what they read of what was saved, and of gradients that lie in some way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ...ir.graph import Graph
from ...passes.gradient.absent import without
from ...runtime.program import ProgramPlan
from ...types import Shape
from ..tree.bound import Bound
from ..tree.segments import compile_graph
from ..tree.structure import Pattern, strides_of


def restricted(graph: Graph, saved: int, absent: frozenset[int]) -> tuple[Graph, tuple[bool, ...]]:
    """A backward graph without some gradients, and which of its outputs are left; all are where () is given."""
    return without(graph, saved, absent)[:2] if absent else (graph, ())


class How(NamedTuple):
    """What programs are made for: a device (below zero the host), graphs of it, and passes that may be refused."""

    device: int
    capture: bool
    may_refuse: bool


def plan_backward(
    how: How,
    graph: Graph,
    saved_strides: Sequence[Shape],
    offsets: Sequence[int | None],
    patterns: Sequence[Pattern],
    bound: Bound,
) -> tuple[ProgramPlan, tuple[int, ...]]:
    """The plan of a backward graph, and what it reads.

    Its first inputs are saved values, which lie in the pack where there is an offset; the others are gradients.
    """
    inputs = graph.inputs
    count = len(saved_strides)
    given = [strides_of(p, v.spec.shape) for p, v in zip(patterns, inputs[count:], strict=True)]
    strides = dict(zip(inputs, (*saved_strides, *given), strict=True))
    packed = {v: at for v, at in zip(inputs, offsets, strict=False) if at is not None}
    values = list(graph.values)
    program, kept = compile_graph(
        graph.name,
        inputs,
        values,
        graph.outputs,
        strides.__getitem__,
        bound.scope,
        bound.lock,
        packed=packed,
        device=how.device,
        may_refuse=how.may_refuse,
        capture=how.capture,
    )
    order = {v: i for i, v in enumerate(v for v in inputs if v not in packed)}
    return program, tuple(order[v] for v in kept)
