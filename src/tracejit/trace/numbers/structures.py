"""The numbers in one structure of arguments: which are constants, which vary, and which are sizes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from ..signature import containers, holder_count
from ..state.values import token

#: Values of a float that is a constant because it decides much; with more it would be another one at every call.
MAX_VALUES = 8
#: Most numbers among the arguments of one call that may vary.
MAX_NUMBERS = 64
#: Structures with numbers that are known of one function.
MAX_FORMS = 256
#: Ints that are no sizes.
MAX_SIZE = 1 << 40
DECIDES = "decides what is computed at almost every call"


def is_size(value: Any) -> bool:
    """Is this an int that a call can hand over?

    >>> is_size(3), is_size(-1), is_size(True)
    (True, False, False)
    """
    return type(value) is int and 0 <= value < MAX_SIZE


def which_are_one(values: Any, known: Collection[int] = ()) -> tuple[Any, ...]:
    """Which lists, dicts and objects in ``values`` are one, and which have an identity that is ``known``.

    It is empty where all are different, and none is known.

    >>> a, b = [1], [1]
    >>> which_are_one((a, b)), which_are_one((a, a)) == which_are_one((b, b))
    ((), True)
    """
    found = containers(values, [])
    first = {id(x): i for i, x in reversed([*enumerate(found)])}
    again = [first[id(x)] for x in found] if len(first) < len(found) else []
    ids = [(id(x), id(getattr(x, "__dict__", None))) for x in found] if known else []
    return (*again, *[(i, x) for i, pair in enumerate(ids) for x in pair if x in known])


class NumberUse:
    """The numbers in one structure of arguments."""

    def __init__(self, structure: Any, numbers: Sequence[Any], holders: int) -> None:
        self.structure = structure
        self.holders = holders  # how many lists, dicts and objects have some of them
        self.last = tuple(numbers)
        self.varying: tuple[int, ...] = ()
        self.sizes: tuple[int, ...] = ()
        self.fixed: tuple[int, ...] = tuple(range(len(numbers)))
        self.constant: dict[int, str] = {}  # what was found to decide, and how
        self.values: dict[int, set[Any]] = {}  # those that constants had since
        self.many: set[int] = set()  # which have too many to be constants

    def learn(self, numbers: Sequence[Any]) -> None:
        """A call with these numbers is new."""
        moved = [
            i
            for i in self.fixed
            if i not in self.constant and token(numbers[i]) != token(self.last[i])
        ]
        moved += self._many_valued(numbers)
        self.last = tuple(numbers)
        if len(self.varying) + len(moved) > MAX_NUMBERS:
            why = f"more than {MAX_NUMBERS} numbers among the arguments changed"
            self.settle([*self.varying, *moved], why)
        elif moved:
            self._split({*self.varying, *moved})

    def _many_valued(self, numbers: Sequence[Any]) -> list[int]:
        """Constants that turn out to have other values again and again: a float drawn for each call is none."""
        for i, why in self.constant.items():
            if type(numbers[i]) is float and why.endswith(DECIDES):
                self.values.setdefault(i, set()).add(token(numbers[i]))
        found = [i for i, values in self.values.items() if len(values) > MAX_VALUES]
        for i in found:
            del self.values[i], self.constant[i]
        self.many.update(found)
        return found

    def settle(self, positions: Sequence[int], why: str) -> None:
        """These decide too much to vary."""
        self.constant.update(dict.fromkeys(positions, why))
        self.sizes = tuple(i for i in self.sizes if i not in positions)
        self._split(set(self.varying).difference(positions))

    def take_for_sizes(self, positions: Iterable[int]) -> None:
        """These index or bound slices."""
        self.sizes = tuple(sorted({*self.sizes, *positions}))
        self._split(set(self.varying).difference(self.sizes))

    def _split(self, varying: set[int]) -> None:
        self.varying = tuple(sorted(varying))
        apart = varying.union(self.sizes)
        self.fixed = tuple(i for i in range(len(self.last)) if i not in apart)

    def asks_which_are_one(self, known: Collection[int]) -> bool:
        """Could lists, dicts and objects with these numbers be one, or be ``known``?"""
        return self.holders > (not known)

    def key(self, numbers: Sequence[Any], values: Any, known: Collection[int] = ()) -> Varying:
        """What replaces the exact structure of ``values`` in the key of a signature.

        ``known`` are the identities of what holds other numbers that vary.
        """
        sizes, fixed = self.sizes, self.fixed
        if not all(is_size(numbers[i]) for i in sizes):
            sizes, fixed = (), (*fixed, *sizes)
        constants = [token(numbers[i]) for i in fixed]
        shared = which_are_one(values, known) if self.asks_which_are_one(known) else ()
        return Varying((self.structure, self.varying, sizes, shared, *constants))


def use_in(
    known: dict[Any, NumberUse], key: Any, structure: Any, numbers: Sequence[Any], holders: int
) -> NumberUse:
    """What is ``known`` by ``key`` about the numbers in a structure, from now on if it is nothing yet."""
    use = known.get(key)
    if use is None:
        if len(known) >= MAX_FORMS:
            known.pop(next(iter(known)))
        use = known[key] = NumberUse(structure, numbers, holders)
    return use


def argument_holders(structure: Any) -> int:
    """How many lists, dicts and objects among arguments of this structure hold numbers."""
    positional, (_, named) = structure[1]
    return sum(map(holder_count, (*positional[1], *[x for _, x in named])))


class Varying(tuple[Any, ...]):
    """A structure, which numbers vary in it, which are sizes, which containers are one, and the other values."""

    __slots__ = ()

    @property
    def structure(self) -> Any:
        """The structure with a mark for every number."""
        return self[0]

    @property
    def varying(self) -> tuple[int, ...]:
        """Positions among the numbers."""
        positions: tuple[int, ...] = self[1]
        return positions

    @property
    def sizes(self) -> tuple[int, ...]:
        """Positions among the numbers of those handed over in a tensor."""
        positions: tuple[int, ...] = self[2]
        return positions

    def among(self, shared: tuple[Any, ...]) -> Varying:
        """The same where these containers are one."""
        return Varying((*self[:3], shared, *self[4:]))
