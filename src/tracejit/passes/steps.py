"""The steps of a schedule while it is being made, and which of them must run before which others."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..ir.graph import Value
from .groups import Group, Step, root


class Steps:
    """Steps in order of creation; a merged one leaves a hole. Dependencies are bit masks, kept transitive."""

    def __init__(self) -> None:
        self.steps: list[Step | None] = []
        self.after: list[int] = []  # the steps each step depends on
        self.where: dict[Value, int] = {}

    def group(self, step: int) -> Group:
        """The group that ``step`` is."""
        found = self.steps[step]
        assert isinstance(found, Group)
        return found

    def new_step(self, step: Step, needs: int) -> int:
        """Append a step that must run after those in ``needs``; its number."""
        self.steps.append(step)
        self.after.append(needs)
        return len(self.steps) - 1

    def needs_of(self, operands: Iterable[Value]) -> int:
        """The steps that must run before a value with these operands."""
        mask = 0
        for operand in operands:
            step = self.where.get(root(operand))
            if step is not None:
                mask |= (1 << step) | self.after[step]
        return mask

    def add_needs(self, step: int, mask: int) -> None:
        """``step``, and what waits for it, must run after those in ``mask``."""
        mask &= ~(1 << step)
        self.after[step] |= mask
        for other in range(len(self.steps)):
            if self.after[other] >> step & 1:
                self.after[other] |= mask

    def may_join(self, step: int, operands: Sequence[Value]) -> bool:
        """No operand from outside may itself wait for the group."""
        for operand in operands:
            other = self.where.get(root(operand))
            if other is not None and other != step and self.after[other] >> step & 1:
                return False
        return True

    def leads(self, mask: int, step: int) -> bool:
        """Does some step in ``mask`` depend on ``step``?"""
        while mask:
            low = mask & -mask
            if self.after[low.bit_length() - 1] >> step & 1:
                return True
            mask ^= low
        return False

    def absorb(self, first: int, second: int) -> None:
        """``first`` takes the place of ``second`` in every dependency."""
        self.steps[second] = None
        mask = (self.after[second] | self.after[first]) & ~(1 << first) & ~(1 << second)
        self.after[second] = 0
        for other in range(len(self.steps)):
            if self.after[other] >> second & 1:
                self.after[other] = (self.after[other] & ~(1 << second)) | (1 << first)
        self.after[first] &= ~((1 << first) | (1 << second))
        self.add_needs(first, mask)

    def in_order(self) -> list[int]:
        """The steps in an order that respects every dependency."""
        order: list[int] = []
        placed = 0
        waiting = [s for s, step in enumerate(self.steps) if step is not None]
        while waiting:
            ready = [s for s in waiting if not self.after[s] & ~placed]
            assert ready, "fusion made a cycle"
            for s in ready:
                order.append(s)
                placed |= 1 << s
            waiting = [s for s in waiting if s not in set(ready)]
        return order
