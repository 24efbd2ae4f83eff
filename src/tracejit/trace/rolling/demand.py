"""From the end to the beginning: what is wanted of each loop, and of everything before it.

Loops stand in the place of their members. Of a loop are wanted the last of what it carries, or the stacks of what its
rounds gave; what ``cat`` joins, and what later loops take per round, is wanted as stacks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ...ir.graph import Value
from ...ops import movement
from ...passes.fusion.groups import is_view
from .loop import Carried, Loop, RefusedError
from .record import Record
from .stacks import Gathered, PartStack, Stack, ViewStack, is_part, leading

#: A loop of few rounds (the layers of a network) is not worth copying much for it (their parameters): below so many
#: rounds, no more than so many bytes. Nor are more, unless what a round computes is so many times as much as what is
#: copied for it.
MANY_ROUNDS = 32
MOST_COPIED = 1 << 16
LEAST_COMPUTED = 4

#: What ``cat`` joins: stacks, and values that belong to none.
Pieces = list[Stack | Value]


def in_order(record: Record, loops: Sequence[Loop]) -> Iterator[Value | Loop]:
    """The statements with loops in the place of their members.

    Rare statements among the members come before the loop if they depend on none of them, and after it otherwise.
    """
    at = 0
    for loop in loops:
        first, last = (int(record.places[i]) for i in (loop.start, loop.stop - 1))
        yield from record.statements[at:first]
        low, high = np.searchsorted(record.rare, (first, last))
        among = [record.statements[i] for i in record.rare[low:high].tolist()]
        late = [record.latest[-record.codes[v] - 1] >= loop.start for v in among]
        yield from (v for v, after in zip(among, late, strict=True) if not after)
        yield loop
        yield from (v for v, after in zip(among, late, strict=True) if after)
        at = last + 1
    yield from record.statements[at:]


class Demand:
    """From the end to the beginning: what is used, of statements and of loops."""

    def __init__(self, record: Record) -> None:
        self.record = record
        self.live: set[Value] = set()
        self.joins: dict[Value, Pieces] = {}

    def run(self, order: Sequence[Value | Loop]) -> None:
        """Go through everything; raises :class:`RefusedError`."""
        for value in self.record.kept:
            self.use(value)
        for item in reversed(order):
            if isinstance(item, Loop):
                self.loop(item)
            elif item in self.live:
                self.statement(item)

    def use(self, value: Value) -> None:
        """One value is wanted."""
        place = self.record.place(value)
        if place is None:
            self.live.add(value)
            return
        loop, position, number = place
        how = single(loop, position, number)
        if how == "again":
            for operand in value.value_operands:
                self.use(operand)
        elif how == "last":
            loop.last[position] = None
        elif how == "held":
            loop.held[position] = None
        elif how == "filled":
            loop.filled[position] = None
        else:
            loop.collected[position] = None

    def stack(self, stack: Stack) -> None:
        """A stack is wanted."""
        while isinstance(stack, ViewStack):
            stack = stack.inner
        if isinstance(stack, PartStack):
            stack.loop.collected[stack.position] = None
        elif isinstance(stack, Gathered):
            for value in stack.values:
                self.use(value)
        else:
            self.use(stack.base)

    def statement(self, value: Value) -> None:
        """A statement outside loops is wanted."""
        if value.op is movement.cat and len(value.operands) >= self.record.least.rounds:
            pieces = split(self.record, value.value_operands)
            if len(pieces) < len(value.operands):
                self.joins[value] = pieces
                for piece in pieces:
                    if isinstance(piece, Value):
                        self.use(piece)
                    else:
                        self.stack(piece)
                return
        for operand in value.value_operands:
            self.use(operand)

    def loop(self, loop: Loop) -> None:
        """All that is wanted of a loop is known."""
        loop.demand()
        copied = sum(stack.nbytes for stack in loop.stacks if isinstance(stack, Gathered))
        few = loop.rounds < MANY_ROUNDS or loop.computed < LEAST_COMPUTED * copied
        if few and copied > MOST_COPIED:
            raise RefusedError(loop)
        for filled in loop.filled:
            self.use(target_of(loop, filled))
        for chain in loop.chains:
            self.use(chain.first[0])
        for value in loop.fixed:
            self.use(value)
        for stack in loop.stacks:
            self.stack(stack)


def single(loop: Loop, position: int, number: int) -> str:
    """How the value of one round is had: carried on to the last, or held until then, computed after the loop, or from
    its stack.
    """
    last = number == loop.rounds - 1
    if position in loop.scatters:
        if not last:
            raise RefusedError(loop)
        return "filled"
    if last and loop.carried_from(position) is not None:
        return "last"
    value = loop.member(position, number)
    if position in loop.items or (is_view(value) and not is_part(loop.record, value)):
        return "again"
    if not last:
        return "collected"
    return "again" if loop.is_separate(position) else "held"


def target_of(loop: Loop, position: int) -> Value:
    """The tensor that a position fills, as it is before the loop."""
    reads = loop.reads[position]
    assert reads is not None
    target = reads[0]
    assert isinstance(target, Carried)
    return target.first[0]


def split(record: Record, values: Sequence[Value]) -> Pieces:
    """Values as stacks where they are items of some, else one by one."""
    found: Pieces = []
    at, fewest = 0, record.least.rounds
    while at < len(values):
        stack = leading(record, values[at : at + fewest])
        if stack is None or stack.count < fewest:
            found.append(values[at])
            at += 1
            continue
        longest = leading(record, values[at:])
        stack = longest if longest is not None and longest.count > stack.count else stack
        found.append(stack)
        at += stack.count
    return found
