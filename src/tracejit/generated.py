"""Defining generated Python functions: equal texts are compiled once and can be read in tracebacks and debuggers."""

from __future__ import annotations

import ast
import contextlib
import hashlib
import linecache
from functools import lru_cache
from types import CodeType
from typing import Any, Literal

from .locks import renewed_rlock

#: How often parsing is tried.
PARSINGS = 8

_parsing = renewed_rlock()


@lru_cache(maxsize=4096)
def _compiled(text: str, label: str) -> CodeType:
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    filename = f"<tracejit {label} {digest}>"
    linecache.cache[filename] = (len(text), None, text.splitlines(True), filename)
    return compile(text, filename, "exec")


def define(text: str, label: str, entry: str, names: dict[str, Any]) -> Any:
    """The function ``entry`` that ``text`` defines, with ``names`` as its globals.

    >>> define("def f(x):\\n    return x + one\\n", "example", "f", {"one": 1})(2)
    3
    """
    exec(_compiled(text, label), names)
    return names.pop(entry)  # it would be part of a cycle with its own globals


def parse(text: str, mode: Literal["exec", "eval"] = "exec") -> Any:
    """``ast.parse``, for several threads at once.

    CPython counts how deep a tree is in one place for all threads, and up to 3.12 takes it for an error (a
    ``SystemError``, or trees that seem too deep) when two of them are at it.
    """
    for _ in range(PARSINGS):
        with _parsing, contextlib.suppress(SystemError, RecursionError):
            return ast.parse(text, mode=mode)
    return ast.parse(text, mode=mode)
