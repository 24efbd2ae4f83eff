"""The stages of a row reduction: which values wait for which loops over the row.

There is one loop over the reduced axes for every reduction that waits for an earlier one, and a gap before each loop,
in which what is one number for the row is computed. All printers of rows share this.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

from ..ir.graph import Value
from ..ops.table import Reduction
from ..ops.transcendental import rsqrt
from ..passes.fusion.groups import (
    FINAL,
    FULL,
    ROW,
    is_elementary,
    is_random,
    looks_up,
    picks_from_row,
)
from . import scalar
from .cpu.cpu import Scope, Writer, computed_operands

#: Operations and reads from which on a store and a load are cheaper.
WORTH_A_ROW = 6


def find_stages(writer: Writer) -> dict[Value, int]:
    """For every value the loop (full level) or the gap before a loop (row level) that computes it."""
    group = writer.group
    stages: dict[Value, int] = {}
    for value in group.values:
        stage = max([stages.get(writer.origin(x), 0) for x in value.value_operands], default=0)
        source = value.value_operands[0] if isinstance(value.op, Reduction) else None
        if source is not None and is_full(writer, source):
            stages[value] = stage + 1
        else:
            stages[value] = stage
    return stages


def is_full(writer: Writer, value: Value) -> bool:
    """Does an operand change along the reduced axes?"""
    origin = writer.origin(value)
    if origin in writer.group.level:
        return writer.group.level[origin] == FULL
    dims = writer.group.externals[value]
    reduced = writer.group.reduced or frozenset()
    everything = {a for a in dims if a is not None}
    return bool(everything & reduced) or not everything


def _needs_loop(writer: Writer, value: Value) -> bool:
    """Is a value computed by a loop over the row: a reduction of it, or a result?"""
    return (writer.group.level[value] == FULL and value in writer.nest.writes) or (
        isinstance(value.op, Reduction) and is_full(writer, value.value_operands[0])
    )


def find_targets(writer: Writer, stages: Mapping[Value, int]) -> list[list[Value]]:
    """The reductions and stored values that every loop computes; at least one loop, which may have none."""
    last = max([stages[v] for v in writer.group.values if _needs_loop(writer, v)], default=0)
    found = [_loop_targets(writer, stages, stage) for stage in range(last + 1)]
    while len(found) > 1 and not found[-1]:
        found.pop()
    return found


def _loop_targets(writer: Writer, stages: Mapping[Value, int], stage: int) -> list[Value]:
    """Reductions and stored values that the loop of ``stage`` computes."""
    found = []
    for value in writer.group.values:
        if isinstance(value.op, Reduction):
            if is_full(writer, value.value_operands[0]) and stages[value] == stage + 1:
                found.append(value)
        elif (
            writer.group.level[value] == FULL
            and value in writer.nest.writes
            and stages[value] == stage
        ):
            found.append(value)
    return found


def find_loops(
    writer: Writer, targets: Sequence[Sequence[Value]], kept: Set[Value]
) -> list[set[Value]]:
    """The full-level values that each loop evaluates, or reads back where an earlier loop kept them."""
    stored: set[Value] = set()
    found = []
    for some in targets:
        evaluated = needed(writer, some, stored)
        stored.update(v for v in evaluated if v in kept)
        found.append(evaluated)
    return found


def needed(
    writer: Writer, targets: Sequence[Value], stored: Set[Value] = frozenset()
) -> set[Value]:
    """Full-level values a loop evaluates for its targets, and those it reads back."""
    group = writer.group
    stack = []
    for target in targets:
        if isinstance(target.op, Reduction):
            stack.append(writer.origin(target.value_operands[0]))
        else:
            stack.append(target)
    seen: set[Value] = set()
    while stack:
        value = stack.pop()
        if value in seen or group.level.get(value) != FULL:
            continue
        seen.add(value)
        if value not in stored:
            stack.extend(writer.origin(x) for x in value.value_operands)
    return seen


def find_kept(writer: Writer, targets: Sequence[Sequence[Value]]) -> list[Value]:
    """Full-level values that are better read back from a row of memory than computed anew in a later loop."""
    loops = find_loops(writer, targets, frozenset())
    kept = set(expensive_in_several(writer, loops))
    loops = find_loops(writer, targets, kept)
    for value in reversed(writer.group.values):
        if value in kept or sum(value in loop for loop in loops) < 2:
            continue
        if _is_long(writer, value, kept):
            kept.add(value)
            loops = find_loops(writer, targets, kept)
    # What only values need that are kept themselves is not asked for again.
    again = {v for v in kept if sum(v in loop for loop in loops) > 1}
    return [v for v in writer.group.values if v in again]


def _is_long(writer: Writer, value: Value, kept: Set[Value]) -> bool:
    """Does a loop compute and read much for a full-level value?"""
    group = writer.group
    stack, found = [value], {value}
    while stack and len(found) < WORTH_A_ROW:
        top = stack.pop()
        if is_random(top):
            return True
        for x in map(writer.origin, computed_operands(top)):
            full = group.level[x] == FULL if x in group.level else is_full(writer, x)
            if full and x not in found:
                found.add(x)
                if x in group.level and x not in kept:
                    stack.append(x)
    return len(found) >= WORTH_A_ROW


def expensive_in_several(writer: Writer, loops: Sequence[set[Value]]) -> list[Value]:
    """Full-level values that cost much and are needed by more than one loop."""
    return [
        v
        for v in writer.group.values
        if writer.group.level[v] == FULL
        and scalar.is_expensive(v)
        and sum(v in loop for loop in loops) > 1
    ]


def compute_row_level(
    writer: Writer, row: Scope, stages: dict[Value, int], stage: int, indent: int
) -> None:
    """Row-level elementwise values that became available before the loop of ``stage``."""
    for value in writer.group.values:
        here = writer.group.level[value] == ROW and stages[value] == stage
        if here and value not in row and not isinstance(value.op, Reduction):
            writer.compute(value, [row], indent)


@dataclass(frozen=True)
class Pass:
    """What is done for one row after the other: a loop over it, what is computed in the gap behind a loop, or both."""

    loop: int | None
    gap: int | None


def find_passes(writer: Writer, stages: Mapping[Value, int], loops: int, again: bool) -> list[Pass]:
    """The passes over a batch of rows. Elementary functions have one of their own: they are computed for all rows.

    So has what follows a first loop whose results are looked at ``again``. But not beside what may end the program, or
    is no loop's work: vector code does neither.
    """
    level = writer.group.level
    numbers = [v for v in writer.group.values if level[v] == ROW]
    dear = {stages[v] for v in numbers if is_elementary(v) and v.op is not rsqrt}
    dear |= {1} if again else set()
    dear -= {stages[v] for v in numbers if looks_up(v) or picks_from_row(v) or is_random(v)}
    found = []
    for loop in range(loops):
        if loop + 1 in dear:
            found += [Pass(loop, None), Pass(None, loop + 1)]
        else:
            found.append(Pass(loop, loop + 1))
    return found


def handed_on(
    writer: Writer,
    stages: Mapping[Value, int],
    passes: Sequence[Pass],
    loops: Sequence[Set[Value]],
    kept: Set[Value],
) -> list[dict[Value, None]]:
    """For every pass the numbers of a row that it takes from earlier ones."""
    at_gap = {0: 0} | {each.gap: i for i, each in enumerate(passes) if each.gap is not None}
    at_loop = {each.loop: i for i, each in enumerate(passes) if each.loop is not None}
    home = {
        v: at_loop[stages[v] - 1] if isinstance(v.op, Reduction) else at_gap[stages[v]]
        for v in writer.group.values
        if writer.group.level[v] == ROW
    }
    stored: set[Value] = set()
    found: list[dict[Value, None]] = []
    for number, each in enumerate(passes):
        loop: Set[Value] = set() if each.loop is None else loops[each.loop]
        users = [v for v in loop if v not in stored] + [v for v in home if home[v] == number]
        stored.update(v for v in loop if v in kept)
        taken = {x for user in users for x in _row_operands(writer, user)}
        if number == len(passes) - 1:
            taken.update(_row_results(writer))
        found.append({v: None for v in home if home[v] < number and v in taken})
    return found


def _row_operands(writer: Writer, user: Value) -> set[Value]:
    """The numbers of a row that a value is computed from, not counting what they are computed from."""
    level = writer.group.level
    stack, seen = [user], {user}
    while stack:
        value = stack.pop()
        operands = value.value_operands if picks_from_row(value) else computed_operands(value)
        new = {writer.origin(x) for x in operands} - seen
        seen |= new
        if value is user and not picks_from_row(user):
            continue
        stack.extend(x for x in new if level.get(x) == FULL)
    return {v for v in seen if v is not user and level.get(v) == ROW}


def _row_results(writer: Writer) -> set[Value]:
    """The numbers of a row that are stored, or reduced over all rows."""
    group = writer.group
    totals = (
        writer.origin(v.value_operands[0])
        for v in group.values
        if group.level[v] == FINAL and isinstance(v.op, Reduction)
    )
    return {v for v in group.values if group.level[v] == ROW and v in writer.nest.writes}.union(
        x for x in totals if group.level.get(x) == ROW
    )
