"""LLVM assembly of gradients of weights of depthwise convolutions of small planes (`tap_abreast` has their products).

Planes of both operands are turned around, a lane for each channel, and some taps' sums stay in registers while all
positions of a sample go by. Results are summed sample by sample, whatever part of the work a thread does.
"""

from __future__ import annotations

from typing import Any

from ..ir_text import FunctionText
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

__all__ = ["ABREAST_WEIGHT_WORDS", "abreast_weight_scratch", "abreast_weights_text"]

#: Words of the step's arguments; after them where each tap is in the copy.
ABREAST_WEIGHT_WORDS = (
    *("x", "y", "out", "scratch", "each"),  # addresses, and bytes of scratch memory per worker
    *("samples", "channels", "q1", "q0"),  # positions
    *SIDES,
    *("yn", "ym"),  # strides in elements
    *("splits", "taps"),  # into how many units taps are divided
)


def abreast_weight_scratch(
    machine: Machine, nbytes: int, seen: Any, copied: Any, positions: Any, taps: int
) -> Any:
    """Bytes that a worker needs, for so many elements of a plane, of its copy, positions and taps.

    >>> abreast_weight_scratch(Machine(64, 8, 3), 4, 49, 81, 49, 9)
    13744
    """
    lanes = machine.vector // nbytes
    vectors = 2 + copied + 1 + positions + lanes + taps + lanes + BLOCKS[0]
    words = seen + lanes + 3 * positions + lanes + taps + BLOCKS[0]
    return 64 + machine.vector * vectors + 8 * words


def abreast_weights_text(dtype: str, machine: Machine) -> str:
    """The module with `tracejit_abreast_weights` for a dtype.

    >>> abreast_weights_text("f32", Machine(64, 8, 3)).count("define i32 @tracejit_abreast_weights(")
    1
    """
    kind = Kind(dtype, machine)
    more = "declare i64 @llvm.smax.i64(i64, i64)"
    parts = [declarations(kind), more, loaded(kind), stored(kind), clear(kind)]
    parts += [_block(kind, count) for count in BLOCKS]
    return "\n".join([*parts, _step(kind)])


def _block(kind: Kind, count: int) -> str:
    """Add all positions of a sample to the sums of so many taps, which begin where ``taps`` says.

    for (p = 0; p < positions; p++) for taps i: sum[i] += y[p] * x[taps[i] + places[p]]
    """
    f = inner(
        kind,
        f"internal void @block.{count}(ptr noalias %x, ptr noalias %taps, ptr noalias %places,"
        " i64 %positions, ptr noalias %y, ptr noalias %out)",
    )
    starts = [f.at("%x", f.word("%taps", i), "i8") for i in range(count)]
    sums = summed(kind, f, starts, ("%places", "0", "%positions"), "%y")
    for total, there in zip(sums, kind.vectors_at(f, "%out", count), strict=True):
        found = f.make(f"fadd {kind.vector} {kind.load(f, there)}, {total.get()}")
        kind.store(f, found, there)
    f.add("ret void")
    return f.finish()


def _step(kind: Kind) -> str:
    """Units [lo, hi), each some taps of a channel. Out is (channels, taps).

    for (unit = lo; unit < hi; unit += count) { split, channel = unit;  count = channels, a vector at most;
      for samples { turn both operands;  for blocks of taps: add };  turn the results back }
    """
    f = inner(kind, "i32 @tracejit_abreast_weights(ptr %args, i64 %lo, i64 %hi, i64 %worker)")
    a = arguments(f, ABREAST_WEIGHT_WORDS)
    a["positions"] = f.product(a["q1"], a["q0"])
    _tables(kind, f, a)
    copied = f.sum(f.product(a["h1"], a["h0"]), 1)
    f.add(f"call void @clear(ptr {a['copy']}, i64 {copied})")
    some = f.quotient_up(a["taps"], a["splits"])
    each = some_places(f, some)
    unit = f.variable("i64", "%lo")
    with f.as_long(unit, "%hi") as now:
        split, channel = f.divided(now, a["channels"])
        count = f.least(f.difference(a["channels"], channel), f.difference("%hi", now))
        count = f.least(count, kind.lanes)
        first = f.least(a["taps"], f.product(split, some))
        left = f.least(some, f.difference(a["taps"], first))
        whole = f.product(f.sum(left, BLOCKS[0]), kind.machine.vector)
        f.add(f"call void @llvm.memset.p0.i64(ptr {a['sums']}, i8 0, i64 {whole}, i1 0)")
        with f.loop(0, a["samples"]) as sample:
            _sample(kind, f, a, (sample, channel, count), (first, left, each))
        place = f.sum(f.product(channel, a["taps"]), first)
        target = f.at(a["out"], place, kind.scalar)
        om = f.product(a["taps"], kind.nbytes)
        f.add(
            f"call void @stored(ptr {a['sums']}, ptr {target}, i64 {om}, i64 {count}, i64 {left})"
        )
        unit.set(f.sum(now, count))
    f.add("ret i32 0")
    return f.finish()


def _tables(kind: Kind, f: FunctionText, a: dict[str, str]) -> None:
    """Divide a worker's scratch memory, and write the tables of elements, positions and taps."""
    vector = kind.machine.vector
    own = f.aligned(f.at(a["scratch"], f.product("%worker", a["each"]), "i8"))
    a["copy"] = own
    copied = f.sum(f.product(a["h1"], a["h0"]), 1)
    a["came"] = f.at(a["copy"], f.product(copied, vector), "i8")
    some = f.sum(a["positions"], kind.lanes)
    a["sums"] = f.at(a["came"], f.product(some, vector), "i8")
    size = f.product(f.sum(a["taps"], kind.lanes + BLOCKS[0]), vector)
    a["elements"] = f.at(a["sums"], size, "i8")
    element_table(kind, f, a, a["elements"])
    seen = f.sum(f.product(a["n1"], a["n0"]), kind.lanes)
    a["plain"] = f.at(a["elements"], seen, "i64")
    plain_table(kind, f, some, a["plain"])
    a["places"] = f.at(a["plain"], some, "i64")
    with f.loop(0, a["q1"]) as i, f.loop(0, a["q0"]) as j:
        number = f.sum(f.product(i, a["q0"]), j)
        place = f.sum(f.product(f.product(i, a["t1"]), a["h0"]), f.product(j, a["t0"]))
        entry = f.at(a["places"], f.product(number, 2), "i64")
        f.put(f.product(place, vector), entry)
        f.put(f.product(number, vector), f.at(entry, 1, "i64"))
    a["table"] = f.at(a["places"], f.product(a["positions"], 2), "i64")
    words = f.at("%args", len(ABREAST_WEIGHT_WORDS), "i64")
    with f.loop(0, a["taps"]) as t:
        f.put(f.product(f.word(words, t), vector), f.at(a["table"], t, "i64"))
    with f.loop(a["taps"], f.sum(a["taps"], BLOCKS[0])) as t:  # sums that nobody reads
        f.put(0, f.at(a["table"], t, "i64"))


def _sample(
    kind: Kind,
    f: FunctionText,
    a: dict[str, str],
    channels: tuple[str, str, str],
    taps: tuple[str, str, str],
) -> None:
    """Add a sample to the sums of some taps."""
    sample, channel, count = channels
    first, left, each = taps
    last = f.difference(count, 1)
    place = f.sum(f.product(sample, a["xn"]), f.product(channel, a["xc"]))
    given = (f.at(a["x"], place, kind.scalar), last, a["elements"], a["copy"])
    load_call(f, kind, a, given)
    place = f.sum(f.product(sample, a["yn"]), f.product(channel, a["ym"]))
    came = {"xc": a["ym"], "stretches": "1", "length": a["positions"], "xs": "0"}
    load_call(f, kind, came, (f.at(a["y"], place, kind.scalar), last, a["plain"], a["came"]))
    with f.loop(0, left, each) as t:
        table = f.at(a["table"], f.sum(first, t), "i64")
        sums = f.at(a["sums"], f.product(t, kind.machine.vector), "i8")
        block = (
            f"ptr {a['copy']}, ptr {table}, ptr {a['places']}, i64 {a['positions']},"
            f" ptr {a['came']}, ptr {sums}"
        )
        for number in BLOCKS:
            with f.when(f.compare("eq", each, number)):
                f.add(f"call void @block.{number}({block})")
