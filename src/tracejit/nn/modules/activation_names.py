"""Activations by name, as transformer layers take them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import functional as F


def _get_activation_fn(activation: str) -> Callable[..., Any]:
    """The function called "relu" or "gelu"; ``RuntimeError`` for another name."""
    if activation not in ("relu", "gelu"):
        raise RuntimeError(f"activation should be relu/gelu, not {activation}")
    function: Callable[..., Any] = getattr(F, activation)
    return function
