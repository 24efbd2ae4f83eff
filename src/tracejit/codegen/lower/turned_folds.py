"""The lanes of several registers, each folded into one number, all at the same time.

Two registers are put together before they are folded: the first halves of what each holds for its rows into one
register, the second halves into another, which are folded lane by lane. That takes as many lanes as before and leaves
the rows of both. In the end each lane holds what one row has come to. Which lanes are folded with which is what
:meth:`CarriedLanes.fold_lanes` does with one row, so that the numbers are the same to the bit.
"""

from __future__ import annotations

from collections.abc import Sequence

from tracejit.codegen.lower.body import BITS, Carried
from tracejit.codegen.lower.carried import CarriedLanes

__all__ = ["folded_side_by_side"]

#: Bits of the parts of a register within which elements change places fastest.
_NEAR = 128


def folded_side_by_side(
    printer: CarriedLanes, lines: list[str], carried: Carried, rows: Sequence[str], held: int
) -> str:
    """A register whose lanes hold what so many rows fold to, in their order, of registers that hold some rows each.

    >>> from tracejit.codegen.lower.lower import lower_kernel
    >>> text = lower_kernel('''
    ... def k(x: "f64*", out: "f64*", n: "i64", lo: "i64", hi: "i64", worker: "i64") -> "i32":
    ...     for row in together(lo, hi):
    ...         total = float64(0)
    ...         for i in range(n):
    ...             total += x[row * n + i]
    ...         out[row] = total
    ...     return 0
    ... ''', "k", noalias=True, vector_bits=512, lacking=(), widen=512).text
    >>> text.count("= fadd reassoc <8 x double>")  # of pairs of registers, and in the loop and behind it
    12
    """
    lanes, type_ = printer.lanes, carried.fold.type
    near = min(_NEAR // BITS[type_], lanes)
    vector, parts = printer.spell(type_), lanes // near
    wholes = _folded(printer, lines, carried, rows, lanes, held, near)
    found = _folded(printer, lines, carried, wholes, near, 1, 1)[0]
    if parts == 1:
        return found
    places = [row % parts * near + row // parts for row in range(lanes)]
    order = f"<{lanes} x i32> <{', '.join(f'i32 {place}' for place in places)}>"
    return printer.emit(lines, f"shufflevector {vector} {found}, {vector} poison, {order}")


def _folded(
    printer: CarriedLanes,
    lines: list[str],
    carried: Carried,
    refs: Sequence[str],
    width: int,
    rows: int,
    until: int,
) -> list[str]:
    """Fold pairs of registers, every ``width`` lanes of which hold so many rows, until there are so few."""
    found = list(refs)
    while len(found) > until:
        pairs = zip(found[::2], found[1::2], strict=True)
        found = [_pair(printer, lines, carried, pair, width, rows) for pair in pairs]
        rows *= 2
    return found


def _pair(
    printer: CarriedLanes,
    lines: list[str],
    carried: Carried,
    pair: tuple[str, str],
    width: int,
    rows: int,
) -> str:
    """Two registers folded into one; every ``width`` lanes of each hold so many rows."""
    lanes, each = printer.lanes, width // rows
    vector = printer.spell(carried.fold.type)
    halves = []
    for half in (0, each // 2):
        places = [
            which * lanes + part + row * each + half + lane
            for part in range(0, lanes, width)
            for which in (0, 1)
            for row in range(rows)
            for lane in range(each // 2)
        ]
        chosen = f"<{lanes} x i32> <{', '.join(f'i32 {place}' for place in places)}>"
        text = f"shufflevector {vector} {pair[0]}, {vector} {pair[1]}, {chosen}"
        halves.append(printer.emit(lines, text))
    return printer.fold(lines, carried, halves[0], halves[1], lanes)
