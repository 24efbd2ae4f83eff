"""Composite functions whose steps follow from the types of their operands and from their other arguments.

Such a function runs the same ops on all tensors of some types, so eager execution need not find out every time which
(`tracejit.steps`). It must not look at elements, draw random numbers, write into tensors, or warn.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from .tensors_only import refuse_others

__all__ = ["STEADY", "remembered", "set_memory"]

#: Runs a function with positional and other arguments.
Memory = Callable[[Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]

#: The names of the published functions that are so.
STEADY: list[str] = []


def _as_written(target: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    return target(*args, **kwargs)


_run: Memory = _as_written


def remembered(target: Callable[..., Any]) -> Callable[..., Any]:
    """``target``, which eager execution may run by steps that it remembers.

    >>> import tracejit as tj
    >>> double = remembered(lambda x: tj.add(x, x))
    >>> [double(tj.tensor([1.0 * i])).item() for i in range(4)]
    [0.0, 2.0, 4.0, 6.0]
    """

    @wraps(target)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return _run(target, args, kwargs)
        except AttributeError:
            refuse_others(target, args, kwargs)
            raise

    return call


def set_memory(memory: Memory) -> None:
    """Install what remembers steps (done once by ``tracejit.steps``).

    >>> from tracejit.steps import run
    >>> set_memory(run)
    """
    global _run
    _run = memory
