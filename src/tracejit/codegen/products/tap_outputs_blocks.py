"""LLVM assembly of blocks of results of convolutions whose lanes are outputs: what `tap_outputs` walks lines with."""

from __future__ import annotations

from ..ir_text import FunctionText, Variable
from .vector_kind import Kind, inner
from .vector_machine import Machine

__all__ = [
    "EDGE",
    "RANGE_WORDS",
    "STEPS",
    "TOGETHER",
    "block_sizes",
    "has_long_blocks",
    "output_blocks",
]

#: How many columns apart positions of a block may be, for which there are functions.
STEPS = (1, 2)
#: Vectors of outputs of a block, at most.
TOGETHER = 2
#: So many positions at an end of a block may see nothing where the others do.
EDGE = 2
#: Words of a range of numbers of the weight: the first, the one after the last, and its `edge_code`.
RANGE_WORDS = 3


def block_sizes(machine: Machine) -> tuple[int, ...]:
    """Positions of a block, for which there are functions: their sums leave registers for what is multiplied.

    >>> block_sizes(Machine(64, 8, 3)), block_sizes(Machine(32, 4, 3))
    ((14, 8, 7, 4), (6, 5, 4))
    """
    return (14, 8, 7, 4) if has_long_blocks(machine) else (6, 5, 4)


def has_long_blocks(machine: Machine) -> bool:
    """Has a machine the registers for the sums of many neighbours?

    >>> has_long_blocks(Machine(64, 8, 3)), has_long_blocks(Machine(32, 4, 3))
    (True, False)
    """
    return machine.rows * machine.vectors >= 24


def edges() -> list[tuple[int, int]]:
    """How many of the first and of the last positions of a block may be left out.

    >>> edges()
    [(0, 0), (1, 0), (2, 0), (0, 1), (0, 2)]
    """
    return [(0, 0), *((n, 0) for n in range(1, EDGE + 1)), *((0, n) for n in range(1, EDGE + 1))]


def output_blocks(kind: Kind) -> list[str]:
    """The functions `block.<positions>.<vectors>.<columns apart>`, and what computes one position.

    >>> sum("define internal void @block." in text for text in output_blocks(Kind("f32", Machine(64, 8, 3))))
    16
    """
    sizes = [
        (b, v, s) for b in block_sizes(kind.machine) for v in range(1, TOGETHER + 1) for s in STEPS
    ]
    return [_single(kind), _outside(kind), *(_block(kind, b, v, s) for b, v, s in sizes)]


def _weights(kind: Kind, f: FunctionText, k: str, vectors: int) -> list[str]:
    place = f.at("%w", f.product(k, TOGETHER * kind.machine.vector), "i8")
    return [kind.load(f, there) for there in kind.vectors_at(f, place, vectors)]


def _block(kind: Kind, count: int, vectors: int, step: int) -> str:
    """Neighbours of a line, for some outputs: ranges of channels and taps.

    sum[i][v] = more ? begun[i][v] : 0;
    for ranges { for (k = first; k < last; k++) for positions i but those left out, vectors v:
      sum[i][v] += w[k][v] * x[places[k] + i * step] };
    out[v * plane + i * apart] = sum[i][v] + bias[v]
    """
    f = inner(
        kind,
        f"internal void @block.{count}.{vectors}.{step}(ptr noalias %x, ptr noalias %places,"
        " ptr noalias %w, ptr noalias %ranges, i64 %count, ptr noalias %begun, i64 %more,"
        " ptr noalias %out, i64 %plane, i64 %apart, ptr noalias %bias, ptr noalias %ends)",
    )
    sums = [
        [f.variable(kind.vector, "zeroinitializer") for _ in range(vectors)] for _ in range(count)
    ]
    width = kind.machine.vector
    with f.when(f.compare("sgt", "%more", 0)):
        for i, row in enumerate(sums):
            for v, total in enumerate(row):
                place = f.at("%begun", (i * TOGETHER + v) * width, "i8")
                total.set(kind.load(f, place))
    with f.loop(0, "%count") as r:
        entry = f.at("%ranges", f.product(r, RANGE_WORDS), "i64")
        first, last, code = (f.word(entry, n) for n in range(RANGE_WORDS))
        for number, (before, after) in enumerate(edges()):
            with f.when(f.compare("eq", code, number)), f.loop(first, last) as k:
                start = f.at("%x", f.word("%places", k), "i8")
                factors = _weights(kind, f, k, vectors)
                for i in range(before, count - after):
                    seen = kind.number(f, f.at(start, i * step, kind.scalar))
                    for total, factor in zip(sums[i], factors, strict=True):
                        total.set(kind.multiply_add(f, factor, seen, total.get()))
    for v in range(vectors):
        bias = kind.load(f, f.at("%bias", v * width, "i8"))
        for row in sums:
            row[v].set(f.make(f"fadd {kind.vector} {row[v].get()}, {bias}"))
    kind.bounded(f, [total for row in sums for total in row])
    for v in range(vectors):
        target = f.at("%out", f.product("%plane", v), "i8")
        for i, row in enumerate(sums):
            kind.store(f, row[v].get(), f.at(target, f.product("%apart", i), "i8"))
    f.add("ret void")
    return f.finish()


def _added(kind: Kind, f: FunctionText) -> list[Variable]:
    """What was summed of a position."""
    places = kind.vectors_at(f, "%sums", TOGETHER)
    return [f.variable(kind.vector, kind.load(f, place)) for place in places]


def _written(kind: Kind, f: FunctionText, sums: list[Variable]) -> None:
    for total, place in zip(sums, kind.vectors_at(f, "%sums", TOGETHER), strict=True):
        kind.store(f, total.get(), place)
    f.add("ret void")


def _single(kind: Kind) -> str:
    """Add a range to the sums of one position."""
    f = inner(
        kind,
        "internal void @single(ptr noalias %x, ptr noalias %places, ptr noalias %w, i64 %first,"
        " i64 %last, ptr noalias %sums)",
    )
    sums = _added(kind, f)
    with f.loop("%first", "%last") as k:
        seen = kind.number(f, f.at("%x", f.word("%places", k), "i8"))
        for total, factor in zip(sums, _weights(kind, f, k, TOGETHER), strict=True):
            total.set(kind.multiply_add(f, factor, seen, total.get()))
    _written(kind, f, sums)
    return f.finish()


def _outside(kind: Kind) -> str:
    """Add to the sums of one position what a range gives that sees zeros: nan where the weight is not finite."""
    f = inner(
        kind,
        "internal void @outside(ptr noalias %w, i64 %first, i64 %last, ptr noalias %sums)",
    )
    sums = _added(kind, f)
    with f.loop("%first", "%last") as k:
        for total, factor in zip(sums, _weights(kind, f, k, TOGETHER), strict=True):
            total.set(kind.multiply_add(f, factor, "zeroinitializer", total.get()))
    _written(kind, f, sums)
    return f.finish()
