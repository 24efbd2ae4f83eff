"""Printing running sums and products: in the order of the elements, so that eager execution gives the same bits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..dtypes import DType
from ..ops.shapes import numel
from ..sizes import smallest
from . import scalar
from .along import RUNNING, TILE, AlongWriter
from .kernel import Function, Scratch

#: Rows that are gone through at a time: each waits for its own last result only.
TOGETHER = 4


def _accumulator(writer: AlongWriter) -> tuple[DType, str]:
    """The dtype sums are made in, and what nothing sums up to: -0.0 changes no element."""
    dtype = scalar.compute_dtype(writer.value.spec.dtype)
    number = "1" if writer.op == "cumprod" else "-0.0" if dtype.is_floating_point else "0"
    return dtype, f"{scalar.cast_name(dtype)}({number})"


def _step(
    writer: AlongWriter, total: str, dtype: DType, variables: Mapping[int, str], indent: int
) -> None:
    """One more element."""
    new = scalar.convert(writer.element(variables), writer.source, dtype)
    symbol = RUNNING[writer.op]
    writer.text.add(indent, f"{total} = {total} {symbol} {new}")
    rounded = scalar.convert(total, dtype, writer.value.spec.dtype)
    stored = scalar.store(rounded, writer.value.spec.dtype)
    writer.text.add(indent, f"{writer.at('out', variables)} = {stored}")


def running_along(writer: AlongWriter) -> Function:
    """Several rows at a time, for each sum waits for the one before it."""
    text, walk = writer.text, writer.walk
    along, outer = walk.along, walk.outer
    dtype, nothing = _accumulator(writer)

    def rows(variables: Sequence[dict[int, str]], indent: int) -> None:
        for number in range(len(variables)):
            text.add(indent, f"total{number} = {nothing}")
        text.add(indent, f"for i{along} in range({writer.extent(along)}):")
        for number, row in enumerate(variables):
            _step(writer, f"total{number}", dtype, {**row, along: f"i{along}"}, indent + 1)

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
    dtype, nothing = _accumulator(writer)
    scratch = Scratch("totals", dtype, TILE, per_worker=True)
    text.parameter("totals", scalar.storage_type(dtype) + "*", scratch)
    text.add(1, "for task in range(lo, hi):")
    around = writer.split(writer.open_tile("task", 2), walk.outer, 2)
    cell = f"totals[worker * {TILE} + i{inner} - start]"
    text.add(2, f"for i{inner} in range(start, stop):")
    text.add(3, f"{cell} = {nothing}")
    text.add(2, f"for i{along} in range({writer.extent(along)}):")
    text.add(3, f"for i{inner} in range(start, stop):")
    text.add(4, f"total = {cell}")
    _step(writer, "total", dtype, {**around, along: f"i{along}", inner: f"i{inner}"}, 4)
    text.add(4, f"{cell} = total")
    work = walk.extents[along] * smallest(walk.extents[inner], TILE)
    doc = f"{writer.value.spec}: across rows"
    return writer.finish(writer.name, writer.around * writer.tiles, work, doc)
