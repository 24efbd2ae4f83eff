"""The loop over the elements of a row that is one of many: what is the same for all rows is computed before them.

How many rounds there are is found once for all rows of a group: they are all as long, and finding it for each takes
about as long as a short one has to be folded.
"""

from __future__ import annotations

from tracejit.codegen.lower.instructions import NotWidened
from tracejit.codegen.lower.widen import VectorLoop

__all__ = ["GroupLoop", "RowLoop"]

#: More rows would be kept in more memory than they are worth.
_MOST_LANES = 16


def is_plain(loop: VectorLoop) -> bool:
    """Is all of a loop done in rounds of the same kind, one after the other?"""
    irregular = loop.body.exits or loop.pairs or loop.least_masked
    return loop.usual is loop.body and not irregular


class GroupLoop(VectorLoop):
    """Prints the loop over the rows of a group, of which there are no more than lanes: with a mask, and once."""

    def lines(self) -> list[str]:
        """All lines, as of any loop where it is not that simple."""
        if not is_plain(self) or self.one_by_one or self.body.carried:
            return super().lines()
        name, start = self.name, self.loop.start
        self.hoist()
        rest = self.rest([], False)
        return [
            f"  br label %{name}.between",
            f"{name}.between:",
            *self.before,
            f"  %{name}.from = add nsw i64 {start}, 0",
            f"  br label %{name}.rest",
            *rest.lines,
            f"{name}.end:",
        ]


class RowLoop(VectorLoop):
    """Prints the loop as blocks: choose, main (all parts), join, between, rest (what is left), end.

    ``lasts`` are the lanes that it leaves.
    """

    def open(self) -> list[str]:
        """What is computed once for all rows; raises :class:`NotWidened` where rounds are not all alike."""
        name, loop, lines = self.name, self.loop, list[str]()
        types = {carried.fold.type for carried in self.body.carried}
        if not is_plain(self) or not 1 < self.lanes <= _MOST_LANES or "i1" in types:
            raise NotWidened("lanes of rows that are better folded row by row")
        span = self.emit(lines, f"sub nsw i64 {loop.stop}, {loop.start}")
        positive = self.emit(lines, f"icmp sgt i64 {span}, 0")
        lines.append(f"  %{name}.count = select i1 {positive}, i64 {span}, i64 0")
        whole = self.emit(lines, f"and i64 %{name}.count, {-self.together}")
        return [
            *lines,
            f"  %{name}.stop = add nsw i64 {loop.start}, {whole}",
            f"  %{name}.several = icmp slt i64 {loop.start}, %{name}.stop",
        ]

    def lines(self) -> list[str]:
        """What is computed for a row, but for what to do with its lanes."""
        name, loop, carries = self.name, self.loop, self.body.carried
        self.hoist()
        starts = [self.start(carried) for carried in carries]
        main = self.main("main", starts)
        join = [f"{name}.join:"]
        joined = [self.joined(join, carried, main.values[carried.last]) for carried in carries]
        between = [f"  br label %{name}.between", f"{name}.between:"]
        blocks = [f"%{name}.choose", f"%{name}.join"]
        between += self.meeting(f"%{name}.from", "i64", [loop.start, f"%{name}.stop"], blocks)
        so_far = self.meetings(between, dict(zip(blocks, (starts, joined), strict=True)))
        rest, end = self.rest(so_far, False), [f"{name}.end:"]
        lasts = [rest.values[carried.last][0] for carried in carries]
        self.lasts = self.meetings(end, {f"%{name}.between": so_far, f"%{name}.rest": lasts})
        return [
            f"  br label %{name}.choose",
            f"{name}.choose:",
            *self.before,
            f"  br i1 %{name}.several, label %{name}.main, label %{name}.between",
            *main.lines,
            *join,
            *between,
            f"  %{name}.some = icmp slt i64 %{name}.from, {loop.stop}",
            f"  br i1 %{name}.some, label %{name}.rest, label %{name}.end",
            *rest.lines,
            *end,
        ]
