"""Operators of PyTorch's core by name: ``ops.aten.add.Tensor(x, y)`` calls what this package has under the name.

Programs call them, and libraries keep functions of their own by them. All forms of an operator are one function here,
which takes what any of them takes.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any, NoReturn

from . import nn
from .ops.table import FUNCTIONS
from .tensor import Tensor

__all__ = ["Aten", "Overload", "Packet"]


class Overload:
    """One form of an operator, such as ``ops.aten.add.Tensor``."""

    def __init__(self, packet: Packet, form: str) -> None:
        self.overloadpacket = packet
        self._overloadname = form
        self._function = packet._function
        self.__name__ = f"{packet.__name__}.{form}"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call it."""
        return self._function(*args, **kwargs)

    def name(self) -> str:
        """Its name with that of the namespace, such as ``aten::add.Tensor``."""
        form = self._overloadname
        return f"aten::{self.overloadpacket.__name__}" + ("" if form == "default" else f".{form}")

    def __repr__(self) -> str:
        return f"<OpOverload(op='aten.{self.overloadpacket.__name__}', overload='{self._overloadname}')>"


class Packet:
    """All forms of an operator: ``ops.aten.add``, of which ``.Tensor`` and ``.default`` are some."""

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        self.__name__ = name
        self._function = function
        self._qualified_op_name = f"aten::{name}"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call it."""
        return self._function(*args, **kwargs)

    def __getattr__(self, form: str) -> Overload:
        if form.startswith("_"):
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{form}'")
        made = self.__dict__[form] = Overload(self, form)
        return made

    def __repr__(self) -> str:
        return f"<OpOverloadPacket(op='aten.{self.__name__}')>"


class Aten(ModuleType):
    """The namespace, whose operators are made when they are asked for.

    >>> import tracejit as tj
    >>> tj.ops.aten.add.Tensor(tj.ones(2), 1), tj.ops.aten.relu
    (tensor([2., 2.]), <OpOverloadPacket(op='aten.relu')>)
    """

    def __getattr__(self, name: str) -> Packet:
        found = None if name.startswith("__") else _function_of(name)
        if found is None:
            raise AttributeError(f"'_OpNamespace' 'aten' object has no attribute '{name}'")
        made = self.__dict__[name] = Packet(name, found)
        return made


def _function_of(name: str) -> Callable[..., Any] | None:
    """What the package has under a name: a function of its own, of layers, or a method."""
    from .aten_parts import PARTS  # which programs seldom need

    for known in (
        _OTHERS.get(name),
        PARTS.get(name),
        FUNCTIONS.get(name),
        vars(nn.functional).get(name),
    ):
        if callable(known):
            return known
    method: Callable[..., Any] | None = getattr(Tensor, name, None)
    return method if callable(method) else None


def _copied(x: Tensor, *, layout: Any = None, pin_memory: Any = None, **options: Any) -> Tensor:
    found: Tensor = x.to(copy=True, **options)
    return found


def _aliased(x: Tensor) -> Tensor:
    found: Tensor = x.view(x.shape)
    return found


def _sliced(
    x: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Tensor:
    before = dim + x.ndim if dim < 0 else dim
    found: Tensor = x[(*[slice(None)] * before, slice(start, end, step))]
    return found


def _at(x: Tensor, indices: Any) -> Tensor:
    found: Tensor = x[tuple([slice(None) if i is None else i for i in indices])]
    return found


def _missing(*args: Any, **kwargs: Any) -> NoReturn:
    raise NotImplementedError("there is no such operator: libraries only name it")


#: Operators that have other names in programs, and parts of PyTorch's own functions.
_OTHERS: dict[str, Callable[..., Any]] = {
    "_to_copy": _copied,
    "alias": _aliased,
    "slice": _sliced,
    "index": _at,
    "_pin_memory": Tensor.pin_memory,
    "_sparse_mm_reduce_impl": _missing,
    "_sparse_addmm": _missing,
}
