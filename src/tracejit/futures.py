"""Results that come later, under PyTorch's names: whoever waits for one sleeps until somebody sets it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, TypeVar, cast

from .errors import DeviceError

__all__ = ["Future", "collect_all", "wait_all"]

log = logging.getLogger("tracejit")
T = TypeVar("T")
S = TypeVar("S")


class Future(Generic[T]):
    """A place for a result, or for the error that comes instead of it, that is set once.

    Raises ``DeviceError`` for ``devices``: results of devices are there for whoever reads them.

    >>> one = Future()
    >>> other = one.then(lambda done: done.value() + 1)
    >>> one.set_result(1)
    >>> other.wait()
    2
    """

    def __init__(self, *, devices: Sequence[Any] | None = None) -> None:
        if devices:
            raise DeviceError(f"futures of devices are not made: leave out devices={devices!r}")
        self._set = threading.Condition()
        self._done = False
        self._result: T | None = None
        self._error: BaseException | None = None
        self._callbacks: list[Callable[[], None]] = []

    def done(self) -> bool:
        """Is there a result, or an error?"""
        return self._done

    def wait(self) -> T:
        """The result, as soon as there is one; the error is raised."""
        with self._set:
            self._set.wait_for(self.done)
        return self.value()

    def value(self) -> T:
        """The result that there is; the error is raised. ``RuntimeError`` where there is neither yet."""
        if not self._done:
            raise RuntimeError("the future is not completed yet: wait() waits for it")
        if self._error is not None:
            raise self._error
        return cast(T, self._result)

    def then(self, callback: Callable[[Future[T]], S]) -> Future[S]:
        """A future of what ``callback`` makes of this one, once it is done; an error of it comes as RuntimeError."""
        made: Future[S] = Future()

        def follow() -> None:
            try:
                result = callback(self)
            except Exception as error:  # noqa: BLE001  (whoever waits, or reads the log, meets it)
                made.set_exception(_of_callback(error))
            else:
                made.set_result(result)

        self._call(callback, follow)
        return made

    def add_done_callback(self, callback: Callable[[Future[T]], None]) -> None:
        """Have ``callback`` called with this future once it is done; its errors are logged."""

        def follow() -> None:
            try:
                callback(self)
            except Exception as error:  # noqa: BLE001  (whoever waits, or reads the log, meets it)
                log.error("%s", _of_callback(error))

        self._call(callback, follow)

    def set_result(self, result: T) -> None:
        """Set the result. ``RuntimeError`` where there is one, or an error."""
        self._complete(result, None)

    def set_exception(self, result: BaseException) -> None:
        """Set the error that ``wait`` and ``value`` raise. ``AssertionError`` for something else than one."""
        if not isinstance(result, Exception):
            raise AssertionError(f"{result} is of type {type(result)}, not an Exception.")
        self._complete(None, result)

    def _call(self, callback: Any, follow: Callable[[], None]) -> None:
        if not callable(callback):
            raise TypeError(f"callback must be callable, got {type(callback).__name__}")
        with self._set:
            if not self._done:
                self._callbacks.append(follow)
                return
        follow()

    def _complete(self, result: T | None, error: BaseException | None) -> None:
        with self._set:
            if self._done:
                raise RuntimeError(
                    "Attempting to mark a completed Future as complete again. "
                    "Note that a Future can only be marked completed once."
                )
            self._result, self._error, self._done = result, error, True
            waiting, self._callbacks = self._callbacks, []
            self._set.notify_all()
        for follow in waiting:
            follow()


def _of_callback(error: Exception) -> RuntimeError:
    return RuntimeError(
        f"Got the following error when running the callback: {type(error).__name__}: {error}"
    )


def collect_all(futures: Iterable[Future[Any]]) -> Future[list[Future[Any]]]:
    """A future of the list of these, done once all of them are.

    >>> one, other = Future(), Future()
    >>> both = collect_all([one, other])
    >>> one.set_result(1)
    >>> other.set_result(2)
    >>> [x.value() for x in both.wait()]
    [1, 2]
    """
    them = list(futures)
    if not all(isinstance(x, Future) for x in them):
        raise TypeError("collect_all takes futures")
    made: Future[list[Future[Any]]] = Future()
    left, lock = len(them), threading.Lock()

    def one_less(_: Any) -> None:
        nonlocal left
        with lock:
            left -= 1
            last = not left
        if last:
            made.set_result(them)

    if not them:
        made.set_result(them)
    for future in them:
        future.add_done_callback(one_less)
    return made


def wait_all(futures: Iterable[Future[Any]]) -> list[Any]:
    """The results of all, as soon as they are there; an error of one of them is raised.

    >>> done = Future()
    >>> done.set_result(1)
    >>> wait_all([done])
    [1]
    """
    return [future.wait() for future in collect_all(futures).wait()]
