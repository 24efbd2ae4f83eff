"""Arguments that take functions over, and modes that are told of functions."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from typing import Any

from .listening.classes import ask, takes
from .listening.modes import enter, leave, tell
from .listening.stack import LISTENERS, door
from .modes import MODES

__all__ = [
    "BaseTorchFunctionMode",
    "TorchFunctionMode",
    "enable_reentrant_dispatch",
    "get_default_nowrap_functions",
    "get_ignored_functions",
    "get_overridable_functions",
    "get_testing_overrides",
    "handle_torch_function",
    "has_torch_function",
    "has_torch_function_unary",
    "has_torch_function_variadic",
    "is_tensor_like",
    "is_tensor_method_or_property",
    "resolve_name",
    "wrap_torch_function",
]


def has_torch_function(relevant_args: Iterable[Any]) -> bool:
    """Does the class of one of them take functions over, or is there a mode that is told of them?

    >>> import tracejit as tj
    >>> has_torch_function((tj.ones(1), 3))
    False
    """
    if LISTENERS.functions:
        return True
    return not LISTENERS.excluded and any(takes(type(arg)) for arg in relevant_args)


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
    takers = [arg for arg in relevant_args if takes(type(arg))]
    if LISTENERS.functions:
        types = tuple(dict.fromkeys(map(type, takers)))
        found = tell(public_api, types, args, kwargs)
        if found is not NotImplemented:
            return found
    if not takers:
        name = getattr(public_api, "__name__", public_api)
        raise TypeError(
            f"no implementation found for '{name}' on types that define __torch_function__"
        )
    return ask(public_api, takers, args, kwargs)


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
    """A context in which ``__torch_function__`` is told of every function of the package instead of its being run.

    It gets the function, a row of types that take functions over themselves, and the arguments, and answers with the
    result; ``func(*args, **kwargs)`` is what would have been. Inside of it the mode is not entered.

    >>> import tracejit as tj
    >>> class Names(TorchFunctionMode):
    ...     def __torch_function__(self, func, types, args=(), kwargs=None):
    ...         print(resolve_name(func))
    ...         return func(*args, **(kwargs or {}))
    >>> with Names():
    ...     _ = tj.nn.functional.relu(tj.ones(2) + 1)
    tracejit.ones
    tracejit.Tensor.add
    tracejit.nn.functional.relu
    """

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """The result of a function."""
        raise NotImplementedError

    def __enter__(self) -> Any:
        enter("functions", self)
        return self

    def __exit__(self, exc_type: Any, exc_val: Any, exc_tb: Any) -> None:
        leave("functions")

    @classmethod
    def push(cls, *args: Any, **kwargs: Any) -> Any:
        """A mode of this class."""
        return cls(*args, **kwargs)


class BaseTorchFunctionMode(TorchFunctionMode):
    """A mode that runs every function as it is.

    >>> import tracejit as tj
    >>> with BaseTorchFunctionMode():
    ...     tj.ones(1) + 1
    tensor([2.])
    """

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """The function's own result."""
        return func(*args, **(kwargs or {}))


def _get_current_function_mode() -> Any:
    """The innermost mode that is told of functions; None where there is none."""
    return LISTENERS.functions[-1] if LISTENERS.functions else None


def _get_current_function_mode_stack() -> list[Any]:
    """All of them, the outermost first."""
    return list(LISTENERS.functions)


@contextlib.contextmanager
def _pop_mode_temporarily() -> Iterator[Any]:
    """Inside, the innermost of them is not there."""
    before = LISTENERS.functions
    LISTENERS.functions = before[:-1]
    try:
        yield before[-1]
    finally:
        LISTENERS.functions = before


@contextlib.contextmanager
def _enable_torch_function() -> Iterator[None]:
    """Inside, classes of tensors take functions over, also within a block where they do not."""
    before = LISTENERS.excluded
    LISTENERS.excluded = 0
    try:
        yield
    finally:
        LISTENERS.excluded = before


@contextlib.contextmanager
def enable_reentrant_dispatch() -> Iterator[None]:
    """Inside of a listener to operators: operators have a history again, and are seen by the outer ones.

    >>> with enable_reentrant_dispatch():
    ...     pass
    """
    before = LISTENERS.below, MODES.grad
    LISTENERS.below, MODES.grad = False, True
    try:
        yield
    finally:
        LISTENERS.below, MODES.grad = before


def _published() -> dict[int, Any]:
    found: dict[int, Any] = door().published()
    return found


def resolve_name(f: Callable[..., Any]) -> str | None:
    """The path by which a program reaches a function or a method of tensors; None for any other.

    >>> import tracejit as tj
    >>> resolve_name(tj.nn.functional.relu), resolve_name(tj.Tensor.add), resolve_name(len)
    ('tracejit.nn.functional.relu', 'tracejit.Tensor.add', None)
    """
    return _names().get(id(f)) or _named_operator(f)


def _named_operator(f: Any) -> str | None:
    from .aten import Overload, Packet

    return str(f) if isinstance(f, (Overload, Packet)) else None


@functools.cache
def _names() -> dict[int, str]:
    """Paths by the identities of functions."""
    found: dict[int, str] = {}
    for space, members in get_overridable_functions().items():
        path = f"tracejit.{space.__name__}" if isinstance(space, type) else space.__name__
        for member in members:
            found.setdefault(id(member), f"{path}.{member.__name__}")
    return found


@functools.cache
def get_overridable_functions() -> dict[Any, list[Callable[..., Any]]]:
    """The functions that classes and modes are told of, by the modules and the class where they are.

    >>> import tracejit as tj
    >>> found = get_overridable_functions()
    >>> tj.relu in found[tj], tj.Tensor.add in found[tj.Tensor]
    (True, True)
    """
    tracejit = import_module(__package__)
    known = {id(one.target) for one in _published().values()}
    spaces = (tracejit.nn.functional, tracejit, tracejit.linalg, tracejit.fft, tracejit.special)
    found: dict[Any, list[Callable[..., Any]]] = {}
    for space in spaces:
        names = getattr(space, "__all__", dir(space))
        members = [getattr(space, name, None) for name in names]
        own: dict[int, Any] = {id(x): x for x in members if id(x) in known}
        found[space] = list(own.values())
    found[tracejit.Tensor] = [method for method, _ in _methods()]
    return found


def _methods() -> list[tuple[Any, Any]]:
    return list(door()._methods())


def get_ignored_functions() -> set[Callable[..., Any]]:
    """Functions that nobody is told of: they make tensors of anything, ask, or set something.

    >>> import tracejit as tj
    >>> tj.is_tensor in get_ignored_functions()
    True
    """
    tracejit = import_module(__package__)
    return {getattr(tracejit, name) for name in door().APART if hasattr(tracejit, name)}


def get_testing_overrides() -> dict[Callable[..., Any], Callable[..., Any]]:
    """Functions that take what each function does, and give -1: what tests of classes start from.

    >>> import tracejit as tj
    >>> get_testing_overrides()[tj.relu](tj.ones(1))
    -1
    """

    def of(function: Callable[..., Any]) -> Callable[..., Any]:
        def stand_in(*args: Any, **kwargs: Any) -> int:
            return -1

        stand_in.__name__ = getattr(function, "__name__", "stand_in")
        return stand_in

    return {f: of(f) for members in get_overridable_functions().values() for f in members}


def get_default_nowrap_functions() -> set[Callable[..., Any]]:
    """Functions whose results are not made tensors of a class.

    >>> get_default_nowrap_functions()
    set()
    """
    return set()


def is_tensor_method_or_property(func: Callable[..., Any]) -> bool:
    """Is it a method of tensors?

    >>> import tracejit as tj
    >>> is_tensor_method_or_property(tj.Tensor.add), is_tensor_method_or_property(tj.add)
    (True, False)
    """
    from .tensor import Tensor

    return func in get_overridable_functions()[Tensor] or getattr(func, "__name__", "") == "__get__"
