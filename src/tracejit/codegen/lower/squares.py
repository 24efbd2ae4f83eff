"""Squares of elements turned round in registers: rows of one are columns of the other.

Written as loops, a copy that turns memory round moves one element at a time, because neighbours of what is read are far
apart where it is written. Here whole rows are loaded and stored, and between lie as many shuffles of pairs of rows as
there are bits in the side of the square.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from .types import I64, Pointer, Scalar, Value, fail

if TYPE_CHECKING:
    from .primitives import Emitter


def turn(side: int) -> Callable[[Emitter, Sequence[Value], ast.AST], Value]:
    """The primitive ``turn_SIDE(to, at, step, source, begin, stride)``; it gives 0.

    ``to[at + j * step + i] = source[begin + i * stride + j]`` for all i and j below ``side``, a power of two.
    """

    def lower(out: Emitter, values: Sequence[Value], node: ast.AST) -> Value:
        found = [v.type for v in values]
        pointers = [t for t in (found[0], found[3]) if isinstance(t, Pointer)] if found[5:] else []
        numbers = [*found[1:3], *found[4:]]
        if len(pointers) != 2 or numbers != [I64] * 4 or pointers[0] != pointers[1]:
            fail(node, f"turn_{side} takes (T*, i64, i64, T*, i64, i64)")
        element = pointers[0].element
        to, at, step, source, begin, stride = (v.ref for v in values)
        vector = f"<{side} x {element.llvm}>"
        align = element.bits // 8
        read = _rows(out, side, element, source, begin, stride)
        rows = [out.emit(f"load {vector}, ptr {address}, align {align}") for address in read]
        distance = 1
        while distance < side:
            rows = _exchanged(out, rows, distance, vector)
            distance *= 2
        for address, row in zip(_rows(out, side, element, to, at, step), rows, strict=True):
            out.lines.append(f"  store {vector} {row}, ptr {address}, align {align}")
        return Value("0", I64, index=True)

    return lower


def _rows(
    out: Emitter, side: int, element: Scalar, pointer: str, first: str, stride: str
) -> list[str]:
    """The addresses of the rows of a square in memory."""
    found = []
    for row in range(side):
        ahead = out.emit(f"mul nsw i64 {stride}, {row}")
        index = out.emit(f"add nsw i64 {first}, {ahead}")
        found.append(out.emit(f"getelementptr inbounds {element.llvm}, ptr {pointer}, i64 {index}"))
    return found


def _exchanged(out: Emitter, rows: Sequence[str], distance: int, vector: str) -> list[str]:
    """Swap, in all pairs of rows so far apart, what is so far from the diagonal of each small square."""
    side, result = len(rows), list(rows)
    for i in range(side):
        if i & distance:
            continue
        pair = f"{vector} {rows[i]}, {vector} {rows[i + distance]}"
        low = [side + k - distance if k & distance else k for k in range(side)]
        high = [side + k if k & distance else k + distance for k in range(side)]
        for row, lanes in ((i, low), (i + distance, high)):
            mask = ", ".join(f"i32 {lane}" for lane in lanes)
            result[row] = out.emit(f"shufflevector {pair}, <{side} x i32> <{mask}>")
    return result
