"""What a call leaves in lists, dicts and objects among its arguments: a cache that is handed in and grows.

``cache["k"] = cat([cache["k"], k])``, ``cache.keys.append(k)``, ``cache.length += 1``: which items and attributes are
other ones after the run, and what was added, is found by comparing with what was there before. It goes with the
results, like what a function leaves in its own state, and every call puts it into the containers that it was given.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

from ...extents import Extent
from ...numpy_numbers import NUMBERS
from ...varying import is_varying
from ..signature import HANDED_IN, MAPPINGS, fields_of
from ..state.values import MISSING
from .left import is_shared

#: Stands for an item: a dict holds something else altogether, a list does from some position on.
WHOLE = object()


class LeftPart:
    """An item or attribute that a call replaces or adds in a container among its arguments, told by its ``position``.

    Or all of a dict that lost an item, or what is in a list from ``start`` on.
    """

    owner = None
    __slots__ = ("item", "position", "start")

    def __init__(self, position: int, item: Any, start: int = -1) -> None:
        self.position, self.item, self.start = position, item, start

    @property
    def key(self) -> Any:
        """What makes two of them the same."""
        return "part", self.position, self.item, self.start

    @property
    def name(self) -> str:
        """What users call it."""
        return "a part of its arguments"

    def read(self) -> Any:
        """What is there in the call that is under way."""
        holder = HANDED_IN.containers[self.position]
        if self.start >= 0:
            return holder[self.start :]
        parts = _parts(holder)
        return parts if self.item is WHOLE else parts.get(self.item, MISSING)

    def store(self, value: Any) -> None:
        """Put ``value`` there."""
        holder = HANDED_IN.containers[self.position]
        if self.start >= 0:
            holder[self.start :] = value
        elif self.item is WHOLE:
            holder.clear()
            holder.update(value)
        elif type(holder) is list or type(holder) in MAPPINGS:
            holder[self.item] = value
        else:
            object.__setattr__(holder, self.item, value)

    put = store


def parts_before() -> list[dict[Any, Any]]:
    """What is in the containers among the arguments of the call that is about to run."""
    return [_parts(x) for x in HANDED_IN.containers]


def parts_left(
    before: Sequence[dict[Any, Any]], reached: Collection[int]
) -> list[tuple[LeftPart, Any]] | None:
    """What a run left in its arguments: nothing where that is only numbers, None where it cannot be told."""
    found = HANDED_IN.containers
    left: list[tuple[LeftPart, Any]] = []
    only_numbers = True
    for position, (holder, old) in enumerate(zip(found, before, strict=True)):
        now = _parts(holder)
        only_numbers &= [*now] == [*old]
        if [*now][: len(old)] != [*old]:  # something was taken away
            if type(holder) is not list and type(holder) not in MAPPINGS:
                return None
            whole = LeftPart(position, WHOLE, 0 if type(holder) is list else -1)
            left.append((whole, whole.read()))
            continue
        changed = [key for key, x in old.items() if now[key] is not x]
        only_numbers &= all(_are_numbers(old[key], now[key]) for key in changed)
        left += [(LeftPart(position, key), now[key]) for key in changed]
        left += _added(position, holder, now, len(old))
    if only_numbers:
        return []
    return None if is_shared(found, reached) else left


def _added(
    position: int, holder: Any, now: dict[Any, Any], count: int
) -> Iterator[tuple[LeftPart, Any]]:
    """What was added to a container that had ``count`` items."""
    if type(holder) is not list:
        for key in [*now][count:]:
            yield LeftPart(position, key), now[key]
    elif len(holder) > count:
        yield LeftPart(position, WHOLE, count), holder[count:]


def _parts(holder: Any) -> dict[Any, Any]:
    """The items of a list or dict, or the attributes of an object, by position or name."""
    if type(holder) is list:
        return dict(enumerate(holder))
    if type(holder) in MAPPINGS:
        return dict(holder)
    return {name: getattr(holder, name) for name in fields_of(holder) or ()}


def _are_numbers(*values: Any) -> bool:
    """Are these numbers of one class, or what stands for some?"""
    known = all(type(x) in NUMBERS or type(x) is Extent or is_varying(x) for x in values)
    return known and len({x.__class__ for x in values}) == 1
