"""What symbolic sizes are made of: symbols, and what was decided about them."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

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
