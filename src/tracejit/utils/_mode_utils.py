"""Small helps for listeners to operators, by PyTorch's names."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..listening.quiet import hushed

__all__ = ["all_same_mode", "no_dispatch"]

no_dispatch = hushed


def all_same_mode(modes: Iterable[Any]) -> bool:
    """Are all of them one object?

    >>> all_same_mode([1, 1]), all_same_mode([1, 2])
    (True, False)
    """
    found = tuple(modes)
    return all(mode == found[0] for mode in found)
