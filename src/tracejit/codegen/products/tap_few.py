"""LLVM assembly of convolutions over flat memory whose groups have few rows: depthwise ones, and those to an image.

With one to three rows there is nothing to lay out for: what a tap sees of a few vectors of positions is read where it
is. These vectors are pieces of rows of positions one below the other, or follow each other where there is one row.
For the weight's gradient some taps' sums stay in registers while all positions go by, a vector of them at a time.
Results are summed in one order, whatever part of the work a thread does; gaps are as in `tap_products`.
"""

from __future__ import annotations

from ..ir_text import FunctionText, Variable
from .tap_products import PRODUCT_WORDS
from .tap_runs import arguments, tap_table
from .tap_weights import WEIGHT_WORDS
from .vector_kind import Kind, declarations, inner
from .vector_machine import Machine

__all__ = ["FEW_ROWS", "few_products_text", "few_scratch", "few_weights_text", "strip_vectors"]

#: Groups of up to so many rows are computed here.
FEW_ROWS = 3


def strip_vectors(machine: Machine) -> int:
    """Vectors of positions that are computed together at most.

    >>> strip_vectors(Machine(64, 8, 3)), strip_vectors(Machine(32, 4, 3))
    (8, 4)
    """
    return machine.rows


def few_scratch(count: int) -> int:
    """Bytes that a worker needs for so many channels and taps.

    >>> few_scratch(9)
    144
    """
    return 16 * count


def few_products_text(dtype: str, machine: Machine) -> str:
    """The module with `tracejit_few_products`, which takes the words of `tap_products`, for a dtype.

    >>> few_products_text("f32", Machine(64, 8, 3)).count("define i32 @tracejit_few_products(")
    1
    """
    kind = Kind(dtype, machine)
    blocks = [_block(kind, r, v) for r in _rows() for v in _together(kind, r)]
    return "\n".join([declarations(kind), _without_gaps(kind), *blocks, _products_step(kind)])


def few_weights_text(dtype: str, machine: Machine) -> str:
    """The module with `tracejit_few_weights`, which takes the words of `tap_weights`, for a dtype.

    >>> few_weights_text("f32", Machine(64, 8, 3)).count("define i32 @tracejit_few_weights(")
    1
    """
    kind = Kind(dtype, machine)
    blocks = [_sums(kind, r, k) for r in _rows() for k in kind.blocks]
    return "\n".join([declarations(kind), _total(kind), *blocks, _weights_step(kind)])


def _rows() -> range:
    """Rows of blocks, the most first."""
    return range(FEW_ROWS, 0, -1)


def _together(kind: Kind, rows: int) -> tuple[int, ...]:
    """Vectors of blocks of so many rows, the most first."""
    sums = kind.machine.rows * kind.machine.vectors  # as many as other blocks keep in registers
    return tuple(v for v in kind.blocks if v * rows <= sums)


def _own_tables(f: FunctionText, a: dict[str, str]) -> None:
    """Where a worker keeps its tables of channels and taps."""
    a["count"] = f.product(a["channels"], a["taps"])
    a["kx"] = f.at(a["scratch"], f.product("%worker", a["each"]), "i8")
    a["kw"] = f.at(a["kx"], a["count"], "i64")


# --- products --------------------------------------------------------------------------------------


_SEEN = "ptr %x, i64 %below, ptr %kx, ptr %w, i64 %wm, ptr %kw, i64 %count"
_WRITTEN = "ptr %out, i64 %om, i64 %under, i64 %bits"


def _block(kind: Kind, rows: int, vectors: int) -> str:
    """Some vectors of positions of a few rows, of all channels and taps.

    for (k = 0; k < count; k++) for vectors v, rows i: sum[i][v] += w[i * wm + kw[k]] * x[v * below + kx[k]...]
    """
    f = inner(kind, f"internal void @block.{rows}.{vectors}({_SEEN}, {_WRITTEN}, i64 %gaps)")
    mask = kind.as_mask(f, "%bits")
    sums = [
        [f.variable(kind.vector, "zeroinitializer") for _ in range(vectors)] for _ in range(rows)
    ]
    starts = [f.product("%below", v) for v in range(vectors)]
    with f.loop(0, "%count") as k:
        here = f.at("%x", f.word("%kx", k), "i8")
        left = f.at("%w", f.word("%kw", k), "i8")
        factors = [kind.number(f, f.at(left, f.product("%wm", i), "i8")) for i in range(rows)]
        for v, start in enumerate(starts):
            seen = kind.masked_load(f, f.at(here, start, "i8"), mask)
            for factor, row in zip(factors, sums, strict=True):
                row[v].set(kind.multiply_add(f, factor, seen, row[v].get()))
    for i, row in enumerate(sums):
        target = f.at("%out", f.product("%om", i), "i8")
        for v, total in enumerate(row):
            kind.masked_store(f, total.get(), f.at(target, f.product("%under", v), "i8"), mask)
    odd = kind.has_nan(f, [total.get() for row in sums for total in row])
    with f.when(f.make(f"and i1 {odd}, {f.compare('sgt', '%gaps', 0)}")):
        given = f"{_SEEN}, {_WRITTEN}, i64 {rows}, i64 {vectors}"
        f.add(f"call void @without_gaps({given})")
    f.add("ret void")
    return f.finish()


def _without_gaps(kind: Kind) -> str:
    """The same for any block, where gaps add nothing."""
    f = inner(kind, f"internal void @without_gaps({_SEEN}, {_WRITTEN}, i64 %rows, i64 %vectors)")
    mask = kind.as_mask(f, "%bits")
    with f.loop(0, "%rows") as i, f.loop(0, "%vectors") as v:
        row = f.at("%w", f.product("%wm", i), "i8")
        start = f.at("%x", f.product("%below", v), "i8")
        total = f.variable(kind.vector, "zeroinitializer")
        with f.loop(0, "%count") as k:
            seen = kind.masked_load(f, f.at(start, f.word("%kx", k), "i8"), mask)
            factor = kind.number(f, f.at(row, f.word("%kw", k), "i8"))
            more = kind.multiply_add(f, factor, seen, total.get())
            total.set(kind.unless_gap(f, seen, more, total.get()))
        target = f.at("%out", f.sum(f.product("%om", i), f.product("%under", v)), "i8")
        kind.masked_store(f, total.get(), target, mask)
    f.add("ret void")
    return f.finish()


def _products_step(kind: Kind) -> str:
    """Units [lo, hi), each a strip of the positions of a group of a sample: of some rows of them, or vectors of one.

    for (unit = lo; unit < hi; unit++) { sample, group, plane, strip = unit;  for the rows of the group, a few at once:
      rows of positions: for every column of vectors, for the vectors below each other;  one row: for its vectors }
    """
    f = inner(kind, "i32 @tracejit_few_products(ptr %args, i64 %lo, i64 %hi, i64 %worker)")
    a = arguments(f, PRODUCT_WORDS)
    offsets = f.at("%args", len(PRODUCT_WORDS), "i64")
    _own_tables(f, a)
    tap_table(kind, f, a, a["kx"], a["xc"], offsets)
    tap_table(kind, f, a, a["kw"], a["wc"], f.at(offsets, a["taps"], "i64"))
    a["single"] = f.compare("eq", a["p1"], 1)
    vectors = f.quotient_up(a["p0"], kind.lanes)
    a["lines"] = f.make(f"select i1 {a['single']}, i64 {vectors}, i64 {a['p1']}")
    strips = f.quotient_up(a["lines"], strip_vectors(kind.machine))
    for name in ("wm", "om", "x1", "x2"):
        a[name] = f.product(a[name], kind.nbytes)
    with f.loop("%lo", "%hi") as unit:
        above, strip = f.divided(unit, strips)
        above, plane = f.divided(above, a["p2"])
        sample, group = f.divided(above, a["groups"])
        first = f.product(strip, strip_vectors(kind.machine))
        a["first"] = first
        a["last"] = f.least(a["lines"], f.sum(first, strip_vectors(kind.machine)))
        channel = f.product(f.product(group, a["channels"]), a["xc"])
        x = f.at(a["x"], f.sum(f.product(sample, a["xn"]), channel), kind.scalar)
        a["here"] = f.at(x, f.product(plane, a["x2"]), "i8")
        place = f.product(plane, f.product(a["p1"], a["p0"]))
        out = f.at(a["out"], f.sum(f.product(sample, a["on"]), place), kind.scalar)
        row = f.product(group, a["rows"])
        end = f.sum(row, a["rows"])
        at = f.variable("i64", row)
        for rows in _rows():
            with f.as_long(at, f.difference(end, rows - 1)) as m:
                a["factors"] = f.at(a["w"], f.product(m, a["wm"]), "i8")
                a["there"] = f.at(out, f.product(m, a["om"]), "i8")
                _strip(kind, f, a, rows)
                at.set(f.sum(m, rows))
    f.add("ret i32 0")
    return f.finish()


def _strip(kind: Kind, f: FunctionText, a: dict[str, str], rows: int) -> None:
    """A strip of the positions of a few rows."""
    vector = kind.machine.vector
    with f.when(a["single"]):
        whole = f.least(a["last"], f.divided(a["p0"], kind.lanes)[0])
        line = f.variable("i64", a["first"])
        _lines(kind, f, a, rows, line, whole, ("0", str(vector), str(vector), str(kind.full)))
        left = f.difference(a["p0"], f.product(whole, kind.lanes))
        bits = f.ones(f.least(left, kind.lanes))
        _lines(kind, f, a, rows, line, a["last"], ("0", str(vector), str(vector), bits))
    with (
        f.when(f.make(f"xor i1 {a['single']}, true")),
        f.loop(0, a["p0"], kind.lanes) as column,
    ):
        width = f.least(kind.lanes, f.difference(a["p0"], column))
        bits = f.ones(width)
        under = f.product(a["p0"], kind.nbytes)
        shift = f.product(column, kind.nbytes)
        line = f.variable("i64", a["first"])
        _lines(kind, f, a, rows, line, a["last"], (shift, a["x1"], under, bits))


def _lines(
    kind: Kind,
    f: FunctionText,
    a: dict[str, str],
    rows: int,
    line: Variable,
    end: str,
    way: tuple[str, str, str, str],
) -> None:
    """Vectors from ``line`` to ``end``: where the first one begins, how far apart they are read and written, a mask."""
    shift, below, under, bits = way
    for vectors in _together(kind, rows):
        with f.as_long(line, f.difference(end, vectors - 1)) as now:
            x = f.at(a["here"], f.sum(shift, f.product(now, below)), "i8")
            out = f.at(a["there"], f.sum(shift, f.product(now, under)), "i8")
            f.add(
                f"call void @block.{rows}.{vectors}(ptr {x}, i64 {below}, ptr {a['kx']},"
                f" ptr {a['factors']}, i64 {a['wm']}, ptr {a['kw']}, i64 {a['count']},"
                f" ptr {out}, i64 {a['om']}, i64 {under}, i64 {bits}, i64 {a['gaps']})"
            )
            line.set(f.sum(now, vectors))


# --- gradients of weights --------------------------------------------------------------------------


_BOX = "i64 %samples, i64 %p2, i64 %p1, i64 %p0, i64 %xn, i64 %x2, i64 %x1, i64 %yn, i64 %ym"


def _total(kind: Kind) -> str:
    """The sum of the lanes of a vector, one half added to the other until one is left."""
    f = inner(kind, f"internal {kind.scalar} @total({kind.vector} %lanes)")
    found, count = "%lanes", kind.lanes
    while count > 1:
        count //= 2
        numbers = [i + count if i < count else i for i in range(kind.lanes)]
        other = kind.shuffled(f, found, found, numbers)
        found = f.make(f"fadd {kind.vector} {found}, {other}")
    f.add(f"ret {kind.scalar} {f.make(f'extractelement {kind.vector} {found}, i64 0')}")
    return f.finish()


def _sums(kind: Kind, rows: int, taps: int) -> str:
    """Some taps' sums over all positions, of a few rows of what came out there.

    for samples, planes, lines, vectors of positions p: for taps k, rows i: sum[k][i] += x[kx[k] + p] * y[i * ym + p]
    """
    given = f"ptr %x, ptr %kx, ptr %y, ptr %out, {_BOX}"
    f = inner(kind, f"internal void @sums.{rows}.{taps}({given})")
    sums = [[f.variable(kind.vector, "zeroinitializer") for _ in range(rows)] for _ in range(taps)]
    starts = [f.at("%x", f.word("%kx", k), "i8") for k in range(taps)]
    with f.loop(0, "%samples") as n, f.loop(0, "%p2") as i2, f.loop(0, "%p1") as i1:
        plane = f.sum(f.product(n, "%xn"), f.product(i2, "%x2"))
        seen = f.sum(plane, f.product(i1, "%x1"))
        line = f.product(f.sum(f.product(i2, "%p1"), i1), "%p0")
        came = f.sum(f.product(n, "%yn"), line)
        with f.loop(0, "%p0", kind.lanes) as i0:
            width = f.least(kind.lanes, f.difference("%p0", i0))
            mask = kind.as_mask(f, f.ones(width))
            at, there = f.sum(seen, i0), f.at("%y", f.sum(came, i0), kind.scalar)
            ys = [
                kind.masked_load(f, f.at(there, f.product("%ym", i), kind.scalar), mask)
                for i in range(rows)
            ]
            for start, row in zip(starts, sums, strict=True):
                vector = kind.masked_load(f, f.at(start, at, kind.scalar), mask)
                for total, y in zip(row, ys, strict=True):
                    total.set(kind.multiply_add(f, vector, y, total.get()))
    for k, row in enumerate(sums):
        for i, total in enumerate(row):
            one = f.make(f"call {kind.scalar} @total({kind.vector} {total.get()})")
            f.add(f"store {kind.scalar} {one}, ptr {f.at('%out', k * rows + i, kind.scalar)}")
    f.add("ret void")
    return f.finish()


def _weights_step(kind: Kind) -> str:
    """Units [lo, hi), each a block of a group's channels and taps. Out is (groups * channels * taps, rows)."""
    f = inner(kind, "i32 @tracejit_few_weights(ptr %args, i64 %lo, i64 %hi, i64 %worker)")
    a = arguments(f, WEIGHT_WORDS)
    _own_tables(f, a)
    tap_table(kind, f, a, a["kx"], a["xc"], f.at("%args", len(WEIGHT_WORDS), "i64"))
    blocks = f.quotient_up(a["count"], kind.machine.rows)
    box = ", ".join(f"i64 {a[name[5:]]}" for name in _BOX.split(", "))
    with f.loop("%lo", "%hi") as unit:
        group, block = f.divided(unit, blocks)
        first = f.product(block, kind.machine.rows)
        last = f.least(a["count"], f.sum(first, kind.machine.rows))
        x = f.at(a["x"], f.product(group, f.product(a["channels"], a["xc"])), kind.scalar)
        y = f.at(a["y"], f.product(f.product(group, a["rows"]), a["ym"]), kind.scalar)
        done = f.product(group, a["count"])
        for rows in _rows():
            at = f.variable("i64", first)
            with f.when(f.compare("eq", a["rows"], rows)):
                for taps in kind.blocks:
                    with f.as_long(at, f.difference(last, taps - 1)) as k:
                        kx = f.at(a["kx"], k, "i64")
                        out = f.at(a["out"], f.product(f.sum(done, k), rows), kind.scalar)
                        f.add(
                            f"call void @sums.{rows}.{taps}(ptr {x}, ptr {kx}, ptr {y}, ptr {out}, {box})"
                        )
                        at.set(f.sum(k, taps))
    f.add("ret i32 0")
    return f.finish()
