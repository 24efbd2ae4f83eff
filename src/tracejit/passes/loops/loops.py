"""Loops before differentiation: the body also collects what backward needs.

Before ``prepare(graph, [True, True, False])``::

    graph f(h: f32[4, 8], w: f32[8, 8], xs: f32[5, 4, 8]) {
        %0: loop(f32[4, 8]) = loop(h, w, xs, count=5, carried=1, items=1)
            graph round(h: f32[4, 8], w: f32[8, 8], x: f32[4, 8]) {
                %0: f32[4, 8] = matmul(h, w)
                %1: f32[4, 8] = add(%0, x)
                %2: f32[4, 8] = tanh(%1)
                return %2
            }
        %1: f32[4, 8] = part(%0, index=0)
        return %1
    }

After, the body returns ``%2, h`` and there is one more part: all that ``h`` was when a round began. The gradient of
``tanh`` reads its result, which is what the next round began with: it needs no stack of its own.

One round is differentiated and partitioned like any graph, with other prices: fixed values, items and what is collected
already are at hand in backward.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...ir.builder import mapped
from ...ir.graph import Graph, Guard, Statement, Value
from ...ir.loops import body_of, is_loop, loop_value, part, part_value, split_operands
from ..gradient.activity import body_wants, reached_values, tracked_values
from ..gradient.gradient import Gradient, differentiate
from ..gradient.partition import AtHand, partition


@dataclass(frozen=True, eq=False)
class RoundGradient:
    """One round, and how it is differentiated.

    ``forward`` is the body, which also collects what is kept. ``backward`` takes ``saved`` (values of ``forward``) and
    gradients of the outputs of ``forward`` at ``seeds``; it returns gradients of the inputs at ``wrt``. ``gradient``
    tells what eager execution would keep.
    """

    forward: Graph
    backward: Graph
    saved: tuple[Value, ...]
    gradient: Gradient

    @property
    def seeds(self) -> tuple[int, ...]:
        """Positions of outputs of ``forward``."""
        return self.gradient.seeds

    @property
    def wrt(self) -> tuple[int, ...]:
        """Positions of inputs of ``forward``."""
        return self.gradient.wrt


@dataclass(frozen=True, eq=False)
class Prepared:
    """A graph ready to be differentiated.

    ``mapping`` leads from the values of the graph as it was to their counterparts, where these are others. ``rounds``
    tells for each loop through which gradients flow how a round of it is differentiated.
    """

    graph: Graph
    tracked: set[Value]
    mapping: Mapping[Value, Value]
    rounds: Mapping[Value, RoundGradient]


def prepare(graph: Graph, wrt: Sequence[bool], outputs: Sequence[bool] | None = None) -> Prepared:
    """``graph`` with loops that collect what backward needs; the arguments are those of ``differentiate``.

    Parts keep their meaning and index, new ones come after them. A graph that is ready stays as it is.

    >>> from tracejit.ir import parse
    >>> graph = parse('''graph f(h: f32[8]) {
    ...     %0: loop(f32[8]) = loop(h, count=5, carried=1, items=0)
    ...         graph round(h: f32[8]) { %0: f32[8] = sin(h)  return %0 }
    ...     %1: f32[8] = part(%0, index=0)
    ...     return %1
    ... }''')
    >>> ready = prepare(graph, [True]).graph
    >>> ready.body[0].spec, prepare(ready, [True]).graph is ready
    (LoopType(shape=(), dtype=tracejit.int64, parts=(..., ...)), True)
    """
    tracked = tracked_values(graph, wrt)
    if not any(map(is_loop, graph.values)):
        return Prepared(graph, tracked, {}, {})
    chosen = [v for i, v in enumerate(graph.outputs) if outputs is None or outputs[i]]
    reached = reached_values(graph, tracked, chosen).parts
    found = {
        loop: round_gradient(loop, body_wants(loop, tracked), parts)
        for loop, parts in reached.items()
    }
    return _collecting(graph, wrt, found)


def round_gradient(loop: Value, wants: Sequence[bool], parts: set[int]) -> RoundGradient:
    """How a round is differentiated with respect to inputs in ``wants`` when ``parts`` receive gradients."""
    graph, carried = body_of(loop), loop.attributes["carried"]
    seeds = [i in parts for i in range(len(graph.outputs))]
    graph = prepare(graph, wants, seeds).graph
    gradient = differentiate(graph, wants, seeds)
    found = partition(graph, gradient, at_hand(graph, carried))
    kept = found.forward
    saved = (
        *(kept.inputs[i] for i in found.saved_inputs),
        *(kept.outputs[i] for i in found.saved_outputs),
    )
    free = at_hand(graph, carried, saved).values
    added = [v for v in saved if v not in free]
    forward = graph
    if added:
        forward = Graph(graph.name, graph.inputs, kept.body, (*graph.outputs, *added))
    return RoundGradient(forward, found.backward, saved, gradient)


def at_hand(graph: Graph, carried: int, saved: Sequence[Value] = ()) -> AtHand:
    """What backward has of a round of ``graph`` in any case: what does not change, items, and what is collected.

    With ``saved``, also what a round carried on, where ``saved`` has what the next one started from.
    """
    pairs = list(zip(graph.inputs[:carried], graph.outputs, strict=False))
    collected = graph.outputs[carried:]
    same = [before for before, after in pairs if before is after]
    following = {after: before for before, after in reversed(pairs) if before is not after}
    kept = {*saved, *collected}
    handed_on = [after for after, before in following.items() if before in kept and saved]
    return AtHand(frozenset((*graph.inputs[carried:], *collected, *same, *handed_on)), following)


def _collecting(graph: Graph, wrt: Sequence[bool], found: dict[Value, RoundGradient]) -> Prepared:
    """``graph`` with the bodies of ``found`` in place of those of its loops."""
    mapping: dict[Value, Value] = {v: v for v in graph.inputs}
    rounds: dict[Value, RoundGradient] = {}
    body: list[Statement] = []
    shown = {(v.value_operands[0], v.attributes["index"]) for v in graph.values if v.op is part}
    for statement in graph.body:
        if isinstance(statement, Guard):
            value = mapping[statement.value]
            body.append(Guard(value, statement.expected, statement.line))
            continue
        new = mapped(statement, mapping)
        if statement in found:
            new = with_body(new, found[statement].forward)
            rounds[new] = found[statement]
        mapping[statement] = new
        body.append(new)
        if new is not statement and statement in found:
            count = len(found[statement].forward.outputs)
            body += [part_value(new, i) for i in range(count) if (statement, i) not in shown]
    if all(old is new for old, new in mapping.items()):
        return Prepared(graph, tracked_values(graph, wrt), {}, rounds)
    outputs = tuple(mapping[v] for v in graph.outputs)
    ready = Graph(graph.name, graph.inputs, tuple(body), outputs)
    changed = {old: new for old, new in mapping.items() if old is not new}
    return Prepared(ready, tracked_values(ready, wrt), changed, rounds)


def with_body(loop: Value, graph: Graph) -> Value:
    """``loop`` with another body that takes the same inputs."""
    if graph is body_of(loop):
        return loop
    count, until = loop.attributes["count"], loop.attributes.get("until")
    return loop_value(*split_operands(loop), graph, count, loop.line, until)
