"""LLVM assembly about the lanes of vectors that are copied: which there are, and which belong together."""

from __future__ import annotations

from collections.abc import Sequence

from ..ir_text import FunctionText, Variable
from .vector_kind import Kind

__all__ = ["copy_narrow", "halves", "inside", "multiples", "or_gap", "plain", "words_of"]


def inside(kind: Kind, f: FunctionText, first: str, end: str) -> str:
    """The bits of a vector's columns, the first of which is ``first``, that are in [0, ``end``).

    >>> from .vector_machine import Machine
    >>> f = FunctionText("i64 @f(i64 %first, i64 %end)")
    >>> inside(Kind("f32", Machine(64, 8, 3)), f, "%first", "%end")
    '%t11'
    """
    ends = (f.difference(0, first), f.difference(end, first))
    before, all_ = (f.ones(f.most(0, f.least(n, kind.lanes))) for n in ends)
    return f.difference(all_, before)


def plain(kind: Kind, f: FunctionText, value: str) -> str:
    """Without negative zeros, which stand for what is not there.

    >>> from .vector_machine import Machine
    >>> f = FunctionText("void @f()")
    >>> plain(Kind("f32", Machine(64, 8, 3)), f, "%v")
    '%t1'
    """
    return f.make(f"fadd {kind.vector} {value}, zeroinitializer")


def or_gap(kind: Kind, f: FunctionText, value: str, mask: str) -> str:
    """Elements that the mask has, negative zeros for the others.

    >>> from .vector_machine import Machine
    >>> f = FunctionText("void @f()")
    >>> or_gap(Kind("f32", Machine(64, 8, 3)), f, "%v", "%m")
    '%t4'
    """
    gap = kind.splat(f, "-0.0")
    return f.make(
        f"select {kind.mask} {mask}, {kind.vector} {plain(kind, f, value)}, {kind.vector} {gap}"
    )


def words_of(kind: Kind, f: FunctionText, value: str) -> str:
    """A word for every lane of a vector.

    >>> from .vector_machine import Machine
    >>> f = FunctionText("void @f(i64 %n)")
    >>> words_of(Kind("f32", Machine(64, 8, 3)), f, "%n")
    '%t2'
    """
    words, zeros = f"<{kind.lanes} x i64>", f"<{kind.lanes} x i32> zeroinitializer"
    one = f.make(f"insertelement {words} poison, i64 {value}, i64 0")
    return f.make(f"shufflevector {words} {one}, {words} poison, {zeros}")


def multiples(kind: Kind, f: FunctionText, value: str) -> str:
    """None, one, two... times a word, for every lane of a vector.

    >>> from .vector_machine import Machine
    >>> f = FunctionText("void @f(i64 %n)")
    >>> multiples(Kind("f32", Machine(64, 8, 3)), f, "%n")
    '%t3'
    """
    numbers = ", ".join(f"i64 {lane}" for lane in range(kind.lanes))
    return f.make(f"mul <{kind.lanes} x i64> <{numbers}>, {words_of(kind, f, value)}")


def halves(kind: Kind, f: FunctionText, low: str, high: str) -> list[str]:
    """The even and the odd elements of two vectors.

    >>> from .vector_machine import Machine
    >>> halves(Kind("f32", Machine(64, 8, 3)), FunctionText("void @f()"), "%a", "%b")
    ['%t1', '%t2']
    """
    numbers = ([phase + 2 * lane for lane in range(kind.lanes)] for phase in range(2))
    return [kind.shuffled(f, low, high, lanes) for lanes in numbers]


def copy_narrow(kind: Kind, f: FunctionText, ways: int, whole: bool) -> None:
    """Copy short lines as `tap_memory.copy` does: one vector of all lines, then the next one.

    >>> from .vector_machine import Machine
    >>> f = FunctionText("void @copy(ptr %x, i64 %x2, i64 %x1)")
    >>> copy_narrow(Kind("f32", Machine(64, 8, 3)), f, 1, True)
    >>> sum("masked.load" in line for line in f.lines)
    1
    """
    width, step = f.product("%width", kind.nbytes), f.product("%g1", "%x1")
    row = f.product("%phases", width)
    low, high = _lines_there(f)
    with f.loop(0, "%width", kind.lanes) as j:
        first = f.sum("%b0", f.product(j, ways))
        starts = [f.sum(first, n * kind.lanes) for n in range(ways)]
        masks = [kind.as_mask(f, inside(kind, f, start, "%n0")) for start in starts]
        stored = "" if whole else kind.first_mask(f, f.difference("%width", j))
        target = f.variable("ptr", f.at("%out", j, kind.scalar))
        gaps = [kind.splat(f, "-0.0")] * ways

        def put(vectors: Sequence[str], target: Variable = target, stored: str = stored) -> None:
            for phase, vector in enumerate(vectors):
                with f.when(f.compare("sgt", "%phases", phase)):
                    place = f.at(target.get(), f.product(width, phase), "i8")
                    if stored:
                        kind.masked_store(f, vector, place, stored)
                    else:
                        kind.store(f, vector, place)
            target.set(f.at(target.get(), row, "i8"))

        with f.loop(0, "%planes") as p:
            plane = f.sum("%b2", f.product(p, "%g2"))
            there = f.compare("ult", plane, "%n2")
            begin, end = (f.make(f"select i1 {there}, i64 {n}, i64 %lines") for n in (low, high))
            line = f.product(f.sum("%b1", f.product(begin, "%g1")), "%x1")
            start = f.at("%x", f.sum(f.product(plane, "%x2"), line), "i8")
            source = f.variable("ptr", f.at(start, first, kind.scalar))
            with f.loop(0, begin):
                put(gaps)
            with f.loop(begin, end):
                places = kind.vectors_at(f, source.get(), ways)
                loads = [kind.masked_load(f, a, m) for a, m in zip(places, masks, strict=True)]
                found = [or_gap(kind, f, v, m) for v, m in zip(loads, masks, strict=True)]
                put(found if ways == 1 else halves(kind, f, found[0], found[1]))
                source.set(f.at(source.get(), step, "i8"))
            with f.loop(end, "%lines"):
                put(gaps)


def _lines_there(f: FunctionText) -> tuple[str, str]:
    """The first of the lines to copy that there is, and the one after the last."""
    ends = (f.difference(0, "%b1"), f.difference("%n1", "%b1"))
    low, high = (f.least("%lines", f.quotient_up(f.most(0, end), "%g1")) for end in ends)
    return low, f.most(low, high)
