"""Symbols of sizes: all of a scope, to tell it from others, and what planning added to them, to add it again."""

from __future__ import annotations

import hashlib
import marshal
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from ...extents import Extents
from ...sizes import revalue
from ...symbols import Decision, Symbol
from .data import Decoder, Encoder, NotKept

__all__ = ["AsItWas", "Mark", "add", "state"]


def state(scope: Extents) -> list[Any]:
    """All that planning can tell of a scope, not to be read back; `NotKept` where it is in the hands of a program.

    >>> sizes, others = Extents(), Extents()
    >>> n, m = sizes.symbol(6), others.symbol(6)
    >>> before, half = state(sizes), n // 4
    >>> before == state(others), before == state(sizes)
    (True, False)
    """
    if scope.closed or scope.watched:
        raise NotKept("sizes that a program looks at")
    known = scope.kept_state
    if known is None:
        known = scope.kept_state = _Known()
    equal, told = sorted(scope.equal.items()), sorted(scope.told)
    return [*known.of(scope), equal, told, scope.few, scope.vary]


class _Known:
    """What is known of a scope's state, which grows with every straight piece of a program and is told with each."""

    def __init__(self) -> None:
        self.columns = [_Column() for _ in range(5)]

    def of(self, scope: Extents) -> list[bytes]:
        """Digests of how symbols are computed, of their values, and of the functions that compute some."""
        symbols = scope.symbols
        found: list[list[Any]] = [
            [s.statement for s in symbols],
            [s.low for s in symbols],
            [s.needs for s in symbols],
            [s.value for s in symbols],
            list(scope.functions.values()),
        ]
        return [c.digest(items) for c, items in zip(self.columns, found, strict=True)]


class _Column:
    """Data that others are added to: what was there before is compared, and not looked through again."""

    def __init__(self) -> None:
        self.items: list[Any] = []
        self.found = hashlib.sha256()

    def digest(self, items: list[Any]) -> bytes:
        """A digest of all of them."""
        count = len(self.items)
        if items[:count] != self.items:
            self.items, self.found, count = [], hashlib.sha256(), 0
        before = self.items[-1] if self.items else None
        for item in items[count:]:
            again = type(item) is str and item == before  # of what one call computes, hundreds
            self.found.update(b"again" if again else marshal.dumps(_alone(item), 0))
            before = item
        self.items = items
        return self.found.digest()


def _alone(item: Any) -> Any:
    """A symbol's datum in a form that tells it from others, whatever stands beside it."""
    encoder = Encoder()
    data = encoder(item)
    return [data, encoder.tables()] if encoder.extents or encoder.addresses else data


def _symbols(symbols: Iterable[Symbol], encoder: Encoder) -> tuple[list[Any], list[Any]]:
    """Symbols with the numbers of their statements, and these: what one call computes may be hundreds."""
    numbers: dict[str, int] = {}
    statements: list[Any] = []
    found = []
    for symbol in symbols:
        number = numbers.setdefault(symbol.statement, len(statements))
        if number == len(statements):
            statements.append([symbol.statement, symbol.needs])
        found.append([encoder(symbol.value), symbol.low, number])
    return found, statements


class Mark:
    """A moment in the life of a scope, from which on what is added to it counts.

    >>> sizes = Extents()
    >>> n = sizes.symbol(6)
    >>> mark = Mark(sizes)
    >>> n % 4 == 0
    False
    >>> found = mark.added(Encoder())
    >>> found["symbols"], found["statements"], found["decisions"]
    ([[2, 0, 0]], [['n1 = (n0) % (4)', (0,)]], [[['e', 0], '==', False]])
    """

    def __init__(self, scope: Extents) -> None:
        self.scope = scope
        self.symbols, self.functions = len(scope.symbols), len(scope.functions)
        self.decisions = len(scope.decisions)

    def added(self, encoder: Encoder) -> dict[str, Any]:
        """What was added."""
        scope = self.scope
        functions = list(scope.functions.values())[self.functions :]
        decisions = list(scope.decisions.values())[self.decisions :]
        symbols, statements = _symbols(scope.symbols[self.symbols :], encoder)
        return {
            "symbols": symbols,
            "statements": statements,
            "functions": encoder.all(functions),
            "equal": sorted(scope.equal.items()),
            "decisions": [[encoder(d.extent), d.relation, d.outcome] for d in decisions],
        }


def add(scope: Extents, found: dict[str, Any], decoder: Decoder) -> None:
    """Add to a scope what was added to one that was alike.

    >>> sizes, others = Extents(), Extents()
    >>> n, m = sizes.symbol(6), others.symbol(6)
    >>> mark, encoder = Mark(sizes), Encoder()
    >>> half = n // 4
    >>> added = mark.added(encoder)
    >>> add(others, added, Decoder(others, encoder.tables()))
    >>> (m // 4).formula(), len(others.symbols)
    ('n1', 2)
    """
    statements = [(text, tuple(needs)) for text, needs in found["statements"]]
    symbols = [
        Symbol(decoder(value), low, *statements[number]) for value, low, number in found["symbols"]
    ]
    functions = decoder.all(found["functions"])
    for function in functions:
        scope.functions[f"call{len(scope.functions)}"] = function
    for symbol in symbols:
        number = len(scope.symbols)
        scope.symbols.append(symbol)
        name, _, text = symbol.statement.partition(" = ")
        if name == f"n{number}":  # found again by who defines the same
            scope._made[text] = scope.extent((((number,), 1),))
    scope.equal = dict(map(tuple, found["equal"]))
    decoder.sizes()
    for extent, relation, outcome in found["decisions"]:
        known = decoder(extent)
        scope.decisions.setdefault((id(known), relation), Decision(known, relation, outcome))


class AsItWas:
    """What is known of a scope's sizes now, for those who will plan once more what is planned now.

    >>> sizes = Extents()
    >>> n, m = sizes.symbol(6), sizes.symbol(6)
    >>> before = AsItWas(sizes)
    >>> n == m, sizes.equal
    (True, {1: 0})
    >>> with before.again():
    ...     sizes.equal
    {}
    >>> sizes.equal
    {1: 0}
    """

    def __init__(self, scope: Extents) -> None:
        self.scope = scope
        self.known = dict(scope.equal), scope.few, scope.vary
        self.told = _told(scope)

    @contextmanager
    def again(self) -> Iterator[None]:
        """Let the scope know what it knew then; what is decided meanwhile is forgotten."""
        scope = self.scope
        now, told = (scope.equal, scope.few, scope.vary), _told(scope)
        equal, scope.few, scope.vary = self.known
        scope.equal = dict(equal)
        revalue(scope, self.told)
        try:
            with scope.deciding():
                yield
        finally:
            scope.equal, scope.few, scope.vary = now
            revalue(scope, told)


def _told(scope: Extents) -> dict[int, int]:
    """The present values of the sizes that calls tell."""
    return {number: scope.symbols[number].value for number in sorted(scope.told)}
