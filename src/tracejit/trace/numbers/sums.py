"""Sums of numbers that vary: ``sum`` from Python 3.12 on, ``math.fsum`` and ``math.sumprod``.

They round less than additions one after the other do. ``sum`` carries what additions lose from the first float on,
until it meets what is no number; so all that it has had until then is one operation, which every call does again.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ...varying import OPERATIONS, derived, follow, number_of, plain

__all__ = ["CARRIES", "summed"]

#: Does ``sum`` carry what additions of floats lose?
CARRIES = sys.version_info >= (3, 12)
_NUMBERS = frozenset({bool, float, int})


def summed(*given: Any, **named: Any) -> Any:
    """``sum`` that keeps varying numbers ones.

    >>> summed([1, 2.5], start=3)
    6.5
    """
    start = given[1] if len(given) == 2 else named.get("start", 0)
    first: Any = given[0] if given else None
    fits = (
        len(given) + len(named) <= 2 and named.keys() <= {"start"} and isinstance(first, Iterable)
    )
    if not fits or not _is_number(start) or type(start) is bool:
        return sum(*given, **named)  # an error, or nothing is carried
    rest, floats = iter(first), False
    while not floats:
        numbers = [start]
        for x in rest:
            if not _is_number(x):
                break
            numbers.append(x)
        else:
            return _sum_of(numbers)
        before = _sum_of(numbers)
        start = before + x
        floats = type(plain(before)) is float or type(plain(start)) is not float
    for x in rest:
        start = start + x
    return start


def _is_number(x: Any) -> bool:
    """Is this a number of Python's, one that varies, or a size?"""
    return type(plain(x)) in _NUMBERS or hasattr(type(x), "as_number")


def _sum_of(numbers: Sequence[Any]) -> Any:
    """The sum of numbers, of which some may vary, or be sizes."""
    if any(type(plain(x)) is float for x in numbers):
        return derived("sum", *map(number_of, numbers))
    total = numbers[0]  # of ints nothing is lost, and sizes stay sizes
    for x in numbers[1:]:
        total = total + x
    return total


def _add_up(start: Any, *values: Any) -> Any:
    return sum(values, start)


# While a function is recorded, the names in ``math`` may lead here.
_exact_sum, _sum_of_products = math.fsum, getattr(math, "sumprod", None)


def _fsum(seq: Any, /) -> Any:
    """``math.fsum`` that keeps varying numbers ones."""
    taken = [*map(number_of, seq)]
    return derived("math.fsum", *taken) if all(map(_is_number, taken)) else _exact_sum(taken)


def _add_up_exactly(*values: Any) -> float:
    return _exact_sum(values)


OPERATIONS |= {"sum": _add_up, "math.fsum": _add_up_exactly}
follow(_exact_sum, _fsum)

if _sum_of_products is not None:  # from Python 3.12 on
    _multiplied: Callable[[Any, Any], Any] = _sum_of_products

    def _sumprod(p: Any, q: Any, /) -> Any:
        """``math.sumprod`` that keeps varying numbers ones."""
        p, q = [*map(_sized, p)], [*map(_sized, q)]
        numbers = len(p) == len(q) and all(map(_is_number, (*p, *q)))
        return derived("math.sumprod", *p, *q) if numbers else _multiplied(p, q)

    def _sized(x: Any) -> Any:
        """A size as a number."""
        return x.as_number() if hasattr(type(x), "as_number") else x

    def _multiply_and_add_up(*both: Any) -> Any:
        return _multiplied(both[: len(both) // 2], both[len(both) // 2 :])

    OPERATIONS["math.sumprod"] = _multiply_and_add_up
    follow(_multiplied, _sumprod)
