"""The walk from a function to all Python state that running it can read, as a list of checks.

Functions lead to globals, cells, defaults and the functions among them; objects lead to the attributes whose names
occur in reached code; classes to the methods whose names occur. Since reaching a function adds names, the walk
repeats until nothing new is found. Library code is not entered, but functions that it wraps are.
"""

from __future__ import annotations

import enum
import sys
from collections import deque
from functools import partial
from types import (
    BuiltinFunctionType,
    CodeType,
    FunctionType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
)
from typing import Any

import numpy as np

from ..tensor import Tensor
from . import state_reads as reads
from .state_checks import (
    Attribute,
    Cell,
    Check,
    Item,
    Kind,
    NewNames,
)
from .state_classes import ClassWalk
from .state_containers import ContainerWalk
from .state_modules import MACHINERY, Structure, hooks_of, is_module, plain_attributes
from .state_values import MISSING, cell_content

#: Objects and containers nested deeper than this below a function, argument or module are guarded by identity only.
MAX_DEPTH = 12
#: A guard has at most this many checks.
MAX_CHECKS = 4096

_LEAVES = (
    str,
    bytes,
    int,
    float,
    complex,
    type(None),
    enum.Enum,
    np.generic,
    CodeType,
    Tensor,
)
#: Where descriptors, partial objects, bound methods and wrappers keep the function they stand for.
_INSIDE = (
    "fget",
    "fset",
    "fdel",
    "func",
    "__func__",
    "__self__",
    "__wrapped__",
    "args",
    "keywords",
)


class Walk:
    """Collects checks; ``limits`` says what the bounds kept from being checked."""

    def __init__(self) -> None:
        self.names = reads.Names()
        self.checks: list[Check] = []
        self.limits: dict[str, None] = {}
        self.modules: list[tuple[Any, str]] = []
        self._classes = ClassWalk(self)
        self._objects: list[tuple[Any, dict[str, Any], str, int]] = []
        self._containers = ContainerWalk(self)
        self._known: set[tuple[int, Any]] = set()
        self._seen: dict[int, Any] = {}
        self._waiting: deque[tuple[Any, str, int]] = deque()

    # --- the interface ------------------------------------------------------------------------------------------------

    def reach(self, value: Any, name: str, depth: int = 0) -> None:
        """Go on at ``value`` later, unless it has been reached before or has no state."""
        if isinstance(value, _LEAVES) or id(value) in self._seen:
            return
        self._seen[id(value)] = value
        self._waiting.append((value, name, depth))

    def add(self, check: Check, key: Any = None) -> bool:
        """Keep a check; False when the place (its holder and ``key``) is being checked already."""
        place = (id(check.holder), (type(check), key))
        if place in self._known:
            return False
        if len(self.checks) >= MAX_CHECKS:
            self.limits[f"more than {MAX_CHECKS} places to check: the rest is not guarded"] = None
            return False
        self._known.add(place)
        self._seen[id(check.holder)] = self._seen.get(id(check.holder), check.holder)
        self.checks.append(check)
        return True

    def finish(self) -> list[Check]:
        """Walk until nothing new is found; all checks, the cheapest evidence first."""
        size = -1
        while self._waiting or self.names.size != size:
            while self._waiting:
                self._enter(*self._waiting.popleft())
            size = self.names.size
            self._rescan()
        for _, namespace, name, _ in self._objects:
            self.add(NewNames(namespace, name, self.names))
        if self.modules:
            self.checks.insert(0, Structure(self.modules, self.names))
        return self.checks

    # --- one value ----------------------------------------------------------------------------------------------------

    def _enter(self, value: Any, name: str, depth: int) -> None:
        if isinstance(value, FunctionType):
            self._function(value)
        elif isinstance(value, type):
            self._classes.enter(value, as_value=True)
        elif isinstance(value, ModuleType):
            if not reads.is_library_module(value, value.__name__):
                self._objects.append((value, vars(value), name, depth))
        elif is_module(value):
            self._module(value, name)
        elif depth >= MAX_DEPTH:
            self.limits[f"what {name} holds is not guarded: nested deeper than {MAX_DEPTH}"] = None
        elif isinstance(value, BuiltinFunctionType):  # a bound method, such as that of a list
            self.reach(value.__self__, f"the owner of {name}", depth)
        elif isinstance(value, (property, staticmethod, classmethod, partial, MethodType)):
            self._inside(value, name, depth)
        else:
            self._containers.enter(value, name, depth)
            self._object(value, name, depth)

    def _inside(self, value: Any, name: str, depth: int) -> None:
        """The functions and arguments that a descriptor, partial object or wrapper stands for."""
        for key in _INSIDE:
            inner = getattr(value, key, None)
            if inner is not None:
                self.reach(inner, f"{key} of {name}", depth + 1)

    # --- functions ----------------------------------------------------------------------------------------------------

    def _function(self, function: FunctionType) -> None:
        own = function.__name__
        if "__wrapped__" in vars(function):
            self.reach(vars(function)["__wrapped__"], f"the function that {own} wraps")
        library = reads.is_library_function(function)
        for variable, cell in zip(
            function.__code__.co_freevars, function.__closure__ or (), strict=True
        ):
            content, name = cell_content(cell), f"closure variable {variable!r} of {own}"
            if library:  # a decorator of the library: what it wraps may be the user's
                self._user_function(content, name)
            elif variable != "__class__" and self.add(Cell(cell, name, None, content)):
                self.reach(content, name)
        if not library:
            self._own_state(function, own)
            self._globals(function)

    def _user_function(self, value: Any, name: str) -> None:
        if isinstance(value, (FunctionType, MethodType)) or is_module(value):
            self.reach(value, name)

    def enter_code(self, function: FunctionType) -> None:
        """The function that was asked about counts as the user's wherever it is defined."""
        self._seen[id(function)] = function
        if reads.is_library_function(function):
            self._own_state(function, function.__name__)
            self._globals(function)
        self._function(function)

    def _own_state(self, function: FunctionType, own: str) -> None:
        code = function.__code__
        self.names.add(reads.reads_of(code))
        self.add(Attribute(function, f"the code of {own}", "__code__", code), "__code__")
        if code.co_argcount:
            defaults = function.__defaults__
            self.add(
                Attribute(function, f"the defaults of {own}", "__defaults__", defaults),
                "__defaults__",
            )
            first = code.co_argcount - len(defaults or ())
            for position, value in enumerate(defaults or (), first):
                self.reach(value, f"the default of {code.co_varnames[position]!r} of {own}")
        keywords = function.__kwdefaults__
        if code.co_kwonlyargcount:
            name = f"the keyword defaults of {own}"
            self.add(Attribute(function, name, "__kwdefaults__", keywords), "__kwdefaults__")
        for key, value in (keywords or {}).items():
            name = f"the default of {key!r} of {own}"
            if self.add(Item(keywords, name, key, value), key):
                self.reach(value, name)

    def _globals(self, function: FunctionType) -> None:
        found = reads.reads_of(function.__code__)
        builtins: dict[str, Any] = getattr(function, "__builtins__")  # noqa: B009  (not in the type stubs)
        for key in sorted(found.globals):
            self._global(function.__globals__, builtins, key)
        package = function.__globals__.get("__package__") or ""
        for target in sorted(found.imports):
            module = sys.modules.get(target) or sys.modules.get(f"{package}.{target}".rstrip("."))
            if module is not None:
                self.reach(module, f"module {module.__name__}")

    def _global(self, namespace: dict[str, Any], builtins: dict[str, Any], key: str) -> None:
        name = f"global {key!r}"
        value = namespace.get(key, MISSING)
        if self.add(Item(namespace, name, key, value), key) and value is not MISSING:
            self.reach(value, name)
        if value is MISSING and key in builtins:
            name = f"built-in {key!r}"
            if self.add(Item(builtins, name, key, builtins[key]), key):
                self.reach(builtins[key], name)

    # --- objects ------------------------------------------------------------------------------------------------------

    def _object(self, value: Any, name: str, depth: int) -> None:
        cls = type(value)
        namespace = _namespace(value)
        if isinstance(namespace, dict) and "__wrapped__" in namespace:
            self.reach(namespace["__wrapped__"], f"the function that {name} wraps", depth)
        if reads.is_closed(cls) or cls.__module__ == "builtins":
            inner = getattr(value, "__wrapped__", None) if cls.__module__ != "builtins" else None
            self.reach(inner, f"the function that {name} wraps", depth)
            return
        label = f"{cls.__qualname__} ({name})"
        if isinstance(namespace, dict):
            self._objects.append((value, namespace, label, depth))
            if vars(object)["__getattribute__"] is getattr(cls, "__getattribute__", None):
                place = f"the namespace of {label}"
                self.add(Attribute(value, place, "__dict__", namespace), "__dict__")
        elif any(
            isinstance(m, MemberDescriptorType) for k in cls.__mro__ for m in vars(k).values()
        ):
            self._objects.append((value, {}, label, depth))
        if not reads.is_library_class(cls):
            self.add(Kind(value, name, cls))
        self._classes.enter(cls)

    def _module(self, module: Any, name: str) -> None:
        label = f"{type(module).__qualname__} ({name})"
        self.modules.append((module, label))
        self._classes.enter(type(module))
        for key, child in tuple(module._modules.items()):
            self.reach(child, f"submodule {key!r} of {label}")
        for which, entry in hooks_of(module):
            self.reach(entry, f"{which} of {label}")

    def _rescan(self) -> None:
        """Look again at everything reached, for the names that became known since."""
        self._classes.scan()
        for value, namespace, label, depth in tuple(self._objects):
            for key in [k for k in namespace if k in self.names and k not in MACHINERY]:
                self._attribute(
                    Item(namespace, f"attribute {key!r} of {label}", key, namespace[key]), depth
                )
            for key in self._slots(type(value)):
                expected = getattr(value, key, MISSING)
                self._attribute(
                    Attribute(value, f"attribute {key!r} of {label}", key, expected), depth
                )
        for module, label in tuple(self.modules):
            for key, attribute in plain_attributes(module, self.names):
                self.reach(attribute, f"attribute {key!r} of {label}", 1)
        self._containers.scan()

    def _attribute(self, check: Item | Attribute, depth: int) -> None:
        if self.add(check, check.key):
            self.reach(check.expected, check.name, depth + 1)

    def _slots(self, cls: type) -> list[str]:
        return [
            key
            for owner in cls.__mro__
            if not reads.is_library_class(owner)
            for key, member in vars(owner).items()
            if isinstance(member, MemberDescriptorType) and key in self.names
        ]


def _namespace(value: Any) -> Any:
    """The attribute dict of an object, without asking the object."""
    try:
        return object.__getattribute__(value, "__dict__")
    except AttributeError:
        return None
