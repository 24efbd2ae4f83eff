"""Lists in the walk to which the code only appends: what they hold does not matter, what is appended is a result.

By which names the code reaches a list, and what else it does under these names, is known when all code has been
reached; so it is for lists in a dict of which the code reads nothing but items (``log["loss"]``, ``log[k]``).
Lists wait until then; one that is found in any other way as well is compared like every list. Where only one place
leads to a list, another list may lie there at another call: one that the code does not know from elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ...bytecode import ANY_KEY, item_name
from ..numbers.plain_parts import plain_parts
from .checks import Bind, Check, Read
from .reads import Names
from .values import describe


class ItemOf(NamedTuple):
    """By which key a dict, told by its identity, has a list."""

    holder: int
    key: str


class Fixed(str):
    """A name by which a list is found whose place is compared with others as a whole."""

    __slots__ = ()


class AppendedLists:
    """The lists that were met under names, and the names of each."""

    def __init__(self) -> None:
        self.wanted = False  # does whoever walks know what to do with them?
        self.waiting: dict[int, tuple[Any, str, int]] = {}
        self.keys: dict[int, set[str | ItemOf]] = {}
        self.dicts: dict[int, set[str]] = {}  # by which names dicts were found
        self.fixed: set[int] = set()
        self.found: tuple[Appended, ...] = ()

    def note(self, value: Any, key: Any) -> None:
        """``value`` was found under ``key``, not necessarily for the first time."""
        if isinstance(value, dict):
            self.dicts.setdefault(id(value), set()).add(key if isinstance(key, str) else "")

    def defer(self, value: Any, name: str, depth: int, key: Any) -> bool:
        """Can it wait what ``value``, found under ``key``, holds? Asked again for each name it has."""
        if not self.wanted or type(value) is not list or not isinstance(key, (str, ItemOf)):
            return False
        if isinstance(key, Fixed):
            self.fixed.add(id(value))
        self.waiting.setdefault(id(value), (value, name, depth))
        self.keys.setdefault(id(value), set()).add(key)
        return True

    def settle(self, names: Names, reach: Callable[[Any, str, int], None]) -> None:
        """Go on at the lists with which the code does more than to append."""
        for number, found in list(self.waiting.items()):
            if not all(self._only_appends(names, key) for key in self.keys[number]):
                del self.waiting[number]
                reach(*found)

    def _only_appends(self, names: Names, key: str | ItemOf) -> bool:
        """Does the code no more than to append to what it finds under ``key``?"""
        if isinstance(key, str):
            item = item_name(key, ANY_KEY)
            return item not in names.appended | names.otherwise and names.only_appends(key)
        kept = names.otherwise | names.stored
        found = self.dicts.get(key.holder, set())
        return kept.isdisjoint(found) and all(
            names.only_appends(item_name(name, key.key), item_name(name, ANY_KEY)) for name in found
        )

    def open(self, checks: Sequence[Check], seen: dict[int, Any], names: Names) -> list[Check]:
        """``checks`` that are content with other lists in places where that does not matter."""
        left = {n: found for n, found in self.waiting.items() if n not in seen}
        where: dict[int, list[int]] = {n: [] for n in left}
        for position, check in enumerate(checks):
            if isinstance(check, Read) and id(check.expected) in left:
                where[id(check.expected)].append(position)
        result, opened, targets = list(checks), list[OpenList](), list[Appended]()
        for number, (value, name, _) in left.items():
            place = None
            stays = number in self.fixed or not names.stored.isdisjoint(self.keys[number])
            if len(where[number]) == 1 and not stays:
                check = checks[where[number][0]]
                assert isinstance(check, Read)
                place = OpenList(check.holder, check.name, check, opened, value)
                result[where[number][0]] = place
                opened.append(place)
            targets.append(Appended(value, name, place))
            seen[number] = value
        known = {id(x): x for x in seen.values() if isinstance(x, list)}
        for place in opened:
            place.known = known
        self.found = tuple(targets)
        return result


@dataclass(eq=False, slots=True)
class OpenList(Check):
    """A place holds the list that was there last, or another one that the code does not know."""

    place: Read
    others: list[OpenList]
    latest: Any
    known: Mapping[int, Any] = field(default_factory=dict)

    @property
    def objects(self) -> tuple[Any, ...]:
        """What was there before the call."""
        return (self.latest,)

    def broken(self, bind: Bind) -> str:
        """The condition as source."""
        read = self.place.source(bind)
        return f"{read} is not {bind(self)}.latest and {bind(self.difference)}() is not None"

    def difference(self) -> str | None:
        """What changed, or None."""
        now = self.place.current()
        if now is self.latest:
            return None
        if type(now) is not list:
            return f"{self.name} was a list and is {describe(now)}"
        if id(now) in self.known or any(now is other.latest for other in self.others):
            return f"{self.name} is a list that was known by another name"
        self.latest = now
        return None


class Appended:
    """What a recorded run appends to a list: like a place of the Python state that the run leaves something in."""

    owner = None

    def __init__(self, target: list[Any], name: str, place: OpenList | None = None) -> None:
        self.fixed = target
        self.name = name
        self.place = place
        self.start = len(target)

    @property
    def target(self) -> list[Any]:
        """The list."""
        if self.place is None:
            return self.fixed
        found: list[Any] = self.place.place.current()
        return found

    @property
    def key(self) -> Any:
        """What two runs that append to one list have in common."""
        if self.place is None:
            return id(self.fixed), "append"
        return id(self.place.holder), self.place.place.key, "append"

    def begin(self) -> None:
        """A run starts."""
        self.start = len(self.target)

    @property
    def shrunk(self) -> bool:
        """Did somebody take away what was there before?"""
        return len(self.target) < self.start

    def read(self) -> list[Any]:
        """What was appended."""
        return self.target[self.start :]

    def put(self, value: list[Any]) -> None:
        """Replace what was appended."""
        self.target[self.start :] = value

    def put_plain(self) -> bool:
        """Append plain numbers in place of those that a recording knows more about; were there some?"""
        now = self.read()
        value = [plain_parts(x) for x in now]
        known = any(x is not y for x, y in zip(now, value, strict=True))
        if known:
            self.put(value)
        return known

    def store(self, value: list[Any]) -> None:
        """Append it, in a later call."""
        self.target.extend(value)
