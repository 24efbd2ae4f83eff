"""CUDA graphs by hand, which there are none of: compiled functions launch theirs as graphs on their own."""

from __future__ import annotations

from typing import Any, NoReturn

from ..errors import DeviceError

__all__ = ["CUDAGraph", "graph", "make_graphed_callables"]

_WHY = "there are no CUDA graphs to be captured by hand: use compile(), which launches programs as graphs where it can"


class CUDAGraph:
    """A graph of launches, captured by hand. Making one raises ``DeviceError``; programs name the class.

    >>> CUDAGraph()
    Traceback (most recent call last):
    tracejit.errors.DeviceError: there are no CUDA graphs to be captured by hand: ...
    """

    def __new__(cls, *_: Any, **__: Any) -> NoReturn:
        """Refused."""
        raise DeviceError(_WHY)


class graph:  # noqa: N801  (PyTorch's spelling)
    """Capture what is launched inside. Raises ``DeviceError``, as :class:`CUDAGraph` does."""

    def __new__(cls, *_: Any, **__: Any) -> NoReturn:
        """Refused."""
        raise DeviceError(_WHY)


def make_graphed_callables(*_: Any, **__: Any) -> NoReturn:
    """Refused. Raises ``DeviceError``.

    >>> make_graphed_callables(abs, ())
    Traceback (most recent call last):
    tracejit.errors.DeviceError: there are no CUDA graphs to be captured by hand: ...
    """
    raise DeviceError(_WHY)
