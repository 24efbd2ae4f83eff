"""Printing the positions of extremes: the first of equal ones wins, and NaN is the most extreme of all."""

from __future__ import annotations

from ... import dtypes
from ...sizes import largest, smallest
from .. import scalar
from ..along import EXTREMES, TILE, AlongWriter
from ..kernel import Function, Scratch

#: Elements whose extreme is found before its position is looked for.
PIECE = 256
#: Most elements of a row that is gone through element by element.
SHORT = 24
#: Elements of a block of neighbouring rows, whose extremes are found apart.
BLOCK = 1 << 14


def _better(writer: AlongWriter, new: str, best: str) -> str:
    """Is an element better than the best before it? The first NaN is the best of all."""
    symbol, _ = EXTREMES[writer.op]
    found = f"({new} {symbol} {best})"
    if not writer.source.is_floating_point:
        return found
    return f"({found} | (({new} != {new}) & ({best} == {best})))"


def row_extremes(writer: AlongWriter) -> Function:
    """One row after the other; of a long one the extreme of every piece first, then where it is in the best piece."""
    text, walk = writer.text, writer.walk
    text.add(1, "for task in range(lo, hi):")
    text.add(2, "row = task")
    around = writer.split("row", walk.outer, 2)
    text.add(2, f"best = {writer.element({**around, walk.along: 'int64(0)'})}")
    text.add(2, "where = int64(0)")
    text.add(2, f"if {writer.extent(walk.along)} <= {SHORT}:")
    _short_row(writer, around, 3)
    text.add(2, "else:")
    _long_row(writer, around, 3)
    text.add(2, f"{writer.at('out', around)} = where")
    doc = f"{writer.value.spec}: along rows"
    return writer.finish(writer.name, writer.around, walk.extents[walk.along], doc)


def _extreme(writer: AlongWriter) -> str:
    """The function that gives the better of two elements."""
    return f"{EXTREMES[writer.op][1]}_{scalar.compute_type(writer.source)}"


def _short_row(writer: AlongWriter, around: dict[int, str], indent: int) -> None:
    """Element by element, without branches, which would be guessed wrong as often as not."""
    text, along = writer.text, writer.walk.along
    text.add(indent, f"for i{along} in range(1, {writer.extent(along)}):")
    text.add(indent + 1, f"new = {writer.element({**around, along: f'i{along}'})}")
    text.add(indent + 1, f"where = select({_better(writer, 'new', 'best')}, i{along}, where)")
    text.add(indent + 1, f"best = {_extreme(writer)}(best, new)")


def _long_row(writer: AlongWriter, around: dict[int, str], indent: int) -> None:
    """Extremes of pieces are found in vectors."""
    text, along = writer.text, writer.walk.along

    def element(position: str) -> str:
        return writer.element({**around, along: position})

    text.add(indent, f"for begin in range(0, {writer.extent(along)}, {PIECE}):")
    text.add(indent + 1, f"end = minimum_i64(begin + {PIECE}, {writer.extent(along)})")
    text.add(indent + 1, f"extreme = {element('begin')}")
    text.add(indent + 1, f"for i{along} in range(begin, end):")
    text.add(indent + 2, f"extreme = {_extreme(writer)}(extreme, {element(f'i{along}')})")
    text.add(indent + 1, f"if {_better(writer, 'extreme', 'best')}:")
    text.add(indent + 2, "best = extreme")
    text.add(indent + 2, "where = begin")
    text.add(indent, f"found = {element('where')}")
    # Where the best one is NaN, the first NaN is looked for: there is none before it in its piece.
    nan = writer.source.is_floating_point
    loop = "(found != best) and (found == found)" if nan else "found != best"
    text.add(indent, f"while {loop}:")
    text.add(indent + 1, "where = where + 1")
    text.add(indent + 1, f"found = {element('where')}")


def _blocks(writer: AlongWriter) -> tuple[int, int]:
    """How many blocks the rows are cut into, and how long each is."""
    walk = writer.walk
    size = largest(1, BLOCK // smallest(walk.extents[-1], TILE))
    return -(-walk.extents[walk.along] // size), size


def _partial(writer: AlongWriter, index: str) -> tuple[str, str]:
    """The best element of a block of a row, and its position."""
    dtype = scalar.compute_dtype(writer.source)
    count = writer.around * _blocks(writer)[0] * writer.walk.extents[-1]
    for name, kind in (("best", dtype), ("place", dtypes.int64)):
        scratch = Scratch(name, kind, count, per_worker=False)
        writer.text.parameter(name, scalar.storage_type(kind) + "*", scratch)
    return f"best[{index}]", f"place[{index}]"


def block_extremes(writer: AlongWriter) -> Function:
    """Neighbouring rows together: the best of each in every block."""
    text, walk = writer.text, writer.walk
    along, inner = walk.along, walk.along + 1
    count, size = _blocks(writer)
    blocks, length = writer.number("blocks", count), writer.number("block_rows", size)
    text.add(1, "for task in range(lo, hi):")
    part = writer.open_tile("task", 2)
    text.add(2, f"first = ({part} % {blocks}) * {length}")
    text.add(2, f"last = minimum_i64(first + {length}, {writer.extent(along)})")
    text.add(2, f"base = {part} * {writer.extent(inner)}")
    text.add(2, f"row = {part} // {blocks}")
    around = writer.split("row", walk.outer, 2)
    best, place = _partial(writer, f"base + i{inner}")
    text.add(2, f"for i{inner} in range(start, stop):")
    text.add(3, f"{best} = {writer.element({**around, along: 'first', inner: f'i{inner}'})}")
    text.add(3, f"{place} = first")
    text.add(2, f"for i{along} in range(first + 1, last):")
    text.add(3, f"for i{inner} in range(start, stop):")
    new = writer.element({**around, along: f"i{along}", inner: f"i{inner}"})
    text.add(4, f"new = {new}")
    text.add(4, f"old = {best}")
    text.add(4, f"wins = {_better(writer, 'new', 'old')}")
    text.add(4, f"{best} = select(wins, new, old)")
    text.add(4, f"{place} = select(wins, i{along}, {place})")
    work = size * smallest(walk.extents[inner], TILE)
    doc = f"{writer.value.spec}: across rows, by blocks"
    return writer.finish(writer.name, writer.around * count * writer.tiles, work, doc)


def best_of_blocks(writer: AlongWriter) -> Function:
    """The best of the blocks of every row, the first of equal ones."""
    text, walk = writer.text, writer.walk
    inner = walk.along + 1
    count, _ = _blocks(writer)
    blocks, width = writer.number("blocks", count), writer.extent(inner)
    text.add(1, "for task in range(lo, hi):")
    row = writer.open_tile("task", 2)
    text.add(2, f"base = {row} * {blocks} * {width}")
    around = writer.split(row, walk.outer, 2)
    text.add(2, f"for i{inner} in range(start, stop):")
    best, place = _partial(writer, f"base + i{inner}")
    text.add(3, f"top = {best}")
    text.add(3, f"where = {place}")
    text.add(3, f"for block in range(1, {blocks}):")
    best, place = _partial(writer, f"base + block * {width} + i{inner}")
    text.add(4, f"new = {best}")
    text.add(4, f"wins = {_better(writer, 'new', 'top')}")
    text.add(4, "top = select(wins, new, top)")
    text.add(4, f"where = select(wins, {place}, where)")
    text.add(3, f"{writer.at('out', {**around, inner: f'i{inner}'})} = where")
    work = count * smallest(walk.extents[inner], TILE)
    name = f"{writer.name}_combine"
    return writer.finish(name, writer.around * writer.tiles, work, "the best of the blocks")
