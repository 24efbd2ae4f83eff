"""What modules have by paths of names, put into other modules, and functions from their source."""

from __future__ import annotations

import itertools
import linecache
import sys
from typing import Any

from ..nn.module import Module
from ..nn.parameter import Parameter
from ..tensor import Tensor
from .namespace import CUSTOM_BUILTINS
from .spelling import is_ours

__all__ = ["copy_attribute", "function_of", "get_attribute", "import_block", "put_attribute"]


def get_attribute(module: Module, path: str) -> Any:
    """What a module has by a path.

    >>> import tracejit as tj
    >>> tuple(get_attribute(tj.nn.Sequential(tj.nn.Linear(2, 3)), "0.weight").shape)
    (3, 2)
    """
    found: Any = module
    for name in path.split("."):
        found = getattr(found, name)
    return found


def _put(module: Module, name: str, value: Any) -> None:
    if isinstance(value, Tensor) and not isinstance(value, Parameter):
        module.register_buffer(name, value)
    else:
        setattr(module, name, value)


def copy_attribute(source: Module, target: Module, path: str) -> None:
    """What ``source`` has by a path, in ``target`` too; modules on the way are made where there are none.

    >>> import tracejit as tj
    >>> made = tj.nn.Module()
    >>> copy_attribute(tj.nn.Sequential(tj.nn.ReLU()), made, "0")
    >>> getattr(made, "0")
    ReLU()
    """
    *outer, name = path.split(".")
    for part in outer:
        inside, there = getattr(source, part), getattr(target, part, None)
        if inside is there:
            return  # all that is in it is there
        if there is None:
            there = Module()
            setattr(target, part, there)
        source, target = inside, there
    value = getattr(source, name)
    if getattr(target, name, None) is not value or value is None:
        _put(target, name, value)


def put_attribute(value: Any, target: Module, path: str) -> None:
    """``value`` in ``target``, by a path; modules on the way are made where there are none.

    >>> import tracejit as tj
    >>> made = tj.nn.Module()
    >>> put_attribute(tj.ones(1), made, "inner.scale")
    >>> made.inner.scale
    tensor([1.])
    """
    *outer, name = path.split(".")
    for part in outer:
        inside = getattr(target, part, None)
        if inside is None:
            inside = Module()
            setattr(target, part, inside)
        target = inside
    _put(target, name, value)


_numbers = itertools.count()


def _kept(source: str, origin: dict[str, Any]) -> str:
    """The name of a file that has ``source``, where tracebacks and ``inspect`` look for it."""
    key = f"<eval_with_key>.{next(_numbers)}"
    if origin:
        place = f"{origin['co_filename']}:{origin['co_firstlineno']}"
        key = f"{key} from {place} in {origin['co_name']}"
    linecache.cache[key] = (len(source), None, source.splitlines(keepends=True), key)
    return key


def function_of(source: str, names: dict[str, Any], origin: dict[str, Any] | None = None) -> Any:
    """The function ``forward`` that ``source`` defines.

    >>> function_of("def forward(self, x): return x + one", {"one": 1})(None, 2)
    3
    """
    own = dict(names)
    key = _kept(source, origin or {})
    exec(compile(source, key, "exec", dont_inherit=True), own)
    return own.pop("forward")


def _import_line(name: str, obj: Any) -> str:
    if name in CUSTOM_BUILTINS:
        return CUSTOM_BUILTINS[name].import_str
    if isinstance(obj, str):  # a type that is told as text
        return f"{name} = {obj!r}"
    if is_ours(obj):
        return "import tracejit"
    own = getattr(obj, "__qualname__", None) or obj.__name__
    module = getattr(obj, "__module__", None) or next(
        name for name, one in list(sys.modules.items()) if getattr(one, own, None) is obj
    )
    return f"from {module} import {own} as {name}"


def import_block(names: dict[str, Any]) -> str:
    """Lines that import what generated code finds in its module.

    >>> import operator
    >>> import_block({"inf": float("inf"), "_operator_abs": operator.abs})
    'from _operator import abs as _operator_abs\\nfrom math import inf'
    """
    return "\n".join(sorted({_import_line(name, obj) for name, obj in names.items()}))
