"""Printing the positions of the first few of every row in order: equal ones as they lie, NaN as the largest."""

from __future__ import annotations

from ... import dtypes
from .. import scalar
from ..along import AlongWriter
from ..kernel import Function, Scratch

#: Most positions that are kept in order while a row is gone through.
MOST = 64
#: Elements looked at together: mostly none of them is among the first.
PIECE = 64
#: Elements from what one worker keeps to what the next does, at least: no two write to one line of memory.
_APART = 32


def leading_along(writer: AlongWriter) -> Function:
    """One row after the other, the best so far in order in memory of each worker's own."""
    text, walk = writer.text, writer.walk
    along, extent = walk.along, writer.extent(walk.along)
    count = _kept(writer)

    def element(position: str) -> str:
        return writer.element({**around, along: position})

    text.add(1, "for task in range(lo, hi):")
    text.add(2, "row = task")
    around = writer.split("row", walk.outer, 2)
    text.add(2, f"base = worker * ({count} + {_APART}) + 1")  # the cell before is looked at
    text.add(2, f"for i{along} in range({count}):")
    text.add(3, f"new = {element(f'i{along}')}")
    _insert(writer, f"i{along}", 3)
    text.add(2, f"worst = best[base + {count} - 1]")
    text.add(2, f"for begin in range({count}, {extent}, {PIECE}):")
    text.add(3, f"end = minimum_i64(begin + {PIECE}, {extent})")
    text.add(3, f"extreme = {element('begin')}")
    text.add(3, f"for i{along} in range(begin, end):")
    text.add(4, f"extreme = {_extreme(writer)}(extreme, {element(f'i{along}')})")
    # NaN is not among the smallest, but hides the smallest of its piece, which is then gone through.
    nan = writer.source.is_floating_point and not writer.value.attributes["descending"]
    hidden = " | (extreme != extreme)" if nan else ""
    text.add(3, f"if {_before(writer, 'extreme', 'worst')}{hidden}:")
    text.add(4, f"for i{along} in range(begin, end):")
    text.add(5, f"new = {element(f'i{along}')}")
    text.add(5, f"if {_before(writer, 'new', 'worst')}:")
    _insert(writer, f"{count} - 1", 6)
    text.add(6, f"worst = best[base + {count} - 1]")
    text.add(2, f"for place in range({count}):")
    text.add(3, f"{writer.at('out', {**around, along: 'place'})} = places[base + place]")
    doc = f"{writer.value.spec}: along rows"
    return writer.finish(writer.name, writer.around, walk.extents[along], doc)


def _kept(writer: AlongWriter) -> str:
    """How many positions are wanted; the memory of the best so far and of where they are."""
    count = writer.value.attributes["count"]
    for name, kind in (("best", scalar.compute_dtype(writer.source)), ("places", dtypes.int64)):
        scratch = Scratch(name, kind, count + _APART, per_worker=True)
        writer.text.parameter(name, scalar.storage_type(kind) + "*", scratch)
    return writer.number("count", count)


def _insert(writer: AlongWriter, last: str, indent: int) -> None:
    """Put ``new`` among the best, of which the one at ``last`` goes."""
    text, old = writer.text, "best[at - 1]"
    falls = writer.value.attributes["descending"]
    text.add(indent, f"at = base + {last}")

    def move_up(indent: int, before: str) -> None:
        text.add(indent, f"while (at > base) and {before}:")
        text.add(indent + 1, f"best[at] = {old}")
        text.add(indent + 1, "places[at] = places[at - 1]")
        text.add(indent + 1, "at = at - 1")

    if not writer.source.is_floating_point:
        move_up(indent, _before(writer, "new", old))
    else:  # NaN is the largest: it goes before all others, or stays behind them
        text.add(indent, "if new == new:")
        move_up(indent + 1, f"(new > {old})" if falls else f"((new < {old}) | ({old} != {old}))")
        if falls:
            text.add(indent, "else:")
            move_up(indent + 1, f"({old} == {old})")
    text.add(indent, "best[at] = new")
    text.add(indent, f"places[at] = i{writer.walk.along}")


def _before(writer: AlongWriter, new: str, old: str) -> str:
    """Does an element come before one that lies before it?"""
    falls = writer.value.attributes["descending"]
    found = f"({new} {'>' if falls else '<'} {old})"
    if not writer.source.is_floating_point:
        return found
    larger, smaller = (new, old) if falls else (old, new)
    return f"({found} | (({larger} != {larger}) & ({smaller} == {smaller})))"


def _extreme(writer: AlongWriter) -> str:
    """The function that gives the one of two elements that comes first, or NaN."""
    name = "maximum" if writer.value.attributes["descending"] else "minimum"
    return f"{name}_{scalar.compute_type(writer.source)}"
