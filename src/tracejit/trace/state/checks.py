"""Single facts about Python state: each prints the condition under which it no longer holds, and says what changed.

A fact is checked on the object that was read while recording (a namespace, a list, a cell), which it holds; no path is
walked again. ``broken`` gives the condition as source for the generated guard, ``difference`` the same in words.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Collection, Container
from dataclasses import dataclass
from keyword import iskeyword
from operator import is_
from types import MemberDescriptorType
from typing import Any

from .values import (
    MISSING,
    buffer_contents,
    cell_content,
    describe,
    is_value,
    items_of,
    same,
    token,
    was_and_is,
)

Bind = Callable[[Any], str]


@dataclass(eq=False, slots=True)
class Check(ABC):
    """One fact about ``holder``; ``name`` is what users call the place it is about."""

    holder: Any
    name: str

    @abstractmethod
    def broken(self, bind: Bind) -> str:
        """A Python condition that is true (or fails) when the fact no longer holds."""

    @abstractmethod
    def difference(self) -> str | None:
        """What changed, or None."""

    def moved(self) -> list[Read] | None:
        """Reads that give something else now, if these are all that changed; None when more changed."""
        return [] if self.difference() is None else None


@dataclass(eq=False, slots=True)
class Read(Check):
    """Reading ``key`` from ``holder`` gives ``expected`` (``MISSING``: gives nothing)."""

    key: Any
    expected: Any

    @abstractmethod
    def source(self, bind: Bind) -> str:
        """The expression that reads."""

    @abstractmethod
    def current(self) -> Any:
        """What reading gives now."""

    def broken(self, bind: Bind) -> str:
        """The condition as source."""
        source, expected = self.source(bind), bind(self.expected)
        if is_value(self.expected) and type(self.expected) not in (bool, type(None)):
            # One object is the rule; an equal one put in its place is compared properly.
            return f"(v := {source}) is not {expected} and not {bind(same)}(v, {expected})"
        return f"{source} is not {expected}"

    def difference(self) -> str | None:
        """What changed, or None."""
        now = self.current()
        return None if same(now, self.expected) else f"{self.name} {was_and_is(self.expected, now)}"

    def moved(self) -> list[Read] | None:
        """This one, if it reads something else now."""
        return [] if same(self.current(), self.expected) else [self]

    @property
    def owner(self) -> Any:
        """The module of whose attributes, parameters or buffers this is one."""
        return None

    @property
    def writable(self) -> bool:
        """Can something else be put in this place without running code of the user's?"""
        return False


class Item(Read):
    """An item of a dict or list."""

    __slots__ = ()

    def source(self, bind: Bind) -> str:
        """The expression that reads."""
        key = repr(self.key) if type(self.key) in (str, int) else bind(self.key)
        return f"{bind(self.holder)}[{key}]"

    def broken(self, bind: Bind) -> str:
        """The condition as source."""
        if self.expected is MISSING:
            return f"{self.key!r} in {bind(self.holder)}"
        return Read.broken(self, bind)

    def current(self) -> Any:
        """What reading gives now."""
        try:
            return self.holder[self.key]
        except LookupError:
            return MISSING

    @property
    def writable(self) -> bool:
        """Of dicts and lists, not of the namespaces of classes."""
        return isinstance(self.holder, (dict, list, deque))


class Entry(Item):
    """An item of a dict whose class may do other things in ``[]``, or that may lack the key."""

    __slots__ = ()

    def source(self, bind: Bind) -> str:
        """The expression that reads."""
        return f"{bind(dict.get)}({bind(self.holder)}, {bind(self.key)}, {bind(MISSING)})"

    def current(self) -> Any:
        """What reading gives now."""
        return dict.get(self.holder, self.key, MISSING)


class Element(Item):
    """An item of a list or deque whose class may do other things in ``[]``."""

    __slots__ = ()

    @property
    def _base(self) -> Any:
        return deque if isinstance(self.holder, deque) else list

    def source(self, bind: Bind) -> str:
        """The expression that reads."""
        return f"{bind(self._base.__getitem__)}({bind(self.holder)}, {self.key})"

    def current(self) -> Any:
        """What reading gives now."""
        base = self._base
        if self.key >= base.__len__(self.holder):
            return MISSING
        return base.__getitem__(self.holder, self.key)


class Attribute(Read):
    """An attribute that is read without running code of the user's: a slot, or one of a function or class."""

    __slots__ = ()

    def source(self, bind: Bind) -> str:
        """The expression that reads."""
        if self.expected is MISSING or iskeyword(self.key):
            return f"{bind(getattr)}({bind(self.holder)}, {self.key!r}, {bind(MISSING)})"
        return f"{bind(self.holder)}.{self.key}"

    def current(self) -> Any:
        """What reading gives now."""
        return getattr(self.holder, self.key, MISSING)

    @property
    def writable(self) -> bool:
        """Slots are, and what a class holds itself."""
        kind: Any = type(self.holder)
        if isinstance(self.holder, type):
            plain = kind.__setattr__ is type.__setattr__ and kind.__delattr__ is type.__delattr__
            return plain and self.key in vars(self.holder)
        member = getattr(kind, self.key, None)  # of a class of C, one may take true numbers alone
        return isinstance(member, MemberDescriptorType) and "__slots__" in vars(member.__objclass__)


class Cell(Read):
    """The content of a closure cell, which may be unset."""

    __slots__ = ()

    def source(self, bind: Bind) -> str:
        """The expression that reads."""
        if self.expected is MISSING:
            return f"{bind(cell_content)}({bind(self.holder)})"
        return f"{bind(self.holder)}.cell_contents"

    def current(self) -> Any:
        """What reading gives now."""
        return cell_content(self.holder)

    @property
    def writable(self) -> bool:
        """Always."""
        return True


@dataclass(eq=False, slots=True)
class Kind(Check):
    """The object still has its class."""

    cls: type

    def broken(self, bind: Bind) -> str:
        """The condition as source."""
        return f"{bind(type)}({bind(self.holder)}) is not {bind(self.cls)}"

    def difference(self) -> str | None:
        """What changed, or None."""
        now = type(self.holder)
        return None if now is self.cls else f"the class of {self.name} {was_and_is(self.cls, now)}"


@dataclass(eq=False, slots=True)
class Size(Check):
    """A container still has as many items; ``measure`` is ``len``, or the built-in one under an overridden ``len``."""

    measure: Callable[[Any], int]
    size: int

    def broken(self, bind: Bind) -> str:
        """The condition as source."""
        return f"{bind(self.measure)}({bind(self.holder)}) != {self.size}"

    def difference(self) -> str | None:
        """What changed, or None."""
        now = self.measure(self.holder)
        return (
            None if now == self.size else f"the length of {self.name} {was_and_is(self.size, now)}"
        )


@dataclass(eq=False, slots=True)
class Keys(Check):
    """A dict still has the same keys in the same order."""

    iterate: Callable[[Any], Any]
    keys: list[Any]

    def broken(self, bind: Bind) -> str:
        """The condition as source."""
        if all(type(key) is str for key in self.keys) and type(self.holder) is dict:
            return f"{bind(list)}({bind(self.holder)}) != {bind(self.keys)}"
        return f"{bind(self.difference)}() is not None"

    def difference(self) -> str | None:
        """What changed, or None."""
        now = list(self.iterate(self.holder))
        if same(tuple(now), tuple(self.keys)):
            return None
        before, after = {token(k): k for k in self.keys}, {token(k): k for k in now}
        gone = [key for mark, key in before.items() if mark not in after]
        new = [key for mark, key in after.items() if mark not in before]
        if gone:
            return f"{self.name} has lost key {describe(gone[0])}"
        return (
            f"{self.name} has the new key {describe(new[0])}"
            if new
            else f"the keys of {self.name} changed their order"
        )


@dataclass(eq=False, slots=True)
class Members(Check):
    """A set still has the same members, in the same order: code that goes through them sees it."""

    members: tuple[Any, ...]

    def broken(self, bind: Bind) -> str:
        """The condition as source."""
        return f"{bind(self.difference)}() is not None"

    def difference(self) -> str | None:
        """What changed, or None."""
        now = (*items_of(self.holder),)
        # A set that was not touched lists the same objects in the same order.
        if len(now) == len(self.members) and all(map(is_, now, self.members)):
            return None
        equal = [token(m) for m in now] == [token(m) for m in self.members]
        return None if equal else f"the members of {self.name} changed"


@dataclass(eq=False, slots=True)
class Contents(Check):
    """A small buffer (NumPy array, bytearray, array) still has the same type, shape and bytes."""

    contents: tuple[Any, ...]

    def broken(self, bind: Bind) -> str:
        """The condition as source."""
        return f"{bind(buffer_contents)}({bind(self.holder)}) != {bind(self.contents)}"

    def difference(self) -> str | None:
        """What changed, or None."""
        equal = buffer_contents(self.holder) == self.contents
        return None if equal else f"the values of {self.name} changed"


#: As many names are compared one by one, which takes about 20 ns each.
FEW_NAMES = 16


def _latest(holder: dict[str, Any]) -> str | None:
    return next(reversed(holder), None)


class NewNames(Check):
    """A namespace got no new name that the code can read (an attribute in front of a method, an optional one).

    Names that nobody reads, and those ``kept`` by the package, may come and go: then it is remembered which there are.
    Of many names, the number and the latest are compared.
    """

    __slots__ = ("few", "known", "names", "seen")

    def __init__(
        self,
        holder: dict[str, Any],
        name: str,
        names: Container[str],
        held: Collection[Any] = (),
        kept: Collection[str] = (),
    ) -> None:
        super().__init__(holder, name)
        self.names = names
        found = (k for number, k in held if number == id(holder))
        self.known = frozenset(holder).union(kept, found)
        self.few = len(holder) <= FEW_NAMES
        self.seen: list[Any] = []
        self._look()

    def _look(self) -> None:
        holder = self.holder
        self.seen[:] = [frozenset(holder) if self.few else None, len(holder), _latest(holder)]

    def broken(self, bind: Bind) -> str:
        """The condition as source."""
        holder, seen, again = bind(self.holder), bind(self.seen), bind(self.difference)
        if self.few:
            return f"{holder}.keys() != {seen}[0] and {again}() is not None"
        return (
            f"({bind(len)}({holder}) != {seen}[1] or {bind(_latest)}({holder}) is not {seen}[2])"
            f" and {again}() is not None"
        )

    def difference(self) -> str | None:
        """What changed, or None."""
        for key in tuple(self.holder):
            if key not in self.known and key in self.names:
                return f"{self.name} has the new attribute {key!r}"
        self._look()
        return None

    def moved(self) -> list[Read] | None:
        """The new names."""
        new = [key for key in self.holder if key not in self.known and key in self.names]
        return [Item(self.holder, f"attribute {k!r} of {self.name}", k, MISSING) for k in new]
