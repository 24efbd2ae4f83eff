"""The gradient of a loop: another loop, which runs the rounds backward.

It carries the gradients of what was carried and, for each fixed value, the sum of what the rounds contributed; stacks
of kept values and of gradients of collected results are its items, last round first. The gradients of items are what
it collects. What a round carried on is what the next one started from, so where the latter is kept, the former is
handed from round to round as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...ir.builder import Builder
from ...ir.graph import Value
from ...ir.loops import part_value
from ...ops.elementwise import add
from .draft import Draft
from .loops import RoundGradient
from .stacks import flipped, zeros


def run_backward(
    builder: Builder, loop: Value, rounds: RoundGradient, gradients: Mapping[int, Value]
) -> list[Value | None]:
    """The gradient of every operand of ``loop``, given those of its parts; None where there is none.

    ``builder`` is being written into.
    """
    return _Backward(builder, loop, rounds).run(gradients)


class _Backward:
    """Writes the backward loop."""

    def __init__(self, builder: Builder, loop: Value, rounds: RoundGradient) -> None:
        self.builder = builder
        self.loop = loop
        self.rounds = rounds
        self.carried: int = loop.attributes["carried"]
        self.first_item = len(loop.value_operands) - int(loop.attributes["items"])
        self.inputs = _first(rounds.forward.inputs)
        self.carried_on = _first(rounds.forward.outputs[: self.carried])
        self.collected = _first(rounds.forward.outputs, self.carried)
        self.inner = Builder(rounds.backward.name)
        self.inner.adopt(rounds.backward)
        self.inner.line = loop.line
        count = len(rounds.saved)
        given = rounds.backward.inputs
        self.saved = dict(zip(rounds.saved, given[:count], strict=True))
        self.seeds = dict(zip(rounds.seeds, given[count:], strict=True))
        self.draft = Draft(rounds.backward.name, loop.attributes["count"], loop.line)
        self.draft.taken.update(v.name for v in given)

    def run(self, gradients: Mapping[int, Value]) -> list[Value | None]:
        """The gradients of the operands."""
        wrt = self.rounds.wrt
        state = sorted({i for i in (*wrt, *self.seeds) if i < self.carried})
        for i in state:
            self.carry_gradient(i, gradients.get(i))
        fixed = [i for i in wrt if self.carried <= i < self.first_item]
        sums = {i: self.draft.carry(f"sum{i}", self.zeros(i)) for i in fixed}
        following = self.read_saved()
        for i, inside in self.seeds.items():
            if i >= self.carried:
                self.draft.stacks[inside] = flipped(self.builder, gradients[i])
        items = [i for i in wrt if i >= self.first_item]
        loop = self.write(state, sums, following, items)
        return self.results(loop, [*state, *fixed], len(following), items)

    def zeros(self, position: int) -> Value:
        """Zeros like an operand."""
        return zeros(self.builder, self.loop.value_operands[position].spec)

    def carry_gradient(self, position: int, gradient: Value | None) -> None:
        """Carry the gradient of a carried value; one that no part has starts at zero."""
        start = self.zeros(position) if gradient is None else gradient
        if position in self.seeds:
            self.draft.starts[self.seeds[position]] = start
        else:  # only the first round, the last to run, sees what was carried
            self.draft.carry(f"first{position}", start)

    def read_saved(self) -> list[Value]:
        """Let the body read what is kept; returns what follows on the kept values that are carried."""
        following = []
        for value, inside in self.saved.items():
            place = self.place(value)
            if place is None:
                index = self.carried_on[value]
                self.draft.starts[inside] = self.part(index)
                following.append(self.before(index))
            elif place[0] == "fixed":
                self.draft.fixed[inside] = place[1]
            else:
                self.draft.stacks[inside] = flipped(self.builder, place[1])
        return following

    def place(self, value: Value) -> tuple[str, Value] | None:
        """Where the body finds a kept value; None when it is handed on from the round after."""
        i = self.inputs.get(value, -1)
        if i >= self.first_item:
            return "item", self.loop.value_operands[i]
        if i >= self.carried or (i >= 0 and self.rounds.forward.outputs[i] is value):
            return "fixed", self.loop.value_operands[i]
        index = self.collected.get(value)
        return None if index is None else ("item", self.part(index))

    def before(self, index: int) -> Value:
        """Inside the body, what the round started from."""
        value = self.rounds.forward.inputs[index]
        if value in self.saved:
            return self.saved[value]
        place = self.place(value)
        assert place is not None
        return self.draft.item(f"before{index}", flipped(self.builder, place[1]))

    def part(self, index: int) -> Value:
        """A part of the forward loop."""
        return self.builder.insert(part_value(self.loop, index))

    def write(
        self,
        state: Sequence[int],
        sums: Mapping[int, Value],
        following: Sequence[Value],
        items: Sequence[int],
    ) -> Value:
        """The loop, which carries gradients, sums and kept values, and collects gradients of items."""
        inner = self.inner
        found = dict(zip(self.rounds.wrt, self.rounds.backward.outputs, strict=True))
        kinds = {i: self.loop.value_operands[i].spec for i in state}
        outputs = [found[i] if i in found else zeros(inner, kinds[i]) for i in state]
        outputs += [inner.emit(add, (total, found[i]), {}) for i, total in sums.items()]
        outputs += [*following, *(found[i] for i in items)]
        statements = [v for v in inner.body if isinstance(v, Value)]
        return self.builder.insert(self.draft.finish(statements, outputs))

    def results(
        self, loop: Value, summed: Sequence[int], skipped: int, items: Sequence[int]
    ) -> list[Value | None]:
        """The gradient of each operand of the forward loop."""
        found: list[Value | None] = [None] * len(self.loop.value_operands)

        def part(index: int) -> Value:
            return self.builder.insert(part_value(loop, index))

        for index, position in enumerate(summed):
            if position in self.rounds.wrt:  # else no round reads what it started from
                found[position] = part(index)
        for index, position in enumerate(items, len(summed) + skipped):
            found[position] = flipped(self.builder, part(index))
        return found


def _first(values: Sequence[Value], start: int = 0) -> dict[Value, int]:
    """Where each value stands first."""
    return {v: i for i, v in reversed(list(enumerate(values))) if i >= start}
