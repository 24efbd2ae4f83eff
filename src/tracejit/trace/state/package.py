"""This package as state: functions of it that ask what a recording cannot answer, and functions that are replaced.

Replacing a function of a public module (``tj.nn.functional.relu = mine``) moves a counter, which a guard compares;
methods put on ``Tensor`` move CPython's count of changes of that class.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import lru_cache
from types import FunctionType, ModuleType
from typing import Any

from ...runtime.native.memory_words import class_counter
from ...tensor import Tensor
from .checks import Bind, Check

_PUBLIC = ("tracejit", "tracejit.nn", "tracejit.nn.functional", "tracejit.optim")
#: How often a name of a public module was assigned.
_ASSIGNED = [0]


@lru_cache(maxsize=1)
def asking_functions() -> dict[int, str]:
    """Functions of this package whose answer, or effect, no recording holds: identity of the code -> name."""
    from ... import determinism, printing, random, serialization, settings
    from ...autograd import anomaly, handle
    from ...cuda import memory, precision
    from ...tensor_autograd import AutogradMethods
    from ...tensor_core import TensorCore
    from ...tensor_info import InfoMethods

    found: dict[int, str] = {}
    for owner, names in (
        (TensorCore, ("grad_fn", "is_leaf", "__getattr__")),
        (AutogradMethods, ("register_post_accumulate_grad_hook", "retains_grad")),
        (InfoMethods, ("_cdata", "data_ptr", "storage_offset", "untyped_storage")),
        (random.Generator, ("manual_seed", "seed", "initial_seed")),
        (handle.RemovableHandle, ("remove",)),
        (random, ("manual_seed", "seed", "initial_seed")),
        (serialization, ("save", "load")),
        (printing, ("set_printoptions", "get_printoptions")),
        (settings, ("get_num_threads", "set_warn_always", "is_warn_always_enabled")),
        (anomaly, ("is_anomaly_enabled", "is_anomaly_check_nan_enabled", "set_anomaly_enabled")),
        (determinism, determinism.__all__),
        (precision, ("get_float32_matmul_precision",)),
        (memory, ("memory_allocated", "max_memory_allocated", "memory_reserved", "mem_get_info")),
    ):
        for name in names:
            member: Any = vars(owner)[name]
            function = member.fget if isinstance(member, property) else member
            code = getattr(function, "__code__", None)
            if code is not None:
                found[id(code)] = _spelled(owner, name)
    return found


@lru_cache(maxsize=1)
def told_settings() -> dict[int, Callable[[], Any]]:
    """Those among them that ask for a setting, which recordings may hang on: identity of the code -> the function."""
    from ... import determinism

    names = [name for name in determinism.__all__ if not name.startswith(("set_", "use_"))]
    functions = [getattr(determinism, name) for name in names]
    return {id(function.__code__): function for function in functions}


@lru_cache(maxsize=1)
def asking_names() -> tuple[str, ...]:
    """The names of those functions."""
    names = {spelled.rpartition(".")[2] for spelled in asking_functions().values()}
    return tuple(names - {"__getattr__"})


def _spelled(owner: Any, name: str) -> str:
    """What users call a function of a module or class of this package."""
    if isinstance(owner, ModuleType):
        return f"tracejit.{name}"
    return f"Tensor.{name}" if issubclass(Tensor, owner) else f"{owner.__name__}.{name}"


class _Public(ModuleType):
    """A module that counts assignments to its names, but for those with which an import ends."""

    def __setattr__(self, name: str, value: Any) -> None:
        loaded = type(value) is ModuleType and name not in vars(self)
        super().__setattr__(name, value)
        if not loaded or value.__name__ != f"{self.__name__}.{name}":
            _ASSIGNED[0] += 1

    def __delattr__(self, name: str) -> None:
        super().__delattr__(name)
        _ASSIGNED[0] += 1


def _modules() -> Iterator[ModuleType]:
    """The public modules that are loaded; from now on they count."""
    for name in _PUBLIC:
        module = sys.modules.get(name)
        if type(module) is ModuleType:
            module.__class__ = _Public
        if module is not None:
            yield module


@lru_cache(maxsize=4)
def _functions(assigned: int) -> dict[tuple[str, str], Any]:
    """Every function and class of the public modules, by module and name."""
    del assigned
    return {
        (module.__name__, name): value
        for module in _modules()
        for name, value in tuple(vars(module).items())
        if callable(value)
    }


def replaced() -> tuple[tuple[str, Any], ...]:
    """Functions in this package that are not its own: the user put them there."""
    methods = ((name, f) for name, f in vars(Tensor).items() if isinstance(f, FunctionType))
    return _replaced(_ASSIGNED[0], tuple(methods))


@lru_cache(maxsize=4)
def _replaced(
    assigned: int, methods: tuple[tuple[str, FunctionType], ...]
) -> tuple[tuple[str, Any], ...]:
    methods_of_tensors = ((("Tensor", name), f) for name, f in methods)
    return tuple(
        (f"{owner}.{name}", f)
        for (owner, name), f in (*_functions(assigned).items(), *methods_of_tensors)
        if isinstance(f, FunctionType) and not _own(f)
    )


def _own(function: FunctionType) -> bool:
    return str(function.__globals__.get("__name__", "")).partition(".")[0] == "tracejit"


class Package(Check):
    """The public functions of this package and the methods of tensors are those they were."""

    __slots__ = ("changes", "functions", "methods", "seen")

    def __init__(self) -> None:
        list(_modules())
        super().__init__(_ASSIGNED, "the package")
        self.changes = class_counter(Tensor)
        self.seen = [_ASSIGNED[0], self._count()]
        self.functions = _functions(_ASSIGNED[0])
        self.methods = dict(vars(Tensor))

    def _count(self) -> int:
        """The count of changes of ``Tensor``, -1 (as which nothing counts) where there is none."""
        hash(Tensor.__eq__)  # a look-up, after which there is a count
        return (self.changes[0] if self.changes is not None else 0) or -1

    def broken(self, bind: Bind) -> str:
        """The condition as source."""
        counter, seen = bind(self.holder), bind(self.seen)
        moved = f"{counter}[0] != {seen}[0]"
        if self.changes is None:
            moved += f" or {bind(len)}({bind(vars(Tensor))}) != {len(self.methods)}"
        else:
            moved += f" or {bind(self.changes)}[0] != {seen}[1]"
        return f"({moved}) and {bind(self.difference)}() is not None"

    def difference(self) -> str | None:
        """What changed, or None."""
        now = self.holder[0], self._count()
        if [*now] == self.seen and now[1] > 0:
            return None
        for (module, name), value in self.functions.items():
            if vars(sys.modules[module]).get(name) is not value:
                return f"{name!r} of module {module} was replaced"
        methods = vars(Tensor)
        for name in (*self.methods, *methods):
            if methods.get(name) is not self.methods.get(name):
                return f"{name!r} of class Tensor was replaced"
        self.seen[:] = now
        return None
