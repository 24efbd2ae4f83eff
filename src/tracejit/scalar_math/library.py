"""All scalar functions by name: their text, what they are for NumPy, and their error bounds."""

from __future__ import annotations

import inspect
import linecache
import sys
from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any

import numpy as np

from tracejit.scalar_math import (
    arcs,
    comparison,
    exponential,
    gamma,
    half,
    hyperbolic,
    integers,
    inverse_error,
    lengths,
    logarithm,
    plain,
    power,
    primitives,
    quarter_turns,
    random,
    ranks,
    remainders,
    special,
    trigamma,
    trigonometric,
    unfused,
    usual,
)
from tracejit.scalar_math.bounds import ULP_BOUND
from tracejit.scalar_math.primitives import TABLES
from tracejit.scalar_math.templates import functions_in

__all__ = [
    "TABLES",
    "ULP_BOUND",
    "evaluate",
    "function_names",
    "names",
    "namespace",
    "source_of",
]

_MODULES = (
    comparison,
    remainders,
    exponential,
    logarithm,
    plain,
    power,
    quarter_turns,
    trigonometric,
    arcs,
    hyperbolic,
    special,
    gamma,
    trigamma,
    inverse_error,
    lengths,
    half,
    random,
    ranks,
    unfused,
    usual,
)


@lru_cache(maxsize=1)
def _written() -> dict[str, Callable[..., Any]]:
    """The functions of the modules."""
    return {
        name: value
        for module in _MODULES
        for name, value in vars(module).items()
        if inspect.isfunction(value) and value.__module__ == module.__name__
    }


@lru_cache(maxsize=1)
def _functions() -> dict[str, Callable[..., Any]]:
    """Those and the ones made for integers."""
    return {**_written(), **_integer_functions()}


def _integer_functions() -> dict[str, Callable[..., Any]]:
    text = "from __future__ import annotations\n\n\n" + "\n\n".join(integers.sources().values())
    filename = "<tracejit.scalar_math integers>"
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    scope = {**vars(primitives), "usually_u64": usual.usually_u64}
    exec(compile(text, filename, "exec"), scope)
    return {name: scope[name] for name in integers.sources()}


@lru_cache(maxsize=1)
def namespace() -> dict[str, Any]:
    """Every name a kernel may use, with its NumPy meaning.

    >>> float(namespace()["copysign_f32"](np.float32(2), np.float32(-0.0)))
    -2.0
    """
    return {**_primitives(), **_functions()}


@lru_cache(maxsize=1)
def names() -> frozenset[str]:
    """Every name a kernel may use; nothing is compiled for it.

    >>> sorted(names() ^ frozenset(namespace()))
    []
    """
    return frozenset((*_primitives(), *function_names()))


def _primitives() -> dict[str, Any]:
    return {n: v for n, v in vars(primitives).items() if not n.startswith("_")}


def function_names() -> tuple[str, ...]:
    """Every function that is written in the kernel language.

    >>> {"exp_f32", "pow_f64", "remainder_i8"} <= set(function_names())
    True
    """
    return (*_written(), *integers.sources())


@cache
def _sources(module_name: str) -> dict[str, str]:
    return functions_in(inspect.getsource(sys.modules[module_name]))


def source_of(name: str) -> str | None:
    """The source text of the function called `name`, or None when there is none.

    >>> print(source_of("sqrt_f32"), source_of("isnan_f32").splitlines()[-1].strip())
    None return x != x
    """
    if name in integers.sources():
        return integers.sources()[name]
    function = _written().get(name)
    return None if function is None else _sources(function.__module__)[name]


def evaluate(name: str, *operands: Any) -> Any:
    """Call a function on NumPy scalars or arrays of its types, without floating-point warnings.

    >>> evaluate("exp_f32", np.array([0.0, -np.inf], np.float32))
    array([1., 0.], dtype=float32)
    """
    with np.errstate(all="ignore"):
        return namespace()[name](*operands)
