"""Composite functions that eager programs have compiled code compute on large tensors (`tracejit.large_calls`).

Each of their ops goes through memory once, and some of NumPy's loops take long: where PyTorch has one function for all
of it, a kernel does as much. Such a function looks at no elements but for errors, and draws no random numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from .tensors_only import refuse_others

__all__ = ["COMPOSED", "LONG", "composed", "is_large", "run_composed", "set_composed"]

#: Runs a function with positional and other arguments.
Runner = Callable[[Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]

#: Elements of a tensor from which on it is large: a compiled call takes as long as NumPy for a third of them.
LEAST = 1 << 13
#: The functions that are so, as they are written, and those of many ops, of which all tensors are large.
COMPOSED: set[Callable[..., Any]] = set()
LONG: set[Callable[..., Any]] = set()


def _as_written(target: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    return target(*args, **kwargs)


_run: Runner = _as_written


def is_large(args: Any) -> bool:
    """Is one of the arguments a large tensor?

    >>> import tracejit as tj
    >>> is_large((tj.ones(3), 2)), is_large((tj.ones(1 << 13),))
    (False, True)
    """
    for x in args:
        array = getattr(x, "_array", None)
        if array is not None and array.size >= LEAST:
            return True
    return False


def composed(target: Callable[..., Any], long: bool = False) -> Callable[..., Any]:
    """``target``, which eager programs may have compiled code compute; where it is ``long``, on small tensors, too.

    >>> import tracejit as tj
    >>> half = composed(lambda x: tj.mul(x, 0.5))
    >>> half(tj.ones(2))
    tensor([0.5000, 0.5000])
    """
    COMPOSED.add(target)
    if long:
        LONG.add(target)

    @wraps(target)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return _run(target, args, kwargs) if long or is_large(args) else target(*args, **kwargs)
        except AttributeError:
            refuse_others(target, args, kwargs)
            raise

    return call


def run_composed(target: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """What ``target`` gives, computed by compiled code if it is one of `COMPOSED` and that serves.

    >>> import tracejit as tj
    >>> run_composed(tj.neg, (tj.ones(1),), {})
    tensor([-1.])
    """
    if target in COMPOSED and is_large(args):
        return _run(target, args, kwargs)
    return target(*args, **kwargs)


def set_composed(run: Runner) -> None:
    """Install what has compiled code compute such functions (done once by ``tracejit.large_calls``).

    >>> from tracejit.large_calls import run
    >>> set_composed(run)
    """
    global _run
    _run = run
