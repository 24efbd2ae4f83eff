"""Extensions of PyTorch in C++: programs import what builds them and go on without where there is no compiler for them.

Such code is written against PyTorch's own headers, which this package does not have: everything that would build it
says so.
"""

from __future__ import annotations

from typing import Any, NoReturn

__all__ = [
    "CUDA_HOME",
    "ROCM_HOME",
    "BuildExtension",
    "CUDAExtension",
    "CppExtension",
    "include_paths",
    "is_ninja_available",
    "library_paths",
    "load",
    "load_inline",
    "verify_ninja_availability",
]

#: Where the tools of a GPU are that extensions are built with: nowhere.
CUDA_HOME: str | None = None
ROCM_HOME: str | None = None
IS_HIP_EXTENSION = False

_REFUSED = (
    "extensions in C++ are written against PyTorch's headers and cannot be built here: write the function with "
    "tensor operations and compile() it, or give it a name with library.custom_op"
)


def _refuse(*_: Any, **__: Any) -> NoReturn:
    raise NotImplementedError(_REFUSED)


def load(name: str, sources: Any, *_: Any, **__: Any) -> NoReturn:
    """Refused. Raises ``NotImplementedError``.

    >>> load("mine", ["mine.cpp"])
    Traceback (most recent call last):
    NotImplementedError: extensions in C++ are written against PyTorch's headers and cannot be built here: ...
    """
    _refuse()


def load_inline(name: str, cpp_sources: Any, *_: Any, **__: Any) -> NoReturn:
    """Refused, as :func:`load`. Raises ``NotImplementedError``.

    >>> load_inline("mine", "")
    Traceback (most recent call last):
    NotImplementedError: extensions in C++ are written against PyTorch's headers and cannot be built here: ...
    """
    _refuse()


def CppExtension(name: str, sources: Any, *_: Any, **__: Any) -> NoReturn:  # noqa: N802  (PyTorch's spelling)
    """Refused, as :func:`load`. Raises ``NotImplementedError``.

    >>> CppExtension("mine", [])
    Traceback (most recent call last):
    NotImplementedError: extensions in C++ are written against PyTorch's headers and cannot be built here: ...
    """
    _refuse()


def CUDAExtension(name: str, sources: Any, *_: Any, **__: Any) -> NoReturn:  # noqa: N802
    """Refused, as :func:`load`. Raises ``NotImplementedError``.

    >>> CUDAExtension("mine", [])
    Traceback (most recent call last):
    NotImplementedError: extensions in C++ are written against PyTorch's headers and cannot be built here: ...
    """
    _refuse()


class BuildExtension:
    """The command of a setup script that builds extensions. Making one raises ``NotImplementedError``."""

    def __init__(self, *_: Any, **__: Any) -> None:
        _refuse()

    @classmethod
    def with_options(cls, **options: Any) -> type[BuildExtension]:
        """The class: there is nothing that options could change."""
        return cls


def include_paths(device_type: str = "cpu", **_: Any) -> list[str]:
    """No directories: there are no headers.

    >>> include_paths()
    []
    """
    return []


library_paths = include_paths


def is_ninja_available() -> bool:
    """False: nothing is built.

    >>> is_ninja_available()
    False
    """
    return False


def verify_ninja_availability() -> NoReturn:
    """Raises ``RuntimeError``: nothing is built.

    >>> verify_ninja_availability()
    Traceback (most recent call last):
    RuntimeError: Ninja is required to load C++ extensions, which cannot be built here
    """
    raise RuntimeError("Ninja is required to load C++ extensions, which cannot be built here")
