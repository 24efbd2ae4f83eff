"""LLVM assembly of convolutions with something around, or strides, of many outputs: a lane of a vector is an output.

A block of results is neighbours of a line by vectors of outputs. What the neighbours see is read where it lies, one
number after the other, so that nothing is copied; channels and taps that see nothing are left out, line by line and at
the ends of lines. The weight is turned around for some outputs at a time, and results are turned back line by line.

Left out is what would add zeros: everywhere where what is around adds nothing (gaps, as in `tap_products`), elsewhere
if the weight has no nan and infinities.
Gradients of inputs of windows some elements apart have *parts*, the phases of the result, with some of the taps each.
A result is summed in one order, whatever part of the work a thread does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..ir_text import FunctionText, Variable
from .tap_after import Following, after
from .tap_outputs_blocks import EDGE, RANGE_WORDS, STEPS, TOGETHER, block_sizes, output_blocks
from .tap_runs import arguments
from .tap_turned import load_call, loaded, some_places, stored
from .vector_kind import Kind, declarations, inner
from .vector_machine import Machine

__all__ = ["LEAST_LINE", "OUTPUT_WORDS", "output_scratch", "outputs_text"]

#: Columns that a part of a line of results has at least.
LEAST_LINE = 4
#: Words of the step's arguments; after them for each part where its taps begin and how many lines and columns of them
#: it has, then for each of all the lines and columns, part by part, how far from the first tap; and for each tap, in
#: the order of the weight, its number among those of all parts, columns after columns, and how far it looks in x.
OUTPUT_WORDS = (
    *("x", "w", "bias", "out", "scratch", "each"),  # addresses, and bytes of scratch of a worker
    *("samples", "groups", "channels", "rows"),  # channels and rows of a group
    *("q0", "tiles"),  # columns of positions of a part, and into how many units they are divided
    *("n1", "n0", "xn", "xc", "x1"),  # what is seen
    *("l1", "l0"),  # where the first tap of the first position looks
    *("t1", "t0"),  # how far positions are apart
    *("wm", "wc", "whole"),  # strides in elements; 1 where the weight of a row is one stretch
    *("on", "om"),
    *("s1", "s0", "f1", "f0", "z1", "z0"),  # parts, the first one of results, and their extents
    *("parts", "biased"),
    *("floor", "ceiling", "gaps", "after", "taps"),  # bounds are the bits of float64
)
_PART_WORDS, _TAP_WORDS = 5, 2


def output_scratch(machine: Machine, nbytes: int, count: Any, width: Any, taps: int) -> Any:
    """Bytes that a worker needs, for so many channels and taps, and columns of results.

    >>> output_scratch(Machine(64, 8, 3), 4, 576, 56, 9)
    94960
    """
    lanes = machine.vector // nbytes
    begun = (block_sizes(machine)[0] + 2) * TOGETHER
    vectors = begun + TOGETHER * (count + 1) + TOGETHER * (width + lanes + 1) + 1
    return 64 + machine.vector * vectors + 8 * (2 * count + lanes + RANGE_WORDS * (taps + 1))


def outputs_text(dtype: str, machine: Machine) -> str:
    """The module with `tracejit_output_products` for a dtype.

    >>> outputs_text("f32", Machine(64, 8, 3)).count("define i32 @tracejit_output_products(")
    1
    """
    kind = Kind(dtype, machine)
    more = "declare i64 @llvm.smax.i64(i64, i64)"
    parts = [declarations(kind), more, after(), loaded(kind), stored(kind), *output_blocks(kind)]
    return "\n".join([*parts, _step(kind)])


def _step(kind: Kind) -> str:
    """Units [lo, hi), each a part of a line of results of some outputs.

    for (unit = lo; unit < hi; unit++) { group, outputs, sample, line, tile = unit;
      turn the weight of these outputs, if it is another than before;
      for the parts of the line, blocks of neighbours: sums;  turn the results back }
    """
    f = inner(kind, "i32 @tracejit_output_products(ptr %args, i64 %lo, i64 %hi, i64 %worker)")
    a = arguments(f, OUTPUT_WORDS)
    _tables(kind, f, a)
    vectors = f.quotient_up(a["rows"], kind.lanes)
    some = f.quotient_up(vectors, TOGETHER)
    lines = f.product(f.product(a["samples"], a["z1"]), a["tiles"])
    following = Following(f, a)
    before, every = f.variable("i64", -1), f.variable("i1", "false")
    with f.loop("%lo", "%hi") as unit:
        above, rest = f.divided(unit, lines)
        a["group"], number = f.divided(above, some)
        first = f.product(number, TOGETHER)
        a["vectors"] = f.least(TOGETHER, f.difference(vectors, first))
        a["first"] = f.product(first, kind.lanes)
        with f.when(f.compare("ne", above, before.get())):
            _weight(kind, f, a, every)
            before.set(above)
        rest, tile = f.divided(rest, a["tiles"])
        a["sample"], a["line"] = f.divided(rest, a["z1"])
        a["j0"] = f.divided(f.product(tile, a["q0"]), a["tiles"])[0]
        a["j1"] = f.divided(f.product(f.sum(tile, 1), a["q0"]), a["tiles"])[0]
        _parts(kind, f, a, every.get())
        _results(kind, f, a, following)
    following.end()
    f.add("ret i32 0")
    return f.finish()


def _tables(kind: Kind, f: FunctionText, a: dict[str, str]) -> None:
    """Divide a worker's scratch memory, and write where channels and taps look, and where the weight's numbers go."""
    vector = kind.machine.vector
    own = f.aligned(f.at(a["scratch"], f.product("%worker", a["each"]), "i8"))
    a["added"], a["begun"] = own, f.at(own, (TOGETHER + 1) * vector, "i8")
    a["ends"] = kind.ends(f, a["floor"], a["ceiling"], f.at(own, TOGETHER * vector, "i8"))
    a["factors"] = f.at(a["begun"], block_sizes(kind.machine)[0] * TOGETHER * vector, "i8")
    count = f.product(a["channels"], a["taps"])
    size = f.product(f.sum(count, 1), TOGETHER * vector)
    a["results"] = f.at(a["factors"], size, "i8")
    width = f.product(f.quotient_up(a["q0"], a["tiles"]), a["s0"])
    a["plane"] = f.product(f.sum(width, kind.lanes), vector)
    a["places"] = f.at(a["results"], f.product(a["plane"], TOGETHER), "i8")
    a["table"] = f.at(a["places"], count, "i64")
    a["ranges"] = f.at(a["table"], f.sum(count, kind.lanes), "i64")
    a["some"] = some_places(f, f.divided(a["z0"], a["s0"])[0], block_sizes(kind.machine))
    a["partial"] = f.at("%args", len(OUTPUT_WORDS), "i64")
    last = f.at(a["partial"], f.product(f.difference(a["parts"], 1), _PART_WORDS), "i64")
    after = f.sum(f.word(last, 4), f.word(last, 2))
    words = f.at(a["partial"], after, "i64")
    with f.loop(0, a["taps"]) as t:
        tap = f.at(words, f.product(t, _TAP_WORDS), "i64")
        number, place = f.product(f.word(tap, 0), a["channels"]), f.word(tap, 1)
        with f.loop(0, a["channels"]) as c:
            k = f.sum(number, c)
            at = f.product(f.sum(f.product(c, a["xc"]), place), kind.nbytes)
            f.put(at, f.at(a["places"], k, "i64"))
            e = f.sum(f.product(c, a["taps"]), t)
            f.put(f.product(k, TOGETHER * vector), f.at(a["table"], e, "i64"))
    with f.loop(count, f.sum(count, kind.lanes)) as e:
        f.put(f.product(count, TOGETHER * vector), f.at(a["table"], e, "i64"))


def _vector_of(kind: Kind, f: FunctionText, a: dict[str, str], v: int) -> tuple[str, str]:
    """The first output of a vector of the present ones, and how many it has, up to all lanes."""
    first = f.sum(a["first"], v * kind.lanes)
    return first, f.least(kind.lanes, f.difference(a["rows"], first))


def _weight(kind: Kind, f: FunctionText, a: dict[str, str], every: Variable) -> None:
    """Turn the weight of the present outputs, and what is added to them; say if nothing may be left out."""
    vector = kind.machine.vector
    count = f.product(a["channels"], a["taps"])
    whole = f.compare("sgt", a["whole"], 0)
    stretches = f.make(f"select i1 {whole}, i64 1, i64 {a['channels']}")
    length = f.make(f"select i1 {whole}, i64 {count}, i64 {a['taps']}")
    names = {"xc": a["wm"], "stretches": stretches, "length": length, "xs": a["wc"]}
    odd = f.variable(kind.vector, "zeroinitializer")
    for v in range(TOGETHER):
        first, number = _vector_of(kind, f, a, v)
        row = f.sum(f.product(a["group"], a["rows"]), first)
        target = f.at(a["factors"], v * vector, "i8")
        bias = f.variable(kind.vector, "zeroinitializer")
        with f.when(f.compare("sgt", number, 0)):
            start = f.at(a["w"], f.product(row, a["wm"]), kind.scalar)
            given = (start, f.difference(number, 1), a["table"], target)
            load_call(f, kind, names, given)
            with f.loop(0, count) as k:
                place = f.at(target, f.product(k, TOGETHER * vector), "i8")
                w = kind.load(f, place)
                none = f.make(f"fsub {kind.vector} {w}, {w}")
                odd.set(f.make(f"fadd {kind.vector} {odd.get()}, {none}"))
            with f.when(f.compare("sgt", a["biased"], 0)):
                mask = kind.first_mask(f, number)
                bias.set(kind.masked_load(f, f.at(a["bias"], row, kind.scalar), mask))
        kind.store(f, bias.get(), f.at(a["added"], v * vector, "i8"))
    unfit = kind.has_nan(f, [odd.get()])
    every.set(f.make(f"and i1 {unfit}, {f.compare('sle', a['gaps'], 0)}"))


def _results(kind: Kind, f: FunctionText, a: dict[str, str], following: Following) -> None:
    """Turn a line's results back."""
    begin = f.difference(f.product(a["j0"], a["s0"]), a["f0"])
    end = f.least(a["z0"], f.difference(f.product(a["j1"], a["s0"]), a["f0"]))
    column = f.most(0, begin)
    om = f.product(a["om"], kind.nbytes)
    for v in range(TOGETHER):
        first, number = _vector_of(kind, f, a, v)
        row = f.sum(f.product(a["group"], a["rows"]), first)
        place = f.sum(f.product(a["sample"], a["on"]), f.product(row, a["om"]))
        place = f.sum(place, f.sum(f.product(a["line"], a["z0"]), column))
        source = f.at(a["results"], f.product(a["plane"], v), "i8")
        skipped = f.product(f.difference(column, begin), kind.machine.vector)
        with f.when(f.compare("sgt", number, 0)):
            f.add(
                f"call void @stored(ptr {f.at(source, skipped, 'i8')},"
                f" ptr {f.at(a['out'], place, kind.scalar)}, i64 {om}, i64 {number},"
                f" i64 {f.difference(end, column)})"
            )
    row = f.sum(f.product(a["sample"], a["groups"]), a["group"])
    row = f.sum(f.product(row, a["rows"]), a["first"])
    count = f.least(TOGETHER * kind.lanes, f.difference(a["rows"], a["first"]))
    place = f.sum(f.product(a["line"], a["z0"]), column)
    following.add((row, count), (place, f.difference(end, column)))


def _parts(kind: Kind, f: FunctionText, a: dict[str, str], every: str) -> None:
    """The parts of a line, each block after block."""
    i, r1 = f.divided(f.sum(a["line"], a["f1"]), a["s1"])
    base = f.sum(f.product(i, a["t1"]), a["l1"])
    place = f.sum(f.product(a["sample"], a["xn"]), f.product(base, a["x1"]))
    channel = f.product(f.product(a["group"], a["channels"]), a["xc"])
    line = f.at(a["x"], f.sum(f.sum(place, channel), a["l0"]), kind.scalar)
    with f.loop(0, a["s0"]) as r0:
        number = f.sum(f.product(r1, a["s0"]), r0)
        part = f.at(a["partial"], f.product(number, _PART_WORDS), "i64")
        p = {
            name: f.word(part, n)
            for n, name in enumerate(("start", "rows", "columns", "far1", "far0"))
        }
        far = f.at(a["partial"], p["far1"], "i64")
        low, high = f.variable("i64", 0), f.variable("i64", 0)
        with f.loop(0, p["rows"]) as r:
            y = f.sum(base, f.word(far, r))
            above = f.make(f"zext i1 {f.compare('slt', y, 0)} to i64")
            low.set(f.sum(low.get(), above))
            inside = f.make(f"zext i1 {f.compare('slt', y, a['n1'])} to i64")
            high.set(f.sum(high.get(), inside))
        p["low"], p["high"] = f.least(low.get(), high.get()), high.get()
        begin = f.most(a["j0"], f.quotient_up(f.difference(a["f0"], r0), a["s0"]))
        ends = f.difference(f.sum(a["z0"], a["f0"]), r0)
        end = f.least(a["j1"], f.quotient_up(ends, a["s0"]))
        with f.loop(begin, end, a["some"]) as j:
            j = f.least(j, f.difference(end, a["some"]))
            column = f.sum(f.product(f.difference(j, a["j0"]), a["s0"]), r0)
            p["out"] = f.at(a["results"], f.product(column, kind.machine.vector), "i8")
            p["x"] = f.at(line, f.product(j, a["t0"]), kind.scalar)
            p["column"] = f.sum(f.product(j, a["t0"]), a["l0"])
            _one_block(kind, f, a, p, every)


def _sees_all(f: FunctionText, a: dict[str, str], p: dict[str, str], last: str) -> str:
    """Do all taps of a part see something from all positions of a block?"""
    most = f.difference(p["high"], p["low"])
    first = f.sum(p["column"], f.word(a["partial"], p["far0"]))
    number = f.sum(p["far0"], f.most(0, f.difference(p["columns"], 1)))
    end = f.sum(p["column"], f.word(a["partial"], number))
    end = f.sum(end, f.product(last, a["t0"]))
    found = f.compare("eq", most, p["rows"])
    for test in (f.compare("sge", first, 0), f.compare("slt", end, a["n0"])):
        found = f.make(f"and i1 {found}, {test}")
    return found


def _range(
    f: FunctionText, a: dict[str, str], p: dict[str, str], c: str, rows: Sequence[str]
) -> list[str]:
    """The numbers of some of the lines of taps of a column."""
    start = f.sum(p["start"], f.product(c, p["rows"]))
    return [f.product(f.sum(start, r), a["channels"]) for r in rows]


def _one_block(
    kind: Kind, f: FunctionText, a: dict[str, str], p: dict[str, str], every: str
) -> None:
    """The ranges of channels and taps that a block sees, and the block."""
    number, more = f.variable("i64", 0), f.variable("i64", 0)
    far = f.at(a["partial"], p["far0"], "i64")
    last = f.difference(a["some"], 1)
    whole = _sees_all(f, a, p, last)
    whole = f.make(f"and i1 {whole}, {f.make(f'xor i1 {every}, true')}")
    with f.when(whole):
        end = f.sum(p["start"], f.product(p["columns"], p["rows"]))
        for n, word in enumerate((p["start"], end)):
            f.put(f.product(word, a["channels"]), f.at(a["ranges"], n, "i64"))
        f.put(0, f.at(a["ranges"], 2, "i64"))
        number.set(1)
    with f.loop(0, f.make(f"select i1 {whole}, i64 0, i64 {p['columns']}")) as c:
        at = f.sum(p["column"], f.word(far, c))
        before = f.least(a["some"], f.quotient_up(f.most(0, f.difference(0, at)), a["t0"]))
        room = f.difference(f.difference(a["n0"], at), f.product(last, a["t0"]))
        after = f.quotient_up(f.most(0, f.difference(1, room)), a["t0"])
        after = f.least(after, f.difference(a["some"], before))
        first, end = _range(f, a, p, c, (p["low"], p["high"]))
        code = f.sum(before, f.product(after, 1 << 8))
        known = f.variable("i64", -1)
        for n in range(EDGE + 1):
            with f.when(f.compare("eq", code, n)):
                known.set(n)
            with f.when(f.compare("eq", code, n << 8)):
                known.set(n + EDGE if n else 0)
        with f.when(every):
            known.set(-1)
        with f.when(f.compare("sge", known.get(), 0)):
            entry = f.at(a["ranges"], f.product(number.get(), RANGE_WORDS), "i64")
            for n, word in enumerate((first, end, known.get())):
                f.put(word, f.at(entry, n, "i64"))
            number.set(f.sum(number.get(), 1))
        with f.when(f.compare("slt", known.get(), 0)):
            _one_by_one(kind, f, a, p, (c, before, after, every), more)
    given = (
        f"ptr {p['x']}, ptr {a['places']}, ptr {a['factors']}, ptr {a['ranges']},"
        f" i64 {number.get()}, ptr {a['begun']}, i64 {more.get()}, ptr {p['out']},"
        f" i64 {a['plane']}, i64 {f.product(a['s0'], kind.machine.vector)}, ptr {a['added']},"
        f" ptr {a['ends']}"
    )
    code = f.sum(f.product(f.sum(f.product(a["some"], 10), a["vectors"]), 10), a["t0"])
    for block in block_sizes(kind.machine):
        for v in range(1, TOGETHER + 1):
            for step in STEPS:
                with f.when(f.compare("eq", code, 100 * block + 10 * v + step)):
                    f.add(f"call void @block.{block}.{v}.{step}({given})")


def _one_by_one(
    kind: Kind,
    f: FunctionText,
    a: dict[str, str],
    p: dict[str, str],
    column: tuple[str, str, str, str],
    more: Variable,
) -> None:
    """What a column of taps gives to a block, position by position."""
    c, before, after, every = column
    each = TOGETHER * kind.machine.vector
    with f.when(f.compare("eq", more.get(), 0)):
        size = f.product(a["some"], each)
        f.add(f"call void @llvm.memset.p0.i64(ptr {a['begun']}, i8 0, i64 {size}, i1 0)")
        more.set(1)
    first, low, high, end = _range(f, a, p, c, ("0", p["low"], p["high"], p["rows"]))
    inside_end = f.difference(a["some"], after)
    with f.loop(0, a["some"]) as i:
        sums = f.at(a["begun"], f.product(i, each), "i8")
        left, right = f.compare("sge", i, before), f.compare("slt", i, inside_end)
        inside = f.make(f"and i1 {left}, {right}")
        here = f.at(p["x"], f.product(i, a["t0"]), kind.scalar)
        with f.when(inside):
            f.add(
                f"call void @single(ptr {here}, ptr {a['places']}, ptr {a['factors']},"
                f" i64 {low}, i64 {high}, ptr {sums})"
            )
        with f.when(every):
            for begin, stop in ((first, low), (high, end)):
                f.add(
                    f"call void @outside(ptr {a['factors']}, i64 {begin}, i64 {stop}, ptr {sums})"
                )
        with f.when(f.make(f"and i1 {every}, {f.make(f'xor i1 {inside}, true')}")):
            f.add(f"call void @outside(ptr {a['factors']}, i64 {low}, i64 {high}, ptr {sums})")
