"""Printing running sums, products and extremes: in the order of the elements, with the bits of eager execution."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...dtypes import DType, float32, float64, int64
from ...ops.shapes import numel
from ...sizes import smallest
from .. import scalar
from ..along import EXTREME_SO_FAR, LOG_OF_SUM, RUNNING, TILE, AlongWriter
from ..kernel import Function, Scratch
from .logs import carried_logs, log_step

#: Rows that are gone through at a time: each waits for its own last result only.
TOGETHER = 4


def carried(writer: AlongWriter, doubled: bool = True) -> dict[str, tuple[DType, str]]:
    """What goes from one element to the next: names, dtypes, and what is there before the first.

    With ``doubled``, running sums of single precision go on in double.
    """
    if writer.op == EXTREME_SO_FAR:
        dtype = scalar.compute_dtype(writer.source)
        kind = "max" if writer.value.attributes["largest"] else "min"
        return {"best": (dtype, scalar.worst(dtype, kind)), "place": (int64, "int64(0)")}
    dtype = scalar.compute_dtype(writer.value.spec.dtype)
    if writer.op == LOG_OF_SUM:
        return carried_logs(dtype)
    if doubled and dtype is writer.source is float32:
        dtype = float64  # as in eager execution: rounded is each result alone
    # -0.0 is what nothing sums up to: it changes no element.
    number = "1" if writer.op == "cumprod" else "-0.0" if dtype.is_floating_point else "0"
    return {"total": (dtype, f"{scalar.cast_name(dtype)}({number})")}


def _step(
    writer: AlongWriter, number: int | str, variables: Mapping[int, str], indent: int
) -> None:
    """One more element; ``number`` is behind the names of what is carried."""
    text, out = writer.text, writer.value.spec.dtype
    if writer.op == EXTREME_SO_FAR:
        best, place, new = (f"{name}{number}" for name in ("best", "place", "new"))
        symbol = ">=" if writer.value.attributes["largest"] else "<="
        text.add(indent, f"{new} = {writer.element(variables)}")
        further = f"{new} {symbol} {best}"
        if writer.source.is_floating_point:  # the last NaN is the most extreme of all
            further = f"({further}) | ({new} != {new})"
        text.add(indent, f"{place} = select({further}, {variables[writer.walk.along]}, {place})")
        text.add(indent, f"{best} = select({further}, {new}, {best})")
        text.add(indent, f"{writer.at('out', variables)} = {place}")
        return
    if writer.op == LOG_OF_SUM:
        log_step(writer, number, variables, indent)
        return
    dtype, total = carried(writer)["total"][0], f"total{number}"
    new = scalar.convert(writer.element(variables), writer.source, dtype)
    text.add(indent, f"{total} = {total} {RUNNING[writer.op]} {new}")
    stored = scalar.store(scalar.convert(total, dtype, out), out)
    text.add(indent, f"{writer.at('out', variables)} = {stored}")


def running_along(writer: AlongWriter) -> Function:
    """Several rows at a time, for each sum waits for the one before it."""
    text, walk = writer.text, writer.walk
    along, outer = walk.along, walk.outer

    def rows(variables: Sequence[dict[int, str]], indent: int) -> None:
        for number in range(len(variables)):
            for name, (_, nothing) in carried(writer).items():
                text.add(indent, f"{name}{number} = {nothing}")
        text.add(indent, f"for i{along} in range({writer.extent(along)}):")
        for number, row in enumerate(variables):
            _step(writer, number, {**row, along: f"i{along}"}, indent + 1)

    text.add(1, "for task in range(lo, hi):")
    tasks = 1
    if not outer:
        rows([{}], 2)
    else:
        last, count = outer[-1], walk.extents[outer[-1]]
        groups = writer.number("groups", -(-count // TOGETHER))
        tasks = numel([walk.extents[a] for a in outer[:-1]]) * -(-count // TOGETHER)
        text.add(2, f"first = (task % {groups}) * {TOGETHER}")
        text.add(2, f"rest = task // {groups}")
        around = writer.split("rest", outer[:-1], 2)
        text.add(2, f"if first + {TOGETHER} <= {writer.extent(last)}:")
        rows([{**around, last: f"(first + {n})"} for n in range(TOGETHER)], 3)
        text.add(2, "else:")
        text.add(3, f"for i{last} in range(first, {writer.extent(last)}):")
        rows([{**around, last: f"i{last}"}], 4)
    doc = f"{writer.value.spec}: along rows"
    return writer.finish(writer.name, tasks, walk.extents[along] * TOGETHER, doc)


def running_across(writer: AlongWriter) -> Function:
    """A tile of neighbouring rows together, their totals in memory of each worker's own."""
    text, walk = writer.text, writer.walk
    along, inner = walk.along, walk.along + 1
    state, cells = carried(writer), {}
    for name, (dtype, _) in state.items():
        scratch = Scratch(f"{name}s", dtype, TILE, per_worker=True)
        text.parameter(f"{name}s", scalar.storage_type(dtype) + "*", scratch)
        cells[name] = f"{name}s[worker * {TILE} + i{inner} - start]"
    text.add(1, "for task in range(lo, hi):")
    around = writer.split(writer.open_tile("task", 2), walk.outer, 2)
    text.add(2, f"for i{inner} in range(start, stop):")
    for name, (_, nothing) in state.items():
        text.add(3, f"{cells[name]} = {nothing}")
    text.add(2, f"for i{along} in range({writer.extent(along)}):")
    text.add(3, f"for i{inner} in range(start, stop):")
    for name, cell in cells.items():
        text.add(4, f"{name} = {cell}")
    _step(writer, "", {**around, along: f"i{along}", inner: f"i{inner}"}, 4)
    for name, cell in cells.items():
        text.add(4, f"{cell} = {name}")
    work = walk.extents[along] * smallest(walk.extents[inner], TILE)
    doc = f"{writer.value.spec}: across rows"
    return writer.finish(writer.name, writer.around * writer.tiles, work, doc)
