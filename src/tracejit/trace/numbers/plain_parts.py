"""Values for the numbers that stand in for others while a function is recorded: in tuples, and as keys.

Whoever puts a number into a dict or a set asks for its hash, which fixes its value: as a key it is a constant.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from operator import is_
from typing import Any

import numpy as np

from ...extents import hint
from ...ops.mixin import Size
from ...varying import is_varying, plain


def plain_parts(value: Any) -> Any:
    """``value`` with plain ones for the numbers and sizes, in tuples, slices and frozen sets, that a recording follows.

    >>> from tracejit.varying import VaryingInt
    >>> plain_parts((VaryingInt(1, None, None), ("k", 2)))
    (1, ('k', 2))
    """
    if type(value) is frozenset:
        pairs = [(plain_parts(x), x) for x in value]
        return value if all(new is x for new, x in pairs) else frozenset([new for new, _ in pairs])
    if type(value) is slice:
        bounds = value.start, value.stop, value.step
        made = plain_parts(bounds)
        return value if made is bounds else slice(*made)
    if not isinstance(value, tuple):
        return hint(plain(value))
    parts = [plain_parts(x) for x in value]
    if all(map(is_, parts, value)):
        return value
    made = remade(type(value), parts)
    if hasattr(value, "__dict__"):
        vars(made).update(vars(value))
    return made


def remade(kind: Any, parts: Iterable[Any]) -> Any:
    """A tuple of class ``kind`` that has these parts, whatever the class asks for to make one.

    >>> class Pair(tuple):
    ...     def __new__(cls, a, b):
    ...         return tuple.__new__(cls, (a, b))
    >>> remade(Pair, [1, 2]) == Pair(1, 2)
    True
    """
    try:
        return tuple.__new__(kind, parts)
    except TypeError:  # classes of C, as time.struct_time
        return kind(parts)


def varying_parts(value: Any) -> tuple[Any, ...] | None:
    """What a shape or a slice in which a number varies is made of; None for anything else.

    >>> from tracejit.varying import VaryingInt
    >>> varying_parts(slice(2, VaryingInt(5, None, None))), varying_parts(slice(2, 5))
    ((2, 5, None), None)
    """
    if isinstance(value, slice):
        parts: tuple[Any, ...] = value.start, value.stop, value.step
    elif type(value) is Size:
        parts = tuple(value)
    else:
        return None
    return parts if any(map(is_varying, parts)) else None


def plain_items(array: np.ndarray) -> None:
    """Put values where numbers that stand in for others are in an array of objects.

    >>> from tracejit.varying import VaryingInt
    >>> array = np.array([VaryingInt(1, None, None), None], object)
    >>> plain_items(array), array
    (None, array([1, None], dtype=object))
    """
    for place, x in np.ndenumerate(array) if array.dtype == object else ():
        made = plain_parts(x)
        if made is not x and array.flags.writeable:
            array[place] = made


def plain_keys(mapping: dict[Any, Any]) -> None:
    """Put values where numbers that stand in for others are keys, in place and in the same order."""
    items = [(plain_parts(key), x) for key, x in dict.items(mapping)]
    if not all(new is key for (new, _), key in zip(items, dict.keys(mapping), strict=True)):
        base: Any = OrderedDict if isinstance(mapping, OrderedDict) else dict
        base.clear(mapping)
        for key, x in items:
            base.__setitem__(mapping, key, x)
