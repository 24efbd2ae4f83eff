"""LLVM assembly of blocks of results of convolutions whose groups have few rows: what `tap_few` walks memory with."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext

from ..ir_text import FunctionText, Variable
from .vector_kind import Kind, inner

__all__ = ["FEW_ROWS", "few_blocks", "few_rows", "tall_code"]

#: Groups of up to so many rows are computed here.
FEW_ROWS = 3
#: Taps of a column, and how many lines positions are apart, for which there are blocks of their own.
TALL = ((2, 1), (3, 1), (5, 1), (7, 1), (3, 2), (5, 2), (7, 2))


def few_blocks(kind: Kind) -> list[str]:
    """The functions `lines.1`, `lines.2` and `lines.3`, and what they call.

    >>> from .vector_machine import Machine
    >>> sum("define internal void @lines." in text for text in few_blocks(Kind("f32", Machine(64, 8, 3))))
    3
    """
    parts = [_without_gaps(kind)]
    for rows in few_rows():
        parts += [_block(kind, rows, vectors) for vectors in _together(kind, rows)]
        if rows == 1:
            parts += [_block(kind, 1, v, tall) for v in _tall(kind) for tall in TALL]
        parts.append(_lines(kind, rows))
    return parts


def tall_code(lines: Sequence[int], step: int) -> int:
    """The number of the blocks for columns of taps that see these lines, and positions so many lines apart; 0 for none.

    >>> tall_code((0, 1, 2), 1), tall_code((0, 1, 2), 2), tall_code((0, 2, 4), 1)
    (31, 32, 0)
    """
    follow = tuple(lines) == tuple(range(lines[0], lines[0] + len(lines)))
    return 10 * len(lines) + step if follow and (len(lines), step) in TALL else 0


def few_rows() -> range:
    """Rows of blocks, the most first.

    >>> list(few_rows())
    [3, 2, 1]
    """
    return range(FEW_ROWS, 0, -1)


def _together(kind: Kind, rows: int) -> tuple[int, ...]:
    """Vectors of blocks of so many rows, the most first."""
    return tuple(v for v in (8, 4, 2, 1) if v * min(rows, 2) <= kind.machine.rows)


def _tall(kind: Kind) -> tuple[int, ...]:
    """Lines of blocks for tall columns of taps."""
    return tuple(v for v in _together(kind, 1) if v >= 4)


_SEEN = "ptr %x, i64 %below, ptr %taps, ptr %w, i64 %wm, i64 %count"
_WRITTEN = "ptr %out, i64 %om, i64 %under, ptr %bias, i64 %biased, ptr %ends, i1 %more"


def _block(kind: Kind, rows: int, vectors: int, tall: tuple[int, int] | None = None) -> str:
    """Some lines of positions of a few rows, of some channels and all taps.

    for columns { for vectors v, rows i: sum[i][v] = more ? out[i * om + v * under...] : 0;
      for (k = 0; k < count; k++) for vectors v, rows i:
        sum[i][v] += w[i * wm + taps[k][1]] * x[v * below + taps[k][0]...];
      for vectors v, rows i: out[i * om + v * under...] = sum[i][v] + bias[i * biased] }
    """
    given = f"{_SEEN}, {_WRITTEN}, i64 %width, i64 %gaps"
    name = f"block.{rows}.{vectors}" if tall is None else f"tall.{vectors}.{tall[0]}.{tall[1]}"
    f = inner(kind, f"internal void @{name}({given})")
    both = [(i, v) for i in range(rows) for v in range(vectors)]
    sums = {at: f.variable(kind.vector) for at in both}
    writes = {(i, v): f.sum(f.product("%om", i), f.product("%under", v)) for i, v in both}
    gaps, odd = f.compare("sgt", "%gaps", 0), f.variable("i1")
    with f.loop(0, "%width", kind.lanes) as column:
        bits = kind.first_bits(f, f.difference("%width", column))
        mask = kind.as_mask(f, bits)
        out, x = f.at("%out", column, kind.scalar), f.at("%x", column, kind.scalar)
        for total in sums.values():
            total.set("zeroinitializer")
        with f.when("%more"):
            for at in both:
                sums[at].set(kind.masked_load(f, f.at(out, writes[at], "i8"), mask))
        if tall is None:
            _add(kind, f, (x, mask), (rows, vectors), sums)
        else:
            _add_tall(kind, f, (x, mask), tall, sums)
        odd.set("false")
        with f.when(gaps):
            odd.set(kind.has_nan(f, [total.get() for total in sums.values()]))
        with f.when(odd.get()):
            seen = f"ptr {x}, i64 %below, ptr %taps, ptr %w, i64 %wm, i64 %count"
            written = f"ptr {out}, i64 %om, i64 %under, ptr %bias, i64 %biased, ptr %ends, i1 %more"
            f.add(
                f"call void @without_gaps({seen}, {written}, i64 {bits}, i64 {rows}, i64 {vectors})"
            )
        with f.when(f.make(f"xor i1 {odd.get()}, true")):
            kind.finish(f, [[sums[i, v] for v in range(vectors)] for i in range(rows)])
            for at, total in sums.items():
                kind.masked_store(f, total.get(), f.at(out, writes[at], "i8"), mask)
    f.add("ret void")
    return f.finish()


def _add(
    kind: Kind,
    f: FunctionText,
    seen: tuple[str, str],
    shape: tuple[int, int],
    sums: dict[tuple[int, int], Variable],
) -> None:
    """Add what all taps give to vectors of some rows: where the first one begins, and a mask."""
    (x, mask), (rows, vectors) = seen, shape
    times = {n: f.product("%below", n) for n in (2, 3, 4, 6)}  # in few registers
    with f.loop(0, "%count") as k:
        entry = f.at("%taps", f.product(k, 2), "i64")
        here, left = f.at(x, f.word(entry, 0), "i8"), f.at("%w", f.word(entry, 1), "i8")
        factors = [kind.number(f, f.at(left, f.product("%wm", i), "i8")) for i in range(rows)]
        third = f.at(here, times[3], "i8") if vectors > 2 else here
        for v in range(vectors):
            base, lines = (third, v - 3) if v in (5, 7) else (here, v)
            step = "%below" if lines == 1 else times.get(lines, "0")
            vector = kind.masked_load(f, f.at(base, step, "i8"), mask)
            for i, factor in enumerate(factors):
                sums[i, v].set(kind.multiply_add(f, factor, vector, sums[i, v].get()))


def _add_tall(
    kind: Kind,
    f: FunctionText,
    seen: tuple[str, str],
    tall: tuple[int, int],
    sums: dict[tuple[int, int], Variable],
) -> None:
    """The same for one row, where taps of a column follow each other: they read a line of memory once."""
    (x, mask), (taps, step) = seen, tall
    line = f.divided("%below", step)[0]
    with f.loop(0, "%count", taps) as k:
        entry = f.at("%taps", f.product(k, 2), "i64")
        places = (f.at("%w", f.word(entry, 2 * t + 1), "i8") for t in range(taps))
        factors = [kind.number(f, place) for place in places]
        place = f.at(x, f.word(entry, 0), "i8")
        for number in range((len(sums) - 1) * step + taps):
            near = [(v, number - v * step) for _, v in sums if 0 <= number - v * step < taps]
            if near:
                vector = kind.masked_load(f, place, mask)
            for v, t in near:
                sums[0, v].set(kind.multiply_add(f, factors[t], vector, sums[0, v].get()))
            place = f.at(place, line, "i8")


def _without_gaps(kind: Kind) -> str:
    """The same for any block and one vector of columns, where gaps add nothing."""
    given = f"{_SEEN}, {_WRITTEN}, i64 %bits, i64 %rows, i64 %vectors"
    f = inner(kind, f"internal void @without_gaps({given})")
    mask = kind.as_mask(f, "%bits")
    with f.loop(0, "%rows") as i, f.loop(0, "%vectors") as v:
        row = f.at("%w", f.product("%wm", i), "i8")
        start = f.at("%x", f.product("%below", v), "i8")
        place = f.at("%out", f.sum(f.product("%om", i), f.product("%under", v)), "i8")
        total = f.variable(kind.vector, "zeroinitializer")
        with f.when("%more"):
            total.set(kind.masked_load(f, place, mask))
        with f.loop(0, "%count") as k:
            entry = f.at("%taps", f.product(k, 2), "i64")
            seen = kind.masked_load(f, f.at(start, f.word(entry, 0), "i8"), mask)
            factor = kind.number(f, f.at(row, f.word(entry, 1), "i8"))
            more = kind.multiply_add(f, factor, seen, total.get())
            total.set(kind.unless_gap(f, seen, more, total.get()))
        kind.finish(f, [[total]], i)
        kind.masked_store(f, total.get(), place, mask)
    f.add("ret void")
    return f.finish()


def _lines(kind: Kind, rows: int) -> str:
    """Lines [first, last) of positions of a few rows, each ``width`` positions: some lines at once.

    Of a line that is alone some vectors are computed at once.
    """
    strip = f"{_SEEN}, {_WRITTEN}, i64 %first, i64 %last, i64 %width, i64 %gaps, i64 %tall"
    f = inner(kind, f"internal void @lines.{rows}({strip})")
    line, column = f.variable("i64", "%first"), f.variable("i64", 0)
    vector = kind.machine.vector

    def block(name: str, way: tuple[str | int, str | int], width: str | int) -> None:
        start, other = f.product(line.get(), "%below"), f.product(line.get(), "%under")
        x = f.at(f.at("%x", start, "i8"), column.get(), kind.scalar)
        out = f.at(f.at("%out", other, "i8"), column.get(), kind.scalar)
        below, under = way
        f.add(
            f"call void @{name}(ptr {x}, i64 {below}, ptr %taps, ptr %w,"
            f" i64 %wm, i64 %count, ptr {out}, i64 %om, i64 {under}, ptr %bias,"
            f" i64 %biased, ptr %ends, i1 %more, i64 {width}, i64 %gaps)"
        )

    with f.when(f.compare("eq", f.difference("%last", "%first"), 1)):
        for vectors in _together(kind, rows):
            span = vectors * kind.lanes
            with f.as_long(column, f.difference("%width", span - 1)) as now:
                block(f"block.{rows}.{vectors}", (vector, vector), kind.lanes)
                column.set(f.sum(now, span))
    left = f.difference("%width", column.get())
    for vectors in _together(kind, rows):
        with f.as_long(line, f.difference("%last", vectors - 1)) as now:
            known = TALL if rows == 1 and vectors in _tall(kind) else ()
            for taps, step in known:
                with f.when(f.compare("eq", "%tall", 10 * taps + step)):
                    block(f"tall.{vectors}.{taps}.{step}", ("%below", "%under"), left)
            with f.when(f.compare("eq", "%tall", 0)) if known else nullcontext():
                block(f"block.{rows}.{vectors}", ("%below", "%under"), left)
            line.set(f.sum(now, vectors))
    f.add("ret void")
    return f.finish()
