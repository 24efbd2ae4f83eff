"""Planes of channels turned around, in LLVM assembly: a vector is what is at one place in as many channels."""

from __future__ import annotations

from collections.abc import Sequence

from ..ir_text import FunctionText, Variable
from .tap_lanes import plain
from .vector_kind import Kind, inner

__all__ = [
    "BLOCKS",
    "SIDES",
    "clear",
    "element_table",
    "load_call",
    "loaded",
    "plain_table",
    "some_places",
    "stored",
    "summed",
]

#: Words that say which memory is seen, in elements: a plane's extents, strides of samples and channels, the stretches
#: without gaps that it is made of, where the first tap of the first position looks, how far apart positions are, and
#: the extents of the copy.
SIDES = (
    *("n1", "n0", "xn", "xc", "stretches", "length", "xs"),
    *("l1", "l0", "t1", "t0", "h1", "h0"),
)
#: Sums of a block, for which there are functions: of positions, or of taps.
BLOCKS = (9, 8, 7)


def loaded(kind: Kind) -> str:
    """The function that turns as many channels as there are lanes, up to channel ``last``, into vectors.

    for stretches, elements e of one: out + table[number of e] = vector of x[c * xc + e] of channels c, without -0.0

    >>> from .vector_machine import Machine
    >>> loaded(Kind("f32", Machine(64, 8, 3))).startswith("define internal void @loaded(")
    True
    """
    given = "i64 %xc, i64 %last, i64 %stretches, i64 %length, i64 %xs, ptr noalias %table"
    f = inner(kind, f"internal void @loaded(ptr noalias %x, {given}, ptr noalias %out)")
    with f.loop(0, "%stretches") as stretch, f.loop(0, "%length", kind.lanes) as e:
        start = f.at(f.at("%x", f.product(stretch, "%xs"), "i8"), e, kind.scalar)
        mask = kind.first_mask(f, f.difference("%length", e))
        rows = [f.at(start, f.product("%xc", f.least(i, "%last")), "i8") for i in range(kind.lanes)]
        turned = kind.transposed(f, [kind.masked_load(f, row, mask) for row in rows])
        entry = f.at("%table", f.sum(f.product(stretch, "%length"), e), "i64")
        for lane, value in enumerate(turned):
            kind.store(f, plain(kind, f, value), f.at("%out", f.word(entry, lane), "i8"))
    f.add("ret void")
    return f.finish()


def stored(kind: Kind) -> str:
    """The function that turns vectors back into ``length`` elements of ``count`` channels.

    >>> from .vector_machine import Machine
    >>> stored(Kind("f32", Machine(64, 8, 3))).startswith("define internal void @stored(")
    True
    """
    given = "ptr noalias %seen, ptr noalias %out, i64 %om, i64 %count, i64 %length"
    f = inner(kind, f"internal void @stored({given})")
    with f.loop(0, "%length", kind.lanes) as e:
        mask = kind.first_mask(f, f.difference("%length", e))
        start = f.at("%seen", f.product(e, kind.machine.vector), "i8")
        turned = kind.transposed(
            f, [kind.load(f, p) for p in kind.vectors_at(f, start, kind.lanes)]
        )
        target = f.at("%out", e, kind.scalar)
        for lane, value in enumerate(turned):
            with f.when(f.compare("sgt", "%count", lane)):
                kind.masked_store(f, value, f.at(target, f.product("%om", lane), "i8"), mask)
    f.add("ret void")
    return f.finish()


def clear(kind: Kind) -> str:
    """The function that fills memory with negative zeros.

    >>> from .vector_machine import Machine
    >>> clear(Kind("f32", Machine(64, 8, 3))).startswith("define internal void @clear(")
    True
    """
    f = inner(kind, "internal void @clear(ptr %out, i64 %count)")
    gap = kind.splat(f, "-0.0")
    with f.loop(0, "%count") as i:
        kind.store(f, gap, f.at("%out", f.product(i, kind.machine.vector), "i8"))
    f.add("ret void")
    return f.finish()


def element_table(kind: Kind, f: FunctionText, a: dict[str, str], table: str) -> None:
    """Write where in the copy each element of a plane goes; those that nothing sees go behind its end.

    >>> from .vector_machine import Machine
    >>> f = FunctionText("void @f(ptr %table)")
    >>> element_table(Kind("f32", Machine(64, 8, 3)), f, dict.fromkeys(SIDES, "1"), "%table")
    >>> f.finish().count("store i64 %t")
    6
    """
    vector = kind.machine.vector
    nowhere = f.product(f.product(a["h1"], a["h0"]), vector)
    count = f.product(a["n1"], a["n0"])
    with f.loop(0, a["n1"]) as i, f.loop(0, a["n0"]) as j:
        line, column = f.difference(i, a["l1"]), f.difference(j, a["l0"])
        low, high = f.compare("ult", line, a["h1"]), f.compare("ult", column, a["h0"])
        there = f.product(f.sum(f.product(line, a["h0"]), column), vector)
        inside = f.make(f"and i1 {low}, {high}")
        place = f.make(f"select i1 {inside}, i64 {there}, i64 {nowhere}")
        f.put(place, f.at(table, f.sum(f.product(i, a["n0"]), j), "i64"))
    with f.loop(count, f.sum(count, kind.lanes)) as i:
        f.put(nowhere, f.at(table, i, "i64"))


def plain_table(kind: Kind, f: FunctionText, count: str, table: str) -> None:
    """Write the table of vectors that follow each other.

    >>> from .vector_machine import Machine
    >>> f = FunctionText("void @f(ptr %table, i64 %n)")
    >>> plain_table(Kind("f32", Machine(64, 8, 3)), f, "%n", "%table")
    >>> f.finish().count("mul i64")
    1
    """
    with f.loop(0, count) as i:
        f.put(f.product(i, kind.machine.vector), f.at(table, i, "i64"))


def load_call(f: FunctionText, kind: Kind, a: dict[str, str], given: tuple[str, ...]) -> None:
    """Turn channels of a plane around: where the first is, the number of the last, the table, and the target.

    >>> from .vector_machine import Machine
    >>> f = FunctionText("void @f()")
    >>> names = {"xc": "1", "stretches": "2", "length": "3", "xs": "4"}
    >>> load_call(f, Kind("f32", Machine(64, 8, 3)), names, ("%x", "15", "%table", "%out"))
    >>> f.lines[-1].startswith("  call void @loaded(ptr %x, ")
    True
    """
    x, last, table, out = given
    xc, xs = (f.product(a[name], kind.nbytes) for name in ("xc", "xs"))
    f.add(
        f"call void @loaded(ptr {x}, i64 {xc}, i64 {last}, i64 {a['stretches']}, i64 {a['length']},"
        f" i64 {xs}, ptr {table}, ptr {out})"
    )


def summed(
    kind: Kind,
    f: FunctionText,
    starts: Sequence[str],
    walk: tuple[str, str, str],
    vectors: str,
) -> list[Variable]:
    """Sums of products: of what is some bytes from each of some places, and the vectors for these distances.

    for (k = begin; k < end; k++) for all i: sum[i] += vectors[table[k][1]] * starts[i][table[k][0]]

    >>> from .vector_machine import Machine
    >>> f = FunctionText("void @f()")
    >>> len(summed(Kind("f32", Machine(64, 8, 3)), f, ["%a", "%b"], ("%table", "0", "9"), "%v"))
    2
    """
    table, begin, end = walk
    sums = [f.variable(kind.vector, "zeroinitializer") for _ in starts]
    with f.loop(begin, end) as k:
        entry = f.at(table, f.product(k, 2), "i64")
        at, factor = f.word(entry, 0), kind.load(f, f.at(vectors, f.word(entry, 1), "i8"))
        for start, total in zip(starts, sums, strict=True):
            seen = kind.load(f, f.at(start, at, "i8"))
            total.set(kind.multiply_add(f, factor, seen, total.get()))
    return sums


def some_places(f: FunctionText, count: str, blocks: Sequence[int] = BLOCKS) -> str:
    """How many places a block has, for so many: as many as leave the fewest empty.

    >>> some_places(FunctionText("i64 @f(i64 %n)"), "%n").startswith("%t")
    True
    """
    best, least = f.variable("i64", blocks[0]), f.variable("i64", 1 << 60)
    for each in blocks:
        work = f.product(f.quotient_up(count, each), each + 1)
        smaller = f.compare("slt", work, least.get())
        possible = f.compare("sge", count, each)
        last = "true" if each == blocks[-1] else possible
        with f.when(f.make(f"and i1 {smaller}, {last}")):
            best.set(each)
            least.set(work)
    return best.get()
