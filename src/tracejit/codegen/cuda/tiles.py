"""Matrix tiles of device kernels: how large they are, how they get into shared memory, and products of them."""

from __future__ import annotations

from dataclasses import dataclass

from ...ir.graph import Value
from .. import scalar
from ..kernel import Number, Pointer
from ..nest import Layout
from .launch import BLOCK, DeviceText

__all__ = ["SIDE", "Tensor", "Tiles", "tiles_for"]

#: Threads of a block stand in a square.
SIDE = 16
#: Bytes of shared memory that any device gives a block.
SHARED_BYTES = 48 * 1024
_PADS = (16, 32, 64, 128)
_SHAPES = ((64, 32), (32, 32), (32, 16), (16, 16))


@dataclass(frozen=True)
class Tiles:
    """Rows a block owns, rows of the other side it looks at together, and widths rounded up to what threads share."""

    rows: int
    columns: int
    width: int
    depth: int

    @property
    def row_steps(self) -> int:
        """Rows of a thread."""
        return self.rows // SIDE

    @property
    def column_steps(self) -> int:
        """Columns of a thread."""
        return self.columns // SIDE

    @property
    def widest(self) -> int:
        """The larger of the two widths."""
        return max(self.width, self.depth)

    def pad(self, wide: str) -> int:
        """A width, rounded up."""
        return self.width if wide == "width" else self.depth

    def steps(self, wide: str) -> int:
        """Columns of a result that a thread sums."""
        return self.pad(wide) // SIDE

    def products(
        self,
        text: DeviceText,
        result: str,
        rows: str,
        columns: str,
        count: str,
        wide: str,
        indent: int,
    ) -> None:
        """``result``: the first ``count`` elements of every row of a thread times those of every column."""
        line = self.pad(wide) + 1
        text.add(indent, f"for i in range({self.row_steps * self.column_steps}):")
        text.add(indent + 1, f"{result}[i] = float32(0)")
        text.add(indent, f"for e in range({count}):")
        text.add(indent + 1, f"for i in range({self.row_steps}):")
        text.add(indent + 2, f"a[i] = {rows}[(ty + {SIDE} * i) * {line} + e]")
        text.add(indent + 1, f"for j in range({self.column_steps}):")
        text.add(indent + 2, f"x = {columns}[(tx + {SIDE} * j) * {line} + e]")
        text.add(indent + 2, f"for i in range({self.row_steps}):")
        cell = f"{result}[i * {self.column_steps} + j]"
        text.add(indent + 3, f"{cell} = fma_f32(a[i], x, {cell})")

    def weighted(
        self, text: DeviceText, result: str, weights: str, values: str, wide: str, indent: int
    ) -> None:
        """Add to ``result``: rows of ``values``, of which ``used`` are there, times the weights of every row."""
        steps, line = self.steps(wide), self.pad(wide) + 1
        text.add(indent, "for c in range(used):")
        text.add(indent + 1, f"for i in range({self.row_steps}):")
        text.add(indent + 2, f"a[i] = {weights}[(ty + {SIDE} * i) * {self.columns + 1} + c]")
        text.add(indent + 1, f"for n in range({steps}):")
        text.add(indent + 2, f"x = {values}[c * {line} + tx + {SIDE} * n]")
        text.add(indent + 2, f"for i in range({self.row_steps}):")
        cell = f"{result}[i * {steps} + n]"
        text.add(indent + 3, f"{cell} = fma_f32(a[i], x, {cell})")


def tiles_for(kind: str, width: int, depth: int) -> Tiles:
    """The largest tiles whose buffers fit a block's shared memory.

    >>> tiles_for("attention", 64, 64), tiles_for("attention_dkv", 128, 100)
    (Tiles(rows=64, columns=32, width=64, depth=64), Tiles(rows=16, columns=16, width=128, depth=128))
    """
    wide, deep = (next(pad for pad in _PADS if size <= pad) for size in (width, depth))
    for rows, columns in _SHAPES:
        words = rows * (wide + 1) + rows * (columns + 1)
        if kind == "attention_dkv":
            words += rows * (deep + 1) + columns * (wide + deep + 2)
        else:
            words += columns * (max(wide, deep) + 1) + rows * (deep + 1) * (kind == "attention_dq")
        if 4 * words <= SHARED_BYTES:
            return Tiles(rows, columns, wide, deep)
    raise ValueError(f"no tiles of width {width} and depth {depth} fit")


class Tensor:
    """An operand or result of a kernel: a batch of matrices, or of rows."""

    def __init__(
        self, text: DeviceText, name: str, value: Value, layout: Layout, written: bool = False
    ) -> None:
        self.text, self.name, self.value, self.layout = text, name, value, layout
        self.written = written
        self.batch_dims = 0

    def begin(self, indent: int, batch: int) -> None:
        """Where the matrix of a block begins; the last ``batch`` dimensions before it are the batch's."""
        terms = []
        ndim = self.value.spec.ndim
        vector = self.name in ("lse", "delta") or (self.written and ndim == batch + 1)
        self.own = 1 if vector else 2
        for axis in range(batch):
            dim = ndim - self.own - batch + axis
            if dim >= 0 and self.layout.strides[dim] != 0 and self.value.spec.shape[dim] != 1:
                terms.append(f"b{axis} * {self.stride(dim)}")
        self.text.add(indent, f"{self.name}_at = {' + '.join(terms) or 'int64(0)'}")

    def stride(self, dim: int) -> str:
        """The parameter holding the step of a dimension, zero where its elements are all one."""
        there = dim >= 0 and self.value.spec.shape[dim] != 1
        step = self.layout.strides[dim] if there else 0
        return self.text.parameter(f"{self.name}_s{dim}", "i64", Number(step))

    def pointer(self) -> str:
        """The parameter holding the address."""
        dtype = self.value.spec.dtype
        parameter = Pointer(self.layout.root, self.layout.offset * dtype.itemsize, self.written)
        return self.text.parameter(self.name, scalar.storage_type(dtype) + "*", parameter)

    def at(self, *position: str) -> str:
        """The element at a position in the matrix of a block."""
        terms = [f"{self.name}_at"]
        for number, text in enumerate(position):
            dim = self.value.spec.ndim - self.own + number
            if dim >= 0:
                terms.append(f"({text}) * {self.stride(dim)}")
        return f"{self.pointer()}[{' + '.join(terms)}]"

    def load(
        self, buffer: str, start: str, count: str, width: str, rows: int, pad: int, indent: int
    ) -> None:
        """Rows from ``start`` on into shared memory, a spare element after each, zeros where there is nothing."""
        text = self.text
        text.add(indent, f"for t in range(thread(), {rows * pad}, {BLOCK}):")
        text.add(indent + 1, f"r = t >> {pad.bit_length() - 1}")
        text.add(indent + 1, f"c = t & {pad - 1}")
        text.add(indent + 1, "element = float32(0)")
        text.add(indent + 1, f"if ({start} + r < {count}) and (c < {width}):")
        found = scalar.load(self.at(f"{start} + r", "c"), self.value.spec.dtype)
        text.add(indent + 2, f"element = {found}")
        text.add(indent + 1, f"{buffer}[r * {pad + 1} + c] = element")
