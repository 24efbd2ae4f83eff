"""Values for the numbers that stand in for others while a function is recorded: in tuples, and as keys.

Whoever puts a number into a dict or a set asks for its hash, which fixes its value: as a key it is a constant.
"""

from __future__ import annotations

from operator import is_
from typing import Any

from ...extents import hint
from ...varying import plain


def plain_parts(value: Any) -> Any:
    """``value`` with plain ones for the numbers and sizes, in tuples, that a recording knows more about.

    >>> from tracejit.varying import VaryingInt
    >>> plain_parts((VaryingInt(1, None, None), ("k", 2)))
    (1, ('k', 2))
    """
    if not isinstance(value, tuple):
        return hint(plain(value))
    parts = [plain_parts(x) for x in value]
    if all(map(is_, parts, value)):
        return value
    kind: Any = type(value)
    return kind(*parts) if hasattr(kind, "_fields") else kind(parts)


def plain_keys(mapping: dict[Any, Any]) -> None:
    """Put values where numbers that stand in for others are keys, in place and in the same order."""
    items = [(plain_parts(key), x) for key, x in dict.items(mapping)]
    if not all(new is key for (new, _), key in zip(items, dict.keys(mapping), strict=True)):
        dict.clear(mapping)
        mapping.update(items)
