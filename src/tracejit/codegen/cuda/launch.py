"""What the device printer leaves behind: kernels in the kernel language, and how each is to be launched.

A *launch* is one function with its grid and what its parameters stand for. Where the fastest form needs something
that only the addresses at hand can tell, a step has several launches: the first whose `aligned` parameters fit is
taken.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ...ir.graph import Value
from ...passes.fusion.groups import Group
from ..kernel import Parameter, Text

#: Threads of a block, and warps among them: every kernel has the same.
BLOCK = 256
WARPS = BLOCK // 32


@dataclass(frozen=True)
class Status:
    """A parameter that is the address of the program's status word: a kernel that refuses its input sets it to 1."""


@dataclass(frozen=True)
class Aligned:
    """A parameter whose address must be a multiple of ``multiple`` bytes for a launch to be legal."""

    position: int
    multiple: int


@dataclass(frozen=True)
class Launch:
    """One printed function: ``grid`` blocks of `BLOCK` threads run it; none where ``grid`` is 0."""

    name: str
    source: str
    parameters: tuple[Parameter | Status, ...]
    grid: int
    aligned: tuple[Aligned, ...] = ()


@dataclass(frozen=True)
class DeviceCode:
    """A printed kernel: its steps in order, and for each the launches to choose from."""

    name: str
    steps: tuple[tuple[Launch, ...], ...]
    group: Group | None
    outputs: tuple[Value, ...]

    @property
    def launches(self) -> tuple[Launch, ...]:
        """Every function that was printed."""
        return tuple(launch for step in self.steps for launch in step)


@dataclass
class DeviceText(Text):
    """Lines and parameters of one device function; ``arrays`` are declared before everything else.

    ``together`` is how many blocks a multiprocessor shall run at a time, 0 where that does not matter.
    """

    arrays: list[str] = field(default_factory=list)
    together: int = 0

    def array(self, name: str, declaration: str) -> str:
        """Declare an array once; its name."""
        line = f"    {name} = {declaration}"
        if line not in self.arrays:
            self.arrays.append(line)
        return name

    def source(self, name: str, doc: str) -> str:
        """The function as text."""
        listing = ",\n    ".join(f'{n}: "{t}"' for n, t in self.types.items())
        head = [f"def {name}(", f"    {listing},", ') -> "i32":', f"    # {doc}"]
        shape = f"{BLOCK}, {self.together}" if self.together else f"{BLOCK}"
        return "\n".join(
            [*head, f"    threads({shape})", *self.arrays, *self.lines, "    return 0\n"]
        )
