"""A version that compares as versions do: ``"2.13" > "2.9"``."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

__all__ = ["TorchVersion"]

_NUMBERS = re.compile(r"v?(\d+(?:\.\d+)*)")


def _key(version: Any) -> tuple[tuple[int, ...], bool] | None:
    """The numbers of a version, without zeros at the end, and whether it is somebody's own build of that release.

    None for what is no version.
    """
    if isinstance(version, str):
        match = _NUMBERS.match(version.strip())
        parts: Any = match.group(1).split(".") if match else None
    else:
        parts = list(version) if isinstance(version, Iterable) else None
    if not parts or not all(str(part).isdigit() for part in parts):
        return None
    numbers = [int(part) for part in parts]
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers), isinstance(version, str) and "+" in version


def _comparing(name: str) -> Callable[[Any, Any], Any]:
    """The comparison of this name: of release numbers where both have some, else of texts."""
    plain = getattr(str, name)

    def compare(self: TorchVersion, other: Any) -> Any:
        own, given = _key(str(self)), _key(other)
        if given is None:
            return plain(self, other)
        return getattr(tuple, name)(own, given)

    return compare


class TorchVersion(str):
    """A text that compares with texts and tuples of numbers as a version; one with a ``+`` is later than one without.

    >>> v = TorchVersion("2.13.0+tracejit.0.1.0")
    >>> v >= "2.9", v >= (2, 14), v == "2.13", v > "2.13"
    (True, False, False, True)
    """

    __slots__ = ()

    __lt__ = _comparing("__lt__")
    __le__ = _comparing("__le__")
    __gt__ = _comparing("__gt__")
    __ge__ = _comparing("__ge__")
    __eq__ = _comparing("__eq__")
    __ne__ = _comparing("__ne__")
    __hash__ = str.__hash__
