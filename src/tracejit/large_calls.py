"""Composite functions of large tensors in eager programs, and those of many ops, by compiled code.

A function such as ``softmax`` is several ops, each of which goes through memory and some of which take NumPy long;
where PyTorch has one function for all of it, eager calls took up to twenty times as long. So a function that was called
with much to compute is compiled by this package itself, once for each kind of its other arguments. Which calls are
compiled code depends on what was called before, not on a clock.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from . import config, dtypes
from .determinism import are_deterministic_algorithms_enabled
from .modes import MODES
from .ops.composed import LONG, set_composed
from .steps import usual
from .tensor import Tensor

__all__ = ["run"]

#: Elements that a function computes as it is written before it is compiled, which takes about as long.
PATIENCE = 1 << 22
#: How often a function of many ops is computed as it is written, for tensors of the same sizes, before it is compiled;
#: and how many sizes are counted.
CALLS, MOST_MET = 8, 1 << 12
#: The most kinds of calls that are compiled; functions called in more ways run as they are written.
MOST = 256
#: Arguments besides tensors that say all about themselves.
_VALUES = frozenset({bool, int, float, complex, str, type(None), dtypes.DType})
#: Stands in a kind of call where a tensor is handed over.
_TENSOR = object()


class _Inside(threading.local):
    """Is this thread in such a function? Those that it is made of run as they are written."""

    one: bool = False


_INSIDE = _Inside()
_met: dict[Any, int] = {}
_compiled: dict[Any, Callable[..., Any]] = {}


def run(target: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """What ``target`` gives, by compiled code where that serves.

    >>> import tracejit as tj
    >>> run(tj.neg, (tj.ones(1),), {})
    tensor([-1.])
    """
    if _INSIDE.one:
        return target(*args, **kwargs)
    found = None if kwargs.get("inplace") else _serving(target, args, kwargs)
    _INSIDE.one = True
    try:
        if found is None:
            return target(*args, **kwargs)
        function, tensors = found
        return function(*tensors)
    finally:
        _INSIDE.one = False


def _serving(
    target: Callable[..., Any], args: Any, kwargs: Any
) -> tuple[Callable[..., Any], list[Tensor]] | None:
    """The compiled function that serves a call, and what it is given; None where the call runs as it is written."""
    if config.disabled or MODES.saved_hooks or MODES.autocast is not None or not usual():
        return None
    if are_deterministic_algorithms_enabled():  # equal calls have equal bits, early and late
        return None
    tensors: list[Tensor] = []
    given = (*args, *kwargs.values())
    kind = _kind(given, tensors)
    if kind is None:
        return None
    what, size = _weighed(target, tensors)
    met = _met.get(what, 0)
    if met < PATIENCE:
        if len(_met) >= MOST_MET:
            _met.clear()
        _met[what] = met + size
        return None
    names = tuple(kwargs)
    key = (target, len(args), names, dtypes.get_default_dtype(), *kind)
    found = _compiled.get(key)
    if found is None:
        if len(_compiled) >= MOST:
            return None
        found = _compiled[key] = _compile(target, given, len(args), names)
    return found, tensors


def _weighed(target: Callable[..., Any], tensors: Sequence[Tensor]) -> tuple[Any, int]:
    """What is counted of a call, and how much: elements, or calls for tensors of the same sizes."""
    if target in LONG:
        return (target, *(x._array.shape for x in tensors)), PATIENCE // CALLS
    return target, max([x._array.size for x in tensors])


def _kind(given: Sequence[Any], tensors: list[Tensor]) -> list[Any] | None:
    """What the arguments besides tensors are; None where they may be something else in the next call."""
    kind: list[Any] = []
    for x in given:
        if isinstance(x, Tensor):
            if type(x._array) is not np.ndarray:
                return None
            tensors.append(x)
            kind.append(_TENSOR)
        elif type(x) in _VALUES:  # numbers that are equal may not be the same: 0.0 and -0.0
            kind += (type(x), x or repr(x))
        elif isinstance(x, (tuple, list)) and _VALUES.issuperset(map(type, x)):
            kind += (type(x), tuple(map(type, x)), tuple([y or repr(y) for y in x]))
        else:
            return None
    return kind


def _compile(
    target: Callable[..., Any], given: Sequence[Any], count: int, names: tuple[str, ...]
) -> Callable[..., Any]:
    """A compiled function of the tensors among the arguments alone; ``count`` of these have no name."""
    from .jit import compile

    arguments = [_TENSOR if isinstance(x, Tensor) else x for x in given]

    def call(*tensors: Any) -> Any:
        rest = iter(tensors)
        filled = [next(rest) if x is _TENSOR else x for x in arguments]
        return target(*filled[:count], **dict(zip(names, filled[count:], strict=True)))

    call.__name__ = call.__qualname__ = target.__name__
    compiled: Callable[..., Any] = compile(call)
    return compiled


set_composed(run)
