"""Where random functions get their keys, and where sources are made: hooks for modules with state and kernels."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

KeySource = Callable[[Any], tuple[Any, int]]
KernelDraw = Callable[[Any, Any, Mapping[str, Any], int], Any]


def _missing(*_: Any) -> Any:
    raise RuntimeError("tracejit.random and tracejit.runtime are not loaded")


_source: KeySource = _missing
_kernel_draw: KernelDraw = _missing


def set_key_source(source: KeySource) -> None:
    """Install the function from a generator (or None) to a key tensor and the ordinal of the call."""
    global _source
    _source = source


def next_key(generator: Any) -> tuple[Any, int]:
    """The key tensor and the ordinal of the next draw of ``generator`` (None: the default one)."""
    return _source(generator)


class _Place(threading.local):
    index = -1


_place = _Place()


@contextmanager
def making_on(index: int) -> Iterator[None]:
    """Within the block, draws and filled tensors are made in memory of the GPU of this number (-1: of the host)."""
    before, _place.index = _place.index, index
    try:
        yield
    finally:
        _place.index = before


def making_device() -> int:
    """The number of the GPU that sources are made on here, -1 for the host.

    >>> with making_on(1):
    ...     making_device()
    1
    """
    return _place.index


def set_kernel_draw(function: KernelDraw) -> None:
    """Install the function from a source, a key, attributes and a GPU (-1: the host) to an array there."""
    global _kernel_draw
    _kernel_draw = function


def draw_by_kernel(op: Any, key: Any, attributes: Mapping[str, Any], index: int) -> Any:
    """What a random source draws, in memory of a GPU or of the host; None where the op's own body is to draw."""
    return _kernel_draw(op, key, attributes, index)
