"""Printing arithmetic of complex numbers: memory of complex numbers is memory of pairs, real part first.

Each op is a kernel of its own, with the bits of NumPy's vector code: in a product one of the two terms of each part is
rounded before the other is added to it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ... import config
from ...dtypes import DType
from ...extents import is_symbolic
from ...ir.graph import Value
from ...ops.shapes import numel
from ...sizes import float_bits, largest
from ...types import Shape
from .. import scalar
from ..kernel import Function, KernelCode, Number, Pointer, Text
from ..nest import Layout, is_one, merge_axes

#: The parts of a result of (a + bi) and (c + di), or of a + bi alone; ``fma`` is the fused product and sum.
PARTS = {
    "add": ("{a} + {c}", "{b} + {d}"),
    "sub": ("{a} - {c}", "{b} - {d}"),
    "mul": ("{fma}({a}, {c}, -({b} * {d}))", "{fma}({a}, {d}, {b} * {c})"),
    "neg": ("-{a}", "-{b}"),
    "conjugate": ("{a}", "-{b}"),
    "clone": ("{a}", "{b}"),
    "cast": ("{a}", "{b}"),
    "complex_of_parts": ("{a}", "{b}"),
    "parts_of_complex": ("{a}", "{b}"),
}


def computes_pairs(value: Value) -> bool:
    """Does a kernel of this module compute a value?"""
    if value.op is None or value.op.name not in PARTS or not value.spec.numel:
        return False
    specs = [x.spec for x in value.value_operands]
    if not any(s.dtype.is_complex for s in (*specs, value.spec)):
        return False
    if any(is_symbolic(x) for x in value.operands if not isinstance(x, Value)):
        return False
    if value.op.name == "cast" and not value.spec.dtype.is_complex:
        return False
    return all(s.dtype.to_real is value.spec.dtype.to_real for s in specs)


@dataclass(frozen=True)
class _Place:
    """Where the numbers of an operand or of the result lie, along the dimensions of the numbers.

    ``second`` is how far behind the real part the imaginary one is, None for real numbers.
    """

    name: str
    layout: Layout
    dtype: DType
    strides: Shape  # of parts
    second: int | None


def _place(name: str, x: Value, layout: Layout, shape: Shape, *, pairs: bool) -> _Place:
    """The place of ``x``, whose last dimension is that of the parts if it consists of ``pairs``."""
    extents, strides = x.spec.shape, layout.strides
    second: int | None = 1 if x.spec.dtype.is_complex else None
    if pairs:
        second, extents, strides = strides[-1], extents[:-1], strides[:-1]
    parts = 2 if x.spec.dtype.is_complex else 1
    found = [0 if is_one(n) else s * parts for n, s in zip(extents, strides, strict=True)]
    spread = (0,) * (len(shape) - len(found))
    return _Place(name, layout, x.spec.dtype, (*spread, *found), second)


def write_pairs(value: Value, out: Layout, layout_of: Callable[[Value], Layout]) -> KernelCode:
    """The kernel that writes a value, for which `computes_pairs` holds, into memory that lies like ``out``.

    >>> from tracejit.ir import parse
    >>> from tracejit.runtime.plan.plan import make_plan
    >>> graph = parse("graph f(x: c64[9, 5]) { %0: c64[9, 5] = mul(x, x) return %0 }")
    >>> [kernel.name for kernel in make_plan(graph, [(5, 1)]).kernels]
    ['k_mul_pairs']
    """
    assert value.op is not None
    opname = value.op.name
    splits, joins = opname == "parts_of_complex", opname == "complex_of_parts"
    shape = value.spec.shape[:-1] if splits else value.spec.shape
    places = [_place("out", value, out, shape, pairs=splits)]
    for number, x in enumerate(value.value_operands):
        places.append(_place(f"x{number}", x, layout_of(x), shape, pairs=joins))
    writer = _Writer(value, shape, places)
    name = f"k_{opname}_pairs"
    return KernelCode(name, (writer.function(name),), None, (value,))


class _Writer:
    """The text of one kernel: loops over the numbers, threads sharing the first."""

    def __init__(self, value: Value, shape: Shape, places: Sequence[_Place]) -> None:
        self.value, self.places, self.text = value, places, Text()
        runs = merge_axes(shape, frozenset(), [p.strides for p in places]) or [[]]
        self.extents = [numel([shape[axis] for axis in run]) for run in runs]
        self.strides = [[p.strides[run[-1]] if run else 0 for run in runs] for p in places]

    def function(self, name: str) -> Function:
        """The function."""
        indent = 1
        for axis, extent in enumerate(self.extents):
            bounds = "lo, hi" if axis == 0 else self.number(f"n{axis}", extent)
            self.text.add(indent, f"for i{axis} in range({bounds}):")
            indent += 1
        symbols = {"fma": f"fma_{scalar.compute_type(self.value.spec.dtype.to_real)}"}
        number = 0
        for x, letters in zip(self.value.operands, ("ab", "cd"), strict=False):
            number += isinstance(x, Value)
            parts = (
                self.loaded(number, letters, indent)
                if isinstance(x, Value)
                else self.literal(x, letters)
            )
            symbols |= dict(zip(letters, parts, strict=True))
        assert self.value.op is not None
        for text, target in zip(PARTS[self.value.op.name], self.at(0), strict=True):
            self.text.add(indent, f"{target} = {text.format(**symbols)}")
        grain = largest(1, config.grain_elements // largest(1, numel(self.extents[1:])))
        parameters = tuple(self.text.parameters.values())
        source = self.text.source(name, f"{self.value.spec}: pairs")
        return Function(name, source, parameters, self.extents[0], grain)

    def number(self, name: str, value: int) -> str:
        """A parameter that holds an integer."""
        return self.text.parameter(name, "i64", Number(value))

    def literal(self, value: Any, letters: str) -> tuple[str, str]:
        """The parts of a Python number."""
        number, cast = complex(value), scalar.cast_name(self.value.spec.dtype.to_real)
        for letter, part in zip(letters, (number.real, number.imag), strict=True):
            self.text.parameter(letter, "f64", Number(float_bits(part)))
        return f"{cast}({letters[0]})", f"{cast}({letters[1]})"

    def loaded(self, number: int, letters: str, indent: int) -> tuple[str, str]:
        """Names of the parts of an operand, read before anything is written."""
        places = self.at(number)
        for letter, place in zip(letters, places, strict=False):
            self.text.add(indent, f"{letter} = {place}")
        if len(places) == 2:
            return letters[0], letters[1]
        return letters[0], f"{scalar.cast_name(self.value.spec.dtype.to_real)}(0)"

    def at(self, number: int) -> tuple[str, ...]:
        """The parts of one number in memory, one if there is no imaginary part."""
        place = self.places[number]
        pointer = Pointer(
            place.layout.root, place.layout.offset * place.dtype.itemsize, place.name == "out"
        )
        self.text.parameter(place.name, scalar.storage_type(place.dtype.to_real) + "*", pointer)
        terms = []
        for axis, stride in enumerate(self.strides[number]):
            known = not is_symbolic(stride)
            if known and stride == 0:
                continue
            if known and stride in (1, 2):
                terms.append(f"i{axis}" if stride == 1 else f"2 * i{axis}")
            else:
                terms.append(f"i{axis} * {self.number(f'{place.name}_s{axis}', stride)}")
        index = " + ".join(terms) or "0"
        if place.second is None:
            return (f"{place.name}[{index}]",)
        second = "1" if is_one(place.second) else self.number(f"{place.name}_second", place.second)
        return f"{place.name}[{index}]", f"{place.name}[{index} + {second}]"
