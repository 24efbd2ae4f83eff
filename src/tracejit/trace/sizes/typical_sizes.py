"""Sizes to plan for: like those of a run, but without what is mere chance in them."""

from __future__ import annotations

import random
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from ...extents import Extents
from ...sizes import Computed, Decided
from ...symbols import SMALLEST, Decision

#: How bad it is that a condition does not hold, that an extent is not several, that two extents are equal.
UNEQUAL, UNORDERED, FEW, ALIKE = 1000, 1, 10, 3
#: How often other sizes are tried, and fewer times where a run was told so many that more sizes would be looked at.
TRIES, FEWEST_TRIES, MOST_TRIED = 48, 8, 1024
#: Up to which power of two sizes are halved alike.
MOST_HALVED = 8


def typical(
    scope: Extents,
    values: Mapping[int, int],
    conditions: Sequence[Decision],
    shapes: Sequence[Any] = (),
    others: Collection[int] = (),
    free: Collection[int] = (),
) -> dict[int, int]:
    """Values of the told symbols for which ``conditions`` hold, ``shapes`` are several and unlike each other.

    Equal to ``others`` they should not be either. Where not all can be had, equalities come first: for these, those
    that are ``free`` are changed before the rest.

    >>> scope = Extents()
    >>> n = scope.symbol(6)
    >>> typical(scope, {0: 6}, [], [n]), typical(scope, {0: 6}, [], [n], (6,))[0] != 6
    ({0: 6}, True)
    """
    groups = _equal(values, conditions)
    alone = [
        (Decided(scope, [d]), UNEQUAL if d.relation == "==" else UNORDERED) for d in conditions
    ]
    computed = Computed(scope, shapes)
    unlike = len({*others, SMALLEST}) + len(set(map(id, shapes))) + len(groups)

    def cost(found: Mapping[int, int], least: int) -> int:
        total = 0
        for holds, price in alone:
            if not holds(found):
                total += price
                if total >= least:
                    return total  # whatever the rest would add
        try:
            extents = [*computed(found), *found.values()] if shapes else [*found.values()]
        except ArithmeticError:
            return total + UNEQUAL
        few = sum(extent < SMALLEST for extent in extents)
        different = {*others, SMALLEST}.union(extents)
        return total + FEW * few + ALIKE * max(unlike - len(different), 0)

    sums = _sums(values, conditions)
    order = sorted(values, key=lambda n: n not in free)
    best, least = dict(values), sys.maxsize
    for candidate in _candidates(values, groups):
        tried = _solved(candidate, sums, order)
        price = cost(tried, least)
        if price < least:
            best, least = tried, price
        if not least:
            break
    return best


def _candidates(
    values: Mapping[int, int], groups: Sequence[Sequence[int]]
) -> Iterator[dict[int, int]]:
    """The values themselves, and others of about their size."""
    yield dict(values)
    random_ = random.Random(0)
    tries = min(max(MOST_TRIED // max(len(values), 1), FEWEST_TRIES), TRIES)
    for attempt in range(tries):
        new = {}
        for group in groups:
            value = values[group[0]]
            steps = _halving(value, value - 2 - attempt // 8, value + 4 + attempt // 4)
            new.update(dict.fromkeys(group, random_.choice(steps)))
        yield {n: new[n] for n in values}


def _halving(value: int, low: int, high: int) -> range:
    """Numbers from about ``low`` to ``high`` that can be halved as often as ``value``, or three times if that is less.

    Windows with steps of two are cut the same way then, so what is planned for these is likely to hold for ``value``.
    """
    step = min(2 * (value & -value) or 1, MOST_HALVED)
    least = max(low - step // 2, SMALLEST + 1)
    start = value - (value - least) // step * step
    return range(start, max(high, start) + step, step)


def _sums(values: Mapping[int, int], conditions: Sequence[Decision]) -> list[dict[int, int]]:
    """Sums of told sizes that were decided to be zero: the factors of the sizes, and the constant as that of -1."""
    found = []
    for d in conditions:
        if d.relation != "==" or not d.outcome:
            continue
        factors = {monomial[0] if monomial else -1: f for monomial, f in d.extent.terms}
        linear = all(len(monomial) < 2 for monomial, _ in d.extent.terms)
        if linear and all(n == -1 or n in values for n in factors):
            found.append(factors)
    return found


def _solved(
    values: dict[int, int], sums: Sequence[Mapping[int, int]], order: Sequence[int]
) -> dict[int, int]:
    """``values`` with one size of each sum changed, the first in ``order`` that makes it zero."""
    found = dict(values)
    for factors in sums:
        rest = sum(f * (1 if n == -1 else found[n]) for n, f in factors.items())
        for n in order if rest else ():
            new = found[n] - rest // factors[n] if abs(factors.get(n, 0)) == 1 else -1
            if new >= 0:
                found[n] = new
                break
    return found


def _equal(values: Mapping[int, int], conditions: Sequence[Decision]) -> list[list[int]]:
    """The sizes in groups of those that were decided to be equal."""
    group = {number: [number] for number in values}
    for d in conditions:
        terms = d.extent.terms
        pair = [monomial[0] for monomial, _ in terms if len(monomial) == 1]
        if d.relation != "==" or not d.outcome or len(pair) != 2 or len(terms) != 2:
            continue
        if terms[0][1] + terms[1][1] != 0:
            continue
        a, b = pair
        if a in group and b in group and group[a] is not group[b]:
            group[a] += group[b]
            group.update(dict.fromkeys(group[b], group[a]))
    return list({id(g): g for g in group.values()}.values())
