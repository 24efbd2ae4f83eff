"""NVIDIA's libraries, from wherever they are installed: the process, wheels, a toolkit."""

from __future__ import annotations

import ctypes
import importlib.util
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

VERSIONS = ("13", "12")


def load_library(name: str, version: str | None = None) -> Any:
    """A library such as ``"cublas"`` by ctypes, of one generation of CUDA or the newest; None where it is not there.

    >>> load_library("no_such_library") is None
    True
    """
    versions = VERSIONS if version is None else (version,)
    for path in (p for v in versions for p in _paths(f"lib{name}.so.{v}")):
        try:
            return ctypes.CDLL(path)
        except OSError:
            continue
    return None


def _paths(file: str) -> Iterator[str]:
    """Where a library may be; one that is loaded already is found by its name alone."""
    yield file
    found = importlib.util.find_spec("nvidia")
    for folder in (found.submodule_search_locations or ()) if found else ():
        yield from sorted(map(str, Path(folder).glob(f"*/lib/{file}*")), reverse=True)
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if variable in os.environ:
            yield from sorted(
                map(str, Path(os.environ[variable]).glob(f"lib64/{file}*")), reverse=True
            )
