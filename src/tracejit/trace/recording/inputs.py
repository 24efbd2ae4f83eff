"""The inputs of recorded graphs: where each comes from at a call."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ...dtypes import DType
from ...ir.builder import Builder
from ...ir.graph import Value
from ...layout import layout_of
from ...tensor import Tensor
from ...types import Shape, TensorType
from ..numbers.numbers import Number, NumberTable
from ..sizes.found_sizes import Registry
from ..state.checks import Check
from ..state.gradients import ArgumentGradient


@dataclass(eq=False)
class Source:
    """Where a graph input comes from at a call.

    ``argument``: the tensor at ``position``. ``captured``: ``tensor``, from outside the function. ``number``:
    ``tensor``, a cell that is filled before every call. ``gradient``: what is in the ``.grad`` of ``owner``, a tensor
    or the position of an argument; it lies by ``strides``. ``random``: the key of ``generator``. ``cell``: a tensor
    made of ``number`` when that is known. A ``leaf`` is an argument as it is once the call made it require grad.
    """

    kind: str
    value: Value
    position: int = -1
    tensor: Tensor | None = None
    generator: Any = None
    owner: Tensor | int | None = None
    strides: Shape | None = None
    number: Number | None = None
    leaf: bool = False


@dataclass(eq=False)
class Signature:
    """What all recordings of one signature share: the builder (equal prefixes become equal values) and the inputs."""

    builder: Builder
    sources: list[Source] = field(default_factory=list)
    captured: dict[int, Value] = field(default_factory=dict)
    #: Did those tensors among them whose flags a call changes require grad before?
    flags: dict[int, bool] = field(default_factory=dict)
    rows: dict[Any, tuple[Any, tuple[Value, ...]]] = field(default_factory=dict)
    checks: dict[Any, Check] = field(default_factory=dict)
    gradient_checks: dict[int, Check] = field(default_factory=dict)
    argument_gradients: dict[int, ArgumentGradient] = field(default_factory=dict)
    absent: dict[int, set[str]] = field(default_factory=dict)  # attributes that arguments lack
    places: dict[int, int] = field(default_factory=dict)  # where in their storage arguments begin
    leaves: dict[int, Tensor] = field(default_factory=dict)
    device: int = -1  # the number of the GPU that everything lies on, -1 for the host
    graphs: bool = False  # are programs on a GPU to be CUDA graphs?
    numbers: NumberTable = field(default_factory=NumberTable)
    cells: dict[Any, Value] = field(default_factory=dict)
    sizes: Registry = field(default_factory=Registry)
    extents: Value | None = (
        None  # those among the arguments that are sizes, as calls hand them over
    )
    loops: dict[Any, Value] = field(default_factory=dict)  # open loops, one value for equal ones
    taken: set[str] = field(default_factory=set)  # names of the first `named` inputs
    named: int = 0
    unnamed: int = 0  # captured tensors that were given numbers for names
    by_value: dict[Value, Source] = field(default_factory=dict)  # of the sources
    gradients: dict[Any, Value] = field(default_factory=dict)  # by owner

    @property
    def special(self) -> bool:
        """Are there inputs that are neither arguments nor captured tensors nor random keys?"""
        return any(s.kind in ("gradient", "number") for s in self.sources)

    def argument(self, position: int, name: str, tensor: Tensor) -> Value:
        """The input for an argument tensor."""
        known = self._at(position, False)
        return self._argument(position, name, tensor, False) if known is None else known

    def leaf(self, position: int, tensor: Tensor) -> Value:
        """The input for an argument tensor that requires grad from now on."""
        known = self._at(position, True)
        if known is not None:
            return known
        plain, taken = self._at(position, False), self._taken()
        base = f"{plain.name if plain is not None else 'argument'}_leaf"
        name = next(n for n in _numbered(base) if n not in taken)
        return self._argument(position, name, tensor, True)

    def _at(self, position: int, leaf: bool) -> Value | None:
        for source in self.sources:
            if source.kind == "argument" and source.position == position and source.leaf is leaf:
                return source.value
        return None

    def _argument(self, position: int, name: str, tensor: Tensor, leaf: bool) -> Value:
        value = self.builder.input(name, tensor.spec)
        self.sources.append(Source("argument", value, position, leaf=leaf))
        return value

    def capture(self, tensor: Tensor) -> Value:
        """The input for a tensor from outside the function; the tensor is kept alive, so its id stays its own."""
        known = self.captured.get(id(tensor))
        if known is not None:
            return known
        taken = self._taken()
        given = getattr(tensor, "name", None)
        if not (isinstance(given, str) and given.isidentifier() and given not in taken):
            numbers = itertools.count(self.unnamed)
            self.unnamed = next(n for n in numbers if f"c{n}" not in taken)
            given = f"c{self.unnamed}"
        value = self.builder.input(given, tensor.spec)
        self.sources.append(Source("captured", value, tensor=tensor))
        self.captured[id(tensor)] = value
        return value

    def captured_by_name(self) -> list[tuple[str, Tensor]]:
        """The tensors from outside the function, and what they are called."""
        found = ((s.value.name, s.tensor) for s in self.sources if s.kind == "captured")
        return [(f"captured tensor {name!r}", x) for name, x in found if x is not None]

    def flows(self, tensor: Tensor) -> bool:
        """Is a gradient wanted with respect to a tensor from outside, as calls find it?"""
        return self.flags.get(id(tensor), tensor._flows is True)

    def source_of(self, value: Value) -> Source:
        """Where an input comes from."""
        if value not in self.by_value:
            self.by_value = {source.value: source for source in self.sources}
        return self.by_value[value]

    def _taken(self) -> set[str]:
        """The names of all inputs."""
        inputs = self.builder.inputs
        self.taken.update(value.name for value in inputs[self.named :])
        self.named = len(inputs)
        return self.taken

    def random_key(self, generator: Any, key: Tensor) -> Value:
        """The input for the state of a random generator."""
        for source in self.sources:
            if source.kind == "random" and source.generator is generator:
                return source.value
        value = self.builder.input(f"key{sum(s.kind == 'random' for s in self.sources)}", key.spec)
        self.sources.append(Source("random", value, generator=generator))
        return value

    def gradient(self, owner: Tensor | int, gradient: Tensor) -> Value:
        """The input for what is in the ``.grad`` of ``owner``."""
        key = owner if isinstance(owner, int) else (id(owner),)
        known = self.gradients.get(key)
        if known is not None:
            return known
        value = self.builder.input(f"grad{len(self.gradients)}", gradient.spec)
        self.gradients[key] = value
        strides = layout_of(gradient).strides
        self.sources.append(Source("gradient", value, owner=owner, strides=strides))
        return value

    def row(self, row: Any) -> tuple[Value, ...]:
        """The inputs for a row of numbers; rows of equal ``key`` are one."""
        known = self.rows.get(row.key)
        if known is not None:
            return known[1]
        first = sum(s.kind == "number" for s in self.sources)
        values = tuple(
            self.builder.input(f"number{first + i}", cell.spec) for i, cell in enumerate(row.cells)
        )
        for value, cell in zip(values, row.cells, strict=True):
            self.sources.append(Source("number", value, tensor=cell))
        self.rows[row.key] = (row, values)
        return values

    def cell(self, number: Number, dtype: DType, shape: Shape = ()) -> Value:
        """The input for a number, in ``dtype``, or for an array of numbers."""
        known = self.cells.get((number, dtype))
        if known is not None:
            return known
        taken = self._taken()
        name = next(n for n in _numbered(number.label or "number") if n not in taken)
        value = self.builder.input(name, TensorType(shape, dtype))
        self.sources.append(Source("cell", value, number=number))
        self.cells[number, dtype] = value
        return value

    def rollback(self, count: int) -> None:
        """Forget the inputs after the first ``count``: the run that added them did not finish."""
        for source in self.sources[count:]:
            if source.tensor is not None:
                self.captured.pop(id(source.tensor), None)
        self.flags = {k: flag for k, flag in self.flags.items() if k in self.captured}
        gone = {source.value for source in self.sources[count:]}
        self.rows = {k: row for k, row in self.rows.items() if gone.isdisjoint(row[1])}
        self.cells = {k: value for k, value in self.cells.items() if value not in gone}
        del self.sources[count:], self.builder.inputs[count:]  # one input per source
        self.taken, self.named, self.unnamed = set(), 0, 0
        self.by_value = {}
        self.gradients = {k: value for k, value in self.gradients.items() if value not in gone}


def _numbered(label: str) -> Iterator[str]:
    base = label if label.isidentifier() else "number"
    yield base
    yield from (f"{base}_{n}" for n in itertools.count(1))
