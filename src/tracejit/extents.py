"""Sizes that stay symbolic while a program is planned, so that one plan serves every size.

An :class:`Extent` stands for an integer that is known now (``value``) and may be another one next time: an extent of an
input, or what arithmetic makes of it. It is a polynomial in *symbols*; floor division, remainders and the like, which
leave the polynomials, become symbols with a definition. Comparisons answer for the present value, and what
cannot be known from the form alone is noted as a *decision*: a plan holds for other sizes as long as every decision
made on the way comes out the same. Whatever forces a plain number out of an extent (an index, ``range``, NumPy) is such
a decision too, so nothing can be frozen unseen.

>>> sizes = Extents()
>>> n = sizes.symbol(6)
>>> with sizes.deciding() as decisions:
...     n * 4 == 4 * n, n * 2 + 1 > 1, n % 2 == 0, n == 7
(True, True, True, False)
>>> [str(d) for d in decisions]
['n1 == 0 is True', '7 + -1 * n0 == 0 is False']
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from . import polynomial
from .plain_number import PlainNumber
from .polynomial import Terms
from .symbols import (
    OPERATORS,
    RELATIONS,
    SMALLEST,
    Decision,
    Symbol,
    known_sign,
    note_equal,
    told_low,
)
from .varying import is_varying


class Extents:
    """The symbols of one plan, and the extents made of them: equal polynomials are one object.

    In a ``watched`` scope extents are in the hands of user code: showing one or looking it up is a decision for its
    value. In a ``closed`` one they are plain numbers from now on.
    """

    watched = False
    closed = False
    #: Symbols that every call tells; their present values change (see ``sizes.revalue``). That sizes made of them
    #: differ, or are not zero or one, is no decision: where a program depends on it, its recording decided it.
    told: frozenset[int] = frozenset()
    few = False  # may sizes of any kind be zero or one, like those told? Code for more serves them
    vary = False  # have sizes turned out to vary, so that code for one of them does not pay?
    kept_state: Any = None  # what is known of all this by those who keep plans

    def __init__(self) -> None:
        self.symbols: Any = []
        self.functions: dict[str, Callable[..., Any]] = {}
        self.equal: dict[int, int] = {}  # from symbols to earlier ones found equal to them
        self.decisions: dict[tuple[int, str], Decision] = {}  # by extent, as objects, and relation
        self._interned: dict[Terms, Extent] = {}
        self._made: dict[Any, Any] = {}

    def symbol(self, value: int) -> Extent:
        """A new size from outside."""
        assert value >= SMALLEST
        return self._new(value, SMALLEST)

    def told_symbol(self, value: int) -> Extent:
        """A new size that every call tells; see ``told``."""
        self.told |= {len(self.symbols)}
        return self._new(value, told_low(value))

    def reserve(self, value: int, low: int | None = 0) -> Extent:
        """A new symbol whose computation is given later, by :meth:`compute`."""
        return self._new(value, low)

    def compute(self, results: Sequence[Extent], function: Callable[..., Any], *args: Any) -> None:
        """``results``, all of them new symbols, are what ``function(*args)`` returns, in this order."""
        name = f"call{len(self.functions)}"
        self.functions[name] = function
        numbers = [x.symbols[0] for x in results]
        targets = "".join(f"n{number}, " for number in numbers)
        statement = f"{targets}= {name}({', '.join(map(text_of, args))})"
        needs = symbols_of(args)
        for number in numbers:
            self.symbols[number].statement, self.symbols[number].needs = statement, needs

    def call(self, function: Callable[..., tuple[int, ...]], *args: Any) -> tuple[int, ...]:
        """``function(*args)``, which returns numbers; symbolic when an argument is, whatever it decides inside.

        >>> sizes = Extents()
        >>> sizes.call(lambda n: (n // 2 if n > 4 else n,), sizes.symbol(6))
        (3,)
        """
        values = function(*map(hint, args))
        if not any(type(x) is Extent for x in args):
            return values
        results = [self._new(value, None) for value in values]
        self.compute(results, function, *args)
        return tuple(results)  # type: ignore[arg-type]

    def _new(self, value: int, low: int | None) -> Extent:
        self.symbols.append(Symbol(value, low))
        found: Extent = self.extent((((len(self.symbols) - 1,), 1),))
        return found

    def define(self, text: str, value: int, low: int | None, *needs: Any) -> Extent:
        """The symbol that the expression ``text`` computes from the extents it ``needs``."""
        found: Extent | None = self._made.get(text)
        if found is None:
            found = self._made[text] = self._new(value, low)
            symbol, statement = self.symbols[-1], f"n{len(self.symbols) - 1} = {text}"
            symbol.statement, symbol.needs = statement, symbols_of(needs)
        return found

    def extent(self, terms: Terms) -> Any:
        """The extent with these terms, or the plain number they are."""
        if not terms:
            return 0
        if len(terms) == 1 and not terms[0][0]:
            return terms[0][1]
        found = self._interned.get(terms)
        if found is None:
            found = self._interned[terms] = Extent(self, terms)
        return found

    def decide(self, extent: Extent, relation: str, outcome: bool) -> bool:
        """Note how a comparison with zero came out."""
        if self.closed:
            return outcome
        if relation == "==" and extent.terms[0][1] < 0:  # one form for both
            extent = -extent
        key = (id(extent), relation)
        if key not in self.decisions:
            self.decisions[key] = Decision(extent, relation, outcome)
            if outcome and relation == "==" and not extent.is_told:
                note_equal(self.equal, extent.terms)
        return outcome

    def pin(self, extent: Extent) -> None:
        """A plain number is made of an extent."""
        self.decide(difference(extent, extent.value), "==", True)

    def number(self, extent: Extent) -> Any:
        """What stands for an extent where floats are made of it."""
        return int(extent)

    @contextmanager
    def deciding(self) -> Iterator[list[Decision]]:
        """Collect the decisions made meanwhile."""
        before, self.decisions = self.decisions, {}
        found: list[Decision] = []
        try:
            yield found
        finally:
            found.extend(self.decisions.values())
            self.decisions = before


class Extent(PlainNumber):
    """One symbolic integer. Arithmetic gives extents (or plain numbers, where symbols cancel out)."""

    __slots__ = ("low", "scope", "symbols", "terms", "value")

    def __init__(self, scope: Extents, terms: Terms) -> None:
        self.scope = scope
        self.terms = terms
        self.symbols = tuple(dict.fromkeys(n for monomial, _ in terms for n in monomial))
        self.evaluate()

    def evaluate(self) -> None:
        """The present value and the lower bound, from those of the symbols."""
        value, low = 0, 0
        bounded = True
        for monomial, factor in self.terms:
            term, least = factor, factor
            for number in monomial:
                symbol = self.scope.symbols[number]
                term *= symbol.value
                bound = symbol.low
                bounded = bounded and factor > 0 and bound is not None and bound >= 0
                least *= bound or 0
            value += term
            low += least
        self.value = value
        self.low = low if bounded else None

    # --- what it shows to others -----------------------------------------------------------------------------------

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """Extents pass for ints wherever types are asked for, as they do everywhere in arithmetic."""
        return int

    def __repr__(self) -> str:
        return repr(self._shown())

    def __format__(self, spec: str) -> str:
        return format(self._shown(), spec)

    def __hash__(self) -> int:
        return hash(self._shown())

    def _shown(self) -> int:
        """The number, for text and tables."""
        return self.__index__() if self.scope.watched else self.value

    def __index__(self) -> int:
        """A plain number: from here on the plan holds for this one only."""
        if not self.scope.closed:
            self.scope.pin(self)
        return self.value

    def __bool__(self) -> bool:
        return not self.__eq__(0)

    def as_number(self) -> Any:
        """A number to compute with, other than as a size."""
        return self.value if self.scope.closed else self.scope.number(self)

    # --- arithmetic ------------------------------------------------------------------------------------------------

    def __add__(self, other: Any) -> Any:
        return _binary("+", self, other)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        return _binary("-", self, other)

    def __rsub__(self, other: Any) -> Any:
        return -self + other

    def __mul__(self, other: Any) -> Any:
        return _binary("*", self, other)

    __rmul__ = __mul__

    def __floordiv__(self, other: Any) -> Any:
        return _binary("//", self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        return _binary("//", other, self)

    def __mod__(self, other: Any) -> Any:
        return _binary("%", self, other)

    def __rmod__(self, other: Any) -> Any:
        return _binary("%", other, self)

    # --- comparison ------------------------------------------------------------------------------------------------

    def __eq__(self, other: object) -> Any:
        if type(other) is not Extent and not isinstance(other, (int, float)):
            return NotImplemented
        if other is self:
            return True
        return _compare(self, other, "==")

    def __lt__(self, other: Any) -> Any:
        return _compare(self, other, "<")

    def __le__(self, other: Any) -> Any:
        return _compare(self, other, "<=")

    @property
    def may_be_few(self) -> bool:
        """May it be none or one, though what is made is made for more?"""
        return self.scope.few or (bool(self.scope.told) and self.is_told)

    @property
    def is_told(self) -> bool:
        """Is it made of a size that calls tell?"""
        waiting = list(self.symbols)
        while waiting and waiting[-1] not in self.scope.told:
            waiting += self.scope.symbols[waiting.pop()].needs
        return bool(waiting)

    # --- as text ---------------------------------------------------------------------------------------------------

    def formula(self) -> str:
        """The polynomial in the names of its symbols."""
        return polynomial.formula(self.terms)


def symbols_of(values: Iterable[Any]) -> tuple[int, ...]:
    """The symbols that some extents are made of."""
    return tuple(dict.fromkeys(n for x in values if type(x) is Extent for n in x.symbols))


def difference(a: Any, b: Any) -> Any:
    """``a - b``."""
    return _binary("-", a, b)


def _binary(operator: str, a: Any, b: Any) -> Any:
    """``a operator b`` where at least one is an extent."""
    first, second = type(a) is Extent, type(b) is Extent
    scope: Extents = a.scope if first else b.scope
    if scope.closed or (first and second and a.scope is not b.scope):
        a, b = settled(a), settled(b)
        return OPERATORS[operator](a, int(b) if type(a) is type(b) is Extent else b)
    other = b if first else a
    if type(other) is not Extent and type(other) is not int:
        if is_varying(other) or isinstance(other, float):  # before it is looked up: 2.0 equals 2
            return OPERATORS[operator](*(x.as_number() if type(x) is Extent else x for x in (a, b)))
        if not isinstance(other, int):
            return NotImplemented
    # Equal extents of a scope are one object, which says in less time than its terms which it is.
    key = (operator, id(a) if first else a, id(b) if second else b, first, second)
    found = scope._made.get(key)
    if found is not None:
        return found
    x = a.terms if first else polynomial.constant(int(a))
    y = b.terms if second else polynomial.constant(int(b))
    if operator == "*":
        found = scope.extent(polynomial.multiply(x, y))
    elif operator in "+-":
        found = scope.extent(polynomial.add(x, y, 1 if operator == "+" else -1))
    else:
        found = _divided(scope, operator, a, b)
    scope._made[key] = found
    return found


def _divided(scope: Extents, operator: str, a: Any, b: Any) -> Any:
    """Floor division or remainder: exact on polynomials where every coefficient divides, else an atom."""
    if b == 0:
        return OPERATORS[operator](1, 0)  # an error in Python's own words
    if type(a) is Extent:
        divisor = b.terms if type(b) is Extent else polynomial.constant(b)
        whole = polynomial.quotient(a.terms, divisor)
        if whole is not None:
            return 0 if operator == "%" else scope.extent(whole)
    value = hint(a) // hint(b) if operator == "//" else hint(a) % hint(b)
    positive = low_of(b) is not None and low_of(b) > 0  # type: ignore[operator]
    low = 0 if positive and (operator == "%" or (low_of(a) or 0) > 0) else None
    return scope.define(f"({text_of(a)}) {operator} ({text_of(b)})", value, low, a, b)


def settled(x: Any) -> Any:
    """The plain number of an extent whose scope is closed; everything else as it is."""
    return x.value if type(x) is Extent and x.scope.closed else x


def _compare(a: Extent, b: Any, relation: str) -> Any:
    if type(b) is int and a.low is not None and a.low >= b + (relation != "<"):
        return False  # as most comparisons come out: is it none, is it one?
    if is_varying(b):
        return RELATIONS[relation](a.as_number(), b)
    if isinstance(b, float):
        if not math.isfinite(b):  # whatever the size
            return b > 0 and relation != "=="
        if b != (whole := math.floor(b)):
            if relation == "==":
                return False
            relation = "<="
        b = whole
    gap = _binary("-", a, b)
    if type(gap) is not Extent:
        return gap if gap is NotImplemented else RELATIONS[relation](gap, 0)
    value = RELATIONS[relation](gap.value, 0)
    if not value and gap.may_be_few and _is_general(a, b, relation):
        return False
    known = known_sign(gap, relation)
    return gap.scope.decide(gap, relation, value) if known is None else known


def _is_general(a: Extent, b: Any, relation: str) -> bool:
    """Is it of no interest that a comparison did not hold: does what serves this case serve all (see ``told``)?"""
    if type(b) is Extent or b >= SMALLEST:
        return relation == "=="
    return a.value >= SMALLEST


def low_of(x: Any) -> int | None:
    """A lower bound of a size, None when none is known."""
    return x.low if type(x) is Extent else x


def text_of(x: Any) -> str:
    """A size as a Python expression."""
    return x.formula() if type(x) is Extent else str(x)


def hint(size: Any) -> Any:
    """The present value, for choices that are right whatever the size (which of two good plans is better).

    >>> hint(Extents().symbol(5)), hint(7)
    (5, 7)
    """
    return size.value if type(size) is Extent else size


def is_symbolic(size: Any) -> bool:
    """Is this a size that may be another one next time?"""
    return type(size) is Extent
