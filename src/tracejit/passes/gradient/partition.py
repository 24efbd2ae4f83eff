"""Partition: what the forward graph keeps, and the backward graph that computes gradients from it.

Before: ``f`` returns ``mul(exp(x), 2)`` of an input that eager execution does not keep, and its gradient graph computes
``exp(x)`` once more. After::

    graph f(x: f32[3]) {                       graph f_backward(s0: f32[3], g0: f32[3]) {
        %0: f32[3] = exp(x)                        %0: f32[3] = mul(g0, 2.0)
        %1: f32[3] = mul(%0, 2.0)                  %1: f32[3] = mul(%0, s0)
        return %1, %0                              return %1
    }                                          }

The rule. Gradients read values that depend on no incoming gradient. Each of these is either *kept* or *recomputed*:

1. Results of contractions, reductions, indexing, rearranging copies and ops without a scalar expression are never
   recomputed: they, or something computed from them, are kept. Cheap elementwise ops, views, constants and
   counter-based random draws may be recomputed.
   So may products that outgrow their operands, and what elementwise ops make of them (:mod:`.growth`).
2. A value that a library call of the forward reads and a library call of the backward reads again (the activations of a
   linear layer) is kept: it is in memory anyway, and recomputing it would write it a second time. What has outgrown its
   operands is not, and neither are large elementwise results (`LARGE`): beside the products that read them a second
   writing is a small thing, and mostly what they are computed from has to be kept as well.
3. Among all sets that satisfy 1 and 2 the one with the least memory traffic is kept: a minimum cut. Keeping something
   that is in memory anyway (an input, an output, the result of a library call) costs its bytes once; anything else is
   written only to be kept and costs twice. Of equal sets the one that recomputes least is taken.
4. An input or output is kept by reference only if eager execution would keep it too (then changing it in place before
   backward is an error in both: :mod:`.by_reference`). Others are kept as copies, since eager execution
   allows changing them.
5. Views are never kept, only what they show.

Loops. The parts of a loop are results of a library call; the loop itself is never kept. The body of a loop is split in
the same way (see :mod:`..loops.loops`), with other prices: some values are at hand in any case, and nobody
outside sees the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ...ir.builder import Builder
from ...ir.graph import Graph, Value
from ...ir.loops import is_loop
from ...ops.elementwise import clone
from ...ops.table import Contraction, Elementwise, Movement, Source
from ..draws_inside import drawn_inside
from ..fusion.groups import is_constant
from ..rewrite import is_view, root
from ..simplify.drop_copies import is_mark
from .by_reference import by_reference
from .gradient import Gradient, storage
from .growth import grown
from .minimum_cut import INFINITE, Network
from .plain_rules import has_rules, without_rules
from .weights import weights

#: The weight (:mod:`.weights`) from which on memory counts for more than writing a value once more.
LARGE = 1 << 24


@dataclass(frozen=True)
class Partition:
    """A forward graph that also returns what is kept, and the backward graph.

    ``forward`` returns the original outputs and then ``len(forward.outputs) - n_outputs`` values made to be kept.
    ``backward`` takes, in this order, the forward inputs at positions ``saved_inputs``, the forward outputs (original
    or added) at positions ``saved_outputs``, and one gradient per entry of ``seeds`` (positions of original outputs);
    it returns one gradient per entry of ``wrt`` (positions of forward inputs). ``checked_inputs`` and
    ``checked_outputs`` are the positions whose version must not move before backward, as in eager execution.
    """

    forward: Graph
    backward: Graph
    n_outputs: int
    saved_inputs: tuple[int, ...]
    saved_outputs: tuple[int, ...]
    seeds: tuple[int, ...]
    wrt: tuple[int, ...]
    checked_inputs: tuple[int, ...]
    checked_outputs: tuple[int, ...]

    @property
    def saved_bytes(self) -> int:
        """Bytes kept between forward and backward."""
        inputs = sum(self.forward.inputs[i].spec.nbytes for i in self.saved_inputs)
        return inputs + sum(self.forward.outputs[i].spec.nbytes for i in self.saved_outputs)


@dataclass(frozen=True)
class AtHand:
    """What the backward of a loop's body has in any case.

    ``values`` are free. ``following`` maps carried values as a round leaves them to the same as it found them: where
    the latter are kept, the former are those of the round after.
    """

    values: frozenset[Value] = frozenset()
    following: Mapping[Value, Value] = field(default_factory=dict)

    def mapped(self, mapping: Mapping[Value, Value]) -> AtHand:
        """The same of a graph whose values went elsewhere, or nowhere."""
        values = frozenset(mapping[v] for v in self.values if v in mapping)
        pairs = [(a, b) for a, b in self.following.items() if a in mapping and b in mapping]
        return AtHand(values, {mapping[a]: mapping[b] for a, b in pairs})


def partition(forward: Graph, gradient: Gradient, body: AtHand | None = None) -> Partition:
    """Split ``gradient`` (of ``forward``) into what runs before and after the gradients of the outputs arrive.

    Both may have been simplified since ``gradient`` was made: equal computations are found by value numbering. For the
    body of a loop, ``body`` tells what is at hand in backward.

    >>> from tracejit.ir import parse
    >>> from tracejit.passes.gradient.gradient import differentiate
    >>> f = parse("graph f(x: f32[3]) { %0: f32[3] = exp(x) %1: f32[3] = mul(%0, 2.0) return %1 }")
    >>> parts = partition(f, differentiate(f, [True]))
    >>> len(parts.forward.outputs), [v.name for v in parts.backward.inputs]
    (2, ['s0', 'g0'])
    """
    if has_rules(forward):
        return _plainly(forward, gradient, body)
    joint = _Joint(forward, gradient, body)
    kept = choose(joint)
    return _Splitter(joint, kept).split()


def _plainly(forward: Graph, gradient: Gradient, body: AtHand | None) -> Partition:
    """The partition of graphs with rules of functions, which the gradient has followed: of the same without them."""
    plain = without_rules(forward)
    if body is not None:
        body = body.mapped(plain.mapping)
    followed = replace(gradient, graph=without_rules(gradient.graph).graph)
    found = partition(plain.graph, followed, body)
    return replace(found, forward=plain.restored(found.forward, forward))


class _Joint:
    """Forward and gradient statements in one numbering."""

    def __init__(self, forward: Graph, gradient: Gradient, body: AtHand | None) -> None:
        self.forward = forward
        self.body = body
        self.free = set(body.values) if body is not None else set()
        self.gradient = gradient
        builder = Builder(gradient.graph.name)
        builder.adopt(forward)
        inputs = gradient.graph.inputs
        count = len(forward.inputs)
        mapping = dict(zip(inputs[:count], forward.inputs, strict=True))
        self.seeds = [builder.input(v.name, v.spec) for v in inputs[count:]]
        mapping.update(zip(inputs[count:], self.seeds, strict=True))
        for value in gradient.graph.values:
            mark = body is None and is_mark(value)  # what is made here is not differentiated again
            mapping[value] = (
                mapping[value.value_operands[0]] if mark else builder.copy(value, mapping)
            )
        self.outputs = [mapping[v] for v in gradient.graph.outputs]
        self.values: list[Value] = [v for v in builder.body if isinstance(v, Value)]
        self.in_forward = {*forward.inputs, *forward.values}
        self.after = self._after_seeds()
        self.weights = weights(builder.inputs, self.values)
        self.by_reference = by_reference(forward, gradient, self.seeds, self.values)
        self.exposed = {*map(storage, forward.inputs), *map(storage, forward.outputs)}
        self.inside = drawn_inside(self.values) - {*self.outputs, *forward.outputs}
        self.in_memory = self._in_memory() - self.inside
        self.grown = grown(self.forward.values)

    def _after_seeds(self) -> set[Value]:
        """The values that depend on a gradient given to backward."""
        found = set(self.seeds)
        for value in self.values:
            if any(x in found for x in value.value_operands):
                found.add(value)
        return found

    def _in_memory(self) -> set[Value]:
        """Forward values that take memory in any case: inputs, outputs, results and operands of library calls,
        and what is read on both sides of one.

        What a round is given and leaves lies in memory of its own, from which it would be copied.
        """
        found = {*self.forward.inputs, *self.forward.outputs} if self.body is None else set()
        for value in self.forward.values:
            if is_call(value):
                found.add(value)
                found.update(map(root, value.value_operands))
        if self.body is None:
            found |= across_calls([*self.forward.inputs, *self.forward.values])
        return found

    def needed(self) -> list[Value]:
        """The values before the seeds that backward reads, in order."""
        live = set(self.outputs)
        found = {v: None for v in self.outputs if v not in self.after}
        for value in reversed(self.values):
            if value in live and value in self.after:
                live.update(value.value_operands)
                found.update((x, None) for x in value.value_operands if x not in self.after)
        return list(found)

    def read_by_calls(self) -> set[Value]:
        """What library calls of the backward read, through views."""
        return {
            root(x) for v in self.values if v in self.after and is_call(v) for x in v.value_operands
        }

    def copied(self, value: Value) -> bool:
        """Must ``value`` be kept as a copy, because the user may change it (rule 4)?"""
        return self.body is None and value in self.exposed and value not in self.by_reference


def across_calls(values: Sequence[Value]) -> set[Value]:
    """Values that are read again after a library call that depends on them: they wait in memory meanwhile."""
    bits = {v: 1 << i for i, v in enumerate(values)}
    before: dict[Value, int] = {}  # what each value depends on
    across: dict[Value, int] = {}  # that of it from which a path leads through a call
    found: set[Value] = set()
    for value in values:
        sources = value.value_operands
        above = beyond = 0
        for x in sources:
            above |= before[x] | bits[x]
            beyond |= before[x] if is_call(x) else across[x]
        before[value], across[value] = above, beyond
        if not is_view(value):
            found.update(r for x in sources if beyond & bits[r := root(x)])
    return found


def is_call(value: Value) -> bool:
    """Does a library call or an op's own body compute this value (it is read and written as a whole)?"""
    if isinstance(value.op, Source):
        return value.op.scalar is None and not is_constant(value)
    if isinstance(value.op, Elementwise):
        return value.op.scalar is None
    return isinstance(value.op, Contraction)


def _is_cheap(value: Value) -> bool:
    """May ``value`` be recomputed (rule 1)?"""
    if isinstance(value.op, Movement):
        return value.op.is_view
    return isinstance(value.op, (Elementwise, Source)) and not is_call(value)


def _price(joint: Any, value: Value) -> int:
    """Traffic of keeping ``value``; the last bits prefer values the forward computes anyway."""
    if value in joint.free:
        return 0
    unkept = is_loop(value) or is_view(value) or value in joint.inside
    if unkept or (isinstance(value.op, Source) and _is_cheap(value)):
        return INFINITE
    times = 1 if value in joint.in_memory else 2
    if joint.copied(value):
        times = 3
    moved = value not in joint.in_forward
    return int(4 * times * joint.weights[value] + moved)


def choose(joint: Any) -> list[Value]:
    """The values to keep, in order of the forward."""
    needed = joint.needed()
    nodes = _ancestors(needed)
    calls = joint.read_by_calls()
    forced = {
        v
        for v in nodes
        if v in calls and v in joint.in_memory and not joint.copied(v) and v not in joint.grown
        if joint.body is not None or joint.weights[v] < LARGE or not _is_cheap(v)
    }
    if joint.body is not None:
        following = joint.body.following
        joint.free |= {v for v, before in following.items() if before in forced | joint.free}
    side = _cut(joint, nodes, needed, forced)
    kept: set[Value] = set()
    seen = set(needed)
    waiting = list(seen)
    while waiting:  # from what is needed up to what the cut keeps
        value = waiting.pop()
        before, after = side[2 * nodes[value]], side[2 * nodes[value] + 1]
        if value in forced or (after and not before):
            kept.add(value)
            continue
        fresh = [x for x in value.value_operands if x not in seen]
        seen.update(fresh)
        waiting.extend(fresh)
    order = {v: i for i, v in enumerate([*joint.forward.inputs, *joint.values])}
    return sorted(kept, key=order.__getitem__)


def _ancestors(values: Iterable[Value]) -> dict[Value, int]:
    """``values`` and everything they depend on, numbered."""
    found = {v: i for i, v in enumerate(dict.fromkeys(values))}
    waiting = list(found)
    while waiting:
        for operand in waiting.pop().value_operands:
            if operand not in found:
                found[operand] = len(found)
                waiting.append(operand)
    return found


def _cut(
    joint: Any, nodes: Mapping[Value, int], needed: Sequence[Value], forced: set[Value]
) -> list[bool]:
    """Which side of the minimum cut the two halves of each node are on."""
    source, sink = 2 * len(nodes), 2 * len(nodes) + 1
    network = Network(2 * len(nodes) + 2)
    for value, number in nodes.items():
        here, there = 2 * number, 2 * number + 1
        cheap = _is_cheap(value) or value in joint.grown or value in joint.inside
        must_stay = value.op is None or (value in joint.in_forward and not cheap)
        if value in forced:  # kept in any case: others may be recomputed from it for nothing
            continue
        network.connect(here, there, _price(joint, value))
        if must_stay:
            network.connect(source, here, INFINITE)
        for operand in value.value_operands:
            if operand not in forced:
                network.connect(2 * nodes[operand] + 1, here, INFINITE)
    for value in needed:
        if value not in forced:
            network.connect(2 * nodes[value] + 1, sink, INFINITE)
    return network.sink_side(source, sink)


class _Splitter:
    """Writes the two graphs."""

    def __init__(self, joint: _Joint, kept: Sequence[Value]) -> None:
        self.joint = joint
        self.forward = joint.forward
        self.kept = kept

    def split(self) -> Partition:
        inputs = {v: i for i, v in reversed(list(enumerate(self.forward.inputs)))}
        outputs = {v: i for i, v in reversed(list(enumerate(self.forward.outputs)))}
        added: list[Value] = []
        copies: list[Value] = []
        saved_inputs: dict[Value, int] = {}
        saved_outputs: dict[Value, int] = {}
        for value in self.kept:
            if self.joint.copied(value):
                copies.append(Value(value.spec, clone, (value,), {}, line=value.line))
                saved_outputs[value] = len(self.forward.outputs) + len(added)
                added.append(copies[-1])
            elif value in inputs:
                saved_inputs[value] = inputs[value]
            elif value in outputs:
                saved_outputs[value] = outputs[value]
            else:
                saved_outputs[value] = len(self.forward.outputs) + len(added)
                added.append(value)
        gradient = self.joint.gradient
        return Partition(
            self._forward(added, copies),
            self._backward([*saved_inputs, *saved_outputs]),
            len(self.forward.outputs),
            tuple(saved_inputs.values()),
            tuple(saved_outputs.values()),
            gradient.seeds,
            gradient.wrt,
            tuple(gradient.saved_inputs),
            tuple(gradient.saved_outputs),
        )

    def _forward(self, added: list[Value], copies: list[Value]) -> Graph:
        """The forward graph, what it computes only to keep it, and copies."""
        moved = set(_ancestors(added)) - self.joint.in_forward - set(copies)
        body = (*self.forward.body, *(v for v in self.joint.values if v in moved), *copies)
        outputs = (*self.forward.outputs, *added)
        return Graph(self.forward.name, self.forward.inputs, body, outputs)

    def _backward(self, saved: list[Value]) -> Graph:
        """The gradient graph from ``saved`` and the seeds on."""
        builder = Builder(self.joint.gradient.graph.name)
        taken = {v.name for v in (*self.joint.seeds, *self.forward.inputs)}
        fresh = (n for i in range(len(saved) + len(taken)) if (n := f"s{i}") not in taken)
        mapping = {v: builder.input(v.name or next(fresh), v.spec) for v in saved}
        for seed in self.joint.seeds:
            mapping[seed] = builder.input(seed.name, seed.spec)
        live = self._live(mapping)
        for value in self.joint.values:
            if value in live:
                mapping[value] = builder.copy(value, mapping)
        return builder.finish([mapping[v] for v in self.joint.outputs])

    def _live(self, given: Mapping[Value, Value]) -> set[Value]:
        """The values backward computes: what its outputs depend on, up to what it is given."""
        live: set[Value] = set()
        waiting = [v for v in self.joint.outputs if v not in given]
        while waiting:
            value = waiting.pop()
            if value not in live:
                live.add(value)
                waiting.extend(x for x in value.value_operands if x not in given)
        return live
