"""What a pass computes after a loop instead of in it, and what the loop collects for that."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ...ir.builder import Builder
from ...ir.graph import Graph, Value
from ...ir.loops import body_of, part_value
from ...ops.movement import cat
from ..fusion.groups import is_constant
from ..rewrite import is_view
from .batch import Batch, can_batch, outside_values, size_of
from .draft import Draft


class Afterwards:
    """Which values of a body are known outside, for all rounds: items, what depends on them, what is collected.

    A value may be collected for a pass if some item or collected result takes as much memory: no loop keeps much more
    than it is given and gives.
    """

    def __init__(self, loop: Value) -> None:
        self.loop = loop
        self.graph: Graph = body_of(loop)
        self.carried: int = loop.attributes["carried"]
        first_item = len(loop.value_operands) - int(loop.attributes["items"])
        self.stacks = outside_values(loop)
        collected = self.graph.outputs[self.carried :]
        for value in collected:
            self.stacks.setdefault(value, True)
        given = (*self.graph.inputs[first_item:], *collected)
        self.budget = max(map(size_of, given), default=0)
        self.collected = dict.fromkeys(collected)
        self._computable: dict[Value, bool] = {}

    def is_stack(self, value: Value) -> bool:
        """Is the value another one in every round, as far as is known?

        What is not known outside hangs on what rounds carry on, or cannot be computed there: it is collected, or made
        of what is.
        """
        return self.stacks.get(value, True)

    def computable(self, value: Value) -> bool:
        """Is the value known outside, or made of what is without computing?"""
        if value in self.stacks:
            return True
        found = self._computable.get(value)
        if found is None:
            found = value.op is cat or is_view(value) or is_constant(value)
            found = found and all(map(self.computable, value.value_operands))
            found = found and self.can_batch(value)
            self._computable[value] = found
        return found

    def can_batch(self, value: Value) -> bool:
        """Can the statement be computed for all rounds, once its operands are known?"""
        return can_batch(value, [isinstance(x, Value) and self.is_stack(x) for x in value.operands])

    def feasible(self, values: Iterable[Value]) -> bool:
        """Are the values known outside, or small enough to be collected? Joined ones are collected in pieces."""
        return all(
            self.computable(v)
            or (v.op is cat and self.feasible(v.value_operands))
            or size_of(v) <= self.budget
            for v in values
        )

    def collect(self, values: Iterable[Value]) -> None:
        """Make feasible values known."""
        for value in values:
            if self.computable(value):
                continue
            if value.op is cat and self.feasible(value.value_operands):
                self.collect(value.value_operands)
                continue
            self.collected[value] = None
            self.stacks[value] = True
            self._computable.clear()

    def write(
        self, builder: Builder, draft: Draft, statements: Iterable[Value], carried: Sequence[Value]
    ) -> Written:
        """The loop that carries ``carried`` on and collects what is asked for."""
        return Written(self, builder, draft.finish(statements, [*carried, *self.collected]))


class Written:
    """The new loop, and around it what is computed from its parts."""

    def __init__(self, plan: Afterwards, builder: Builder, loop: Value) -> None:
        self.plan = plan
        self.builder = builder
        self.loop = loop
        self.batch = Batch(builder, plan.loop)
        carried = loop.attributes["carried"]
        self.positions = {v: carried + i for i, v in enumerate(plan.collected)}

    def part(self, index: int) -> Value:
        """A part of the new loop."""
        return self.builder.insert(part_value(self.builder.insert(self.loop), index))

    def bring(self, value: Value) -> None:
        """Make a value known outside, computing what it takes.

        What is the same in every round is computed once even if the loop collects it: what is made of it was found to
        be computable from one, not from a stack.
        """
        known = self.batch.known
        needed = {value}
        todo = []
        for found in reversed([*self.plan.graph.inputs, *self.plan.graph.values]):
            if found not in needed or found in known:
                continue
            if found in self.positions and self.plan.stacks[found]:
                self.batch.give(found, self.part(self.positions[found]), True)
            else:
                todo.append(found)
                needed.update(found.value_operands)
        for found in reversed(todo):
            self.batch.write(found)

    def stack(self, value: Value) -> Value:
        """A value for all rounds, in their order."""
        self.bring(value)
        return self.batch.stack(value)

    def in_memory(self, value: Value) -> Value:
        """A value for all rounds, in the order that all stacks have in memory."""
        self.bring(value)
        return self.batch.in_memory(value)
