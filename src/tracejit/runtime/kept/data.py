"""Data of plans as JSON, and back: numbers, sizes with symbols, addresses of code, ops, and the records they stand in.

Whatever there is no form for, raises `NotKept`: a plan with it is not kept.
"""

from __future__ import annotations

import dataclasses
import importlib
import sys
from collections.abc import Callable, Mapping
from functools import lru_cache
from types import FunctionType
from typing import Any

from ... import dtypes
from ...dtypes import DType
from ...extents import Extent, Extents, is_symbolic
from ...ir.graph import Graph, Value
from ...ir.loops import Body, LoopType
from ...ops.op import REGISTRY, Op
from ...types import TensorType
from ..machine_code.promised import Address, Promised
from ..plan.arena import PlacedAgain
from ..plan.records import Constant, HostCall, HostOperand, Slot
from ..streaming import Streaming
from .addresses import find

__all__ = ["Decoder", "Encoder", "NotKept"]

_RECORDS = (TensorType, LoopType, Slot, HostCall, HostOperand, Constant, PlacedAgain, Streaming)
_BY_NAME = {kind.__name__: kind for kind in _RECORDS}
_PLAIN = frozenset({int, str, bool, type(None)})
#: Numbers between these may be addresses of this process that say nothing of themselves. As bits of a float64 they
#: would be smaller than any that is normal.
_ADDRESSES = range(1 << 32, 1 << 48)


class NotKept(Exception):
    """Something in a plan has no form in which it could be kept."""


class Encoder:
    """Data as what JSON knows. Sizes and addresses go into tables, where each stands once.

    >>> encoder = Encoder()
    >>> encoder((1, 2.5, "x", [dtypes.float32]))
    ['t', 1, ['f', '0x1.4000000000000p+1'], 'x', ['l', ['y', 'f32']]]
    >>> encoder(object())
    Traceback (most recent call last):
    ...
    tracejit.runtime.kept.data.NotKept: object
    """

    def __init__(self) -> None:
        self.extents: dict[
            int, tuple[int, Extent]
        ] = {}  # numbers by identity: equal ones are one object
        self.addresses: dict[tuple[str, ...], int] = {}

    def __call__(self, x: Any) -> Any:
        """One of the data."""
        kind = type(x)
        if kind is int and abs(x) in _ADDRESSES:
            raise NotKept(f"{x:#x}, which may be an address")
        if kind in _PLAIN:
            return x
        write = _WRITERS.get(kind)
        if write is not None:
            return write(self, x)
        if isinstance(x, Op) and REGISTRY.get(x.name) is x:
            return ["o", x.name]
        raise NotKept(kind.__name__)

    def all(self, values: Any) -> list[Any]:
        """Each of some values."""
        items: list[Any] = list(values)
        if {*map(type, items)} == {int} and max(items) < _ADDRESSES.start > -min(items):
            return items  # the values of all sizes are asked for with every straight piece
        return [self(x) for x in items]

    def extent(self, x: Any) -> list[Any]:
        """A size that has symbols."""
        number, _ = self.extents.setdefault(id(x), (len(self.extents), x))
        return ["e", number]

    def address(self, x: Any) -> list[Any]:
        """The address of a function, by what it is the address of."""
        origin: tuple[str, ...] = x.origin
        if not origin:
            raise NotKept("an address of unknown origin")
        return ["a", self.addresses.setdefault(origin, len(self.addresses))]

    def record(self, x: Any) -> list[Any]:
        """A record, by its fields."""
        kind: type = type(x)
        return ["r", kind.__name__, *[self(getattr(x, name)) for name in _fields(kind)]]

    def graph(self, graph: Graph) -> list[Any]:
        """A graph, to be told from others; it cannot be read back."""
        numbers = {v: number for number, v in enumerate(graph.inputs)}
        words: list[Any] = [[v.name, *self.type(v.spec)] for v in graph.inputs]
        for value in graph.values:
            assert value.op is not None
            operands = [numbers[x] if isinstance(x, Value) else [self(x)] for x in value.operands]
            attributes = [(name, self(x)) for name, x in value.attributes.items()]
            words.append([_name_of(value.op), self.type(value.spec), operands, attributes])
            numbers[value] = len(numbers)
        return ["g", *words, [numbers[v] for v in graph.outputs]]

    def type(self, spec: TensorType) -> list[Any]:
        """A type, shorter than as a record; sizes with symbols are negative."""
        if type(spec) is not TensorType:
            return self.record(spec)
        shape = [~self.extent(e)[1] if is_symbolic(e) else e for e in spec.shape]
        return [spec.dtype.short, *shape]

    def tables(self) -> dict[str, Any]:
        """What the other data refers to: terms of sizes, and origins of addresses."""
        return {
            "extents": [x.terms for _, x in self.extents.values()],
            "addresses": list(self.addresses),
        }


@lru_cache(maxsize=64)
def _fields(kind: type) -> tuple[str, ...]:
    """The names of what records of a kind hold."""
    return tuple([field.name for field in dataclasses.fields(kind)])


def _name_of(op: Op) -> str:
    """The name of an op that is the same in any process; those of programs' own have none."""
    if REGISTRY.get(op.name) is op:
        return op.name
    for home in (
        type(op).__module__,
        getattr(op.body, "__module__", ""),
    ):  # of what only graphs have
        if home.startswith(("tracejit.ir.", "tracejit.runtime.", "tracejit.ops.continued")):
            return f"{home}.{op.name}"
    raise NotKept(f"the op {op.name}")


def _function(encoder: Encoder, x: Any) -> list[Any]:
    """A function of this package, by its name."""
    del encoder
    home, name = str(x.__module__), str(x.__qualname__)
    if not home.startswith("tracejit.") or getattr(sys.modules.get(home), name, None) is not x:
        raise NotKept(f"the function {name}")
    return ["n", home, name]


_WRITERS: dict[type, Callable[[Encoder, Any], list[Any]]] = {
    Extent: Encoder.extent,
    Address: Encoder.address,
    Promised: Encoder.address,
    float: lambda _, x: ["f", x.hex()],
    complex: lambda _, x: ["c", x.real.hex(), x.imag.hex()],
    tuple: lambda encoder, x: ["t", *[encoder(part) for part in x]],
    list: lambda encoder, x: ["l", *[encoder(part) for part in x]],
    dict: lambda encoder, x: ["d", *[[encoder(k), encoder(v)] for k, v in x.items()]],
    DType: lambda _, x: ["y", x.short],
    FunctionType: _function,
    Body: lambda encoder, x: encoder.graph(x.graph),
    **dict.fromkeys(_RECORDS, Encoder.record),
}


class Decoder:
    """Data from what an `Encoder` made of it, with the sizes of a scope.

    >>> encoder = Encoder()
    >>> n = Extents().symbol(6)
    >>> found = encoder((n * 2, dtypes.float32))
    >>> other = Extents()
    >>> m = other.symbol(6)
    >>> Decoder(other, encoder.tables())(found) == (2 * m, dtypes.float32)
    True
    """

    def __init__(self, scope: Extents | None, tables: Mapping[str, Any]) -> None:
        self.scope = scope
        self.terms = tables["extents"]
        self.extents: list[Any] = []
        self.addresses = [find(tuple(origin)) for origin in tables["addresses"]]

    def sizes(self) -> None:
        """Make the sizes, once the scope has all their symbols."""
        scope = self.scope
        if scope is not None and not self.extents:
            self.extents = [scope.extent(_terms(terms)) for terms in self.terms]

    def __call__(self, x: Any) -> Any:
        """One of the data."""
        if type(x) is not list:
            return x
        if x[0] == "e":
            self.sizes()
        return _READERS[x[0]](self, x)

    def all(self, values: Any) -> list[Any]:
        """Each of some values."""
        return [self(x) for x in values]


def _terms(terms: Any) -> Any:
    return tuple([(tuple(monomial), factor) for monomial, factor in terms])


def _named(module: str, name: str) -> Any:
    if not module.startswith("tracejit."):
        raise LookupError(module)
    return getattr(importlib.import_module(module), name)


_READERS: dict[str, Callable[[Decoder, Any], Any]] = {
    "e": lambda decoder, x: decoder.extents[x[1]],
    "a": lambda decoder, x: decoder.addresses[x[1]],
    "f": lambda _, x: float.fromhex(x[1]),
    "c": lambda _, x: complex(float.fromhex(x[1]), float.fromhex(x[2])),
    "t": lambda decoder, x: tuple(decoder.all(x[1:])),
    "l": lambda decoder, x: decoder.all(x[1:]),
    "d": lambda decoder, x: {decoder(k): decoder(v) for k, v in x[1:]},
    "y": lambda _, x: dtypes.by_name(x[1]),
    "o": lambda _, x: REGISTRY[x[1]],
    "n": lambda _, x: _named(x[1], x[2]),
    "r": lambda decoder, x: _BY_NAME[x[1]](*decoder.all(x[2:])),
}
