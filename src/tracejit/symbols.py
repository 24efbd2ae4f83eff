"""What symbolic sizes are made of: symbols, and what was decided about them."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .polynomial import Terms

if TYPE_CHECKING:
    from .extents import Extent

#: Symbols stand for sizes of at least this; zero and one are sizes of their own kind and never symbols.
SMALLEST = 2


@dataclass(frozen=True, slots=True)
class Decision:
    """``extent`` compared with zero, and how it came out."""

    extent: Extent
    relation: str  # "==", "<" or "<="
    outcome: bool

    def __str__(self) -> str:
        return f"{self.extent.formula()} {self.relation} 0 is {self.outcome}"


@dataclass(slots=True)
class Symbol:
    """A number in polynomials: its present value, a lower bound, and the statement that computes it.

    ``statement`` is empty for sizes given from outside. Symbols that one call computes share its text.
    """

    value: int
    low: int | None
    statement: str = ""
    needs: tuple[int, ...] = ()


def told_low(value: int) -> int:
    """The lower bound taken for a size that calls tell, while its present value is ``value``.

    What is planned for many serves none and one as well, unless a recorded decision is about them: then the present
    value is one that the decision allows.
    """
    return min(value, SMALLEST)


#: For what is a plain number by now.
OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "//": operator.floordiv,
    "%": operator.mod,
}
#: How sizes are compared, by the name of the relation.
RELATIONS: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
}


def known_sign(gap: Extent, relation: str) -> bool | None:
    """What the form alone says about a comparison with zero."""
    low = gap.low
    if low is not None and (low > 0 or (low == 0 and relation == "<")):
        return False
    if any(factor > 0 for monomial, factor in gap.terms if monomial):
        return None  # nothing is known of how large sizes may be
    opposite = -gap
    if opposite.low is not None and opposite.low > 0:
        return relation != "=="
    return None


def note_equal(equal: dict[int, int], terms: Terms) -> None:
    """Two symbols whose difference is zero are equal: the later one leads to the earlier one.

    >>> from tracejit.extents import Extents
    >>> sizes = Extents()
    >>> a, b, c = (sizes.symbol(6) for _ in range(3))
    >>> b == c, a == b
    (True, True)
    >>> sizes.equal
    {2: 1, 1: 0}
    """
    if len(terms) == 2:
        (one, factor), (other, opposite) = terms
        if len(one) == len(other) == 1 and factor == -opposite:
            first, second = sorted((first_equal(equal, one[0]), first_equal(equal, other[0])))
            if first != second:
                equal[second] = first


def first_equal(equal: dict[int, int], number: int) -> int:
    """The first of the symbols that this one was found equal to.

    >>> [first_equal({2: 1, 1: 0}, number) for number in (2, 3)]
    [0, 3]
    """
    while number in equal:
        number = equal[number]
    return number
