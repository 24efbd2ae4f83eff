"""Which numbers among the arguments of a function are constants, and which vary from call to call.

A number is a constant until a call brings another one in its place. From then on it varies: recordings take any value,
and one signature serves all of them. Where the recorded function turns out to decide by it again and again (a size, a
count of rounds), it becomes a constant once more, for good.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from ..ir.graph import Guard
from .found_sizes import APART
from .numbers import ItemRead, Number, NumberGuard
from .places import MAX_PLACES, Place, PlaceKey
from .signature import flatten, is_number
from .state_values import token

if TYPE_CHECKING:
    from .entry import Entry

#: Unseen decisions on a number that are always allowed, and one more for each so many calls that were served.
PATIENCE = 3
CALLS_PER_DECISION = 8
MAX_FORMS = 256
#: Most numbers among the arguments of one call that may vary.
MAX_NUMBERS = 64


class NumberUse:
    """The numbers in one structure of arguments."""

    def __init__(self, structure: Any, numbers: Sequence[Any]) -> None:
        self.structure = structure
        self.last = tuple(numbers)
        self.varying: tuple[int, ...] = ()
        self.fixed: tuple[int, ...] = tuple(range(len(numbers)))
        self.constant: dict[int, str] = {}  # what was found to decide, and how

    def learn(self, numbers: Sequence[Any]) -> None:
        """A call with these numbers is new."""
        moved = [
            i
            for i in self.fixed
            if i not in self.constant and token(numbers[i]) != token(self.last[i])
        ]
        self.last = tuple(numbers)
        if len(self.varying) + len(moved) > MAX_NUMBERS:
            why = f"more than {MAX_NUMBERS} numbers among the arguments changed"
            self.settle([*self.varying, *moved], why)
        elif moved:
            self._split({*self.varying, *moved})

    def settle(self, positions: Sequence[int], why: str) -> None:
        """These decide too much to vary."""
        self.constant.update(dict.fromkeys(positions, why))
        self._split(set(self.varying).difference(positions))

    def _split(self, varying: set[int]) -> None:
        self.varying = tuple(sorted(varying))
        self.fixed = tuple(i for i in range(len(self.last)) if i not in varying)

    def key(self, numbers: Sequence[Any]) -> Any:
        """What replaces the exact structure in the key of a signature."""
        return Varying((self.structure, self.varying, *[token(numbers[i]) for i in self.fixed]))


class Varying(tuple[Any, ...]):
    """The structure of arguments in which some numbers vary, which those are, and the values of the others."""

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


class NumberUses:
    """What is known about the numbers of one function, by structure of the arguments."""

    def __init__(self) -> None:
        self.known: dict[Any, NumberUse] = {}
        self.active = False  # does any number vary?
        self.unfit: str | None = None  # why none may
        self.places: dict[PlaceKey, Place] = {}  # where Python state has numbers that vary
        self.settled: dict[PlaceKey, str] = {}  # places that decide too much to vary, and why
        self.unkept: dict[Any, Entry] = {}  # recordings that found the state changed by themselves
        self.item_lines: set[tuple[str, int]] = set()  # where numbers in tensors are read that vary
        self.value_lines: set[Any] = set()  # where they are constants, because sizes are found
        self.beside_sizes = False  # did such constants change?

    @property
    def in_use(self) -> bool:
        """Does the function have numbers of any kind that vary?"""
        return bool(self.active or self.places or self.item_lines)

    def structure(self, arguments: Any, tensors: list[Any]) -> tuple[Any, list[Any]]:
        """The structure of the arguments for the key of a signature, and the numbers; fills ``tensors``."""
        numbers: list[Any] = []
        if self.active:
            loose = flatten(arguments, tensors, numbers)
            use = self.known.get(loose)
            if use is not None and use.varying:
                return use.key(numbers), numbers
            tensors.clear()
        return flatten(arguments, tensors), numbers

    def learn_call(self, key: Any, arguments: Any) -> tuple[Any, list[Any]]:
        """The key of a signature after noting the numbers of a call that is new; and those, if any of them vary."""
        structure, numbers = self.learn(arguments)
        return (*key[:3], structure, *key[4:]), numbers

    def learn(self, arguments: Any) -> tuple[Any, list[Any]]:
        """The structure for a call that is new, after noting its numbers; and the numbers if any of them vary."""
        tensors: list[Any] = []
        numbers: list[Any] = []
        loose = flatten(arguments, tensors, numbers)
        if numbers:
            use = self.known.get(loose)
            if use is None:
                if len(self.known) >= MAX_FORMS:
                    self.known.pop(next(iter(self.known)))
                use = self.known[loose] = NumberUse(loose, numbers)
            if self.unfit is None:
                use.learn(numbers)
            if use.varying:
                self.active = True
                return use.key(numbers), numbers
        return flatten(arguments, []), []

    def learn_places(self, moved: Iterable[Place]) -> bool:
        """These places had another number than recorded; True when any of them varies from now on."""
        count = len(self.places)
        for place in moved if self.unfit is None else ():
            if place.key not in self.settled and count < MAX_PLACES:
                self.places.setdefault(place.key, place)
        return len(self.places) > count

    def learn_state(self, key: Any, variants: Sequence[Entry]) -> Entry | None:
        """A call met Python state of its own: the recording that one for any numbers will replace, if any."""
        unkept = self.unkept.pop(key, None)
        known = [*reversed(variants), *([] if unkept is None else [unkept])]
        for entry in known:
            if entry.guard is not None and self.learn_places(entry.guard.moved()):
                return entry
        return None

    def give_up(self, why: str) -> None:
        """No number of this function may vary."""
        self.unfit, self.active = why, False
        self.known.clear()
        self.item_lines.clear()
        self.places.clear()

    def set_apart(self, entry: Entry, path: Iterable[Any]) -> None:
        """A recorded run found a size beside numbers that vary: these are constants from now on."""
        self.beside_sizes = True
        structure = entry.key[3]
        use = self.known.get(structure.structure) if isinstance(structure, Varying) else None
        if use is not None:
            use.settle(range(len(use.last)), APART)
        for key in entry.places:
            self.places.pop(key, None)
            self.settled[key] = APART
        self.value_lines.update(s.line for s in path if isinstance(s, ItemRead))
        self.item_lines -= self.value_lines

    def constants(self) -> list[str]:
        """Which numbers vary, but are constants of what is recorded, and why."""
        reasons = [] if self.unfit is None else [self.unfit]
        reasons += [APART] if self.beside_sizes else []
        reasons += self.settled.values()
        reasons += [why for use in self.known.values() for why in use.constant.values()]
        return list(dict.fromkeys(reasons))

    def missed(self, entry: Entry, branch: Any) -> bool:
        """A call left ``entry`` at a decision; True when the numbers it was taken from do not vary from now on."""
        guard = branch.segment.guard
        if isinstance(guard, Guard) and is_number(guard.expected):
            if entry.root.finds_sizes:
                self.beside_sizes = True
            elif self.unfit is None:  # the other numbers read on these paths will change as well
                guards = [segment.guard for segment in entry.root.segments()]
                numbers = [g for g in guards if isinstance(g, Guard) and is_number(g.expected)]
                lines = {g.line for g in numbers if g.line is not None}
                self.item_lines.update(lines - self.value_lines)
            return False
        if not isinstance(guard, NumberGuard):
            return False
        decided = [s for s in entry.root.segments() if isinstance(s.guard, NumberGuard)]
        decisions = sum(len(s.children) - 1 for s in decided)
        if decisions < PATIENCE + entry.replays // CALLS_PER_DECISION:
            return False
        return self._settle(entry, [*guard.value.sources()])

    def _settle(self, entry: Entry, sources: Sequence[Number]) -> bool:
        """These numbers decide too much to vary; False when there are none that could be constants."""
        why = "decides what is computed at almost every call"
        structure = entry.key[3]
        use = self.known.get(structure.structure) if isinstance(structure, Varying) else None
        positions = [s.at for s in sources if s.name == "argument"]
        if use is not None and positions:
            names = ", ".join(entry.number_names[i] for i in positions)
            use.settle(positions, f"{names} {why}")
        places = [s.at for s in sources if s.name == "place"]
        for place in places:
            self.places.pop(place.key, None)
            self.settled[place.key] = f"{place.name} {why}"
        return bool(positions or places)
