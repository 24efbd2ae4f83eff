"""Numbers of a recorded run that are read or computed anew at every call, in Python and exactly as Python does.

A number is a source (an argument, a place of the Python state, an element of a tensor) or an operation on others. Equal
ones are one object, like the values of a graph. A graph reads a number from a *cell*: an input that is a tensor of one
element, made for the call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ...cuda.arrays import told
from ...ir.builder import attribute_key
from ...ir.graph import Value
from ...ops.conversions import convert_scalar, convert_whole
from ...tensor import Tensor
from ...types import Shape, TensorType
from ...varying import OPERATIONS

#: The branch of a guard that is taken whatever a number is.
ANY = ("any", "any value")

#: The name of numbers that are read when everything else has run: calls can hand them out, and nothing else.
LATE = "late"

_INFIX = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "truediv": "/",
    "floordiv": "//",
    "mod": "%",
    "pow": "**",
    "lt": "<",
    "le": "<=",
    "eq": "==",
    "ne": "!=",
    "gt": ">",
    "ge": ">=",
}
_LARGEST = {"f32": 3.0e38, "f64": float("inf"), "i64": 2**63 - 1, "i32": 2**31 - 1}


class UnfitError(Exception):
    """The code needs the numbers themselves; nothing has been run that could not be run again."""


class TypeChangedError(TypeError):
    """A number came out as another type than recorded."""


class Number:
    """A number of a recording: a source (``argument``, ``place``, ``item`` or ``size``), or the operation ``name``.

    ``label`` is what it is called in graphs and reports; ``at`` is the position of an argument, the check of a place,
    the value an item is read from, what computes a size from those that the run was told. Of a ``call`` it is what is
    called.
    """

    __slots__ = ("at", "kind", "label", "name", "operands")

    def __init__(
        self, name: str, kind: type, operands: tuple[Any, ...] = (), label: str = "", at: Any = None
    ) -> None:
        self.name = name
        self.kind = kind
        self.operands = operands
        self.label = label
        self.at = at

    @property
    def is_source(self) -> bool:
        """Is it read, not computed?"""
        return self.name in ("argument", "place", "item", "size")

    def sources(self) -> Iterator[Number]:
        """The sources it is computed from, each once."""
        seen = {self}
        stack = [self]
        while stack:
            number = stack.pop()
            if number.is_source:
                yield number
            fresh = {x for x in number.operands if isinstance(x, Number)} - seen
            seen |= fresh
            stack.extend(fresh)

    def text(self, name: Callable[[Any], str]) -> str:
        """The operation as Python source; ``name`` gives operands, and objects, their names."""
        operands = [name(x) for x in self.operands]
        if self.name in _INFIX:
            return f"{operands[0]} {_INFIX[self.name]} {operands[1]}"
        return f"{name(self.function)}({', '.join(operands)})"

    def evaluate(self, known: Mapping[Number, Any]) -> Any:
        """The result of the operation; raises what Python raises, and for a result of another type."""
        operands = [known[x] if isinstance(x, Number) else x for x in self.operands]
        found = self.function(*operands)
        if self.may_change and type(found) is not self.kind:
            raise TypeChangedError(f"{self.name} gave another type")
        return found

    @property
    def function(self) -> Callable[..., Any]:
        """What computes it."""
        found: Callable[..., Any] = self.at if self.name == "call" else OPERATIONS[self.name]
        return found

    @property
    def may_change(self) -> bool:
        """Can the type of the result depend on values?"""
        return self.name == "pow"

    def __repr__(self) -> str:
        return self.label or self.name


@dataclass(frozen=True, eq=False)
class NumberGuard:
    """What follows is right where ``value``, a number, comes out as ``expected``."""

    value: Number
    expected: Any
    line: tuple[str, int] | None


@dataclass(frozen=True, eq=False)
class ItemRead:
    """The only element of ``value`` is read from here on as a number, whatever it is."""

    value: Value
    number: Number
    line: tuple[str, int] | None


class NumberTable:
    """The numbers of one signature; equal ones are one."""

    def __init__(self) -> None:
        self.known: dict[Any, Number] = {}
        self.generators: dict[int, Any] = {}  # of Python's, from which some are drawn

    def source(self, name: str, at: Any, kind: type, label: str) -> Number:
        """The number that is read from ``at``."""
        return self._number((name, at), lambda: Number(name, kind, (), label, at))

    def size(self, key: Any, compute: Callable[[Mapping[int, int]], int]) -> Number:
        """The number that a size is, told by ``key``."""
        return self._number(("size", key), lambda: Number("size", int, (), "size", compute))

    def operation(self, name: str, operands: tuple[Any, ...], kind: type) -> Number:
        """An operation on numbers and constants."""
        keys = [x if isinstance(x, Number) else _constant_key(x) for x in operands]
        return self._number((name, kind, *keys), lambda: Number(name, kind, operands))

    def call(
        self,
        function: Callable[..., Any],
        operands: tuple[Any, ...],
        key: Any,
        label: str,
        kind: type = float,
    ) -> Number:
        """What a function makes of numbers and what it knows itself; equal ``key``, equal number."""
        return self._number(("call", key), lambda: Number("call", kind, operands, label, function))

    def late(self, read: Callable[[], Any], key: Any, label: str) -> Number:
        """The float that ``read`` gives when everything else has run; equal ``key``, equal number."""
        return self._number((LATE, key), lambda: Number(LATE, float, (), label, read))

    def _number(self, key: Any, make: Callable[[], Number]) -> Number:
        found = self.known.get(key)
        if found is None:
            found = self.known[key] = make()
        return found


_TRUE, _FALSE = ("bool", True), ("bool", False)


def outcome_key(value: Any) -> Any:
    """A guard's outcome as a dictionary key; floats by bits."""
    if value is True or value is False:
        return _TRUE if value else _FALSE
    return (
        (type(value).__name__, value.hex())
        if isinstance(value, float)
        else (type(value).__name__, value)
    )


def item_of(array: Any) -> Any:
    """The only element of an array as a Python number."""
    try:
        value = array.item()
    except RuntimeError as error:
        raise told(error) from None
    return value if type(value) in (bool, int, float) else float(value)


def _constant_key(value: Any) -> Any:
    return ("text", value) if isinstance(value, str) else attribute_key(value)


def cell_maker(spec: TensorType) -> Callable[[Any], Tensor]:
    """A function that makes the cell of a number, rounded or wrapped as a literal would be, or of an array."""
    dtype = spec.dtype
    if spec.shape:
        return partial(_cell_of_array, shape=spec.shape, kind=dtype.np)
    largest, kind, wrap, array = _LARGEST.get(dtype.short), dtype.np, Tensor._wrap, np.array
    is_float = dtype.is_floating_point
    exact = 2**53 if is_float and largest is not None else 0

    def cell(value: Any) -> Tensor:
        if type(value) is int and -exact < value < exact:
            return wrap(array(value, kind))
        if (
            largest is not None
            and isinstance(value, float) is is_float
            and -largest < value < largest
        ):
            return wrap(array(value, kind))
        with np.errstate(all="ignore"):
            convert = convert_whole if type(value) is int else convert_scalar
            return wrap(convert(value, dtype))

    return cell


def _cell_of_array(value: Any, shape: Shape, kind: Any) -> Tensor:
    """The cell of an array; of the number 0, which stands for none, one of zeros."""
    if type(value) is not np.ndarray:
        return Tensor._wrap(np.zeros(shape, kind))
    if value.shape != shape or value.dtype != kind:
        raise TypeChangedError("an array of another shape or type is drawn")
    return Tensor._wrap(np.ascontiguousarray(value))
