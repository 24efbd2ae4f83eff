"""Python modules of users that code only reads names of: reads by computed names do not reach these.

``getattr(x, name)`` and ``vars(x)`` make every attribute of every object count, for ``x`` may be any of them. It is a
module only where code does more with one than read an attribute by name: hands it on, puts it in a variable. A module
of which ``module.name`` is all that the reached code has is read by these names, and leads to no more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import pairwise
from types import CodeType, FunctionType, ModuleType
from typing import Any

from ... import bytecode
from .reads import Names, steps
from .wrappers import inside

__all__ = ["IMPORTED", "NamedOnly", "Namespaces", "Way", "name_of", "taken_in"]

#: How a module is reached: by the name ``key`` in a module, or, without one, in the globals of a function.
Way = tuple[ModuleType | None, str]
#: Before the name of what is imported inside of functions.
IMPORTED = "import "
_READ = frozenset({"LOAD_ATTR", "LOAD_METHOD", "STORE_ATTR", "DELETE_ATTR"})
_LOADING = bytecode.GLOBALS | {"LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR", "IMPORT_FROM"}
#: With these, code gets at globals and modules without their names.
_WITHOUT_NAMES = frozenset({"eval", "exec", "globals", "__builtins__"})
_IMPORTING = frozenset({"__import__", "import_module", "getmodule"})


@lru_cache(maxsize=4096)
def taken_in(code: CodeType) -> frozenset[str]:
    """The globals and attributes that ``code`` does more with than to read attributes of them, by name.

    >>> sorted(taken_in((lambda x: (math.pi, print(math.tau), x.size)).__code__))
    ['pi', 'print', 'size', 'tau']
    >>> sorted(taken_in((lambda x: getattr(math, x)).__code__))
    ['getattr', 'math']
    """
    found: set[str] = set()
    instructions = [step for step in steps(code) if step[0] != "EXTENDED_ARG"]
    for (operation, name), (after, _) in pairwise(instructions):
        if operation in _LOADING and after not in _READ:
            found.add(name)
        elif operation == "IMPORT_NAME" and after != "IMPORT_FROM":
            found.add(IMPORTED + name)
    return frozenset(found)


def name_of(module: ModuleType) -> str:
    """The name of a module, which it may have lost.

    >>> module = ModuleType("a")
    >>> before = name_of(module)
    >>> del module.__name__
    >>> before, name_of(module)
    ('a', '')
    """
    return str(vars(module).get("__name__", ""))


class NamedOnly:
    """The names that code has in its text: of those that it computes, none."""

    def __init__(self, names: Names) -> None:
        self.names = names

    def __contains__(self, name: object) -> bool:
        return name in self.names.names


class Namespaces:
    """How users' modules were reached, and which are no more than namespaces."""

    def __init__(self, names: Names) -> None:
        self.names = names
        self._named = NamedOnly(names)
        self._ways: dict[int, set[tuple[int, str]]] = {}
        self._modules: dict[int, ModuleType] = {}
        self._values: set[int] = set()  # those reached as values
        self._taken: set[str] = set()
        self._codes: set[int] = set()  # by identity, which those who reach code keep
        self._looked = 0

    def note(self, module: ModuleType, way: Way | None) -> None:
        """A module is reached, as a value if no ``way`` is given."""
        self._modules[id(module)] = module
        if way is None:
            self._values.add(id(module))
            return
        holder, key = way
        self._ways.setdefault(id(module), set()).add((0 if holder is None else id(holder), key))

    @property
    def size(self) -> int:
        """A number that grows whenever a module may have become a value."""
        return len(self._values) + sum(map(len, self._ways.values()))

    def look(self, codes: Iterable[CodeType]) -> None:
        """Take the code into account that has been reached by now."""
        every = list(codes)
        for code in every[self._looked :]:
            self._taken |= taken_in(code)
            self._codes.add(id(code))
        self._looked = len(every)

    def names_of(self, value: Any) -> Names | NamedOnly:
        """The names that code can read of an object."""
        plain = self.names.everything and isinstance(value, ModuleType) and self._only_by_names()
        return self._named if plain and self._is_namespace(id(value), set()) else self.names

    def _only_by_names(self) -> bool:
        """Has the code no other way to modules than their names?"""
        called = self.names.globals
        if not (_WITHOUT_NAMES.isdisjoint(called) and _IMPORTING.isdisjoint(called)):
            return False
        return _IMPORTING.isdisjoint(self.names.used)

    def _is_namespace(self, module: int, asked: set[int]) -> bool:
        """Is a module nowhere a value? Modules that lead to each other are none by that."""
        if module in asked:
            return True
        if module in self._values or module not in self._ways:
            return False
        if self._has_own_code(type(self._modules[module])):
            return False
        asked.add(module)
        return all(
            key not in self._taken and (holder == 0 or self._is_namespace(holder, asked))
            for holder, key in self._ways[module]
        )

    def _has_own_code(self, kind: type) -> bool:
        """Does reached code belong to a class of modules? There the module is ``self``."""
        own = [vars(base) for base in kind.__mro__ if not issubclass(ModuleType, base)]
        members = [member for namespace in own for member in namespace.values()]
        return any(id(code) in self._codes for member in members for code in _codes_of(member))


def _codes_of(member: Any) -> Iterator[CodeType]:
    """The code behind a member of a class: of a function, or of those that a descriptor stands for."""
    if isinstance(member, FunctionType):
        yield member.__code__
    elif not isinstance(member, type):
        for _, found in inside(member):
            if isinstance(found, FunctionType):
                yield found.__code__
