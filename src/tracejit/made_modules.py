"""Modules made of the names of others, for module paths that PyTorch has and this package does not."""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

__all__ = ["empty_module", "make_module"]


def empty_module(full: str, text: str) -> ModuleType:
    """A module with nothing in it yet, which is imported by that name from here on.

    >>> empty_module("tracejit.docs", "What is shown.").__doc__
    'What is shown.'
    """
    made = sys.modules[full] = ModuleType(full, text)
    made.__spec__ = ModuleSpec(full, None)  # importlib.util.find_spec gives it
    return made


def make_module(path: str, *sources: Any, **names: Any) -> None:
    """The module ``path`` below this package, with the public names of ``sources``, unless there is one.

    >>> make_module("optim.adamw")  # there is one
    """
    full = f"{__package__}.{path}"
    parent, _, last = full.rpartition(".")
    if full in sys.modules:
        return
    made = empty_module(full, f"What PyTorch keeps in ``torch.{path}``.")
    for source in sources:
        for name in getattr(source, "__all__", None) or _public(source):
            setattr(made, name, getattr(source, name))
    made.__dict__.update(names)
    if parent in sys.modules and not hasattr(sys.modules[parent], last):
        setattr(sys.modules[parent], last, made)


def _public(source: Any) -> list[str]:
    return [name for name in vars(source) if not name.startswith("_")]
