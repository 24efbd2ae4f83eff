"""Products of matrices that are not there: squares of 64 by 64 results, whose factors a kernel puts into shared memory.

A block of 16 by 16 threads walks over the terms of its results, 16 at a time. What the factors are is the printer's
(:mod:`.convolution`); each thread keeps 4 by 4 sums, and the order of terms is fixed.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...dtypes import DType
from ...sizes import call, largest
from ...types import Shape
from .. import scalar
from ..kernel import Number
from .cuda import NARROW
from .functions import divisor
from .launch import BLOCK, DeviceText, Launch

__all__ = ["EACH", "SQUARE", "TERMS", "SquareText"]

#: Rows and columns of a square, terms taken together, and rows (and columns) of a thread.
SQUARE, TERMS, EACH = 64, 16, 4
#: Elements from one term's row in shared memory to the next: a multiple of the vector, and of no power of two.
LINE = SQUARE + 4


class SquareText:
    """The lines of a kernel of squares: what does not depend on the factors."""

    def __init__(self, dtype: DType) -> None:
        self.text, self.dtype = DeviceText(), dtype
        self.kind, self.cast = scalar.compute_type(dtype), scalar.cast_name(dtype)

    def number(self, name: str, value: int) -> str:
        """A parameter holding an integer."""
        return self.text.parameter(name, "i64", Number(value))

    def quotient(self, index: str, name: str, extent: int, narrow: bool) -> str:
        """``index`` divided by an extent; by 32-bit multiplication where indices are ``narrow``."""
        if not narrow:
            return f"{index} // {self.number(name, extent)}"
        parts = ("multiplier", "shift")
        names = [
            self.text.parameter(f"{name}_{part}", "u32", Number(bits))
            for part, bits in zip(parts, call(_divisor, extent), strict=True)
        ]
        return f"int64(quotient_u32(uint32({index}), {', '.join(names)}))"

    def split(
        self, index: str, names: Sequence[str], extents: Shape, narrow: bool, indent: int
    ) -> None:
        """``names``, which have these extents, from one running index; the first is what is left."""
        rest = index
        for name, extent in reversed(list(zip(names[1:], extents[1:], strict=True))):
            size = self.number(f"{name}_size", extent)
            quotient = self.quotient(rest, f"{name}_size", extent, narrow)
            self.text.add(indent, f"{name}_rest = {quotient}")
            self.text.add(indent, f"{name} = {rest} - {name}_rest * {size}")
            rest = f"{name}_rest"
        self.text.add(indent, f"{names[0]} = {rest}")

    def declare(self) -> None:
        """Both factors, and the sums of a thread."""
        if (
            self.kind == "f32"
        ):  # 128 registers are enough, and while one block loads another multiplies
            self.text.together = 2
        for side in ("left", "right"):
            self.text.array(side, f"shared_{self.kind}({TERMS * LINE})")
            self.text.array(f"{side}_part", f"local_{self.kind}({EACH})")
        self.text.array("sums", f"local_{self.kind}({EACH * EACH})")

    def clear(self, indent: int) -> None:
        """Every sum is zero."""
        self.text.add(indent, f"for i in range({EACH * EACH}):")
        self.text.add(indent + 1, f"sums[i] = {self.cast}(0)")

    def products(self, indent: int) -> None:
        """Add the products of the terms that lie in shared memory."""
        add = self.text.add
        add(indent, f"for e in range({TERMS}):")
        add(indent + 1, f"load4(left, e * {LINE} + ty * {EACH}, left_part, 0)")
        add(indent + 1, f"load4(right, e * {LINE} + tx * {EACH}, right_part, 0)")
        add(indent + 1, f"for i in range({EACH}):")
        add(indent + 2, f"for j in range({EACH}):")
        cell = f"sums[i * {EACH} + j]"
        add(indent + 3, f"{cell} = fma_{self.kind}(left_part[i], right_part[j], {cell})")

    def launch(self, name: str, doc: str, grid: int) -> Launch:
        """The function that was written, for so many blocks."""
        parameters = tuple(self.text.parameters.values())
        return Launch(name, self.text.source(name, doc), parameters, grid)


def is_narrow(count: int) -> bool:
    """Do indices below ``count`` fit the division by multiplication?"""
    return bool(count < NARROW - BLOCK)


def _divisor(extent: int) -> tuple[int, ...]:
    return divisor(largest(extent, 1))
