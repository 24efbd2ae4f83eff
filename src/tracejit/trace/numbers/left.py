"""Numbers that a call leaves in its arguments: ``state["step"] += 1`` in a dict, list or dataclass that was handed in.

A replay puts them where the recorded run did, when everything else has run. Calls whose arguments share a container, or
hand in one that the code reaches in another way too, run eagerly: what one name writes another would read.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ...extents import Extent
from ...numpy_numbers import NUMBERS
from ...tensor import Tensor
from ...varying import is_varying
from ..replay.ending import Refused
from ..signature import MAPPINGS, containers, fields_of
from ..state.values import same
from .arguments import put_number


class _Given(threading.local):
    """The arguments of the call that a thread replays."""

    now: Any = None


_GIVEN = _Given()


@dataclass(frozen=True, eq=False)
class LeftNumber:
    """A number among the arguments, which the call replaces; ``position`` as signatures count them."""

    position: int
    kind: type

    @property
    def key(self) -> Any:
        """What makes two of them the same."""
        return "argument", self.position

    @property
    def name(self) -> str:
        """What users call it."""
        return "a number among its arguments"

    def store(self, value: Any) -> None:
        """Put ``value`` there."""
        args, kwargs = _GIVEN.now
        put_number(args, kwargs, self.position, value)


def numbers_among(value: Any) -> Iterator[Any]:
    """The numbers in a nested value, and what stands for some, in the order in which signatures list them.

    >>> list(numbers_among(((1, None), {"rate": 0.5, "name": "x"})))
    [1, 0.5]
    """
    kind = type(value)
    if isinstance(value, Tensor):
        return
    if kind in NUMBERS or is_varying(value) or kind is Extent:
        yield value
        return
    children: Any = ()
    if kind is list or kind is tuple or (isinstance(value, tuple) and hasattr(value, "_fields")):
        children = value
    elif kind in MAPPINGS:
        children = value.values()
    else:
        children = [getattr(value, name) for name in fields_of(value) or ()]
    for child in children:
        yield from numbers_among(child)


@contextmanager
def noticing(
    uses: Any, stores: MutableMapping[Any, Any], given: Any, reached: Collection[int]
) -> Iterator[None]:
    """Add to ``stores``, if it is known to, what a run leaves in its arguments, before those are as they were."""
    before = list(numbers_among(given)) if uses.changes_arguments else []
    yield
    if before:
        args, kwargs = given
        stores.update(_left(args, kwargs, before, reached))


def _left(
    args: Any, kwargs: Any, before: list[Any], reached: Collection[int]
) -> dict[LeftNumber, Any]:
    """What a run that was given numbers ``before`` left in their places; nothing where that is not certain."""
    after = list(numbers_among((args, kwargs)))
    if len(after) != len(before) or _is_shared(args, kwargs, reached):
        return {}
    return {
        LeftNumber(i, _kind_of(old)): new
        for i, (old, new) in enumerate(zip(before, after, strict=True))
        if new is not old and (is_varying(new) or not same(new, old))
    }


def _kind_of(value: Any) -> type:
    """The class of a number, or of the value of one that varies."""
    found: type = value.__class__
    return found


def _is_shared(args: Any, kwargs: Any, reached: Collection[int]) -> bool:
    """Is a container among the arguments twice, known to the code by another name, or with setters of its own?"""
    found = containers((args, kwargs), [])
    ids = {id(x) for x in found}
    classes = [cls for x in found if fields_of(x) for cls in type(x).__mro__[:-1]]
    own = any("__setattr__" in vars(cls) for cls in classes)
    return own or len(ids) != len(found) or not ids.isdisjoint(reached)


def served(entry: Any, tensors: list[Tensor], args: Any, kwargs: Any, numbers: Any) -> Any:
    """What a replay of ``entry`` gives, which may leave numbers in its arguments."""
    if not entry.owner.uses.changes_arguments:
        return entry.replay(tensors, numbers)
    if entry.guard is not None and _is_shared(args, kwargs, entry.guard.reached):
        raise Refused("its arguments share what the call changes")
    before, _GIVEN.now = _GIVEN.now, (args, kwargs)
    try:
        return entry.replay(tensors, numbers)
    finally:
        _GIVEN.now = before
