"""LLVM assembly of the gradient of a convolution's weight over flat memory (`ops.taps.tap_weights`).

Results are channels and taps by outputs: a block of them stays in registers while some hundred positions go by, each
a few numbers of x and a vector of what came out there. A result is summed position by position, whatever part of
the work a thread does.
"""

from __future__ import annotations

from ..ir_text import FunctionText
from .tap_runs import Position, arguments, tap_table
from .vector_kind import Kind, declarations, inner
from .vector_machine import Machine

__all__ = ["WEIGHT_WORDS", "weight_scratch", "weights_text"]

#: Words of the step's arguments; after them the taps' offsets in x, in elements.
WEIGHT_WORDS = (
    *("x", "y", "out", "scratch", "each"),  # addresses, and bytes of scratch memory per worker
    *("samples", "groups", "channels", "rows"),  # channels and outputs of a group
    *("p2", "p1", "p0"),  # positions
    *("xn", "xc", "x2", "x1", "yn", "ym", "taps"),  # strides in elements
)
#: Positions that go by before the next block.
_PIECE = 256


def weight_scratch(machine: Machine, count: int) -> int:
    """Bytes that a worker needs for so many channels and taps.

    >>> weight_scratch(Machine(64, 8, 3), 9)
    63624
    """
    strips = (_PIECE + machine.vector) * machine.vectors * machine.vector
    return 64 + strips + 8 * (_PIECE + count)


def weights_text(dtype: str, machine: Machine) -> str:
    """The module with `tracejit_tap_weights` for a dtype.

    >>> weights_text("f32", Machine(64, 8, 3)).count("define i32 @tracejit_tap_weights(")
    1
    """
    kind = Kind(dtype, machine)
    shapes = [(r, v) for r in _rows(kind) for v in range(1, machine.vectors + 1)]
    blocks = [_block(kind, r, v) for r, v in shapes]
    return "\n".join([declarations(kind), _turn(kind), _copy(kind), *blocks, _step(kind)])


def _loads(kind: Kind, f: FunctionText, pointer: str, vectors: int, mask: str) -> list[str]:
    """Vectors that follow each other; of the last one the elements that the mask has."""
    *whole, last = kind.vectors_at(f, pointer, vectors)
    return [*(kind.load(f, place) for place in whole), kind.masked_load(f, last, mask)]


def _rows(kind: Kind) -> tuple[int, int]:
    """Rows of blocks: there are many rows, so that those left over may go one by one."""
    return kind.machine.rows, 1


def _turn(kind: Kind) -> str:
    """Some positions of as many outputs, laid out position by position.

    near[p] = y[min(i, last) * ym + p] for outputs i
    """
    f = inner(
        kind,
        "internal void @turn(ptr noalias %y, i64 %ym, i64 %last, i64 %bits, ptr noalias %near)",
    )
    mask = kind.as_mask(f, "%bits")
    rows = [f.at("%y", f.product("%ym", f.least(i, "%last")), "i8") for i in range(kind.lanes)]
    turned = kind.transposed(f, [kind.masked_load(f, row, mask) for row in rows])
    for p, value in enumerate(turned):
        kind.store(f, value, f.at("%near", p * kind.strip_bytes, "i8"))
    f.add("ret void")
    return f.finish()


def _copy(kind: Kind) -> str:
    """A few vectors of outputs at positions q, q + 1..., close together; ``rows`` are the outputs there are.

    for (j = 0; j < count; j += len) { n, i = position q + j;  len = min(count - j, lanes, each - i);
      for vectors v: turn(y[n, v * lanes.., i..i + len], near[j..][v]) }
    """
    f = inner(
        kind,
        "internal void @copy(ptr %y, i64 %yn, i64 %ym, i64 %q, i64 %count, i64 %each, i64 %rows,"
        " i64 %vectors, ptr %near)",
    )
    j = f.variable("i64", 0)
    ym = f.product("%ym", kind.nbytes)
    with f.as_long(j, "%count") as now:
        n, i = f.divided(f.sum("%q", now), "%each")
        length = f.least(f.least(kind.lanes, f.difference("%count", now)), f.difference("%each", i))
        bits = f.ones(length)
        start = f.at("%y", f.sum(f.product(n, "%yn"), i), kind.scalar)
        target = f.at("%near", f.product(now, kind.strip_bytes), "i8")
        with f.loop(0, "%vectors") as v:
            m = f.product(v, kind.lanes)
            last = f.difference(f.difference("%rows", 1), m)
            here = f.at(start, f.product(m, ym), "i8")
            there = f.at(target, f.product(v, kind.machine.vector), "i8")
            f.add(f"call void @turn(ptr {here}, i64 {ym}, i64 {last}, i64 {bits}, ptr {there})")
        j.set(f.sum(now, length))
    f.add("ret void")
    return f.finish()


def _block(kind: Kind, rows: int, vectors: int) -> str:
    """Add a piece of the positions to a block of results.

    for (p = 0; p < count; p++) for rows i, vectors v: sum[i][v] += x[kx[i] + px[p]] * near[p][v]
    """
    f = inner(
        kind,
        f"internal void @block.{rows}.{vectors}(ptr noalias %x, ptr noalias %kx, ptr noalias %px,"
        " i64 %count, ptr noalias %near, ptr noalias %out, i64 %om, i64 %bits)",
    )
    mask = kind.as_mask(f, "%bits")
    places = [f.at("%out", f.product("%om", i), "i8") for i in range(rows)]
    sums = [
        [f.variable(kind.vector, value) for value in _loads(kind, f, place, vectors, mask)]
        for place in places
    ]
    starts = [f.at("%x", f.word("%kx", i), "i8") for i in range(rows)]
    with f.loop(0, "%count") as p:
        near = f.at("%near", f.product(p, kind.strip_bytes), "i8")
        seen = [kind.load(f, place) for place in kind.vectors_at(f, near, vectors)]
        at = f.word("%px", p)
        for row, start in zip(sums, starts, strict=True):
            factor = kind.number(f, f.at(start, at, "i8"))
            for total, vector in zip(row, seen, strict=True):
                total.set(kind.multiply_add(f, factor, vector, total.get()))
    for row, place in zip(sums, places, strict=True):
        *whole, last = kind.vectors_at(f, place, vectors)
        for total, there in zip(row, whole, strict=False):
            kind.store(f, total.get(), there)
        kind.masked_store(f, row[-1].get(), last, mask)
    f.add("ret void")
    return f.finish()


def _step(kind: Kind) -> str:
    """Units [lo, hi), each a block of a group's channels and taps, for all outputs of the group.

    Out is (groups * channels * taps, rows), y (samples, groups * rows, positions)::

        for the part of every group in [lo, hi) { clear its results;
          for every piece of the positions, for every few vectors of outputs { copy what came out there;
            for every block of channels and taps: add } }
    """
    f = inner(kind, "i32 @tracejit_tap_weights(ptr %args, i64 %lo, i64 %hi, i64 %worker)")
    a = arguments(f, WEIGHT_WORDS)
    a["count"] = f.product(a["channels"], a["taps"])
    own = f.at(a["scratch"], f.product("%worker", a["each"]), "i8")
    a["near"] = f.aligned(own)
    # what is turned last may reach over the end
    a["px"] = f.at(a["near"], (_PIECE + kind.lanes) * kind.strip_bytes, "i8")
    a["kx"] = f.at(a["px"], _PIECE, "i64")
    tap_table(kind, f, a, a["kx"], a["xc"], f.at("%args", len(WEIGHT_WORDS), "i64"))
    a["each"] = f.product(a["p2"], f.product(a["p1"], a["p0"]))
    a["positions"] = f.product(a["samples"], a["each"])
    a["om"] = f.product(a["rows"], kind.nbytes)
    blocks = f.quotient_up(a["count"], kind.machine.rows)
    unit = f.variable("i64", "%lo")
    with f.as_long(unit, "%hi") as now:
        group, block = f.divided(now, blocks)
        end = f.least(blocks, f.sum(block, f.difference("%hi", now)))
        first = f.product(block, kind.machine.rows)
        last = f.least(a["count"], f.product(end, kind.machine.rows))
        mine = {
            **a,
            "x": f.at(a["x"], f.product(group, f.product(a["channels"], a["xc"])), kind.scalar),
            "y": f.at(a["y"], f.product(f.product(group, a["rows"]), a["ym"]), kind.scalar),
            "out": f.at(a["out"], f.product(f.product(group, a["count"]), a["om"]), "i8"),
        }
        _part(kind, f, mine, first, last)
        unit.set(f.sum(now, f.difference(end, block)))
    f.add("ret i32 0")
    return f.finish()


def _part(kind: Kind, f: FunctionText, a: dict[str, str], first: str, last: str) -> None:
    """Channels and taps [first, last) of one group."""
    target = f.at(a["out"], f.product(first, a["om"]), "i8")
    nbytes = f.product(f.difference(last, first), a["om"])
    f.add(f"call void @llvm.memset.p0.i64(ptr {target}, i8 0, i64 {nbytes}, i1 0)")
    at = Position(f, "0", (a["p2"], a["p1"], a["p0"]))
    with f.loop(0, a["positions"], _PIECE) as p:
        width = f.least(_PIECE, f.difference(a["positions"], p))
        with f.loop(0, width) as j:
            place = f.product(at.place((a["xn"], a["x2"], a["x1"])), kind.nbytes)
            f.put(place, f.at(a["px"], j, "i64"))
            at.move(1)
        m = f.variable("i64", 0)
        with f.as_long(m, a["rows"]) as done:
            left = f.difference(a["rows"], done)
            vectors = f.quotient_up(left, kind.lanes)
            # one vector too many for a block: two blocks of two rather than three and one
            most, two = kind.machine.vectors, min(2, kind.machine.vectors)
            over = f.compare("eq", vectors, most + 1)
            most_now = f.make(f"select i1 {over}, i64 {two}, i64 {most}")
            vectors = f.least(vectors, most_now)
            span = f.product(vectors, kind.lanes)
            over = f.difference(span, f.least(span, left))
            bits = f.make(f"lshr i64 {kind.full}, {over}")
            y = f.at(a["y"], f.product(done, a["ym"]), kind.scalar)
            given = (
                f"ptr {y}, i64 {a['yn']}, i64 {a['ym']}, i64 {p}, i64 {width}, i64 {a['each']},"
                f" i64 {left}, i64 {vectors}, ptr {a['near']}"
            )
            f.add(f"call void @copy({given})")
            out = {**a, "out": f.at(a["out"], done, kind.scalar)}
            _outputs(kind, f, out, (first, last), (vectors, width, bits))
            m.set(f.sum(done, span))


def _outputs(
    kind: Kind,
    f: FunctionText,
    a: dict[str, str],
    part: tuple[str, str],
    piece: tuple[str, str, str],
) -> None:
    """A few vectors of outputs of a piece of the positions."""
    first, last = part
    vectors, width, bits = piece
    at = f.variable("i64", first)
    for rows in _rows(kind):
        with f.as_long(at, f.difference(last, rows - 1)) as k:
            there = f.at(a["out"], f.product(k, a["om"]), "i8")
            given = (
                f"ptr {a['x']}, ptr {f.at(a['kx'], k, 'i64')}, ptr {a['px']}, i64 {width},"
                f" ptr {a['near']}, ptr {there}, i64 {a['om']}, i64 {bits}"
            )
            kind.call_block(f, rows, vectors, given)
            at.set(f.sum(k, rows))
