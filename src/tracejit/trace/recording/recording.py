"""What a recorded run leaves: its statements in order, how to make its outputs, what it wrote and was told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ...ir.graph import Guard, Value
from ...ops.table import Op
from ...types import Scalar
from ..backward.freeing import History
from ..numbers.numbers import Number
from ..numbers.places import Place
from ..sizes.found_sizes import SizesFound
from ..state.state import StateGuard
from .flags_inside import NewLeaf, read_by
from .gradients_inside import Effects
from .spent import Spent

Step = tuple[Op, dict[str, Any]]


@dataclass(eq=False)
class OutputRecipe:
    """How a call makes one output tensor: from graph output ``index`` or from an input, then a chain of view steps."""

    kind: str  # "computed" or "input"
    value: Value
    steps: tuple[Step, ...]
    requires_grad: bool
    number: int = 0  # outputs of equal number are one tensor
    inference: bool = False
    spent: Spent | None = None  # a backward pass freed its history
    version: int = 0  # how often the storage was written to
    apart: int | None = None  # through .data: a count of its own, and what it has come to
    untracked: bool = False  # a view made under no_grad of what takes part in autograd
    stale: bool = False  # a view of what was written to since it was made
    own: bool = False  # no view, though shown through steps: it was given its shape in place
    leaf: NewLeaf | None = None  # it is one that the run made
    piece: str | None = None  # which of several views, made by one function, it is or shows

    @property
    def is_made(self) -> bool:
        """Is it made of the tensor that holds its values, and not that tensor?"""
        return bool(self.steps) or self.leaf is not None

    def sized(self, steps: tuple[Step, ...], spent: Sequence[Any]) -> OutputRecipe:
        """The same with other sizes in its steps, and in those of its history."""
        if not steps and not spent:
            return self
        history = self.spent.sized(spent) if self.spent is not None else None
        return replace(self, steps=steps, spent=history)


#: Stands for a number of writes where a tensor was given the new value's memory instead: ``tensor.data = new``. Less
#: the number of writes to it after that.
MOVED = -1


def writes_once_moved(count: int) -> int | None:
    """How often a tensor was written to in the memory it was given; None where it was given none.

    >>> [writes_once_moved(count) for count in (2, MOVED, MOVED - 3)]
    [None, 0, 3]
    """
    return MOVED - count if count < 0 else None


@dataclass(eq=False)
class Recording:
    """One recorded run: statements in order, outputs, and what it wrote to tensors from outside."""

    path: tuple[Any, ...]
    outputs: tuple[OutputRecipe, ...]
    writes: tuple[
        tuple[Value, Value, int], ...
    ]  # (input, its new value, how often written, or MOVED and less)
    random_calls: dict[Value, int]
    effects: Effects | None = None  # what else the run did to the world
    kept_writes: tuple[
        tuple[Value, int], ...
    ] = ()  # inputs the tape keeps as written, and how often
    numbers: tuple[tuple[int, Number | Scalar], ...] = ()  # among the results, by position
    stores: tuple[tuple[Place, Number | Scalar], ...] = ()  # numbers it left in Python state
    held: tuple[Place, ...] = ()  # where it left what its structure has after the result
    later: tuple[tuple[str, StateGuard], ...] = ()  # what custom backwards read, by their names
    tape: History = field(default_factory=History)  # bits are positions of outputs and of inputs
    sizes: SizesFound | None = None  # what sizes it was told on the way
    freed: bool = False  # did a backward pass run inside?
    walks: int = 0  # how often layers walked along a sequence, which become loops
    joined: tuple[Guard, ...] = ()  # what is looked at once, at the end: see `joined_guards`
    holds: tuple[Value, ...] = ()  # the value that tells whether all of these are as they were
    part_reads: int = 0  # how many of `kept_writes` are first because checkpointed parts read them

    def result_in(self, made: Any, guard: StateGuard) -> Any:
        """The result of a call in what was made of its structure; what goes with it is put in its places."""
        if not self.held:
            return made
        guard.stored(self.held, made[1:])
        return made[0]


def read_in(found: Recording) -> set[Value]:
    """The values that a recorded run reads, returns computed, or writes to tensors."""
    read = {x for statement in found.path for x in read_by(statement) if isinstance(x, Value)}
    read.update(recipe.value for recipe in found.outputs if recipe.kind == "computed")
    return read.union(new for _, new, _ in found.writes)
