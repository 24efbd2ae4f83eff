"""Values for the numbers that stand in for others while a function is recorded, where they became keys.

Whoever puts a number into a dict or a set asks for its hash, which fixes its value: as a key it is a constant.
"""

from __future__ import annotations

from typing import Any

from ..extents import hint
from ..varying import plain


def as_key(value: Any) -> Any:
    """A key of a dict or set with values for the numbers and sizes in it.

    >>> from tracejit.varying import VaryingInt
    >>> as_key((VaryingInt(1, None, None), ("k", 2)))
    (1, ('k', 2))
    """
    if isinstance(value, tuple):
        parts = [as_key(x) for x in value]
        if any(new is not x for new, x in zip(parts, value, strict=True)):
            return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
        return value
    return hint(plain(value))


def plain_keys(mapping: dict[Any, Any]) -> None:
    """Put values where numbers that stand in for others are keys, in place and in the same order."""
    items = [(as_key(key), x) for key, x in dict.items(mapping)]
    if any(new is not key for (new, _), key in zip(items, dict.keys(mapping), strict=True)):
        dict.clear(mapping)
        mapping.update(items)
