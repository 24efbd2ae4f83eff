"""Printing attention for a device: tiles of queries and keys in shared memory, scores that are never stored.

A block owns a tile of queries (in the gradient of keys and values: of keys) and walks over the tiles of the other
side. Scores of a tile live in registers; a running maximum and sum make the softmax, so memory grows with the length
and not with its square. Threads form a square of 16 by 16, and each computes the scores at (ty + 16 i, tx + 16 j).
Sums are float32, products are fused into them, and the order is fixed: every run gives the same bits.
"""

from __future__ import annotations

from collections.abc import Callable

from ...ir.graph import Value
from ..nest import Layout
from .launch import DeviceCode
from .scores import KINDS, TilePrinter
from .tiles import SIDE

__all__ = ["attends", "write_attention"]

#: The widest heads.
WIDEST = 128


def attends(value: Value) -> bool:
    """Can this op of attention be computed in tiles: in float32 or less, of heads that are not too wide?

    >>> from tracejit.ir import parse
    >>> graph = parse("graph f(x: f32[2]) { %0: f32[2] = exp(x)  return %0 }")
    >>> attends(graph.outputs[0])
    False
    """
    if value.op is None or value.op.name not in KINDS or value.spec.numel == 0:
        return False
    shown = dict(zip(KINDS[value.op.name], value.value_operands, strict=True))
    widths = [shown[name].spec.shape[-1] for name in ("q", "v") if name in shown]
    dtypes = {shown[name].spec.dtype.short for name in ("q", "k", "v") if name in shown}
    rows = {shown[name].spec.dtype.short for name in ("lse", "delta") if name in shown}
    small = dtypes <= {"f32", "f16", "bf16"} and rows <= {"f32"} and shown["k"].spec.numel != 0
    return small and all(width <= WIDEST for width in widths)


def write_attention(value: Value, out: Layout, layout_of: Callable[[Value], Layout]) -> DeviceCode:
    """The kernel of an op for which `attends`; the result lies like ``out``.

    >>> from tracejit.ir import parse
    >>> from tracejit.codegen.nest import Layout
    >>> graph = parse('''graph f(q: f32[2, 9, 8], k: f32[2, 7, 8], v: f32[2, 7, 4]) {
    ...     %0: f32[2, 9, 4] = attention(
    ...         q, k, v, q, q, scale=0.5, causal=True, masked=False, dropout=0.0, index=-1)
    ...     return %0
    ... }''')
    >>> dense = lambda value: Layout(value, 0, value.spec.contiguous_strides())
    >>> (launch,) = write_attention(graph.outputs[0], dense(graph.outputs[0]), dense).launches
    >>> launch.name, launch.grid
    ('k_attention', 2)
    """
    assert value.op is not None
    name = f"k_{value.op.name}"
    printer = (_KeyRows if name == "k_attention_dkv" else _QueryRows)(value, out, layout_of)
    return DeviceCode(name, ((printer.write(name),),), None, (value,))


class _QueryRows(TilePrinter):
    """A block owns queries: attention itself, its row statistics, and the gradient of the queries."""

    def before(self) -> None:
        tiles = self.tiles
        self.buffer("own", tiles.rows, "width")
        self.text.array("other", f"shared_f32({tiles.columns * (tiles.widest + 1)})")
        self.local("s", tiles.row_steps * tiles.column_steps)
        self.local("a", tiles.row_steps)
        self.text.add(2, "barrier()", "the block before may still read")
        self.load("q", "own", "first", 2)
        if self.kind != "attention_stats":
            self.text.array("shared", f"shared_f32({tiles.rows * (tiles.columns + 1)})")
            wide = "width" if self.kind == "attention_dq" else "depth"
            self.local("sums", tiles.row_steps * tiles.steps(wide))
            self.fill("sums", tiles.row_steps * tiles.steps(wide), "0")
        if self.kind == "attention_dq":
            self.buffer("own_g", tiles.rows, "depth")
            self.load("g", "own_g", "first", 2)
            self.local("d", tiles.row_steps * tiles.column_steps)
            self.local("lse_row", tiles.row_steps)
            self.local("delta_row", tiles.row_steps)
            self.text.add(2, f"for i in range({tiles.row_steps}):")
            row = f"minimum_i64(first + ty + {SIDE} * i, {self.size('queries')} - 1)"
            for name in ("lse", "delta"):
                self.text.add(3, f"{name}_row[i] = {self.tensors[name].at(row)}")
            return
        for name, value in (("top", "-inf"), ("total", "0")):
            self.local(name, tiles.row_steps)
            self.fill(name, tiles.row_steps, value)

    def tile(self) -> None:
        text = self.text
        text.add(3, "barrier()")
        self.load("k", "other", "column", 3)
        text.add(3, "barrier()")
        self.products("s", "own", "other", "width", 3)
        if self.kind == "attention_dq":
            self.gradient_tile()
            return
        self.probabilities(3, "")
        self.online()
        if self.kind == "attention":
            self.share("s", 3)
            text.add(3, "barrier()")
            self.load("v", "other", "column", 3)
            text.add(3, "barrier()")
            self.tiles.weighted(text, "sums", "shared", "other", "depth", 3)

    def online(self) -> None:
        """The running maximum and sum of every row, and what was summed before on the new scale."""
        text, tiles = self.text, self.tiles
        text.add(3, f"for i in range({tiles.row_steps}):")
        text.add(4, "new = top[i]")
        text.add(4, f"for j in range({tiles.column_steps}):")
        text.add(5, f"new = maximum_f32(new, s[i * {tiles.column_steps} + j])")
        text.add(4, "for step in range(4):")
        text.add(5, "new = maximum_f32(new, shuffle_xor(new, 8 >> step))")
        text.add(4, "base = select(new == float32(-inf), float32(0), new)")
        text.add(4, "keep = exp_f32(top[i] - base)")
        text.add(4, "top[i] = new")
        text.add(4, "row_sum = float32(0)")
        text.add(4, f"for j in range({tiles.column_steps}):")
        text.add(5, f"p = exp_f32(s[i * {tiles.column_steps} + j] - base)")
        text.add(5, "row_sum = row_sum + p")
        text.add(5, f"s[i * {tiles.column_steps} + j] = p{self.drop(5)}")
        text.add(4, "for step in range(4):")
        text.add(5, "row_sum = row_sum + shuffle_xor(row_sum, 8 >> step)")
        text.add(4, "total[i] = total[i] * keep + row_sum")
        if self.kind == "attention":
            steps = tiles.steps("depth")
            text.add(4, f"for n in range({steps}):")
            text.add(5, f"sums[i * {steps} + n] = sums[i * {steps} + n] * keep")

    def gradient_tile(self) -> None:
        """The gradient of a tile's scores, and what it adds to that of the queries."""
        text = self.text
        self.probabilities(3, "lse_row[i]")
        text.add(3, "barrier()")
        self.load("v", "other", "column", 3)
        text.add(3, "barrier()")
        self.products("d", "own_g", "other", "depth", 3)
        self.score_gradients(3, "delta_row[i]")
        self.share("d", 3)
        text.add(3, "barrier()")
        self.load("k", "other", "column", 3)
        text.add(3, "barrier()")
        self.tiles.weighted(text, "sums", "shared", "other", "width", 3)

    def score_gradients(self, indent: int, delta: str) -> None:
        """``d``: p (d - delta); with dropout d is multiplied first, and p, which values are weighted by, after that."""
        text, tiles = self.text, self.tiles
        text.add(indent, f"for i in range({tiles.row_steps}):")
        text.add(indent + 1, f"for j in range({tiles.column_steps}):")
        cell = f"[i * {tiles.column_steps} + j]"
        kept = self.drop(indent + 2)
        text.add(indent + 2, f"d{cell} = s{cell} * (d{cell}{kept} - {delta})")
        if kept:
            text.add(indent + 2, f"s{cell} = s{cell}{kept}")

    def finish(self) -> None:
        text, tiles = self.text, self.tiles
        if self.kind == "attention_dq":
            self.store("sums", "width", "", f" * {self.scale()}")
            return
        if self.kind == "attention":
            # Rows that may see nothing are zeros.
            if self.masked:
                text.add(2, f"for i in range({tiles.row_steps}):")
                text.add(3, "total[i] = select(total[i] == float32(0), float32(inf), total[i])")
            self.store("sums", "depth", "", " / total[i]")
            return
        text.add(2, f"for i in range({tiles.row_steps}):")
        text.add(3, f"row = first + ty + {SIDE} * i")
        text.add(3, f"if (row < {self.size('queries')}) and (tx == 0):")
        text.add(4, "base = select(top[i] == float32(-inf), float32(0), top[i])")
        text.add(4, "found = base + log_f32(total[i])")
        if self.masked:
            text.add(4, "found = select(total[i] == float32(0), float32(inf), found)")
        text.add(4, f"{self.out.at('row')} = found")


class _KeyRows(_QueryRows):
    """A block owns keys: the gradients of keys and values, side by side."""

    keys_are_rows = True

    def before(self) -> None:
        tiles, text = self.tiles, self.text
        for name, rows in (("own", tiles.rows), ("other", tiles.columns)):
            self.buffer(name, rows, "width")
            self.buffer(f"{name}_g", rows, "depth")
        text.array("shared", f"shared_f32({tiles.rows * (tiles.columns + 1)})")
        for name in ("s", "d"):
            self.local(name, tiles.row_steps * tiles.column_steps)
        self.local("a", tiles.row_steps)
        text.add(2, "barrier()", "the block before may still read")
        self.load("k", "own", "first", 2)
        self.load("v", "own_g", "first", 2)
        for wide in ("width", "depth"):
            self.local(f"{wide}_sums", tiles.row_steps * tiles.steps(wide))
            self.fill(f"{wide}_sums", tiles.row_steps * tiles.steps(wide), "0")

    def tile(self) -> None:
        text = self.text
        text.add(3, "barrier()")
        self.load("q", "other", "column", 3)
        self.load("g", "other_g", "column", 3)
        text.add(3, "barrier()")
        self.products("s", "own", "other", "width", 3)
        query = f"minimum_i64(column + tx + {SIDE} * j, {self.size('queries')} - 1)"
        self.probabilities(3, self.tensors["lse"].at(query))
        self.products("d", "own_g", "other_g", "depth", 3)
        self.score_gradients(3, self.tensors["delta"].at(query))
        self.share("s", 3)
        text.add(3, "barrier()")
        self.tiles.weighted(text, "depth_sums", "shared", "other_g", "depth", 3)
        text.add(3, "barrier()")
        self.share("d", 3)
        text.add(3, "barrier()")
        self.tiles.weighted(text, "width_sums", "shared", "other", "width", 3)

    def finish(self) -> None:
        self.store("width_sums", "width", "", f" * {self.scale()}")
        self.store("depth_sums", "depth", f"{self.size('width')} + ", "")
