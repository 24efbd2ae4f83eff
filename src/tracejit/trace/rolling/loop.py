"""A stretch of members as a loop: what each position of the body reads, and what is wanted of it.

Members are made by (position, round). What a position reads is one of four things, the same in all rounds: a value of
the same round, one from outside, one from an earlier round, or the round's item of a stack.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ...ir.fields import ByFields
from ...ir.graph import Value
from ...passes.fusion.groups import is_view

if TYPE_CHECKING:
    from .record import Record
    from .stacks import Stack
    from .views import Step


class RefusedError(Exception):
    """A loop turned out not to be one, once it was known what is wanted of it."""

    def __init__(self, loop: Loop) -> None:
        super().__init__()
        self.loop = loop


@dataclass(frozen=True)
class Inside:
    """The value at ``position`` in the same round."""

    position: int


@dataclass(frozen=True, eq=False)
class Fixed(ByFields):
    """The same value in every round."""

    value: Value


@dataclass(frozen=True)
class Carried:
    """The value at ``position`` as many rounds ago as ``first`` has values, which stand for it in the first rounds."""

    position: int
    first: tuple[Value, ...]

    @property
    def shorter(self) -> Carried | None:
        """The same value one round later, from which this one is carried on."""
        return Carried(self.position, self.first[1:]) if len(self.first) > 1 else None


@dataclass(frozen=True, eq=False)
class Item(ByFields):
    """The round's item of a stack."""

    stack: Stack


Read = Inside | Fixed | Carried | Item


@dataclass(frozen=True)
class Scatter:
    """A tensor filled round by round: where what is written in all rounds goes, and how it gets its shape."""

    starts: tuple[int, ...]
    counts: tuple[int, ...]
    steps: tuple[int, ...]
    views: tuple[Step, ...]


@dataclass(eq=False)
class Loop:
    """Members from ``start`` on as ``rounds`` of a body of ``period`` positions.

    ``reads`` holds what each position reads, None for positions that nothing kept depends on; ``items`` are positions
    that are items of a stack themselves, ``scatters`` those that fill a tensor. ``collected`` are the positions of
    which all rounds are wanted, ``last`` and ``held`` those of which the last one is, which another round would read or
    would not.
    """

    record: Record
    start: int
    period: int
    rounds: int
    reads: list[list[Read] | None]
    items: dict[int, Stack]
    scatters: dict[int, Scatter]
    collected: dict[int, None] = field(default_factory=dict)
    last: dict[int, None] = field(default_factory=dict)
    held: dict[int, None] = field(default_factory=dict)
    filled: dict[int, None] = field(default_factory=dict)
    needed: set[int] = field(default_factory=set)
    chains: dict[Carried, None] = field(default_factory=dict)
    fixed: dict[Value, None] = field(default_factory=dict)
    stacks: dict[Stack, None] = field(default_factory=dict)

    @property
    def stop(self) -> int:
        """The first member after it."""
        return self.start + self.rounds * self.period

    @property
    def carries(self) -> bool:
        """Does a round read what an earlier one computed?"""
        return any(isinstance(read, Carried) for reads in self.reads for read in reads or ())

    @property
    def computed(self) -> int:
        """The bytes of what all its rounds compute."""
        made = [self.template(p) for p in self.needed if p not in self.items]
        return self.rounds * sum(v.spec.nbytes for v in made if not is_view(v))

    def member(self, position: int, number: int) -> Value:
        """The recorded value at a position in a round."""
        return self.record.members[self.start + number * self.period + position]

    def template(self, position: int) -> Value:
        """The recorded value that stands for all rounds (the first may begin with a number)."""
        return self.member(position, 1)

    def is_item(self, position: int) -> bool:
        """Is it there without the loop, as an item of a stack or a view of one?"""
        while position not in self.items:
            reads = self.reads[position]
            if reads is None or not is_view(self.template(position)):
                return False
            if not isinstance(reads[0], Inside):
                return not isinstance(reads[0], Carried)
            position = reads[0].position
        return True

    def carried_from(self, position: int) -> Carried | None:
        """A chain that hands the value at a position on to the next round."""
        for reads in self.reads:
            for read in reads or ():
                if isinstance(read, Carried) and read.position == position:
                    return Carried(position, read.first[-1:])
        return None

    def is_separate(self, position: int) -> bool:
        """Is only the last round of it used, so that it can be computed after the loop?"""
        live = self.record.live[self.start + position : self.stop : self.period]
        return not live[:-1].any()

    @property
    def to_hold(self) -> list[int]:
        """The positions whose last round is carried for its own sake: those of which not all rounds are wanted."""
        return [position for position in self.held if position not in self.collected]

    def demand(self) -> None:
        """Find what the body must compute for what is wanted, and what it reads for that."""
        for position in self.last:
            chain = self.carried_from(position)
            assert chain is not None
            self.chains[chain] = None
        pending = [self._written(position) for position in self.filled]
        pending += [*self.collected, *self.last, *self.held]
        while pending:
            position = pending.pop()
            if position not in self.needed:
                self.needed.add(position)
                pending += [
                    read.position
                    for read in self._reads(position)
                    if isinstance(read, (Inside, Carried))
                ]
        for position in sorted(self.needed):
            if position in self.items:
                self.stacks[self.items[position]] = None
            for read in self._reads(position):
                self._note(read)

    def _reads(self, position: int) -> list[Read]:
        """What a position reads that the body must compute."""
        reads = self.reads[position]
        if reads is None or position in self.scatters:
            raise RefusedError(self)
        return reads

    def _written(self, position: int) -> int:
        """The position of what is written into a tensor that is filled."""
        reads = self.reads[position]
        assert reads is not None
        if not isinstance(reads[1], Inside):
            raise RefusedError(self)
        self.collected[reads[1].position] = None
        return reads[1].position

    def _note(self, read: Read) -> None:
        """The body reads this from outside."""
        if isinstance(read, Fixed):
            self.fixed[read.value] = None
        elif isinstance(read, Item):
            self.stacks[read.stack] = None
        elif isinstance(read, Carried):
            chain: Carried | None = read
            while chain is not None:
                self.chains[chain] = None
                chain = chain.shorter
