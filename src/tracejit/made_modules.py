"""Modules made of the names of others, for module paths that PyTorch has and this package does not."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

__all__ = ["make_module"]


def make_module(path: str, *sources: Any, **names: Any) -> None:
    """The module ``path`` below this package, with the public names of ``sources``, unless there is one.

    >>> make_module("optim.adamw")  # there is one
    """
    full = f"{__package__}.{path}"
    parent, _, last = full.rpartition(".")
    if full in sys.modules:
        return
    made = ModuleType(full, f"What PyTorch keeps in ``torch.{path}``.")
    for source in sources:
        for name in getattr(source, "__all__", None) or _public(source):
            setattr(made, name, getattr(source, name))
    made.__dict__.update(names)
    sys.modules[full] = made
    if parent in sys.modules and not hasattr(sys.modules[parent], last):
        setattr(sys.modules[parent], last, made)


def _public(source: Any) -> list[str]:
    return [name for name in vars(source) if not name.startswith("_")]
