"""Passes through compiled code that bring gradients to results in between, which somebody watches.

Where ``return h, h.sum()`` gives two results, one node stands for both, and its programs know only what comes to them
from outside. For a pass in which the gradient of ``h`` is looked at, the graph is cut there: ``h`` is an input of what
was computed from it. Such passes are rare, so they run op by op.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ...autograd.grad_mode import no_grad
from ...ir import interpreter
from ...ir.builder import mapped
from ...ir.graph import Graph, Value
from ...ops.elementwise import add
from ...passes.gradient.gradient import Gradient, differentiate
from ...tensor import Tensor
from ..recording.unread_lookups import behind
from .backward import BoundBackward, run_present

if TYPE_CHECKING:
    from .node import CompiledBackward

Gradients = Sequence[Tensor | None]


@dataclass(eq=False)
class Joint:
    """The graph of a path whose results may be computed from one another, and its cuts."""

    backward: BoundBackward
    #: Those made so far, by the results they are made at.
    cuts: dict[tuple[int, ...], Cut] = field(default_factory=dict)

    @cached_property
    def graph(self) -> Graph:
        """The results from the inputs."""
        return self.backward.bound.graph(self.backward.plan.visible)

    @cached_property
    def before(self) -> list[set[int]]:
        """The results that each result was computed from, by their numbers."""
        outputs = self.graph.outputs
        numbers = {v: n for n, v in enumerate(outputs) if v.op is not None}
        return [
            {numbers[v] for v in behind(value.value_operands) if v in numbers} for value in outputs
        ]

    def flows(self, watched: Sequence[int], grads: Gradients) -> bool:
        """Does a gradient come to a watched result by way of another?"""
        return any(
            grads[other] is not None and not self.before[other].isdisjoint(watched)
            for other in range(len(grads))
        )

    def cut(self, watched: Sequence[int]) -> Cut:
        """The graph cut at some results."""
        key = tuple(watched)
        if key not in self.cuts:
            self.cuts[key] = Cut(self, key)
        return self.cuts[key]


class Cut:
    """A graph in which some results are inputs of what was computed from them, and its gradients."""

    def __init__(self, joint: Joint, watched: tuple[int, ...]) -> None:
        graph = joint.graph
        self.watched = watched
        #: What was computed from others comes first.
        self.order = sorted(watched, key=lambda n: -len(joint.before[n]))
        made = [graph.outputs[n] for n in watched]
        self.forward = Graph(graph.name, graph.inputs, _needed(graph, made), tuple(made))
        apart = _apart(graph, made)
        wrt, seeds = joint.backward.wrt, {*joint.backward.seeds, *watched}
        asked = [i in wrt for i in range(len(graph.inputs))] + [True] * len(watched)
        wanted = [i in seeds for i in range(len(graph.outputs))]
        self.gradient: Gradient = differentiate(apart, asked, wanted)
        self.places = {n: len(graph.inputs) + i for i, n in enumerate(watched)}


def _needed(graph: Graph, values: Sequence[Value]) -> tuple[Value, ...]:
    needed = behind(values)
    return tuple([v for v in graph.values if v in needed])


def _apart(graph: Graph, watched: Sequence[Value]) -> Graph:
    """The graph with ``watched`` values as further inputs of what was computed from them."""
    mapping: dict[Any, Any] = {v: v for v in graph.inputs}
    fresh = {v: Value(v.spec, name=f"watched{i}") for i, v in enumerate(watched)}
    made: dict[Value, Value] = {}
    body: list[Value] = []
    for value in graph.values:
        new = mapped(value, mapping)
        body.append(new)
        made[value] = new
        mapping[value] = fresh.get(value, new)
    outputs = tuple([made.get(v, v) if v in fresh else mapping[v] for v in graph.outputs])
    return Graph(graph.name, (*graph.inputs, *fresh.values()), tuple(body), outputs)


def _results_again(node: CompiledBackward, cut: Cut) -> list[Tensor]:
    """The watched results, computed again: in the place in the autograd graph that they have."""
    with no_grad():
        found = interpreter.run_tensors(cut.forward, node.inputs or ())
    for number, tensor in zip(cut.watched, found, strict=True):
        tensor._requires_grad, tensor._grad_fn, tensor._output_nr = True, node, number
    return found


class SplitPass:
    """One pass through a cut graph: from the results that nobody watches, and then on from each that is watched."""

    def __init__(self, node: CompiledBackward, cut: Cut, grads: Gradients) -> None:
        self.node = node
        self.cut = cut
        self.order: Sequence[int] = cut.order
        self.inputs = [*(node.inputs or ()), *_results_again(node, cut)]
        self.found: dict[int, Tensor] = {}  # gradients by positions of inputs
        self.run([None if n in cut.watched else g for n, g in enumerate(grads)])

    def run(self, grads: Gradients) -> None:
        """Pass on gradients of some results."""
        gradient = self.cut.gradient
        seeds = [grads[i] for i in gradient.seeds]
        if all(seed is None for seed in seeds):
            return
        plan = self.node.site.backward.plan
        found = run_present(gradient.graph, self.inputs, seeds, plan)
        for position, new in zip(gradient.wrt, found, strict=True):
            known = self.found.get(position)
            if new is not None:
                self.found[position] = new if known is None else add(known, new)

    def arrived(self, number: int) -> Tensor | None:
        """What has come to a watched result from others."""
        return self.found.get(self.cut.places[number])

    def go_on(self, number: int, gradient: Tensor | None) -> None:
        """Pass on the whole gradient of a watched result."""
        if gradient is not None:
            seeds: list[Tensor | None] = [None] * self.node.n_outputs
            seeds[number] = gradient
            self.run(seeds)

    def apply(self, grads: Gradients) -> Gradients:
        """The gradients of the node's inputs; ``grads`` are all of its outputs'."""
        site = self.node.site
        return site.led_to(grads, [self.found.get(i) for i in site.backward.wrt])

    def apply_part(self, grads: Gradients, wanted: Sequence[bool]) -> Gradients:
        """The same."""
        return self.apply(grads)
