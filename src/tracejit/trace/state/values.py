"""Values in guards: when two of them count as the same, and how they are described.

Plain values compare by type and contents, everything else by identity; no method of a user's class is ever called.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Iterator
from types import BuiltinFunctionType, CellType, CodeType, FunctionType
from typing import Any

import numpy as np

from ...extents import Extent


class _Missing:
    def __repr__(self) -> str:
        return "not set"


MISSING: Any = _Missing()
_BY_EQUALITY = frozenset({int, str, bool, bytes, type(None), type(...)})
_ITERABLE = (tuple, list, frozenset, set, deque)
_VALUES = _BY_EQUALITY | {float, complex, tuple, frozenset, range, slice}


def is_value(value: Any) -> bool:
    """Is ``value`` compared by type and contents, not by identity alone?"""
    kind = type(value)  # what asks a weak proxy itself raises when that is gone to which it leads
    return kind in _VALUES or issubclass(kind, (tuple, np.generic))


def token(value: Any) -> Any:
    """Equal for two values exactly when a recording made with one is right for the other.

    Floats compare by bits (so ``nan`` equals itself and ``-0.0`` differs from ``0.0``), types are part of the value,
    and what is not a plain value is equal to itself only.
    """
    kind = type(value)
    if kind in _BY_EQUALITY:
        return (kind, value)
    if kind is float:
        return (kind, struct.pack("d", value))
    if kind is complex:
        return (kind, struct.pack("dd", value.real, value.imag))
    if kind is tuple:
        return (kind, tuple([token(item) for item in value]))
    if issubclass(kind, tuple):
        items = tuple([token(item) for item in items_of(value)])
        own = added_to(value)
        return (kind, items, _attributes(own)) if own else (kind, items)
    if kind is frozenset:  # by order too: equal ones can list their members differently
        return (kind, tuple(token(item) for item in value))
    if kind in (range, slice):
        return (kind, token((value.start, value.stop, value.step)))
    if issubclass(kind, np.generic) and value.dtype != object:
        return (kind, value.dtype, value.tobytes())
    return (None, id(value))


def _attributes(own: dict[str, Any]) -> tuple[Any, ...]:
    """What attributes of a tuple count for; those that could lead back to it are equal to themselves only."""
    return tuple([(key, token(x) if _is_flat(x) else (None, id(x))) for key, x in own.items()])


def _is_flat(value: Any) -> bool:
    """Is this no container, or a tuple of such?"""
    if not isinstance(value, (tuple, frozenset)):
        return True
    return not any(isinstance(x, (tuple, frozenset)) for x in items_of(value)) and not (
        isinstance(value, tuple) and added_to(value)
    )


def items_of(container: Any) -> Iterator[Any]:
    """The items of a tuple, list, set or deque as they are stored, whatever its class does when it is asked.

    >>> Hidden = type("Hidden", (tuple,), {"__iter__": lambda self: iter(())})
    >>> [*Hidden("ab")], [*items_of(Hidden("ab"))]
    ([], ['a', 'b'])
    """
    base: Any = next(x for x in _ITERABLE if isinstance(container, x))
    found: Iterator[Any] = base.__iter__(container)
    return found


def added_to(value: Any) -> dict[str, Any]:
    """The attributes of an instance of a class derived from ``tuple``; most such classes have none.

    >>> Named = type("Named", (tuple,), {})
    >>> named = Named("ab")
    >>> named.name = "pair"
    >>> added_to(named), added_to((1, 2))
    ({'name': 'pair'}, {})
    """
    if not type(value).__dictoffset__:
        return {}
    found: dict[str, Any] = object.__getattribute__(value, "__dict__")
    return found


def same(value: Any, expected: Any) -> bool:
    """Do two values count as the same (see :func:`token`)?

    >>> same(2, 2), same(2, 2.0), same(float("nan"), float("nan")), same((0.0,), (-0.0,))
    (True, False, True, False)
    """
    return value is expected or bool(token(value) == token(expected))


def describe(value: Any) -> str:
    """A value in a few words, without calling code of the user's."""
    kind = type(value)
    if issubclass(kind, (FunctionType, BuiltinFunctionType)):
        return f"function {value.__qualname__}"
    if issubclass(kind, type):
        return f"class {value.__qualname__}"
    if issubclass(kind, CodeType):
        return f"code of line {value.co_firstlineno}"
    if value is MISSING or kind in _VALUES or issubclass(kind, np.generic):
        text = repr(value)
        return text if len(text) <= 60 else f"{text[:57]}..."
    return "a size" if kind is Extent else f"a {kind.__qualname__}"


def was_and_is(before: Any, now: Any) -> str:
    """The change from one value to another in words."""
    old, new = describe(before), describe(now)
    if old == new:
        return f"was {old} and is another one"
    return f"was {old} and is {new}"


def cell_content(cell: CellType) -> Any:
    """What a closure cell holds, ``MISSING`` while its variable is unset."""
    try:
        return cell.cell_contents
    except ValueError:
        return MISSING


def buffer_contents(buffer: Any) -> tuple[Any, ...]:
    """Type, shape and bytes of a buffer."""
    if isinstance(buffer, np.ndarray):
        return buffer.dtype, buffer.shape, buffer.tobytes()
    seen = memoryview(buffer)  # a class derived from ``bytearray`` has a length of its own
    return getattr(buffer, "typecode", "B"), seen.nbytes, seen.tobytes()
