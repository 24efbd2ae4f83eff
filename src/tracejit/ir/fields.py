"""Comparing records that hold values of a graph."""

from __future__ import annotations

from typing import Any


class ByFields:
    """Equal when all fields are equal, where one object is equal to itself.

    ``==`` of two values of a graph writes a comparison down. Dataclasses compared tuples of their fields, which look
    at identity first, until CPython 3.13; since then they compare fields one by one.
    """

    __slots__ = ()

    def _values(self) -> tuple[Any, ...]:
        return tuple([getattr(self, name) for name in self.__dataclass_fields__])  # type: ignore[attr-defined]

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self._values() == other._values()

    def __hash__(self) -> int:
        return hash(self._values())
