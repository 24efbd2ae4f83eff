"""Elementary functions in the kernel language: branch-free, vectorisable, with a documented error bound.

The functions are ordinary Python over the primitives of `scalar_math.primitives`. The same text runs on NumPy scalars
and arrays (under ``np.errstate(all="ignore")``), compiles under Numba, and is lowered to LLVM, always with the same
result bit for bit: no step may be contracted or re-associated.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from tracejit.scalar_math import comparison, exponential, primitives
from tracejit.scalar_math.primitives import TABLES

__all__ = ["TABLES", "function_names", "namespace", "source_of"]

_MODULES = (comparison, exponential)


@lru_cache(maxsize=1)
def _functions() -> dict[str, Callable[..., Any]]:
    found = {}
    for module in _MODULES:
        for name, value in vars(module).items():
            if inspect.isfunction(value) and value.__module__ == module.__name__:
                found[name] = value
    return found


@lru_cache(maxsize=1)
def namespace() -> dict[str, Any]:
    """Every name a kernel may use, with its NumPy meaning."""
    names = {n: v for n, v in vars(primitives).items() if not n.startswith("_")}
    return {**names, **_functions()}


def function_names() -> tuple[str, ...]:
    """Every function that is written in the kernel language, in order of definition."""
    return tuple(_functions())


@lru_cache(maxsize=None)
def _sources(module_name: str) -> dict[str, str]:
    text = inspect.getsource(sys.modules[module_name])
    lines = text.splitlines(keepends=True)
    return {
        node.name: "".join(lines[node.lineno - 1 : node.end_lineno])
        for node in ast.parse(text).body
        if isinstance(node, ast.FunctionDef)
    }


def source_of(name: str) -> str | None:
    """The source text of the function called `name`, or None when there is none."""
    function = _functions().get(name)
    return None if function is None else _sources(function.__module__)[name]
