"""Results made of objects: taken apart into tensors and a structure, and made again from them at every call.

:mod:`.signature` does this for tuples, lists, dicts and dataclasses that form a tree. Here it is done for objects that
are nothing but their attributes, for classes derived from list, dict and OrderedDict, and for results in which an
object occurs twice or contains itself: what was one object is one object again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...extents import Extent
from ...ops.mixin import Size
from ...standing import stands
from ...tensor import Tensor
from ...varying_arrays import TensorArray
from ..numbers.plain_parts import plain_parts, remade, varying_parts
from ..signature import MAPPINGS, Given, SizeLeaf, Static, flatten, is_named_tuple, unflatten
from .transparent import attributes_of, base_of, is_transparent


@dataclass(frozen=True)
class Again:
    """The object that was the ``number``-th to occur."""

    number: int


@dataclass(frozen=True)
class Form:
    """What an object is made of: its items (under ``keys`` in a dict), slots and other attributes, in this order."""

    kind: type
    keys: tuple[Static, ...] | None
    slots: tuple[str, ...]
    attributes: tuple[str, ...]


def flatten_result(result: Any, leaves: list[Any], outside: Callable[[], Collection[int]]) -> Any:
    """Append the leaves of ``result`` to ``leaves``; return its structure, for :func:`result_of`.

    ``outside`` tells the identities of objects that were there before the call: they are handed out as they are.
    """
    return flatten_run(result, leaves, outside, ())[0]


def flatten_run(
    result: Any, leaves: list[Any], outside: Callable[[], Collection[int]], given: Sequence[Any]
) -> tuple[Any, bool]:
    """The same for a run whose arguments contain the lists, dicts and objects ``given``; are some in its result?

    They are handed out as what a later call has in their places.
    """
    walk = _Walk(outside)
    walk.given = {id(x): position for position, x in enumerate(given)}
    node = walk.visit(result)
    if not walk.needed:
        return flatten(result, leaves), False
    leaves += walk.leaves
    return (Form, (node,)), walk.gives_again


def parts_of(
    result: Any, outside: Callable[[], Collection[int]], given: Sequence[Any] = ()
) -> list[Any]:
    """The lists, dicts and objects that :func:`flatten_run` takes apart, each once."""
    walk = _Walk(outside)
    walk.given = {id(x): position for position, x in enumerate(given)}
    walk.visit(result)
    return [x for x in walk.seen if not isinstance(x, tuple)]


def is_made_of_objects(structure: Any) -> bool:
    """Is this the structure of a result that only :func:`rebuild` makes again?"""
    return isinstance(structure, tuple) and structure[0] is Form


def result_of(structure: Any, leaves: Iterator[Any]) -> Any:
    """The result of a structure, taking leaves from an iterator."""
    if not is_made_of_objects(structure):
        return unflatten(structure, leaves)
    return rebuild(structure[1][0], leaves, [])


#: What is made of its items, and has no attributes of the user's; an array is made of the tensor whose memory it shows.
_NO_OBJECTS = (Size, slice, np.ndarray)


class _Walk:
    """Goes through a result once."""

    def __init__(self, outside: Callable[[], Collection[int]]) -> None:
        self.outside = outside
        self.leaves: list[Any] = []
        self.seen: list[
            Any
        ] = []  # by number; this keeps them alive, so that identities stay theirs
        self.numbers: dict[int, int] = {}
        self.open: set[int] = set()
        self.needed = False  # is there anything that `flatten` cannot do?
        self.given: dict[int, int] = {}
        self.gives_again = False

    def visit(self, value: Any) -> Any:
        """The structure of ``value``."""
        if isinstance(value, Tensor) or (stands(value) and type(value) is not TensorArray):
            self.leaves.append(value)
            return None
        if id(value) in self.given:
            self.needed = self.gives_again = True
            return Given(self.given[id(value)])
        kind: type = type(value)
        if kind is TensorArray:
            self.needed = value._is_returned = True
            number = self.numbers.get(id(value))
            return self.take_apart(value, np.ndarray) if number is None else Again(number)
        if varying_parts(value) is not None:
            return self.take_apart(value, kind)
        if kind is Extent or (kind is Size and any(type(x) is Extent for x in value)):
            return SizeLeaf(value)
        if not _is_simple(value):
            if not is_transparent(kind):
                return Static(plain_parts(value) if kind is frozenset else value)
            self.needed = True
            if id(value) in self.outside():
                return Static(value)
        number = self.numbers.get(id(value))
        if number is None:
            return self.take_apart(value, kind)
        if not isinstance(value, tuple):
            self.needed = True
        elif id(value) in self.open:  # it has to exist before what it is made of
            return Static(object())
        return Again(number)

    def take_apart(self, value: Any, kind: type) -> Any:
        """The structure of something that has parts."""
        self.numbers[id(value)] = len(self.seen)
        self.seen.append(value)
        self.open.add(id(value))
        keys, items = None, varying_parts(value) or ()
        if isinstance(value, dict):
            base = base_of(kind)
            keys = tuple([Static(plain_parts(key)) for key in base.keys(value)])
            items = tuple([dict.__getitem__(value, key.value) for key in keys])
        elif isinstance(value, (list, tuple)):
            items = (*value,)
        elif kind is np.ndarray:
            items = (value._number,)
        slots, attributes = ({}, {}) if kind in _NO_OBJECTS else attributes_of(value)
        parts = (*items, *slots.values(), *attributes.values())
        found = Form(kind, keys, (*slots,), (*attributes,)), tuple(map(self.visit, parts))
        self.open.discard(id(value))
        return found


def _is_simple(value: Any) -> bool:
    """Is this a tuple, named tuple, list or dict, and nothing more?"""
    kind = type(value)
    if kind in (tuple, list, *MAPPINGS):
        return True
    return isinstance(value, tuple) and is_named_tuple(value)


def rebuild(node: Any, leaves: Iterator[Any], made: list[Any]) -> Any:
    """What was taken apart, with other leaves; ``made`` are the objects so far."""
    if not isinstance(node, tuple):
        return made[node.number] if isinstance(node, Again) else unflatten(node, leaves)
    form, children = node
    kind, number = form.kind, len(made)
    made.append(None)
    count = len(children) - len(form.slots) - len(form.attributes)
    if kind is np.ndarray:
        made[number] = rebuild(children[0], leaves, made).detach().numpy()
        return made[number]
    if issubclass(kind, (tuple, slice)):  # it has to be made with its items
        parts = [rebuild(child, leaves, made) for child in children]
        value = slice(*parts) if kind is slice else remade(kind, parts[:count])
        found = iter(parts[count:])
    else:
        value = made[number] = base_of(kind).__new__(kind)
        found = iter([rebuild(child, leaves, made) for child in children])
    made[number] = value
    if form.keys is not None:
        for key in form.keys:
            base_of(kind).__setitem__(value, key.value, next(found))
    elif isinstance(value, list):
        list.extend(value, [next(found) for _ in range(count)])
    for name in form.slots:
        object.__setattr__(value, name, next(found))
    if form.attributes:
        vars(value).update(zip(form.attributes, found, strict=True))
    return value
