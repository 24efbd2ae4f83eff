"""The same kernel text as plain Python and through Numba: the two other ways to run it, used to check the fast one."""

from __future__ import annotations

import hashlib
import linecache
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from tracejit.scalar_math import library as scalar_math

__all__ = ["as_python", "compile_with_numba", "register_source"]


def register_source(source: str, entry: str) -> str:
    """Give the text a file name in `linecache`, so tracebacks and debuggers show its lines; returns the name.

    >>> import linecache
    >>> name = register_source("def f():\\n    return 1\\n", "f")
    >>> linecache.getline(name, 2).strip()
    'return 1'
    """
    digest = hashlib.sha256(source.encode()).hexdigest()[:12]
    filename = f"<tracejit {entry} {digest}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    return filename


def _define(source: str, entry: str, names: dict[str, Any]) -> Callable[..., Any]:
    code = compile(source, register_source(source, entry), "exec", dont_inherit=True)
    scope = dict(names)
    exec(code, scope)
    function: Callable[..., Any] = scope[entry]
    return function


def as_python(source: str, entry: str) -> Callable[..., Any]:
    """The kernel as a plain Python function over 1-D NumPy arrays in place of pointers.

    >>> double = as_python('''
    ... def double(x: "f32*", out: "f32*", lo: "i64", hi: "i64", worker: "i64") -> "i32":
    ...     for i in range(lo, hi):
    ...         out[i] = x[i] + x[i]
    ...     return 0
    ... ''', "double")
    >>> out = np.zeros(2, np.float32)
    >>> double(np.array([1.0, 2.0], np.float32), out, 0, 2, 0), out.tolist()
    (0, [2.0, 4.0])
    """
    function = _define(source, entry, scalar_math.namespace())

    def run(*arguments: Any) -> Any:
        with np.errstate(all="ignore"):
            return function(*arguments)

    run.__name__ = entry
    run.__wrapped__ = function  # type: ignore[attr-defined]
    return run


@lru_cache(maxsize=1)
def _numba_names() -> dict[str, Any]:
    from tracejit.scalar_math.numba_names import numba_namespace

    return numba_namespace()


def compile_with_numba(source: str, entry: str) -> Callable[..., Any]:
    """The kernel compiled by Numba on first call, over 1-D NumPy arrays in place of pointers.

    >>> text = '''
    ... def double(x: "f32*", out: "f32*", lo: "i64", hi: "i64", worker: "i64") -> "i32":
    ...     for i in range(lo, hi):
    ...         out[i] = x[i] + x[i]
    ...     return 0
    ... '''
    >>> import numpy as np
    >>> out = np.zeros(2, np.float32)
    >>> compile_with_numba(text, "double")(np.float32([1, 2]), out, 0, 2, 0), out.tolist()
    (0, [2.0, 4.0])
    """
    import numba

    function = _define(source, entry, _numba_names())
    compiled: Callable[..., Any] = numba.njit(error_model="numpy")(function)
    return compiled
