"""Gradients through an open loop: what a backward pass would find is to be the same for any number of rounds.

A compiled call knows which of its inputs each result leads to, and by which *parts* of its history (:mod:`.freeing`).
Both are taken from the tape of the recorded run, and a recording of ten rounds stands for runs of any other number. So
a loop begins with the first round after which nothing new is behind what is carried on: what comes from inputs by way
of one round comes by way of all that follow. Before the end it may take some rounds until all that is carried on lies
before a result; runs of fewer rounds than that are told apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...autograd.node import Edge, Node
from ...tensor import Tensor
from .relations import Relation
from .rounds import Event, Ran

if TYPE_CHECKING:
    from ..recording.recorder import Recorder


class Lineage:
    """Which tensors from outside are behind those of a run."""

    def __init__(self, recorder: Recorder) -> None:
        self.first = recorder.first_node
        self.ends: dict[Edge, int] = {}
        self.known: dict[Node, int] = {}
        for number, (tensor, _) in enumerate(recorder.external.values()):
            edge = tensor._edge()
            if edge is not None:
                self.ends[edge] = self.ends.get(edge, 0) | 1 << number

    def behind(self, tensor: Tensor) -> int:
        """Bits of the tensors from outside."""
        edge = tensor._edge()
        return 0 if edge is None else self._through(edge)

    def _through(self, edge: Edge) -> int:
        node = edge[0]
        if edge in self.ends or node.sequence < self.first:
            return self.ends.get(edge, 0)
        stack = [node]
        while stack:
            last = stack[-1]
            inner = [e for e in last.edges if e is not None and e not in self.ends]
            inner = [e for e in inner if e[0].sequence >= self.first]
            waiting = [e[0] for e in inner if e[0] not in self.known]
            if waiting and last not in self.known:
                stack += waiting
                continue
            stack.pop()
            if last not in self.known:
                found = [self.ends.get(e, 0) for e in last.edges if e is not None]
                found += [self.known[e[0]] for e in inner]
                self.known[last] = _union(found)
        return self.known[node]

    def goes_on(self, relation: Relation) -> bool:
        """Is the same behind what a round began with as behind what it hands on?"""
        return all(self.behind(x) == self.behind(y) for x, y in relation.pairs)


def _union(bits: Sequence[int]) -> int:
    found = 0
    for some in bits:
        found |= some
    return found


class Ahead:
    """Which results lie ahead of tensors, by the ops of a run; ``parts`` are those of ops that keep something."""

    def __init__(self, lineage: Lineage, found: dict[int, int]) -> None:
        self.lineage = lineage
        self.found = found  # bits of results, by tensor
        self.parts: set[tuple[int, int]] = set()

    def through(self, events: Sequence[Event]) -> Ahead:
        """Go back through ``events``."""
        for event in reversed(events):
            if not isinstance(event, Ran) or event.shown or not event.out._requires_grad:
                continue
            bits = self.found.get(id(event.out), 0)
            if not bits:
                continue
            for position, x in enumerate(event.operands):
                if isinstance(x, Tensor) and event.op.gradient_rule(position) is not None:
                    self.found[id(x)] = self.found.get(id(x), 0) | bits
            if event.out._grad_fn is not None and event.out._grad_fn.keeps:
                self.parts.add((bits, self.lineage.behind(event.out)))
        return self


def settles(
    lineage: Lineage, body: Sequence[Event], relation: Relation, results: Sequence[int]
) -> int | None:
    """The least number of rounds from which on histories are alike; None where there is none.

    ``body`` are the ops of a round and ``relation`` what it does; ``results`` are the bits of the results that lie
    ahead of what the last round hands on.
    """
    if _rounds_back(lineage, body, relation, [1 << n for n in range(len(results))]) is None:
        return None  # whatever lies ahead here, it might be otherwise after the next branch
    return _rounds_back(lineage, body, relation, results)


def _rounds_back(
    lineage: Lineage, body: Sequence[Event], relation: Relation, results: Sequence[int]
) -> int | None:
    known: set[tuple[int, int]] = set()
    now, settled = list(results), 1
    for number in range(1, len(now) + 3):
        found: dict[int, int] = {}
        for (_, y), bits in zip(relation.pairs, now, strict=True):
            found[id(y)] = found.get(id(y), 0) | bits
        ahead = Ahead(lineage, found).through(body)
        if not ahead.parts <= known:
            known |= ahead.parts
            settled = number
        before = [ahead.found.get(id(x), 0) for x, _ in relation.pairs]
        if before == now:
            return settled
        now = before
    return None
