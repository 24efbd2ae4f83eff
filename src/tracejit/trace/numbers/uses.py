"""Which numbers among the arguments of a function are constants, and which vary from call to call.

A number is a constant until a call brings another one in its place. From then on it varies: recordings take any value,
and one signature serves all of them. An int that turns out to be an index or a bound of a slice becomes a *size*: calls
hand it over as an element of a tensor of their own, and it is like a size that a run tells (`found_sizes`). Where the
recorded function turns out to decide by a number again and again (a count of rounds), it becomes a constant once more,
for good.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...ir.graph import Guard
from ...tensor import Tensor
from ..replay.held import Holding, holds_tensors, told_apart
from ..replay.read_places import Held, arguments_in, beside, seen_in
from ..signature import call_key, flatten, is_number
from ..state.ran_codes import RanCodes
from .numbers import ItemRead, Number, NumberGuard
from .places import MAX_PLACES, Place, PlaceKey
from .structures import DECIDES, NumberUse, Varying, argument_holders, use_in, which_are_one

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
#: Remainders of divisions by numbers up to this one are decisions with few outcomes, whatever is done with them.
MAX_PERIOD = 8
#: The name of the tensor in which a call hands over its sizes.
SIZES = "sizes"


def _counted(entry: Entry, sources: Sequence[Number]) -> bool:
    """Do recorded runs leave other numbers in the places that all of these are read from?"""
    if all(s.name == "argument" and s.at >= entry.own_numbers for s in sources):
        return True  # in places that runs fill
    leaves = [s.leaf for s in entry.root.segments() if s.leaf is not None]
    stored = {place.key for leaf in leaves for place, _ in leaf.recording.stores}
    keys = [s.at.key if s.name == "place" else (s.name, s.at) for s in sources]
    return stored.issuperset(keys)


def _has_few_ways(guard: NumberGuard) -> bool:
    """Is it about the remainder of a division by a small number, as of a count by a period?"""
    value = guard.value
    period = value.operands[1] if value.name == "mod" else 0
    return type(period) is int and 0 < period <= MAX_PERIOD


def _are_replaced(read: Read) -> bool:
    """Were there tensors, or a list or dict for some, and are there others now?"""
    before, now = read.expected, read.current()
    held = holds_tensors(before), holds_tensors(now)
    return all(held) or (any(held) and type(before) is type(now) and type(now) in (list, dict))


class NumberUses:
    """What is known about the numbers of one function, by structure of the arguments."""

    def __init__(self) -> None:
        self.known: dict[Any, NumberUse] = {}
        self.within: dict[
            Any, NumberUse
        ] = {}  # of what lies in places that calls read like arguments
        self.active = False  # does any number vary?
        self.unfit: str | None = None  # why none may
        self.places: dict[PlaceKey, Place] = {}  # where Python state has numbers that vary
        self.holders: set[int] = set()  # identities of what holds these
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
                return self._whole_key(use, numbers, arguments, places, tensors)
            tensors.clear()
        return self._beside(flatten(arguments, tensors), arguments, places, tensors)

    def of_tensors(self, tensors: Sequence[Tensor], found: list[Tensor]) -> tuple[Any, list[Any]]:
        """The same for a call with nothing but ``tensors``; those that it reads in places are appended to ``found``."""
        return self._beside(None, tensors, self.held.places(len(tensors)), found)

    def _whole_key(
        self,
        use: NumberUse,
        numbers: Sequence[Any],
        arguments: Any,
        places: tuple[Place, ...],
        tensors: list[Tensor],
    ) -> tuple[Any, list[Any]]:
        """The structure for the key of a call with numbers that vary, which reads ``places`` too; and all numbers.

        All but the arguments is appended to ``tensors``.
        """
        key = use.key(numbers, arguments, self.holders)
        return self._beside(key, arguments, places, tensors, numbers)

    def _beside(
        self,
        structure: Any,
        arguments: Any,
        places: tuple[Place, ...],
        tensors: list[Tensor],
        numbers: Sequence[Any] = (),
    ) -> tuple[Any, list[Any]]:
        """The structure for the key of a call that reads ``places`` too, and all numbers: those there come last."""
        found = [*numbers]
        sizes = [found[i] for i in structure.sizes] if numbers else ()

        def within(shown: Any) -> tuple[Varying, Sequence[int]] | None:
            own: list[Any] = []
            use = self.within.get((places, flatten(shown, [], own)))
            if use is None or not (use.varying or use.sizes):
                return None
            if which_are_one((arguments, shown), self.holders):
                return None
            found.extend(own)
            key = use.key(own, shown)
            return key, [own[i] for i in key.sizes]

        return beside(structure, places, tensors, sizes, within if self.within else None), found

    def _learn_within(self, places: tuple[Place, ...]) -> tuple[Place, ...]:
        """A call that is new reads these places: note the numbers there."""
        numbers: list[Any] = []
        shown = (*seen_in(places),)
        loose = flatten(shown, [], numbers)
        if numbers and self.unfit is None:
            use_in(self.within, (places, loose), loose, numbers, holders=0).learn(numbers)
        return places

    def learn_call(self, key: Any, tensors: list[Any], arguments: Any) -> tuple[Any, list[Any]]:
        """The key of a signature after noting the numbers of a call that is new; and those, if any of them vary.

        ``tensors`` become those of the key.
        """
        tensors.clear()
        if arguments_in(key[3]) is None:  # there are only tensors
            tensors += arguments[0]
            self._learn_within(self.held.places(len(tensors)))
            structure, numbers = self.of_tensors(arguments[0], tensors)
        else:
            structure, numbers = self.learn(arguments, tensors)
        return call_key(key[:3], structure, tensors), numbers

    def learn(self, arguments: Any, tensors: list[Any]) -> tuple[Any, list[Any]]:
        """The structure for a call that is new, after noting its numbers; and the numbers if any of them vary."""
        numbers: list[Any] = []
        loose = flatten(arguments, tensors, numbers)
        places = self._learn_within(self.held.places(loose))
        if numbers:
            use = use_in(self.known, loose, loose, numbers, argument_holders(loose))
            if self.unfit is None:
                use.learn(numbers)
            if use.varying or use.sizes:
                self.active = True
                return self._whole_key(use, numbers, arguments, places, tensors)
        return self._beside(flatten(arguments, []), arguments, places, tensors)

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
            self.holders.add(id(place.check.holder))
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

    def learn_state(
        self, key: Any, entries: Mapping[Any, Sequence[Entry]], arguments: Any
    ) -> tuple[Entry | None, Any]:
        """A call met Python state of its own: the recording that one for any numbers will replace, and its new key."""
        unkept = self.unkept.pop(key, None)
        known = [*reversed(entries.get(key, ())), *([] if unkept is None else [unkept])]
        for entry in known:
            if entry.guard is not None and self.learn_places(entry.guard.moved()):
                return entry, self._told_again(key, arguments)
        return None, key

    def _told_again(self, key: Any, arguments: Any) -> Any:
        """The key of a call now that its arguments may be known to hold numbers that vary anyway."""
        held, known = key[3], arguments_in(key[3])
        if not isinstance(known, Varying):
            return key
        use = self.known[known.structure]
        told = known.among(which_are_one(arguments, self.holders) if use.holders else ())
        return (*key[:3], Held((told, *held[1:])) if held is not known else told, *key[4:])

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
        self.within.clear()
        self.item_lines.clear()
        self.size_lines.clear()
        self.places.clear()
        self.holders.clear()

    def constants(self) -> list[str]:
        """Which numbers vary, but are constants of what is recorded, and why."""
        reasons = [] if self.unfit is None else [self.unfit]
        reasons += self.settled.values()
        uses = (*self.known.values(), *self.within.values())
        reasons += [why for use in uses for why in use.constant.values()]
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
        if not isinstance(guard, NumberGuard) or _has_few_ways(guard):
            return False
        if self._index(entry, guard):
            return True
        parts = [(s, s.guard) for s in entry.root.segments()]
        decided = [s for s, g in parts if isinstance(g, NumberGuard) and not _has_few_ways(g)]
        decisions = sum(len(s.children) - 1 for s in decided)
        sources = [*guard.value.sources()]
        patience = COUNTING_PATIENCE if _counted(entry, sources) else PATIENCE
        if decisions < patience + entry.replays // CALLS_PER_DECISION:
            return False
        return self._settle(entry, sources)

    def asks_which_are_one(self, entry: Entry) -> bool:
        """Do the calls that ``entry`` serves have lists, dicts or objects with numbers that vary, which may be one?"""
        use = self._use_of(entry)
        return use is not None and use.asks_which_are_one(self.holders)

    def _use_of(self, entry: Entry) -> NumberUse | None:
        """What is known about the numbers of the calls that ``entry`` serves."""
        structure = arguments_in(entry.key[3])
        return self.known.get(structure.structure) if isinstance(structure, Varying) else None

    def _uses_of(
        self, entry: Entry, positions: Sequence[int]
    ) -> Iterator[tuple[NumberUse, list[int], list[str]]]:
        """What is known about these numbers of the calls that ``entry`` serves, their positions there, and names."""
        structure = entry.key[3]
        numbers = structure.numbers if isinstance(structure, Held) else None
        within = self.within.get((entry.held, numbers and numbers.structure))
        own = entry.own_numbers
        for use, first, end in (
            (self._use_of(entry), 0, own),
            (within, own, len(entry.number_names)),
        ):
            found = [i for i in positions if first <= i < end]
            if use is not None and found:
                yield use, [i - first for i in found], [entry.number_names[i] for i in found]

    def _index(self, entry: Entry, guard: NumberGuard) -> bool:
        """Did Python see ints of arguments or state as they are, as for an index? Then they are sizes from now on."""
        sources = [*guard.value.sources()]
        if type(guard.expected) is not int:
            return False
        if all(s.name == "item" and s.kind is int for s in sources):
            return self._items_index(entry, sources)
        if not all(s.name in ("argument", "place") and s.kind is int for s in sources):
            return False
        arguments = [s.at for s in sources if s.name == "argument"]
        for use, positions, _ in self._uses_of(entry, arguments):
            use.take_for_sizes(positions)
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
        for use, positions, names in self._uses_of(entry, entry.sizes):
            use.settle(positions, f"{', '.join(names)}: {why}")
        self.more_lines |= self.size_lines
        lines = bool(self.size_lines)
        self.size_lines.clear()
        self.held.drop(entry.form, entry.sized)
        self.settled.update((place.key, f"{place.name}: {why}") for place in entry.sized)
        known, self.lists_known = self.lists_known, len(self.value_lists)
        return bool(lines or entry.sizes or entry.sized or self.lists_known > known)

    def _settle(self, entry: Entry, sources: Sequence[Number]) -> bool:
        """These numbers decide too much to vary; False when there are none that could be constants."""
        settled = False
        for use, positions, names in self._uses_of(
            entry, [s.at for s in sources if s.name == "argument"]
        ):
            decide = [
                (i, name) for i, name in zip(positions, names, strict=True) if i not in use.many
            ]
            if decide:
                use.settle(
                    [i for i, _ in decide], f"{', '.join(name for _, name in decide)} {DECIDES}"
                )
                settled = True
        places = [s.at for s in sources if s.name == "place"]
        for place in places:
            self.places.pop(place.key, None)
            self.settled[place.key] = f"{place.name} {DECIDES}"
        return bool(settled or places)
