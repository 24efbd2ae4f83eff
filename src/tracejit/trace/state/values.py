"""Values in guards: when two of them count as the same, and how they are described.

Plain values compare by type and contents, everything else by identity; no method of a user's class is ever called.
"""

from __future__ import annotations

import struct
from types import BuiltinFunctionType, CellType, CodeType, FunctionType
from typing import Any

import numpy as np

from ...extents import Extent


class _Missing:
    def __repr__(self) -> str:
        return "not set"


MISSING: Any = _Missing()
_BY_EQUALITY = frozenset({int, str, bool, bytes, type(None), type(...)})
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
    if issubclass(kind, tuple):
        return (kind, tuple(token(item) for item in value))
    if kind is frozenset:  # by order too: equal ones can list their members differently
        return (kind, tuple(token(item) for item in value))
    if kind in (range, slice):
        return (kind, token((value.start, value.stop, value.step)))
    if issubclass(kind, np.generic) and value.dtype != object:
        return (kind, value.dtype, value.tobytes())
    return (None, id(value))


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
    return getattr(buffer, "typecode", "B"), len(buffer), bytes(buffer)
