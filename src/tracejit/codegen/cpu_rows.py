"""Printing row reductions: the innermost axes reduced, one row of kept axes at a time.

Rows run in *stages*: one loop over the reduced axes for every reduction that waits for an earlier one. Values that are
dear and needed by several stages are kept in a row of scratch memory. Rows of a few elements have no loops
(:mod:`tracejit.codegen.cpu_short_rows`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, field

from ..dtypes import DType
from ..ir.graph import Value
from ..ops.table import Reduction
from ..passes.groups import COLUMN, FINAL, FULL, ROW, is_random
from ..sizes import largest
from . import scalar
from .cpu import Scope, Writer, computed_operands, describe, describe_domain
from .cpu_panels import Panels
from .cpu_running import open_rows
from .cpu_short_rows import Point, points_of_short_rows
from .grain import elements_per_chunk
from .kernel import Function, Scratch

#: Operations and reads from which on a store and a load are cheaper.
WORTH_A_ROW = 6
#: Rows of scratch memory begin so many elements apart, and end as many before the next one: a vector of any type.
PADDING = 64


def write_rows(writer: Writer) -> Function:
    """One row of kept axes at a time; stages over the reduced axes."""
    nest, panels = writer.nest, Panels(writer)
    writer.panels = panels
    row_body(writer, open_rows(writer, nest.kept, "lo", "hi", 1, panels.open), {})
    panels.close()
    rows, inner = (
        writer.extents_product(nest.kept),
        largest(writer.extents_product(nest.reduced), 1),
    )
    elements = elements_per_chunk(writer.group.values)
    grain = largest(panels.rows, elements // largest(1, inner))
    return writer.finish(
        rows, grain, writer.name, f"{describe_domain(writer.group)}: reduces the inner axes"
    )


def row_body(
    writer: Writer,
    indent: int,
    finals: Scope,
    cell: Callable[[Value], str] | None = None,
) -> Scope:
    """Everything that happens for one row.

    ``finals`` maps final reductions to their accumulators; ``cell`` gives the element in memory that a reduction of
    columns is folded into at the current point.
    """
    group = writer.group
    stages = _stages(writer)
    last = max([stages[v] for v in group.values if _needs_loop(writer, v)], default=0)
    targets = [_loop_targets(writer, stages, stage) for stage in range(last + 1)]
    points = points_of_short_rows(writer)
    kept = _kept(writer, targets) if len(targets) > 1 and points is None else []
    loops = _loops(writer, targets, set(kept))
    passes = _Passes(writer, finals, {v: f"row{i}" for i, v in enumerate(kept)}, points, cell)
    row = passes.row
    for stage in range(last + 1):
        _row_level(writer, row, stages, stage, indent)
        passes.write(targets[stage], loops[stage], indent)
    _row_level(writer, row, stages, last + 1, indent)
    for value in group.values:
        if group.level[value] == ROW and value in writer.nest.writes:
            writer.write(value, row[value], indent)
        if group.level[value] == FINAL and isinstance(value.op, Reduction):
            source = writer.origin(value.value_operands[0])
            if group.level.get(source, ROW) == ROW and value in finals:
                text = writer.value(value.value_operands[0], [row], indent)
                update(writer, value, finals[value], text, indent)
    return row


def _stages(writer: Writer) -> dict[Value, int]:
    """For every value the loop (full level) or the gap before a loop (row level) that computes it."""
    group = writer.group
    stages: dict[Value, int] = {}
    for value in group.values:
        stage = max([stages.get(writer.origin(x), 0) for x in value.value_operands], default=0)
        source = value.value_operands[0] if isinstance(value.op, Reduction) else None
        if source is not None and _is_full(writer, source):
            stages[value] = stage + 1
        else:
            stages[value] = stage
    return stages


def _is_full(writer: Writer, value: Value) -> bool:
    """Does an operand change along the reduced axes?"""
    origin = writer.origin(value)
    if origin in writer.group.level:
        return writer.group.level[origin] == FULL
    dims = writer.group.externals[value]
    reduced = writer.group.reduced or frozenset()
    everything = {a for a in dims if a is not None}
    return bool(everything & reduced) or not everything


def _needs_loop(writer: Writer, value: Value) -> bool:
    return (writer.group.level[value] == FULL and value in writer.nest.writes) or (
        isinstance(value.op, Reduction) and _is_full(writer, value.value_operands[0])
    )


def _loop_targets(writer: Writer, stages: dict[Value, int], stage: int) -> list[Value]:
    """Reductions and stored values that the loop of ``stage`` computes."""
    found = []
    for value in writer.group.values:
        if isinstance(value.op, Reduction):
            if _is_full(writer, value.value_operands[0]) and stages[value] == stage + 1:
                found.append(value)
        elif (
            writer.group.level[value] == FULL
            and value in writer.nest.writes
            and stages[value] == stage
        ):
            found.append(value)
    return found


def _loops(
    writer: Writer, targets: Sequence[Sequence[Value]], kept: Set[Value]
) -> list[set[Value]]:
    """The full-level values that each loop evaluates, or reads back where an earlier loop kept them."""
    stored: set[Value] = set()
    found = []
    for some in targets:
        needed = _needed(writer, some, stored)
        stored.update(v for v in needed if v in kept)
        found.append(needed)
    return found


def _needed(
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


def _row_level(
    writer: Writer, row: Scope, stages: dict[Value, int], stage: int, indent: int
) -> None:
    """Row-level elementwise values that became available before the loop of ``stage``."""
    for value in writer.group.values:
        if writer.group.level[value] == ROW and value not in row and stages[value] <= stage:
            if isinstance(value.op, Reduction):
                continue
            writer.compute(value, [row], indent)


@dataclass
class _Passes:
    """The passes over the reduced axes of a row, one for each stage, and what they leave to later ones."""

    writer: Writer
    finals: Scope
    scratch: dict[Value, str]  # values kept in a row of memory
    points: list[Point] | None  # of a short row: nothing is looped over, and everything is kept
    cell: Callable[[Value], str] | None = None
    row: Scope = field(default_factory=dict)
    stored: set[Value] = field(default_factory=set)

    def write(self, targets: Sequence[Value], needed: set[Value], indent: int) -> None:
        """One pass, for the reductions and stored values ``targets``."""
        if not targets:
            return
        writer, finals = self.writer, self.finals
        accumulators = {
            value: finals[value] if value in finals else _start(writer, value, indent)
            for value in targets
            if isinstance(value.op, Reduction) and writer.group.level[value] != COLUMN
        }
        if self.points is None:
            inner = writer.open_loops(writer.nest.reduced, indent)
            scope: Scope = {}
            _exchange(writer, scope, self.row, self.scratch, needed, self.stored, inner)
            self._point(targets, accumulators, scope, inner)
        for point in self.points or ():
            writer.variables.update(point.places)
            self._point(targets, accumulators, point.scope, indent)
        for axis in writer.nest.reduced:
            writer.variables.pop(axis, None)
        for value, name in accumulators.items():
            if value not in finals:
                self.row[value] = finished(writer, value, name, indent)

    def _point(
        self, targets: Sequence[Value], accumulators: Scope, scope: Scope, indent: int
    ) -> None:
        writer = self.writer
        for value in targets:
            source = value.value_operands[0] if isinstance(value.op, Reduction) else value
            text = writer.value(source, [scope, self.row], indent)
            if source is value:
                writer.write(value, text, indent)
            elif writer.group.level[value] == COLUMN:
                self._fold(value, text, indent)
            elif self.points is None or value in self.finals:
                update(writer, value, accumulators[value], text, indent)
            else:  # loops over rows are cut anywhere: their sums must not depend on where
                combine = scalar.combine_of(value)
                element = scalar.convert(text, source.spec.dtype, combine.dtype)
                step_in_order(writer, accumulators[value], combine.update, element, indent)

    def _fold(self, value: Value, text: str, indent: int) -> None:
        """One more element of a column."""
        assert self.cell is not None
        writer, combine, cell = self.writer, scalar.combine_of(value), self.cell(value)
        element = scalar.convert(text, value.value_operands[0].spec.dtype, combine.dtype)
        fold_into(writer, cell, combine.dtype, combine.update, element, indent)


def _start(writer: Writer, value: Value, indent: int) -> str:
    """A new accumulator holding the identity."""
    name = f"acc{writer.counter}"
    writer.counter += 1
    writer.text.add(indent, f"{name} = {scalar.combine_of(value).identity}", describe(value))
    return name


def _exchange(
    writer: Writer,
    scope: Scope,
    row: Scope,
    scratch: dict[Value, str],
    needed: set[Value],
    stored: set[Value],
    inner: int,
) -> None:
    """Take dear values from scratch memory where an earlier loop left them, else compute and leave them there."""
    for value in scratch:
        if value in stored and value in needed:
            scope[value] = writer.fresh()
            writer.text.add(
                inner, f"{scope[value]} = {_scratch_element(writer, value, scratch[value])}"
            )
    for value in scratch:
        if value in needed and value not in stored:
            text = writer.value(value, [scope, row], inner)
            writer.text.add(inner, f"{_scratch_element(writer, value, scratch[value])} = {text}")
            stored.add(value)


def _scratch_element(writer: Writer, value: Value, key: str) -> str:
    """Where a row's value is kept: each worker has a row of its own, which begins in a line of the cache of its own."""
    elements = largest(writer.extents_product(writer.nest.reduced), 1)
    count = -(-elements // PADDING) * PADDING + PADDING
    kind = scalar.compute_type(value.spec.dtype)
    name = writer.text.parameter(
        key,
        f"padded {kind}*",
        Scratch(key, scalar.compute_dtype(value.spec.dtype), count, per_worker=True),
    )
    size = writer.number("row_size", count)
    return f"{name}[worker * {size} + {flat_index(writer)}]"


def flat_index(writer: Writer) -> str:
    """The place in a row, counted through all axes that are reduced."""
    index = ""
    for axis in writer.nest.reduced:
        variable = writer.variables[axis]
        index = variable if not index else f"({index}) * {writer.extent(axis)} + {variable}"
    return index


def update(writer: Writer, value: Value, accumulator: str, text: str, indent: int) -> None:
    """Fold one element into an accumulator."""
    source = value.value_operands[0].spec.dtype
    combine = scalar.combine_of(value)
    element = scalar.convert(text, source, combine.dtype)
    writer.text.add(indent, combine.update.format(acc=accumulator, x=element))


def step_in_order(writer: Writer, name: str, step: str, element: str, indent: int) -> None:
    """Fold an element into a variable, in this order."""
    text = step.format(acc=name, x=element).replace(f"{name} += ", f"{name} = {name} + ")
    writer.text.add(indent, text)


def fold_into(
    writer: Writer, cell: str, dtype: DType, step: str, element: str, indent: int
) -> None:
    """Fold an element into a partial result in memory, of ``dtype``."""
    name = writer.fresh()
    writer.text.add(indent, f"{name} = {scalar.load(cell, dtype)}")
    step_in_order(writer, name, step, element, indent)
    writer.text.add(indent, f"{cell} = {scalar.store(name, dtype)}")


def finished(writer: Writer, value: Value, accumulator: str, indent: int) -> str:
    """An accumulator in the dtype of the result."""
    combine = scalar.combine_of(value)
    text = scalar.convert(accumulator, combine.dtype, value.spec.dtype)
    if text == accumulator:
        return accumulator
    name = writer.fresh()
    writer.text.add(indent, f"{name} = {text}")
    return name


def _kept(writer: Writer, targets: Sequence[Sequence[Value]]) -> list[Value]:
    """Full-level values that are better read back from a row of memory than computed anew in a later loop."""
    loops = _loops(writer, targets, frozenset())
    kept = set(expensive_in_several(writer, loops))
    loops = _loops(writer, targets, kept)
    for value in reversed(writer.group.values):
        if value in kept or sum(value in needed for needed in loops) < 2:
            continue
        if _is_long(writer, value, kept):
            kept.add(value)
            loops = _loops(writer, targets, kept)
    # What only values need that are kept themselves is not asked for again.
    again = {v for v in kept if sum(v in needed for needed in loops) > 1}
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
            full = group.level[x] == FULL if x in group.level else _is_full(writer, x)
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
        and sum(v in needed for needed in loops) > 1
    ]
