"""What was made for a recorded tree: its programs, kernels and graphs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..ir.graph import Graph
from ..runtime.program import Program
from .tree import Segment


class Made:
    """The part of an entry that shows what it holds."""

    root: Segment

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
