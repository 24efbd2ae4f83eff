"""Functions on sizes, symbolic or not, and computing with other sizes than the present ones."""

from __future__ import annotations

import functools
import logging
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from types import CodeType
from typing import Any

from . import polynomial
from .extents import Extent, Extents, difference, hint, low_of, symbols_of, text_of
from .generated import define
from .symbols import Decision, known_sign, told_low

log = logging.getLogger("tracejit")


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


def is_zero(size: Any) -> bool:
    """Is a size zero by its form alone? Nothing is decided.

    >>> n = Extents().symbol(3)
    >>> is_zero(n - n), is_zero(n - 3)
    (True, False)
    """
    return type(size) is not Extent and bool(size == 0)


def goes_into(a: Any, b: Any) -> bool:
    """Is a size a part of another one by its form, whatever the rest of that is? Nothing is decided.

    >>> n, m = map(Extents().symbol, (3, 4))
    >>> goes_into(n, n * m), goes_into(n, m), goes_into(3, 6)
    (True, False, False)
    """
    if type(a) is not Extent or type(b) is not Extent:
        return False
    return polynomial.quotient(b.terms, a.terms) is not None


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
    known = gap < 0 if type(gap) is not Extent else _known_sign(gap)
    if known is not None:
        return (b if known else a) if name == "max" else (a if known else b)
    scope = a.scope if type(a) is Extent else b.scope
    left, right = text_of(a), text_of(b)
    value = max(hint(a), hint(b)) if name == "max" else min(hint(a), hint(b))
    bounds = [x for x in (low_of(a), low_of(b)) if x is not None]
    low = max(bounds) if name == "max" and bounds else min(bounds) if len(bounds) == 2 else None
    return scope.define(f"{name}({left}, {right})", value, low, a, b)


def _known_sign(gap: Extent) -> bool | None:
    """Is a difference negative, whatever its sizes are?"""
    return None if gap.may_be_few else known_sign(gap, "<")


def float_bits(number: Any) -> Any:
    """The bit pattern of a float64, signed; of a size converted to one, as a size.

    >>> hex(float_bits(1.0))
    '0x3ff0000000000000'
    """
    if type(number) is not Extent:
        return int(struct.unpack("<q", struct.pack("<d", float(number)))[0])
    text = f"float_bits({number.formula()})"
    return number.scope.define(text, float_bits(number.value), None, number)


def revalue(scope: Extents, values: Mapping[int, int]) -> None:
    """Give symbols other present values; what is decided from here on is decided for these.

    What functions made of sizes (where buffers lie, say) belongs to one plan and stays as it is.

    >>> sizes = Extents()
    >>> n = sizes.symbol(6)
    >>> half = n // 4
    >>> revalue(sizes, {0: 9})
    >>> n, half, n * 2 > 15
    (9, 2, True)
    """
    if all(scope.symbols[number].value == value for number, value in values.items()):
        return
    names: dict[str, Any] = {"float_bits": float_bits}
    done: set[int] = set()
    for number in range(len(scope.symbols)):
        _revalue(scope, number, values, names, done)
    for extent in scope._interned.values():
        extent.evaluate()


@functools.lru_cache(maxsize=1024)
def _expression(statement: str) -> CodeType:
    """The right side of a statement."""
    return compile(statement.split("= ", 1)[1], "sizes", "eval")


def _revalue(
    scope: Extents, number: int, values: Mapping[int, int], names: dict[str, Any], done: set[int]
) -> None:
    """The present value of one symbol; one that cannot be computed now belongs to another branch."""
    symbol = scope.symbols[number]
    if number in done:
        return
    done.add(number)
    for needed in symbol.needs:
        _revalue(scope, needed, values, names, done)
    if number in values:
        symbol.value, symbol.low = values[number], told_low(values[number])
    elif symbol.statement.startswith(f"n{number} = "):
        try:
            symbol.value = eval(_expression(symbol.statement), names)
        except ArithmeticError:
            log.debug("n%d has no value", number)
    names[f"n{number}"] = symbol.value


# --- computing with other sizes -----------------------------------------------------------------------------------


class Computed:
    """Numbers computed from the values of symbols; the function is written when other values are asked for.

    >>> sizes = Extents()
    >>> n = sizes.symbol(6)
    >>> Computed(sizes, [n * 2, n // 4, 7])({0: 10})
    (20, 2, 7)
    """

    def __init__(self, scope: Extents, results: Sequence[Any]) -> None:
        self.scope = scope
        self.results = tuple(results)
        self.statements, self.parameters = _statements(scope, results)

    @cached_property
    def function(self) -> Any:
        """The numbers as a function of the parameters."""
        lines = [f"def compute({', '.join(f'n{n}' for n in self.parameters)}):"]
        lines += [f"    {line}" for line in self.statements]
        lines.append(f"    return ({''.join(f'{text_of(x)}, ' for x in self.results)})")
        return _defined(self.scope, lines, "compute")

    def __call__(self, sizes: Mapping[int, int]) -> tuple[int, ...]:
        """The numbers, for these values of the symbols given from outside."""
        if _are_present(self.scope, self.parameters, sizes):
            return tuple(map(hint, self.results))
        found: tuple[int, ...] = self.function(*[sizes[n] for n in self.parameters])
        return found


class Decided:
    """Do ``decisions`` come out the same for other sizes?

    >>> sizes = Extents()
    >>> n = sizes.symbol(6)
    >>> with sizes.deciding() as found:
    ...     even = n % 2 == 0
    >>> check = Decided(sizes, found)
    >>> check({0: 8}), check({0: 9})
    (True, False)
    """

    def __init__(self, scope: Extents, decisions: Iterable[Decision]) -> None:
        self.scope = scope
        found = {(d.extent.terms, d.relation): d for d in decisions}
        self.decisions = tuple(found.values())
        self.statements, self.parameters = _statements(scope, [d.extent for d in self.decisions])

    @cached_property
    def function(self) -> Any:
        """The answer as a function of the parameters."""
        lines = [f"def holds({', '.join(f'n{n}' for n in self.parameters)}):"]
        lines += [f"    {line}" for line in self.statements]
        conditions = [
            f"{'' if d.outcome else 'not '}{d.extent.formula()} {d.relation} 0"
            for d in self.decisions
        ]
        lines.append(f"    return {' and '.join(conditions) or True}")
        return _defined(self.scope, lines, "holds")

    def __call__(self, sizes: Mapping[int, int]) -> bool:
        """The answer for these values of the symbols given from outside."""
        if _are_present(self.scope, self.parameters, sizes):
            return True
        found: bool = self.function(*[sizes[n] for n in self.parameters])
        return found


def _are_present(scope: Extents, parameters: Sequence[int], sizes: Mapping[int, int]) -> bool:
    """Are these the values for which everything was decided?"""
    return not scope.told and all(scope.symbols[n].value == sizes[n] for n in parameters)


def _defined(scope: Extents, lines: Sequence[str], name: str) -> Any:
    names = {"float_bits": float_bits, **scope.functions}
    return define("\n".join(lines) + "\n", "sizes", name, names)


def given_symbols(scope: Extents, extent: Extent) -> set[int]:
    """The symbols from outside that an extent hangs on.

    >>> sizes = Extents()
    >>> n, m = sizes.symbol(6), sizes.symbol(4)
    >>> given_symbols(sizes, n // 4 + 2 * m)
    {0, 1}
    """
    return set(_statements(scope, [extent])[1])


def _statements(scope: Extents, results: Iterable[Any]) -> tuple[list[str], tuple[int, ...]]:
    """What must be computed for ``results``, each after what it needs; and which symbols must be given."""
    lines: dict[str, None] = {}
    given: list[int] = []
    done: set[int] = set()
    stack = list(reversed(symbols_of(results)))
    while stack:
        number = stack[-1]
        symbol = scope.symbols[number]
        waiting = [n for n in symbol.needs if n not in done]
        if number in done or not waiting:
            stack.pop()
            if number not in done:
                done.add(number)
                if symbol.statement:
                    lines[symbol.statement] = None
                else:
                    given.append(number)
        else:
            stack.extend(reversed(waiting))
    return list(lines), tuple(given)
