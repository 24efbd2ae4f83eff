"""Functions on sizes, symbolic or not, and computing with other sizes than the present ones."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from .extents import (
    Decision,
    Extent,
    Extents,
    difference,
    hint,
    known_sign,
    low_of,
    symbols_of,
    text_of,
)
from .generated import define


def largest(a: Any, b: Any) -> Any:
    """``max(a, b)`` without deciding which.

    >>> largest(2, 3)
    3
    """
    return _extreme("max", a, b)


def smallest(a: Any, b: Any) -> Any:
    """``min(a, b)`` without deciding which.

    >>> smallest(2, 3)
    2
    """
    return _extreme("min", a, b)


def call(function: Callable[..., tuple[int, ...]], *args: Any) -> tuple[int, ...]:
    """``function(*args)``, which returns numbers: symbolic ones when an argument is, whatever it decides inside.

    >>> call(divmod, 7, 2), call(divmod, Extents().symbol(7), 2)
    ((3, 1), (3, 1))
    """
    scope: Extents | None = next((x.scope for x in args if type(x) is Extent), None)
    return function(*args) if scope is None else scope.call(function, *args)


def _extreme(name: str, a: Any, b: Any) -> Any:
    if type(a) is not Extent and type(b) is not Extent:
        return max(a, b) if name == "max" else min(a, b)
    gap = difference(a, b)
    known = known_sign(gap, "<") if type(gap) is Extent else gap < 0
    if known is not None:
        return (b if known else a) if name == "max" else (a if known else b)
    scope = a.scope if type(a) is Extent else b.scope
    left, right = text_of(a), text_of(b)
    value = max(hint(a), hint(b)) if name == "max" else min(hint(a), hint(b))
    bounds = [x for x in (low_of(a), low_of(b)) if x is not None]
    low = max(bounds) if name == "max" and bounds else min(bounds) if len(bounds) == 2 else None
    return scope.define(f"{name}({left}, {right})", value, low, a, b)


def float_bits(number: Any) -> Any:
    """The bit pattern of a float64, signed; of a size converted to one, as a size.

    >>> hex(float_bits(1.0))
    '0x3ff0000000000000'
    """
    if type(number) is not Extent:
        return int(struct.unpack("<q", struct.pack("<d", float(number)))[0])
    text = f"float_bits({number.formula()})"
    return number.scope.define(text, float_bits(number.value), None, number)


# --- computing with other sizes -----------------------------------------------------------------------------------


def write_function(scope: Extents, parameters: Sequence[int], results: Iterable[Any]) -> Any:
    """A function from the values of the symbols ``parameters`` to those of ``results``, extents or plain numbers.

    >>> sizes = Extents()
    >>> n = sizes.symbol(6)
    >>> write_function(sizes, n.symbols, [n * 2, n // 4, 7])(10)
    (20, 2, 7)
    """
    results = list(results)
    lines = [f"def compute({', '.join(f'n{n}' for n in parameters)}):"]
    lines += [f"    {line}" for line in _statements(scope, results, set(parameters))]
    lines.append(f"    return ({''.join(f'{text_of(x)}, ' for x in results)})")
    return define(
        "\n".join(lines) + "\n", "sizes", "compute", {"float_bits": float_bits, **scope.functions}
    )


def _statements(scope: Extents, results: Iterable[Any], given: set[int]) -> list[str]:
    """What must be computed for ``results``, each after what it needs."""
    lines: dict[str, None] = {}
    done = set(given)
    stack = list(reversed(symbols_of(results)))
    while stack:
        number = stack[-1]
        symbol = scope.symbols[number]
        waiting = [n for n in symbol.needs if n not in done]
        if number in done or not waiting:
            stack.pop()
            if number not in done:
                assert symbol.statement, "a size that was never given"
                lines[symbol.statement] = None
                done.add(number)
        else:
            stack.extend(reversed(waiting))
    return list(lines)


def write_check(scope: Extents, parameters: Sequence[int], decisions: Iterable[Decision]) -> Any:
    """A function that tells whether ``decisions`` come out the same for other values of ``parameters``.

    >>> sizes = Extents()
    >>> n = sizes.symbol(6)
    >>> with sizes.deciding() as found:
    ...     even = n % 2 == 0
    >>> check = write_check(sizes, n.symbols, found)
    >>> check(8), check(9)
    (True, False)
    """
    found = {(d.extent.terms, d.relation): d for d in decisions}.values()
    lines = [f"def holds({', '.join(f'n{n}' for n in parameters)}):"]
    computed = _statements(scope, [d.extent for d in found], set(parameters))
    lines += [f"    {line}" for line in computed]
    conditions = [
        f"{'' if d.outcome else 'not '}{d.extent.formula()} {d.relation} 0" for d in found
    ]
    lines.append(f"    return {' and '.join(conditions) or True}")
    return define(
        "\n".join(lines) + "\n", "sizes", "holds", {"float_bits": float_bits, **scope.functions}
    )
