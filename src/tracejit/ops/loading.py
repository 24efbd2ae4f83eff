"""Libraries of operators made for PyTorch, which there is no way to load."""

from __future__ import annotations

import os

__all__ = ["load_library", "loaded_libraries"]

#: What has been loaded: nothing.
loaded_libraries: frozenset[str] = frozenset()


def load_library(path: str | os.PathLike[str]) -> None:
    """Raise ``OSError``: the operators of a shared library are written against PyTorch's C++ interface.

    Packages that bring such a library expect that error where it can't be loaded, and go on without it.

    >>> import tracejit as tj
    >>> tj.ops.load_library("custom_ops.so")
    Traceback (most recent call last):
    OSError: Could not load this library: custom_ops.so: its operators need PyTorch itself; define them in Python
    """
    raise OSError(
        f"Could not load this library: {os.fspath(path)}: its operators need PyTorch itself; define them in Python"
    )
