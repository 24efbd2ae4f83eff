"""Facts about Python state as words of memory: what proves that a check holds without reading what it is about.

A guard can have thousands of checks, most of them on things that never change: functions, classes, names of modules.
Those that one count of changes or a few pointers can vouch for form a group with these words, and their Python
condition is evaluated only when a word is another one. Everything else is one more group that is always evaluated.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from types import CellType, FunctionType, MappingProxyType
from typing import Any

from ...runtime.native import memory_words as memory
from .checks import Attribute, Cell, Check, Item, Keys, Kind, Members, NewNames, Size
from .special import Bulk, Environment, Imported, Proxied

#: Most items of a list, and places of a set, that become words.
MOST_ITEMS = 4096
Generate = Callable[[Sequence[Check]], Callable[[], bool]]
_ON_DICTS = (Item, Keys, Size, NewNames, Bulk, Environment, Imported)
_IN_ORDER = (Keys, Bulk)


class _Facts:
    """Checks on one thing, as one condition that is made when it is needed."""

    __slots__ = ("checks", "generate", "kept", "made")

    def __init__(self, generate: Generate) -> None:
        self.generate = generate
        self.checks: list[Check] = []
        self.kept: Any = None
        self.made: Callable[[], bool] | None = None

    def holds(self) -> bool:
        """Do all of them hold?"""
        if self.made is None:
            self.made = self.generate(self.checks)
        return self.made()


def comparison_of(checks: Sequence[Check], generate: Generate) -> Callable[[], bool] | None:
    """A native function that is True while ``checks`` hold; None where memory is not known well enough.

    ``generate`` makes a Python function of some of them.
    """
    if not memory.known():
        return None
    facts: dict[Hashable, _Facts] = {}
    for check in checks:
        subject = _subject(check)
        facts.setdefault(subject, _Facts(generate)).checks.append(check)
    groups = [_group(subject, found) for subject, found in facts.items()]
    return memory.comparison(groups)


def _group(subject: Hashable, facts: _Facts) -> memory.Group:
    words = _words(facts) if subject is not None else []
    # After the words were read: a change that another thread makes meanwhile shows in them.
    if words and any(check.difference() is not None for check in facts.checks):
        words = []
    return memory.Group(facts.holds, words)


def _subject(check: Check) -> Hashable:
    """What a check is about, where words can tell whether that changed; None for all others."""
    holder = check.holder
    if isinstance(holder, MappingProxyType):
        holder = (
            memory.dict_behind(holder) if isinstance(check, (Item, NewNames, Proxied)) else None
        )
    if isinstance(holder, dict):
        ordered = isinstance(holder, OrderedDict) and isinstance(check, _IN_ORDER)
        return ("dict", id(holder)) if isinstance(check, _ON_DICTS) and not ordered else None
    if isinstance(check, Kind):
        return "kind", id(holder)
    if isinstance(holder, list):
        return ("list", id(holder)) if isinstance(check, (Item, Size, Bulk)) else None
    if isinstance(holder, set):
        return ("set", id(holder)) if isinstance(check, (Members, Size)) else None
    if isinstance(check, Cell):
        return "cell", id(holder)
    if not isinstance(check, Attribute):
        return None
    if isinstance(holder, type):
        return "class", id(holder)
    if isinstance(holder, FunctionType) and check.key in memory.FUNCTION_WORDS:
        return "function", id(holder)
    return ("attributes", id(holder)) if check.key == "__dict__" else None


def _words(facts: _Facts) -> list[memory.Word]:
    """The words that vouch for checks on one thing; none where there are no such words after all."""
    check = facts.checks[0]
    holder = check.holder
    if isinstance(holder, MappingProxyType):
        facts.kept = holder = memory.dict_behind(holder)
    found: Sequence[memory.Word | None]
    if isinstance(check, Kind):
        found = [memory.kind_word(holder, check.cls)]
    elif isinstance(holder, dict):
        found = [memory.dict_word(holder)]
    elif isinstance(holder, list):
        facts.kept = list.copy(holder)
        found = memory.list_words(holder, facts.kept) if len(facts.kept) <= MOST_ITEMS else []
    elif isinstance(holder, set):
        facts.kept = tuple(holder)
        found = memory.set_words(holder, MOST_ITEMS)
    elif isinstance(holder, type):
        found = memory.class_words(holder)
    else:
        found = [_pointer(fact) for fact in facts.checks]
    return [word for word in found if word is not None] if None not in found else []


def _pointer(check: Check) -> memory.Word | None:
    """The word of a closure variable, of an object's namespace, of the code or defaults of a function."""
    holder = check.holder
    if isinstance(check, Cell) and isinstance(holder, CellType):
        return memory.cell_word(holder, check.expected)
    if isinstance(check, Attribute) and isinstance(holder, FunctionType):
        return memory.function_word(holder, check.key, check.expected)
    if isinstance(check, Attribute):
        return memory.attribute_word(holder, check.expected)
    return None
