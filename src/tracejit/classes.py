"""Classes written in C++ that a library has registered: none, because no library can register any."""

from __future__ import annotations

from typing import Any

from .ops.loading import load_library, loaded_libraries

__all__ = ["load_library", "loaded_libraries"]


class _Namespace:
    """The classes of one library."""

    def __init__(self, name: str) -> None:
        self.__name__ = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise RuntimeError(
            f"Tried to instantiate class '{self.__name__}.{name}', but it does not exist! "
            "Ensure that it is registered via torch::class_"
        )


def __getattr__(name: str) -> Any:
    if name.startswith(("__", "pytest")):  # what modules are asked for by Python and pytest
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _Namespace(name)
