"""Functions that would see the value of a number: ``math.sqrt``, ``float``, ``int``, while a function is recorded.

They are written in C and take the value of whatever they get. So while a function with numbers that vary is recorded,
or from the moment on that it finds a size which only the run tells, the names by which its code reaches them lead to
functions that keep a varying number one.
"""

from __future__ import annotations

import builtins
import collections
import gc
import math
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from types import BuiltinFunctionType, CodeType, FunctionType
from typing import Any, TypeGuard

from ... import bytecode
from ...extents import Extent
from ...varying import (
    MATH,
    MATH_FUNCTIONS,
    VaryingInt,
    derived,
    is_varying,
    number_of,
    plain,
)
from ..state.checks import Cell, Check, Item, Read
from ..state.other_threads import codes_of, others_compute, others_run
from ..state.reads import only_called, reads_of
from ..state.special import CACHES
from ..state.state import StateGuard
from ..state.values import MISSING
from .clocks import clock_like
from .drawn import drawing_like
from .places import Place
from .plain_parts import plain_parts
from .sums import CARRIES, summed


def following(guard: StateGuard) -> AbstractContextManager[None]:
    """The names in the code that ``guard`` is about lead to functions that keep numbers varying."""
    return _replaced([x for x in guard.checks if type(x) in (Item, Cell)], guard)


def following_sums(guard: StateGuard) -> AbstractContextManager[None]:
    """``sum`` leads to a function that keeps numbers varying: those that a run finds while it sums are in time."""
    sums = (
        check
        for check in (guard.checks if CARRIES else ())
        if leads_to(sum, check) or _is_missing(check, "sum") or _leads_to_module(check)
    )
    return _replaced(sums, guard)


@contextmanager
def _replaced(checks: Iterable[Check], guard: StateGuard) -> Iterator[None]:
    """What these checks are about is replaced where that can be followed, and what counters call."""
    undo: list[Callable[[], None]] = []
    try:
        for check in (*checks, *_in_counters(guard)):
            _replace(check, guard, undo)
        yield
    finally:
        for step in undo:
            step()


def _in_counters(guard: StateGuard) -> list[Item]:
    """Where ``Counter.total()`` looks for ``sum``, if that carries and code may call it."""
    if not CARRIES or not any(_mentions(code, {"total"}) for code in guard.codes):
        return []
    return [Item(vars(collections), "global 'sum'", "sum", MISSING)]


def _replace(check: Any, guard: StateGuard, undo: list[Callable[[], None]]) -> None:
    codes = guard.codes
    new = _stand_in(check.expected)
    if _leads_to_module(check):
        apart = _apart(check, codes)
        new = None if apart is None else _Builtins(apart)
    if leads_to_cache(check) and cache_is_called(check, guard):
        new = partial(_remembered, check.expected)
    if new is not None and check.current() is check.expected:
        place = Place(check, object)
        if type(check.holder) in (dict, list) or isinstance(check, Cell):
            place.put(new)
            undo.append(lambda: place.put(check.expected) if place.read() is new else None)
    elif type(check) is Item and type(check.holder) is dict:
        call, namespace, key = _builtin(check), check.holder, check.key
        if call is None or not may_lead_elsewhere(namespace, key, codes):
            return
        namespace[key] = call
        undo.append(lambda: _put_back(check) if namespace.get(key) is call else None)


def _builtin(check: Item) -> Any:
    """What stands in for a function written in C that a name of a module leads to, or None."""
    if check.expected is MISSING:
        return _BUILTINS.get(check.key)
    if isinstance(check.expected, CACHES):
        return partial(_remembered, check.expected)
    # Of the others a number that varies hears what they ask.
    return _ELSEWHERE.get(id(check.expected)) if check.holder is not vars(builtins) else None


def _put_back(check: Item) -> None:
    if check.expected is MISSING:
        del check.holder[check.key]
    else:
        check.holder[check.key] = check.expected


def may_lead_elsewhere(namespace: dict[str, Any], name: str, codes: Sequence[CodeType]) -> bool:
    """May a global lead to another function, or to one in place of a class, while ``codes`` are recorded?

    Only calls are alike. Where there are other threads, this holds for whatever they may run in the namespace.
    """
    if not only_called(codes, name):
        return False
    return not others_run() or (not others_compute() and only_called(codes_of(namespace), name))


def _leads_to_module(check: Check) -> bool:
    """Does a name, or anything else, lead to the module ``builtins``, or to its namespace?"""
    if not isinstance(check, Read):
        return False
    return check.expected is builtins or check.expected is vars(builtins)


def _apart(check: Any, codes: Sequence[CodeType]) -> frozenset[str] | None:
    """What must be found as it is in the module ``builtins``, to which a name leads; None: all, and so must the module.

    Only calls are alike, as in :func:`may_lead_elsewhere`.
    """
    if type(check) is not Item or type(check.holder) is not dict or check.expected is not builtins:
        return None
    if others_run():
        if others_compute():
            return None
        codes = [*codes, *codes_of(check.holder)]
    found = [bytecode.attributes_not_only_called(x, check.key) for x in codes]
    apart = frozenset().union(*found)
    return None if "" in apart else apart


def _mentions(code: CodeType, names: Collection[str]) -> bool:
    """Has code one of these names, or a text that is one? Every recording asks, so nothing is looked up by code."""
    return any(x in names for x in code.co_names) or any(
        type(x) is str and x in names for x in code.co_consts
    )


def _found_in_module(name: str, codes: Sequence[CodeType], checks: Sequence[Check]) -> bool:
    """May code find a built-in function in the module ``builtins``, and not what stands for it?"""
    if not any(_mentions(code, {name}) for code in codes):
        return False
    for code in codes:
        if _mentions(code, _TO_MODULE):
            found = reads_of(code)
            if not _TO_MODULE.isdisjoint(found.imports | found.attributes):
                return True
            if "__builtins__" in found.globals:
                return True
    ways = [_apart(check, codes) for check in checks if _leads_to_module(check)]
    return any(apart is None or name in apart or name not in _IN_MODULE for apart in ways)


def leads_to_cache(check: Check) -> TypeGuard[Cell]:
    """Is this a variable of closures that leads to a function with a cache?"""
    return isinstance(check, Cell) and isinstance(check.expected, CACHES)


def cache_is_called(check: Cell, guard: StateGuard) -> bool:
    """Is such a variable only called, by all that may run meanwhile?"""
    reached = [x for x in guard.reached.values() if isinstance(x, FunctionType)]
    names = _names_of(check.holder, reached)
    used = (name for code in guard.codes for name in bytecode.shared_not_only_called(code))
    if not names or not names.isdisjoint(used):
        return False
    return not others_run() or (not others_compute() and _is_called_by_all(check.holder))


def _names_of(cell: Any, functions: Sequence[FunctionType]) -> set[str]:
    """What functions call a variable that they share."""
    return {
        name
        for function in functions
        for name, held in zip(
            function.__code__.co_freevars, function.__closure__ or (), strict=True
        )
        if held is cell
    }


def _is_called_by_all(cell: Any) -> bool:
    """Is a variable only called by all functions that share it, whoever runs them?"""
    closures = [x for x in gc.get_referrers(cell) if type(x) is tuple]
    holders = (
        [x for x in gc.get_referrers(*closures) if isinstance(x, FunctionType)] if closures else []
    )
    return all(
        _names_of(cell, [x]).isdisjoint(bytecode.shared_not_only_called(x.__code__))
        for x in holders
    )


def type_is_followed(codes: Sequence[CodeType], checks: Sequence[Check]) -> bool:
    """Do all names of ``type`` lead to a stand-in while this code is recorded? They are among what is checked."""
    return only_called(codes, "type") and _is_followed(type, codes, checks)


def type_in_module(codes: Sequence[CodeType], checks: Sequence[Check]) -> bool:
    """May this code find ``type`` in the module ``builtins``, where it is not followed?"""
    return _found_in_module("type", codes, checks)


def sum_is_followed(guard: StateGuard, statics: Iterable[Any]) -> bool:
    """The same of ``sum``, which the arguments ``statics`` may be; True where none is needed."""
    if not CARRIES:
        return True
    if guard.limits:
        return False  # what lies behind them is not known
    if not all(may_lead_elsewhere(x.holder, x.key, guard.codes) for x in _in_counters(guard)):
        return False
    if id(sum) not in guard.reached:
        return True
    followed = _is_followed(sum, guard.codes, guard.checks)
    followed = followed and not _found_in_module("sum", guard.codes, guard.checks)
    held = (x for holder in guard.reached.values() for x in _held_for_calls(holder))
    return followed and not any(x is sum for x in (*statics, *held))


def _held_for_calls(holder: Any) -> tuple[Any, ...]:
    """What a function or a part of one is given when it is called."""
    if type(holder) is FunctionType:
        return holder.__defaults__ or ()
    if isinstance(holder, partial):
        return (holder.func, *holder.args, *holder.keywords.values())
    return ()


def _is_followed(builtin: Any, codes: Sequence[CodeType], checks: Sequence[Check]) -> bool:
    return all(
        type(check) is Item
        and type(check.holder) is dict
        and may_lead_elsewhere(check.holder, check.key, codes)
        for check in checks
        if leads_to(builtin, check) or _is_missing(check, builtin.__name__)
    )


def leads_to(builtin: Any, check: Check) -> bool:
    """Is there another name for ``type``, or ``sum``, in a module or in a closure?"""
    if not isinstance(check, Read) or check.expected is not builtin:
        return False
    return check.holder is not vars(builtins)


def _is_missing(check: Check, name: str) -> bool:
    return type(check) is Item and check.expected is MISSING and check.key == name


def _stand_in(value: Any) -> Any:
    if value is math:
        return MATH
    known = MATH_FUNCTIONS.get(value) if type(value) is BuiltinFunctionType else None
    return known or clock_like(value) or drawing_like(value)


def _float(x: Any = 0.0) -> Any:
    """``float`` that keeps a varying number one."""
    x = number_of(x)
    if is_varying(x):
        return x if type(plain(x)) is float else derived("float", x)
    return float(x)


def _int(x: Any = 0, *base: Any, **named: Any) -> Any:
    """``int`` that keeps a varying number one."""
    x = number_of(x)
    if base or named:
        return int(x, *base, **named)
    if is_varying(x):
        return x if type(x) is VaryingInt else derived("int", x)
    return x if type(x) is Extent else int(x)


def _len(x: Any) -> Any:
    """``len`` that keeps a size one."""
    return x.shape[0] if hasattr(type(x), "takes_varying_numbers") and x.ndim else len(x)


def _type(*given: Any, **named: Any) -> Any:
    """``type`` that says of a varying number, or of a size, what a true one is."""
    if len(given) == 1 and not named:
        x = plain(given[0])
        return int if type(x) is Extent else type(x)
    if len(given) == 3 and type(given[2]) is dict and "__module__" not in given[2]:
        module = sys._getframe(1).f_globals.get(
            "__name__"
        )  # a class is of the module that makes it
        given = (*given[:2], {**given[2], "__module__": module})
    return type(*given, **named)


def _remembered(cache: Any, /, *given: Any, **named: Any) -> Any:
    """What a function with a cache gives for the numbers that these stand for: it knows a lone ``int`` by its type."""
    return cache(*map(_settled, given), **{key: _settled(x) for key, x in named.items()})


def _settled(x: Any) -> Any:
    """A varying number or size as the constant that it is from here on."""
    found = plain_parts(x)
    if found is not x:
        hash(x)  # which says so
    return found


class _Builtins:
    """Stands for the module ``builtins``; what is named in ``apart`` is found as it is."""

    def __init__(self, apart: frozenset[str]) -> None:
        self._apart = apart

    def __getattr__(self, name: str) -> Any:
        found = getattr(builtins, name)
        original, function = _IN_MODULE.get(name, (None, None))
        return function if found is original and name not in self._apart else found


_BUILTINS = {"float": _float, "int": _int, "len": _len, "type": _type}
#: Those that are followed under other names too.
_ELSEWHERE = {id(type): _type}
if CARRIES:
    _BUILTINS["sum"] = _ELSEWHERE[id(sum)] = summed
#: Those that are followed as attributes of the module, with what they stand for.
_IN_MODULE = {name: (getattr(builtins, name), x) for name, x in _BUILTINS.items() if name != "type"}
#: What code mentions that comes to the module ``builtins`` by other ways than a name of its own module.
_TO_MODULE = frozenset({"builtins", "__builtins__", "__self__"})
