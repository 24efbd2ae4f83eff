"""Laying out the operands of matrix products, in LLVM assembly: strips of the right one, blocks of the left one."""

from __future__ import annotations

from ..ir_text import FunctionText
from .vector_kind import Kind, inner

__all__ = ["BLOCKS", "block_function", "strip_function", "strip_functions", "turned"]

#: Blocks of rows of a turned left operand that are laid out at a time.
BLOCKS = 16
#: So many terms before they are copied, those of a strip are asked for.
_AHEAD = 16


def strip_functions(kind: Kind, column: Kind) -> list[str]:
    """What lays out the operands of one dtype: ``copied``, ``turned`` and ``columns``.

    ``column`` are vectors of as many elements as a block of results has rows.

    >>> from .vector_machine import Machine
    >>> machine = Machine(64, 8, 3)
    >>> [text.split("(")[0] for text in strip_functions(Kind("f64", machine), Kind("f64", machine))]
    ['define internal void @copied', 'define internal void @turned', 'define internal void @columns']
    """
    return [_copied(kind), turned(kind), _columns(column)]


def strip_function(kind: Kind, name: str) -> tuple[FunctionText, str]:
    """A function that lays out a strip, and the bytes from element to element there.

    >>> from .vector_machine import Machine
    >>> strip_function(Kind("f32", Machine(64, 8, 3)), "copied")[1]
    '%t1'
    """
    f = inner(
        kind,
        f"internal void @{name}(ptr noalias %to, ptr noalias %b, i64 %ldb, i64 %terms, i64 %columns,"
        " i64 %vectors)",
    )
    return f, f.product("%vectors", kind.machine.vector)


def block_function(kind: Kind) -> FunctionText:
    """A function that lays out blocks of a left operand whose rows are terms.

    >>> from .vector_machine import Machine
    >>> block_function(Kind("f32", Machine(32, 8, 1))).lines
    []
    """
    return inner(
        kind,
        "internal void @columns(ptr noalias %to, ptr noalias %a, i64 %lda, i64 %terms, i64 %rows,"
        " i64 %room)",
    )


def _copied(kind: Kind) -> str:
    """A strip of a right operand whose rows are terms: ``vectors`` vectors of each, zeros beyond ``columns``."""
    f, pitch = strip_function(kind, "copied")
    widest = kind.machine.vectors
    whole = f.compare("eq", "%vectors", widest)
    last = kind.first_mask(f, f.difference("%columns", (widest - 1) * kind.lanes))
    ahead = f.product("%ldb", _AHEAD)
    with f.loop(0, f.make(f"select i1 {whole}, i64 %terms, i64 0")) as t:
        source = f.at("%b", f.product(t, "%ldb"), "i8")
        target = f.at("%to", f.product(t, widest * kind.machine.vector), "i8")
        for place in kind.vectors_at(f, f.at(source, ahead, "i8"), widest):
            kind.prefetch(f, place)
        places = kind.vectors_at(f, source, widest)
        found = [kind.load(f, place) for place in places[:-1]]
        found.append(kind.masked_load(f, places[-1], last))
        for value, place in zip(found, kind.vectors_at(f, target, widest), strict=True):
            kind.store(f, value, place)
    with f.loop(0, f.make(f"select i1 {whole}, i64 0, i64 %vectors")) as v:
        mask = kind.first_mask(f, f.difference("%columns", f.product(v, kind.lanes)))
        at = f.product(v, kind.machine.vector)
        source, target = f.at("%b", at, "i8"), f.at("%to", at, "i8")
        with f.loop(0, "%terms") as t:
            value = kind.masked_load(f, f.at(source, f.product(t, "%ldb"), "i8"), mask)
            kind.store(f, value, f.at(target, f.product(t, pitch), "i8"))
    f.add("ret void")
    return f.finish()


def turned(kind: Kind) -> str:
    """A strip of a right operand whose columns are terms; writes up to a multiple of as many terms as a vector has.

    >>> from .vector_machine import Machine
    >>> turned(Kind("f32", Machine(64, 8, 3))).split("(")[0]
    'define internal void @turned'
    """
    f, pitch = strip_function(kind, "turned")
    with f.loop(0, "%vectors") as v:
        left = f.difference("%columns", f.product(v, kind.lanes))
        rows = [
            f.at("%b", f.product("%ldb", f.sum(f.product(v, kind.lanes), i)), "i8")
            for i in range(kind.lanes)
        ]
        target = f.at("%to", f.product(v, kind.machine.vector), "i8")
        with f.loop(0, "%terms", kind.together * kind.lanes) as t:
            bits, mask = kind.first_given(f, f.difference("%terms", t))
            found = []
            for i, row in enumerate(rows):
                there = f.compare("slt", i, left)
                own = f.make(f"select i1 {there}, {bits} {mask}, {bits} zeroinitializer")
                found.append(kind.load_given(f, f.at(row, f.product(t, kind.given), "i8"), own))
            first = f.divided(t, kind.together)[0]
            for lane, value in enumerate(kind.transposed(f, found)):
                kind.store(f, value, f.at(target, f.product(f.sum(first, lane), pitch), "i8"))
    f.add("ret void")
    return f.finish()


def _columns(kind: Kind) -> str:
    """Blocks of a left operand whose rows are terms: the numbers that meet a term lie side by side."""
    f = block_function(kind)
    whole = f.compare("eq", "%rows", BLOCKS * kind.lanes)
    with f.loop(0, f.make(f"select i1 {whole}, i64 %terms, i64 0")) as t:
        source = f.at("%a", f.product(t, "%lda"), "i8")
        target = f.at("%to", f.product(t, kind.machine.vector), "i8")
        for block, place in enumerate(kind.vectors_at(f, source, BLOCKS)):
            kind.store(f, kind.load(f, place), f.at(target, f.product("%room", block), "i8"))
    with f.loop(0, f.make(f"select i1 {whole}, i64 0, i64 %rows"), kind.lanes) as i:
        mask = kind.first_mask(f, f.difference("%rows", i))
        source = f.at("%a", f.product(i, kind.nbytes), "i8")
        target = f.at("%to", f.product(f.divided(i, kind.lanes)[0], "%room"), "i8")
        with f.loop(0, "%terms") as t:
            value = kind.masked_load(f, f.at(source, f.product(t, "%lda"), "i8"), mask)
            kind.store(f, value, f.at(target, f.product(t, kind.machine.vector), "i8"))
    f.add("ret void")
    return f.finish()
