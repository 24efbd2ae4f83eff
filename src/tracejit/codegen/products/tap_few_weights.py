"""LLVM assembly of gradients of weights whose groups have few rows of outputs (`tap_few` has their products).

What some lines of positions see of a channel is copied (`tap_memory`), and some taps' sums stay in registers while
these positions go by, a vector of them at a time. Results are summed in one order, whatever part of the work a thread
does.
"""

from __future__ import annotations

from ..ir_text import FunctionText
from .tap_few import few_source
from .tap_few_blocks import few_rows
from .tap_memory import SEEN_WORDS, copy, copy_call, copy_declarations
from .tap_runs import arguments
from .vector_kind import Kind, declarations, inner
from .vector_machine import Machine

__all__ = ["FEW_WEIGHT_WORDS", "few_weight_scratch", "few_weights_text"]

#: Words of the step's arguments; after them where each tap is in what was copied, in elements.
FEW_WEIGHT_WORDS = (
    *("x", "y", "out", "scratch", "each"),  # addresses, and bytes of scratch memory per worker
    *("samples", "groups", "channels", "rows"),  # channels and outputs of a group
    *(
        "q2",
        "q1",
        "q0",
        "strip",
        "span",
    ),  # positions, and how many lines and columns of them go together
    *SEEN_WORDS,
    *("planes", "lines", "width", "phases", "below"),  # a piece
    *(
        "yn",
        "ym",
        "splits",
        "taps",
    ),  # strides in elements, and into how many units the taps are divided
)


def few_weight_scratch(machine: Machine, nbytes: int, piece: int, taps: int, rows: int) -> int:
    """Bytes that a worker needs, for elements of a piece, taps, and rows of outputs.

    >>> few_weight_scratch(Machine(64, 8, 3), 4, 800, 9, 1)
    3976
    """
    return 64 + nbytes * piece + machine.vector * (taps * rows + 1) + 8 * taps


def few_weights_text(dtype: str, machine: Machine) -> str:
    """The module with `tracejit_few_weights` for a dtype.

    >>> few_weights_text("f32", Machine(64, 8, 3)).count("define i32 @tracejit_few_weights(")
    1
    """
    kind = Kind(dtype, machine)
    parts = [declarations(kind), copy_declarations(kind), copy(kind, True), _total(kind)]
    parts += [_sums(kind, rows, taps) for rows in few_rows() for taps in kind.blocks]
    return "\n".join([*parts, _step(kind)])


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


_LINES = "i64 %high, i64 %wide, i64 %below, i64 %yline, i64 %ym"


def _sums(kind: Kind, rows: int, taps: int) -> str:
    """Add some lines of positions to some taps' sums, of a few rows of what came out there.

    for lines, vectors of positions p: for taps k, rows i: sum[k][i] += x[kx[k] + p] * y[i * ym + p]
    """
    f = inner(
        kind, f"internal void @sums.{rows}.{taps}(ptr %x, ptr %kx, ptr %y, ptr %sums, {_LINES})"
    )
    places = kind.vectors_at(f, "%sums", taps * rows)
    sums = [f.variable(kind.vector, kind.load(f, place)) for place in places]
    starts = [f.at("%x", f.word("%kx", k), "i8") for k in range(taps)]
    with f.loop(0, "%high") as line:
        below, came = f.product(line, "%below"), f.at("%y", f.product(line, "%yline"), "i8")
        with f.loop(0, "%wide", kind.lanes) as column:
            mask = kind.first_mask(f, f.difference("%wide", column))
            at = f.sum(below, f.product(column, kind.nbytes))
            here = f.at(came, column, kind.scalar)
            ys = [
                kind.masked_load(f, f.at(here, f.product("%ym", i), "i8"), mask)
                for i in range(rows)
            ]
            for k, start in enumerate(starts):
                seen = kind.masked_load(f, f.at(start, at, "i8"), mask)
                for i, y in enumerate(ys):
                    total = sums[k * rows + i]
                    total.set(kind.multiply_add(f, seen, y, total.get()))
    for total, place in zip(sums, places, strict=True):
        kind.store(f, total.get(), place)
    f.add("ret void")
    return f.finish()


def _step(kind: Kind) -> str:
    """Units [lo, hi), each some taps of a channel. Out is (groups * channels * taps, rows).

    for (unit = lo; unit < hi; unit++) { group, channel, taps = unit;
      for samples, planes, strips of lines, tiles of columns { copy what is seen there;  for some taps at once: add } }
    """
    f = inner(kind, "i32 @tracejit_few_weights(ptr %args, i64 %lo, i64 %hi, i64 %worker)")
    a = arguments(f, FEW_WEIGHT_WORDS)
    a["kx"] = f.at(a["scratch"], f.product("%worker", a["each"]), "i8")
    a["sums"] = f.aligned(f.at(a["kx"], a["taps"], "i64"))
    a["count"] = f.product(a["taps"], a["rows"])
    a["piece"] = f.at(a["sums"], f.product(a["count"], kind.machine.vector), "i8")
    offsets = f.at("%args", len(FEW_WEIGHT_WORDS), "i64")
    with f.loop(0, a["taps"]) as t:
        f.put(f.product(f.word(offsets, t), kind.nbytes), f.at(a["kx"], t, "i64"))
    a["some"] = f.quotient_up(a["taps"], a["splits"])
    with f.loop("%lo", "%hi") as unit:
        number, split = f.divided(unit, a["splits"])
        a["group"] = f.divided(number, a["channels"])[0]
        first = f.product(split, a["some"])
        last = f.least(a["taps"], f.sum(first, a["some"]))
        nbytes = f.product(a["count"], kind.machine.vector)
        f.add(f"call void @llvm.memset.p0.i64(ptr {a['sums']}, i8 0, i64 {nbytes}, i1 0)")
        with f.loop(0, a["samples"]) as sample, f.loop(0, a["q2"]) as a["plane"]:
            _plane(kind, f, a, (number, sample), (first, last))
        with f.loop(first, last) as k, f.loop(0, a["rows"]) as i:
            place = f.sum(f.product(k, a["rows"]), i)
            value = kind.load(f, f.at(a["sums"], f.product(place, kind.machine.vector), "i8"))
            one = f.make(f"call {kind.scalar} @total({kind.vector} {value})")
            there = f.sum(f.product(number, a["count"]), place)
            f.add(f"store {kind.scalar} {one}, ptr {f.at(a['out'], there, kind.scalar)}")
    f.add("ret i32 0")
    return f.finish()


def _plane(
    kind: Kind, f: FunctionText, a: dict[str, str], channel: tuple[str, str], taps: tuple[str, str]
) -> None:
    """Add all positions of a plane of a sample to the sums of taps of a channel."""
    number, sample = channel
    first, last = taps
    start = f.sum(f.product(sample, a["xn"]), f.product(number, a["xc"]))
    x = f.at(a["x"], start, kind.scalar)
    start = f.sum(f.product(sample, a["yn"]), f.product(f.product(a["group"], a["rows"]), a["ym"]))
    start = f.sum(start, f.product(f.product(a["plane"], a["q1"]), a["q0"]))
    y = f.at(a["y"], start, kind.scalar)
    row = f.product(a["width"], a["phases"])
    below = f.product(f.product(a["below"], row), kind.nbytes)
    yline, ym = f.product(a["q0"], kind.nbytes), f.product(a["ym"], kind.nbytes)
    with (
        f.loop(0, a["q1"], a["strip"]) as a["first"],
        f.loop(0, a["q0"], a["span"]) as a["column"],
    ):
        copy_call(f, kind, a, few_source(f, a, x), a["piece"])
        high = f.least(a["strip"], f.difference(a["q1"], a["first"]))
        wide = f.least(a["span"], f.difference(a["q0"], a["column"]))
        place = f.sum(f.product(a["first"], a["q0"]), a["column"])
        lines = f"i64 {high}, i64 {wide}, i64 {below}, i64 {yline}, i64 {ym}"
        came = f.at(y, place, kind.scalar)
        for rows in few_rows():
            at = f.variable("i64", first)
            with f.when(f.compare("eq", a["rows"], rows)):
                for some in kind.blocks:
                    with f.as_long(at, f.difference(last, some - 1)) as k:
                        nbytes = f.product(k, rows * kind.machine.vector)
                        given = (
                            f"ptr {a['piece']}, ptr {f.at(a['kx'], k, 'i64')}, ptr {came},"
                            f" ptr {f.at(a['sums'], nbytes, 'i8')}, {lines}"
                        )
                        f.add(f"call void @sums.{rows}.{some}({given})")
                        at.set(f.sum(k, some))
