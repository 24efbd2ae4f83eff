"""LLVM assembly that copies what windows see: with what is around it, and elements that are seen alike as neighbours.

Positions are one or more columns apart. Columns so far apart are put side by side, in *phases*: what a tap sees from a
vector of positions is one vector of a phase. Around the copied memory are negative zeros, the only ones in there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ..ir_text import FunctionText
from .tap_lanes import copy_narrow, halves, inside, multiples, or_gap, plain, words_of
from .tap_runs import arguments
from .vector_kind import Kind, declarations, inner
from .vector_machine import Machine

__all__ = [
    "COPIED_LINES",
    "MEMORY_WORDS",
    "SEEN_WORDS",
    "Source",
    "copy",
    "copy_call",
    "copy_declarations",
    "memory_text",
]

#: Words that say which memory is seen, in elements: the extents of what is there, its strides, where the first
#: tap of the first position looks, how far apart positions are, how far apart planes and lines are that are looked at.
SEEN_WORDS = (
    *("n2", "n1", "n0", "xn", "xc", "x2", "x1"),
    *("l2", "l1", "l0", "t2", "t1", "t0", "g2", "g1"),
)
#: Words of the step that copies for all positions; ``planes``, ``lines`` and ``width`` are those of the copy.
MEMORY_WORDS = (
    *("x", "out", "samples", "channels"),
    *SEEN_WORDS,
    *("planes", "lines", "width", "phases"),
)
#: Lines of a plane that one unit of the step copies.
COPIED_LINES = 16


class Source(NamedTuple):
    """A piece of a channel: its first element, the place of the first one copied, and the planes and lines to copy."""

    x: str
    b2: str
    b1: str
    b0: str
    planes: str
    lines: str


def copy_declarations(kind: Kind) -> str:
    """What `copy` calls besides the usual.

    >>> copy_declarations(Kind("f32", Machine(64, 8, 3))).count("declare")
    2
    """
    v, m, s = kind.vector, kind.mask, kind.suffix
    pointers = f"<{kind.lanes} x ptr>"
    return "\n".join(
        (
            "declare i64 @llvm.smax.i64(i64, i64)",
            f"declare {v} @llvm.masked.gather.{s}.v{kind.lanes}p0({pointers}, i32, {m}, {v})",
        )
    )


_GIVEN = (
    *("x2", "x1", "b2", "b1", "b0", "n2", "n1", "n0", "g2", "g1"),
    *("planes", "lines", "width", "apart", "phases"),
)


def copy_call(f: FunctionText, kind: Kind, a: dict[str, str], source: Source, out: str) -> None:
    """Copy a piece; ``a`` has the words of `SEEN_WORDS`, ``width`` and ``phases``.

    >>> f = FunctionText("void @f(ptr %x, ptr %out)")
    >>> words = {name: "1" for name in (*SEEN_WORDS, "width", "phases")}
    >>> copy_call(f, Kind("f32", Machine(64, 8, 3)), words, Source("%x", "0", "0", "0", "1", "1"), "%out")
    >>> f.lines[-1].startswith("  call void @copy(ptr %x, ")
    True
    """
    words = {**a, **source._asdict(), "apart": a["t0"]}
    for name in ("x2", "x1"):
        words[name] = f.product(a[name], kind.nbytes)
    given = ", ".join(f"i64 {words[name]}" for name in _GIVEN)
    f.add(f"call void @copy(ptr {source.x}, {given}, ptr {out})")


def copy(kind: Kind, whole: bool = False) -> str:
    """The function that copies a piece of a channel; phases of ``whole`` vectors are written to their ends.

    for (p = 0; p < planes; p++) for (r = 0; r < lines; r++) for (phase = 0; phase < phases; phase++)
      for (j = 0; j < width; j++)
        out[p][r][phase][j] = x[b2 + p * g2][b1 + r * g1][b0 + j * apart + phase], where that is inside, else -0.0

    >>> copy(Kind("f32", Machine(64, 8, 3))).startswith("define internal void @copy(")
    True
    """
    given = ", ".join(f"i64 %{name}" for name in _GIVEN)
    f = inner(kind, f"internal void @copy(ptr %x, {given}, ptr %out)")
    narrow = f.compare("sle", "%width", 2 * kind.lanes)
    for apart in (1, 2):
        with f.when(f.make(f"and i1 {narrow}, {f.compare('eq', '%apart', apart)}")):
            copy_narrow(kind, f, apart, whole)
            f.add("ret void")
            f.lines.append(f"{f.label('never')}:")
    width = f.product("%width", kind.nbytes)
    target, row = f.variable("ptr", "%out"), f.product("%phases", width)
    ways = (
        (f.compare("eq", "%apart", 1), _neighbours, _ends(kind, f, 1)),
        (f.compare("eq", "%apart", 2), _every_second, _ends(kind, f, 2)),
        (f.compare("sgt", "%apart", 2), _far_apart, _ends(kind, f, 1)),
    )
    with f.loop(0, "%planes") as p, f.loop(0, "%lines") as r:
        c2, c1 = f.sum("%b2", f.product(p, "%g2")), f.sum("%b1", f.product(r, "%g1"))
        there = f.make(f"and i1 {f.compare('ult', c2, '%n2')}, {f.compare('ult', c1, '%n1')}")
        lie = f.sum(f.product(c2, "%x2"), f.product(c1, "%x1"))
        source = f.at(f.at("%x", lie, "i8"), "%b0", kind.scalar)
        for test, copied, ends in ways:
            with f.when(f.make(f"and i1 {there}, {test}")):
                copied(_Line(kind, f, source, target.get(), width, whole), ends)
        with f.when(f.make(f"xor i1 {there}, true")):
            line, gap = _Line(kind, f, source, target.get(), width, whole), kind.splat(f, "-0.0")
            with f.loop(0, "%phases") as phase, f.loop(0, "%width", kind.lanes) as j:
                line.store(gap, j, phase)
        target.set(f.at(target.get(), row, "i8"))
    f.add("ret void")
    return f.finish()


class _Line:
    """A line that is copied, from its first column on, which may lie before there is anything."""

    def __init__(
        self, kind: Kind, f: FunctionText, source: str, target: str, width: str, whole: bool
    ) -> None:
        self.kind, self.f, self.source, self.target = kind, f, source, target
        self.width, self.whole = width, whole

    def store(self, value: str, j: str, phase: str | int) -> None:
        """Write a vector of a phase."""
        kind, f = self.kind, self.f
        start = self.target if phase == 0 else f.at(self.target, f.product(self.width, phase), "i8")
        place = f.at(start, j, kind.scalar)
        if self.whole:
            kind.store(f, value, place)
        else:
            kind.masked_store(f, value, place, kind.first_mask(f, f.difference("%width", j)))


class _Ends(NamedTuple):
    """Where a line's vectors change: some see nothing, one the beginning, some all, one the end, and some nothing."""

    begin: str
    whole: str
    end: str
    after: str
    masks: tuple[list[str], list[str]]


def _ends(kind: Kind, f: FunctionText, ways: int) -> _Ends:
    """The same for all lines, whose positions see ``ways`` columns each."""
    span = ways * kind.lanes
    before, there = f.most(0, f.difference(0, "%b0")), f.most(0, f.difference("%n0", "%b0"))

    def position(vectors: str) -> str:
        return f.least("%width", f.product(vectors, kind.lanes))

    begin = position(f.divided(before, span)[0])
    whole = position(f.quotient_up(before, span))
    end = f.most(whole, position(f.divided(there, span)[0]))
    after = f.most(end, position(f.quotient_up(there, span)))
    masks = []
    for first in (begin, end):
        columns = [f.sum(f.product(first, ways), n * kind.lanes) for n in range(ways)]
        bits = [inside(kind, f, f.sum("%b0", column), "%n0") for column in columns]
        masks.append([kind.as_mask(f, b) for b in bits])
    return _Ends(begin, whole, end, after, (masks[0], masks[1]))


def _vectors(line: _Line, ends: _Ends, each: Callable[[str, list[str]], None]) -> None:
    """Give ``each`` all vectors of a line, by their first positions: as many as positions see columns."""
    kind, f = line.kind, line.f
    ways = len(ends.masks[0])
    gap = kind.splat(f, "-0.0")

    def places(j: str) -> list[str]:
        return kind.vectors_at(f, f.at(line.source, f.product(j, ways), kind.scalar), ways)

    parts = [("0", ends.begin), (ends.begin, ends.whole), (ends.whole, ends.end)]
    parts += [(ends.end, ends.after), (ends.after, "%width")]
    for number, (first, last) in enumerate(parts):
        with f.loop(first, last, kind.lanes) as j:
            if number == 2:
                each(j, [plain(kind, f, kind.load(f, place)) for place in places(j)])
            elif number % 2:
                both = zip(places(j), ends.masks[number // 2], strict=True)
                loads = [(kind.masked_load(f, place, mask), mask) for place, mask in both]
                each(j, [or_gap(kind, f, value, mask) for value, mask in loads])
            else:
                each(j, [gap] * ways)


def _neighbours(line: _Line, ends: _Ends) -> None:
    """Positions see neighbours."""
    _vectors(line, ends, lambda j, vectors: line.store(vectors[0], j, 0))


def _every_second(line: _Line, ends: _Ends) -> None:
    """Positions see every second column."""
    kind, f = line.kind, line.f

    def split(j: str, vectors: list[str]) -> None:
        even, odd = halves(kind, f, vectors[0], vectors[1])
        line.store(even, j, 0)
        with f.when(f.compare("sgt", "%phases", 1)):
            line.store(odd, j, 1)

    _vectors(line, ends, split)


def _far_apart(line: _Line, _: _Ends) -> None:
    """Positions see columns that are further apart."""
    kind, f = line.kind, line.f
    words, steps = f"<{kind.lanes} x i64>", multiples(kind, f, "%apart")
    name = f"@llvm.masked.gather.{kind.suffix}.v{kind.lanes}p0"
    with f.loop(0, "%phases") as phase, f.loop(0, "%width", kind.lanes) as j:
        column = f.sum(f.product(j, "%apart"), phase)
        first = words_of(kind, f, f.sum("%b0", column))
        at = f.make(f"add {words} {steps}, {first}")
        mask = f.make(f"icmp ult {words} {at}, {words_of(kind, f, '%n0')}")
        start = f.at(line.source, column, kind.scalar)
        places = f.make(f"getelementptr {kind.scalar}, ptr {start}, {words} {steps}")
        given = f"<{kind.lanes} x ptr> {places}, i32 {kind.nbytes}, {kind.mask} {mask}"
        value = f.make(f"call {kind.vector} {name}({given}, {kind.vector} zeroinitializer)")
        line.store(or_gap(kind, f, value, mask), j, phase)


def memory_text(dtype: str, machine: Machine) -> str:
    """The module with `tracejit_tap_memory`, which copies what all positions see, for a dtype.

    >>> memory_text("f32", Machine(64, 8, 3)).count("define i32 @tracejit_tap_memory(")
    1
    """
    kind = Kind(dtype, machine)
    return "\n".join([declarations(kind), copy_declarations(kind), copy(kind), _step(kind)])


def _step(kind: Kind) -> str:
    """Units [lo, hi), each some lines of a plane of a channel of a sample."""
    f = inner(kind, "i32 @tracejit_tap_memory(ptr %args, i64 %lo, i64 %hi, i64 %worker)")
    a = arguments(f, MEMORY_WORDS)
    parts = f.quotient_up(a["lines"], COPIED_LINES)
    row = f.product(f.product(a["phases"], a["width"]), kind.nbytes)
    with f.loop("%lo", "%hi") as unit:
        above, part = f.divided(unit, parts)
        number, plane = f.divided(above, a["planes"])
        sample, channel = f.divided(number, a["channels"])
        line = f.product(part, COPIED_LINES)
        start = f.sum(f.product(sample, a["xn"]), f.product(channel, a["xc"]))
        source = Source(
            x=f.at(a["x"], start, kind.scalar),
            b2=f.sum(a["l2"], f.product(plane, a["g2"])),
            b1=f.sum(a["l1"], f.product(line, a["g1"])),
            b0=a["l0"],
            planes="1",
            lines=f.least(COPIED_LINES, f.difference(a["lines"], line)),
        )
        done = f.sum(f.product(above, a["lines"]), line)
        copy_call(f, kind, a, source, f.at(a["out"], f.product(done, row), "i8"))
    f.add("ret i32 0")
    return f.finish()
