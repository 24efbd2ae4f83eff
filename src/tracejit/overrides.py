"""Questions about arguments that take functions over, for code that asks them before it calls one."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

__all__ = [
    "TorchFunctionMode",
    "handle_torch_function",
    "has_torch_function",
    "has_torch_function_unary",
    "has_torch_function_variadic",
    "is_tensor_like",
    "wrap_torch_function",
]


def has_torch_function(relevant_args: Iterable[Any]) -> bool:
    """Does the class of one of them define ``__torch_function__``?

    >>> import tracejit as tj
    >>> has_torch_function((tj.ones(1), 3))
    False
    """
    return any(hasattr(type(arg), "__torch_function__") for arg in relevant_args)


def has_torch_function_unary(arg: Any) -> bool:
    """The same of one argument.

    >>> has_torch_function_unary(3)
    False
    """
    return has_torch_function((arg,))


def has_torch_function_variadic(*args: Any) -> bool:
    """The same of any number of arguments.

    >>> has_torch_function_variadic(3, "text")
    False
    """
    return has_torch_function(args)


def handle_torch_function(
    public_api: Callable[..., Any], relevant_args: Iterable[Any], *args: Any, **kwargs: Any
) -> Any:
    """What the first argument whose class takes functions over answers.

    Raises ``TypeError`` when none of them does.

    >>> class Loud:
    ...     @classmethod
    ...     def __torch_function__(cls, func, types, args=(), kwargs=None):
    ...         return func.__name__.upper()
    >>> handle_torch_function(len, (Loud(),), Loud())
    'LEN'
    """
    takers = [arg for arg in relevant_args if has_torch_function((arg,))]
    types = tuple(dict.fromkeys(map(type, takers)))
    for arg in takers:
        answer = type(arg).__torch_function__(public_api, types, args, kwargs)
        if answer is not NotImplemented:
            return answer
    name = getattr(public_api, "__name__", public_api)
    raise TypeError(f"no implementation found for '{name}' on types that define __torch_function__")


def is_tensor_like(inp: Any) -> bool:
    """Is this a tensor, or of a class that takes functions over?

    >>> import tracejit as tj
    >>> is_tensor_like(tj.ones(1)), is_tensor_like(3)
    (True, False)
    """
    return hasattr(type(inp), "retain_grad") or hasattr(type(inp), "__torch_function__")


def wrap_torch_function(
    dispatcher: Callable[..., Iterable[Any]],
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator: where one of those that ``dispatcher`` names takes functions over, it answers.

    >>> @wrap_torch_function(lambda a: (a,))
    ... def twice(a):
    ...     return a * 2
    >>> twice(3)
    6
    """

    def wrap(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            relevant = tuple(dispatcher(*args, **kwargs))
            if has_torch_function(relevant):
                return handle_torch_function(wrapped, relevant, *args, **kwargs)
            return function(*args, **kwargs)

        return wrapped

    return wrap


class TorchFunctionMode:
    """A mode in which a class takes all functions over. It can be derived from and made; entering it is refused.

    >>> class Loud(TorchFunctionMode):
    ...     pass
    >>> with Loud():
    ...     pass
    Traceback (most recent call last):
    NotImplementedError: Loud: no mode takes functions over here; wrap the functions that are called
    """

    def __enter__(self) -> Any:
        raise NotImplementedError(
            f"{type(self).__name__}: no mode takes functions over here; wrap the functions that are called"
        )

    def __exit__(self, *_: Any) -> None:
        """Never entered, never left."""
