"""Numbers that a call leaves in its arguments: ``state["step"] += 1`` in a dict, list or dataclass that was handed in.

A replay puts them where the recorded run did, when everything else has run. Calls whose arguments share a container, or
hand in one that the code reaches in another way too, run eagerly: what one name writes another would read.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from ...extents import Extent
from ...numpy_numbers import NUMBERS
from ...tensor import Tensor
from ...varying import is_varying
from ..arrays.unread import ArgumentPart
from ..replay.ending import NotReplayable, Refused
from ..signature import APART, HANDED_IN, MAPPINGS, containers, fields_of, is_named_tuple
from ..state.values import same
from .arguments import put_number

#: Why an object that is taken apart may not be.
ELSEWHERE = "an object among its arguments is known to the code from elsewhere"


class _Given(threading.local):
    """The arguments of the call that a thread replays or records."""

    now: Any = None


_GIVEN = _Given()


@contextmanager
def handed_in(args: Any, kwargs: Any) -> Iterator[Sequence[Any]]:
    """Inside, a call with these arguments is under way; what it leaves in them goes there."""
    before = _GIVEN.now, HANDED_IN.containers
    _GIVEN.now, HANDED_IN.containers = (args, kwargs), containers((args, kwargs), [])
    try:
        yield HANDED_IN.containers
    finally:
        _GIVEN.now, HANDED_IN.containers = before


class Elsewhere(NotReplayable):
    """What lies in a place that the function fills is, in this call, something that the code knows anyway."""

    passing = True
    reason = "an object in a place that it fills is known to the code from elsewhere"

    def __init__(self) -> None:
        super().__init__(self.reason)


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
    if kind is ArgumentPart:
        children = (value.shown,)
    elif kind is list or kind is tuple or (isinstance(value, tuple) and is_named_tuple(value)):
        children = value
    elif kind in MAPPINGS:
        children = value.values()
    else:
        children = [getattr(value, name) for name in fields_of(value) or ()]
    for child in children:
        yield from numbers_among(child)


@contextmanager
def noticing(uses: Any, recorder: Any, given: Any, reached: Collection[int]) -> Iterator[None]:
    """Add to what is stored, if a run is known to, the numbers it leaves in its arguments, before those are as before.

    Not where it leaves other things there, which they go with (`left_parts`).
    """
    before = list(numbers_among(given)) if uses.changes_arguments else []
    yield
    if before and not recorder.in_arguments:
        args, kwargs = given
        recorder.stores.update(_left(args, kwargs, before, reached))


def _left(
    args: Any, kwargs: Any, before: list[Any], reached: Collection[int]
) -> dict[LeftNumber, Any]:
    """What a run that was given numbers ``before`` left in their places; nothing where that is not certain."""
    after = list(numbers_among((args, kwargs)))
    if len(after) != len(before) or is_shared(containers((args, kwargs), []), reached):
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


def is_shared(found: Sequence[Any], reached: Collection[int]) -> bool:
    """Is a container among those that were ``found`` twice, known to the code, or with setters of its own?"""
    ids = {id(x) for x in found}
    classes = [cls for x in found if fields_of(x) for cls in type(x).__mro__[:-1]]
    own = any("__setattr__" in vars(cls) for cls in classes if cls is not SimpleNamespace)
    return own or len(ids) != len(found) or not ids.isdisjoint(reached)


def served(entry: Any, tensors: list[Tensor], args: Any, kwargs: Any, numbers: Any) -> Any:
    """What a replay of ``entry`` gives, which may leave something in its arguments."""
    changes = entry.owner.uses.changes_arguments
    if entry.filled and reached_otherwise([p.read() for p in entry.filled], entry.reached):
        raise Elsewhere
    if not changes and not entry.handed_in:
        return entry.replay(tensors, numbers)
    with handed_in(args, kwargs) as found:
        if changes and is_shared(found, entry.reached):
            raise Refused("its arguments share what the call changes")
        if entry.handed_in and known_apart(found, entry.reached):
            raise Refused(ELSEWHERE)
        return entry.replay(tensors, numbers)


def known_apart(found: Sequence[Any], reached: Collection[int]) -> list[Any]:
    """Objects that are taken apart, and can be told from their equals: by the code, or because they come twice."""
    apart = [x for x in found if type(x) in APART]
    ids = [id(x) for x in apart]
    return [x for x in apart if id(x) in reached or ids.count(id(x)) > 1]


def reached_otherwise(values: Sequence[Any], reached: Collection[int]) -> bool:
    """Is a list, dict or object in some values one that the code also ``reached`` another way, and may compare with?"""
    return any(id(x) in reached for value in values for x in containers(value, []))
