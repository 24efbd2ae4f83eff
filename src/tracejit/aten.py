"""Operators of PyTorch's core by name: ``ops.aten.add.Tensor(x, y)`` calls what this package has under the name.

Programs call them, and libraries keep functions of their own by them. All forms of an operator are one function here,
which takes what any of them takes.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any, NoReturn

from . import fft, linalg, nn, special
from .ops.table import FUNCTIONS
from .tensor import Tensor

__all__ = ["ATEN", "Aten", "Overload", "Packet", "overload_of"]


class Overload:
    """One form of an operator, such as ``ops.aten.add.Tensor``."""

    def __init__(self, packet: Packet, form: str) -> None:
        self._overloadpacket = packet
        self._overloadname = form
        self._function = packet._function
        self._opname = packet.__name__
        self.namespace = packet.namespace
        self.__name__ = f"{packet.__name__}.{form}"
        self.__module__ = packet.__module__
        self.tags: list[Any] = []

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call it."""
        return self._function(*args, **kwargs)

    @property
    def op(self) -> Any:
        """What computes it."""
        return self._function

    @property
    def overloadpacket(self) -> Packet:
        """All forms together."""
        return self._overloadpacket

    @property
    def _schema(self) -> Any:
        """What it takes, and what it writes to."""
        from .listening.schema import schema_of

        return schema_of(self)

    @property
    def is_view(self) -> bool:
        """Does it show what it is given?"""
        from .listening.schema import is_view

        if self.namespace != "aten":
            return bool(getattr(self._function, "is_view", False))
        return is_view(self._opname)

    def name(self) -> str:
        """Its name with that of the namespace, such as ``aten::add.Tensor``."""
        form = self._overloadname
        return f"{self.namespace}::{self._opname}" + ("" if form == "default" else f".{form}")

    def __str__(self) -> str:
        return f"{self.namespace}.{self.__name__}"

    def __repr__(self) -> str:
        return (
            f"<OpOverload(op='{self.namespace}.{self._opname}', overload='{self._overloadname}')>"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return overload_of, (self._opname, self._overloadname)

    def __deepcopy__(self, memo: Any) -> Overload:
        return self


class Packet:
    """All forms of an operator: ``ops.aten.add``, of which ``.Tensor`` and ``.default`` are some."""

    def __init__(self, name: str, function: Callable[..., Any], namespace: str = "aten") -> None:
        self.__name__ = name
        self.namespace = namespace
        self.__module__ = f"tracejit.ops.{namespace}"
        self._function = function
        self._qualified_op_name = f"{namespace}::{name}"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call it."""
        return self._function(*args, **kwargs)

    def __getattr__(self, form: str) -> Overload:
        if form.startswith("_"):
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{form}'")
        made = self.__dict__[form] = Overload(self, form)
        return made

    def overloads(self) -> list[str]:
        """The names of its forms."""
        from .listening.signatures import forms_of

        return [form.form for form in forms_of(self.__name__)] or ["default"]

    def __str__(self) -> str:
        return f"{self.namespace}.{self.__name__}"

    def __repr__(self) -> str:
        return f"<OpOverloadPacket(op='{self.namespace}.{self.__name__}')>"

    def __reduce__(self) -> tuple[Any, ...]:
        return getattr, (ATEN, self.__name__)

    def __deepcopy__(self, memo: Any) -> Packet:
        return self


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


ATEN = Aten("tracejit.ops.aten", Aten.__doc__)


def overload_of(name: str, form: str = "default") -> Overload:
    """One form of an operator by its names.

    >>> overload_of("add", "Tensor")
    <OpOverload(op='aten.add', overload='Tensor')>
    """
    found: Overload = getattr(getattr(ATEN, name), form)
    return found


def _function_of(name: str) -> Callable[..., Any] | None:
    """What the package has under a name: a function of its own, of layers, or a method."""
    from .aten_layers import LAYERS  # which programs seldom need
    from .aten_parts import PARTS
    from .aten_windows import WINDOWS

    for known in (
        _OTHERS.get(name),
        LAYERS.get(name),
        WINDOWS.get(name),
        PARTS.get(name),
        FUNCTIONS.get(name),
        vars(nn.functional).get(name),
    ):
        if callable(known):
            return known
    space, _, own = name.partition("_")
    if space in _SPACES and callable(getattr(_SPACES[space], own, None)):
        spaced: Callable[..., Any] = getattr(_SPACES[space], own)
        return spaced
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


def _windows(x: Tensor, dimension: int, size: int, step: int) -> Tensor:
    found: Tensor = x.unfold(dimension, size, step)
    return found


def _missing(*args: Any, **kwargs: Any) -> NoReturn:
    raise NotImplementedError("there is no such operator: libraries only name it")


#: Modules whose functions are operators by the names of both.
_SPACES = {"linalg": linalg, "fft": fft, "special": special}
#: Operators that have other names in programs, and parts of PyTorch's own functions.
_OTHERS: dict[str, Callable[..., Any]] = {
    "_to_copy": _copied,
    "alias": _aliased,
    "slice": _sliced,
    "index": _at,
    "_pin_memory": Tensor.pin_memory,
    "unfold": _windows,
    "_sparse_mm_reduce_impl": _missing,
    "_sparse_addmm": _missing,
}
