"""What a backward pass reads that has some gradients and wants some: asked where a tensor was changed."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from ...ir.graph import Graph
from ...passes.gradient.absent import without, without_forward

__all__ = ["PassReads"]

Bits = Collection[int]


@dataclass(eq=False)
class PassReads:
    """The reads of all passes of one backward, each found once.

    ``gradient`` computes the gradients from the inputs, its first ``forward`` statements being those of the recorded
    run, and ``backward`` from what was saved. Both have ``seeds`` gradients as their last inputs.

    >>> from tracejit.ir import parse
    >>> text = ("graph b(x: f32[2], g0: f32[2], g1: f32[2]) {{ %0: f32[2] = {}(x)  %1: f32[2] = mul(g0, %0)"
    ...     "  return %1, g1 }}")
    >>> reads = PassReads(parse(text.format("exp")), parse(text.format("neg")), 1, 2)
    >>> reads.kept(set(), set()), reads.again(set(), set(), False), reads.again({0}, set(), False)
    (frozenset(), frozenset({0}), frozenset())
    """

    gradient: Graph
    backward: Graph
    forward: int
    seeds: int
    known: dict[tuple[str, frozenset[int], frozenset[int]], frozenset[int]] = field(
        default_factory=dict
    )

    def kept(self, absent: Bits, unwanted: Bits) -> frozenset[int]:
        """The positions of the inputs that eager execution keeps for the wanted gradients where some are absent."""

        def find() -> frozenset[int]:
            graph, more = without_forward(self.gradient, self.forward)
            first = len(graph.inputs) - self.seeds
            found = without(graph, first, absent, unwanted)[2]
            return frozenset(i - more for i in found if more <= i < first)

        return self._once("kept", absent, unwanted, find)

    def again(self, absent: Bits, unwanted: Bits, op_by_op: bool) -> frozenset[int]:
        """The positions of what this pass reads: of inputs where it runs ``op_by_op``, else of what was saved."""
        graph = self.gradient if op_by_op else self.backward

        def find() -> frozenset[int]:
            first = len(graph.inputs) - self.seeds
            return frozenset(i for i in without(graph, first, absent, unwanted)[2] if i < first)

        return self._once("inputs" if op_by_op else "saved", absent, unwanted, find)

    def _once(
        self, what: str, absent: Bits, unwanted: Bits, find: Callable[[], frozenset[int]]
    ) -> frozenset[int]:
        key = what, frozenset(absent), frozenset(unwanted)
        if key not in self.known:
            self.known[key] = find()
        return self.known[key]
