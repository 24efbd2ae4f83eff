"""Which numbers among the arguments of a function are constants, and which vary from call to call.

A number is a constant until a call brings another one in its place. From then on it varies: recordings take any value,
and one signature serves all of them. An int that turns out to be an index or a bound of a slice becomes a *size*: calls
hand it over as an element of a tensor of their own, and it is like a size that a run tells (`found_sizes`). Where the
recorded function turns out to decide by a number again and again (a count of rounds), it becomes a constant once more,
for good.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from ...ir.graph import Guard
from ...tensor import Tensor
from ..replay.held import Holding, arguments_in, beside, holds_tensors, is_size, told_apart
from ..signature import call_key, flatten, is_number, leaf_names
from ..state.ran_codes import RanCodes
from ..state.values import token
from .numbers import ItemRead, Number, NumberGuard
from .places import MAX_PLACES, Place, PlaceKey

if TYPE_CHECKING:
    from ..entry import Entry
    from ..state.checks import Read
    from ..state.state import StateGuard

#: Guards of paths that are long.
LONG_PATHS = 128
#: Unseen decisions on a number that are always allowed, and one more for each so many calls that were served.
PATIENCE = 3
CALLS_PER_DECISION = 8
#: As many for numbers that the calls themselves count: as constants they would be others at every call.
COUNTING_PATIENCE = 16
MAX_FORMS = 256
#: Values of a float that is a constant because it decides much; with more it would be another one at every call.
MAX_VALUES = 8
#: Most numbers among the arguments of one call that may vary.
MAX_NUMBERS = 64
#: The name of the tensor in which a call hands over its sizes.
SIZES = "sizes"
DECIDES = "decides what is computed at almost every call"


class NumberUse:
    """The numbers in one structure of arguments."""

    def __init__(self, structure: Any, numbers: Sequence[Any]) -> None:
        self.structure = structure
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

    def key(self, numbers: Sequence[Any]) -> Varying:
        """What replaces the exact structure in the key of a signature."""
        sizes, fixed = self.sizes, self.fixed
        if not all(is_size(numbers[i]) for i in sizes):
            sizes, fixed = (), (*fixed, *sizes)
        constants = [token(numbers[i]) for i in fixed]
        return Varying((self.structure, self.varying, sizes, *constants))

    def whole_key(
        self, numbers: Sequence[Any], places: tuple[Place, ...], tensors: list[Tensor]
    ) -> Any:
        """The same for a call that reads ``places`` too; all but the arguments is appended to ``tensors``."""
        key = self.key(numbers)
        return beside(key, places, tensors, [numbers[i] for i in key.sizes])


def _counted(entry: Entry, sources: Sequence[Number]) -> bool:
    """Do recorded runs leave other numbers in the places that all of these are read from?"""
    leaves = [s.leaf for s in entry.root.segments() if s.leaf is not None]
    stored = {place.key for leaf in leaves for place, _ in leaf.recording.stores}
    keys = [s.at.key if s.name == "place" else (s.name, s.at) for s in sources]
    return stored.issuperset(keys)


def _are_replaced(read: Read) -> bool:
    """Were there tensors, or a list or dict for some, and are there others now?"""
    before, now = read.expected, read.current()
    held = holds_tensors(before), holds_tensors(now)
    return all(held) or (any(held) and type(before) is type(now) and type(now) in (list, dict))


class Varying(tuple[Any, ...]):
    """The structure of arguments, which numbers vary in it, which are sizes, and the values of the others."""

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


def number_positions(
    function: Callable[..., Any], key: Any, args: Any, kwargs: Any
) -> tuple[tuple[int, ...], tuple[int, ...], list[str]]:
    """Which numbers among the arguments vary and which are sizes; and, if any, the names of all numbers."""
    structure = arguments_in(key[3])
    if not isinstance(structure, Varying) or not (structure.varying or structure.sizes):
        return (), (), []
    names = leaf_names(function, args, kwargs, is_number)
    return structure.varying, structure.sizes, names


class NumberUses:
    """What is known about the numbers of one function, by structure of the arguments."""

    def __init__(self) -> None:
        self.known: dict[Any, NumberUse] = {}
        self.active = False  # does any number vary?
        self.unfit: str | None = None  # why none may
        self.places: dict[PlaceKey, Place] = {}  # where Python state has numbers that vary
        self.settled: dict[PlaceKey, str] = {}  # places that decide too much to vary, and why
        self.held = Holding()  # where Python state has what the function makes
        self.unkept: dict[Any, Entry] = {}  # recordings that found the state changed by themselves
        self.item_lines: set[tuple[str, int]] = set()  # where numbers in tensors are read that vary
        self.size_lines: set[Any] = set()  # where they are sizes, because they index
        self.more_lines: set[Any] = set()  # where they were taken for sizes and are more than that
        self.value_lists: set[Any] = set()  # where lists of ints are read one by one
        self.lists_known = 0  # how many of these lines the latest recording knew
        self.ran = RanCodes()  # the code its calls run
        self.changes_arguments = False  # do its calls leave numbers in their arguments?

    @property
    def in_use(self) -> bool:
        """Does the function have numbers of any kind that vary?"""
        lines = self.item_lines or self.size_lines
        return bool(self.active or self.places or lines or self.held.sizes)

    def structure(self, arguments: Any, tensors: list[Any]) -> tuple[Any, list[Any]]:
        """The structure of the arguments for the key of a signature, and the numbers; fills ``tensors``."""
        numbers: list[Any] = []
        places: tuple[Place, ...] = ()
        if self.active or self.held.known:
            loose = flatten(arguments, tensors, numbers)
            use, places = self.known.get(loose), self.held.places(loose)
            if use is not None and (use.varying or use.sizes):
                return use.whole_key(numbers, places, tensors), numbers
            tensors.clear()
        return beside(flatten(arguments, tensors), places, tensors), numbers

    def learn_call(self, key: Any, tensors: list[Any], arguments: Any) -> tuple[Any, list[Any]]:
        """The key of a signature after noting the numbers of a call that is new; and those, if any of them vary.

        ``tensors`` become those of the key.
        """
        tensors.clear()
        if arguments_in(key[3]) is None:  # there are only tensors
            tensors += arguments[0]
            structure, numbers = beside(None, self.held.places(len(tensors)), tensors), list[Any]()
        else:
            structure, numbers = self.learn(arguments, tensors)
        return call_key(key[:3], structure, tensors), numbers

    def learn(self, arguments: Any, tensors: list[Any]) -> tuple[Any, list[Any]]:
        """The structure for a call that is new, after noting its numbers; and the numbers if any of them vary."""
        numbers: list[Any] = []
        loose = flatten(arguments, tensors, numbers)
        places = self.held.places(loose)
        if numbers:
            use = self.known.get(loose)
            if use is None:
                if len(self.known) >= MAX_FORMS:
                    self.known.pop(next(iter(self.known)))
                use = self.known[loose] = NumberUse(loose, numbers)
            if self.unfit is None:
                use.learn(numbers)
            if use.varying or use.sizes:
                self.active = True
                return use.whole_key(numbers, places, tensors), numbers
        return beside(flatten(arguments, []), places, tensors), []

    def learn_places(self, moved: Iterable[Place]) -> bool:
        """These places had another number than recorded; True when any of them varies from now on."""
        learned: set[PlaceKey] = set()
        for place in moved if self.unfit is None else ():
            known = self.places.get(place.key)
            if place.key in self.settled or (known is not None and known.kind is place.kind):
                continue
            if known is None and len(self.places) >= MAX_PLACES:
                oldest = next(iter(self.places))  # in what the program may have replaced since
                if oldest in learned:
                    continue
                del self.places[oldest]
            self.places[place.key] = place  # instead of one for numbers of the other type
            learned.add(place.key)
        return bool(learned)

    def learn_run(self, form: Any, guard: StateGuard, alike: Sequence[Read]) -> None:
        """A recorded run of a call of this form changed the Python state, or stored what was there: ``alike``."""
        alike = [read for read in alike if id(read.holder) not in guard.tools]
        found = told_apart([*guard.changes(), *alike])
        if found is not None:
            numbers, others = found
            self.learn_places(numbers)
            self.held.learn(form, others, guard.names)

    def learn_state(self, key: Any, variants: Sequence[Entry]) -> Entry | None:
        """A call met Python state of its own: the recording that one for any numbers will replace, if any."""
        unkept = self.unkept.pop(key, None)
        known = [*reversed(variants), *([] if unkept is None else [unkept])]
        for entry in known:
            if entry.guard is not None and self.learn_places(entry.guard.moved()):
                return entry
        return None

    def learn_replaced(self, key: Any, variants: Sequence[Entry]) -> bool:
        """A call met other tensors in places of the Python state; True when calls with its ``key`` read more of these.

        The program replaces them between calls: masks, batches and features that are handed over in an attribute.
        """
        unkept = self.unkept.get(key)
        for entry in [*reversed(variants), *([] if unkept is None else [unkept])]:
            found = None if entry.guard is None else told_apart(entry.guard.changes())
            if found is None or entry.guard is None:
                continue
            numbers, others = found
            if any(id(read.holder) in entry.guard.spared for read in others):
                continue
            if others and all(map(_are_replaced, others)):
                self.learn_places(numbers)
                return self.held.learn(entry.form, others, entry.guard.names)
        return False

    def give_up(self, why: str) -> None:
        """No number of this function may vary."""
        self.unfit, self.active = why, False
        self.known.clear()
        self.item_lines.clear()
        self.size_lines.clear()
        self.places.clear()

    def constants(self) -> list[str]:
        """Which numbers vary, but are constants of what is recorded, and why."""
        reasons = [] if self.unfit is None else [self.unfit]
        reasons += self.settled.values()
        reasons += [why for use in self.known.values() for why in use.constant.values()]
        return list(dict.fromkeys(reasons))

    def missed(self, entry: Entry, branch: Any) -> bool:
        """A call left ``entry`` at a decision; True when the numbers it was taken from do not vary from now on."""
        guard = branch.segment.guard
        if isinstance(guard, Guard) and is_number(guard.expected):
            if self.unfit is None:  # the other numbers read on these paths will change as well
                guards = [segment.guard for segment in entry.root.segments()]
                numbers = [g for g in guards if isinstance(g, Guard) and is_number(g.expected)]
                lines = {g.line for g in numbers if g.line is not None}
                self.item_lines.update(lines)
            return False
        if branch.segment.choices is not None and (entry.sizes or entry.sized or self.size_lines):
            return self._decides(entry, branch)
        if not isinstance(guard, NumberGuard):
            return False
        if self._index(entry, guard):
            return True
        decided = [s for s in entry.root.segments() if isinstance(s.guard, NumberGuard)]
        decisions = sum(len(s.children) - 1 for s in decided)
        sources = [*guard.value.sources()]
        patience = COUNTING_PATIENCE if _counted(entry, sources) else PATIENCE
        if decisions < patience + entry.replays // CALLS_PER_DECISION:
            return False
        return self._settle(entry, sources)

    def _use_of(self, entry: Entry) -> NumberUse | None:
        """What is known about the numbers of the calls that ``entry`` serves."""
        structure = arguments_in(entry.key[3])
        return self.known.get(structure.structure) if isinstance(structure, Varying) else None

    def _index(self, entry: Entry, guard: NumberGuard) -> bool:
        """Did Python see ints of arguments or state as they are, as for an index? Then they are sizes from now on."""
        use, sources = self._use_of(entry), [*guard.value.sources()]
        if type(guard.expected) is not int:
            return False
        if all(s.name == "item" and s.kind is int for s in sources):
            return self._items_index(entry, sources)
        if not all(s.name in ("argument", "place") and s.kind is int for s in sources):
            return False
        arguments = [s.at for s in sources if s.name == "argument"]
        if arguments and use is not None:
            use.take_for_sizes(arguments)
        found = [s.at for s in sources if s.name == "place"]
        for place in found:
            self.places.pop(place.key, None)
        if found:
            self.held.take_for_sizes(entry.form, found)
        return True

    def _items_index(self, entry: Entry, sources: Sequence[Number]) -> bool:
        """The same for ints that are read from tensors, on all lines of these paths, as calls come to each.

        Of long paths all that is read has to index: else there are as many decisions, and each path is one of its own.
        """
        guards = [s.guard for s in entry.root.segments()]
        numbers = [g for g in guards if isinstance(g, NumberGuard) and type(g.expected) is int]
        seen = {*sources}.union(*(g.value.sources() for g in numbers))
        reads = [g for g in guards if isinstance(g, ItemRead)]
        indices = {g.line for g in reads if g.number in seen} - self.more_lines - {None}
        if len(guards) > LONG_PATHS and any(g.line not in indices for g in reads):
            return False
        self.size_lines |= indices
        self.item_lines -= indices
        return bool(indices)

    def _decides(self, entry: Entry, branch: Any) -> bool:
        """A decision about sizes among the arguments came out in a new way: do they decide too much?"""
        chosen = [s.choices for s in entry.root.segments() if s.choices is not None]
        if sum(len(x) - 1 for x in chosen) < PATIENCE + entry.replays // CALLS_PER_DECISION:
            return False
        return self.without_sizes(entry, DECIDES)

    def without_sizes(self, entry: Entry, why: str) -> bool:
        """The numbers that ``entry`` takes for sizes are constants from now on; False when there are none."""
        use = self._use_of(entry)
        if use is not None and entry.sizes:
            names = ", ".join(entry.number_names[i] for i in entry.sizes)
            use.settle(entry.sizes, f"{names}: {why}")
        self.more_lines |= self.size_lines
        lines = bool(self.size_lines)
        self.size_lines.clear()
        self.held.drop(entry.form, entry.sized)
        self.settled.update((place.key, f"{place.name}: {why}") for place in entry.sized)
        known, self.lists_known = self.lists_known, len(self.value_lists)
        return bool(lines or entry.sizes or entry.sized or self.lists_known > known)

    def _settle(self, entry: Entry, sources: Sequence[Number]) -> bool:
        """These numbers decide too much to vary; False when there are none that could be constants."""
        why, use = DECIDES, self._use_of(entry)
        many: set[int] = set() if use is None else use.many
        positions = [s.at for s in sources if s.name == "argument" and s.at not in many]
        if use is not None and positions:
            names = ", ".join(entry.number_names[i] for i in positions)
            use.settle(positions, f"{names} {why}")
        places = [s.at for s in sources if s.name == "place"]
        for place in places:
            self.places.pop(place.key, None)
            self.settled[place.key] = f"{place.name} {why}"
        return bool(positions or places)
