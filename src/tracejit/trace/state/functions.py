"""Functions in the walk: code, defaults, closure variables, attributes, and the globals and modules they read."""

from __future__ import annotations

import sys
from types import FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any

from . import reads
from .checks import Attribute, Cell, Item, NewNames
from .modules import is_module
from .namespaces import IMPORTED, name_of
from .purity import is_suspect
from .special import Imported
from .values import MISSING, cell_content

if TYPE_CHECKING:
    from .reach import Walk


#: What can be seen of a function without calling it, besides its attributes, and names by which code looks.
_SHOWN = ("__code__", "__defaults__", "__kwdefaults__")
_SHOWING = (*_SHOWN, "signature", "getfullargspec", "getcallargs", "getsource")


#: Streams by their names in ``sys``.
STREAMS = ("stdout", "stderr")


def _is_stream(namespace: dict[str, Any], key: str) -> bool:
    """Is this a stream of the interpreter's, to which something may be printed? Calls of its methods are noticed."""
    return key in STREAMS and namespace is vars(sys) and type(namespace[key]).__module__ == "_io"


class FunctionWalk:
    """Enters functions, and looks up the names in library modules that reached code mentions."""

    def __init__(self, walk: Walk) -> None:
        self.walk = walk
        self._entered: list[FunctionType] = []
        self._shown: list[FunctionType] = []  # those that do not run
        self._libraries: list[tuple[ModuleType, str]] = []

    def enter_root(self, function: FunctionType) -> None:
        """The function that was asked about counts as the user's wherever it is defined."""
        if reads.is_library_function(function):
            self._own_state(function, function.__name__)
            self._globals(function)
        self.enter(function)

    def enter(self, function: FunctionType) -> None:
        """Check a user's function; of a library's, go on at what it wraps; one that did not run is only itself."""
        own = function.__name__
        if "__wrapped__" in vars(function):
            self.walk.reach(vars(function)["__wrapped__"], f"the function that {own} wraps")
        library = reads.is_library_function(function)
        if not library and self.walk.ran is not None and function.__code__ not in self.walk.ran:
            self._looks(function, own)
            return
        self.walk.suspect |= library and is_suspect(function)
        for variable, cell in zip(
            function.__code__.co_freevars, function.__closure__ or (), strict=True
        ):
            content, name = cell_content(cell), f"closure variable {variable!r} of {own}"
            if library:  # a decorator of the library: what it wraps may be the user's
                self._user_function(content, name)
            elif variable != "__class__" and self.walk.add(Cell(cell, name, None, content)):
                self.walk.reach(content, name, 0, variable)
        if not library:
            self._own_state(function, own)
            self._globals(function)
        elif vars(function):
            self.walk.watch_names(function, vars(function), f"function {own}")

    def _looks(self, function: FunctionType, own: str) -> None:
        """What can be seen of a function without calling it."""
        self._entered.append(function)
        self._shown.append(function)
        if vars(function):
            self.walk.watch_names(function, vars(function), f"function {own}")

    def enter_library(self, module: ModuleType, name: str) -> None:
        """A module of the standard library: its data and functions count where code mentions them."""
        self.walk.suspect |= is_suspect(module)
        if name_of(module).partition(".")[0] in sys.stdlib_module_names:
            self._libraries.append((module, name))

    def scan(self) -> None:
        """Check the names of library modules that reached code mentions by now."""
        for module, label in self._libraries:
            own = vars(module)
            for key in [k for k in own if k in self.walk.names.used]:
                check = Item(own, f"{key!r} of {label}", key, own[key])
                if (
                    own[key] is sys.modules
                ):  # what is done with a module found there is not followed
                    self.walk.add(Imported(self.walk.names))
                elif self.walk.add(check, key) and not _is_stream(own, key):
                    self.walk.reach(own[key], check.name, 1)

    def last_checks(self) -> None:
        """Attributes that functions may get, where the code looks whether there are any."""
        for function in self._entered if self.walk.names.asking else ():
            self.walk.add(NewNames(vars(function), function.__name__, self.walk.names))
        for function in self._shown if self.walk.names.calls(*_SHOWING) else ():
            for key in _SHOWN:
                name = f"{key!r} of {function.__name__}"
                self.walk.add(Attribute(function, name, key, getattr(function, key)), key)

    def _user_function(self, value: Any, name: str) -> None:
        if isinstance(value, (FunctionType, MethodType, dict)) or is_module(value):
            self.walk.reach(value, name)

    def _own_state(self, function: FunctionType, own: str) -> None:
        walk, code = self.walk, function.__code__
        walk.codes.extend(reads.codes_in(code))
        walk.names.add(reads.reads_of(code))
        self._entered.append(function)
        if vars(function):
            walk.watch_names(function, vars(function), f"function {own}")
        walk.add(Attribute(function, f"the code of {own}", "__code__", code), "__code__")
        if code.co_argcount:
            defaults = function.__defaults__
            name = f"the defaults of {own}"
            walk.add(Attribute(function, name, "__defaults__", defaults), "__defaults__")
            first = code.co_argcount - len(defaults or ())
            for position, value in enumerate(defaults or (), first):
                walk.reach(value, f"the default of {code.co_varnames[position]!r} of {own}")
        if code.co_kwonlyargcount:
            self._keyword_defaults(function, own)

    def _keyword_defaults(self, function: FunctionType, own: str) -> None:
        keywords: Any = function.__kwdefaults__
        name = f"the keyword defaults of {own}"
        self.walk.add(Attribute(function, name, "__kwdefaults__", keywords), "__kwdefaults__")
        for key, value in (keywords or {}).items():
            name = f"the default of {key!r} of {own}"
            if self.walk.add(Item(keywords, name, key, value), key):
                self.walk.reach(value, name)

    def _globals(self, function: FunctionType) -> None:
        found = reads.reads_of(function.__code__)
        builtins: dict[str, Any] = getattr(function, "__builtins__")  # noqa: B009  (not in the type stubs)
        for key in sorted(filter(str.isidentifier, found.globals)):  # others are a tool's
            self._global(function.__globals__, builtins, key)
        package = function.__globals__.get("__package__") or ""
        for target in sorted(found.imports):
            module = sys.modules.get(target) or sys.modules.get(f"{package}.{target}".rstrip("."))
            self.walk.suspect |= module is None
            first = sys.modules.get(target.partition(".")[0])  # what "import a.b" gives is a
            for value in (module, first):
                if value is not None:
                    name = f"module {name_of(value)}"
                    self.walk.reach(value, name, way=(None, IMPORTED + target))

    def _global(self, namespace: dict[str, Any], builtins: dict[str, Any], key: str) -> None:
        name = f"global {key!r}"
        value = namespace.get(key, MISSING)
        if self.walk.add(Item(namespace, name, key, value), key) and value is not MISSING:
            self.walk.reach(value, name, 0, key, (None, key))
        if value is MISSING and key in builtins:
            name = f"built-in {key!r}"
            if self.walk.add(Item(builtins, name, key, builtins[key]), key):
                self.walk.reach(builtins[key], name)
