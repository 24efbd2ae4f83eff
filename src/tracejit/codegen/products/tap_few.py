"""LLVM assembly of convolutions whose groups have few rows: depthwise ones, and those to an image.

With one to three rows there is nothing to lay out for. What some lines of positions see is copied (`tap_memory`),
channel by channel, to where it stays in the first caches: the padding is added there, and columns that are seen
alike become neighbours. What a tap sees of a few vectors of positions is then read where it is. These vectors are
pieces of lines of positions one below the other, or follow each other where there is one line.

Gradients of inputs of windows some elements apart have *parts*, the phases of the result, with some of the taps each.
They are written side by side in scratch memory, and woven into lines of results.
Results are summed in one order, whatever part of the work a thread does; gaps are as in `tap_products`.
"""

from __future__ import annotations

from ..ir_text import FunctionText
from .tap_after import Following, after
from .tap_few_blocks import few_blocks, few_rows
from .tap_memory import SEEN_WORDS, Source, copy, copy_call, copy_declarations
from .tap_runs import arguments
from .tap_weaving import weave, weave_declarations
from .vector_kind import Kind, declarations, inner
from .vector_machine import Machine

__all__ = ["FEW_PRODUCT_WORDS", "few_products_text", "few_scratch", "few_source"]

#: Words of the step's arguments; after them where each tap is in what was copied, where it is in the weight, in
#: elements, and how many of the taps each part has and its `tall_code`: taps of a column follow each other.
FEW_PRODUCT_WORDS = (
    *(
        "x",
        "w",
        "bias",
        "out",
        "scratch",
        "each",
    ),  # addresses, and bytes of scratch memory per worker
    *("samples", "groups", "channels", "rows"),  # channels and rows of a group
    *(
        "q2",
        "q1",
        "q0",
        "strip",
        "span",
    ),  # positions, and how many lines and columns of them go together
    *SEEN_WORDS,
    *("planes", "lines", "width", "phases", "below", "together"),  # a piece, and its channels
    *("channel", "direct"),  # from one channel to the next; 1 where nothing is copied
    *("wm", "wc", "on", "om", "o2", "o1"),  # strides in elements
    *(
        "s2",
        "s1",
        "s0",
        "f2",
        "f1",
        "f0",
        "z2",
        "z1",
        "z0",
    ),  # parts, the first one of results, and their extents
    *("parts", "biased", "floor", "ceiling", "gaps", "after", "taps"),  # bounds: bits of float64
)


def few_scratch(machine: Machine, nbytes: int, piece: int, taps: int, results: int) -> int:
    """Bytes that a worker needs, for elements of a piece, taps of all of its channels, and woven results.

    >>> few_scratch(Machine(64, 8, 3), 4, 800, 9, 0)
    3496
    """
    return 64 + nbytes * (piece + results) + machine.vector + 8 * (2 * taps + 3)


def few_products_text(dtype: str, machine: Machine) -> str:
    """The module with `tracejit_few_products` for a dtype.

    >>> few_products_text("f32", Machine(64, 8, 3)).count("define i32 @tracejit_few_products(")
    1
    """
    kind = Kind(dtype, machine)
    parts = [declarations(kind), copy_declarations(kind), weave_declarations(kind)]
    parts += [after(), copy(kind, True), weave(kind), *few_blocks(kind)]
    return "\n".join([*parts, _step(kind)])


def _tables(kind: Kind, f: FunctionText, a: dict[str, str]) -> None:
    """Where the taps of a piece's channels are in it and in the weight, part by part, and a zero for no bias."""
    a["count"] = f.product(a["together"], a["taps"])
    offsets = f.at("%args", len(FEW_PRODUCT_WORDS), "i64")
    factors = f.at(offsets, a["taps"], "i64")
    a["counts"] = f.at(factors, a["taps"], "i64")
    own = f.at(a["scratch"], f.product("%worker", a["each"]), "i8")
    a["none"], a["table"] = own, f.at(own, 3, "i64")
    a["ends"] = kind.ends(f, a["floor"], a["ceiling"], f.at(own, 1, "i64"))
    a["piece"] = f.aligned(f.at(a["table"], f.product(a["count"], 2), "i64"))
    a["row"] = f.product(a["width"], a["phases"])
    a["results"] = f.at(a["piece"], f.product(a["together"], a["channel"]), kind.scalar)
    f.put(0, a["none"])
    begin = f.variable("i64", 0)
    with f.loop(0, a["parts"]) as part:
        taps, first = f.word(a["counts"], f.product(part, 2)), begin.get()
        start = f.product(first, a["together"])
        with f.loop(0, a["together"]) as c, f.loop(0, taps) as t:
            place = f.product(f.sum(start, f.sum(f.product(c, taps), t)), 2)
            for number, (each, words) in enumerate((("channel", offsets), ("wc", factors))):
                value = f.sum(f.product(c, a[each]), f.word(words, f.sum(first, t)))
                there = f.at(a["table"], f.sum(place, number), "i64")
                f.put(f.product(value, kind.nbytes), there)
        begin.set(f.sum(first, taps))


def _step(kind: Kind) -> str:
    """Units [lo, hi), each some lines and columns of the positions of a group of a sample.

    for (unit = lo; unit < hi; unit++) { sample, group, plane, first line, first column = unit;
      for some channels at once { copy what is seen of them;  for the parts: for the rows, a few at once: lines };
      weave the parts, if they are columns }
    """
    f = inner(kind, "i32 @tracejit_few_products(ptr %args, i64 %lo, i64 %hi, i64 %worker)")
    a = arguments(f, FEW_PRODUCT_WORDS)
    _tables(kind, f, a)
    a["wide"] = f.product(f.quotient_up(a["span"], kind.lanes), kind.lanes)
    a["woven"] = f.compare("sgt", a["s0"], 1)
    tiles, strips = f.quotient_up(a["q0"], a["span"]), f.quotient_up(a["q1"], a["strip"])
    following = Following(f, a)
    with f.loop("%lo", "%hi") as unit:
        above, tile = f.divided(unit, tiles)
        above, strip = f.divided(above, strips)
        above, a["plane"] = f.divided(above, a["q2"])
        sample, a["group"] = f.divided(above, a["groups"])
        a["first"], a["column"] = f.product(strip, a["strip"]), f.product(tile, a["span"])
        a["high"] = f.least(a["strip"], f.difference(a["q1"], a["first"]))
        a["wide_now"] = f.least(a["span"], f.difference(a["q0"], a["column"]))
        channel = f.product(f.product(a["group"], a["channels"]), a["xc"])
        x = f.at(a["x"], f.sum(f.product(sample, a["xn"]), channel), kind.scalar)
        first = f.product(f.product(a["group"], a["rows"]), a["om"])
        a["there"] = f.at(a["out"], f.sum(f.product(sample, a["on"]), first), kind.scalar)
        with f.loop(0, a["channels"], a["together"]) as channel:
            a["now"] = f.least(a["together"], f.difference(a["channels"], channel))
            source = few_source(f, a, f.at(x, f.product(channel, a["xc"]), kind.scalar))
            place = f.sum(f.product(source.b2, a["x2"]), f.product(source.b1, a["x1"]))
            place = f.at(source.x, f.sum(place, source.b0), kind.scalar)
            direct = f.compare("sgt", a["direct"], 0)
            a["seen"] = f.make(f"select i1 {direct}, ptr {place}, ptr {a['piece']}")
            copied = f.make(f"select i1 {direct}, i64 0, i64 {a['now']}")
            with f.loop(0, copied) as c:
                here = f.at(x, f.product(f.sum(channel, c), a["xc"]), kind.scalar)
                target = f.at(a["piece"], f.product(c, a["channel"]), kind.scalar)
                copy_call(f, kind, a, few_source(f, a, here), target)
            _parts(kind, f, a, channel)
        with f.when(a["woven"]):
            _weave(kind, f, a)
        _after(f, a, following, sample)
    following.end()
    f.add("ret i32 0")
    return f.finish()


def _after(f: FunctionText, a: dict[str, str], following: Following, sample: str) -> None:
    """What follows lines of results, which are those of positions."""
    row = f.product(f.sum(f.product(sample, a["groups"]), a["group"]), a["rows"])
    line = f.sum(f.product(a["plane"], a["q1"]), a["first"])
    whole = f.compare("eq", a["wide_now"], a["q0"])
    lines = f.make(f"select i1 {whole}, i64 1, i64 {a['high']}")
    together = f.make(f"select i1 {whole}, i64 {a['high']}, i64 1")
    with f.loop(0, lines) as r:
        place = f.sum(f.product(f.sum(line, r), a["q0"]), a["column"])
        following.add((row, a["rows"]), (place, f.product(together, a["wide_now"])))


def few_source(f: FunctionText, a: dict[str, str], x: str) -> Source:
    """What positions of ``plane`` from line ``first`` and column ``column`` on see of a channel.

    >>> names = ("l2", "plane", "t2", "l1", "first", "t1", "l0", "column", "t0", "planes", "lines")
    >>> few_source(FunctionText("void @f(ptr %x)"), {name: "1" for name in names}, "%x")
    Source(x='%x', b2='%t2', b1='%t4', b0='%t6', planes='1', lines='1')
    """
    places = (("l2", "plane", "t2"), ("l1", "first", "t1"), ("l0", "column", "t0"))
    at = [f.sum(a[low], f.product(a[number], a[step])) for low, number, step in places]
    b2, b1, b0 = at
    return Source(x, b2, b1, b0, a["planes"], a["lines"])


def _results(
    f: FunctionText, a: dict[str, str], r2: str, r1: str
) -> tuple[str, str, str, str, str]:
    """Where planes and lines of a part begin among results, the lines that are among them, and whether the plane is."""
    plane = f.difference(f.sum(f.product(a["plane"], a["s2"]), r2), a["f2"])
    line = f.difference(f.sum(f.product(a["first"], a["s1"]), r1), a["f1"])
    before = f.make(f"zext i1 {f.compare('slt', line, 0)} to i64")
    after = f.quotient_up(f.difference(a["z1"], line), a["s1"])
    return plane, line, before, f.least(a["high"], after), f.compare("ult", plane, a["z2"])


def _parts(kind: Kind, f: FunctionText, a: dict[str, str], channel: str) -> None:
    """Add what some channels give to all parts."""
    last = f.compare("eq", f.sum(channel, a["now"]), a["channels"])
    biased = f.make(f"and i1 {f.compare('sgt', a['biased'], 0)}, {last}")
    ends = f.make(f"select i1 {last}, ptr {a['ends']}, ptr null")
    more = f.compare("sgt", channel, 0)
    begin, part = (f.variable("i64", 0) for _ in range(2))
    with f.loop(0, a["s2"]) as r2, f.loop(0, a["s1"]) as r1:
        plane, line, before, after, there = _results(f, a, r2, r1)
        with f.loop(0, a["s0"]):
            number, start = part.get(), begin.get()
            entry = f.at(a["counts"], f.product(number, 2), "i64")
            taps, tall = f.word(entry, 0), f.word(entry, 1)
            own = f.product(f.product(number, a["strip"]), a["wide"])
            place = f.sum(f.product(plane, a["o2"]), f.product(line, a["o1"]))
            place = f.sum(place, a["column"])
            where = {
                "out": _either(
                    f, a, f.at(a["results"], own, kind.scalar), f.at(a["there"], place, kind.scalar)
                ),
                "om": _either(
                    f, a, f.product(f.product(a["parts"], a["strip"]), a["wide"]), a["om"], "i64"
                ),
                "under": _either(f, a, a["wide"], f.product(a["s1"], a["o1"]), "i64"),
                "taps": f.product(start, a["together"]),
                "count": f.product(taps, a["now"]),
                "tall": tall,
                "biased": biased,
                "ends": ends,
                "more": more,
                "channel": channel,
            }
            with f.when(there):
                _rows(kind, f, a, where, (before, after))
            begin.set(f.sum(start, taps))
            part.set(f.sum(number, 1))


def _either(f: FunctionText, a: dict[str, str], woven: str, direct: str, kind: str = "ptr") -> str:
    return f.make(f"select i1 {a['woven']}, {kind} {woven}, {kind} {direct}")


def _rows(
    kind: Kind, f: FunctionText, a: dict[str, str], where: dict[str, str], lines: tuple[str, str]
) -> None:
    """A part of all rows of the group."""
    row = f.variable("i64", 0)
    wm, om, under, below = (
        f.product(n, kind.nbytes)
        for n in (a["wm"], where["om"], where["under"], f.product(a["below"], a["row"]))
    )
    first, last = lines
    taps = f.at(a["table"], f.product(where["taps"], 2), "i64")
    each = f.make(f"select i1 {where['biased']}, i64 {kind.nbytes}, i64 0")
    start = f.product(a["group"], a["rows"])
    for rows in few_rows():
        with f.as_long(row, f.difference(a["rows"], rows - 1)) as m:
            number = f.sum(start, m)
            at = f.sum(f.product(number, a["wm"]), f.product(where["channel"], a["wc"]))
            bias = f.at(a["bias"], number, kind.scalar)
            bias = f.make(f"select i1 {where['biased']}, ptr {bias}, ptr {a['none']}")
            f.add(
                f"call void @lines.{rows}(ptr {a['seen']}, i64 {below}, ptr {taps},"
                f" ptr {f.at(a['w'], at, kind.scalar)}, i64 {wm}, i64 {where['count']},"
                f" ptr {f.at(where['out'], f.product(m, om), 'i8')}, i64 {om},"
                f" i64 {under}, ptr {bias}, i64 {each}, ptr {where['ends']}, i1 {where['more']}, i64 {first},"
                f" i64 {last}, i64 {a['wide_now']}, i64 {a['gaps']}, i64 {where['tall']})"
            )
            row.set(f.sum(m, rows))


def _weave(kind: Kind, f: FunctionText, a: dict[str, str]) -> None:
    """Parts of columns as lines of results."""
    each = f.product(a["strip"], a["wide"])
    part = f.variable("i64", 0)
    with f.loop(0, a["rows"]) as m, f.loop(0, a["s2"]) as r2, f.loop(0, a["s1"]) as r1:
        plane, line, before, after, there = _results(f, a, r2, r1)
        start = f.at(a["results"], f.product(part.get(), each), kind.scalar)
        place = f.sum(f.product(plane, a["o2"]), f.product(line, a["o1"]))
        target = f.at(a["there"], f.sum(f.product(m, a["om"]), place), kind.scalar)
        with f.when(there), f.loop(before, after) as v:
            source = f.at(start, f.product(v, a["wide"]), kind.scalar)
            out = f.at(target, f.product(f.product(v, a["s1"]), a["o1"]), kind.scalar)
            left = f.difference(f.product(a["column"], a["s0"]), a["f0"])
            f.add(
                f"call void @weave(ptr {source}, i64 {f.product(each, kind.nbytes)}, i64 {a['s0']},"
                f" i64 {a['wide_now']}, ptr {out}, i64 {left}, i64 {a['z0']})"
            )
        part.set(f.sum(part.get(), a["s0"]))
