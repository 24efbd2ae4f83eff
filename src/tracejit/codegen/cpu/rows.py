"""Printing row reductions: the innermost axes reduced, one row of kept axes at a time.

Rows run in *stages*: one loop over the reduced axes for every reduction that waits for an earlier one. Values that are
dear and needed by several stages are kept in a row of scratch memory. Rows of a few elements have no loops
(:mod:`.short_rows`).
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...dtypes import DType
from ...extents import hint
from ...ir.graph import Value
from ...ops.table import Reduction
from ...passes.fusion.groups import COLUMN, FINAL, FULL, ROW
from ...sizes import largest
from .. import scalar
from ..grain import elements_per_chunk
from ..kernel import Function, Scratch
from ..row_stages import (
    Pass,
    compute_row_level,
    find_kept,
    find_loops,
    find_passes,
    find_stages,
    find_targets,
    handed_on,
)
from .asked_rows import ask_for_rows
from .batches import Batches
from .cpu import Scope, Writer, describe, describe_domain
from .panels import Panels
from .running import open_rows
from .short_rows import Point, points_of_short_rows, short_kept
from .told_extremes import told_extremes, watched_extremes

#: Elements of a row so short that folding its lanes takes about as long as reading it.
SHORT = 128
#: Rows of scratch memory begin so many elements apart, and end as many before the next one: a vector of any type.
PADDING = 64


def write_rows(writer: Writer) -> Function:
    """One row of kept axes at a time; stages over the reduced axes."""
    nest, panels = writer.nest, Panels(writer)
    writer.panels = panels
    short, looped = short_kept(writer), nest.kept
    if short is None:
        row_body(writer, ("lo", "hi"), 1, {}, around=panels.open)
        panels.close()
    else:
        looped = nest.kept[: -len(short[1][0])]
        rows_apart(writer, *short, {}, open_rows(writer, looped, "lo", "hi", 1))
    rows, inner = (
        writer.extents_product(looped),
        largest(writer.extents_product([a for a in range(len(nest.axes)) if a not in looped]), 1),
    )
    elements = elements_per_chunk(writer.group.values)
    grain = largest(panels.rows, elements // largest(1, inner))
    return writer.finish(
        rows, grain, writer.name, f"{describe_domain(writer.group)}: reduces the inner axes"
    )


def row_body(
    writer: Writer,
    rows: tuple[str, str],
    indent: int,
    finals: Scope,
    cell: Callable[[Value], str] | None = None,
    around: Callable[[int, str, str], tuple[int, str, str]] = lambda *given: given,
) -> None:
    """Everything that happens for the rows from one number to another.

    ``finals`` maps final reductions to their accumulators; ``cell`` gives the element in memory that a reduction of
    columns is folded into at the current point; ``around`` opens loops around those over the rows, as for `open_rows`.
    """
    stages = find_stages(writer)
    targets = find_targets(writer, stages)
    points = points_of_short_rows(writer)
    told = told_extremes(writer) if points is None else frozenset()
    over = [_over_rows(writer, each) if points is None else "range" for each in targets]
    watched = watched_extremes(_of_rows(writer, targets[0], told)) if over[0] != "range" else {}
    apart = find_passes(writer, stages, len(targets), again=bool(watched))
    in_batches = len(apart) > 1 and points is None
    if not in_batches:
        apart = [Pass(loop, loop + 1) for loop in range(len(targets))]
    kept = find_kept(writer, targets) if len(targets) > 1 and points is None else []
    loops = find_loops(writer, targets, set(kept))
    handed = handed_on(writer, stages, apart, loops, set(kept))
    batches = Batches(writer, handed, len(kept)) if in_batches else None

    def between(*given: Any) -> tuple[int, str, str]:
        return around(*given) if batches is None else batches.open(*around(*given))

    indent = open_rows(writer, writer.nest.kept, *rows, indent, between, over[0])
    scratch = {v: f"row{i}" for i, v in enumerate(kept)}
    passes = _Passes(writer, finals, scratch, points, cell, batches)
    passes.told = told
    if batches is not None:
        passes.later = {v: t for v, t in watched.items() if {v, t} <= batches.names.keys()}
    compute_row_level(writer, passes.row, stages, 0, indent)
    for number, each in enumerate(apart):
        if batches is not None and number > 0:
            passes.row = batches.again(handed[number], over[each.loop] if each.loop else "range")
        if batches is not None and number == 1 and len(targets) > 1:
            ask_for_rows(writer, batches, loops[0], indent)
        if each.loop is not None:
            passes.write(targets[each.loop], loops[each.loop], indent)
        if each.gap is not None:
            compute_row_level(writer, passes.row, stages, each.gap, indent)
        if batches is not None:
            batches.hand_on(number, passes.row, indent)
        if passes.later and number == 0:
            passes.look_at_rows_again(loops[0], stages)
    _finish_row(writer, passes.row, finals, indent)


def rows_apart(
    writer: Writer,
    points: Sequence[Point],
    ends: Sequence[dict[int, str]],
    finals: Scope,
    indent: int,
) -> None:
    """Several short rows one after the other, all elements of which are printed apart; ``finals`` as for `row_body`."""
    stages = find_stages(writer)
    targets = find_targets(writer, stages)
    loops = find_loops(writer, targets, set())
    for place in ends:
        writer.variables.update(place)
        fresh = [Point(point.places) for point in points]
        passes = _Passes(writer, finals, {}, fresh, None, None)
        compute_row_level(writer, passes.row, stages, 0, indent)
        for number, found in enumerate(targets):
            passes.write(found, loops[number], indent)
            compute_row_level(writer, passes.row, stages, number + 1, indent)
        _finish_row(writer, passes.row, finals, indent)


def _finish_row(writer: Writer, row: Scope, finals: Scope, indent: int) -> None:
    """Store the numbers of a row, and fold them into what is reduced over all rows."""
    group = writer.group
    for value in group.values:
        if group.level[value] == ROW and value in writer.nest.writes:
            writer.write(value, row[value], indent)
        if group.level[value] == FINAL and isinstance(value.op, Reduction):
            source = writer.origin(value.value_operands[0])
            if group.level.get(source, ROW) == ROW and value in finals:
                text = writer.value(value.value_operands[0], [row], indent)
                update(writer, value, finals[value], text, indent)


@dataclass
class _Passes:
    """The passes over the reduced axes of a row, one for each stage, and what they leave to later ones."""

    writer: Writer
    finals: Scope
    scratch: dict[Value, str]  # values kept in a row of memory
    points: list[Point] | None  # of a short row: nothing is looped over, and everything is kept
    cell: Callable[[Value], str] | None
    batches: Batches | None
    row: Scope = field(default_factory=dict)
    stored: set[Value] = field(default_factory=set)
    told: frozenset[Value] = frozenset()  # extremes of which later sums tell that there is a nan
    #: Those with a sum that is looked at after the first pass over all rows.
    later: dict[Value, Value] = field(default_factory=dict)

    def write(self, targets: Sequence[Value], needed: set[Value], indent: int) -> None:
        """One pass, for the reductions and stored values ``targets``."""
        if not targets:
            return
        writer, finals = self.writer, self.finals
        accumulators = {
            value: finals[value] if value in finals else start(writer, value, indent)
            for value in targets
            if isinstance(value.op, Reduction) and writer.group.level[value] != COLUMN
        }
        if self.points is None:
            told = [v for v in accumulators if v in self.told]
            watched = watched_extremes(_of_rows(writer, targets, self.told))
            self._loop(targets, needed, accumulators, indent, {*watched, *told})
            for value in told:
                name, dtype = accumulators[value], scalar.combine_of(value).dtype
                writer.text.add(indent, f"{name} = settled_{scalar.compute_type(dtype)}({name})")
            at_once = {v: total for v, total in watched.items() if v not in self.later}
            for total in dict.fromkeys(at_once.values()):
                extremes = [v for v in at_once if at_once[v] is total]
                self._look_again(extremes, accumulators[total], needed, accumulators, indent)
        for point in self.points or ():
            writer.variables.update(point.places)
            self._point(targets, accumulators, point.scope, indent)
        for axis in writer.nest.reduced:
            writer.variables.pop(axis, None)
        for value, name in accumulators.items():
            if value not in finals:
                self.row[value] = finished(writer, value, name, indent)

    def _loop(
        self,
        targets: Sequence[Value],
        needed: set[Value],
        accumulators: Scope,
        indent: int,
        watched: Container[Value] = (),
    ) -> None:
        """All elements of the row."""
        inner = self.writer.open_loops(self.writer.nest.reduced, indent)
        scope: Scope = {}
        self._exchange(scope, needed, inner)
        self._point(targets, accumulators, scope, inner, watched)

    def _look_again(
        self,
        extremes: Sequence[Value],
        total: str,
        needed: set[Value],
        accumulators: Scope,
        indent: int,
    ) -> None:
        """Extremes of a row that were found as if there were no nan, which a sum of the same elements tells."""
        text = self.writer.text
        text.add(indent, f"if {total} != {total}:")
        for value in extremes:
            text.add(indent + 1, f"{accumulators[value]} = {scalar.combine_of(value).identity}")
        self._loop(extremes, needed, accumulators, indent + 1)

    def look_at_rows_again(self, needed: set[Value], stages: dict[Value, int]) -> None:
        """The same for all rows of a batch, after the first pass over them."""
        writer, batches = self.writer, self.batches
        assert batches is not None
        for total in dict.fromkeys(self.later.values()):
            found = batches.again({total: None})
            compute_row_level(writer, found, stages, 0, batches.indent + 1)
            extremes = [v for v in self.later if self.later[v] is total]
            names = {v: f"acc{writer.counter + i}" for i, v in enumerate(extremes)}
            writer.counter += len(extremes)
            before, self.row = self.row, found
            self._look_again(extremes, found[total], needed, names, batches.indent + 1)
            self.row = before
            for axis in writer.nest.reduced:
                writer.variables.pop(axis, None)
            for value in extremes:
                found[value] = finished(writer, value, names[value], batches.indent + 2)
                batches.keep(value, found[value], batches.indent + 2)

    def _point(
        self,
        targets: Sequence[Value],
        accumulators: Scope,
        scope: Scope,
        indent: int,
        watched: Container[Value] = (),
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
                update(writer, value, accumulators[value], text, indent, value in watched)
            else:  # loops over rows are cut anywhere: their sums must not depend on where
                combine = scalar.combine_of(value)
                element = scalar.convert(text, source.spec.dtype, combine.dtype)
                step_in_order(writer, accumulators[value], combine.update, element, indent)

    def _exchange(self, scope: Scope, needed: set[Value], inner: int) -> None:
        """Take dear values from scratch memory where an earlier loop left them, else compute and leave them there."""
        writer = self.writer
        for value in self.scratch:
            if value in self.stored and value in needed:
                scope[value] = writer.fresh()
                writer.text.add(inner, f"{scope[value]} = {self._kept(value)}")
        for value in self.scratch:
            if value in needed and value not in self.stored:
                text = writer.value(value, [scope, self.row], inner)
                writer.text.add(inner, f"{self._kept(value)} = {text}")
                self.stored.add(value)

    def _kept(self, value: Value) -> str:
        """Where a row's value is kept: workers have rows of their own, each of which begins in a line of the cache."""
        writer, batches, key = self.writer, self.batches, self.scratch[value]
        assert batches is not None
        elements = largest(writer.extents_product(writer.nest.reduced), 1)
        pitch = -(-elements // PADDING) * PADDING + PADDING
        dtype = scalar.compute_dtype(value.spec.dtype)
        scratch = Scratch(key, dtype, batches.most * pitch, per_worker=True)
        kind = f"padded {scalar.compute_type(value.spec.dtype)}*"
        name = writer.text.parameter(key, kind, scratch)
        row = f"(worker * {batches.rows} + {batches.row}) * {writer.number('row_size', pitch)}"
        return f"{name}[{row} + {flat_index(writer)}]"

    def _fold(self, value: Value, text: str, indent: int) -> None:
        """One more element of a column."""
        assert self.cell is not None
        writer, combine, cell = self.writer, scalar.combine_of(value), self.cell(value)
        element = scalar.convert(text, value.value_operands[0].spec.dtype, combine.dtype)
        fold_into(writer, cell, combine.dtype, combine.update, element, indent)


def start(writer: Writer, value: Value, indent: int) -> str:
    """A new accumulator holding the identity."""
    name = f"acc{writer.counter}"
    writer.counter += 1
    writer.text.add(indent, f"{name} = {scalar.combine_of(value).identity}", describe(value))
    return name


def flat_index(writer: Writer) -> str:
    """The place in a row, counted through all axes that are reduced."""
    index = ""
    for axis in writer.nest.reduced:
        variable = writer.variables[axis]
        index = variable if not index else f"({index}) * {writer.extent(axis)} + {variable}"
    return index


def update(
    writer: Writer, value: Value, accumulator: str, text: str, indent: int, watched: bool = False
) -> None:
    """Fold one element into an accumulator; an extreme that is ``watched`` as if there were no nan."""
    source = value.value_operands[0].spec.dtype
    combine = scalar.combine_of(value)
    element = scalar.convert(text, source, combine.dtype)
    step = combine.update
    if watched:
        step = step.replace("maximum_", "larger_").replace("minimum_", "smaller_")
    writer.text.add(indent, step.format(acc=accumulator, x=element))


def _over_rows(writer: Writer, targets: Sequence[Value]) -> str:
    """What a loop over rows is called in the text: short ones that are folded are folded together."""
    count = writer.extents_product(writer.nest.reduced)
    is_short = hint(count) <= SHORT and _of_rows(writer, targets, frozenset())
    return "together" if is_short else "range"


def _of_rows(writer: Writer, targets: Sequence[Value], told: frozenset[Value]) -> list[Value]:
    """The reductions of rows among the targets of a loop, without extremes that need no nan."""
    level = writer.group.level
    return [v for v in targets if isinstance(v.op, Reduction) and level[v] == ROW and v not in told]


def fold_point(writer: Writer, accumulators: Scope, indent: int) -> None:
    """The element work of the current point: what is stored, and what is folded into accumulators."""
    scope: Scope = {}
    for value in writer.group.values:
        if writer.group.level[value] == FULL and value in writer.nest.writes:
            writer.write(value, writer.value(value, [scope], indent), indent)
    for value, name in accumulators.items():
        update(writer, value, name, writer.value(value.value_operands[0], [scope], indent), indent)


def step_in_order(writer: Writer, name: str, step: str, element: str, indent: int) -> None:
    """Fold an element into a variable, in this order."""
    text = step.format(acc=name, x=element)
    for symbol in "+*":
        text = text.replace(f"{name} {symbol}= ", f"{name} = {name} {symbol} ")
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
