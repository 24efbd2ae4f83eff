"""From a run of equal keys to loops: do the rounds also read alike?

What all rounds read is a matrix of codes, a row per round. A column is fixed, or moves with the rounds, or is a stack;
how far down each column keeps to its pattern tells how many rounds are one loop. What follows is matched again, so that
a stretch of equal keys may become several loops (layers that share their code but not their weights).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from typing import Any

import numpy as np

from ...ir.graph import Value
from ...ops import movement
from ...passes.fusion.groups import is_view
from .loop import Carried, Fixed, Inside, Item, Loop, Read, Scatter
from .record import Record
from .runs import Run
from .stacks import Gathered, Stack, even, gathered, leading, moving
from .views import moved, step

#: Rounds left out one by one before a run is given up.
MAX_PEELED = 3
#: How many rounds back a value may be read.
MAX_DEPTH = 3
#: A stack that must be copied together is worth it if the body computes more than so many values, and rounds hand
#: something on: others (an optimizer's parameters) are launches of one kernel, each on what is there.
LEAST_PER_COPY = 3
#: A body repeated with other operands in turn is tried as one of up to so many times the length.
MAX_MULTIPLE = 16

FIXED, INSIDE, CARRIED = 0, 1, 2
ITEMS = CARRIED + MAX_DEPTH


class ShorterError(Exception):
    """Only so many rounds are alike."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.count = count


def match(
    record: Record,
    run: Run,
    plannable: Callable[[Value], bool],
    refused: Set[tuple[int, int]] = frozenset(),
) -> list[Loop]:
    """The loops that the rounds of a run are, but for ``refused`` ones; they are entered in ``record``."""
    found: list[Loop] = []
    number = peeled = 0
    rounds = Rounds(record, run)
    if not rounds.holds(plannable):
        return found
    while run.rounds - number >= record.least.rounds and peeled <= MAX_PEELED:
        loop = rounds.loop(number)
        if loop is None or (loop.start, loop.period) in refused:
            number, peeled = number + 1, peeled + 1
            continue
        number, peeled = number + loop.rounds, 0
        record.owner[loop.start : loop.stop] = [loop] * (loop.stop - loop.start)
        found.append(loop)
    return found


def multiple(record: Record, run: Run) -> int | None:
    """How many rounds make one in which columns that alternate come to rest, or None."""
    reads = _matrix(record, run)
    for times in range(2, MAX_MULTIPLE + 1):
        if run.rounds < times * record.least.rounds or run.rounds <= 2 * times:
            break
        bend = reads[2 * times :] - 2 * reads[times:-times] + reads[: -2 * times]
        if ((bend == 0).mean(0) > 0.75).all():
            return times
    return None


def _matrix(record: Record, run: Run) -> Any:
    reads = record.reads_of(run.start, run.start + run.rounds * run.period)
    return reads.reshape(run.rounds, -1)


class Rounds:
    """The rounds of a run and what they read."""

    def __init__(self, record: Record, run: Run) -> None:
        self.record = record
        self.start, self.period, self.count = run.start, run.period, run.rounds
        self.reads = _matrix(record, run)
        self.available = record.available(self.reads)
        stop = run.start + run.rounds * run.period
        #: Does anything kept depend on the position, in any round?
        self.alive = record.live[run.start : stop].reshape(run.rounds, -1).any(0)
        offsets = record.offsets[run.start : run.start + run.period + 1]
        self.columns = offsets - offsets[0]
        self.position = np.repeat(np.arange(run.period), np.diff(offsets))
        #: Do the rounds of the loop that is built hand something on? Nothing is copied together for others.
        self.carries = False
        self.moving = {
            p: values
            for p in range(run.period)
            if self.alive[p] and (values := self._places(p)) is not None
        }

    def _places(self, position: int) -> list[tuple[int, ...]] | None:
        """Where slices at a position start, if that changes."""
        first = self.member(position, 0)
        if first.op is not movement.slice and first.op is not movement.slice_scatter:
            return None
        found = [self.member(position, t).attributes["starts"] for t in range(self.count)]
        return found if found.count(found[0]) < self.count else None

    def member(self, position: int, number: int) -> Value:
        """The recorded value at a position in a round."""
        return self.record.members[self.start + number * self.period + position]

    def holds(self, plannable: Callable[[Value], bool]) -> bool:
        """May a loop hold the body? What fills a tensor is done after the loop."""
        for position in np.flatnonzero(self.alive).tolist():
            value = self.member(position, 1)
            fills = value.op is movement.slice_scatter and position in self.moving
            if not fills and not plannable(value):
                return False
        return True

    # --- how far columns keep to a pattern -----------------------------------------------------------------------

    def loop(self, first: int) -> Loop | None:
        """The longest loop that begins with round ``first``."""
        lengths = self.lengths(first)
        wanted = self.alive[self.position]
        if not wanted.all():
            lengths[:, ~wanted] = self.count
        best = lengths.max(0)
        count = int(best.min()) if len(best) else self.count - first
        for position, places in self.moving.items():
            count = min(count, self.reach(position, places, first, lengths))
        while count >= self.record.least.rounds:
            try:
                fits = lengths >= count
                fits[CARRIED + count - 1 : ITEMS] = False  # what is read there is all from outside
                return self.build(first, count, fits.argmax(0))
            except ShorterError as error:
                count = error.count
        return None

    def lengths(self, first: int) -> Any:
        """For every pattern and column how many rounds from ``first`` on keep to it."""
        reads = self.reads[first:]
        start = self.start + first * self.period
        relative = reads - (start + self.period * np.arange(len(reads)))[:, None]
        early = self.available[first:] < start
        own = reads >= start
        found = np.empty((ITEMS + 1, reads.shape[1]), np.int64)
        found[FIXED] = _prefix((reads == reads[0]) & early)
        found[INSIDE] = _prefix((relative == relative[0]) & (relative >= 0))
        found[CARRIED:ITEMS] = 0
        for depth in range(1, min(MAX_DEPTH, len(reads) - 1) + 1):
            back = -depth * self.period
            same = (relative == relative[depth]) & (relative >= back) & own
            same &= relative < back + self.period
            same[:depth] = early[:depth]
            found[CARRIED + depth - 1] = _prefix(same)
        found[ITEMS] = _prefix(early)
        return found

    def reach(self, position: int, places: list[tuple[int, ...]], first: int, lengths: Any) -> int:
        """How many rounds a position slices one tensor, or fills one at evenly spaced places; or at the same place."""
        places = places[first:]
        if places[1] == places[0]:
            return next((i for i, p in enumerate(places) if p != places[0]), len(places))
        column = self.columns[position]
        if self.member(position, 0).op is movement.slice:
            return int(lengths[FIXED, column])
        return 0 if moving(places) is None else int(min(even(places), lengths[CARRIED, column]))

    # --- the loop --------------------------------------------------------------------------------------------------

    def build(self, first: int, count: int, kinds: Any) -> Loop:
        """The loop of ``count`` rounds; raises :class:`ShorterError`."""
        start = self.start + first * self.period
        loop = Loop(self.record, start, self.period, count, [], {}, {})
        stacks: dict[bytes, Stack] = {}
        read = kinds[self.alive[self.position]]
        self.carries = bool(((read >= CARRIED) & (read < ITEMS)).any())
        for position in range(self.period):
            if not self.alive[position]:
                loop.reads.append(None)
                continue
            places = self.moving.get(position, [])[first : first + count]
            moves = bool(places) and places[0] != places[1]
            template = loop.template(position)
            if moves and template.op is movement.slice:
                found = self.stack([loop.member(position, t) for t in range(count)])
                loop.items[position] = found
                loop.reads.append([])
                continue
            columns = range(self.columns[position], self.columns[position + 1])
            loop.reads.append([self.read(loop, int(kinds[c]), c, stacks) for c in columns])
            if moves:
                self.fill(loop, position, places)
            elif start + self.period + position in self.record.twins:
                raise ShorterError(0)
        used = (*stacks.values(), *loop.items.values())
        copied = sum(isinstance(s, Gathered) for s in used)
        if self.computed(loop) <= LEAST_PER_COPY * copied or (copied and not loop.carries):
            raise ShorterError(0)
        return loop

    def stack(self, values: Sequence[Value]) -> Stack:
        """The stack of one value per round."""
        found = leading(self.record, values)
        if found is not None and found.count == len(values):
            return found
        if found is not None and found.count >= self.record.least.rounds:
            raise ShorterError(found.count)
        copied = gathered(self.record, values) if self.carries else None
        if copied is None:
            raise ShorterError(0)
        return copied

    def read(self, loop: Loop, kind: int, column: int, stacks: dict[bytes, Stack]) -> Read:
        """What the rounds of a loop read in a column."""
        first = (loop.start - self.start) // self.period
        codes = self.reads[first : first + loop.rounds, column]
        if kind == FIXED:
            return Fixed(self.record.value(int(codes[0])))
        if kind == INSIDE:
            return Inside(int(codes[0]) - loop.start)
        if kind < ITEMS:
            return self.carried(codes, kind - CARRIED + 1)
        key = codes.tobytes()
        if key not in stacks:
            stacks[key] = self.stack([self.record.value(c) for c in codes.tolist()])
        return Item(stacks[key])

    def carried(self, codes: Any, depth: int) -> Read:
        """What is carried must have one type from the first value on."""
        first = [self.record.value(c) for c in codes[:depth].tolist()]
        later = self.record.value(int(codes[depth]))
        if any(v.spec != later.spec for v in first):
            raise ShorterError(0)
        return Carried((int(codes[depth]) - self.start) % self.period, tuple(first))

    def fill(self, loop: Loop, position: int, places: list[tuple[int, ...]]) -> None:
        """Note a position that fills a tensor: it goes on from itself, at places that lie side by side."""
        reads = loop.reads[position]
        found = filling(loop.template(position), places, loop.rounds)
        assert reads is not None
        target = reads[0]
        if (
            found is None
            or not isinstance(target, Carried)
            or target.position != position
            or target.shorter is not None
        ):
            raise ShorterError(0)
        loop.scatters[position] = found

    def computed(self, loop: Loop) -> int:
        """How many statements of the body do not merely show what is there."""
        return sum(
            reads is not None and p not in loop.items and not is_view(loop.template(p))
            for p, reads in enumerate(loop.reads)
        )


def _prefix(same: Any) -> Any:
    """How many rows are true before the first that is not, for each column."""
    wrong = ~same
    return np.where(wrong.any(0), wrong.argmax(0), len(same))


def filling(value: Value, places: Sequence[tuple[int, ...]], rounds: int) -> Scatter | None:
    """What ``rounds`` statements ``slice_scatter`` at ``places`` write, as one; None unless it is one regular slice."""
    change = moving(places)
    counts, steps = list(value.attributes["counts"]), list(value.attributes["steps"])
    if change is None:
        return None
    dim, delta = change
    size = counts[dim]
    if size == 1:
        steps[dim] = delta
    elif delta != size or steps[dim] != 1:
        return None
    counts[dim] = rounds * size
    views = (
        *moved(len(counts) + 1, 0, dim),
        step(movement.reshape, shape=tuple(counts)),
    )
    return Scatter(places[0], tuple(counts), tuple(steps), views)
