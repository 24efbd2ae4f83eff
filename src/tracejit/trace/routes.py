"""Routes: signatures that native code recognises by itself, and what serves them.

A call of a compiled function is looked up by a key of all its arguments, which takes Python microseconds to build. A
route says of one signature that was served before what its arguments look like, as pointers to compare: the layouts of
tensors, objects that have to be the same. Native code tries the routes of a function first (see
`runtime.native.door_ir`); what fits none goes the general way, and may leave a route behind.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..runtime.launcher import _Address
from ..runtime.native.layout import keep_for_ever, slot_offset
from ..runtime.native.native import native, set_context
from ..tensor import Tensor
from .signature import Static, flatten, is_number

if TYPE_CHECKING:
    from .entry import Entry

__all__ = ["MAX_ROUTES", "Route", "open_door", "route_of"]

#: Routes of one function, and of one of its entries (equal objects that are not the same need one each).
MAX_ROUTES, MAX_OF_ENTRY = 16, 4
#: Calls with arguments of other kinds after which none of an entry is looked at.
MAX_ROUTELESS = 8
#: Tensors of a call that native code can tell apart.
MAX_TENSORS = 64

Route = tuple[Any, ...]
_ENTRY = 8  # where a route has its entry


class _OtherError(Exception):
    """An argument that only Python can compare."""


def route_of(
    entry: Entry,
    tensors: Sequence[Tensor],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    counter: np.ndarray,
    known: Sequence[Route] = (),
) -> Route | None:
    """The route of a call that ``entry`` just served, None where native code cannot recognise it.

    ``counter`` counts the calls it serves, ``known`` are the routes of the function.

    >>> f = tj.compile(lambda x: x + 1)
    >>> _ = f(tj.ones(2)), f(tj.ones(2))
    >>> [str(layout) for route in f._routes for _, layout, *_ in route[4]]
    ['f32[2]']
    """
    serve = entry.ready
    guard = entry.guard
    if serve is None or guard is None or entry.routeless > MAX_ROUTELESS:
        return None
    python = entry.sizes or entry.held or entry.extents or entry.handed_in
    python = python or entry.owner.uses.changes_arguments
    python = python or entry.owner.uses.asks_which_are_one(entry)
    if len(tensors) > MAX_TENSORS or python:  # what Python adds, or does besides
        entry.routeless = MAX_ROUTELESS + 1
        return None
    if sum(route[_ENTRY] is entry for route in known) >= MAX_OF_ENTRY:
        return None
    numbers = _Numbers(entry)
    try:
        described = tuple([_described(x, numbers) for x in (*args, *kwargs.values())])
    except _OtherError:
        entry.routeless += 1
        return None
    positions: dict[int, int] = {}
    firsts = [positions.setdefault(id(t), i) for i, t in enumerate(tensors)]
    words = np.array([counter.ctypes.data, *firsts, 0], dtype=np.int64)
    address = _Address(words.ctypes.data)
    address.words, address.kept = words, counter
    names = tuple(kwargs) if kwargs else None
    accepts = entry.accepts if entry.pinned else None
    return (*entry.key[:3], names, described, address, guard.holds, serve, entry, accepts)


class _Numbers:
    """The numbers of a call, in order: those that vary, and all others; and which tensors came requiring grad."""

    def __init__(self, entry: Entry) -> None:
        self.varying = entry.varying
        self.wants = iter(entry.wants)  # a call may have changed it
        self.count = 0

    def described(self, value: Any) -> tuple[Any, ...]:
        """The description of the next number."""
        number, self.count = self.count, self.count + 1
        return False, type(value), None if number in self.varying else value


def _described(value: Any, numbers: _Numbers) -> tuple[Any, ...]:
    """What native code compares an argument with."""
    if isinstance(value, Tensor):
        if value._base is not None or value._layout is None:
            raise _OtherError
        return None, value._layout, next(numbers.wants), value._inference, type(value)
    kind = type(value)
    if kind is list or kind is tuple:
        return kind, tuple([_described(x, numbers) for x in value])
    if kind is dict and all(type(key) is str for key in value):
        return kind, tuple([_described(x, numbers) for x in value.values()]), tuple(value)
    if numbers.varying and is_number(value):
        return numbers.described(value)
    static = flatten(value, [])
    if isinstance(static, Static) and (static.identity or kind in _CONSTANT):
        return True, value
    raise _OtherError


#: Classes of objects that never change, though others may equal them.
_CONSTANT = (type(None), bool, int, float, complex, str, bytes)


def open_door(cls: Any) -> None:
    """Have instances of ``cls`` called natively, unless something else stands in for ``__call__``.

    >>> open_door(tj.CompiledFunction)
    """
    if vars(cls)["__call__"] is not cls._call:
        return
    module = native()
    if module.knows_objects:
        set_context("function_routes", slot_offset(cls, "_routes"))
        set_context("slow_call", id(cls._call))
        set_context("ended", id(cls._ended))
        keep_for_ever(cls._call, cls._ended)
        cls.__call__ = module.method(module.call, cls)
