"""Modules in a guard: one look at a process-wide counter, and a comparison of each module when it moved.

Every change of a module's structure (attributes, parameters, submodules, mode, hooks) moves the counter, so an
unmoved one proves all modules unchanged, however deep the model is. ``nn`` is above this layer: it is used here only
where a program has loaded it, since without it no object is a module. Not seen are writes that go around
``Module.__setattr__``, straight into ``__dict__`` or ``_parameters``.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from ..tensor import Tensor
from .state_checks import Bind, Check
from .state_reads import Names
from .state_values import MISSING, describe, token, was_and_is

#: What a module keeps for itself; hooks, parameters, buffers and submodules are compared in their own way.
MACHINERY = frozenset(
    {"_buffers", "_hooks", "_modules", "_parameters", "_transient", "_version", "training"}
)
_HOOK_KINDS = ("forward_pre", "forward", "backward_pre", "backward")


def is_module(value: Any) -> bool:
    """Is ``value`` an ``nn.Module``?"""
    defining = sys.modules.get("tracejit.nn.module")
    cls = getattr(defining, "Module", None)
    return cls is not None and isinstance(value, cls)


def hooks_of(module: Any) -> Iterator[tuple[str, Any]]:
    """Label and entry of every hook of a module, in the order they run."""
    hooks = vars(module).get("_hooks")
    for kind in _HOOK_KINDS if hooks is not None else ():
        for position, entry in enumerate(tuple(getattr(hooks, kind).values())):
            yield f"{kind} hook {position}", entry


def plain_attributes(module: Any, names: Names) -> Iterator[tuple[str, Any]]:
    """The Python attributes of a module that the code can read."""
    for key, value in tuple(vars(module).items()):
        if key in names and key not in MACHINERY:
            yield key, value


def _members(module: Any, names: Names) -> Iterator[tuple[str, Any, Any]]:
    """Label, value and mark of everything about a module that a recording can depend on.

    The mark of a tensor has its type and ``requires_grad``, since ``module.double()`` keeps the object.
    """
    own = vars(module)
    yield "the class", type(module), id(type(module))
    yield "the mode 'training'", own.get("training"), token(own.get("training"))
    for kind in ("parameter", "buffer"):
        for key, value in tuple(own.get(f"_{kind}s", {}).items()):
            if isinstance(value, Tensor):
                yield f"{kind} {key!r}", value, (id(value), value.type, value.requires_grad)
            else:
                yield f"{kind} {key!r}", value, token(value)
    for position, (key, value) in enumerate(tuple(own.get("_modules", {}).items())):
        yield f"submodule {key!r}", value, (position, id(value))
    for label, entry in hooks_of(module):
        yield label, entry, token(entry)
    for key, value in plain_attributes(module, names):
        yield f"attribute {key!r}", value, token(value)


class _Snapshot:
    """One module as it was while recording."""

    def __init__(self, module: Any, name: str, names: Names) -> None:
        self.module, self.name, self.names = module, name, names
        self.version = vars(module).get("_version")
        self.members = {label: (mark, value) for label, value, mark in _members(module, names)}

    def difference(self) -> str | None:
        """What changed about the module, or None; an irrelevant change is remembered."""
        version = vars(self.module).get("_version")
        if version == self.version:
            return None
        now = {label: (mark, value) for label, value, mark in _members(self.module, self.names)}
        for label in (*self.members, *now):
            old, new = (
                self.members.get(label, (MISSING, MISSING)),
                now.get(label, (MISSING, MISSING)),
            )
            if old[0] != new[0]:
                return f"{label} of {self.name} {_change(old[1], new[1])}"
        self.version = version
        return None


def _change(before: Any, now: Any) -> str:
    if before is now:
        return f"changed its type or requires_grad ({describe(now)})"
    return was_and_is(before, now)


class Structure(Check):
    """No module the code can reach changed its structure."""

    __slots__ = ("seen", "snapshots")

    def __init__(self, modules: list[tuple[Any, str]], names: Names) -> None:
        counter = sys.modules["tracejit.nn.structure"].STRUCTURE_VERSION
        super().__init__(counter, "module structure")
        self.seen = [counter[0]]
        self.snapshots = [_Snapshot(module, name, names) for module, name in modules]

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
