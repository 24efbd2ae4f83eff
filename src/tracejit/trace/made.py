"""What was made for a recorded tree: its programs, kernels and graphs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ..ir.graph import Graph
from ..runtime.program import Program
from ..tensor import Tensor
from .inputs import Signature
from .state import StateGuard
from .tree import Segment


class Made:
    """The part of an entry that shows what it holds."""

    root: Segment
    guard: StateGuard | None
    signature: Signature
    accepts: Callable[[list[Tensor]], bool]

    def programs(self) -> Iterator[Program]:
        """Every program of the tree, forward then backward."""
        for segment in self.root.segments():
            if segment.runner is not None:
                yield segment.runner.program
        for leaf in self.root.leaves():
            if leaf.backward:
                yield from (
                    p.program for p in leaf.backward.programs.values() if hasattr(p, "program")
                )

    def kernels(self) -> Iterator[Any]:
        """Every kernel of the entry."""
        for program in self.programs():
            yield from program.plan.kernels

    def graphs(self) -> Iterator[Graph]:
        """Forward and backward graph of every path."""
        for leaf in self.root.leaves():
            yield leaf.graph
            if leaf.backward:
                yield leaf.backward.graph

    def difference(self, tensors: list[Tensor]) -> str:
        """Why this entry does not serve a call."""
        changed = self.guard.difference() if self.guard is not None else None
        if changed is not None:
            return changed
        if not self.accepts(tensors):
            return "an argument was a tensor that the function also reads from outside"
        return "another thread changed what it depends on"
