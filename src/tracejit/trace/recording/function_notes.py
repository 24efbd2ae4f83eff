"""What is noted about custom functions while a run is recorded."""

from __future__ import annotations

import weakref
from dataclasses import dataclass, field

from ...ir.graph import Value
from ...tensor import Tensor


@dataclass(frozen=True, eq=False)
class Called:
    """Arguments of a function as they were before forward: their values, and the tensors they are or show."""

    values: tuple[Value | None, ...]
    origins: frozenset[int]
    unseen: int  # how often the run had changed what requires grad behind the back of the tape


@dataclass(eq=False)
class Trial:
    """A run of backward on stand-ins."""

    first: int  # the number of the first node that it can make
    before: set[int]  # tensors there were, and still are
    known: frozenset[int]  # those among them that it may read at any time
    saved: dict[int, Tensor]
    outer: Trial | None  # in the backward of which this one runs
    untold: bool = False  # is it not known how to differentiate again what it does?
    outside: dict[int, Tensor] = field(default_factory=dict)  # what it reads of those from outside

    @property
    def depth(self) -> int:
        """How many runs on stand-ins this is in, itself included."""
        return 1 if self.outer is None else self.outer.depth + 1

    def forget(self, number: int) -> None:
        """The tensor of this identity is gone, and one that backward makes may get it."""
        self.before.discard(number)
        if self.outer is not None:
            self.outer.forget(number)


@dataclass(frozen=True, eq=False)
class Read:
    """A tensor that backward reads though it was not saved for it: nobody may change it before."""

    tensor: Tensor
    version: int


@dataclass(frozen=True, eq=False)
class Alias:
    """A result that shares memory with what forward returned, and how often that had been written to.

    It is ``own`` where nobody else has the memory, else ``base`` is the tensor of the run that does (None: any other).
    """

    tensor: weakref.ref[Tensor]
    version: int
    own: bool
    base: int | None
