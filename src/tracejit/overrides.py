"""Questions about arguments that take functions over, for code that asks them before it calls one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

__all__ = [
    "TorchFunctionMode",
    "handle_torch_function",
    "has_torch_function",
    "has_torch_function_unary",
    "has_torch_function_variadic",
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
