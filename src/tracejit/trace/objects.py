"""Objects that are made for the call they are handed to: settings, batches, graphs, caches of a class of the program.

An object among the arguments is compared by identity, so each of these would have the function recorded once more.
Where a third one turned up in a place, and all of them were nothing but data, objects of their class are taken apart
into their attributes from then on, as dataclasses are.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterable, Iterator, Sequence
from types import BuiltinFunctionType, FunctionType, ModuleType, SimpleNamespace
from typing import Any

from ..device import device
from ..dtypes import DType
from ..tensor import Tensor
from .numbers.left import known_apart
from .recording.transparent import attributes_of, is_transparent
from .signature import APART, MAPPINGS, containers, fields_of
from .state.modules import parameter_class
from .state.values import is_value, token

#: Objects of a class that came to one place, after which the next ones are taken apart.
ENOUGH = 2
#: Most classes that are taken apart, places that are watched, and parts of an object that is nothing but data.
MAX_CLASSES, MAX_PLACES, MAX_PARTS = 256, 64, 256
#: What is one and the same object at every call, or equal to others of its kind.
_LASTING = (enum.Enum, DType, device, type, FunctionType, BuiltinFunctionType, ModuleType)

#: Methods that run, or slots that are there, where attributes are not simply looked up and put in a dictionary.
_SPECIAL = ("__slots__", "__getattribute__", "__setattr__", "__delattr__")

#: Classes of which an object turned out to be more than data.
_KEPT: set[type] = set()


def withdraw(objects: Iterable[Any]) -> None:
    """Objects of the classes of these are compared by identity again, and stay so."""
    kinds = {type(x) for x in objects} & APART
    APART.difference_update(kinds)
    _KEPT.update(kinds)


def note_reached(entry: Any, found: Sequence[Any], reached: Collection[int]) -> bool:
    """Keep what the code of a recording reached; True where objects that are taken apart may be told from equal ones.

    ``found`` are the containers among the arguments.
    """
    entry.handed_in |= any(type(x) in APART for x in found)
    if entry.handed_in or entry.owner.uses.changes_arguments or entry.filled:
        entry.reached |= {*reached}
    known = known_apart(found, reached)
    withdraw(known)
    return bool(known)


def comes_apart(value: Any) -> bool:
    """Is this nothing but data, in objects of a class that may be taken apart?"""
    return _classes_in(value) is not None


def take_apart(objects: Iterable[Any]) -> bool:
    """Objects of the classes of these are taken apart from now on; False where some are more than data."""
    classes = [_classes_in(x) for x in objects]
    if None in classes or len(APART) >= MAX_CLASSES:
        return False
    APART.update(*[found for found in classes if found is not None])
    return True


def met_again(values: Sequence[Any]) -> tuple[int, ...]:
    """Which lists, dicts and objects in some values are one; empty where all are different."""
    found: list[Any] = []
    for value in values:
        if not isinstance(value, Tensor):
            containers(value, found)
    numbers = {id(x): i for i, x in enumerate(found)}
    return tuple([numbers[id(x)] for x in found]) if len(numbers) < len(found) else ()


class ObjectUses:
    """The objects that came to the places of one function's arguments, as far as they may be made for the call."""

    def __init__(self) -> None:
        self.met: dict[Any, list[Any]] = {}

    def learn(self, args: Any, kwargs: Any) -> bool:
        """A call is about to be recorded; True when objects among its arguments are taken apart from now on."""
        learned = False
        for place, value in _objects_in((args, kwargs), ()):
            key = place, type(value)
            known = self.met.get(key, [])
            if any(value is x for x in known):
                continue
            self.met[key] = [*known, value]
            if len(known) >= ENOUGH:
                del self.met[key]
                learned |= take_apart((*known, value))
        while len(self.met) > MAX_PLACES:
            self.met.pop(next(iter(self.met)))
        return learned


def _objects_in(value: Any, place: tuple[Any, ...]) -> Iterator[tuple[Any, Any]]:
    """The objects among the arguments that could be taken apart, and where they are."""
    kind = type(value)
    if isinstance(value, Tensor) or len(place) > MAX_PARTS:
        return
    if kind in MAPPINGS:
        parts: Any = [*value.items()]
    elif isinstance(value, (tuple, list)):
        parts = [*enumerate(value)]
    else:
        names = fields_of(value)
        if names is None:
            if _may_come_apart(kind):
                yield place, value
            return
        parts = [(name, getattr(value, name)) for name in names]
    for key, part in parts[:MAX_PARTS]:
        yield from _objects_in(part, (*place, token(key)))


def _may_come_apart(kind: type) -> bool:
    """Are instances nothing but attributes in a dictionary, which are read and set without running their code?"""
    if kind in _KEPT or not is_transparent(kind) or issubclass(kind, (dict, list, tuple)):
        return False
    written = [c for c in kind.__mro__ if c not in (object, SimpleNamespace)]
    own = {name for c in written for name in vars(c)}
    return kind.__dictoffset__ != 0 and own.isdisjoint(_SPECIAL)


def _classes_in(value: Any) -> set[type] | None:
    """The classes of an object and of those it is made of; None if it has parts that are more than data, or shared."""
    found: set[type] = set()
    seen: set[int] = set()
    waiting = [value]
    while waiting:
        part = waiting.pop()
        kind = type(part)
        if is_value(part) or isinstance(part, _LASTING) or _is_data(part):
            continue
        if id(part) in seen or len(seen) > MAX_PARTS:
            return None
        seen.add(id(part))
        if kind is list:
            waiting += part
        elif kind in MAPPINGS:
            waiting += part.values()
        elif (names := fields_of(part)) is not None:
            waiting += [getattr(part, name) for name in names]
        elif _may_come_apart(kind):
            found.add(kind)
            waiting += attributes_of(part)[1].values()
        else:
            return None
    return found


def _is_data(value: Any) -> bool:
    """Is this a tensor that is no parameter?"""
    parameter = parameter_class()
    return isinstance(value, Tensor) and not (parameter and isinstance(value, parameter))
