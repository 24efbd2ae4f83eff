"""Putting numbers that vary in the place of the numbers among the arguments of a call, and out of its results."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from operator import is_
from typing import Any

from ...numpy_numbers import NUMBERS
from ...tensor import Tensor
from ...varying import is_varying, plain
from ..recording.results import is_made_of_objects, result_of
from ..signature import MAPPINGS, fields_of
from .plain_parts import plain_keys, remade

Change = Callable[[], None]


@contextmanager
def standing_in(args: Any, kwargs: Any, replace: Callable[[Any], Any]) -> Iterator[tuple[Any, Any]]:
    """Arguments in which ``replace`` was applied to every number; the caller's own objects are as before afterwards."""
    changes: list[Change] = []
    try:
        new_args = tuple([_replaced(x, replace, changes) for x in args])
        yield new_args, {key: _replaced(x, replace, changes) for key, x in kwargs.items()}
    finally:
        for undo in reversed(changes):
            undo()


def _replaced(value: Any, replace: Callable[[Any], Any], changes: list[Change]) -> Any:
    """``value`` with its numbers replaced, in the order in which signatures list them."""
    kind = type(value)
    if isinstance(value, Tensor):
        return value
    if kind in NUMBERS:
        return replace(value)
    if kind is tuple:
        return tuple([_replaced(x, replace, changes) for x in value])
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return kind(*[_replaced(x, replace, changes) for x in value])
    if kind is list:
        for i, x in enumerate(value):
            _put(value.__getitem__, value.__setitem__, i, _replaced(x, replace, changes), changes)
    elif kind in MAPPINGS:
        for key, x in value.items():
            _put(value.get, value.__setitem__, key, _replaced(x, replace, changes), changes)
    else:
        for name in fields_of(value) or ():
            new = _replaced(getattr(value, name), replace, changes)
            _put(_getter(value), _setter(value), name, new, changes)
    return value


def _put(
    get: Callable[..., Any], put: Callable[..., Any], key: Any, new: Any, changes: list[Change]
) -> None:
    old = get(key)
    if old is new:
        return
    put(key, new)

    def undo() -> None:
        try:
            now = get(key)
        except (LookupError, AttributeError):
            return
        if now is new:
            put(key, old)
        elif is_varying(now):
            put(key, plain(now))

    changes.append(undo)


def put_number(args: Any, kwargs: Any, position: int, value: Any) -> None:
    """Put ``value`` for the number at ``position`` among the arguments, as signatures count them, in its container.

    >>> state = {"step": 1, "rate": 0.5}
    >>> put_number((state,), {}, 0, 2)
    >>> state
    {'step': 2, 'rate': 0.5}
    """
    positions = count()
    for part in (*args, *kwargs.values()):
        _replaced(part, lambda old: value if next(positions) == position else old, [])


def _getter(value: Any) -> Callable[[str], Any]:
    return lambda name: getattr(value, name)


def _setter(value: Any) -> Callable[[str, Any], None]:
    return lambda name, new: object.__setattr__(value, name, new)


def without_varying(result: Any, structure: Any, leaves: Sequence[Any]) -> Any:
    """A result with values for the varying numbers among its ``leaves``."""
    if is_made_of_objects(structure):
        return result_of(structure, iter([plain(x) if is_varying(x) else x for x in leaves]))
    return _with_values(result)


def _with_values(result: Any) -> Any:
    """A result with values for the varying numbers in it; what can be changed stays the same object."""
    if is_varying(result):
        return plain(result)
    kind = type(result)
    if isinstance(result, tuple):
        parts = tuple(map(_with_values, result))
        return result if all(map(is_, parts, result)) else remade(kind, parts)
    if kind is slice:
        return slice(*map(_with_values, (result.start, result.stop, result.step)))
    if kind is list:
        result[:] = map(_with_values, result)
    elif kind in MAPPINGS:
        for key, x in list(result.items()):
            result[key] = _with_values(x)
        plain_keys(result)
    elif not isinstance(result, Tensor):
        for name in fields_of(result) or ():
            object.__setattr__(result, name, _with_values(getattr(result, name)))
    return result
