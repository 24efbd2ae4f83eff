"""Checkpointed parts of a recorded run, which eager execution computes again when a backward pass comes by.

What the backward of a custom function reads without having saved it is like what such a part reads.

It does so from what the tensors and variables that the part reads hold by then, and compiled code from what they held
when the part ran. Backward passes of the run itself are recorded as they happen, second computation included where one
of those has changed. Later passes cannot be: then outputs must not lead to the part, and what could still change after
the call is checked by its version.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from types import CellType, FunctionType
from typing import TYPE_CHECKING, Any

from ...ir.graph import Value
from ...tensor import Tensor
from ...tensor_core import Version
from .recording import Step

if TYPE_CHECKING:
    from .recording import OutputRecipe

CHANGED = "an in-place change of a tensor that {} reads"
REBOUND = "a variable that a checkpointed part reads holds something else by the time of the backward pass"
STATE = "a checkpointed part changes Python state, and does so again in backward"


class Reader:
    """What reads tensors in a backward pass as they are by then, and whether one was overwritten since it ran."""

    name = "the backward of a custom function"
    written = False


class Part(Reader):
    """One call that a backward pass computes again: what it made, and whether what it read has changed since."""

    name = "a checkpointed part"

    def __init__(self, function: Callable[..., Any]) -> None:
        self.made: set[Version] = set()
        self.variables = _variables_of(function)
        self.held = [_content(cell) for cell in self.variables]

    @property
    def rebound(self) -> bool:
        """Does a variable of the functions around it hold something else by now?"""
        return not _same(self.held, [_content(cell) for cell in self.variables])

    @property
    def changed(self) -> bool:
        """Would it compute something else from what it reads by now?"""
        return self.written or self.rebound


class PartsInside:
    """The part of a recorder that knows what checkpointed parts read."""

    external: dict[int, tuple[Tensor, Value]]
    write_counts: dict[int, int]
    origin: Callable[[Tensor], tuple[Tensor, tuple[Step, ...]]]
    opaque: Callable[..., None]
    unsupported: Callable[[str], None]

    def __init__(self) -> None:
        #: What the code can change besides tensors, as it is now.
        self.python_state: Callable[[], Sequence[Any]] = tuple
        self.parts: list[Part] = []  # those that run, outer ones first
        self.parts_run: list[Part] = []
        self.functions = Reader()
        self.readers: dict[Version, set[Reader]] = {}  # of what the reader did not make

    @contextmanager
    def part(self, function: Callable[..., Any]) -> Iterator[Part]:
        """Inside, a part is computed that a backward pass computes again by calling ``function``."""
        self.parts.append(Part(function))
        self.parts_run.append(self.parts[-1])
        before = self.python_state()
        try:
            yield self.parts[-1]
        finally:
            self.parts.pop()
        if not _same(before, self.python_state()):
            self.unsupported(STATE)

    def part_reads(self, tensor: Tensor) -> None:
        """The parts that run read a tensor."""
        version = self.origin(tensor)[0]._writes
        for part in self.parts:
            if version not in part.made:
                self.readers.setdefault(version, set()).add(part)

    def read_later(self, tensor: Tensor) -> None:
        """The backward of a custom function reads a tensor that it did not save."""
        self.readers.setdefault(self.origin(tensor)[0]._writes, set()).add(self.functions)

    def part_made(self, tensor: Tensor) -> None:
        """The parts that run computed a tensor, or a view of one."""
        if tensor._base is None:
            for part in self.parts:
                part.made.add(tensor._writes)

    def changes_for_parts(self, tensor: Tensor) -> None:
        """A tensor is overwritten, perhaps one that a part read."""
        readers = self.readers.get(tensor._writes)
        for reader in readers or ():
            self.opaque(CHANGED.format(reader.name))
            reader.written = True

    def check_parts(self) -> None:
        """The run is over: what do the variables that parts read hold for later passes?"""
        if any(part.rebound for part in self.parts_run):
            self.opaque(REBOUND)

    def reads_of_parts(
        self, outputs: Sequence[Tensor], recipes: Sequence[OutputRecipe]
    ) -> dict[Value, int]:
        """What parts, and custom functions in backward, read and others can change once the call is over.

        With each comes how often the run itself wrote to it.
        """
        found: dict[Value, int] = {}
        if not self.readers:
            return found
        for tensor, value in self.external.values():
            if tensor._writes in self.readers:
                found[value] = max(self.write_counts.get(id(tensor), 0), 0)
        for tensor, recipe in zip(outputs, recipes, strict=True):
            if recipe.kind == "computed" and self.origin(tensor)[0]._writes in self.readers:
                found[recipe.value] = 0
        return found


def _variables_of(function: Any) -> list[CellType]:
    """The variables of functions around it that a function reads, or a function that it has of them."""
    found: list[CellType] = []
    seen: set[FunctionType] = set()
    stack = [function]
    while stack:
        value = stack.pop()
        if isinstance(value, partial):
            stack += [value.func, *value.args]
            continue
        value = getattr(value, "__func__", value)
        if isinstance(value, FunctionType) and value not in seen:
            seen.add(value)
            found += value.__closure__ or ()
            stack += map(_content, value.__closure__ or ())
    return found


def _content(cell: CellType) -> Any:
    """What a variable holds, None while it has no value."""
    try:
        return cell.cell_contents
    except ValueError:
        return None


def _same(before: Sequence[Any], now: Sequence[Any]) -> bool:
    """Is everything the very same, or an equal count or text?"""
    plain = (int, str)
    return all(
        x is y or (type(x) is type(y) and type(x) in plain and x == y)
        for x, y in zip(before, now, strict=True)
    )
