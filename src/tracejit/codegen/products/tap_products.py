"""LLVM assembly of convolutions over flat memory (`ops.taps.tap_products`): a block of results stays in registers.

A strip of positions is laid out once for all rows of results: for every channel and tap a few vectors, each made of
masked loads of its runs. Then block after block of rows goes through all channels and taps, where every number of
the weight meets all vectors of the strip. A result is summed in one order, channel by channel and tap by tap, whatever
part of the work a thread does.

Gaps in memory are negative zeros. They are products like others, and only where something came out that is no number
are results computed again without them: nan and infinities of the weight leave it nowhere else.
"""

from __future__ import annotations

from ..ir_text import FunctionText, Variable
from .tap_after import Following, after
from .tap_runs import FEW_RUNS, arguments, runs, tap_table
from .vector_kind import Kind, declarations, inner
from .vector_machine import Machine

__all__ = ["PRODUCT_WORDS", "product_scratch", "products_text"]

#: Words of the step's arguments; after them the taps' offsets in x, and those in the weight, in elements.
PRODUCT_WORDS = (
    *(
        "x",
        "w",
        "bias",
        "out",
        "scratch",
        "each",
    ),  # addresses, and bytes of scratch memory per worker
    *("samples", "groups", "channels", "rows"),  # channels and rows of a group
    *("p2", "p1", "p0"),  # positions
    *("xn", "xc", "x2", "x1", "wm", "wc", "on", "om"),  # strides in elements
    *("biased", "floor", "ceiling", "gaps", "after", "taps"),  # bounds are the bits of float64
)


def product_scratch(machine: Machine, nbytes: int, count: int) -> int:
    """Bytes that a worker needs, for so many channels and taps of elements of so many bytes.

    >>> product_scratch(Machine(64, 8, 3), 4, 9)
    3544
    """
    tables = 8 * 2 * machine.vectors * (1 + 2 * (machine.vector // nbytes))
    return 64 + 24 + tables + count * (2 * 8 + machine.vectors * machine.vector)


def products_text(dtype: str, machine: Machine) -> str:
    """The module with `tracejit_tap_products` for a dtype.

    >>> products_text("f32", Machine(64, 8, 3)).count("define i32 @tracejit_tap_products(")
    1
    """
    kind = Kind(dtype, machine)
    parts = [declarations(kind), "declare i64 @llvm.smax.i64(i64, i64)", runs(kind), after()]
    parts += [_layout(kind), _without_gaps(kind)]
    parts += [_block(kind, r, v) for r in kind.blocks for v in range(1, machine.vectors + 1)]
    parts += [_block(kind, machine.rows, machine.vectors, n) for n in range(1, FEW_RUNS + 1)]
    return "\n".join([*parts, _step(kind)])


def _block(kind: Kind, rows: int, vectors: int, known: int = 0) -> str:
    """A block of results of all channels and taps.

    for (k = 0; k < count; k++) for rows i, vectors v: sum[i][v] += w[i * wm + kw[k]] * seen[k][v];
    write sums[i] + bias[i * biased], between the ends

    The first block of a strip lays out what is seen on the way, from up to a ``known`` number of runs for each vector.
    """
    name = f"first.{known}" if known else f"block.{rows}.{vectors}"
    given = ", ptr noalias %x, ptr noalias %read, ptr noalias %kx" if known else ""
    f = inner(
        kind,
        f"internal void @{name}(ptr noalias %w, i64 %wm, ptr noalias %kw,"
        " ptr noalias %seen, i64 %count, ptr noalias %out, i64 %om, ptr noalias %runs, i64 %gaps,"
        f" ptr noalias %bias, i64 %biased, ptr noalias %ends{given})",
    )
    entries = [f.at("%read", v * kind.run_words, "i64") for v in range(vectors if known else 0)]
    laid = [_run_places(kind, f, entry, known) for entry in entries]
    zero = "zeroinitializer"
    sums = [[f.variable(kind.vector, zero) for _ in range(vectors)] for _ in range(rows)]
    with f.loop(0, "%count") as k:
        right = f.at("%seen", f.product(k, kind.strip_bytes), "i8")
        places = kind.vectors_at(f, right, vectors)
        if known:
            seen = [_loaded(kind, f, runs_, f.word("%kx", k)) for runs_ in laid]
            for vector, place in zip(seen, places, strict=True):
                kind.store(f, vector, place)
        else:
            seen = [kind.load(f, place) for place in places]
        left = f.at("%w", f.word("%kw", k), "i8")
        for i, row in enumerate(sums):
            factor = kind.number(f, f.at(left, f.product("%wm", i), "i8"))
            for total, vector in zip(row, seen, strict=True):
                total.set(kind.multiply_add(f, factor, vector, total.get()))
    kind.finish(f, sums)
    for v in range(vectors):
        entry = f.at("%runs", v * kind.run_words, "i64")
        with f.loop(0, f.word(entry, 0)) as r:
            place = f.at(entry, f.sum(r, 1), "i64")
            target = f.at("%out", f.word(place, 0), "i8")
            mask = kind.as_mask(f, f.word(place, kind.lanes))
            for i, row in enumerate(sums):
                there = f.at(target, f.product("%om", i), "i8")
                kind.masked_store(f, row[v].get(), there, mask)
    odd = kind.has_nan(f, [total.get() for row in sums for total in row])
    with f.when(f.make(f"and i1 {odd}, {f.compare('sgt', '%gaps', 0)}")):
        f.add(
            f"call void @without_gaps(ptr %w, i64 %wm, ptr %kw, ptr %seen, i64 %count, ptr %out,"
            f" i64 %om, ptr %runs, i64 {rows}, i64 {vectors}, ptr %bias, i64 %biased, ptr %ends)"
        )
    f.add("ret void")
    return f.finish()


def _without_gaps(kind: Kind) -> str:
    """The same for any block, where gaps add nothing."""
    f = inner(
        kind,
        "internal void @without_gaps(ptr noalias %w, i64 %wm, ptr noalias %kw, ptr noalias %seen,"
        " i64 %count, ptr noalias %out, i64 %om, ptr noalias %runs, i64 %rows, i64 %vectors,"
        " ptr noalias %bias, i64 %biased, ptr noalias %ends)",
    )
    with f.loop(0, "%rows") as i, f.loop(0, "%vectors") as v:
        row = f.at("%w", f.product("%wm", i), "i8")
        strip = f.at("%seen", f.product(v, kind.machine.vector), "i8")
        total = f.variable(kind.vector, "zeroinitializer")
        with f.loop(0, "%count") as k:
            seen = kind.load(f, f.at(strip, f.product(k, kind.strip_bytes), "i8"))
            factor = kind.number(f, f.at(row, f.word("%kw", k), "i8"))
            more = kind.multiply_add(f, factor, seen, total.get())
            total.set(kind.unless_gap(f, seen, more, total.get()))
        kind.finish(f, [[total]], i)
        entry = f.at("%runs", f.product(v, kind.run_words), "i64")
        target = f.at("%out", f.product("%om", i), "i8")
        with f.loop(0, f.word(entry, 0)) as r:
            place = f.at(entry, f.sum(r, 1), "i64")
            mask = kind.as_mask(f, f.word(place, kind.lanes))
            kind.masked_store(f, total.get(), f.at(target, f.word(place, 0), "i8"), mask)
    f.add("ret void")
    return f.finish()


def _layout(kind: Kind) -> str:
    """Lay out what all channels and taps see from a strip of positions."""
    f = inner(
        kind,
        "internal void @layout(ptr noalias %x, ptr noalias %runs, ptr noalias %kx, i64 %count,"
        " ptr noalias %seen)",
    )
    for v, target in enumerate(kind.vectors_at(f, "%seen", kind.machine.vectors)):
        entry = f.at("%runs", v * kind.run_words, "i64")
        number = f.word(entry, 0)
        for known in range(1, FEW_RUNS + 1):
            with f.when(f.compare("eq", number, known)):
                _few_runs(kind, f, entry, known, target)
        with f.when(f.compare("sgt", number, FEW_RUNS)), f.loop(0, "%count") as k:
            here = f.at("%x", f.word("%kx", k), "i8")
            found = f.variable(kind.vector, "zeroinitializer")
            with f.loop(0, number) as r:
                place = f.at(entry, f.sum(r, 1), "i64")
                mask = kind.as_mask(f, f.word(place, kind.lanes))
                there = f.at(here, f.word(place, 0), "i8")
                found.set(kind.masked_load(f, there, mask, found.get()))
            kind.store(f, found.get(), f.at(target, f.product(k, kind.strip_bytes), "i8"))
    f.add("ret void")
    return f.finish()


def _few_runs(kind: Kind, f: FunctionText, entry: str, known: int, target: str) -> None:
    """The same for a vector of a known number of runs."""
    places = _run_places(kind, f, entry, known)
    with f.loop(0, "%count") as k:
        found = _loaded(kind, f, places, f.word("%kx", k))
        kind.store(f, found, f.at(target, f.product(k, kind.strip_bytes), "i8"))


def _run_places(kind: Kind, f: FunctionText, entry: str, known: int) -> tuple[list[str], list[str]]:
    """Where a vector's runs begin, and their masks."""
    bases = [f.at("%x", f.word(entry, 1 + r), "i8") for r in range(known)]
    masks = [kind.as_mask(f, f.word(entry, 1 + kind.lanes + r)) for r in range(known)]
    return bases, masks


def _loaded(kind: Kind, f: FunctionText, places: tuple[list[str], list[str]], at: str) -> str:
    """A vector, so many bytes further on than its runs begin."""
    found = "zeroinitializer"
    for base, mask in zip(*places, strict=True):
        found = kind.masked_load(f, f.at(base, at, "i8"), mask, found)
    return found


def _step(kind: Kind) -> str:
    """Units [lo, hi), each a block of rows of a strip of positions of a group.

    for (unit = lo; unit < hi; unit += end - block) { group, strip, block = unit;  end = min(blocks, block + hi - unit);
      lay out the strip;  compute rows [block * 8, end * 8) }
    """
    f = inner(kind, "i32 @tracejit_tap_products(ptr %args, i64 %lo, i64 %hi, i64 %worker)")
    a = arguments(f, PRODUCT_WORDS)
    a["count"] = f.product(a["channels"], a["taps"])
    own = f.at(a["scratch"], f.product("%worker", a["each"]), "i8")
    table = kind.machine.vectors * kind.run_words
    f.put(0, own)
    a["bias"] = f.make(f"select i1 {f.compare('sgt', a['biased'], 0)}, ptr {a['bias']}, ptr {own}")
    a["ends"], own = f.at(own, 1, "i64"), f.at(own, 3, "i64")
    a["ends"] = kind.ends(f, a["floor"], a["ceiling"], a["ends"])
    read, written, kx = own, f.at(own, table, "i64"), f.at(own, 2 * table, "i64")
    a["kw"] = f.at(kx, a["count"], "i64")
    a["seen"] = f.aligned(f.at(kx, f.product(a["count"], 2), "i64"))
    offsets = f.at("%args", len(PRODUCT_WORDS), "i64")
    tap_table(kind, f, a, kx, a["xc"], offsets)
    tap_table(kind, f, a, a["kw"], a["wc"], f.at(offsets, a["taps"], "i64"))
    a["each"] = f.product(a["p2"], f.product(a["p1"], a["p0"]))
    positions = f.product(a["samples"], a["each"])
    vectors = f.quotient_up(positions, kind.lanes)  # which strips share evenly
    strips = f.quotient_up(positions, kind.strip)
    blocks = f.quotient_up(a["rows"], kind.machine.rows)
    following = Following(f, a)
    unit = f.variable("i64", "%lo")
    with f.as_long(unit, "%hi") as now:
        above, block = f.divided(now, blocks)
        end = f.least(blocks, f.sum(block, f.difference("%hi", now)))
        group, strip = f.divided(above, strips)
        q = f.product(f.divided(f.product(strip, vectors), strips)[0], kind.lanes)
        after = f.product(f.divided(f.product(f.sum(strip, 1), vectors), strips)[0], kind.lanes)
        width = f.difference(f.least(after, positions), q)
        shape = f"i64 {a['p2']}, i64 {a['p1']}, i64 {a['p0']}"
        steps = f"i64 {a['xn']}, i64 {a['x2']}, i64 {a['x1']}"
        f.add(f"call void @runs(ptr {read}, i64 {q}, i64 {width}, {shape}, {steps})")
        shape, steps = f"i64 1, i64 1, i64 {a['each']}", f"i64 {a['on']}, i64 0, i64 0"
        f.add(f"call void @runs(ptr {written}, i64 {q}, i64 {width}, {shape}, {steps})")
        x = f.at(a["x"], f.product(group, f.product(a["channels"], a["xc"])), kind.scalar)
        first = f.sum(f.product(block, kind.machine.rows), f.product(group, a["rows"]))
        last = f.least(f.product(end, kind.machine.rows), a["rows"])
        last = f.sum(last, f.product(group, a["rows"]))
        row = f.variable("i64", first)
        given = f"ptr {x}, ptr {read}, ptr {kx}"
        _lay_out(kind, f, a, row, last, (width, written, given))
        _rows(kind, f, a, row, last, (width, written))
        _after(f, a, following, (first, last), (q, width))
        unit.set(f.sum(now, f.difference(end, block)))
    following.end()
    f.add("ret i32 0")
    return f.finish()


def _after(
    f: FunctionText,
    a: dict[str, str],
    following: Following,
    rows: tuple[str, str],
    strip: tuple[str, str],
) -> None:
    """What follows rows [first, last) of a strip, which may belong to several samples."""
    (first, last), (q, width) = rows, strip
    all_rows = f.product(a["groups"], a["rows"])
    at, end = f.variable("i64", q), f.sum(q, width)
    with f.as_long(at, end) as now:
        sample, place = f.divided(now, a["each"])
        length = f.least(f.difference(a["each"], place), f.difference(end, now))
        row = f.sum(f.product(sample, all_rows), first)
        following.add((row, f.difference(last, first)), (place, length))
        at.set(f.sum(now, length))


def _rows(
    kind: Kind,
    f: FunctionText,
    a: dict[str, str],
    row: Variable,
    last: str,
    strip: tuple[str, str],
) -> None:
    """Blocks of rows of a strip, which has a width and a table of where it is written."""
    width, written = strip
    vectors = f.quotient_up(width, kind.lanes)
    for rows in kind.blocks:
        with f.as_long(row, f.difference(last, rows - 1)) as m:
            kind.call_block(f, rows, vectors, _block_words(kind, f, a, m, written))
            row.set(f.sum(m, rows))


def _block_words(kind: Kind, f: FunctionText, a: dict[str, str], row: str, written: str) -> str:
    """What the block of rows from ``row`` on is given."""
    wm, om, biased = (f.product(a[name], kind.nbytes) for name in ("wm", "om", "biased"))
    here = f.at(a["w"], f.product(row, wm), "i8")
    there = f.at(a["out"], f.product(row, om), "i8")
    return (
        f"ptr {here}, i64 {wm}, ptr {a['kw']}, ptr {a['seen']}, i64 {a['count']},"
        f" ptr {there}, i64 {om}, ptr {written}, i64 {a['gaps']},"
        f" ptr {f.at(a['bias'], f.product(row, biased), 'i8')}, i64 {biased}, ptr {a['ends']}"
    )


def _lay_out(
    kind: Kind,
    f: FunctionText,
    a: dict[str, str],
    row: Variable,
    last: str,
    strip: tuple[str, str, str],
) -> None:
    """Lay out what a strip sees: the first block of rows does, where it is a whole one and vectors have few runs."""
    width, written, given = strip
    read = given.split(", ")[1].removeprefix("ptr ")
    words = (f.word(read, v * kind.run_words) for v in range(kind.machine.vectors))
    most = f.variable("i64", 0)
    for number in words:
        most.set(f.most(most.get(), number))
    with f.when(f.compare("sgt", kind.machine.rows, f.difference(last, row.get()))):
        most.set(0)
    with f.when(f.compare("sle", width, kind.strip - kind.lanes)):
        most.set(0)
    with f.when(f.compare("sgt", most.get(), FEW_RUNS)):
        most.set(0)
    with f.when(f.compare("eq", most.get(), 0)):
        f.add(f"call void @layout({given}, i64 {a['count']}, ptr {a['seen']})")
    for known in range(1, FEW_RUNS + 1):
        with f.when(f.compare("eq", most.get(), known)):
            block = _block_words(kind, f, a, row.get(), written)
            f.add(f"call void @first.{known}({block}, {given})")
            row.set(f.sum(row.get(), kind.machine.rows))
            most.set(FEW_RUNS + 1)
