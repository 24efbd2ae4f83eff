"""What calls read in places of the Python state beside their arguments, as a part of the key of their signature.

See `held`, which tells the places that a function fills.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ...ops.mixin import Size
from ...tensor import Tensor
from ...varying import is_varying, plain
from ..numbers.places import Place
from ..numbers.structures import Varying, is_size
from ..objects import met_again
from ..signature import (
    flatten,
    is_number,
    leaf_count,
    leaf_names,
    unflatten,
    unique,
)

#: What stands in structures for what is not part of them.
UNSEEN = "any"


class Held(tuple[Any, ...]):
    """In keys: the structure of the arguments, places that are read, what they hold, sizes, which objects are one."""

    __slots__ = ()

    @property
    def inner(self) -> Any:
        """The structure of the arguments."""
        return self[0]

    @property
    def places(self) -> tuple[Place, ...]:
        """The places."""
        found: tuple[Place, ...] = self[1]
        return found

    @property
    def filled(self) -> tuple[Place, ...]:
        """Those that hold lists, dicts or objects."""
        return tuple([p for p, x in zip(self[1], self.structures, strict=True) if type(x) is tuple])

    @property
    def structures(self) -> tuple[Any, ...]:
        """What the places hold."""
        found: tuple[Any, ...] = (self[2] if self.numbers is None else self.numbers.structure)[1]
        return found

    @property
    def numbers(self) -> Varying | None:
        """The numbers in what they hold, if any of them vary."""
        return self[2] if isinstance(self[2], Varying) else None

    @property
    def sized(self) -> tuple[Place, ...]:
        """Those that hold sizes."""
        return tuple([self.places[i] for i in self[3]])


def arguments_in(structure: Any) -> Any:
    """The structure of the arguments in the key of a signature."""
    return structure.inner if isinstance(structure, Held) else structure


def places_in(structure: Any) -> tuple[tuple[Place, ...], tuple[Place, ...]]:
    """The places that a call with this structure in its key reads, and those of them that hold sizes."""
    return (structure.places, structure.sized) if isinstance(structure, Held) else ((), ())


def leaf_names_of(structure: Any) -> list[str]:
    """A name for every tensor in the places that a call with this structure in its key reads."""
    if not isinstance(structure, Held):
        return []
    counts = map(leaf_count, structure.structures)
    named = map(_called, structure.places)
    return [name for name, count in zip(named, counts, strict=True) for _ in range(count)]


def number_names_of(structure: Any) -> list[str]:
    """A name for every number in the places that a call with this structure in its key reads, if any of them vary."""
    if not isinstance(structure, Held) or structure.numbers is None:
        return []
    pairs = zip(structure.structures, map(_called, structure.places), strict=True)
    return unique([name for pair in pairs for name in _number_names(*pair)])


def _number_names(structure: Any, name: str) -> Iterator[str]:
    """A name for every number in a structure, with what leads there behind ``name``."""
    if isinstance(structure, type):
        yield name
    elif isinstance(structure, tuple):
        kind, children = structure
        is_plain = issubclass(kind, (tuple, list, slice))
        for key, child in enumerate(children) if is_plain else children:
            yield from _number_names(child, f"{name}_{getattr(key, 'value', key)}")


def _called(place: Place) -> str:
    name = str(place.check.key)
    return name if name.isidentifier() else "state"


def beside(
    structure: Any,
    places: tuple[Place, ...],
    tensors: list[Tensor],
    sizes: Sequence[int] = (),
    within: Callable[[Any], tuple[Varying, Sequence[int]] | None] | None = None,
) -> Any:
    """The structure for the key of a call that reads ``places`` and has ``sizes`` among its arguments.

    To ``tensors`` are appended those in the places, and one in which the call hands over all sizes, if it has any.
    ``within`` tells of what is in the places which numbers vary, if any, and gives those that are sizes.
    """
    if places:
        values = [place.read() for place in places]
        sized = tuple([i for i, x in enumerate(values) if places[i].sized and is_size(x)])
        found: list[Any] = []
        shown = tuple(map(_seen, places, values))
        seen = flatten(shown, found)
        if any(map(is_varying, found)):  # another thread is recording
            shown = unflatten(seen, map(plain, (*found,)))
            seen = flatten(shown, found := [])
        told = None if within is None else within(shown)
        if told is not None:
            seen, sizes = told[0], (*sizes, *told[1])
        sizes = (*sizes, *[values[i] for i in sized])
        tensors += found
        structure = Held((structure, places, seen, sized, met_again(shown)))
    if sizes:
        tensors.append(Tensor._wrap(np.array(sizes, np.int64)))
    return structure


def seen_in(places: Sequence[Place]) -> list[Any]:
    """What a call sees in places; of sizes, and tensors, lists and text that it only replaces, that there are some."""
    return [_seen(place, place.read()) for place in places]


def _seen(place: Place, value: Any) -> Any:
    if (place.blind and has_twin(value)) or (place.sized and is_size(value)):
        return UNSEEN
    return value


def has_twin(value: Any) -> bool:
    """Is this something that code which only replaces it need not be told, whatever it is?"""
    if isinstance(value, Tensor) or type(value) in (list, dict):
        return True
    return len(value) > 1 if type(value) is str else type(value) in (tuple, Size) and bool(value)


def number_positions(
    function: Callable[..., Any], key: Any, args: Any, kwargs: Any
) -> tuple[tuple[int, ...], tuple[int, ...], list[str], int]:
    """Which numbers among the arguments vary and which are sizes; and, if any, the names of all numbers.

    Those in places of the Python state that a call reads like arguments follow, after so many of the arguments' own.
    """
    varying: list[int] = []
    sizes: list[int] = []
    names: list[str] = []
    structure, own = arguments_in(key[3]), 0
    if isinstance(structure, Varying) and (structure.varying or structure.sizes):
        names = leaf_names(function, args, kwargs, is_number)
        varying, sizes, own = [*structure.varying], [*structure.sizes], len(names)
    within = key[3].numbers if isinstance(key[3], Held) else None
    if within is not None:
        names = [*names, *number_names_of(key[3])]
        varying += [own + i for i in within.varying]
        sizes += [own + i for i in within.sizes]
    return (*varying,), (*sizes,), names, own
