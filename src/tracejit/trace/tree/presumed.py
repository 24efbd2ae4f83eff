"""Replaying a call on a device past guards that were not read yet, as if they came out as they last did.

Reading a guard waits for the device. Where the segment behind it only computes, its program is queued before, and
those behind the guards after it: then all these guards are read after one wait. What was computed for nothing, where
one of them comes out otherwise, is thrown away.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...errors import OutOfMemoryError
from ..numbers.numbers import Number
from ..replay.fetching import together
from .segments import Runner
from .walk import Walk, run_segment

if TYPE_CHECKING:
    from ..entry import Entry

#: How often in a row a guard must have come out the same before that is presumed.
_SURE = 2


class Environment(list[Any]):
    """The values of a call, the numbers among them that were fetched, and the segments whose programs are queued.

    ``ahead`` holds, in the order of the path, each segment with the length of the environment before it.
    """

    def __init__(self, values: Sequence[Any]) -> None:
        super().__init__(values)
        self.fetched: dict[int, Any] = {}
        self.ahead: deque[tuple[Runner, int]] = deque()

    def forget(self) -> None:
        """Throw away what is queued."""
        del self[self.ahead[0][1] :]
        self.fetched = {i: x for i, x in self.fetched.items() if i < len(self)}
        self.ahead.clear()


class PresumingWalk(Walk):
    """Serves calls of one compiled tree on a device."""

    def __init__(self, entry: Entry, root: Runner) -> None:
        super().__init__(entry, root)
        # The way last taken from a segment, and how often in a row.
        self.taken: dict[Runner, tuple[Runner, int]] = {}

    def inputs(self, tensors: list[Any]) -> list[Any]:
        """The values of all graph inputs, and the numbers that are read before anything runs."""
        environment = Environment(super().inputs(tensors))
        self.fetch(environment, items(self.root))
        return environment

    def advance(self, runner: Runner, environment: list[Any]) -> None:
        """Run a program unless it was queued, then those behind it as far as that can be presumed."""
        assert isinstance(environment, Environment)
        if environment.ahead:
            environment.ahead.popleft()
            return
        run_segment(runner, environment)
        self.presume(runner, environment)

    def presume(self, runner: Runner, environment: Environment) -> None:
        """Queue what probably comes next, and fetch all numbers that are read by then."""
        unknown: set[int] = set()
        asked = [runner.guard_position]
        while True:
            children = list(runner.children.values())
            asked += [position for child in children for position in items(child)]
            child = self.likely(runner)
            if child is None or not self.can_run(child, unknown):
                break
            start = len(environment)
            try:
                run_segment(child, environment)
            except OutOfMemoryError:
                break  # there may be enough when it is its turn
            environment.ahead.append((child, start))
            asked.append(child.guard_position)
            runner = child
        self.fetch(environment, asked)

    def likely(self, runner: Runner) -> Runner | None:
        """The segment to which the guard of this one presumably leads."""
        if len(runner.children) == 1:
            return next(iter(runner.children.values()))
        below, times = self.taken.get(runner, (None, 0))
        return below if times >= _SURE else None

    def can_run(self, runner: Runner, unknown: set[int]) -> bool:
        """Can the program of a segment be queued now? ``unknown`` positions receive the numbers it is ahead of."""
        for number in runner.segment.numbers:
            unknown.update(i for i, _ in self.cells.get(number, ()))
        return can_be_queued(runner) and unknown.isdisjoint(runner.reads)

    def turn(self, runner: Runner, below: Runner, environment: list[Any]) -> None:
        """Keep what is queued only where it is for this way."""
        assert isinstance(environment, Environment)
        before, times = self.taken.get(runner, (None, 0))
        self.taken[runner] = below, times + 1 if before is below else 1
        if environment.ahead and environment.ahead[0][0] is not below:
            environment.forget()

    def array_at(self, position: int, environment: list[Any]) -> Any:
        """The array at a position, fetched if it was."""
        assert isinstance(environment, Environment)
        found = environment.fetched.get(position)
        return environment[position].array if found is None else found

    def fetch(self, environment: Environment, positions: Sequence[int]) -> None:
        """Fetch numbers of the device that are there, all of them after one wait."""
        known = environment.fetched
        wanted = [i for i in dict.fromkeys(positions) if 0 <= i < len(environment)]
        wanted = [i for i in wanted if i not in known]
        known.update(zip(wanted, together(*(environment[i].array for i in wanted)), strict=True))


def items(runner: Runner) -> list[int]:
    """The positions of the tensors that a segment reads numbers from before it runs."""
    read: list[Number] = runner.segment.numbers
    return [runner.positions[number.at] for number in read if number.name == "item"]


def can_be_queued(runner: Runner) -> bool:
    """May a program run for nothing? Not one that changes or refuses anything, or asks Python on the way."""
    if runner.segment.leaf is not None:
        return False
    plan = runner.program.plan
    return not plan.refuses and not plan.hosts


def presumed(root: Runner) -> int:
    """How many programs can be queued before the guard in front of them was read."""
    pending, found = list(root.children.values()), 0
    for runner in pending:
        found += not runner.idle and can_be_queued(runner)
        pending += runner.children.values()
    return found
