"""Kernels over batches of small matrices or rows: a register's lanes are taken from as many of them, and given back.

A *tile* is as many members of the batch as a register has lanes. The elements of its members are read row by row, as
they lie, and turned round, so that one vector has one element of each. The last tile may have fewer: its other lanes
do what the last member does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..ir_text import FunctionText
from ..products.vector_kind import Kind, declarations, inner
from ..products.vector_machine import Machine
from .lanes import Lanes, Rows

__all__ = ["Batch", "batch_module"]

_MORE = """declare {v} @llvm.fabs.{s}({v})
declare {v} @llvm.sqrt.{s}({v})"""


@dataclass(frozen=True)
class Batch:
    """What a kernel is written with: lanes, and the words that it was given."""

    lanes: Lanes
    words: Sequence[str]
    #: The first member of the tile, and how many there are in the batch.
    first: str
    count: str
    scratch: str
    #: Where it is noted that a member needs an exception, in kernels that fail then.
    failed: str = ""

    @property
    def f(self) -> FunctionText:
        """The function."""
        return self.lanes.f

    def room(self, before: str | int) -> str:
        """The scratch memory behind so many vectors."""
        return self.f.at(self.scratch, before, self.lanes.kind.vector)

    def take(self, array: str, elements: str | int, place: str) -> None:
        """Put the elements of the tile's members in an array where a vector has one of each."""
        self._call("take", array, elements, place)

    def give(self, place: str, elements: str | int, array: str) -> None:
        """Put them back."""
        self._call("give", array, elements, place)

    def room_of(self, elements: str) -> str:
        """How many vectors the elements of a member take: whole vectors of them are turned round together."""
        lanes = self.lanes.kind.lanes
        return self.f.make(f"and i64 {self.f.sum(elements, lanes - 1)}, -{lanes}")

    def square(self, array: str, n: str) -> tuple[Rows, str]:
        """Square matrices, taken to the beginning of the scratch memory; and where room is behind them."""
        elements = self.f.product(n, n)
        self.take(array, elements, self.scratch)
        return Rows(self.lanes, self.scratch, n), self.room(self.room_of(elements))

    def _call(self, name: str, array: str, elements: str | int, place: str) -> None:
        given = f"ptr {array}, i64 {self.first}, i64 {self.count}, i64 {elements}, ptr {place}"
        self.f.add(f"call void @{name}({given})")


def batch_module(
    kind: Kind,
    symbol: str,
    arrays: int,
    numbers: int,
    write: Callable[[Batch], None],
    given: Kind | None = None,
    checked: bool = False,
    members_of_tile: int = 0,
) -> str:
    """The module with a kernel over tiles; its arguments: arrays, numbers, how many members, vectors of scratch memory.

    A tile has as many members as a vector has lanes, or ``members_of_tile``. What is put back has elements ``given`` by
    another kind, if there is one, with as many lanes. Where it is ``checked``, the last array is left out, and what
    ``write`` says through ``failed`` is returned.

    >>> kind = Kind("f32", Machine(64, 8, 3))
    >>> batch_module(kind, "nothing", 1, 0, lambda batch: None).count("@nothing(")
    1
    """
    given = given or kind
    f = inner(kind, f"i32 @{symbol}(ptr %args, i64 %lo, i64 %hi, i64 %worker)")
    arrays -= checked
    words = [f.make(f"load ptr, ptr {f.at('%args', i, 'i64')}") for i in range(arrays)]
    words += ["null"] * checked
    words += [f.word("%args", arrays + i) for i in range(numbers)]
    failed = f.make("alloca i32, align 4") if checked else ""
    if checked:
        f.add(f"store i32 0, ptr {failed}")
    count, vectors = (f.word("%args", arrays + numbers + i) for i in range(2))
    scratch = f.make(f"alloca {given.vector}, i64 {vectors}, align 64")
    with f.loop("%lo", "%hi") as tile:
        first = f.product(tile, members_of_tile or kind.lanes)
        write(Batch(Lanes(f, kind), words, first, count, scratch, failed))
    f.add(f"ret i32 {f.make(f'load i32, ptr {failed}') if checked else 0}")
    more = _MORE.format(v=kind.vector, s=kind.suffix)
    kinds = (kind, given, _narrow(kind), _narrow(given))
    declared = dict.fromkeys(line for k in kinds for line in declarations(k).splitlines())
    return "\n".join([*declared, more, _take(kind), _give(given), f.finish()])


#: So many members are turned round together: a square of vectors, of which a register holds two where it is wide.
_TOGETHER = 8

_HEAD = "(ptr noalias %array, i64 %first, i64 %count, i64 %elements, ptr noalias %place)"


def _narrow(kind: Kind) -> Kind:
    lanes = min(kind.lanes, _TOGETHER)
    return Kind(f"f{8 * kind.nbytes}", Machine(lanes * kind.nbytes, 1, 1))


def _members(f: FunctionText, kind: Kind, start: str) -> list[str]:
    """The addresses of some members of a tile."""
    last, first = f.difference("%count", 1), f.sum("%first", start)
    return [
        f.at("%array", f.product(f.least(f.sum(first, lane), last), "%elements"), kind.scalar)
        for lane in range(kind.lanes)
    ]


def _places(f: FunctionText, wide: Kind, kind: Kind, e: str, start: str) -> list[str]:
    """Where their part of the vectors of some elements is."""
    own = f.at("%place", start, kind.scalar)
    return [f.at(own, f.sum(e, number), wide.vector) for number in range(kind.lanes)]


def _take(wide: Kind) -> str:
    f, kind = inner(wide, f"internal void @take{_HEAD}"), _narrow(wide)
    with f.loop(0, wide.lanes, kind.lanes) as start:
        members = _members(f, kind, start)
        with f.loop(0, "%elements", kind.lanes) as e:
            mask = kind.first_mask(f, f.difference("%elements", e))
            rows = [kind.masked_load(f, f.at(m, e, kind.scalar), mask) for m in members]
            columns = kind.transposed(f, rows)
            for column, at in zip(columns, _places(f, wide, kind, e, start), strict=True):
                f.add(f"store {kind.vector} {column}, ptr {at}")
    f.add("ret void")
    return f.finish()


def _give(wide: Kind) -> str:
    f, kind = inner(wide, f"internal void @give{_HEAD}"), _narrow(wide)
    with f.loop(0, wide.lanes, kind.lanes) as start:
        members = _members(f, kind, start)
        with f.loop(0, "%elements", kind.lanes) as e:
            mask = kind.first_mask(f, f.difference("%elements", e))
            places = _places(f, wide, kind, e, start)
            columns = [f.make(f"load {kind.vector}, ptr {at}") for at in places]
            for member, row in zip(members, kind.transposed(f, columns), strict=True):
                kind.masked_store(f, row, f.at(member, e, kind.scalar), mask)
    f.add("ret void")
    return f.finish()
