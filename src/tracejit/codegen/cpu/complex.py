"""Printing copies of complex numbers: memory of complex numbers is memory of pairs, real part first.

What computes with complex numbers is printed as what it computes with their parts (`passes.products.complex_parts`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ... import config
from ...dtypes import DType
from ...extents import is_symbolic
from ...ir.graph import Value
from ...ops.shapes import numel
from ...sizes import largest
from ...types import Shape
from .. import scalar
from ..kernel import Function, KernelCode, Number, Pointer, Text
from ..nest import Layout, is_one, merge_axes

_COPIES = frozenset({"clone", "complex_of_parts", "parts_of_complex"})


def copies_pairs(value: Value) -> bool:
    """Does a kernel of this module compute a value?"""
    if value.op is None or value.op.name not in _COPIES or not value.spec.numel:
        return False
    kinds = (value.spec.dtype, value.value_operands[0].spec.dtype)
    return any(d.is_complex for d in kinds) and kinds[0].to_real() is kinds[1].to_real()


@dataclass(frozen=True)
class _Place:
    """Where the numbers of the operand or of the result lie, along the dimensions of the numbers.

    ``second`` is how far behind the real part the imaginary one is.
    """

    name: str
    layout: Layout
    dtype: DType
    strides: Shape  # of parts
    second: int


def _place(name: str, x: Value, layout: Layout) -> _Place:
    """The place of ``x``, whose last dimension is that of the parts if it is not complex."""
    if x.spec.dtype.is_complex:
        strides = tuple(2 * s for s in layout.strides)
        return _Place(name, layout, x.spec.dtype, strides, 1)
    return _Place(name, layout, x.spec.dtype, layout.strides[:-1], layout.strides[-1])


def write_pairs(value: Value, out: Layout, layout_of: Callable[[Value], Layout]) -> KernelCode:
    """The kernel that writes a value, for which `copies_pairs` holds, into memory that lies like ``out``.

    >>> from tracejit.ir import parse
    >>> from tracejit.runtime.plan.plan import make_plan
    >>> graph = parse("graph f(x: c64[9, 5]) { %0: f32[9, 5, 2] = parts_of_complex(x) return %0 }")
    >>> [kernel.name for kernel in make_plan(graph, [(5, 1)]).kernels]
    ['k_parts_of_complex_pairs']
    """
    assert value.op is not None
    x = value.value_operands[0]
    shape = x.spec.shape if x.spec.dtype.is_complex else value.spec.shape
    places = [_place("out", value, out), _place("x", x, layout_of(x))]
    name = f"k_{value.op.name}_pairs"
    function = _Writer(shape, places).function(name, str(value.spec))
    return KernelCode(name, (function,), None, (value,))


class _Writer:
    """The text of one kernel: loops over the numbers, threads sharing the first."""

    def __init__(self, shape: Shape, places: Sequence[_Place]) -> None:
        self.places, self.text = places, Text()
        runs = merge_axes(shape, frozenset(), [self._strides(p, shape) for p in places]) or [[]]
        self.extents = [numel([shape[axis] for axis in run]) for run in runs]
        self.strides = [
            [self._strides(p, shape)[run[-1]] if run else 0 for run in runs] for p in places
        ]

    @staticmethod
    def _strides(place: _Place, shape: Shape) -> Shape:
        return tuple(0 if is_one(n) else s for n, s in zip(shape, place.strides, strict=True))

    def function(self, name: str, comment: str) -> Function:
        """The function."""
        indent = 1
        for axis, extent in enumerate(self.extents):
            bounds = "lo, hi" if axis == 0 else self.number(f"n{axis}", extent)
            self.text.add(indent, f"for i{axis} in range({bounds}):")
            indent += 1
        for part, source in zip("ab", self.at(1), strict=True):  # read before anything is written
            self.text.add(indent, f"{part} = {source}")
        for part, target in zip("ab", self.at(0), strict=True):
            self.text.add(indent, f"{target} = {part}")
        grain = largest(1, config.grain_elements // largest(1, numel(self.extents[1:])))
        parameters = tuple(self.text.parameters.values())
        source = self.text.source(name, f"{comment}: pairs")
        return Function(name, source, parameters, self.extents[0], grain)

    def number(self, name: str, value: int) -> str:
        """A parameter that holds an integer."""
        return self.text.parameter(name, "i64", Number(value))

    def at(self, number: int) -> tuple[str, str]:
        """The parts of one number in memory."""
        place = self.places[number]
        pointer = Pointer(
            place.layout.root, place.layout.offset * place.dtype.itemsize, place.name == "out"
        )
        self.text.parameter(place.name, scalar.storage_type(place.dtype.to_real()) + "*", pointer)
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
        second = "1" if is_one(place.second) else self.number(f"{place.name}_second", place.second)
        return f"{place.name}[{index}]", f"{place.name}[{index} + {second}]"
