"""Polynomials in numbered symbols with integer coefficients, as sorted tuples: equal polynomials are equal tuples."""

from __future__ import annotations

Monomial = tuple[int, ...]  # the sorted numbers of its symbols, each as often as its power
Terms = tuple[tuple[Monomial, int], ...]  # sorted; no coefficient is zero


def constant(number: int) -> Terms:
    """A plain number.

    >>> constant(3), constant(0)
    ((((), 3),), ())
    """
    return (((), number),) if number else ()


def add(a: Terms, b: Terms, sign: int = 1) -> Terms:
    """``a + sign * b``.

    >>> x = (((0,), 1),)
    >>> add(x, x), add(x, x, -1)
    ((((0,), 2),), ())
    """
    total = dict(a)
    for monomial, factor in b:
        total[monomial] = total.get(monomial, 0) + sign * factor
    return tuple(sorted((m, f) for m, f in total.items() if f))


def multiply(a: Terms, b: Terms) -> Terms:
    """``a * b``.

    >>> multiply((((0,), 2),), (((0,), 1), ((1,), 3)))
    (((0, 0), 2), ((0, 1), 6))
    """
    total: dict[Monomial, int] = {}
    for m, f in a:
        for n, g in b:
            monomial = tuple(sorted(m + n))
            total[monomial] = total.get(monomial, 0) + f * g
    return tuple(sorted((m, f) for m, f in total.items() if f))


def quotient(a: Terms, b: Terms) -> Terms | None:
    """``a / b`` where ``b`` divides ``a`` without a rest, else None.

    >>> quotient((((0, 1), 6),), (((1,), 3),)), quotient((((0,), 5),), (((), 2),))
    ((((0,), 2),), None)
    >>> quotient((((), 10), ((0,), 10)), (((), 2), ((0,), 2))), quotient((((0,), 1),), (((), 1), ((0,), 1)))
    ((((), 5),), None)
    """
    if not b:
        return None
    monomial, factor = max(b, key=_order)
    rest, result = a, []
    while rest:
        first, coefficient = max(rest, key=_order)
        left = _without(first, monomial)
        if left is None or coefficient % factor:
            return None
        term = (left, coefficient // factor)
        result.append(term)
        rest = add(rest, multiply((term,), b), -1)
    return tuple(sorted(result))


def _order(term: tuple[Monomial, int]) -> tuple[int, Monomial]:
    """Terms by their degree, then by their symbols: an order that multiplication keeps."""
    return len(term[0]), term[0]


def _without(symbols: Monomial, others: Monomial) -> Monomial | None:
    """A monomial divided by another one, None where that is not possible."""
    rest = list(symbols)
    for number in others:
        if number not in rest:
            return None
        rest.remove(number)
    return tuple(rest)


def formula(terms: Terms) -> str:
    """As a Python expression; symbol 2 is called ``n2``.

    >>> formula((((), -1), ((0, 1), 2)))
    '-1 + 2 * n0 * n1'
    """
    return (
        " + ".join(
            " * ".join(
                [
                    *([str(factor)] if factor != 1 or not monomial else []),
                    *(f"n{n}" for n in monomial),
                ]
            )
            for monomial, factor in terms
        )
        or "0"
    )
