"""NVIDIA's libraries, from wherever they are installed: the process, wheels, a toolkit."""

from __future__ import annotations

import ctypes
import importlib.util
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

VERSIONS = ("13", "12")


def load_library(name: str) -> Any:
    """A library such as ``"cublas"`` by ctypes, None where it is not installed.

    >>> load_library("no_such_library") is None
    True
    """
    for path in _paths(f"lib{name}.so"):
        try:
            return ctypes.CDLL(path)
        except OSError:
            continue
    return None


def _paths(file: str) -> Iterator[str]:
    """Where a library may be; one that is loaded already is found by its name alone."""
    for version in VERSIONS:
        yield f"{file}.{version}"
    found = importlib.util.find_spec("nvidia")
    for folder in (found.submodule_search_locations or ()) if found else ():
        yield from sorted(map(str, Path(folder).glob(f"*/lib/{file}.*")), reverse=True)
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if variable in os.environ:
            yield from sorted(
                map(str, Path(os.environ[variable]).glob(f"lib64/{file}.*")), reverse=True
            )
