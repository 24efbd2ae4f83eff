"""Where the vectors of some positions of a convolution lie, and how its steps get their arguments, in LLVM assembly."""

from __future__ import annotations

from collections.abc import Sequence

from ..ir_text import FunctionText
from .vector_kind import Kind, inner

__all__ = ["FEW_RUNS", "Position", "arguments", "runs", "tap_table"]

#: Up to this many runs of a vector are loaded without a loop; those that are not there have no elements.
FEW_RUNS = 3
#: Arguments of the steps that are addresses; the others are numbers.
POINTERS = ("x", "w", "y", "bias", "out", "scratch")


def arguments(f: FunctionText, names: Sequence[str]) -> dict[str, str]:
    """The words that a step is given, by name.

    >>> arguments(FunctionText("void @f(ptr %args)"), ("x", "samples"))
    {'x': '%t2', 'samples': '%t4'}
    """
    return {
        name: f.make(
            f"load {'ptr' if name in POINTERS else 'i64'}, ptr {f.at('%args', number, 'i64')}"
        )
        for number, name in enumerate(names)
    }


def tap_table(
    kind: Kind, f: FunctionText, a: dict[str, str], table: str, stride: str, offsets: str
) -> None:
    """Write how far in memory each channel's taps are, given those of the first one, and from one to the next.

    >>> from .vector_machine import Machine
    >>> f = FunctionText("void @f(ptr %table, ptr %offsets)")
    >>> given = {"channels": "2", "taps": "9"}
    >>> tap_table(Kind("f32", Machine(64, 8, 3)), f, given, "%table", "100", "%offsets")
    >>> f.finish().count("store i64 %t")
    3
    """
    with f.loop(0, a["channels"]) as c:
        before, start = f.product(c, a["taps"]), f.product(c, stride)
        with f.loop(0, a["taps"]) as t:
            value = f.sum(start, f.word(offsets, t))
            f.put(f.product(value, kind.nbytes), f.at(table, f.sum(before, t), "i64"))


def runs(kind: Kind) -> str:
    """The function that finds where the vectors of positions q, q + 1... lie.

    Each vector is made of *runs*, stretches of neighbours in memory, for a masked load or store each::

        n, i2, i1, i0 = position q;
        for (j = 0; j < count; j += len) { len = min(p0 - i0, count - j, lanes - j % lanes);
          add (n * sn + i2 * s2 + i1 * s1 + i0 - lane, mask of lanes lane..lane + len) to vector j / lanes;
          next position }

    >>> from .vector_machine import Machine
    >>> runs(Kind("f32", Machine(64, 8, 3))).startswith("define internal void @runs(")
    True
    """
    f = inner(
        kind,
        "internal void @runs(ptr %table, i64 %q, i64 %count, i64 %p2, i64 %p1, i64 %p0,"
        " i64 %sn, i64 %s2, i64 %s1)",
    )
    for v in range(kind.machine.vectors):
        entry = f.at("%table", v * kind.run_words, "i64")
        for word in (0, *(n + r for n in (1, 1 + kind.lanes) for r in range(FEW_RUNS))):
            f.put(0, f.at(entry, word, "i64"))
    at = Position(f, "%q", ("%p2", "%p1", "%p0"))
    j = f.variable("i64", 0)
    with f.as_long(j, "%count") as now:
        vector, lane = f.divided(now, kind.lanes)
        left = f.least(f.difference("%count", now), f.difference(kind.lanes, lane))
        length = f.least(left, f.difference("%p0", at.i0.get()))
        base = f.difference(at.place(("%sn", "%s2", "%s1")), lane)
        entry = f.at("%table", f.product(vector, kind.run_words), "i64")
        number = f.word(entry, 0)
        place = f.at(entry, f.sum(number, 1), "i64")
        f.put(f.product(base, kind.nbytes), place)
        f.put(f.make(f"shl i64 {f.ones(length)}, {lane}"), f.at(place, kind.lanes, "i64"))
        f.put(f.sum(number, 1), entry)
        j.set(f.sum(now, length))
        at.move(length)
    f.add("ret void")
    return f.finish()


class Position:
    """A position of a box of samples that is walked from one end to the other."""

    def __init__(self, f: FunctionText, number: str, extents: tuple[str, str, str]) -> None:
        self.f, self.extents = f, extents
        p2, p1, p0 = extents
        n, rest = f.divided(number, f.product(p2, f.product(p1, p0)))
        i2, rest = f.divided(rest, f.product(p1, p0))
        i1, i0 = f.divided(rest, p0)
        self.n, self.i2, self.i1, self.i0 = (f.variable("i64", i) for i in (n, i2, i1, i0))

    def place(self, strides: tuple[str, str, str]) -> str:
        """Where it lies; the last dimension's elements are neighbours."""
        f, result = self.f, self.i0.get()
        for index, stride in zip((self.n, self.i2, self.i1), strides, strict=True):
            result = f.sum(result, f.product(index.get(), stride))
        return result

    def move(self, count: str | int) -> None:
        """Go on by so many positions, which is to the end of a row at most."""
        f, (p2, p1, p0) = self.f, self.extents
        self.i0.set(f.sum(self.i0.get(), count))
        with f.when(f.compare("eq", self.i0.get(), p0)):
            self.i0.set(0)
            self.i1.set(f.sum(self.i1.get(), 1))
            with f.when(f.compare("eq", self.i1.get(), p1)):
                self.i1.set(0)
                self.i2.set(f.sum(self.i2.get(), 1))
                with f.when(f.compare("eq", self.i2.get(), p2)):
                    self.i2.set(0)
                    self.n.set(f.sum(self.n.get(), 1))
