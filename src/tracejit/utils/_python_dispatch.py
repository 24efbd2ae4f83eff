"""Modes that are told of every operator, by PyTorch's names: ``TorchDispatchMode`` and what goes with it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, ClassVar

from ..listening.modes import enter, leave
from ..listening.stack import LISTENERS
from ..tensor import Tensor

__all__ = [
    "TorchDispatchMode",
    "_disable_current_modes",
    "_get_current_dispatch_mode",
    "_get_current_dispatch_mode_stack",
    "_pop_mode_temporarily",
    "is_in_torch_dispatch_mode",
    "is_traceable_wrapper_subclass",
    "return_and_correct_aliasing",
]


class TorchDispatchMode:
    """A context in which ``__torch_dispatch__`` is told of every operator instead of its being run.

    It gets the operator, an empty row of types, and the arguments as PyTorch has them, and answers with the result;
    ``func(*args, **kwargs)`` is what would have been. Inside of it the mode is not entered.

    >>> import tracejit as tj
    >>> class Names(TorchDispatchMode):
    ...     def __torch_dispatch__(self, func, types, args=(), kwargs=None):
    ...         print(func)
    ...         return func(*args, **(kwargs or {}))
    >>> x, weight, bias = tj.ones(2, 3), tj.ones(4, 3), tj.ones(4)
    >>> with Names():
    ...     _ = tj.nn.functional.linear(x, weight, bias)
    aten.t.default
    aten.addmm.default
    """

    supports_higher_order_operators: ClassVar[bool] = False

    def __init__(self, _dispatch_key: Any = None) -> None:
        self._dispatch_key = _dispatch_key

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """The result of an operator."""
        raise NotImplementedError

    def __enter__(self) -> Any:
        enter("dispatch", self)
        return self

    def __exit__(self, exc_type: Any, exc_val: Any, exc_tb: Any) -> None:
        leave("dispatch")

    @classmethod
    def push(cls, *args: Any, **kwargs: Any) -> Any:
        """A mode of this class."""
        return cls(*args, **kwargs)

    @classmethod
    def is_infra_mode(cls) -> bool:
        """Is it part of a tracer?"""
        return False


def _get_current_dispatch_mode() -> Any:
    """The innermost mode; None where there is none.

    >>> _get_current_dispatch_mode()
    """
    return LISTENERS.dispatch[-1] if LISTENERS.dispatch else None


def _get_current_dispatch_mode_stack() -> list[Any]:
    """All modes, the outermost first.

    >>> _get_current_dispatch_mode_stack()
    []
    """
    return list(LISTENERS.dispatch)


def is_in_torch_dispatch_mode(include_infra_modes: bool = True) -> bool:
    """Is there a mode?

    >>> is_in_torch_dispatch_mode()
    False
    """
    return bool(LISTENERS.dispatch)


@contextlib.contextmanager
def _pop_mode_temporarily(k: Any = None) -> Iterator[Any]:
    """Inside, the innermost mode is not there.

    >>> with TorchDispatchMode(), _pop_mode_temporarily():
    ...     _get_current_dispatch_mode()
    """
    before = LISTENERS.dispatch
    LISTENERS.dispatch = before[:-1]
    try:
        yield before[-1]
    finally:
        LISTENERS.dispatch = before


@contextlib.contextmanager
def _disable_current_modes() -> Iterator[Any]:
    """Inside, there are no modes.

    >>> with TorchDispatchMode(), _disable_current_modes():
    ...     _get_current_dispatch_mode()
    """
    before = LISTENERS.dispatch
    LISTENERS.dispatch = ()
    try:
        yield list(before)
    finally:
        LISTENERS.dispatch = before


def is_traceable_wrapper_subclass(t: Any) -> bool:
    """Is it a tensor of a class that tells what is inside?

    >>> is_traceable_wrapper_subclass(3)
    False
    """
    kind = type(t)
    return (
        issubclass(kind, Tensor)
        and kind is not Tensor
        and hasattr(kind, "__tensor_flatten__")
        and hasattr(kind, "__tensor_unflatten__")
    )


def return_and_correct_aliasing(func: Any, args: Any, kwargs: Any, out: Any) -> Any:
    """What a class that answers for operators returns: the operand itself, for those that write to it.

    >>> import tracejit as tj
    >>> x = tj.ones(1)
    >>> return_and_correct_aliasing(tj.ops.aten.add_.Tensor, (x, 1), {}, tj.ones(1)) is x
    True
    """
    return args[0] if func._schema.is_mutable and args else out
