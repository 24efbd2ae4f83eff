"""What user code holds, while it is recorded, in the place of a value that may differ from call to call.

``isinstance`` sees the class of the value. Out of its recording, and in other threads, it is nothing but its value.
"""

from __future__ import annotations

from typing import Any

from .modes import MODES

__all__ = ["Standing", "plain", "stands"]


class Standing:
    """A value, where it came from, and the recorder that wants to know what is done with it."""

    __slots__ = ("__weakref__", "_number", "_owner", "_value")

    _value: Any
    _number: Any
    _owner: Any

    def __init__(self, value: Any, number: Any, owner: Any) -> None:
        self._value, self._number, self._owner = value, number, owner

    def _live(self) -> bool:
        """Is the recording that this belongs to going on in this thread?"""
        owner = self._owner
        return owner is not None and owner is MODES.recorder and owner.failure is None

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        """The class of the value, for ``isinstance``."""
        return type(self._value)

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, memo: Any) -> Any:
        return self


def plain(value: Any) -> Any:
    """The value of what stands for it, without telling anybody; all else as it is.

    >>> plain(Standing(0.5, None, None)), plain("text")
    (0.5, 'text')
    """
    return value._value if issubclass(type(value), Standing) else value


def stands(value: Any) -> bool:
    """Does this stand for a value?

    >>> stands(Standing(0.5, None, None)), stands(0.5)
    (True, False)
    """
    return issubclass(type(value), Standing)
