"""Words of memory that tell whether a Python object is what it was, and a native function that compares many of them.

CPython counts the changes of every dict and of every class (a word that is another one after each change and never
comes back), and functions, cells, lists and sets keep pointers to what they hold. Native code compares thousands of
such words in the time in which Python compares a few values. Where the words lie is checked in the running
interpreter, and where they lie elsewhere than expected there are none.
"""

from __future__ import annotations

import ctypes
import gc
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import CellType, FunctionType, MappingProxyType
from typing import Any

import numpy as np

from tracejit.runtime.launcher import _Address
from tracejit.runtime.native.guard_ir import MAX_RENEWED
from tracejit.runtime.native.native import native

_WHOLE = (1 << 64) - 1
_NEVER = _WHOLE  # no counter and no address
_KIND = 8  # of any object: its class
_CHANGES, _VALUES = 24, 40  # of a dict: the count of changes, and values that lie in an object
#: Where a function keeps what can be replaced.
FUNCTION_WORDS = {"__code__": 48, "__defaults__": 56, "__kwdefaults__": 64}
_CONTENT = 16  # of a cell
_SIZE, _ITEMS = 16, 24  # of a list: how many, and where they are
_SET = {"fill": 16, "used": 24, "mask": 32, "table": 40}
_MRO, _VERSION = 344, 384  # of a class: the order of its bases, and the count of changes
#: Do changes of an object's attributes count as those of its dict?
_COUNTS_ATTRIBUTES = sys.version_info < (3, 13)
#: Where objects of a class with this flag have their attributes; others say where.
_IS_MANAGED, _MANAGED = 1 << 4, -24


@dataclass(frozen=True, slots=True)
class Word:
    """A word of memory as it was found; ``counts``: it counts changes, and may be renewed after one."""

    address: int
    found: int
    counts: bool = False
    mask: int = _WHOLE

    @classmethod
    def at(cls, address: int, counts: bool = False, mask: int = _WHOLE) -> Word:
        """What lies at an address now."""
        return cls(address, ctypes.c_uint64.from_address(address).value & mask, counts, mask)


@dataclass
class Group:
    """Words that prove, as long as they stay, that ``holds()`` would return True; without words it is always asked."""

    holds: Callable[[], bool]
    words: Sequence[Word] = ()

    def renewed(self) -> bool:
        """Are these counters, to be read anew after a change that does not matter?"""
        return 0 < len(self.words) <= MAX_RENEWED and all(word.counts for word in self.words)


def dict_word(value: dict[Any, Any]) -> Word | None:
    """The count of changes of a dict; None where changes of attributes are not counted."""
    if not _COUNTS_ATTRIBUTES and Word.at(id(value) + _VALUES).found:
        return None
    return Word.at(id(value) + _CHANGES, counts=True)


def class_words(cls: type) -> list[Word]:
    """The counts of changes of a class with its bases, and of its metaclass."""
    return [
        Word.at(id(c) + _VERSION, counts=True, mask=(1 << 32) - 1)
        for c in (cls, type(cls))
        if c is not type
    ]


def class_counter(cls: type) -> memoryview | None:
    """The count of changes of a class with its bases as the one item of a view; None where it is not known.

    Zero is no count: the class has had no look-up since its last change, or too many changes.
    """
    if not ((3, 11) <= sys.version_info[:2] <= (3, 13)) or not _classes_known():
        return None
    return memoryview(ctypes.c_uint32.from_address(id(cls) + _VERSION)).cast("B").cast("I")


def function_word(function: FunctionType, key: str, expected: Any) -> Word | None:
    """The code or the defaults of a function."""
    return _pointer(id(function) + FUNCTION_WORDS[key], expected)


def cell_word(cell: CellType, expected: Any) -> Word | None:
    """The content of a closure variable."""
    return _pointer(id(cell) + _CONTENT, expected)


def kind_word(value: Any, cls: type) -> Word | None:
    """The class of an object."""
    return _pointer(id(value) + _KIND, cls)


def attribute_word(value: Any, namespace: dict[str, Any]) -> Word | None:
    """Where an object has its attributes."""
    offset = _MANAGED if type(value).__flags__ & _IS_MANAGED else type(value).__dictoffset__
    return _pointer(id(value) + offset, namespace) if offset > 0 or offset == _MANAGED else None


def list_words(value: list[Any], items: Sequence[Any]) -> list[Word]:
    """A list and the objects in it, which somebody has to keep alive; none where it holds others."""
    where = Word.at(id(value) + _ITEMS)
    head = [Word.at(id(value) + _SIZE), where]
    if head[0].found != len(items):
        return []
    # In this order: where the list is another one, nothing behind it is read.
    found = [_pointer(where.found + 8 * i, item) for i, item in enumerate(items)]
    return head + [word for word in found if word is not None] if all(found) else []


def set_words(value: set[Any], most: int) -> list[Word]:
    """A set and its members, which somebody has to keep alive; none where its table is longer than ``most``."""
    head = {key: Word.at(id(value) + offset) for key, offset in _SET.items()}
    table, last = head["table"].found, head["mask"].found
    if head["used"].found != len(value) or last >= most or table == 0:
        return []
    slots = [Word.at(table + 16 * slot) for slot in range(last + 1)]
    members = {id(member) for member in value}
    if sum(slot.found in members for slot in slots) != len(members):
        return []
    return [*head.values(), *slots]


def dict_behind(proxy: MappingProxyType[Any, Any]) -> dict[Any, Any] | None:
    """The dict that a read-only view shows."""
    found = gc.get_referents(proxy)
    return found[0] if len(found) == 1 and isinstance(found[0], dict) else None


def _pointer(address: int, expected: Any) -> Word | None:
    """A word that points to an object; nothing stands for None too."""
    now = Word.at(address)
    return now if now.found == id(expected) or (now.found == 0 and expected is None) else None


# --- comparing them -------------------------------------------------------------------------------------------------


def comparison(groups: Sequence[Group]) -> Callable[[], bool]:
    """A native function without arguments: True while, of every group, the words stay or ``holds`` does.

    Objects that words point to must be kept alive by ``holds``.
    """
    table: list[int] = [len(groups), id(True)]
    for group in groups:
        table += [len(group.words), id(group.holds), int(group.renewed())]
        for word in group.words:
            expected = _NEVER if word.counts and word.found == 0 else word.found
            table += [word.address, expected, word.mask]
    words = np.array(table, dtype=np.uint64)
    address = _Address(words.ctypes.data)
    address.words, address.kept = words, [group.holds for group in groups]
    module = native()
    return module.bind(module.unchanged, address)  # type: ignore[return-value]


@lru_cache(maxsize=1)
def known() -> bool:
    """Do the words lie where they are expected in this interpreter?

    >>> known() in (True, False)
    True
    """
    if not ((3, 11) <= sys.version_info[:2] <= (3, 13)):
        return False
    try:
        objects = native().knows_objects
    except Exception:  # noqa: BLE001  (the first compiled call reports it)
        return False
    return objects and _dicts_known() and _holders_known() and _classes_known()


def _dicts_known() -> bool:
    probe: dict[Any, Any] = {}
    seen = [dict_word(probe)]
    for change in (
        lambda: probe.update(a=1),
        lambda: probe.__setitem__("a", 2),
        lambda: probe.__setitem__(3, 4),
        lambda: probe.pop("a"),
        probe.clear,
    ):
        change()
        seen.append(dict_word(probe))
    return None not in seen and len({*seen}) == 6 and dict_word(probe) == seen[-1]


def _holders_known() -> bool:
    def function(a: int = 1, *, b: int = 2) -> int:
        return a + b + len(shared)

    shared = [object(), object()]
    made: Any = function
    return all(
        [
            *(function_word(made, key, getattr(made, key)) for key in FUNCTION_WORDS),
            cell_word(made.__closure__[0], shared),
            kind_word(shared, list),
            list_words(shared, shared),
            set_words({1, "a", None}, 64),
        ]
    )


@lru_cache(maxsize=1)
def _classes_known() -> bool:
    class Base:
        pass

    class Probe(Base):
        pass

    if Word.at(id(Probe) + _MRO).found != id(Probe.__mro__):
        return False
    seen = []
    for owner in (Probe, Base, Probe):
        seen.append(_looked_up(Probe))
        setattr(owner, "probe", len(seen))  # noqa: B010  (not known to the type)
    seen.append(_looked_up(Probe))
    value = Probe()
    return 0 not in seen and len({*seen}) == 4 and attribute_word(value, vars(value)) is not None


def _looked_up(cls: type) -> int:
    """The count of changes of a class, which it has from a look-up on."""
    getattr(cls, "__eq__")  # noqa: B009  (for the sake of the look-up)
    return class_words(cls)[0].found
