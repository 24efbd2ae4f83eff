"""Rolling: a Python loop of T steps is recorded as T copies of its statements; here they become one loop.

So plans and compile times do not grow with T. Only what repeats exactly is rolled: the same ops at the same lines of
the user's code on operands that are the same in every round, come from the round before, or are items of one tensor.
What a round does otherwise than the others stays a straight list, and so does what no kernel could compute.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ...codegen.scalar import printable
from ...ir.graph import Value
from ...ir.loops import body_of, is_loop
from ...ir.rules import RULE_OPS
from ...ops.contraction import matmul
from ...ops.table import Elementwise, Reduction
from ...passes.fusion.groups import is_view
from .demand import Demand, in_order
from .evidence import MANY_ROUNDS, Evidence
from .loop import Loop, RefusedError
from .match import match, multiple
from .record import Record
from .runs import Run, find_runs, rotated
from .write import Writer

#: How often a run is searched with other periods after one failed.
MAX_TRIES = 4
#: How many loops may be refused before nothing is rolled.
MAX_REFUSED = 8


@dataclass(frozen=True, eq=False)
class Rolled:
    """The statements with their loops, and what stands for each of the values to keep."""

    statements: tuple[Value, ...]
    mapping: dict[Value, Value]
    loops: int

    @property
    def size(self) -> int:
        """How many statements there are, those of bodies included."""
        bodies = [body_of(v) for v in self.statements if is_loop(v)]
        return len(self.statements) + sum(len(body.body) for body in bodies)

    @property
    def rounds(self) -> int:
        """How many rounds its longest loop has."""
        return max((v.attributes["count"] for v in self.statements if is_loop(v)), default=0)


def natively_plannable(value: Value) -> bool:
    """Can the body of a native loop hold this statement?"""
    op = value.op
    if isinstance(op, (Elementwise, Reduction)):
        return printable(value)
    return op is matmul or is_view(value) or op in RULE_OPS  # of which none is left


def roll(
    inputs: Sequence[Value],
    statements: Sequence[Value],
    kept: Sequence[Value],
    plannable: Callable[[Value], bool] = natively_plannable,
    evidence: Evidence | None = None,
) -> Rolled | None:
    """The statements with what repeats as loops; None when nothing does.

    ``kept`` are the values needed afterwards; statements on which none of them depends are left out. Values of which
    nothing changed are the same objects. ``plannable`` tells what the body of a loop may hold,
    ``evidence`` what earlier recordings of the function were like.
    """
    best: Rolled | None = None
    for least in (evidence or Evidence()).trials():
        found = _roll(Record(inputs, statements, kept, least), plannable)
        if found is not None and (best is None or found.size < best.size):
            best = found
        if best is not None and best.rounds > MANY_ROUNDS:
            break
    return best


def _roll(record: Record, plannable: Callable[[Value], bool]) -> Rolled | None:
    """The same for one notion of what a loop is."""
    refused: set[tuple[int, int]] = set()
    while len(record.members) >= record.least.rounds and len(refused) <= MAX_REFUSED:
        loops: list[Loop] = []
        Search(record, plannable, refused, loops).run(0, len(record.members), frozenset())
        order = list(in_order(record, loops))
        demand = Demand(record)
        try:
            demand.run(order)
        except RefusedError as found:
            refused.add((found.loop.start, found.loop.period))
            record.owner = [None] * len(record.members)
            continue
        if not loops and not demand.joins:
            break
        writer = Writer(demand)
        writer.run(order)
        mapping = {v: writer.get(v) for v in record.kept}
        if not writer.loops and not demand.joins:
            break
        return Rolled(tuple(writer.statements), mapping, writer.loops)
    return None


@dataclass
class Search:
    """Looks for loops from the first member to the last; each may take what earlier ones give."""

    record: Record
    plannable: Callable[[Value], bool]
    refused: set[tuple[int, int]]
    found: list[Loop]

    def run(self, start: int, stop: int, excluded: frozenset[int]) -> None:
        """All loops among these members, of other periods than the ``excluded`` ones."""
        least = self.record.least
        for run in find_runs(self.record.keys, start, stop, excluded, least):
            body = self.record.members[run.start : run.start + run.period]
            if not least.pays(run.rounds, run.saved, body):
                continue
            if self.match(run):
                continue
            if len(excluded) < MAX_TRIES:
                self.run(run.start, run.stop, excluded | {run.period})

    def match(self, run: Run) -> bool:
        """Loops of this run, or of one whose rounds are several of its own."""
        body = self.record.members[run.start : run.start + run.period]
        if all(map(is_view, body)):
            return True  # nothing to compute: whoever reads them all takes them as a stack
        begin = rotated(self.record, run)
        if self.enter(begin):
            return True
        times = multiple(self.record, begin)
        if times is None:
            return False
        longer = Run(run.start, run.stop, run.period * times)
        return self.enter(rotated(self.record, longer))

    def enter(self, run: Run) -> bool:
        """Take the loops of a run, if it has any."""
        loops = match(self.record, run, self.plannable, self.refused)
        self.found += loops
        return bool(loops)
