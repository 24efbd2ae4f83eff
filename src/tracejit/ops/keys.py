"""Where random functions get their keys: a hook that :mod:`tracejit.random`, which has the state, fills in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

KeySource = Callable[[Any], tuple[Any, int]]


def _missing(generator: Any) -> tuple[Any, int]:
    raise RuntimeError("tracejit.random is not loaded")


_source: KeySource = _missing


def set_key_source(source: KeySource) -> None:
    """Install the function from a generator (or None) to a key tensor and the ordinal of the call."""
    global _source
    _source = source


def next_key(generator: Any) -> tuple[Any, int]:
    """The key tensor and the ordinal of the next draw of ``generator`` (None: the default one)."""
    return _source(generator)
