"""Context managers that decorate functions too, by PyTorch's names."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from ..autograd.grad_mode import _Mode

__all__ = ["context_decorator"]


class _Entered(_Mode):
    """The context managers that ``make`` gives, one for each call."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make

    def __enter__(self) -> Any:
        self._context = self._make()
        return self._context.__enter__()

    def __exit__(self, *error: object) -> Any:
        return self._context.__exit__(*error)

    def _again(self) -> _Mode:
        return _Entered(self._make)


def context_decorator(ctx: Any, func: Callable[..., Any]) -> Callable[..., Any]:
    """``func``, a function or a generator function, inside of a context manager at each call: ``ctx`` or what it makes.

    >>> import contextlib
    >>> context_decorator(contextlib.nullcontext(), max)(1, 2)
    2
    """
    if callable(ctx) and hasattr(ctx, "__enter__"):
        raise AssertionError(
            f"Passed in {ctx} is both callable and also a valid context manager (has __enter__), making it ambiguous "
            "which interface to use. Say lambda: ctx for a factory."
        )
    if inspect.isclass(func):
        raise RuntimeError(
            "Cannot decorate classes; it is ambiguous whether or not only the constructor or all methods should have "
            "the context manager applied; decorate __init__ or the methods"
        )
    make = ctx if callable(ctx) else (lambda: ctx)
    return _Entered(make)(func)


class _DecoratorContextManager:
    """A context manager that decorates functions; each call has one of its own, by ``clone``."""

    def __call__(self, orig_func: Callable[..., Any]) -> Callable[..., Any]:
        """The function, inside of this."""
        return context_decorator(self.clone, orig_func)

    def __enter__(self) -> None:
        raise NotImplementedError

    def __exit__(self, exc_type: Any, exc_value: Any, traceback: Any) -> None:
        raise NotImplementedError

    def clone(self) -> Any:
        """Another one like this."""
        return self.__class__()


class _NoParamDecoratorContextManager(_DecoratorContextManager):
    """One that decorates without parentheses, too."""

    def __new__(cls, orig_func: Callable[..., Any] | None = None) -> Any:
        made = super().__new__(cls)
        return made if orig_func is None else made(orig_func)


def _wrap_generator(ctx_factory: Callable[[], Any], func: Callable[..., Any]) -> Callable[..., Any]:
    """A generator function whose steps run inside of what ``ctx_factory`` makes."""
    return functools.wraps(func)(_Entered(ctx_factory)(func))
