"""LLVM assembly that weaves lines into one: the first elements of all, then the second ones, and so on."""

from __future__ import annotations

from ..ir_text import FunctionText
from .tap_lanes import inside, multiples, words_of
from .vector_kind import Kind, inner

__all__ = ["weave", "weave_declarations"]


def weave_declarations(kind: Kind) -> str:
    """What `weave` calls besides the usual.

    >>> from .vector_machine import Machine
    >>> weave_declarations(Kind("f32", Machine(64, 8, 3))).count("declare")
    1
    """
    pointers = f"<{kind.lanes} x ptr>"
    name = f"@llvm.masked.scatter.{kind.suffix}.v{kind.lanes}p0"
    return f"declare void {name}({kind.vector}, {pointers}, i32, {kind.mask})"


def weave(kind: Kind) -> str:
    """The function that weaves ``ways`` lines, ``each`` bytes apart.

    for (j = 0; j < width; j++) for (r = 0; r < ways; r++)
      if (0 <= first + j * ways + r < end) out[first + j * ways + r] = lines[r][j]

    >>> from .vector_machine import Machine
    >>> weave(Kind("f32", Machine(64, 8, 3))).startswith("define internal void @weave(")
    True
    """
    given = "ptr %lines, i64 %each, i64 %ways, i64 %width, ptr %out, i64 %first, i64 %end"
    f = inner(kind, f"internal void @weave({given})")
    with f.loop(0, "%width", kind.lanes) as j:
        start = f.sum("%first", f.product(j, "%ways"))
        left = f.difference("%width", j)
        source = f.at("%lines", j, kind.scalar)
        with f.when(f.compare("eq", "%ways", 2)):
            _pairs(kind, f, source, start, left)
        with f.when(f.compare("ne", "%ways", 2)), f.loop(0, "%ways") as r:
            _scattered(kind, f, (source, r), start, left)
    f.add("ret void")
    return f.finish()


def _pairs(kind: Kind, f: FunctionText, source: str, start: str, left: str) -> None:
    """Two lines: each vector of results is one half of a vector of both."""
    first, second = [kind.load(f, f.at(source, f.product("%each", r), "i8")) for r in range(2)]
    half, lanes = kind.lanes // 2, kind.lanes
    for n in range(2):
        numbers = [r * lanes + n * half + lane for lane in range(half) for r in range(2)]
        value = kind.shuffled(f, first, second, numbers)
        at = f.sum(start, n * lanes)
        count = f.most(0, f.difference(f.product(left, 2), n * lanes))
        bits = f.make(f"and i64 {kind.first_bits(f, count)}, {inside(kind, f, at, '%end')}")
        kind.masked_store(f, value, f.at("%out", at, kind.scalar), kind.as_mask(f, bits))


def _scattered(kind: Kind, f: FunctionText, line: tuple[str, str], start: str, left: str) -> None:
    """One of many lines."""
    source, r = line
    words = f"<{kind.lanes} x i64>"
    value = kind.load(f, f.at(source, f.product("%each", r), "i8"))
    steps = multiples(kind, f, "%ways")
    at = f.make(f"add {words} {steps}, {words_of(kind, f, f.sum(start, r))}")
    there = f.make(f"icmp ult {words} {at}, {words_of(kind, f, '%end')}")
    mask = f.make(f"and {kind.mask} {there}, {kind.first_mask(f, left)}")
    places = f.make(f"getelementptr {kind.scalar}, ptr %out, {words} {at}")
    given = f"{kind.vector} {value}, <{kind.lanes} x ptr> {places}, i32 {kind.nbytes}"
    name = f"@llvm.masked.scatter.{kind.suffix}.v{kind.lanes}p0"
    f.add(f"call void {name}({given}, {kind.mask} {mask})")
