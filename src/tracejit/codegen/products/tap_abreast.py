"""LLVM assembly of depthwise convolutions of small planes: a lane of a vector is a channel.

Lines of a few positions fill no vector, and vectors of positions that taps see begin anywhere. So a vector's worth of
channels of a sample is turned around: what is at one place in all of them becomes a vector in scratch memory, with
what is around it. There a tap sees a whole vector from a position, wherever that is, strides and phases of gradients
are other addresses, and rows of taps that see nothing are left out. Results are turned back.

Left out is what would add zeros: everywhere where what is around adds nothing (gaps, as in `tap_products`), elsewhere
if the weight has no nan and infinities.
A result is summed tap by tap in one order, whatever channels are beside it and whatever part of the work a thread does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..ir_text import FunctionText, Variable
from .tap_after import Following, after
from .tap_runs import arguments
from .tap_turned import (
    BLOCKS,
    SIDES,
    clear,
    element_table,
    load_call,
    loaded,
    plain_table,
    some_places,
    stored,
    summed,
)
from .vector_kind import Kind, declarations, inner
from .vector_machine import Machine

__all__ = ["ABREAST_WORDS", "LEAST_LINE", "abreast_scratch", "abreast_text", "row_code"]

#: Words of the step's arguments; after them for each tap, part by part, where it is in the copy, its number in the
#: weight, and its line; and for each part how many taps it has and its `row_code`: taps of a row follow each other.
ABREAST_WORDS = (
    *("x", "w", "bias", "out", "scratch", "each"),  # addresses, and bytes of scratch of a worker
    *("channels", "q1", "q0"),  # positions of a part
    *SIDES,
    *("wm", "on", "om"),  # strides in elements
    *("s1", "s0", "f1", "f0", "z1", "z0"),  # parts, the first one of results, and their extents
    *("parts", "in_lines", "biased"),
    *("floor", "ceiling", "gaps", "after", "taps"),  # bounds are the bits of float64
)
#: Taps of a row, and how many columns positions are apart, for which there are blocks of their own: what several of
#: the positions see is read once.
ROWS = ((2, 1), (3, 1), (4, 1), (5, 1), (7, 1), (3, 2), (5, 2), (7, 2))
#: Positions of these.
_OF_LINES = BLOCKS[1:]
#: Columns of positions from which on blocks are parts of lines.
LEAST_LINE = _OF_LINES[-1]
#: Words of a block: its first and last tap, and for each position where it looks and where its result is.
_BLOCK_WORDS = 2 + 2 * BLOCKS[0]


def abreast_scratch(
    machine: Machine, nbytes: int, seen: Any, copied: Any, results: Any, taps: int, blocks: Any
) -> Any:
    """Bytes that a worker needs, for so many elements of a plane, of its copy and of results, taps and blocks.

    >>> abreast_scratch(Machine(64, 8, 3), 4, 49, 81, 49, 9, 7)
    13368
    """
    lanes = machine.vector // nbytes
    vectors = 3 + copied + 1 + results + lanes + 1 + taps + lanes
    words = seen + 2 * lanes + 3 * taps + blocks * (_BLOCK_WORDS + 1)
    return 64 + machine.vector * vectors + 8 * words


def row_code(columns: Sequence[int], step: int) -> int:
    """The number of blocks for rows of taps that see these columns, and positions so many apart; 0 for none.

    >>> row_code((0, 1, 2), 1), row_code((0, 1, 2), 2), row_code((0, 2, 4), 1)
    (31, 32, 0)
    """
    follow = tuple(columns) == tuple(range(columns[0], columns[0] + len(columns)))
    return 10 * len(columns) + step if follow and (len(columns), step) in ROWS else 0


def abreast_text(dtype: str, machine: Machine) -> str:
    """The module with `tracejit_abreast_products` for a dtype.

    >>> abreast_text("f32", Machine(64, 8, 3)).count("define i32 @tracejit_abreast_products(")
    1
    """
    kind = Kind(dtype, machine)
    more = "declare i64 @llvm.smax.i64(i64, i64)"
    parts = [declarations(kind), more, loaded(kind), stored(kind), clear(kind), _positions(kind)]
    parts += [after(), _without_gaps(kind), *(_block(kind, count) for count in BLOCKS)]
    parts += [_block(kind, count, row) for count in _OF_LINES for row in ROWS]
    return "\n".join([*parts, _step(kind)])


_GIVEN = (
    "ptr noalias %x, ptr noalias %block, ptr noalias %taps, i64 %first, i64 %last, ptr noalias %w,"
    " ptr noalias %out, ptr noalias %bias, ptr noalias %ends, i64 %gaps"
)


def _finished(kind: Kind, f: FunctionText, sums: Sequence[Variable]) -> None:
    """Add a number to each channel, and keep results between ``%ends``."""
    bias = kind.load(f, "%bias")
    for total in sums:
        total.set(f.make(f"fadd {kind.vector} {total.get()}, {bias}"))
    kind.bounded(f, sums)


def _block(kind: Kind, count: int, row: tuple[int, int] | None = None) -> str:
    """Taps [first, last) of so many positions of all channels."""
    name = f"block.{count}" if row is None else f"row.{count}.{row[0]}.{row[1]}"
    f = inner(kind, f"internal void @{name}({_GIVEN})")
    places = [(f.word("%block", 2 + 2 * i), 3 + 2 * i) for i in range(count)]
    starts = [f.at("%x", place, "i8") for place, _ in places]
    if row is None:
        sums = summed(kind, f, starts, ("%taps", "%first", "%last"), "%w")
    else:
        sums = _summed_rows(kind, f, starts[0], count, row)
    odd = f.variable("i1", "false")
    with f.when(f.compare("sgt", "%gaps", 0)):
        odd.set(kind.has_nan(f, [total.get() for total in sums]))
    with f.when(odd.get()):
        f.add(
            "call void @without_gaps(ptr %x, ptr %block, ptr %taps, i64 %first, i64 %last, ptr %w,"
            f" ptr %out, ptr %bias, ptr %ends, i64 {count})"
        )
        f.add("ret void")
        f.lines.append(f"{f.label('never')}:")
    _finished(kind, f, sums)
    for total, (_, number) in zip(sums, places, strict=True):
        kind.store(f, total.get(), f.at("%out", f.word("%block", number), "i8"))
    f.add("ret void")
    return f.finish()


def _summed_rows(
    kind: Kind, f: FunctionText, start: str, count: int, row: tuple[int, int]
) -> list[Variable]:
    """The sums of neighbours whose taps are rows of neighbours: a vector is read once for all of both."""
    taps, step = row
    sums = [f.variable(kind.vector, "zeroinitializer") for _ in range(count)]
    with f.loop("%first", "%last", taps) as k:
        entry = f.at("%taps", f.product(k, 2), "i64")
        places = (f.at("%w", f.word(entry, 2 * t + 1), "i8") for t in range(taps))
        factors = [kind.load(f, place) for place in places]
        here = f.at(start, f.word(entry, 0), "i8")
        for number, place in enumerate(kind.vectors_at(f, here, (count - 1) * step + taps)):
            near = [(v, number - v * step) for v in range(count)]
            near = [(v, t) for v, t in near if 0 <= t < taps]
            seen = kind.load(f, place) if near else ""
            for v, t in near:
                sums[v].set(kind.multiply_add(f, factors[t], seen, sums[v].get()))
    return sums


def _without_gaps(kind: Kind) -> str:
    """The same for any block, where gaps add nothing."""
    f = inner(kind, f"internal void @without_gaps({_GIVEN.replace('%gaps', '%count')})")
    with f.loop(0, "%count") as i:
        entry = f.at("%block", f.sum(f.product(i, 2), 2), "i64")
        start = f.at("%x", f.word(entry, 0), "i8")
        total = f.variable(kind.vector, "zeroinitializer")
        with f.loop("%first", "%last") as k:
            tap = f.at("%taps", f.product(k, 2), "i64")
            seen = kind.load(f, f.at(start, f.word(tap, 0), "i8"))
            factor = kind.load(f, f.at("%w", f.word(tap, 1), "i8"))
            more = kind.multiply_add(f, factor, seen, total.get())
            total.set(kind.unless_gap(f, seen, more, total.get()))
        _finished(kind, f, [total])
        kind.store(f, total.get(), f.at("%out", f.word(entry, 1), "i8"))
    f.add("ret void")
    return f.finish()


_PART = ("q1", "q0", "s1", "s0", "z1", "z0", "t1", "t0", "h0", "l1", "n1")


def _positions(kind: Kind) -> str:
    """The function that writes the blocks of a part that begins with result (r1, r0), and gives their number.

    In lines, blocks are neighbours of a line, of which the last are those of the block before, too, if need be.
    """
    given = ", ".join(f"i64 %{name}" for name in _PART)
    f = inner(
        kind,
        f"internal i64 @positions(ptr %table, i64 %some, i64 %in_lines, i64 %r1, i64 %r0, {given},"
        " ptr %lines, i64 %taps)",
    )
    vector = kind.machine.vector
    block, slot = f.variable("ptr", "%table"), f.variable("i64", 0)
    number = f.variable("i64", 0)
    nowhere = f.product(f.sum(f.product("%z1", "%z0"), kind.lanes), vector)

    def place(seen: str | int, result: str) -> None:
        at = f.at(block.get(), f.sum(f.product(slot.get(), 2), 2), "i64")
        f.put(seen, at)
        f.put(result, f.at(at, 1, "i64"))
        slot.set(f.sum(slot.get(), 1))
        with f.when(f.compare("eq", slot.get(), "%some")):
            _trimmed(f, block.get())
            block.set(f.at(block.get(), _BLOCK_WORDS, "i64"))
            slot.set(0)
            number.set(f.sum(number.get(), 1))

    lines = f.compare("sgt", "%in_lines", 0)
    width = f.product(f.quotient_up("%q0", "%some"), "%some")
    width = f.make(f"select i1 {lines}, i64 {width}, i64 %q0")
    most = f.make(f"select i1 {lines}, i64 {f.difference('%q0', '%some')}, i64 %q0")
    with f.loop(0, "%q1") as i:
        line = f.sum(f.product(i, "%s1"), "%r1")
        there = f.make(f"select i1 {f.compare('ult', line, '%z1')}, i64 {width}, i64 0")
        with f.loop(0, there) as j:
            rest = f.divided(j, "%some")[1]
            begin = f.least(f.difference(j, rest), most)
            j = f.make(f"select i1 {lines}, i64 {f.sum(begin, rest)}, i64 {j}")
            column = f.sum(f.product(j, "%s0"), "%r0")
            inside = f.compare("ult", column, "%z0")
            with f.when(f.compare("eq", slot.get(), 0)):
                f.put(i, block.get())
            f.put(i, f.at(block.get(), 1, "i64"))
            seen = f.sum(f.product(f.product(i, "%t1"), "%h0"), f.product(j, "%t0"))
            result = f.product(f.sum(f.product(line, "%z0"), column), vector)
            result = f.make(f"select i1 {inside}, i64 {result}, i64 {nowhere}")
            with f.when(f.make(f"or i1 {inside}, {lines}")):
                place(f.product(seen, vector), result)
    with f.when(f.compare("sgt", slot.get(), 0)), f.loop(slot.get(), "%some"):
        place(0, nowhere)
    f.add(f"ret i64 {number.get()}")
    return f.finish()


def _trimmed(f: FunctionText, entry: str) -> None:
    """The first and the last tap that sees something from the lines of a block, instead of these lines."""
    low, high = (f.sum("%l1", f.product(f.word(entry, n), "%t1")) for n in range(2))
    first, last = f.variable("i64", "%taps"), f.variable("i64", 0)
    with f.loop(0, "%taps") as k:
        line = f.word("%lines", f.product(k, 3))
        above = f.compare("sge", f.sum(high, line), 0)
        inside = f.make(f"and i1 {above}, {f.compare('slt', f.sum(low, line), '%n1')}")
        with f.when(inside):
            first.set(f.least(first.get(), k))
            last.set(f.sum(k, 1))
    f.put(first.get(), entry)
    f.put(last.get(), f.at(entry, 1, "i64"))


def _step(kind: Kind) -> str:
    """Units [lo, hi), each a channel of a sample.

    for (unit = lo; unit < hi; unit += count) { sample, channel = unit;
      count = channels of the sample, a vector at most;  turn what is seen of them, and their weights;
      for parts, blocks of positions: sums;  turn the results back }
    """
    f = inner(kind, "i32 @tracejit_abreast_products(ptr %args, i64 %lo, i64 %hi, i64 %worker)")
    a = arguments(f, ABREAST_WORDS)
    _tables(kind, f, a)
    clear_ = f.sum(f.product(a["h1"], a["h0"]), 1)
    f.add(f"call void @clear(ptr {a['copy']}, i64 {clear_})")
    following = Following(f, a)
    unit = f.variable("i64", "%lo")
    with f.as_long(unit, "%hi") as now:
        sample, channel = f.divided(now, a["channels"])
        count = f.least(f.difference(a["channels"], channel), f.difference("%hi", now))
        count = f.least(count, kind.lanes)
        last = f.difference(count, 1)
        place = f.sum(f.product(sample, a["xn"]), f.product(channel, a["xc"]))
        given = (f.at(a["x"], place, kind.scalar), last, a["elements"], a["copy"])
        load_call(f, kind, a, given)
        start = f.at(a["w"], f.product(channel, a["wm"]), kind.scalar)
        one = {"xc": a["wm"], "stretches": "1", "length": a["taps"], "xs": "0"}
        load_call(f, kind, one, (start, last, a["plain"], a["factors"]))
        bias = f.variable(kind.vector, "zeroinitializer")
        with f.when(f.compare("sgt", a["biased"], 0)):
            there = f.at(a["bias"], channel, kind.scalar)
            bias.set(kind.masked_load(f, there, kind.first_mask(f, count)))
        kind.store(f, bias.get(), a["added"])
        _blocks(kind, f, a)
        place = f.sum(f.product(sample, a["on"]), f.product(channel, a["om"]))
        target, om = f.at(a["out"], place, kind.scalar), f.product(a["om"], kind.nbytes)
        f.add(
            f"call void @stored(ptr {a['results']}, ptr {target}, i64 {om}, i64 {count},"
            f" i64 {f.product(a['z1'], a['z0'])})"
        )
        rows = (f.sum(f.product(sample, a["channels"]), channel), count)
        following.add(rows, ("0", f.product(a["z1"], a["z0"])))
        unit.set(f.sum(now, count))
    following.end()
    f.add("ret i32 0")
    return f.finish()


def _tables(kind: Kind, f: FunctionText, a: dict[str, str]) -> None:
    """Divide a worker's scratch memory, and write the tables of elements, taps, and blocks of positions."""
    vector = kind.machine.vector
    whole = f.product(f.quotient_up(a["taps"], kind.lanes), kind.lanes)
    results = f.product(a["z1"], a["z0"])
    own = f.aligned(f.at(a["scratch"], f.product("%worker", a["each"]), "i8"))
    a["added"] = own
    a["ends"] = kind.ends(f, a["floor"], a["ceiling"], f.at(own, vector, "i8"))
    a["factors"] = f.at(own, 2 * vector, "i8")
    a["copy"] = f.at(a["factors"], f.product(whole, vector), "i8")
    copied = f.sum(f.product(a["h1"], a["h0"]), 1)
    a["results"] = f.at(a["copy"], f.product(copied, vector), "i8")
    size = f.product(f.sum(results, kind.lanes + 1), vector)
    a["elements"] = f.at(a["results"], size, "i8")
    element_table(kind, f, a, a["elements"])
    seen = f.sum(f.product(a["n1"], a["n0"]), kind.lanes)
    a["plain"] = f.at(a["elements"], seen, "i64")
    plain_table(kind, f, whole, a["plain"])
    a["table"] = f.at(a["plain"], whole, "i64")
    words = f.at("%args", len(ABREAST_WORDS), "i64")
    with f.loop(0, a["taps"]) as t:
        for n in range(2):
            value = f.word(words, f.sum(f.product(t, 3), n))
            f.put(f.product(value, vector), f.at(a["table"], f.sum(f.product(t, 2), n), "i64"))
    a["blocks"] = f.at(a["table"], f.product(a["taps"], 2), "i64")
    some = f.variable("i64", some_places(f, f.product(a["q1"], a["q0"])))
    with f.when(f.compare("sgt", a["in_lines"], 0)):
        some.set(some_places(f, a["q0"], _OF_LINES))
    a["some"] = some.get()
    a["counts"] = f.at(words, f.product(a["taps"], 3), "i64")
    entry, begin, number = (
        f.variable("ptr", a["blocks"]),
        f.variable("i64", 0),
        f.variable("i64", 0),
    )
    rest = ", ".join(f"i64 {a[name]}" for name in _PART)
    with f.loop(0, a["s1"]) as i, f.loop(0, a["s0"]) as j:
        r1, r0 = f.difference(i, a["f1"]), f.difference(j, a["f0"])
        taps = f.word(a["counts"], f.product(number.get(), 2))
        lines = f.at(words, f.sum(f.product(begin.get(), 3), 2), "i64")
        first = f.at(entry.get(), 1, "i64")
        given = f"ptr {first}, i64 {a['some']}, i64 {a['in_lines']}, i64 {r1}, i64 {r0}, {rest}"
        given = f"{given}, ptr {lines}, i64 {taps}"
        count = f.make(f"call i64 @positions({given})")
        f.put(count, entry.get())
        entry.set(f.at(first, f.product(count, _BLOCK_WORDS), "i64"))
        begin.set(f.sum(begin.get(), taps))
        number.set(f.sum(number.get(), 1))


def _blocks(kind: Kind, f: FunctionText, a: dict[str, str]) -> None:
    """All blocks of all parts."""
    odd = f.variable(kind.vector, "zeroinitializer")
    with f.loop(0, a["taps"]) as t:
        w = kind.load(f, f.at(a["factors"], f.product(t, kind.machine.vector), "i8"))
        none = f.make(f"fsub {kind.vector} {w}, {w}")
        odd.set(f.make(f"fadd {kind.vector} {odd.get()}, {none}"))
    every = f.make(f"and i1 {kind.has_nan(f, [odd.get()])}, {f.compare('sle', a['gaps'], 0)}")
    entry, begin = f.variable("ptr", a["blocks"]), f.variable("i64", 0)
    with f.loop(0, a["parts"]) as part:
        taps = f.word(a["counts"], f.product(part, 2))
        code = f.word(f.at(a["counts"], f.product(part, 2), "i64"), 1)
        table = f.at(a["table"], f.product(begin.get(), 2), "i64")
        count, first_block = f.word(entry.get(), 0), f.at(entry.get(), 1, "i64")
        with f.loop(0, count) as number:
            block = f.at(first_block, f.product(number, _BLOCK_WORDS), "i64")
            first, last = f.word(block, 0), f.word(block, 1)
            first = f.make(f"select i1 {every}, i64 0, i64 {first}")
            last = f.make(f"select i1 {every}, i64 {taps}, i64 {last}")
            given = (
                f"ptr {a['copy']}, ptr {block}, ptr {table}, i64 {first}, i64 {last},"
                f" ptr {a['factors']}, ptr {a['results']}, ptr {a['added']}, ptr {a['ends']},"
                f" i64 {a['gaps']}"
            )
            _call_block(f, (a["some"], code), given)
        entry.set(f.at(first_block, f.product(count, _BLOCK_WORDS), "i64"))
        begin.set(f.sum(begin.get(), taps))


def _call_block(f: FunctionText, kind: tuple[str, str], given: str) -> None:
    """Call the function for so many positions, and for the taps of such a `row_code`."""
    some, code = kind
    ways = [(each, 0, f"block.{each}") for each in BLOCKS]
    ways += [
        (n, 10 * taps + step, f"row.{n}.{taps}.{step}") for n in _OF_LINES for taps, step in ROWS
    ]
    for each, number, name in ways:
        right = f.make(f"and i1 {f.compare('eq', some, each)}, {f.compare('eq', code, number)}")
        with f.when(right):
            f.add(f"call void @{name}({given})")
