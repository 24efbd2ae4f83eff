"""Optimizers and schedules in a guard: they look after themselves.

A recorded step adds a check of its own for the optimizer it belongs to, and a schedule's step is Python that every
replay runs. So of their attributes only those matter that the user's code reads by name. ``optim`` is above this layer:
it is used here only where a program has loaded it.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Collection, Iterator
from functools import lru_cache
from types import FunctionType
from typing import Any

from . import reads

#: Reading a group as a whole: then all its numbers count.
WHOLE = frozenset({"items", "values", "copy"})
#: What optimizers of the package keep for themselves: code that computes the names of attributes does not mean these.
BOOKKEEPING = frozenset(
    {
        *("_counters", "_own_changes", "_stepped"),
        *(
            f"_optimizer_{what}state_dict_{when}_hooks"
            for what in ("", "load_")
            for when in ("pre", "post")
        ),
    }
)


def is_tool(value: Any) -> bool:
    """Is ``value`` an optimizer or a schedule whose step is the package's own?"""
    for module, name, method in (
        ("tracejit.optim.optimizer", "Optimizer", "_update_group"),
        ("tracejit.optim.scheduler_base", "LRScheduler", "_advance"),
    ):
        cls = getattr(sys.modules.get(module), name, None)
        if cls is not None and isinstance(value, cls):
            steps = (method, "step")
            own = any(getattr(type(value), x) is not getattr(cls, x) for x in steps)
            if method == "_update_group" and not own:
                return False  # it has no step, and does its work under other names
            return all(_is_library(value, x) for x in steps)
    return False


@lru_cache(maxsize=256)
def attributes_set(kind: type, made: bool) -> frozenset[str] | None:
    """The attributes that methods of a class of the package set, ``__init__`` only where ``made`` says so.

    None, which is any, where a class is the user's: its code may reach helpers that set others.
    """
    classes = [cls for cls in kind.__mro__ if cls is not object]
    if not all(map(reads.is_library_class, classes)):
        return None
    members = (x for cls in classes for name, x in vars(cls).items() if made or name != "__init__")
    functions = (getattr(x, "fget", getattr(x, "__func__", x)) for x in members)
    codes = (
        c for f in functions if isinstance(f, FunctionType) for c in reads.codes_in(f.__code__)
    )
    done = (step for code in codes for step in reads.steps(code))
    return frozenset(name for operation, name in done if operation == "STORE_ATTR")


def kept_by(value: Any, names: reads.Names) -> Collection[str]:
    """Attributes of an optimizer or a schedule that do not count unless the user's code names them.

    Code that computes names (``getattr(self, f"layer{i}")``) means others, but not code that looks at all attributes.
    """
    kind: type = type(value)
    own = None if names.whole else attributes_set(kind, True)
    return BOOKKEEPING if own is None else BOOKKEEPING | (own - names.names)


def step_hooks(value: Any) -> Iterator[Any]:
    """What an optimizer calls before and after a step."""
    for when in ("pre", "post"):
        yield from tuple(getattr(value, f"_optimizer_step_{when}_hooks", {}).values())
    for hooks in getattr(sys.modules.get("tracejit.optim.step_hooks"), "GLOBAL", ()):
        yield from tuple(hooks.values())


def _is_library(value: Any, method: str) -> bool:
    """Is it the package's own? One that a decorator of the package wraps (``no_grad``) is not for that."""
    function = inspect.unwrap(getattr(type(value), method, None))  # type: ignore[arg-type]
    return isinstance(function, FunctionType) and reads.is_library_function(function)


def is_group(value: Any) -> bool:
    """Is ``value`` a parameter group of an optimizer?"""
    cls = getattr(sys.modules.get("tracejit.optim.group"), "ParamGroup", None)
    return cls is not None and isinstance(value, cls)
