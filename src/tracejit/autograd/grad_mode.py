"""Switches of the tape: context managers that are decorators too, for functions and generator functions."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Generator
from types import CodeType
from typing import Any, Self, TypeVar, cast, overload

from ..modes import MODES

F = TypeVar("F", bound=Callable[..., Any])


class _Mode:
    """A setting of the thread's modes that holds inside a ``with`` block or a decorated function."""

    _before: list[tuple[bool, bool]] | None = None

    def __enter__(self) -> None:
        if self._before is None:
            self._before = []
        self._before.append((MODES.grad, MODES.inference))
        self._switch()

    def __exit__(self, *_: object) -> None:
        assert self._before is not None
        MODES.grad, MODES.inference = self._before.pop()

    def _switch(self) -> None:
        raise NotImplementedError

    def _again(self) -> _Mode:
        """A fresh manager of the same setting, so that decorated functions may recurse or run in threads."""
        return type(self)()

    def __call__(self, function: F) -> F:
        """Decorate a function or a generator function."""
        return cast(F, self._decorated(function))

    def _decorated(self, function: Callable[..., Any]) -> Callable[..., Any]:
        if inspect.isgeneratorfunction(function):
            return self._decorate_generator(function)

        @functools.wraps(function)
        def decorated(*args: Any, **kwargs: Any) -> Any:
            with self._again():
                return function(*args, **kwargs)

        return decorated

    def _decorate_generator(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The mode holds while the generator runs, not while its consumer does."""

        @functools.wraps(function)
        def decorated(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
            generator = function(*args, **kwargs)
            step, value = generator.send, None
            while True:
                try:
                    with self._again():
                        item = step(value)
                except StopIteration as stop:
                    return stop.value
                try:
                    step, value = generator.send, (yield item)
                except GeneratorExit:
                    with self._again():
                        generator.close()
                    raise
                except BaseException as error:  # noqa: BLE001  (handed on into the generator)
                    step, value = generator.throw, error

        return decorated


class _Bare(_Mode):
    """Modes without arguments may decorate without parentheses: ``@no_grad``."""

    @overload
    def __new__(cls, function: None = None) -> Self: ...

    @overload
    def __new__(cls, function: F) -> F: ...  # type: ignore[misc]

    def __new__(cls, function: Any = None) -> Any:
        self = super().__new__(cls)
        return self if function is None else self(function)


@functools.cache
def decorating_codes() -> frozenset[CodeType]:
    """The code of plain functions that these decorators make, which hand on the arguments they get.

    >>> no_grad()(lambda x: x).__code__ in decorating_codes()
    True
    """
    parts = _Mode._decorated.__code__.co_consts
    return frozenset([x for x in parts if isinstance(x, CodeType) and x.co_name == "decorated"])


class no_grad(_Bare):  # noqa: N801
    """Operations inside are not recorded; results do not require grad.

    >>> import tracejit as tj
    >>> x = tj.tensor([1.0], requires_grad=True)
    >>> with tj.no_grad():
    ...     y = x * 2
    >>> y.requires_grad
    False
    """

    def _switch(self) -> None:
        MODES.grad = False


class enable_grad(_Bare):  # noqa: N801
    """Operations inside are recorded, also within ``no_grad``.

    >>> import tracejit as tj
    >>> x = tj.tensor([1.0], requires_grad=True)
    >>> with tj.no_grad(), tj.enable_grad():
    ...     y = x * 2
    >>> y.requires_grad
    True
    """

    def _switch(self) -> None:
        MODES.grad = not MODES.inference  # inference mode records nothing, whatever is inside it


class set_multithreading_enabled(_Mode):  # noqa: N801
    """Accepted and without effect: a backward pass runs in the thread that asks for it.

    >>> with set_multithreading_enabled(False):
    ...     is_grad_enabled()
    True
    """

    def __init__(self, mode: bool) -> None:
        self.mode = mode

    def _again(self) -> _Mode:
        return self

    def _switch(self) -> None:
        pass


class set_grad_enabled(_Mode):  # noqa: N801
    """Turn recording on or off: at once when called, or for a ``with`` block or a decorated function.

    Raises ``TypeError`` for what is no bool.

    >>> import tracejit as tj
    >>> with tj.set_grad_enabled(False):
    ...     tj.is_grad_enabled()
    False
    """

    def __init__(self, mode: bool) -> None:
        if not isinstance(mode, bool):
            raise TypeError(
                "set_grad_enabled(): argument 'enabled' (position 1) must be bool, not "
                f"{type(mode).__name__}"
            )
        self.mode = mode
        self._previous = (MODES.grad, MODES.inference)
        self._switch()

    def __enter__(self) -> None:
        self._before = [*(self._before or ()), self._previous]
        self._switch()

    def _switch(self) -> None:
        MODES.grad = self.mode and not MODES.inference

    def __call__(self, function: F) -> F:
        """Decorate a function or a generator function; nothing is switched outside it."""
        MODES.grad, MODES.inference = self._previous
        return super().__call__(function)

    def _again(self) -> _Mode:
        return set_grad_enabled(self.mode)


class inference_mode(_Mode):  # noqa: N801
    """Like ``no_grad``, and results can never enter autograd again; ``inference_mode(False)`` is like ``enable_grad``.

    >>> import tracejit as tj
    >>> with tj.inference_mode():
    ...     y = tj.ones(2) * 2
    >>> y.is_inference()
    True
    """

    @overload
    def __new__(cls, mode: bool = True) -> Self: ...

    @overload
    def __new__(cls, mode: F) -> F: ...  # type: ignore[misc]

    def __new__(cls, mode: Any = True) -> Any:
        """A manager, or the decorated function for ``@inference_mode`` without parentheses."""
        self = super().__new__(cls)
        if isinstance(mode, bool):
            return self
        self.mode = True
        return self(mode)

    def __init__(self, mode: bool = True) -> None:
        self.mode = mode

    def _switch(self) -> None:
        MODES.inference = self.mode
        MODES.grad = not self.mode

    def _again(self) -> _Mode:
        again: _Mode = inference_mode(self.mode)
        return again


def is_grad_enabled() -> bool:
    """True while operations are recorded.

    >>> import tracejit as tj
    >>> tj.is_grad_enabled()
    True
    """
    return MODES.grad


def is_inference_mode_enabled() -> bool:
    """True inside :class:`inference_mode`.

    >>> import tracejit as tj
    >>> tj.is_inference_mode_enabled()
    False
    """
    return MODES.inference
