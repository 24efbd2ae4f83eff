"""Signatures of objects that calls were given and do not bring any more: the models of earlier trials, say.

A recording keeps the objects that it hangs on, by identity, alive. A function that is given ever new ones would keep
hundreds of them. So signatures with objects are forgotten when several later ones were recorded since a call came back
to them. Where one comes back after all, which costs a recording, more of them are kept from then on.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

from .signature import statics_in

__all__ = ["IdleObjects", "has_objects"]

#: So many later recordings without a call make a signature one to be forgotten, at first.
PATIENCE = 8
#: Signatures that were forgotten and are still known again.
MAX_FORGOTTEN = 512
#: What programs hardly make anew.
_LASTING = (type, ModuleType, FunctionType, BuiltinFunctionType)


class IdleObjects:
    """The signatures of one function that have objects in them, and how long no call came back to each.

    >>> from tracejit.trace.signature import Static
    >>> idle = IdleObjects()
    >>> keys = [(Static(object()),) for _ in range(PATIENCE + 2)]
    >>> [len(idle.learn(key, {})) for key in keys]
    [0, 0, 0, 0, 0, 0, 0, 0, 1, 1]
    """

    def __init__(self) -> None:
        self.patience = PATIENCE
        self.known: dict[Any, list[int]] = {}  # calls served when last looked, recordings since
        self.forgotten: dict[int, list[weakref.ref[Any]]] = {}  # by hash, with their objects

    def learn(self, key: Any, entries: Mapping[Any, Sequence[Any]]) -> list[Any]:
        """A signature was recorded: those that are to be forgotten now."""
        if not has_objects(key):
            return []
        before = self.forgotten.pop(hash(key), None)
        if before is not None and all(x() is not None for x in before):  # it came back
            self.patience = min(self.patience * 2, MAX_FORGOTTEN)
        self.known.pop(key, None)
        found = []
        for other, state in self.known.items():
            served = sum(entry.replays for entry in entries.get(other, ()))
            state[:] = [served, state[1] + 1 if served == state[0] else 0]
            if state[1] >= self.patience:
                found.append(other)
        self.known[key] = [0, 0]
        for other in found:
            del self.known[other]
            self.forgotten[hash(other)] = _references(other)
        while len(self.forgotten) > MAX_FORGOTTEN:
            del self.forgotten[next(iter(self.forgotten))]
        return found


def _references(key: Any) -> list[weakref.ref[Any]]:
    """The objects in a key, as long as they live: what is made where one lay is told by the same number."""
    found = []
    for x in statics_in(key):
        if x.identity and not isinstance(x.value, _LASTING):
            with suppress(TypeError):  # of a class without weak references
                found.append(weakref.ref(x.value))
    return found


def has_objects(key: Any) -> bool:
    """Is there an object among what a key is made of, compared by what it is?

    >>> from tracejit.trace.signature import Static
    >>> has_objects((1, (Static(3), (Static(object()),)))), has_objects((Static("a"), Static(len)))
    (True, False)
    """
    return any(x.identity and not isinstance(x.value, _LASTING) for x in statics_in(key))
