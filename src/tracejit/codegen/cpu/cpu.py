"""Printing a loop nest as a CPU kernel in the kernel language.

Every kernel is a function ``(pointers, numbers, lo, hi, worker)`` over a part [lo, hi) of its parallel range: points,
rows, tiles of columns or blocks, whichever the nest has. Literals, extents and strides are arguments, so that the text
depends on structure only; comments name the IR values and the user's lines and are not part of a kernel's identity.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...dtypes import DType, float64, int64
from ...errors import describe_line
from ...extents import hint, is_symbolic
from ...ir.graph import Value
from ...ops.random import RandomSource
from ...ops.shapes import numel
from ...ops.table import Elementwise, Reduction, operand_info
from ...passes.fusion.groups import Group, is_random, looks_up, looks_up_known, picks_from_row, root
from ...sizes import float_bits
from .. import scalar
from ..kernel import Function, Number, Pointer, Text
from ..nest import Access, Layout, Nest, build_nest, counts_from_end, index_source, is_one
from ..turns import Turns

if TYPE_CHECKING:
    from .panels import Panels

#: Elements per block of a full reduction.
BLOCK = 8192

Scope = dict[Value, str]


class Writer:
    """Prints one group."""

    def __init__(
        self,
        group: Group,
        outputs: Sequence[Value],
        layout_of: Callable[[Value], Layout],
        name: str,
        overwrites: Mapping[Value, Value],
    ) -> None:
        self.group = group
        self.outputs = tuple(outputs)
        self.layout_of = layout_of
        self.nest: Nest = build_nest(group, outputs, layout_of)
        self.name = name
        self.text = Text()
        self.counter = 0
        self.names = {value: f"in{i}" for i, value in enumerate(self.nest.reads)}
        # What is made here may be written too, and lie otherwise there.
        self.drawn = dict(self.names)
        for i, value in enumerate(self.nest.writes):
            taken = overwrites.get(value)
            self.names[value] = f"out{i}" if taken is None else self.names.get(taken, f"out{i}")
        self.turns = Turns(overwrites.values(), hint(numel(group.domain)))
        self.literals: dict[object, str] = {}
        self.variables: dict[int, str] = {}  # axis -> loop variable in scope
        self.positions: dict[Value, str] = {}  # lookup -> position, where it is read for a row
        self.panels: Panels | None = None  # what holds elements of some operands and outputs

    # --- small parts -------------------------------------------------------------------------------------------

    def fresh(self) -> str:
        """A new variable name."""
        self.counter += 1
        return f"v{self.counter - 1}"

    def extent(self, axis: int) -> str:
        """The parameter holding an axis's extent."""
        return self.text.parameter(f"n{axis}", "i64", Number(self.nest.axes[axis].extent))

    def number(self, name: str, value: int) -> str:
        """A parameter holding an integer."""
        return self.text.parameter(name, "i64", Number(value))

    def literal(self, value: bool | int | float, dtype: DType) -> str:
        """A Python number as a runtime scalar in the compute type of ``dtype``."""
        key = (
            type(value).__name__,
            value.hex() if isinstance(value, float) else id(value) if is_symbolic(value) else value,
            dtype.short,
        )
        if key not in self.literals:
            kind = scalar.compute_type(dtype)
            wide = "f64" if kind in ("f32", "f64") else "i64"
            bits = float_bits(value) if wide == "f64" else _wrapped(value, dtype)
            name = self.text.parameter(f"c{len(self.literals)}", wide, Number(bits))
            self.literals[key] = name
        name = self.literals[key]
        kind = scalar.compute_type(dtype)
        if kind in ("f64", "i64"):
            return name
        if dtype.short == "bool":
            return f"({name} != 0)"
        return scalar.rounded(f"{scalar.cast_name(dtype)}({name})", dtype)

    def address(self, access: Access, name: str) -> str:
        """Index of the current point for an operand."""
        terms = []
        for axis, stride in enumerate(access.strides):
            if stride == 0 or axis not in self.variables:
                continue
            variable = self.variables[axis]
            if is_one(stride) and access.is_innermost(axis):
                terms.append(variable)
            elif term := self.turns.term(access, axis, variable):
                terms.append(term)
            else:
                terms.append(f"{variable} * {self.number(f'{name}_s{axis}', stride)}")
        terms += self.turns.ahead(access, name)
        return " + ".join(terms) or "0"

    def pointer(self, value: Value, access: Access, written: bool) -> str:
        """The parameter holding the address of an operand's or output's storage."""
        assert access.layout is not None
        dtype = value.spec.dtype
        name, layout = self.turns.pointer(self.names[value], access, written)
        parameter = Pointer(layout.root, layout.offset * dtype.itemsize, written)
        return self.text.parameter(name, scalar.storage_type(dtype) + "*", parameter)

    def read(self, value: Value) -> str:
        """The element of an outside operand at the current point."""
        access = self.nest.reads[value]
        if index_source(value) is not None:
            return self.recomputed(value, access)
        return scalar.load(self.element(value, access, written=False), value.spec.dtype)

    def element(self, value: Value, access: Access, written: bool) -> str:
        """An operand's or output's element in memory at the current point."""
        if self.panels is not None and (found := self.panels.element(value, written)):
            return found
        name = self.pointer(value, access, written)
        return f"{name}[{self.address(access, name)}]"

    def recomputed(self, value: Value, access: Access) -> str:
        """A constant, or an iota's element from the loop variables."""
        source = index_source(value)
        assert source is not None
        dtype, attributes = value.spec.dtype, source.attributes
        if "value" in attributes:
            return self.literal(attributes["value"], dtype)
        index = self.address(access, self.drawn[value])
        start, step = attributes["start"], attributes["step"]
        if access.layout is not None and access.layout.offset:
            index = f"{self.number_literal(access.layout.offset)} + {index}"
        if isinstance(start, float) or isinstance(step, float):
            wide = f"({self.literal(float(start), float64)} + float64({index}) * {self.literal(float(step), float64)})"
            return scalar.rounded(f"{scalar.cast_name(dtype)}({wide})", dtype)
        wide = f"({self.number_literal(start)} + ({index}) * {self.number_literal(step)})"
        # Of i64, too: what comes of an index overflows nowhere, what comes of data may.
        return scalar.rounded(f"{scalar.cast_name(dtype)}({wide})", dtype)

    def number_literal(self, value: int) -> str:
        """An integer as a 64-bit runtime scalar."""
        return self.literal(value, int64)

    # --- values -------------------------------------------------------------------------------------------------

    def operand(
        self, x: object, scopes: Sequence[Scope], indent: int, compute: DType
    ) -> tuple[str, DType]:
        """Text and dtype of one operand of an elementwise value."""
        if not isinstance(x, Value):
            return self.literal(x, compute), compute  # type: ignore[arg-type]
        return self.value(x, scopes, indent), x.spec.dtype

    def value(self, x: Value, scopes: Sequence[Scope], indent: int) -> str:
        """The variable holding a value at the current point, computing it if need be."""
        origin = x if x in self.group.externals else root(x)
        for scope in scopes:
            if origin in scope:
                return scope[origin]
        if origin in self.group.externals:
            return self.define(origin, self.read(origin), scopes[0], indent)
        return self.compute(origin, scopes, indent)

    def define(
        self, value: Value, expression: str, scope: Scope, indent: int, comment: str = ""
    ) -> str:
        """Assign ``expression`` to a new variable that stands for ``value`` in ``scope``."""
        name = self.fresh()
        self.text.add(indent, f"{name} = {expression}", comment)
        scope[value] = name
        return name

    def compute(self, value: Value, scopes: Sequence[Scope], indent: int) -> str:
        """Compute an elementwise value, its operands first (depth first, without recursion)."""
        stack = [value]
        while stack:
            top = stack[-1]
            if any(top in scope for scope in scopes):
                stack.pop()
                continue
            operands = computed_operands(top)
            missing = [o for o in map(self.origin, operands) if self.must_compute(o, scopes)]
            if missing:
                stack.extend(reversed(missing))
                continue
            stack.pop()
            self.emit(top, scopes, indent)
        return next(scope[value] for scope in scopes if value in scope)

    def origin(self, x: Value) -> Value:
        """The value whose element an operand is: views inside a group are renamings."""
        return x if x in self.group.externals else root(x)

    def must_compute(self, value: Value, scopes: Sequence[Scope]) -> bool:
        """Is a value neither read from outside nor in a variable yet?"""
        return value not in self.group.externals and not any(value in scope for scope in scopes)

    def emit(self, value: Value, scopes: Sequence[Scope], indent: int) -> None:
        """Print one elementwise value whose operands are in variables."""
        assert not isinstance(value.op, Reduction), f"{value} is not available here"
        if looks_up(value) and self.looks_up_outside(value):
            self.look_up(value, scopes, indent)
            return
        if picks_from_row(value):
            self.pick(value, scopes, indent)
            return
        if is_random(value):
            self.draw(value, scopes[0], indent)
            return
        if len(value.value_operands) == len(value.operands):
            operands = [(self.value(x, scopes, indent), x.spec.dtype) for x in value.value_operands]
        else:  # numbers are written in the dtype the op computes in
            compute = _compute_dtypes(value)
            operands = [
                self.operand(x, scopes, indent, dtype)
                for x, dtype in zip(value.operands, compute, strict=True)
            ]
        expression = scalar.elementwise_expression(value, operands)
        self.define(value, expression, scopes[0], indent, describe(value))

    def draw(self, value: Value, scope: Scope, indent: int) -> None:
        """One random element: a function of seed, call and position."""
        assert isinstance(value.op, RandomSource)
        layout = self.layout_of(value.value_operands[0])
        pointer = Pointer(layout.root, layout.offset * 8, written=False)
        key = self.text.parameter(f"{self.drawn[value]}_key", "i64*", pointer)
        call, step = map(self.number_literal, (value.attributes["index"], *layout.strides))
        names = {
            "seed": f"uint64({key}[0])",
            "offset": f"uint64({key}[{step}] + int64({call}))",
            "i": f"uint64({self.address(self.nest.reads[value], self.drawn[value])})",
        }
        local = {}
        for name, text in names.items():
            local[name] = f"random{self.counter}_{name}"
            self.text.add(indent, f"{local[name]} = {text}")
        expression = value.op.scalars[value.spec.dtype.short]
        text = _NAMES.sub(lambda m: local.get(m.group(), m.group()), expression)
        self.define(value, scalar.rounded(text, value.spec.dtype), scope, indent, describe(value))

    def pick(self, value: Value, scopes: Sequence[Scope], indent: int) -> None:
        """Evaluate a row's expression at one computed position; a position outside the row ends the program."""
        row, (axis,) = value.value_operands[0], self.nest.reduced
        position = self.position(value, scopes, indent)
        self.check(position, self.extent(axis), indent)
        self.variables[axis] = position
        there = self.value(row, [{}, *scopes], indent)
        del self.variables[axis]
        self.define(value, there, scopes[0], indent, describe(value))

    def looks_up_outside(self, value: Value) -> bool:
        """Is what a lookup reads in memory, not computed here?"""
        return len(value.value_operands) == 1 or value.value_operands[0] in self.group.tables

    def look_up(self, value: Value, scopes: Sequence[Scope], indent: int) -> None:
        """An element at a position that is read, here or for the whole row."""
        position = self.positions.get(value) or self.checked_position(value, scopes, indent)
        found = position if len(value.value_operands) == 1 else self.table_element(value, position)
        self.define(value, found, scopes[0], indent, describe(value))

    def checked_position(self, value: Value, scopes: Sequence[Scope], indent: int) -> str:
        """The position that a lookup reads; one out of range ends the program."""
        position = self.position(value, scopes, indent)
        if not looks_up_known(value):
            self.check(position, self.table_size(value), indent)
        return position

    def check(self, position: str, size: str, indent: int) -> None:
        """End the program unless a position is at least 0, and below ``size``: as unsigned, one comparison."""
        self.text.add(indent, f"if uint64({position}) >= uint64({size}):")
        self.text.add(indent + 1, "return 1")

    def position(self, value: Value, scopes: Sequence[Scope], indent: int) -> str:
        """The position that a lookup reads; negative ones count from the end where they may be."""
        index, name = value.value_operands[-1], self.fresh()
        read = scalar.convert(self.value(index, scopes, indent), index.spec.dtype, int64)
        self.text.add(indent, f"{name} = {read}")
        if counts_from_end(value) and not looks_up_known(value):
            behind = f"{name} + {self.table_size(value)}"
            self.text.add(indent, f"{name} = select({name} < int64(0), {behind}, {name})")
        return name

    def table_element(self, value: Value, position: str) -> str:
        """What a lookup reads at a position."""
        x = value.value_operands[0]
        access, dim = self.nest.reads[x], value.attributes["dim"]
        assert access.layout is not None
        name = self.pointer(x, access, written=False)
        step = access.layout.strides[dim]
        there = position if is_one(step) else f"{position} * {self.number(f'{name}_at{dim}', step)}"
        return scalar.load(f"{name}[{self.address(access, name)} + {there}]", x.spec.dtype)

    def table_size(self, value: Value) -> str:
        """The parameter holding how many positions a lookup may ask for."""
        if len(value.value_operands) == 1:
            return self.number_literal(value.attributes["size"])
        x, dim = value.value_operands[0], value.attributes["dim"]
        return self.number(f"{self.names[x]}_n{dim}", x.spec.shape[dim])

    def write(self, value: Value, text: str, indent: int) -> None:
        """Store an output at the current point."""
        element = self.element(value, self.nest.writes[value], written=True)
        self.text.add(indent, f"{element} = {scalar.store(text, value.spec.dtype)}")

    # --- loops --------------------------------------------------------------------------------------------------

    def decompose(self, axes: Sequence[int], index: str, indent: int) -> None:
        """Loop variables of several axes from one running index."""
        rest = index
        for position in range(len(axes) - 1, 0, -1):
            axis = axes[position]
            self.text.add(indent, f"i{axis} = {rest} % {self.extent(axis)}")
            following = f"{index}_{position}"
            self.text.add(indent, f"{following} = {rest} // {self.extent(axis)}")
            rest = following
            self.variables[axis] = f"i{axis}"
        if axes:
            self.variables[axes[0]] = rest

    def open_loops(self, axes: Iterable[int], indent: int) -> int:
        """Nested loops over ``axes``; the indent inside them."""
        for axis in axes:
            self.text.add(indent, f"for i{axis} in range({self.extent(axis)}):")
            self.variables[axis] = f"i{axis}"
            indent += 1
        return indent

    def extents_product(self, axes: Iterable[int]) -> int:
        """Number of points of some axes."""
        return numel([self.nest.axes[axis].extent for axis in axes])

    def finish(self, extent: int, grain: int, name: str, doc: str) -> Function:
        """Close the function being written and make room for the next."""
        function = Function(
            name, self.text.source(name, doc), tuple(self.text.parameters.values()), extent, grain
        )
        self.text, self.literals, self.variables, self.positions = Text(), {}, {}, {}
        self.turns.clear()
        return function


_NAMES = re.compile(r"[A-Za-z_]\w*")


def computed_operands(value: Value) -> tuple[Value, ...]:
    """The operands whose elements a value needs at its own point."""
    if is_random(value):
        return ()
    at_position = looks_up(value) or picks_from_row(value)
    return value.value_operands[-1:] if at_position else value.value_operands


def _wrapped(value: Any, dtype: DType) -> int:
    """A Python number of a bool or integer type as a signed 64-bit pattern; as a bool, a fraction is no zero."""
    if is_symbolic(value):  # sizes are small
        return value  # type: ignore[no-any-return]
    bits = int(bool(value) if dtype.category == "bool" else value) & (1 << 64) - 1
    return bits - (1 << 64) if bits >> 63 else bits


def _compute_dtypes(value: Value) -> tuple[DType, ...]:
    assert isinstance(value.op, Elementwise)
    infos = tuple(operand_info(x.spec if isinstance(x, Value) else x) for x in value.operands)
    return value.op.types(infos, value.attributes)[0]


def describe(value: Value) -> str:
    """A comment that names the op, its type and the user's line."""
    assert value.op is not None
    where = f"   {describe_line(*value.line)}" if value.line else ""
    return f"{value.op.name}: {value.spec}{where}"


def describe_domain(group: Group) -> str:
    """The extents a group iterates over."""
    return f"[{', '.join(map(str, group.domain))}]"
