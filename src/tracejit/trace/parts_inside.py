"""Checkpointed parts of a recorded run, which eager execution computes again when a backward pass comes by.

It does so from what the tensors that the part reads hold by then, and compiled code from what they held when the part
ran. So none of them may change between the two: in the run that is refused, and after a compiled call the backward
pass checks the versions of those that others can reach.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ..ir.graph import Value
from ..tensor import Tensor
from ..tensor_core import Version
from .recording import Step

if TYPE_CHECKING:
    from .recording import OutputRecipe


class PartsInside:
    """The part of a recorder that knows what checkpointed parts read."""

    external: dict[int, tuple[Tensor, Value]]
    write_counts: dict[int, int]
    origin: Callable[[Tensor], tuple[Tensor, tuple[Step, ...]]]
    unsupported: Callable[[str], None]

    def __init__(self) -> None:
        self.parts: list[set[Version]] = []  # of each open part: what it made
        self.read_again: dict[Version, None] = {}  # what parts read that they did not make

    @contextmanager
    def part(self) -> Iterator[None]:
        """Inside, a part is computed that a backward pass computes again."""
        self.parts.append(set())
        try:
            yield
        finally:
            made = self.parts.pop()
            if self.parts:
                self.parts[-1] |= made

    def part_reads(self, tensor: Tensor) -> None:
        """An open part reads a tensor."""
        version = self.origin(tensor)[0]._writes
        if version not in self.parts[-1]:
            self.read_again[version] = None

    def part_made(self, tensor: Tensor) -> None:
        """An open part computed a tensor, or a view of one."""
        if tensor._base is None:
            self.parts[-1].add(tensor._writes)

    def stays_for_parts(self, tensor: Tensor) -> None:
        """A tensor is overwritten, which must not be one that a part reads."""
        if tensor._writes in self.read_again:
            self.unsupported("an in-place change of a tensor that a checkpointed part reads")

    def reads_of_parts(
        self, outputs: Sequence[Tensor], recipes: Sequence[OutputRecipe]
    ) -> dict[Value, int]:
        """What parts read and others can change once the call is over, and how often the run itself wrote to it."""
        found: dict[Value, int] = {}
        if not self.read_again:
            return found
        for tensor, value in self.external.values():
            if tensor._writes in self.read_again:
                found[value] = self.write_counts.get(id(tensor), 0)
        for tensor, recipe in zip(outputs, recipes, strict=True):
            if recipe.kind == "computed" and self.origin(tensor)[0]._writes in self.read_again:
                found[recipe.value] = 0
        return found
