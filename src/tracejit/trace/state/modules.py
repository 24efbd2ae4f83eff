"""Modules in a guard: one look at a process-wide counter, and a comparison of each module when it moved.

Every change of a module's structure (attributes, parameters, submodules, mode, hooks) moves the counter, so an
unmoved one proves all modules unchanged, however deep the model is. ``nn`` is above this layer: it is used here only
where a program has loaded it, since without it no object is a module. The tables of parameters, buffers and submodules
count what is written into them directly. Not seen are writes that go around ``Module.__setattr__`` straight into
``__dict__``.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from ...tensor import Tensor
from ..numbers.plain_parts import plain_parts
from .checks import Bind, Check, Item, Read
from .reads import Names
from .values import MISSING, describe, token, was_and_is

#: What a module keeps for itself; hooks, parameters, buffers and submodules are compared in their own way.
_MACHINERY = frozenset(
    {"_buffers", "_hooks", "_modules", "_parameters", "_transient", "_version", "training"}
)
_MODE = "the mode 'training'"
_HOOK_KINDS = ("forward_pre", "forward", "backward_pre", "backward")


class Table(dict[str, Any]):
    """A module's parameters, buffers or submodules; writing into it moves the counter of all modules."""

    __slots__ = ("changes", "counter")

    def __init__(self, items: Any, counter: list[int]) -> None:
        super().__init__(items)
        self.counter = counter
        self.changes = 0

    def _count(self) -> None:
        self.changes += 1
        self.counter[0] += 1

    def __setitem__(self, key: str, value: Any) -> None:
        super().__setitem__(key, value)
        self._count()

    def __delitem__(self, key: str) -> None:
        super().__delitem__(key)
        self._count()

    def __ior__(self, other: Any) -> Table:  # type: ignore[override,misc]
        self.update(other)
        return self

    def clear(self) -> None:
        """Remove all items."""
        super().clear()
        self._count()

    def pop(self, *args: Any) -> Any:
        """Remove an item and return it."""
        found = super().pop(*args)
        self._count()
        return found

    def popitem(self) -> tuple[str, Any]:
        """Remove the last item and return it."""
        found = super().popitem()
        self._count()
        return found

    def setdefault(self, key: str, default: Any = None) -> Any:
        """The item, which is ``default`` from now on if there was none."""
        found = super().setdefault(key, default)
        self._count()
        return found

    def update(self, *args: Any, **kwargs: Any) -> None:
        """Add items."""
        super().update(*args, **kwargs)
        self._count()

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Copies and pickles are plain dicts."""
        return dict, (dict(self),)


_TABLES = ("_parameters", "_buffers", "_modules")


def _tables(module: Any) -> list[Table]:
    """The tables of a module, which count their changes from now on."""
    own = vars(module)
    counter = sys.modules["tracejit.nn.structure"].STRUCTURE_VERSION
    for key in _TABLES:
        if type(own.get(key)) is dict:
            own[key] = Table(own[key], counter)
    return [own[key] for key in _TABLES if type(own.get(key)) is Table]


def is_module(value: Any) -> bool:
    """Is ``value`` an ``nn.Module``?"""
    defining = sys.modules.get("tracejit.nn.module")
    cls = getattr(defining, "Module", None)
    return cls is not None and isinstance(value, cls)


def calls_forward(module: Any) -> bool:
    """Is calling a module nothing but calling its ``forward``?"""
    defining, hooks = sys.modules["tracejit.nn.module"], sys.modules["tracejit.nn.hooks"]
    own = type(module).__call__ is not defining.Module.__call__
    return not own and module._hooks is None and not hooks.EVERYWHERE_PRESENT[0]


def parameter_class() -> Any:
    """``nn.Parameter``, or None where no program can have made one."""
    return getattr(sys.modules.get("tracejit.nn.parameter"), "Parameter", None)


def hooks_of(module: Any) -> Iterator[tuple[str, Any]]:
    """Label and entry of every hook of a module, in the order they run."""
    return _entries(vars(module).get("_hooks"))


def _entries(hooks: Any) -> Iterator[tuple[str, Any]]:
    for kind in _HOOK_KINDS if hooks is not None else ():
        for position, entry in enumerate(tuple(getattr(hooks, kind).values())):
            yield f"{kind} hook {position}", entry


def hooks_of_all() -> tuple[Item, list[tuple[str, Any]]]:
    """The check that the hooks of all modules are those they were, and label and entry of each."""
    hooks = sys.modules["tracejit.nn.hooks"]
    changes = hooks.EVERYWHERE_CHANGES
    check = Item(changes, "the number of changes of the hooks of all modules", 0, changes[0])
    return check, [(f"{label} of all modules", x) for label, x in _entries(hooks.EVERYWHERE)]


def tensors_of(module: Any, held: Collection[Any] = ()) -> Iterator[tuple[str, Tensor]]:
    """Label and tensor of every parameter and buffer of a module itself, but for ``held`` places."""
    for kind in ("parameter", "buffer"):
        table = vars(module).get(f"_{kind}s", {})
        for key, value in tuple(table.items()):
            if isinstance(value, Tensor) and (id(table), key) not in held:
                yield f"{kind} {key!r}", value


def plain_attributes(module: Any, names: Names) -> Iterator[tuple[str, Any]]:
    """The Python attributes of a module that the code can read."""
    for key, value in tuple(vars(module).items()):
        if key in names and key not in _MACHINERY:
            yield key, value


def _members(
    module: Any, names: Names, varying: Mapping[Any, Any], held: Collection[Any] = ()
) -> Iterator[tuple[str, Any, Any]]:
    """Label, value and mark of everything about a module that a recording can depend on, but for ``held`` places.

    The mark of a tensor has its type and ``requires_grad``, since ``module.double()`` keeps the object.
    """
    own = vars(module)
    yield "the class", type(module), id(type(module))
    moded = (id(own), "training") not in held
    yield _MODE, own.get("training"), token(own.get("training")) if moded else "held"
    for kind in ("parameter", "buffer"):
        table = own.get(f"_{kind}s", {})
        for position, (key, value) in enumerate(tuple(table.items())):
            if (id(table), key) in held:
                yield f"{kind} {key!r}", None, (position, "held")
                continue
            if isinstance(value, Tensor):
                mark: Any = (id(value), value.spec, value._flows)
            else:
                mark = token(value)
            yield f"{kind} {key!r}", value, (position, mark)
    for position, (key, value) in enumerate(tuple(own.get("_modules", {}).items())):
        yield f"submodule {key!r}", value, (position, id(value))
    for label, entry in hooks_of(module):
        yield label, entry, token(entry)
    for key, value in plain_attributes(module, names):
        if (id(own), key) in held:
            continue
        place = varying.get((id(own), key))
        number = place is not None and type(value) is place.kind
        yield f"attribute {key!r}", value, (type(value), "any") if number else token(value)


def _current(module: Any) -> list[Any]:
    own = vars(module)
    return [own.get(key) for key in _TABLES]


class _Snapshot:
    """One module as it was while recording."""

    def __init__(
        self,
        module: Any,
        name: str,
        names: Names,
        varying: Mapping[Any, Any],
        held: Collection[Any],
    ) -> None:
        self.module, self.name, self.names = module, name, names
        self.varying, self.held = varying, held
        self.tables = _tables(module)
        self.version = self._version()
        self.members = self._marks()

    def _marks(self) -> dict[str, tuple[Any, Any]]:
        found = _members(self.module, self.names, self.varying, self.held)
        return {label: (mark, value) for label, value, mark in found}

    def _version(self) -> Any:
        changes = [table.changes for table in self.tables]
        return vars(self.module).get("_version"), *map(id, _current(self.module)), *changes

    def difference(self) -> str | None:
        """What changed about the module, or None; an irrelevant change is remembered."""
        version = self._version()
        if version == self.version:
            return None
        now = self._marks()
        for label in (*self.members, *now):
            old, new = (
                self.members.get(label, (MISSING, MISSING)),
                now.get(label, (MISSING, MISSING)),
            )
            if old[0] != new[0]:
                return f"{label} of {self.name} {_change(old[1], new[1])}"
        self.version = version
        return None

    def moved(self) -> list[ModuleItem] | None:
        """Reads of attributes and buffers, if these are all that changed."""
        if self.difference() is None:
            return []
        now, own = self._marks(), vars(self.module)
        found = []
        for label in {**self.members, **now}:
            (mark, old), (new_mark, new) = self.members.get(label, _NONE), now.get(label, _NONE)
            if mark == new_mark:
                continue
            kind, _, key = ("attribute", "", "training") if label == _MODE else label.partition(" ")
            holder = own if kind == "attribute" else own.get(_HOLDERS.get(kind, ""))
            if kind not in _HOLDERS or holder is None or new is old:
                return None
            key = key.strip("'")
            if holder.get(key, MISSING) is not new:
                return None
            found.append(ModuleItem(self.module, holder, f"{label} of {self.name}", key, old))
        return found

    def put_plain(self) -> Iterator[ModuleItem]:
        """Put values in place of numbers that a recording knows more about, and tell where the guard looks at these."""
        own = vars(self.module)
        for key, now in tuple(own.items()):
            value = plain_parts(now)
            if value is not now:
                own[key] = value
                if (id(own), key) not in self.held and (id(own), key) not in self.varying:
                    name = f"attribute {key!r} of {self.name}"
                    yield ModuleItem(self.module, own, name, key, value)


_NONE = (MISSING, MISSING)
#: Classes of values that ``Module.__setattr__`` has no other place for.
_ORDINARY = (Tensor, tuple, list, dict, float, int, bool, str, type(None))
#: Under which name a module has the dict with its values of a kind.
_HOLDERS = {"attribute": "__dict__", "buffer": "_buffers", "parameter": "_parameters"}


class ModuleItem(Item):
    """A plain attribute, a buffer or a parameter of a module."""

    __slots__ = ("module",)

    def __init__(self, module: Any, holder: Any, name: str, key: str, expected: Any) -> None:
        super().__init__(holder, name, key, expected)
        self.module = module

    @property
    def owner(self) -> Any:
        """The module."""
        return self.module


def _change(before: Any, now: Any) -> str:
    if before is now:
        return f"changed its type or requires_grad ({describe(now)})"
    return was_and_is(before, now)


class Structure(Check):
    """No module the code can reach changed its structure."""

    __slots__ = ("seen", "snapshots")

    def __init__(
        self,
        modules: list[tuple[Any, str]],
        names: Names,
        varying: Mapping[Any, Any] = MappingProxyType({}),
        held: Collection[Any] = (),
    ) -> None:
        counter = sys.modules["tracejit.nn.structure"].STRUCTURE_VERSION
        super().__init__(counter, "module structure")
        self.seen = [counter[0]]
        self.snapshots = [_Snapshot(module, name, names, varying, held) for module, name in modules]

    def broken(self, bind: Bind) -> str:
        """The condition as source."""
        counter, seen = bind(self.holder), bind(self.seen)
        return f"{counter}[0] != {seen}[0] and {bind(self.difference)}() is not None"

    def difference(self) -> str | None:
        """What changed, or None."""
        # Read before comparing: a change that another thread makes meanwhile is seen by the next check.
        version = self.holder[0]
        for snapshot in self.snapshots:
            change = snapshot.difference()
            if change is not None:
                return change
        self.seen[0] = version
        return None

    def stored(self, places: Iterable[Any], values: Iterable[Any]) -> None:
        """Put ``values`` in ``places``, of which these modules' recordings do not depend on what is there.

        The counter moves as for any assignment, but if nothing else moves it meanwhile no module is compared for it.
        """
        before, count = self.holder[0], 0
        touched: set[int] = set()
        for place, value in zip(places, values, strict=True):
            module = place.owner
            if module is None or type(value) not in _ORDINARY or place.read() is MISSING:
                place.store(value)
                continue
            table = place.check.holder
            table[place.check.key] = value
            sys.modules["tracejit.nn.structure"].changed(module)
            count += 1 + (type(table) is Table)
            touched.add(id(module))
        found = [(x, x._version()) for x in self.snapshots if id(x.module) in touched]
        if self.seen[0] == before and self.holder[0] == before + count:
            for snapshot, version in found:
                snapshot.version = version
            self.seen[0] = before + count

    def moved(self) -> list[Read] | None:
        """Reads of attributes and buffers, if these are all that changed."""
        found: list[Read] = []
        for snapshot in self.snapshots:
            more = snapshot.moved()
            if more is None:
                return None
            found += more
        return found
