"""The steps of a schedule while it is being made, and which of them must run before which others."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence

from ...ir.graph import Value
from .groups import Group, Step, root


class Steps:
    """Steps in order of creation; a merged one leaves a hole.

    ``after`` has the steps that each one depends on as bits, kept transitive. A step that took the place of others has
    their bits too, so nothing that waits for them changes. ``before`` maps values to others that must be complete, in
    steps of their own, when they are computed, although they are not read.
    """

    def __init__(self, before: Mapping[Value, Sequence[Value]]) -> None:
        self.steps: list[Step | None] = []
        self.after: list[int] = []
        self.bits: list[int] = []
        self.needs: list[
            set[int]
        ] = []  # what each step waits for directly; merged steps under their old numbers
        self.users: list[set[int]] = []  # the other way round
        self.apart: list[set[int]] = []  # steps that each one must not be merged with
        self.taken: list[int] = []  # the step that took the place of each
        self.where: dict[Value, int] = {}
        self.before = before

    def group(self, step: int) -> Group:
        """The group that ``step`` is."""
        found = self.steps[step]
        assert isinstance(found, Group)
        return found

    def now(self, step: int) -> int:
        """The step that stands in the place of ``step``."""
        while self.taken[step] != step:
            step = self.taken[step]
        return step

    def new_step(self, step: Step, value: Value) -> int:
        """Append a step that begins with ``value``; its number."""
        number = len(self.steps)
        self.steps.append(step)
        self.after.append(0)
        self.bits.append(1 << number)
        self.needs.append(set())
        self.users.append(set())
        self.apart.append(set())
        self.taken.append(number)
        self.enter(number, value)
        return number

    def enter(self, step: int, value: Value) -> None:
        """``value`` belongs to ``step``, which waits for what the value needs."""
        self.where[value] = step
        mask = 0
        for other in self.needs_of(value):
            if other != step:
                mask |= self.bits[other] | self.after[other]
                self.needs[step].add(other)
                self.users[other].add(step)
        if value in self.before:
            self.apart[step].update(self.where[x] for x in self.before[value])
        self.spread((step,), mask & ~self.bits[step])

    def needs_of(self, value: Value) -> set[int]:
        """The steps that must run before a value."""
        found = {self.where.get(root(x), -1) for x in value.value_operands}
        found.update(self.where[x] for x in self.before.get(value, ()))
        found.discard(-1)
        return found

    def spread(self, steps: Iterable[int], mask: int) -> None:
        """``steps``, and what waits for them, run after those in ``mask``."""
        waiting = list(steps)
        while waiting:
            step = self.now(waiting.pop())
            if mask & ~self.after[step]:
                self.after[step] |= mask
                waiting.extend(self.users[step])

    def may_join(self, step: int, value: Value) -> bool:
        """Nothing that ``value`` needs may itself wait for ``step``, or be kept apart from it."""
        if value in self.before and any(self.where[x] == step for x in self.before[value]):
            return False
        bits = self.bits[step]
        return not any(self.after[other] & bits for other in self.needs_of(value) if other != step)

    def may_meet(self, first: int, second: int) -> bool:
        """Can two steps become one: is nothing between them, and nothing keeps them apart?"""
        for a, b in ((first, second), (second, first)):
            if any(self.now(x) == b for x in self.apart[a]):
                return False
            bits = self.bits[b]
            if self.after[a] & bits and any(
                self.after[n] & bits for x in self.needs[a] if (n := self.now(x)) not in (a, b)
            ):
                return False
        return True

    def absorb(self, first: int, second: int) -> None:
        """``first`` takes the place of ``second`` in every dependency."""
        self.steps[second] = None
        self.taken[second] = first
        for values in (self.needs, self.users, self.apart):
            values[first] |= values[second]
            values[second] = set()
        self.bits[first] |= self.bits[second]
        mask = (self.after[first] | self.after[second]) & ~self.bits[first]
        self.after[first] = mask
        self.spread([u for u in self.users[first] if self.now(u) != first], mask)

    def in_order(self) -> list[int]:
        """The steps in an order that respects every dependency, as close to that of creation as can be."""
        waiting: dict[int, int] = {}
        users: dict[int, set[int]] = {}
        for step, found in enumerate(self.steps):
            if found is not None:
                needs = {self.now(x) for x in self.needs[step]} - {step}
                waiting[step] = len(needs)
                for other in needs:
                    users.setdefault(other, set()).add(step)
        ready = [step for step, count in waiting.items() if not count]
        order: list[int] = []
        while ready:
            step = heapq.heappop(ready)
            order.append(step)
            for user in users.get(step, ()):
                waiting[user] -= 1
                if not waiting[user]:
                    heapq.heappush(ready, user)
        assert len(order) == len(waiting), "fusion made a cycle"
        return order
